"""Runs that go in circles: the model is told when its calls bring nothing that it has not had."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

import msgspec

from mainspring.lazy import lazy_re
from mainspring.loop.hooks import ToolResultsAfter
from mainspring.messages import ImageBlock, Message, ToolResultBlock

TEXT = (
    "[The calls of the last {turns} were made before in this run and gave the same results: they brought nothing new. Do "
    "something else, or say what keeps you. To wait for something, wait longer at a time.]"
)

_DURATION = lazy_re(r"\b\d+(?:\.\d+)?\s?m?s\b", re.ASCII)
"""How long something took is not news."""


def _news(result: ToolResultBlock) -> tuple[str, ...]:
    """What a result says, text and pictures."""
    images = () if isinstance(result.content, str) else [b.data for b in result.content if isinstance(b, ImageBlock)]
    return _DURATION.sub("", result.text), *images


def _digest(value: Any) -> bytes:
    return blake2b(msgspec.json.encode(value, order="sorted", enc_hook=repr), digest_size=16).digest()


class RepeatHint:
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
            self._known.add(_digest((*given, *_news(result)) if result else given))
        self._idle = 0 if len(self._known) > had else self._idle + 1
        if self._idle and self._idle % self._after == 0:
            turns = "turn" if self._idle == 1 else f"{self._idle} turns"
            hook.follow.append(Message.user(TEXT.format(turns=turns)))
