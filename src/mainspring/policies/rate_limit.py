"""Rate limits of tools."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mainspring.errors import ConfigError
from mainspring.globs import matches_any
from mainspring.loop.hooks import ToolGate
from mainspring.tools import ToolErrorCode, ToolResult

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent

_ORDER = -50
"""Before an application's own gates, so that a rejected call costs nothing more."""


class RateLimit:
    """A plugin that rejects calls over a rate limit and returns the time to wait.

    Subagents share the limit.

    Args:
        limits: Maximum number of calls by tool name, where ``*`` matches any characters; every matching entry applies.
        per: Period in seconds; a minute by default.
        clock: Monotonic clock in seconds.

    Raises:
        ConfigError: If a limit or the period is not above zero.
    """

    def __init__(
        self, limits: Mapping[str, int], *, per: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        wrong = [name for name, limit in limits.items() if limit < 1]
        if wrong or per <= 0:
            raise ConfigError(f"The rate limit {wrong[0] if wrong else 'per'} must be above zero.")
        self._limits = dict(limits)
        self._per = per
        self._clock = clock
        self._calls: dict[str, deque[float]] = {name: deque() for name in limits}

    def install(self, agent: CoreAgent) -> None:
        """Attach to `tool:gate` of an agent."""
        agent.on(ToolGate, self.on_tool_gate, order=_ORDER)

    def for_child(self) -> RateLimit:
        """Return this plugin."""
        return self

    def on_tool_gate(self, hook: ToolGate) -> None:
        """Handle `tool:gate`."""
        if hook.result is not None:
            return
        now = self._clock()
        names = [name for name in self._limits if matches_any(hook.name, (name,))]
        for name in names:
            calls = self._calls[name]
            while calls and calls[0] <= now - self._per:
                calls.popleft()
            if len(calls) >= self._limits[name]:
                hook.result = self._refusal(hook.name, name, calls[0] + self._per - now)
                return
        for name in names:
            self._calls[name].append(now)

    def _refusal(self, tool: str, name: str, wait: float) -> ToolResult:
        text = f"Not run: {tool} may be called {self._limits[name]} times in {self._per:g}s. Try again in {max(wait, 0.1):.1f}s."
        return ToolResult(output=text, title="rate limit", is_error=True, code=ToolErrorCode.RATE_LIMITED)
