"""JSON-RPC over lines: read messages, and report those that are not valid."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.events import encode
from mainspring.line_transport import LineTooLongError, LineTransport

INVALID_MESSAGE = -32600
_NOT_JSON = -32700


async def receive_json(wire: LineTransport) -> tuple[bytes, Any] | None:
    """Return the next line that is JSON, and its value, or None at the end. Other lines get an error response."""
    while True:
        try:
            line = await wire.line()
        except LineTooLongError as error:
            await send_error(wire, INVALID_MESSAGE, str(error))
            continue
        if line is None:
            return None
        try:
            return line, msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            await send_error(wire, _NOT_JSON, f"The line is not valid JSON: {error}.")
        except RecursionError:
            await send_error(wire, _NOT_JSON, "The line is nested too deeply.")


async def send_error(wire: LineTransport, code: int, reason: str, id: int | str | None = None) -> None:
    """Send an error response; ``id`` is that of the request, if known."""
    await wire.send(encode({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": reason}}))
