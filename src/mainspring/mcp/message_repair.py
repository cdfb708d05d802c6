"""Repair responses of servers before the SDK reads them.

The SDK drops a whole list for a single invalid entry, and a whole result for a block of an unknown kind. A response that
cannot be repaired becomes an error, so that no caller waits for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from mainspring.lazy import lazy_re

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream
    from mcp.shared.message import SessionMessage

    Incoming = SessionMessage | Exception

_KNOWN = frozenset({"text", "image", "audio", "resource", "resource_link"})
_NEEDED = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": ("resource",),
    "resource_link": ("uri", "name"),
}


_SCHEMA: dict[str, type] = {"properties": dict, "required": list, "$defs": dict, "definitions": dict}
"""Expected types of keywords in a schema."""
_MAX_DEPTH = 100
"""Maximum depth of a schema; the SDK drops a whole list for a schema that is too deep to serialize."""
_KEYS = {"resources": "uri", "resourceTemplates": "uriTemplate", "prompts": "name"}
"""The field that an entry of a list must have."""
_NO_CONTENT = frozenset({"_meta", "isError"})
"""Fields of a result without content."""
_START = 300
"""Bytes to search for the ID of a response that is too deep to parse."""
_ID = lazy_re(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")')
_INVALID_MESSAGE = "The response is not a valid protocol message"


def repair_message(text: bytes) -> dict[str, Any] | None:
    """Repair an invalid line: remove numbers and characters that JSON does not support.

    Return ``None`` if this fails.
    """
    try:
        read: Any = json.loads(text.decode("utf-8", "replace"), parse_constant=lambda name: None)
        message: Any = json.loads(json.dumps(read, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError:
        return _error_from_prefix(text[:_START])
    except ValueError:
        return None
    if not isinstance(message, dict) or "jsonrpc" not in message:
        return None
    return cast("dict[str, Any]", message)


def error_response(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the error for an invalid response; ``None`` if the message is not a response."""
    key, error = message.get("id"), message.get("error")
    if "method" in message or isinstance(key, bool) or not isinstance(key, int | str):
        return None
    reason = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else error
    text = reason if isinstance(reason, str) and reason else _INVALID_MESSAGE
    return {"jsonrpc": "2.0", "id": key, "error": {"code": -32603, "message": text}}


def _error_from_prefix(start: bytes) -> dict[str, Any] | None:
    key = _ID.search(start)
    if key is None or b'"jsonrpc"' not in start or b'"method"' in start:
        return None
    return error_response({"id": json.loads(key[1])})


def repair_result(result: dict[str, Any]) -> None:
    """Repair a result in place."""
    _repair_lists(result)
    for key in [key for key, value in result.items() if value is None]:  # programs of some languages send all fields
        del result[key]
    if "serverInfo" in result or "protocolVersion" in result:
        info = cast("dict[str, Any]", i) if isinstance(i := result.get("serverInfo"), dict) else {}
        result["serverInfo"] = {**info, **{key: str(info.get(key) or "") for key in ("name", "version")}}
        result.setdefault("capabilities", {})
    if result.keys() <= _NO_CONTENT:
        result["content"] = []
    messages = result.get("messages")
    for message in cast("list[Any]", messages) if isinstance(messages, list) else []:
        if isinstance(message, dict) and "content" in message:
            message["content"] = _repair_block(cast("Any", message["content"]))
    if "content" in result or "structuredContent" in result:
        content = result.get("content")
        blocks = cast("list[Any]", content) if isinstance(content, list) else [] if content is None else [content]
        result["content"] = [_repair_block(b) for b in blocks]
        structured = result.get("structuredContent")
        if structured is not None and not isinstance(structured, dict):
            result["structuredContent"] = {"result": structured}


def _repair_lists(result: dict[str, Any]) -> None:
    for kind in ("tools", *_KEYS):
        if kind in result:
            given = cast("list[Any]", found) if isinstance(found := result[kind], list) else []
            repaired = [_repair_tool(e) if kind == "tools" else _repair_entry(e, _KEYS[kind]) for e in given]
            result[kind] = [entry for entry in repaired if entry is not None]


def _repair_entry(value: Any, key: str) -> dict[str, Any] | None:
    """Repair an entry that must have a field; ``None`` if it has none. Its name is not necessary."""
    entry = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if not isinstance(entry.get(key), str):
        return None
    return entry if isinstance(entry.get("name"), str) else {**entry, "name": entry[key]}


def _repair_tool(value: Any) -> dict[str, Any] | None:
    """Repair a tool; ``None`` if invalid.

    The output schema is removed: a result that violates it is still a result.
    """
    if not isinstance(value, dict):
        return None
    tool = cast("dict[str, Any]", value)
    if not isinstance(tool.get("name"), str):
        return None
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        tool["inputSchema"] = {"type": "object", "properties": {}}
    else:
        known = {k: v for k, v in cast("dict[str, Any]", schema).items() if isinstance(v, _SCHEMA.get(k, object))}
        tool["inputSchema"] = _limit_depth({**known, "type": "object"}, _MAX_DEPTH)
    tool.pop("outputSchema", None)
    for key in ("description", "title"):
        if tool.get(key) is not None and not isinstance(tool[key], str):
            tool.pop(key)
    for key in ("annotations", "icons", "execution", "_meta"):
        if key in tool and not isinstance(tool[key], list if key == "icons" else dict):
            tool.pop(key)
    hints: Any = tool.get("annotations")
    if isinstance(hints, dict):
        tool["annotations"] = {
            k: v for k, v in cast("dict[str, Any]", hints).items() if isinstance(v, str if k == "title" else bool)
        }
    return tool


def _limit_depth(value: Any, levels: int) -> Any:
    """Limit the depth of JSON data; deeper values become empty values, which accept everything in a schema."""
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {k: _limit_depth(v, levels - 1) for k, v in table.items()} if levels > 0 else {}
    if isinstance(value, list):
        return [_limit_depth(v, levels - 1) for v in cast("list[Any]", value)] if levels > 0 else []
    return value


def _repair_block(value: Any) -> dict[str, Any]:
    """Repair a content block; an unknown block becomes a note."""
    if isinstance(value, str):
        return {"type": "text", "text": value}
    if not isinstance(value, dict):
        return {"type": "text", "text": f"[invalid content block: {value!r:.200}]"}
    block = cast("dict[str, Any]", value)
    kind = block.get("type")
    if kind not in _KNOWN:
        return {"type": "text", "text": f"[content of the unknown type {str(kind)[:100]!r}]"}
    missing = [key for key in _NEEDED[str(kind)] if block.get(key) is None]
    if missing:
        return {"type": "text", "text": f"[content of the type {kind!r} without {', '.join(missing)}]"}
    for key in ("annotations", "_meta"):
        if key in block and not isinstance(block[key], dict):
            block.pop(key)
    return block


class RepairingStream:
    """Stream of repaired messages; ``connection_lost`` is set when the stream ends.

    Args:
        inner: Stream of a transport.
        connection_lost: Event that is set at the end of the stream.
        on_message: Function that handles a notification's method and parameters, and returns True if the handling is
            complete. Such notifications are not passed to the SDK: it validates each and starts a task for it, so a server
            with endless notifications would delay responses too long.
    """

    def __init__(
        self,
        inner: ReadStream[Incoming],
        connection_lost: asyncio.Event,
        on_message: Callable[[str, Any], Awaitable[bool]],
    ) -> None:
        self._inner = inner
        self._connection_lost = connection_lost
        self._on_message = on_message

    @property
    def last_context(self) -> Any:
        """Context of the sender, if the inner stream provides it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Incoming:
        """Return the next message."""
        try:
            while await self._is_notification_handled(item := await self._inner.receive()):
                pass
            return self._repair(item)
        except BaseException:
            self._connection_lost.set()
            raise

    async def aclose(self) -> None:
        """Close the inner stream."""
        self._connection_lost.set()
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Incoming:
        try:
            while await self._is_notification_handled(item := await self._inner.__anext__()):
                pass
            return self._repair(item)
        except BaseException:
            self._connection_lost.set()
            raise

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        self._connection_lost.set()
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)

    async def _is_notification_handled(self, item: Incoming) -> bool:
        message: Any = getattr(item, "message", None)
        method = getattr(message, "method", None)
        if method is None or getattr(message, "id", None) is not None:
            return False
        return await self._on_message(method, message.params)

    def _repair(self, item: Incoming) -> Incoming:
        result = getattr(getattr(item, "message", None), "result", None)
        if isinstance(result, dict):
            repair_result(cast("dict[str, Any]", result))
        return item
