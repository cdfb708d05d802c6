"""Limits on the calls of a tool per run, and on the bytes that tools return per turn."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from mainspring.events import LimitWarning
from mainspring.loop.hooks import (
    ToolFinished,
    ToolGate,
    ToolResultsAfter,
    TurnAfter,
)
from mainspring.loop.policy import ORDER_TOOL_BUDGETS, PolicyContext, PolicyHandlers
from mainspring.messages import Message
from mainspring.options import Options, is_named_mapping, option

if TYPE_CHECKING:
    from mainspring.loop import HookBus


ExceedAction = Mapping[str, str] | None
"""What happens to a call over its budget: ``{"mode": "block" or "steer", "message": ...}``.

``None`` allows it.
"""


ExceedHandler = Literal["block", "steer"] | Callable[[str, int, int], ExceedAction | Awaitable[ExceedAction]]


class ToolBudget(Struct, frozen=True):
    """How often a tool may be called in a run, and what happens to further calls.

    Attributes:
        max: Maximum number of calls.
        on_exceed: ``block``: further calls are blocked. ``steer``: they run, and once in a run a user message after the
            results asks the model to stop. A function of the tool's name, the number of this call, and ``max`` returns
            ``mode`` and ``message``; sync or async. Default ``block``.
    """

    max: Annotated[int, Meta(ge=0)]
    on_exceed: ExceedHandler = "block"

    def find_problem(self) -> str:
        """Return the problem with ``on_exceed``; empty if it is valid."""
        if self.on_exceed in ("block", "steer") or callable(self.on_exceed):
            return ""
        return f"on_exceed must be 'block' or 'steer', or a function, not {self.on_exceed!r:.80}"


def _is_tool_budgets(value: object) -> bool:
    return is_named_mapping(value, lambda each: isinstance(each, ToolBudget) or (type(each) is int and each >= 0))


class ToolBudgetOptions(Options, page="run-options.md#limits-of-tools"):
    """Options of the limits of tools."""

    tool_budgets: Mapping[str, int | ToolBudget] = option(
        default={},
        doc="Maximum number of calls of a tool in a run: a number, or a `ToolBudget`.",
        check=(_is_tool_budgets, "a number of calls, or a ToolBudget, for each tool by its name"),
        names_tools=True,
    )
    tool_output_budget: int | None = option(
        default=None, ge=0, doc="Bytes of results in one turn from which on the model must summarize first."
    )


def tool_budget_handlers(options: ToolBudgetOptions, run: PolicyContext) -> PolicyHandlers:
    """Return the handlers of the limits of tools."""
    if options.tool_budgets:
        calls = ToolBudgets(options.tool_budgets, run.agent.bus)
        yield ORDER_TOOL_BUDGETS, {TurnAfter: calls.turn, ToolGate: calls.on_tool_gate, ToolResultsAfter: calls.results}
    if options.tool_output_budget is not None:
        output = ToolOutputBudget(options.tool_output_budget, run.agent.bus)
        yield (
            ORDER_TOOL_BUDGETS,
            {TurnAfter: output.turn, ToolFinished: output.on_tool_after, ToolResultsAfter: output.results},
        )


def stricter_tool_budgets(
    own: Mapping[str, int | ToolBudget], others: Mapping[str, int | ToolBudget]
) -> Mapping[str, int | ToolBudget]:
    """Return the budgets of two agents for a run of the first one: for each tool the one with fewer calls."""

    def max_calls(budget: int | ToolBudget) -> int:
        return budget.max if isinstance(budget, ToolBudget) else budget

    return {**others, **{n: min(b, others.get(n, b), key=max_calls) for n, b in own.items()}}


class ToolBudgets:
    """Counts calls when they are admitted, so that the calls of one response cannot exceed the limit together.

    Args:
        budgets: A number of calls, or a `ToolBudget`, by tool.
        bus: The bus that is notified of each call over the limit.
    """

    def __init__(self, budgets: Mapping[str, int | ToolBudget], bus: HookBus) -> None:
        self._budgets = {n: ToolBudget(b) if isinstance(b, int) else b for n, b in budgets.items()}
        self._bus = bus
        self._counts: Mapping[str, int] = {}
        self._admitted: Counter[str] = Counter()
        self._steered: set[str] = set()
        self._messages: list[str] = []
        self._turn = 0

    def turn(self, hook: TurnAfter) -> None:
        """Handle `turn:after`: subtract calls that were admitted but not executed."""
        self._turn, self._counts = hook.turn, hook.tool_counts
        self._admitted.clear()

    async def on_tool_gate(self, hook: ToolGate) -> None:
        """Handle `tool:gate`."""
        name, budget = hook.name, self._budgets.get(hook.name)
        if budget is None or hook.block:
            return
        if hook.result is not None:  # counted, but an application's handler decided
            self._admitted[name] += 1
            return
        count = self._counts.get(name, 0) + self._admitted[name] + 1
        mode = "" if count <= budget.max else await self._handle_exceeded(hook, budget, count)
        if mode != "block":
            self._admitted[name] += 1

    def results(self, hook: ToolResultsAfter) -> None:
        """Handle `tool-results:after`: append the notices for the model to the results."""
        hook.follow += [Message.user(text) for text in self._messages]
        self._messages.clear()

    async def _handle_exceeded(self, hook: ToolGate, budget: ToolBudget, count: int) -> str:
        mode, text = await _resolve_action(hook, budget, count)
        if mode:
            warning = LimitWarning(
                "tool_calls",
                "run",
                count,
                budget.max,
                exceeded=True,
                tool=hook.name,
                mode=mode,
                turn=self._turn,
                turn_id=hook.turn_id,
            )
            await self._bus.notify(warning)
        if mode == "block":
            hook.block = text
        elif mode == "steer" and hook.name not in self._steered:
            self._steered.add(hook.name)
            self._messages.append(text)
        return mode


async def _resolve_action(hook: ToolGate, budget: ToolBudget, count: int) -> tuple[str, str]:
    """Return the action for a call over the budget and the notice for the model.

    No mode allows the call.
    """
    mode, text = budget.on_exceed, ""
    if not isinstance(mode, str):
        answer = mode(hook.name, count, budget.max)
        answer = await answer if inspect.isawaitable(answer) else answer
        if answer is None:
            return "", ""
        mode, text = answer.get("mode", "block"), answer.get("message", "")
    times = f"{budget.max} call{'' if budget.max == 1 else 's'}"
    if mode == "steer":
        notice = f"[Tool budget exceeded: {hook.display_name} has had its {times} in this run. Do not call it again; work with the results that you have.]"
        return mode, text or notice
    return "block", text or f"{hook.display_name} has had its {times} in this run; continue without it"


REMINDER = (
    "[Tool output budget exceeded: {bytes} bytes returned in this turn (cap: {cap}). Summarize the salient findings before "
    "calling more tools.]"
)


class ToolOutputBudget:
    """Counts the bytes of results that the model gets, and adds a notice in a turn with too many.

    Args:
        cap: Maximum number of bytes per turn.
        bus: The bus that is notified of each turn over the limit.
    """

    def __init__(self, cap: int, bus: HookBus) -> None:
        self._cap = cap
        self._bus = bus
        self._bytes = 0
        self._turn, self._turn_id = 0, ""

    def turn(self, hook: TurnAfter) -> None:
        """Handle `turn:after`."""
        self._turn = hook.turn

    def on_tool_after(self, hook: ToolFinished) -> None:
        """Handle `tool:after`."""
        self._bytes += hook.output_bytes
        self._turn_id = hook.turn_id

    async def results(self, hook: ToolResultsAfter) -> None:
        """Handle `tool-results:after`."""
        size, self._bytes = self._bytes, 0
        if size <= self._cap:
            return
        hook.follow.append(Message.user(REMINDER.format(bytes=size, cap=self._cap)))
        warning = LimitWarning(
            "tool_output", "turn", size, self._cap, exceeded=True, turn=self._turn, turn_id=self._turn_id
        )
        await self._bus.notify(warning)
