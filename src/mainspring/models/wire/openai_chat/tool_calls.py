"""Tool calls out of pieces: by id first, then by index, else the call that was opened last."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.events import StreamEvent
from mainspring.models.codec.normalize import new_call_id
from mainspring.models.message_builder import MessageBuilder, parse_call
from mainspring.models.wire.openai_chat.payloads import CallDelta, FunctionDelta


class _Call:
    """A call that still grows.

    Attributes:
        block: Its block in the draft.
        id: Its id, made up where the host gave none (``given`` is false then).
        index: The host's number of it, if there is one.
        pieces: The argument text, and ``length`` its length.
        signature: What must go back with it.
    """

    __slots__ = ("block", "given", "id", "index", "length", "name", "pieces", "signature")

    def __init__(self, block: int, id: str, name: str, index: int | None, *, given: bool) -> None:
        self.block = block
        self.id = id
        self.given = given
        self.name = name
        self.index = index
        self.pieces: list[str] = []
        self.length = 0
        self.signature: str | None = None

    def is_complete(self) -> bool:
        """Whether its arguments are a complete object already."""
        if not self.pieces or self.pieces[-1].rstrip()[-1:] not in ("", "}"):
            return False  # Asked for every piece of hosts that repeat the name: what does not end an object need not be read.
        return parse_call("", "", "".join(self.pieces)).raw_input is None

    def holds(self, text: str) -> bool:
        """Whether ``text`` is exactly its arguments so far, and they are complete."""
        return len(text) == self.length and text == "".join(self.pieces) and self.is_complete()


class ToolCallAssembler:
    """The tool calls of one answer.

    Attributes:
        response_id: The provider's id of the answer; ids of calls that have none are made from it, so that decoding the
            same answer twice gives the same ids.
    """

    __slots__ = ("_by_given_id", "_calls", "_draft", "_ids", "response_id")

    def __init__(self, draft: MessageBuilder) -> None:
        self._draft = draft
        self._calls: list[_Call] = []
        self._by_given_id: dict[str, _Call] = {}
        self._ids: set[str] = set()  # of all calls, given or made up
        self.response_id = ""

    @property
    def count(self) -> int:
        """How many calls there are."""
        return len(self._calls)

    def add(self, pieces: list[CallDelta], out: list[StreamEvent], *, whole: bool) -> None:
        """Take the pieces of one chunk; with ``whole`` each is a call of its own."""
        for piece in pieces:
            function = _function(piece)
            alone = whole or (len(pieces) > 1 and not piece.id and piece.index is None and bool(function.name))
            call = None if alone else self._find(piece, function)
            if call is None:
                call = self._open(piece.id or "", function.name or "", piece.index, out)
            else:
                self._complete(call, piece.id, function.name)
            if piece.extra_content:
                call.signature = msgspec.json.encode(piece.extra_content).decode()
            self._arguments(call, function.arguments, out)

    def add_legacy(self, function: FunctionDelta, out: list[StreamEvent]) -> None:
        """Take a piece of the one call of the older ``function_call`` form."""
        if self._calls:
            self._complete(self._calls[-1], None, function.name)
        else:
            self._open("", function.name or "", None, out)
        self._arguments(self._calls[-1], function.arguments, out)

    def close(self, out: list[StreamEvent]) -> None:
        """End all calls."""
        out.extend([self._draft.close_call(call.block, signature=call.signature) for call in self._calls])

    def _find(self, piece: CallDelta, function: FunctionDelta) -> _Call | None:
        """The call that a piece continues; ``None`` if it begins a new one."""
        if not self._calls:
            return None
        if piece.id:
            return self._by_id(piece, function)
        if piece.index is None:
            return self._last(function)
        for call in reversed(self._calls):
            if call.index == piece.index:
                return None if function.name and self._is_new_call(call, function) else call
        last = self._calls[-1]
        return last if not function.name and last.index is None else None

    def _by_id(self, piece: CallDelta, function: FunctionDelta) -> _Call | None:
        call = self._by_given_id.get(piece.id or "")
        if call is not None:
            apart = None not in (piece.index, call.index) and piece.index != call.index
            return None if apart and function.name and call.is_complete() else call  # Two calls under one id.
        if len(self._by_given_id) == len(self._calls):
            return None
        for call in reversed(self._calls):
            if not call.given and call.index == piece.index:  # The id comes late.
                return None if function.name and self._is_new_call(call, function) else call
        return None

    def _last(self, function: FunctionDelta) -> _Call | None:
        last = self._calls[-1]
        if not function.name:
            return last
        if function.name != last.name and (last.length or function.arguments is not None):
            return None
        return None if self._is_new_call(last, function) else last

    @staticmethod
    def _is_new_call(call: _Call, function: FunctionDelta) -> bool:
        """Whether a named piece for a call whose arguments are complete is another call, and not the same once more."""
        return bool(function.arguments) and call.is_complete() and not call.holds(_as_text(function.arguments))

    def _open(self, id: str, name: str, index: int | None, out: list[StreamEvent]) -> _Call:
        given = bool(id) and id not in self._ids
        if not given:
            id = new_call_id(self.response_id, len(self._calls))
        self._ids.add(id)
        event = self._draft.open_call(id, name)
        call = _Call(event.index, id, name, index, given=given)
        self._calls.append(call)
        if given:
            self._by_given_id[id] = call
        out.append(event)
        return call

    def _complete(self, call: _Call, id: str | None, name: str | None) -> None:
        """Add an id that comes late, or a name that comes late or in pieces; a repeated one changes nothing."""
        changed = False
        if id and not call.given:
            call.id, call.given, changed = id, True, True
            self._by_given_id[id] = call
            self._ids.add(id)
        if name and name != call.name:
            call.name, changed = call.name + name, True
        if changed:
            self._draft.update_call(call.block, call.id, call.name)

    def _arguments(self, call: _Call, given: str | dict[str, Any] | None, out: list[StreamEvent]) -> None:
        text = _as_text(given)
        if text and not (call.length and call.holds(text)):
            call.pieces.append(text)
            call.length += len(text)
            out.append(self._draft.arguments(call.block, text))


def _function(piece: CallDelta) -> FunctionDelta:
    """The function of a piece; a custom tool's free text becomes its argument ``input``."""
    if piece.function is not None:
        return piece.function
    custom = piece.custom or {}
    name, text = custom.get("name"), custom.get("input")
    return FunctionDelta(name if isinstance(name, str) else None, None if text is None else {"input": text})


def _as_text(arguments: str | dict[str, Any] | None) -> str:
    if isinstance(arguments, dict):
        return msgspec.json.encode(arguments).decode()
    return arguments or ""
