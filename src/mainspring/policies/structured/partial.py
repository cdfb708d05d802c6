"""Partial outputs: what a streamed response has of the output so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from mainspring.events import AgentHandoff, Event, StreamStart, TextDelta, ToolCallDelta, ToolCallStart
from mainspring.policies.structured.options import OUTPUT_TOOL

if TYPE_CHECKING:
    from collections.abc import Callable

    from mainspring.tools.schema.output import OutputSchema

_ALWAYS_PARSED = 1000
_MIN_GROWTH = 1.05
"""A longer text is parsed again after it grew by a twentieth: parsing each delta would take quadratic time."""


class PartialOutput:
    """Reads the output of the current response from the events of a run.

    Args:
        target: The expected output. ``None``: the text of the response.
        find_target: Returns the expected output of the agent with a name, to which the conversation is handed over.
    """

    def __init__(
        self, target: OutputSchema | None, find_target: Callable[[str], OutputSchema | None] | None = None
    ) -> None:
        self._target = target
        self._find_target = find_target
        self._reset()

    def _reset(self) -> None:
        self._call: int | None = None
        self._parts: list[str] = []
        self._length = self._next_length = 0

    def read(self, event: Event) -> Any:
        """Return the output so far, or `UNSET` if the event does not change it or it does not fit the type yet."""
        match event:
            case StreamStart():
                self._reset()
            case AgentHandoff(agent=agent) if self._find_target is not None:
                self._target = self._find_target(agent)
            case ToolCallStart(index=index, name=name) if name == OUTPUT_TOOL and self._call is None:
                self._reset()
                self._call = index
            case ToolCallDelta(index=index, text=text) if index == self._call:
                return self._add(text)
            case TextDelta(text=text) if self._call is None:
                return self._add(text)
            case _:
                pass
        return UNSET

    def _add(self, text: str) -> Any:
        self._parts.append(text)
        self._length += len(text)
        if self._target is not None and self._length < self._next_length:
            return UNSET
        if self._length > _ALWAYS_PARSED:
            self._next_length = int(self._length * _MIN_GROWTH)
        self._parts = ["".join(self._parts)]
        if self._target is None:
            return self._parts[0]
        return self._target.parse_partial(self._parts[0], is_call=self._call is not None)
