"""Calls that repeat the one before: the same result again, without running the tool."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from msgspec.structs import replace

from mainspring.loop.hooks import ToolGate, ToolIntent, ToolTransform
from mainspring.tools import ToolResult

logger = logging.getLogger("mainspring")

Hasher = Callable[[Mapping[str, Any]], Hashable]
"""Gives, for the arguments of a call, what makes it the same as another: the same value, the same result."""


class DedupTools:
    """Answers a call that is like the last one of its tool with the result of that, word for word.

    Only the latest call of each tool is remembered, and only if it succeeded. The answer counts as a call and goes through
    `tool:transform` and `tool:after` like any other. Never list a tool with side effects: the second call would not happen.

    Args:
        hashers: What makes calls alike, by tool.
    """

    def __init__(self, hashers: Mapping[str, Hasher]) -> None:
        self._hashers = hashers
        self._latest: dict[str, tuple[Hashable, ToolResult]] = {}
        self._running: dict[str, Hashable] = {}
        self._readable: set[str] = set()

    def intent(self, hook: ToolIntent) -> None:
        """The handler of `tool:intent`: arguments that must be repaired first are like no others."""
        self._readable = {c.id for c in hook.message.tool_uses if c.raw_input is None}

    def gate(self, hook: ToolGate) -> None:
        """The handler of `tool:gate`; belongs behind all gates that may refuse the call."""
        hasher = self._hashers.get(hook.name)
        if hasher is None or hook.result is not None or hook.call_id not in self._readable:
            return
        latest = self._latest.get(hook.name)
        try:
            key = hasher(hook.input)
        except Exception:
            logger.exception("the hasher of dedup_tools for %s failed; the call is made", hook.name)
            return
        if latest is not None and latest[0] == key:
            hook.result = _copy(latest[1])
        else:
            self._running[hook.call_id] = key

    def keep(self, hook: ToolTransform) -> None:
        """The handler of `tool:transform`; belongs before all that change the result."""
        if hook.call_id not in self._running:
            return
        key = self._running.pop(hook.call_id)
        if hook.result.is_error:
            self._latest.pop(hook.name, None)
        else:
            self._latest[hook.name] = (key, _copy(hook.result))


def _copy(result: ToolResult) -> ToolResult:
    return replace(result, metadata=dict(result.metadata))
