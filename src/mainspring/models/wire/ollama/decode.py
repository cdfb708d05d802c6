"""Ollama's answers to events: a line each, or one object."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from mainspring.events import Draft, StreamEvent
from mainspring.messages import StopReason, Usage, strip_surrogates
from mainspring.models.answer_errors import AnswerErrors
from mainspring.models.fitted import fitted
from mainspring.models.json_values import loose_object, to_json
from mainspring.models.prepare import new_call_id
from mainspring.models.profile import Profile
from mainspring.models.usage import priced


class _Function(Struct, frozen=True):
    name: str = ""
    arguments: dict[str, Any] | str | None = None


class _Call(Struct):
    function: _Function = _Function()
    id: str | None = None


class _Said(Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Line(Struct):
    message: _Said | None = None
    created_at: str | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Line).decode


class OllamaDecoder:
    """Decodes one answer; see `WireDecoder`.

    Calls come whole. An answer without anything in it becomes a message with one empty text block.

    Args:
        profile: The model that answers.
    """

    lines = True

    __slots__ = (
        "_calls",
        "_errors",
        "_first",
        "_ids",
        "_profile",
        "_reason",
        "_text",
        "_thinking",
        "complete",
        "draft",
        "ended",
    )

    def __init__(self, profile: Profile) -> None:
        self.draft = Draft(profile.provider, profile.model)
        self.complete = False
        self.ended = False
        self._profile = profile
        self._errors = AnswerErrors(self.draft, profile)
        self._first: str | None = None  # when the answer began, its only name
        self._reason = ""
        self._text = -1  # the open text block
        self._thinking = -1  # the open thinking block
        self._calls: list[int] = []
        self._ids: set[str] = set()

    def feed(self, name: str, data: bytes, out: list[StreamEvent]) -> None:
        """Take one line."""
        try:
            line = _decode(data)
        except (msgspec.DecodeError, UnicodeError):
            line = self._loosely(data)
        if line.error:
            raise self._errors.told(data)
        if self._first is None:
            if line.message is None and not line.done:
                return
            self._first = line.created_at or ""
            out.append(self.draft.start())
        said = line.message
        if said is not None:
            if said.content and self._text >= 0 and not (said.thinking or said.tool_calls):
                out.append(self.draft.text(self._text, said.content))  # what nearly every line is
            else:
                self._said(said, out)
        if line.done:
            self.complete = self.ended = True
            self._reason = line.done_reason or ""
            counts = (line.prompt_eval_count or 0, line.eval_count or 0)
            if any(counts):
                self.draft.usage = priced(Usage(*counts), self._profile.info)

    def whole(self, body: bytes, out: list[StreamEvent]) -> None:
        """Take a complete answer that was not streamed."""
        if body:
            self.feed("", body, out)

    def finish(self, out: list[StreamEvent]) -> None:
        """The stream has ended."""
        if self._first is None:
            raise self._errors.invalid("The answer is empty", "empty")
        if not self.complete:
            raise self._errors.cut()
        self._close_thinking(out)
        self._close_text(out)
        out.extend([self.draft.close_call(block) for block in self._calls])
        if not len(self.draft):
            event = self.draft.open_text()
            out.append(event)
            out.append(self.draft.close_text(event.index))
        reason: StopReason = "max_tokens" if self._reason == "length" else "tool_use" if self._calls else "end_turn"
        out.append(self.draft.done(reason))

    def _said(self, said: _Said, out: list[StreamEvent]) -> None:
        if said.thinking:
            self._close_text(out)
            if self._thinking < 0:
                event = self.draft.open_thinking()
                self._thinking = event.index
                out.append(event)
            out.append(self.draft.thinking(self._thinking, said.thinking))
        if said.content:
            self._close_thinking(out)
            if self._text < 0:
                event = self.draft.open_text()
                self._text = event.index
                out.append(event)
            out.append(self.draft.text(self._text, said.content))
        for call in said.tool_calls or ():
            self._close_thinking(out)
            self._close_text(out)
            self._call(call, out)

    def _call(self, call: _Call, out: list[StreamEvent]) -> None:
        id = call.id if call.id and call.id not in self._ids else new_call_id(self._first or "", len(self._calls))
        self._ids.add(id)
        event = self.draft.open_call(id, call.function.name)
        self._calls.append(event.index)
        given = call.function.arguments
        text = given if isinstance(given, str) else to_json(given or {}).decode()
        out += [event, self.draft.arguments(event.index, text)]

    def _close_text(self, out: list[StreamEvent]) -> None:
        if self._text >= 0:
            out.append(self.draft.close_text(self._text))
            self._text = -1

    def _close_thinking(self, out: list[StreamEvent]) -> None:
        if self._thinking >= 0:
            out.append(self.draft.close_thinking(self._thinking))
            self._thinking = -1

    def _loosely(self, data: bytes) -> _Line:
        try:
            return fitted(strip_surrogates(loose_object(data)), _Line)
        except (ValueError, RecursionError) as error:
            raise self._errors.unreadable(data) from error
