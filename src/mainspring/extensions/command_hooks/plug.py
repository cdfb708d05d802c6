"""The plugin: runs commands at the hooks of an agent."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from mainspring.errors import ConfigError
from mainspring.events import ContextCompacted, SubagentEnd
from mainspring.extensions.command_hooks.config import CommandEvent, CommandHook, hook_tool_names
from mainspring.extensions.command_hooks.protocol import (
    MAX_OUTPUT_CHARS,
    Common,
    NotificationInput,
    Payload,
    PostCompactInput,
    PostToolUseFailureInput,
    PostToolUseInput,
    PreToolUseInput,
    SessionEndInput,
    SessionStartInput,
    StopInput,
    SubagentStopInput,
    ToolResponse,
    UserPromptSubmitInput,
    Verdict,
)
from mainspring.extensions.command_hooks.runner import HookCommandRunner
from mainspring.extensions.context import NonInteractiveUI, UserInterface
from mainspring.loop import Plugin
from mainspring.loop.hooks import (
    BeforeRun,
    PermissionCheck,
    PromptSubmitted,
    RunPaused,
    SessionClosed,
    SessionOpen,
    SessionStart,
    ToolBefore,
    ToolResultsAfter,
    ToolTransform,
    TurnAfter,
    TurnBefore,
)
from mainspring.messages import Message, TextBlock
from mainspring.text import truncate_middle
from mainspring.tools import ToolOutput

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent


class _CallReview(Struct, eq=False):
    """The verdicts about a call so far.

    Attributes:
        input: The arguments that the commands received.
        verdicts: Their verdicts.
        changer: The command whose arguments were used, with those arguments.
    """

    input: dict[str, Any]
    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    changer: Verdict | None = None


class ToolCallHooks:
    """The handlers of `CommandHooks` for tool calls.

    Commands receive a call once its arguments are valid. If a command or another handler changes it afterwards, the commands that
    did not receive its final form run again, right before execution; nothing can change the call after that.

    Args:
        runner: Runs the commands.
        ui: Asks and notifies the user.
        common: Returns the common fields of every payload.
        stop: Stops the run at the next turn.
        publish: Reports a verdict's message to the user, and its failure.
    """

    def __init__(
        self,
        runner: HookCommandRunner,
        ui: UserInterface,
        common: Callable[[], Common],
        stop: Callable[[str], None],
        publish: Callable[[Verdict], None],
    ) -> None:
        self._runner = runner
        self._ui = ui
        self._common = common
        self._stop = stop
        self._publish = publish
        self._judged: dict[str, _CallReview] = {}
        self._contexts: list[str] = []

    # --- before -----------------------------------------------------------------------------------------------------

    async def before(self, hook: ToolBefore) -> None:
        """Run the commands for a call whose arguments are valid; they may change the arguments."""
        request = self._runner.hooks_for("PreToolUse", hook_tool_names(hook.name))
        judged = _CallReview(copy.deepcopy(hook.input))
        judged.verdicts = await self._ask(request, hook, hook.input)
        for verdict in judged.verdicts:
            if verdict.input is not None and verdict.deny is None:
                judged.changer = verdict
                hook.input = copy.deepcopy(verdict.input)
        self._judged[hook.call_id] = judged

    async def permit(self, hook: PermissionCheck) -> None:
        """Run the commands again if the call has changed, and deny it if any command denies it. A failure is not consent."""
        request = self._runner.hooks_for("PreToolUse", hook_tool_names(hook.name))
        judged = self._judged.pop(hook.call_id, None)
        verdicts = list(judged.verdicts) if judged else []
        if judged is None or hook.input != judged.input:
            changer = judged.changer if judged else None
            knows = changer.hook if changer is not None and changer.input == hook.input else None
            verdicts += await self._ask([h for h in request if h is not knows], hook, hook.input)
        for verdict in verdicts:
            self._publish(verdict)
            if verdict.context:
                self._contexts.append(verdict.context)
        for verdict in verdicts:
            if self._refused(verdict, hook):
                return
        if hook.approved:
            return
        for verdict in verdicts:
            if verdict.ask is not None and not await self._ui.confirm(f"{hook.name}: {verdict.ask}", str(hook.input)):
                reason = (
                    "the user denied it" if self._ui.is_attended else "it needs confirmation, and no user is available"
                )
                hook.deny(f"{reason} ({verdict.ask})")
                return

    def _refused(self, verdict: Verdict, hook: PermissionCheck) -> bool:
        refusal = verdict.refusal if verdict.stop is None else verdict.stop
        if refusal is None:
            return False
        hook.deny(refusal, stop=verdict.stop is not None)
        return True

    async def _ask(
        self, hooks_for: Iterable[CommandHook], hook: ToolBefore | PermissionCheck, arguments: dict[str, Any]
    ) -> list[Verdict]:
        hooks = list(hooks_for)
        if not hooks:
            return []
        payload = PreToolUseInput(**self._common(), tool_name=hook.name, tool_input=arguments, tool_use_id=hook.call_id)
        return await self._runner.ask(hooks, payload)

    # --- after ------------------------------------------------------------------------------------------------------

    async def after(self, hook: ToolTransform) -> None:
        """Send a result to the commands.

        Their text is appended to the result; a failure changes nothing.
        """
        failed = hook.result.is_error
        request = self._runner.hooks_for("PostToolUseFailure" if failed else "PostToolUse", hook_tool_names(hook.name))
        if not request:
            return
        text = truncate_middle(_text(hook.result.output), MAX_OUTPUT_CHARS // 2, MAX_OUTPUT_CHARS // 2, "\n[...]\n")
        fields: dict[str, Any] = {
            **self._common(),
            "tool_name": hook.name,
            "tool_input": hook.input,
            "tool_use_id": hook.call_id,
            "tool_response": ToolResponse(output=text, is_error=failed, title=hook.result.title),
        }
        payload: Payload = PostToolUseFailureInput(**fields, error=text) if failed else PostToolUseInput(**fields)
        for verdict in await self._runner.ask(request, payload):
            self._publish(verdict)
            if verdict.output is not None:
                hook.result.output = verdict.output
            self._contexts += [said for said in (verdict.deny, verdict.context) if said]
            if verdict.stop is not None:
                self._stop(verdict.stop)

    def results(self, hook: ToolResultsAfter) -> None:
        """Append the commands' messages to the model to the results."""
        contexts, self._contexts = self._contexts, []
        self._judged.clear()
        if contexts:
            hook.follow.append(context_message(contexts))


def context_message(texts: Iterable[str]) -> Message:
    """Create the message with the context that commands add for the model."""
    from_hooks = "\n\n".join(texts)
    return Message.user(f"<hook-context>\n{from_hooks}\n</hook-context>")


def _text(output: ToolOutput) -> str:
    if isinstance(output, str):
        return output
    return "\n".join(block.text for block in output if isinstance(block, TextBlock))


logger = logging.getLogger("mainspring")


CHANGED = 60
"""Order among handlers that run after changes: after extensions, before storage."""


PERMIT = -60
"""Order at `tool:permit`: before permissions, so that no approval is requested for a call that a command denies."""


MAX_STOP_CONTINUATIONS = 8
"""Maximum number of times that `Stop` hooks may continue one run; it ends endless loops."""


_SOURCES = {"startup": "startup", "resume": "resume", "reset": "clear", "reload": "reload"}
_OF_CALLS: frozenset[CommandEvent] = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})


class CommandHooks(Plugin):
    """Runs commands as hooks: the event is JSON on standard input, and the exit code and output contain the decision.

    A command that fails, times out, or returns invalid output does not consent: the tool call or prompt is denied. If nothing has
    to be decided, the failure is reported and the run continues.

    Args:
        hooks: The commands.
        ui: Asks and notifies the user. Default: no user.
        transcript: File of the session, for commands that read it.
        depth: Nesting depth of this process in hooks (``$MAINSPRING_HOOK_DEPTH``).
    """

    def __init__(
        self, hooks: Iterable[CommandHook], *, ui: UserInterface | None = None, transcript: str = "", depth: int = 0
    ) -> None:
        self.hooks = tuple(hooks)
        self._ui = ui or NonInteractiveUI()
        self._transcript = transcript
        self._depth = depth
        self._agent: CoreAgent | None = None
        self._waiting: list[str] = []
        self._stopped = ""
        self._stops = 0

    # --- as a plugin ------------------------------------------------------------------------------------------------

    def install(self, agent: CoreAgent) -> None:
        """Listen to the events of the commands.

        Raises:
            ConfigError: If it is installed in another agent.
        """
        if self._agent is not None:
            raise ConfigError("This CommandHooks belongs to another agent. Create one for each agent.")
        self._agent = agent
        self._runner = HookCommandRunner(self.hooks, agent.env, self._depth)
        requested: set[CommandEvent] = {hook.event for hook in self.hooks}
        if not requested:
            return
        agent.on(TurnBefore, self._turn, order=CHANGED)
        if requested & _OF_CALLS:
            self._listen_to_calls(agent, requested)
        if requested & {"SessionStart", "UserPromptSubmit"}:
            agent.on(BeforeRun, self._before, order=CHANGED)
        if "SessionStart" in requested:
            agent.on(SessionOpen, self._opened, order=CHANGED)
        if "UserPromptSubmit" in requested:
            agent.on(PromptSubmitted, self._input, order=CHANGED)
        if "Stop" in requested:
            agent.on(SessionStart, self._begin)
            agent.on(TurnAfter, self._answered, order=CHANGED)
        if "SubagentStop" in requested:
            agent.on(SubagentEnd, self._spawned, order=CHANGED)
        if "Notification" in requested:
            agent.on(RunPaused, self._paused, order=CHANGED)
        if "PostCompact" in requested:
            agent.on(ContextCompacted, self._compacted, order=CHANGED)
        if "SessionEnd" in requested:
            agent.on(SessionClosed, self._shut, order=CHANGED)

    def _listen_to_calls(self, agent: CoreAgent, events: set[CommandEvent]) -> None:
        calls = ToolCallHooks(self._runner, self._ui, self._common, self._stop, self._publish)
        if "PreToolUse" in events:
            agent.on(ToolBefore, calls.before, order=CHANGED)
            agent.on(PermissionCheck, calls.permit, order=PERMIT)
        if events & {"PostToolUse", "PostToolUseFailure"}:
            agent.on(ToolTransform, calls.after, order=CHANGED)
        agent.on(ToolResultsAfter, calls.results, order=CHANGED)

    def for_child(self) -> Plugin | None:
        """Return the plugin for a subagent: its calls go to the same commands."""
        hooks = [h for h in self.hooks if h.event in _OF_CALLS]
        return CommandHooks(hooks, ui=self._ui, transcript=self._transcript, depth=self._depth) if hooks else None

    def for_conversation(self) -> Plugin:
        """Return the plugin for another conversation: the same commands."""
        return CommandHooks(self.hooks, ui=self._ui, transcript=self._transcript, depth=self._depth)

    # --- around runs ------------------------------------------------------------------------------------------------

    async def _opened(self, hook: SessionOpen) -> None:
        source = _SOURCES[hook.reason]
        payload = SessionStartInput(**self._common(), source=source)  # pyright: ignore[reportArgumentType] - a valid source
        for verdict in await self._ask("SessionStart", payload, source):
            self._keep(verdict)

    async def _input(self, hook: PromptSubmitted) -> None:
        for verdict in await self._ask("UserPromptSubmit", UserPromptSubmitInput(**self._common(), prompt=hook.text)):
            rejected = verdict.refusal or verdict.stop or verdict.ask
            if rejected is not None:
                hook.block = rejected
            else:
                self._keep(verdict)
        if hook.block:
            self._waiting = []

    def _before(self, hook: BeforeRun) -> None:
        contexts, self._waiting = self._waiting, []
        if contexts:
            hook.messages.append(context_message(contexts))

    def _turn(self, hook: TurnBefore) -> None:
        reason, self._stopped = self._stopped, ""
        if reason:
            hook.stop = "denied"
            self._ui.notify(f"A hook stopped the run: {reason}", "warn")

    def _begin(self, hook: SessionStart) -> None:
        self._stops = 0

    async def _answered(self, hook: TurnAfter) -> None:
        """Handle the end of a run; a command may continue the run."""
        if hook.error is not None or hook.message.tool_uses or hook.continue_with:
            return
        payload = StopInput(
            **self._common(), stop_hook_active=self._stops > 0, last_assistant_message=hook.message.text
        )
        reasons = [v.deny for v in await self._ask("Stop", payload) if v.deny and v.stop is None]
        if not reasons:
            return
        self._stops += 1
        if self._stops > MAX_STOP_CONTINUATIONS:
            self._ui.notify(f"Stop hooks continued the run {MAX_STOP_CONTINUATIONS} times. It stops now.", "warn")
        else:
            hook.continue_with = "\n\n".join(reasons)

    async def _spawned(self, event: SubagentEnd) -> None:
        text = event.text if event.exception is None else str(event.exception)
        payload = SubagentStopInput(
            **self._common(),
            agent_id=event.id,
            agent_type=event.name,
            status=event.stats.status,
            last_assistant_message=text,
        )
        for verdict in await self._ask("SubagentStop", payload, event.name):
            self._keep(verdict)

    async def _paused(self, hook: RunPaused) -> None:
        message = "; ".join(dict.fromkeys(hook.reasons.values()))
        await self._ask("Notification", NotificationInput(**self._common(), message=message), "permission_prompt")

    async def _compacted(self, hook: ContextCompacted) -> None:
        payload = PostCompactInput(
            **self._common(), trigger=hook.reason, messages_before=hook.before, messages_after=hook.after
        )
        await self._ask("PostCompact", payload, hook.reason)

    async def _shut(self, hook: SessionClosed) -> None:
        await self._ask("SessionEnd", SessionEndInput(**self._common(), reason=hook.reason), hook.reason)

    # --- execution --------------------------------------------------------------------------------------------------

    async def _ask(self, event: CommandEvent, payload: Payload, *names: str) -> list[Verdict]:
        request = self._runner.hooks_for(event, names)
        verdicts = await self._runner.ask(request, payload) if request else []
        for verdict in verdicts:
            self._publish(verdict)
        return verdicts

    def _keep(self, verdict: Verdict) -> None:
        """Store the context for the next run of the model, and the request to stop."""
        if verdict.context:
            self._waiting.append(verdict.context)
        if verdict.stop is not None:
            self._stop(verdict.stop)

    def _stop(self, reason: str) -> None:
        self._stopped = reason

    def _publish(self, verdict: Verdict) -> None:
        if verdict.message:
            self._ui.notify(verdict.message, "info")
        if verdict.failure:
            hook = verdict.hook
            logger.warning("The hook %r of %s failed: %s", hook.command, hook.event, verdict.failure)
            if not hook.fails_closed:  # a gate reports it in its denial
                self._ui.notify(f"The hook {hook.command!r} of {hook.event} failed: {verdict.failure}", "warn")

    def _common(self) -> Common:
        assert self._agent is not None
        agent = self._agent
        return {
            "session_id": agent.session_id,
            "transcript_path": self._transcript,
            "cwd": agent.env.cwd,
            "agent": agent.name,
        }
