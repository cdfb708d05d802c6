"""Calls that repeat the one before: the same result again, without running the tool.

Runs that go in circles: the model is told when its calls bring nothing that it has not had.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Hashable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.loop.hooks import ToolCallsReceived, ToolGate, ToolResultsAfter, ToolTransform
from mainspring.loop.option_types import CallKey
from mainspring.messages import ImageBlock, Message, ToolResultBlock
from mainspring.tools import ToolResult

logger = logging.getLogger("mainspring")


class CachedToolCalls:
    """Answers a call that is like the last one of its tool with the result of that, word for word.

    Only the latest call of each tool is remembered, and only if it succeeded. The answer counts as a call and goes through
    `tool:transform` and `tool:after` like any other. Never list a tool with side effects: the second call would not happen.

    Args:
        hashers: What makes calls alike, by tool.
    """

    def __init__(self, hashers: Mapping[str, CallKey]) -> None:
        self._hashers = hashers
        self._latest: dict[str, tuple[Hashable, ToolResult]] = {}
        self._run_agent: dict[str, Hashable] = {}
        self._readable: set[str] = set()

    def intent(self, hook: ToolCallsReceived) -> None:
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
            self._run_agent[hook.call_id] = key

    def keep(self, hook: ToolTransform) -> None:
        """The handler of `tool:transform`; belongs before all that change the result."""
        if hook.call_id not in self._run_agent:
            return
        key = self._run_agent.pop(hook.call_id)
        if hook.result.is_error:
            self._latest.pop(hook.name, None)
        else:
            self._latest[hook.name] = (key, _copy(hook.result))


def _copy(result: ToolResult) -> ToolResult:
    return replace(result, metadata=dict(result.metadata))


WARNING = (
    "[The calls of the last {turns} were made before in this run and gave the same results: they brought nothing new. Do "
    "something else, or say what keeps you. To wait for something, wait longer at a time.]"
)


_DURATION = lazy_re(r"\b\d+(?:\.\d+)?\s?m?s\b", re.ASCII)
"""How long something took is not news."""


def _normalize_result(result: ToolResultBlock) -> tuple[str, ...]:
    """What a result says, text and pictures."""
    images = () if isinstance(result.content, str) else [b.data for b in result.content if isinstance(b, ImageBlock)]
    return _DURATION.sub("", result.text), *images


def _digest(value: Any) -> bytes:
    return blake2b(msgspec.json.encode(value, order="sorted", enc_hook=repr), digest_size=16).digest()


class RepeatedCallsWarning:
    """Looks at calls together with their results: who does the same again and learns something by it is left in peace.

    Args:
        after: Turns in a row without anything new before the model is told, and again after as many.
    """

    def __init__(self, after: int) -> None:
        self._after = after
        self._known: set[bytes] = set()
        self._idle = 0

    def results(self, hook: ToolResultsAfter) -> None:
        """The handler of `tool-results:after`."""
        results = {result.tool_use_id: result for result in hook.results.tool_results}
        had = len(self._known)
        for call in hook.message.tool_uses:
            result = results.get(call.id)
            given = (call.name, call.raw_input or call.input)
            self._known.add(_digest((*given, *_normalize_result(result)) if result else given))
        self._idle = 0 if len(self._known) > had else self._idle + 1
        if self._idle and self._idle % self._after == 0:
            turns = "turn" if self._idle == 1 else f"{self._idle} turns"
            hook.follow.append(Message.user(WARNING.format(turns=turns)))
