"""The plug: commands are asked at the hooks of an agent."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from mainspring.errors import ConfigError
from mainspring.extensions.command_hooks.config import CommandEvent, CommandHook, hook_tool_names
from mainspring.extensions.command_hooks.protocol import (
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
    truncate_middle,
)
from mainspring.extensions.command_hooks.runner import HookCommandRunner
from mainspring.extensions.context import NonInteractiveUI, UserInterface
from mainspring.loop import Plugin
from mainspring.loop.hooks import (
    BeforeRun,
    ContextCompacted,
    PermissionCheck,
    PromptSubmitted,
    RunPaused,
    SessionClosed,
    SessionOpen,
    SessionStart,
    SpawnComplete,
    SpawnError,
    ToolBefore,
    ToolResultsAfter,
    ToolTransform,
    TurnAfter,
    TurnBefore,
)
from mainspring.messages import Message, TextBlock
from mainspring.tools import ToolOutput

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent


class _CallReview(Struct, eq=False):
    """What was said of a call so far.

    Attributes:
        input: The arguments that the commands saw.
        verdicts: What they said.
        changer: The one whose arguments were taken, with those arguments.
    """

    input: dict[str, Any]
    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    changer: Verdict | None = None


class ToolCallHooks:
    """The part of `CommandHooks` that is about tool calls.

    A call is shown to the commands once its arguments are valid. Where it is changed afterwards, by one of them or by anybody else,
    those that did not see its final form are asked again, right before it is made; nothing can change it then.

    Args:
        runner: Asks.
        ui: Asks and tells the person.
        common: What every payload has.
        stop: Ends the run at the next turn.
        publish: Passes on what a verdict says to the user, and that it failed.
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
        """Ask about a call whose arguments are valid; they may be changed."""
        request = self._runner.asked("PreToolUse", hook_tool_names(hook.name))
        judged = _CallReview(copy.deepcopy(hook.input))
        judged.verdicts = await self._ask(request, hook, hook.input)
        for verdict in judged.verdicts:
            if verdict.input is not None and verdict.deny is None:
                judged.changer = verdict
                hook.input = copy.deepcopy(verdict.input)
        self._judged[hook.call_id] = judged

    async def permit(self, hook: PermissionCheck) -> None:
        """Ask again where the call is another one now, and refuse what anybody refuses. What failed has not agreed."""
        request = self._runner.asked("PreToolUse", hook_tool_names(hook.name))
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
                said = "the user said no" if self._ui.is_attended else "it needs confirmation, and nobody can be asked"
                hook.deny(f"{said} ({verdict.ask})")
                return

    def _refused(self, verdict: Verdict, hook: PermissionCheck) -> bool:
        refusal = verdict.refusal if verdict.stop is None else verdict.stop
        if refusal is None:
            return False
        hook.deny(refusal, stop=verdict.stop is not None)
        return True

    async def _ask(
        self, asked: Iterable[CommandHook], hook: ToolBefore | PermissionCheck, arguments: dict[str, Any]
    ) -> list[Verdict]:
        hooks = list(asked)
        if not hooks:
            return []
        payload = PreToolUseInput(**self._common(), tool_name=hook.name, tool_input=arguments, tool_use_id=hook.call_id)
        return await self._runner.ask(hooks, payload)

    # --- behind -----------------------------------------------------------------------------------------------------

    async def after(self, hook: ToolTransform) -> None:
        """Tell what a call gave. What a command says to it is put behind the result; its failure changes nothing."""
        failed = hook.result.is_error
        request = self._runner.asked("PostToolUseFailure" if failed else "PostToolUse", hook_tool_names(hook.name))
        if not request:
            return
        text = truncate_middle(_text(hook.result.output))
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
        """Let what commands said to the model join behind the results."""
        said, self._contexts = self._contexts, []
        self._judged.clear()
        if said:
            hook.follow.append(context_message(said))


def context_message(texts: Iterable[str]) -> Message:
    """What commands want the model to know."""
    from_hooks = "\n\n".join(texts)
    return Message.user(f"<hook-context>\n{from_hooks}\n</hook-context>")


def _text(output: ToolOutput) -> str:
    if isinstance(output, str):
        return output
    return "\n".join(block.text for block in output if isinstance(block, TextBlock))


logger = logging.getLogger("mainspring")


CHANGED = 60
"""The order of commands among those that see what others have changed: behind extensions, before what is stored."""


PERMIT = -60
"""Their order at `tool:permit`: before permissions, so that nobody is asked about a call that a command refuses."""


MAX_STOP_CONTINUATIONS = 8
"""How often in one run `Stop` may have the agent go on; more is a hook that never has enough."""


_SOURCES = {"startup": "startup", "resume": "resume", "reset": "clear", "reload": "reload"}
_OF_CALLS: frozenset[CommandEvent] = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})


class CommandHooks(Plugin):
    """Asks commands: what happens goes to their standard input as JSON, what they decide comes from their exit code and output.

    A command that fails, takes too long or cannot be understood has not agreed: a tool call or a prompt is refused then. Where
    nothing is to be decided the failure is told, and the run goes on.

    Args:
        hooks: The commands.
        ui: Asks and tells the person. Default: nobody is there.
        transcript: File of the conversation, for commands that read it.
        depth: In how many hooks this process itself runs (``$MAINSPRING_HOOK_DEPTH``).
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

    # --- as a plug --------------------------------------------------------------------------------------------------

    def install(self, agent: CoreAgent) -> None:
        """Listen to what there are commands for.

        Raises:
            ConfigError: If it is in another agent already.
        """
        if self._agent is not None:
            raise ConfigError("these CommandHooks belong to another agent; make one for each")
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
            agent.on(SpawnComplete, self._spawned, order=CHANGED)
            agent.on(SpawnError, self._spawned, order=CHANGED)
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
        """A sub-agent's calls are shown to the same commands."""
        hooks = [h for h in self.hooks if h.event in _OF_CALLS]
        return CommandHooks(hooks, ui=self._ui, transcript=self._transcript, depth=self._depth) if hooks else None

    # --- around runs ------------------------------------------------------------------------------------------------

    async def _opened(self, hook: SessionOpen) -> None:
        source = _SOURCES[hook.reason]
        payload = SessionStartInput(**self._common(), source=source)  # pyright: ignore[reportArgumentType] - one of them
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
        said, self._waiting = self._waiting, []
        if said:
            hook.messages.append(context_message(said))

    def _turn(self, hook: TurnBefore) -> None:
        reason, self._stopped = self._stopped, ""
        if reason:
            hook.stop = "denied"
            self._ui.notify(f"a hook ended the run: {reason}", "warn")

    def _begin(self, hook: SessionStart) -> None:
        self._stops = 0

    async def _answered(self, hook: TurnAfter) -> None:
        """The agent would stop; a command may have it go on."""
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
            self._ui.notify(f"hooks of Stop had the run go on {MAX_STOP_CONTINUATIONS} times; it ends now", "warn")
        else:
            hook.continue_with = "\n\n".join(reasons)

    async def _spawned(self, hook: SpawnComplete | SpawnError) -> None:
        text = hook.text if isinstance(hook, SpawnComplete) else str(hook.error)
        payload = SubagentStopInput(
            **self._common(),
            agent_id=hook.child_id,
            agent_type=hook.child,
            status=hook.status,
            last_assistant_message=text,
        )
        for verdict in await self._ask("SubagentStop", payload, hook.child):
            self._keep(verdict)

    async def _paused(self, hook: RunPaused) -> None:
        message = "; ".join(dict.fromkeys(hook.reasons.values()))
        await self._ask("Notification", NotificationInput(**self._common(), message=message), "permission_prompt")

    async def _compacted(self, hook: ContextCompacted) -> None:
        payload = PostCompactInput(
            **self._common(), trigger=hook.reason, messages_before=len(hook.before), messages_after=len(hook.after)
        )
        await self._ask("PostCompact", payload, hook.reason)

    async def _shut(self, hook: SessionClosed) -> None:
        await self._ask("SessionEnd", SessionEndInput(**self._common(), reason=hook.reason), hook.reason)

    # --- asking -----------------------------------------------------------------------------------------------------

    async def _ask(self, event: CommandEvent, payload: Payload, *names: str) -> list[Verdict]:
        request = self._runner.asked(event, names)
        verdicts = await self._runner.ask(request, payload) if request else []
        for verdict in verdicts:
            self._publish(verdict)
        return verdicts

    def _keep(self, verdict: Verdict) -> None:
        """Take what is for the model along to the next run, and the wish to end it."""
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
            logger.warning("the hook %r of %s failed: %s", hook.command, hook.event, verdict.failure)
            if not hook.fails_closed:  # a gate says it where it refuses
                self._ui.notify(f"the hook {hook.command!r} of {hook.event} failed: {verdict.failure}", "warn")

    def _common(self) -> Common:
        assert self._agent is not None
        agent = self._agent
        return {
            "session_id": agent.session_id,
            "transcript_path": self._transcript,
            "cwd": agent.env.cwd,
            "agent": agent.name,
        }
