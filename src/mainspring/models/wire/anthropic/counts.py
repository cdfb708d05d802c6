"""Token counts of an answer, told in its first event and again, as they grew, in its last ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from mainspring.messages import Usage
from mainspring.models.json_values import as_number, as_object, as_objects
from mainspring.models.port import ModelInfo
from mainspring.models.usage import priced


class Counts:
    """The counts of one answer.

    The host's own summaries of the conversation are calls of their own: they are no tokens of this answer, but part of its cost.
    A later count takes the place of an earlier one, unless it is zero: some gateways fill in zeros. What was read from and
    written to the cache is told apart from the input here, so nothing is counted twice.
    """

    __slots__ = ("_aside", "_input", "_long", "_output", "_read", "_reasoning", "_write", "told")

    def __init__(self) -> None:
        self.told = False
        self._aside: list[dict[str, Any]] = []
        self._input = self._output = self._read = self._write = self._long = self._reasoning = 0

    def take(self, raw: Mapping[str, Any]) -> None:
        """Take a ``usage`` object."""
        self.told = self.told or "input_tokens" in raw or "output_tokens" in raw
        self._input = _count(raw, "input_tokens") or self._input
        self._output = _count(raw, "output_tokens") or self._output
        self._read = _count(raw, "cache_read_input_tokens") or self._read
        created = as_object(raw.get("cache_creation")) or {}
        self._long = _count(created, "ephemeral_1h_input_tokens") or self._long
        parts = _count(created, "ephemeral_5m_input_tokens") + _count(created, "ephemeral_1h_input_tokens")
        self._write = _count(raw, "cache_creation_input_tokens") or parts or self._write
        details = as_object(raw.get("output_tokens_details")) or {}
        self._reasoning = _count(details, "thinking_tokens") or self._reasoning
        calls = as_objects(raw.get("iterations"))
        self._aside = [call for call in calls if call.get("type") == "compaction"] or self._aside

    def usage(self, info: ModelInfo) -> Usage:
        """The counts in the one form of all protocols, with their cost."""
        reasoning = min(self._reasoning, self._output)
        counts = Usage(self._input, self._output, self._read, self._write, reasoning)
        usage = priced(counts, info, long_writes=self._long)
        for call in self._aside:
            aside = Counts()
            aside.take(call)
            cost = aside.usage(info).cost
            if usage.cost is not None and cost is not None:
                usage = replace(usage, cost=usage.cost + cost)
        return usage


def _count(raw: Mapping[str, Any], name: str) -> int:
    return max(0, int(as_number(raw.get(name)) or 0))
