"""Ollama's answers to events: a line each, or one object."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from mainspring.events import StreamEvent
from mainspring.messages import StopReason, Usage, strip_surrogates
from mainspring.models.codec.errors import AnswerErrors
from mainspring.models.codec.normalize import new_call_id
from mainspring.models.codec.text import Prose
from mainspring.models.fitted import fitted
from mainspring.models.json_values import UNREADABLE, loose_object, to_json
from mainspring.models.message_builder import Draft
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
        "_prose",
        "_reason",
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
        self._prose = Prose(self.draft)
        self._calls: list[int] = []
        self._ids: set[str] = set()

    def feed(self, name: str, data: bytes, out: list[StreamEvent]) -> None:
        """Take one line."""
        try:
            line = _decode(data)
        except UNREADABLE:
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
            if said.thinking:
                self._prose.think(said.thinking, out)
            if said.content:
                self._prose.say(said.content, out)
            for call in said.tool_calls or ():
                self._call(call, out)
        if line.done:
            self.complete = self.ended = True
            self._reason = line.done_reason or ""
            counts = (max(0, line.prompt_eval_count or 0), max(0, line.eval_count or 0))
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
        if not len(self.draft):
            self._prose.say("", out)
        self._prose.close(out)
        out.extend([self.draft.close_call(block) for block in self._calls])
        reason: StopReason = "max_tokens" if self._reason == "length" else "tool_use" if self._calls else "end_turn"
        out.append(self.draft.done(reason))

    def _call(self, call: _Call, out: list[StreamEvent]) -> None:
        self._prose.close(out)
        id = call.id if call.id and call.id not in self._ids else new_call_id(self._first or "", len(self._calls))
        self._ids.add(id)
        event = self.draft.open_call(id, call.function.name)
        self._calls.append(event.index)
        given = call.function.arguments
        text = given if isinstance(given, str) else to_json(given or {}).decode()
        out += [event, self.draft.arguments(event.index, text)]

    def _loosely(self, data: bytes) -> _Line:
        try:
            return fitted(strip_surrogates(loose_object(data)), _Line)
        except (ValueError, RecursionError) as error:
            raise self._errors.unreadable(data) from error
