"""Commands that are asked about tool calls: before they are made, and about what they gave."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct, field

from mainspring.extensions.command_hooks.config import CommandHook, tool_names
from mainspring.extensions.command_hooks.protocol import (
    Common,
    Payload,
    PostToolUseFailureInput,
    PostToolUseInput,
    PreToolUseInput,
    ToolResponse,
    Verdict,
    truncate_middle,
)
from mainspring.extensions.command_hooks.runner import CommandRunner
from mainspring.extensions.ui import UserInterface
from mainspring.loop.hooks import PermissionCheck, ToolBefore, ToolResultsAfter, ToolTransform
from mainspring.messages import Message, TextBlock
from mainspring.tools import ToolOutput


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
        tell: Passes on what a verdict says to the user, and that it failed.
    """

    def __init__(
        self,
        runner: CommandRunner,
        ui: UserInterface,
        common: Callable[[], Common],
        stop: Callable[[str], None],
        tell: Callable[[Verdict], None],
    ) -> None:
        self._runner = runner
        self._ui = ui
        self._common = common
        self._stop = stop
        self._tell = tell
        self._judged: dict[str, _CallReview] = {}
        self._contexts: list[str] = []

    # --- before -----------------------------------------------------------------------------------------------------

    async def before(self, hook: ToolBefore) -> None:
        """Ask about a call whose arguments are valid; they may be changed."""
        asked = self._runner.asked("PreToolUse", tool_names(hook.name))
        judged = _CallReview(copy.deepcopy(hook.input))
        judged.verdicts = await self._ask(asked, hook, hook.input)
        for verdict in judged.verdicts:
            if verdict.input is not None and verdict.deny is None:
                judged.changer = verdict
                hook.input = copy.deepcopy(verdict.input)
        self._judged[hook.call_id] = judged

    async def permit(self, hook: PermissionCheck) -> None:
        """Ask again where the call is another one now, and refuse what anybody refuses. What failed has not agreed."""
        asked = self._runner.asked("PreToolUse", tool_names(hook.name))
        judged = self._judged.pop(hook.call_id, None)
        verdicts = list(judged.verdicts) if judged else []
        if judged is None or hook.input != judged.input:
            changer = judged.changer if judged else None
            knows = changer.hook if changer is not None and changer.input == hook.input else None
            verdicts += await self._ask([h for h in asked if h is not knows], hook, hook.input)
        for verdict in verdicts:
            self._tell(verdict)
            if verdict.context:
                self._contexts.append(verdict.context)
        for verdict in verdicts:
            if self._refused(verdict, hook):
                return
        if hook.approved:
            return
        for verdict in verdicts:
            if verdict.ask is not None and not await self._ui.confirm(f"{hook.name}: {verdict.ask}", str(hook.input)):
                said = "the user said no" if self._ui.attended else "it needs confirmation, and nobody can be asked"
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
        asked = self._runner.asked("PostToolUseFailure" if failed else "PostToolUse", tool_names(hook.name))
        if not asked:
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
        for verdict in await self._runner.ask(asked, payload):
            self._tell(verdict)
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
