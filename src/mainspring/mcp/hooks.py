"""The hooks of calls to servers: fired right after the tool hooks that they derive from, for tools with a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainspring.loop.hooks import (
    HookBus,
    McpToolAfter,
    McpToolBefore,
    McpToolGate,
    McpToolTransform,
    ToolAfter,
    ToolBefore,
    ToolGate,
    ToolTransform,
)
from mainspring.mcp.tools import server_of_tool

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.tools import Tool

GATE, AFTER = 45, 70
"""Behind what an application and its budgets say, before large results are put aside."""


def derive(agent: CoreAgent, find: Callable[[str], Tool | None]) -> None:
    """Have an agent fire them.

    Args:
        agent: The agent.
        find: Gives a tool by its name.
    """
    handlers = _Derived(agent.bus, find)
    agent.on(ToolGate, handlers.gate, order=GATE)
    agent.on(ToolBefore, handlers.before, order=AFTER)
    agent.on(ToolTransform, handlers.transform, order=AFTER)
    agent.on(ToolAfter, handlers.after, order=AFTER)


class _Derived:
    def __init__(self, bus: HookBus, find: Callable[[str], Tool | None]) -> None:
        self._bus = bus
        self._find = find

    def _server(self, name: str) -> str | None:
        tool = self._find(name)
        return server_of_tool(tool) if tool is not None else None

    async def gate(self, hook: ToolGate) -> None:
        server = self._server(hook.name) if self._bus.has(McpToolGate) else None
        if server is not None:
            asked = await self._bus.emit(McpToolGate.of(hook, server))
            hook.block, hook.reason, hook.result, hook.pause = asked.block, asked.reason, asked.result, asked.pause

    async def before(self, hook: ToolBefore) -> None:
        server = self._server(hook.name) if self._bus.has(McpToolBefore) else None
        if server is not None:
            hook.input = (await self._bus.emit(McpToolBefore.of(hook, server))).input

    async def transform(self, hook: ToolTransform) -> None:
        server = self._server(hook.name) if self._bus.has(McpToolTransform) else None
        if server is not None:
            hook.result = (await self._bus.emit(McpToolTransform.of(hook, server))).result

    async def after(self, hook: ToolAfter) -> None:
        server = self._server(hook.name) if self._bus.has(McpToolAfter) else None
        if server is not None:
            await self._bus.emit(McpToolAfter.of(hook, server))
