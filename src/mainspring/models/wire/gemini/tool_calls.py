"""Tool calls of one answer: whole ones, and those that come argument by argument."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from mainspring.events import StreamEvent
from mainspring.lazy import lazy_re
from mainspring.models.codec.normalize import new_call_id
from mainspring.models.json_values import to_json
from mainspring.models.message_builder import MessageBuilder
from mainspring.models.wire.gemini.payloads import FunctionCall, PartialArg

_STEP = lazy_re(r"\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")
_MOST_MISSING = 100  # arrays come item by item; an index far behind the end is an attack on the memory


class _OpenCall:
    """A call that still grows: its block, its arguments by path in order of arrival, and its signature."""

    __slots__ = ("args", "block", "pieces", "signature")

    def __init__(self, block: int, signature: str | None) -> None:
        self.block = block
        self.signature = signature
        self.args: dict[str, Any] | None = None
        self.pieces: dict[str, list[Any]] = {}


class FunctionCallAssembler:
    """The tool calls of one answer.

    Attributes:
        response_id: The provider's id of the answer; ids of calls that have none are made from it.
    """

    __slots__ = ("_calls", "_draft", "_growing", "_ids", "response_id")

    def __init__(self, draft: MessageBuilder) -> None:
        self._draft = draft
        self._calls: list[_OpenCall] = []
        self._ids: set[str] = set()
        self._growing: _OpenCall | None = None
        self.response_id = ""

    @property
    def count(self) -> int:
        """How many calls there are."""
        return len(self._calls)

    def add(self, piece: FunctionCall, signature: str | None, out: list[StreamEvent]) -> None:
        """Take a call, or a piece of one: a piece without a name continues the call that was opened last."""
        call = self._growing
        if call is None or piece.name:
            if not piece.name and not piece.args and not piece.partial_args:
                return  # The end of a call that has ended.
            call = self._open(piece, signature, out)
        elif signature:
            call.signature = signature
        if piece.args:
            call.args = call.args or {}
            call.args.update(piece.args)
        for arg in piece.partial_args or ():
            call.pieces.setdefault(arg.json_path, []).append(_value(arg))
        self._growing = call if piece.will_continue else None
        if self._growing is None:
            self._tell(call, out)

    def close(self, out: list[StreamEvent]) -> None:
        """End all calls."""
        if self._growing is not None:
            self._tell(self._growing, out)
            self._growing = None
        close = self._draft.close_call
        out.extend([close(c.block, input=c.args or {}, signature=c.signature) for c in self._calls])

    def _open(self, piece: FunctionCall, signature: str | None, out: list[StreamEvent]) -> _OpenCall:
        if self._growing is not None:
            self._tell(self._growing, out)
        given = piece.id
        id = given if given and given not in self._ids else new_call_id(self.response_id, len(self._calls))
        self._ids.add(id)
        event = self._draft.open_call(id, piece.name or "")
        call = _OpenCall(event.index, signature)
        self._calls.append(call)
        out.append(event)
        return call

    def _tell(self, call: _OpenCall, out: list[StreamEvent]) -> None:
        """The arguments are complete: say what they are."""
        if call.pieces:
            call.args = _assembled(call.args or {}, call.pieces)
            call.pieces = {}
        out.append(self._draft.arguments(call.block, to_json(call.args or {}).decode()))


def _value(arg: PartialArg) -> Any:
    if arg.string_value is not None:
        return arg.string_value
    if arg.bool_value is not None:
        return arg.bool_value
    number = arg.number_value
    if number is not None:
        return int(number) if number.is_integer() else number
    return None if arg.null_value is not msgspec.UNSET else ""


def _assembled(args: dict[str, Any], pieces: dict[str, list[Any]]) -> dict[str, Any]:
    """The arguments out of values by JSON path; texts of one path belong together."""
    root: dict[str, Any] = dict(args)
    for path, values in pieces.items():
        texts = [value for value in values if isinstance(value, str)]
        _set_at_path(root, _parse_path(path), "".join(texts) if len(texts) == len(values) else values[-1])
    return root


def _parse_path(path: str) -> list[str | int]:
    found: list[str | int] = []
    for name, index, single, double in _STEP.findall(path.removeprefix("$")):
        found.append(int(index) if index else name or single or double)
    return found


def _set_at_path(root: dict[str, Any], steps: list[str | int], value: Any) -> None:
    """Set the value at a path, making what is missing on the way; a path that fits nothing is left out."""
    holder: Any = root
    for step, following in zip(steps, [*steps[1:], None], strict=False):
        if isinstance(step, int) != isinstance(holder, list):
            return
        if isinstance(step, int):
            items = cast("list[Any]", holder)
            if step > len(items) + _MOST_MISSING:
                return
            items.extend([None] * (step + 1 - len(items)))
        elif step not in holder:
            holder[step] = None
        if following is None:
            holder[step] = value
            return
        if not isinstance(holder[step], dict | list):
            holder[step] = [] if isinstance(following, int) else {}
        holder = holder[step]
