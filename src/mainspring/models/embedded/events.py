"""Convert the parsed output of the embedded model to ordinary stream events."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from mainspring.errors import InvalidResponseError
from mainspring.events import Done, StreamEvent, StreamStart, TextDelta
from mainspring.lazy import lazy_re
from mainspring.messages import Cost, Message, StopReason, Usage
from mainspring.models.embedded.grammar import AnswerDelta, ArgumentsDelta, CallStart, Piece, TurnParser
from mainspring.models.embedded.prompt import TurnRules
from mainspring.models.message_builder import MessageBuilder

_TAIL = 480
_CHECK_INTERVAL = 48
_LONG_REPETITION = 200
_REPETITION = lazy_re(r"(.{1,80}?)\1{4,}\Z", re.DOTALL)


class TurnEventStream:
    """Creates the events of one response from one turn of the model, or two turns if the model repeats itself.

    A call of a tool that was called before is delayed until it is complete, because only a complete call can be compared with
    earlier calls. Everything else is sent immediately.

    Attributes:
        circling: Whether the model repeats the same text; no other text will follow, so the turn can be aborted. It ends
            like a turn that hit the output limit.
    """

    def __init__(self, provider: str, model: str) -> None:
        self._draft = MessageBuilder(provider, model)
        self._step = TurnRules({}, None)
        self._added: Mapping[str, Mapping[str, Any]] = {}
        self._reader = TurnParser()
        self._index: int | None = None  # The open block.
        self._call = ""  # Name of the tool of the current call.
        self._text: list[str] = []  # Its arguments so far.
        self._held = False
        self._reason: StopReason = "end_turn"
        self._used = Usage()
        self._tail = ""
        self._unwatched = 0
        self._deltas = 0  # Approximate number of tokens of this turn.
        self.circling = False

    def start(self) -> StreamStart:
        """Start the response."""
        return self._draft.start()

    def start_turn(self, step: TurnRules, added: Mapping[str, Mapping[str, Any]]) -> None:
        """Start a turn; ``added`` contains arguments to add to the calls of each tool."""
        self._step, self._added = step, added
        self._reader = TurnParser()
        self._call, self._text, self._held = "", [], False

    def read(self, event: StreamEvent) -> list[StreamEvent]:
        """Yield the events for an event of the engine."""
        match event:
            case TextDelta(text=text):
                self._deltas += 1
                self._check_repetition(text)
                return [found for piece in self._reader.feed(text) for found in self._events(piece)]
            case Done(reason=reason, message=message):
                self._reason = reason
                self._used += message.usage or Usage(output_tokens=self._deltas)
                self._deltas = 0
            case _:
                pass
        return []

    def _check_repetition(self, text: str) -> None:
        self._tail = (self._tail + text)[-_TAIL:]
        self._unwatched += len(text)
        if self._unwatched >= _CHECK_INTERVAL:
            self._unwatched = 0
            match = _REPETITION.search(self._tail)
            if match and len(match[0]) >= _LONG_REPETITION:
                self.circling, self._reason = True, "max_tokens"
                self._used += Usage(output_tokens=self._deltas)  # After an abort, the engine reports no usage.

    @property
    def is_repeated_call(self) -> bool:
        """Return True if the finished turn was a repeated call."""
        return self._held and self._step.is_repeated(self._call, self._input() or {})

    @property
    def partial(self) -> Message | None:
        """Return the response so far."""
        return self._draft.message() if len(self._draft) else None

    def finish(self) -> list[StreamEvent]:
        """Finish the response.

        Raises:
            InvalidResponseError: The response is empty.
        """
        draft = self._draft
        events = self._flush() if self._held else []
        if self._index is None:
            raise InvalidResponseError("The embedded model returned an empty response.", reason="empty")
        if self._call:
            events.append(draft.close_call(self._index, input=self._input()))
            reason: StopReason = "max_tokens" if self._reason == "max_tokens" else "tool_use"
        else:
            events.append(draft.close_text(self._index))
            reason = self._reason
        draft.usage = structs.replace(self._used, cost=Cost())
        return [*events, draft.done(reason)]

    def _events(self, piece: Piece) -> list[StreamEvent]:
        draft = self._draft
        match piece:
            case CallStart(name):
                if self._index is not None or self._call:
                    return []  # For a duplicate key, the first value wins.
                self._call = name
                self._held = any(name == done for done, _ in self._step.done)
                return [] if self._held else self._open()
            case ArgumentsDelta(text) if self._call:
                self._text.append(text)
                return [] if self._held or self._index is None else [draft.arguments(self._index, text)]
            case AnswerDelta(text) if not self._call:
                events: list[StreamEvent] = []
                if self._index is None:
                    opened = draft.open_text()
                    self._index = opened.index
                    events.append(opened)
                return [*events, draft.text(self._index, text)]
            case _:
                return []

    def _open(self) -> list[StreamEvent]:
        opened = self._draft.open_call(f"call_{secrets.token_hex(6)}", self._call)
        self._index = opened.index
        return [opened]

    def _flush(self) -> list[StreamEvent]:
        self._held = False
        events = self._open()
        assert self._index is not None
        text = "".join(self._text)
        return [*events, self._draft.arguments(self._index, text)] if text else events

    def _input(self) -> dict[str, Any] | None:
        """Return the arguments, or ``None`` for an incomplete object, which the message keeps as raw text."""
        try:
            given = json.loads("".join(self._text))
        except ValueError:
            return None
        return {**given, **self._added.get(self._call, {})} if isinstance(given, dict) else None
