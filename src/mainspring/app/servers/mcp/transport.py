"""Messages of the protocol over lines, as the SDK wants them: one object to read from, one to write to."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import msgspec
from mcp import types
from mcp.shared.message import SessionMessage

from mainspring.app.servers.stdio import LineTooLongError, LineTransport, encode_line

_NOT_JSON, _INVALID = -32700, -32600


class _Stream:
    async def aclose(self) -> None:
        """Nothing: the lines belong to whoever opened them."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class ReadStream(_Stream):
    """What the client says. A line that is no message is answered and passed over.

    Args:
        wire: The lines.
    """

    def __init__(self, wire: LineTransport) -> None:
        self._wire = wire

    async def receive(self) -> SessionMessage:
        """The next message.

        Raises:
            StopAsyncIteration: At the end.
        """
        return await self.__anext__()

    def __aiter__(self) -> ReadStream:
        return self

    async def __anext__(self) -> SessionMessage:
        while True:
            try:
                line = await self._wire.line()
            except LineTooLongError as error:
                await self._refuse(_INVALID, str(error))
                continue
            if line is None:
                raise StopAsyncIteration
            try:
                msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                await self._refuse(_NOT_JSON, f"the line is no JSON: {error}")
                continue
            try:
                return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
            except (ValueError, RecursionError):
                await self._refuse(_INVALID, "the line is no message of JSON-RPC 2.0")

    async def _refuse(self, code: int, why: str) -> None:
        answer = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": why}}
        await self._wire.send(msgspec.json.encode(answer))


class WriteStream(_Stream):
    """What is said to the client.

    Args:
        wire: The lines.
    """

    def __init__(self, wire: LineTransport) -> None:
        self._wire = wire

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message.

        Raises:
            BrokenPipeError: If nobody reads any more.
        """
        await self._wire.send(encode_line(item.message.model_dump(by_alias=True, exclude_unset=True), str))
