"""Tool calls out of pieces: by id first, then by index, else the call that was opened last."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from mainspring.events import Draft, StreamEvent, parse_call
from mainspring.models.wire.openai_chat.chunks import CallDelta, FunctionDelta


class _Call:
    """A call that still grows."""

    __slots__ = ("block", "id", "index", "length", "name", "signature", "text")

    def __init__(self, block: int, id: str, name: str, index: int | None) -> None:
        self.block = block
        self.id = id
        self.name = name
        self.index = index
        self.text: list[str] = []
        self.length = 0
        self.signature: str | None = None

    def is_whole(self) -> bool:
        """Whether its arguments are a complete object already."""
        return self.length > 0 and parse_call("", "", "".join(self.text)).raw_input is None


class CallAssembly:
    """The tool calls of one answer.

    Attributes:
        response_id: The provider's id of the answer; ids of calls that have none are made from it, so that decoding the
            same answer twice gives the same ids.
        count: How many calls there are.
    """

    __slots__ = ("_calls", "_draft", "response_id")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._calls: list[_Call] = []
        self.response_id = ""

    @property
    def count(self) -> int:
        """How many calls there are."""
        return len(self._calls)

    def add(self, piece: CallDelta, out: list[StreamEvent]) -> None:
        """Take a piece of a call."""
        function = piece.function
        if function is None and piece.custom is not None:
            given = piece.custom.get("input")
            function = FunctionDelta(piece.custom.get("name"), None if given is None else {"input": given})
        function = function or FunctionDelta()
        call = self._find(piece, function)
        if call is None:
            call = self._open(piece.id or "", function.name or "", piece.index, out)
        else:
            self._name(call, function.name)
        if piece.extra_content:
            call.signature = msgspec.json.encode(piece.extra_content).decode()
        self._arguments(call, function.arguments, out)

    def add_legacy(self, function: FunctionDelta, out: list[StreamEvent]) -> None:
        """Take a piece of the one call of the older ``function_call`` form."""
        call = self._calls[-1] if self._calls else self._open("", function.name or "", None, out)
        self._name(call, function.name)
        self._arguments(call, function.arguments, out)

    def close(self, out: list[StreamEvent]) -> None:
        """End all calls."""
        out.extend([self._draft.close_call(call.block, signature=call.signature) for call in self._calls])

    def _find(self, piece: CallDelta, function: FunctionDelta) -> _Call | None:
        if not self._calls:
            return None
        if piece.id:
            for call in self._calls:
                if call.id == piece.id:
                    return None if self._is_twin(call, piece, function) else call
            return None
        if piece.index is None:
            last = self._calls[-1]
            return None if function.name and function.name != last.name and last.is_whole() else last
        for call in reversed(self._calls):
            if call.index == piece.index:
                return None if function.name and call.is_whole() and function.arguments else call
        return None

    def _is_twin(self, call: _Call, piece: CallDelta, function: FunctionDelta) -> bool:
        """Whether another call carries an id that is in use already."""
        apart = piece.index is not None and call.index is not None and piece.index != call.index
        return apart and bool(function.name) and call.is_whole()

    def _open(self, id: str, name: str, index: int | None, out: list[StreamEvent]) -> _Call:
        if not id or any(call.id == id for call in self._calls):
            id = f"call_{_tail(self.response_id) or secrets.token_hex(6)}_{len(self._calls)}"
        event = self._draft.open_call(id, name)
        call = _Call(event.index, id, name, index)
        self._calls.append(call)
        out.append(event)
        return call

    def _name(self, call: _Call, name: str | None) -> None:
        if not name or name == call.name:
            return
        call.name += name
        self._draft.rename_call(call.block, call.id, call.name)

    def _arguments(self, call: _Call, given: str | dict[str, Any] | None, out: list[StreamEvent]) -> None:
        if not given and not isinstance(given, dict):
            return
        text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        if call.length and len(text) == call.length and text == "".join(call.text) and call.is_whole():
            return  # The whole arguments once more.
        call.text.append(text)
        call.length += len(text)
        out.append(self._draft.arguments(call.block, text))


def _tail(response_id: str) -> str:
    return "".join([c for c in response_id if c.isascii() and c.isalnum()])[-12:]
