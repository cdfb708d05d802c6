"""Repeated tool calls: cached results for equal calls, and a warning to a model whose calls return nothing new."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.loop.hooks import ToolCallsReceived, ToolGate, ToolResultsAfter, ToolTransform
from mainspring.loop.policy import (
    ORDER_CACHED_CALLS,
    ORDER_RAW_RESULTS,
    ORDER_TOOL_BUDGETS,
    PolicyContext,
    PolicyHandlers,
)
from mainspring.messages import ImageBlock, Message, ToolResultBlock
from mainspring.options import AgentSetting, Options, is_named_mapping, option
from mainspring.tools import ToolResult

logger = logging.getLogger("mainspring")


CallKeyFunction = Callable[[Mapping[str, Any]], Hashable]
"""Returns a key for the arguments of a call: calls with the same key have the same result."""


class RepeatedCallOptions(Options, page="run-options.md#repeated-calls"):
    """Options of repeated calls."""

    dedup_tools: Mapping[str, CallKeyFunction] = option(
        default={},
        doc="Tools whose repeated call returns the previous result of the session without running, each with its key of equal "
        "calls. Never a tool with side effects.",
        check=(lambda value: is_named_mapping(value, callable), "a function for each tool by its name"),
        names_tools=True,
    )
    repeat_hint: int | None = option(
        default=None,
        ge=1,
        doc="Number of turns in a row without anything new before the model gets a hint.",
        setting=AgentSetting(
            limits=Meta(ge=0),
            off=0,
            default=3,
            doc="Number of turns in a row without new results after which the model gets a hint; 0 disables it",
        ),
    )


def repeated_call_handlers(options: RepeatedCallOptions, run: PolicyContext) -> PolicyHandlers:
    """Return the handlers for repeated calls."""
    if options.repeat_hint is not None:
        yield ORDER_TOOL_BUDGETS, {ToolResultsAfter: RepeatedCallsWarning(options.repeat_hint).results}
    if options.dedup_tools:
        dedup = CachedToolCalls(options.dedup_tools, run.session_state(LatestCalls, LatestCalls))
        yield ORDER_CACHED_CALLS, {ToolCallsReceived: dedup.on_tool_intent, ToolGate: dedup.on_tool_gate}
        yield ORDER_RAW_RESULTS, {ToolTransform: dedup.on_tool_transform}


class LatestCalls(dict[str, tuple[Hashable, ToolResult]]):
    """The key and the result of the latest successful call by tool, for a session."""


class CachedToolCalls:
    """Returns the cached result for a call that equals the last call of its tool.

    Only the latest call of each tool is cached, and only if it succeeded. The cached result counts as a call and passes
    `tool:transform` and `tool:after` like any other. Never list a tool with side effects: its second call would not run.

    Args:
        hashers: Functions that return the cache key of a call, by tool.
        latest: The calls so far.
    """

    def __init__(self, hashers: Mapping[str, CallKeyFunction], latest: LatestCalls) -> None:
        self._hashers = hashers
        self._latest = latest
        self._pending_keys: dict[str, Hashable] = {}
        self._readable: set[str] = set()

    def on_tool_intent(self, hook: ToolCallsReceived) -> None:
        """Handle `tool:intent`: arguments that need repair never match the cache."""
        self._readable = {c.id for c in hook.message.tool_uses if c.raw_input is None}

    def on_tool_gate(self, hook: ToolGate) -> None:
        """Handle `tool:gate`; runs after all gates that may deny the call."""
        hasher = self._hashers.get(hook.name)
        if hasher is None or hook.block or hook.result is not None or hook.call_id not in self._readable:
            return
        latest = self._latest.get(hook.name)
        try:
            key = hasher(hook.input)
        except Exception:
            logger.exception("The dedup_tools hasher for %s failed; the call runs.", hook.name)
            return
        if latest is not None and latest[0] == key:
            hook.result = _copy(latest[1])
        else:
            self._pending_keys[hook.call_id] = key

    def on_tool_transform(self, hook: ToolTransform) -> None:
        """Handle `tool:transform`; runs before all handlers that change the result."""
        if hook.call_id not in self._pending_keys:
            return
        key = self._pending_keys.pop(hook.call_id)
        if hook.result.is_error:
            self._latest.pop(hook.name, None)
        else:
            self._latest[hook.name] = (key, _copy(hook.result))


def _copy(result: ToolResult) -> ToolResult:
    return replace(result, metadata=dict(result.metadata))


WARNING = (
    "[The calls of the last {turns} were made before in this run and returned the same results: they returned nothing new. Do "
    "something else, or report what blocks you. To wait for something, wait longer at a time.]"
)


_DURATION = lazy_re(r"\b\d+(?:\.\d+)?\s?m?s\b", re.ASCII)
"""A duration; a different duration is not new information."""


def _normalize_result(result: ToolResultBlock) -> tuple[str, ...]:
    """Return the text and images of a result in comparable form."""
    images = () if isinstance(result.content, str) else [b.data for b in result.content if isinstance(b, ImageBlock)]
    return _DURATION.sub("", result.text), *images


def _digest(value: Any) -> bytes:
    from hashlib import blake2b

    return blake2b(msgspec.json.encode(value, order="sorted", enc_hook=repr), digest_size=16).digest()


class RepeatedCallsWarning:
    """Compares calls together with their results: repeated calls with new results get no warning.

    Args:
        after: Number of consecutive turns without new results before the model is warned, and between warnings.
    """

    def __init__(self, after: int) -> None:
        self._after = after
        self._known: set[bytes] = set()
        self._idle = 0

    def results(self, hook: ToolResultsAfter) -> None:
        """Handle `tool-results:after`."""
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
