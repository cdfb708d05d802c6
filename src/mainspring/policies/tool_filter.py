"""Offer other tools in each turn, by a function of the context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.loop.hooks import ToolGate, TurnBefore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mainspring.loop.agent import CoreAgent
    from mainspring.messages import ToolDefinition

_ORDER = 40  # after handlers that choose tools, before the tool of a structured output is added


class ToolFilter:
    """Plugin that chooses the tools of each turn, of this process and of MCP servers.

    A call of a tool that the turn does not offer is rejected. As long as the choice stays the same, so does the beginning of the
    request, and the host's prompt cache is used; a turn with another choice pays for the whole prompt once.

    Args:
        choose: Function that returns True if a turn offers a tool. It gets the context of the turn and the definition of the tool.
    """

    def __init__(self, choose: Callable[[TurnBefore, ToolDefinition], bool]) -> None:
        self._choose = choose
        self._offered: tuple[ToolDefinition, ...] = ()
        self._hidden: frozenset[str] = frozenset()

    def install(self, agent: CoreAgent) -> None:
        """Attach to the hooks of an agent."""
        agent.bus.on(TurnBefore, self._on_turn_before, order=_ORDER)
        agent.bus.on(ToolGate, self._on_tool_gate)

    def for_child(self) -> ToolFilter:
        """Return the filter for a subagent, with the same function."""
        return ToolFilter(self._choose)

    def _on_turn_before(self, hook: TurnBefore) -> None:
        tools: Sequence[ToolDefinition] = hook.request.tools
        offered = tuple([each for each in tools if self._choose(hook, each)])
        self._hidden = frozenset(each.name for each in tools) - {each.name for each in offered}
        if offered != self._offered:  # otherwise the same object, so that it is encoded once
            self._offered = offered
        hook.request = replace(hook.request, tools=self._offered)

    def _on_tool_gate(self, hook: ToolGate) -> None:
        if hook.name in self._hidden:
            hook.block = f"The tool {hook.name} is not available in this turn."
