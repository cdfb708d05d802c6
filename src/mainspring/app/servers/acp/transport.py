"""Messages of JSON-RPC over lines. What is no message is answered and passed over: it never reaches the connection."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec

from mainspring.app.servers.stdio import LineTooLongError, LineTransport, encode_line

_NOT_JSON, _INVALID = -32700, -32600

DELETE = "session/delete"
CANCEL = "$/cancel_request"
_NOT_ROUTED = {DELETE, CANCEL}
"""Methods of the protocol that the package does not hand on: they come to the agent as extensions of these names."""


class AcpTransport:
    """The lines of one client. A `Transport` of the ``acp`` package.

    Args:
        wire: The lines.
    """

    def __init__(self, wire: LineTransport) -> None:
        self._wire = wire
        self._held: dict[str, list[dict[str, Any]]] = {}
        self._request_ids: dict[asyncio.Task[Any] | None, int | str] = {}
        self._prompts: dict[int | str | None, str] = {}

    def hold_notifications(self, session: str) -> None:
        """Keep what is told of a session until the client has learnt, by an answer, that there is one of this id."""
        self._held[session] = []

    def session_for_request(self, request: int | str | None) -> str:
        """The session of a prompt that goes on, by the id of its request; empty for any other."""
        return self._prompts.get(request, "")

    async def cancel_outgoing_requests(self) -> None:
        """Tell the client that the answer to what this task has asked it is no longer waited for, so that it asks nobody any more."""
        id = self._request_ids.pop(asyncio.current_task(), None)
        if id is None:
            return
        try:
            await self._write({"jsonrpc": "2.0", "method": CANCEL, "params": {"requestId": id}})
        except ConnectionError:
            pass  # the client has gone, and its user sees the question no more

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message.

        Raises:
            ConnectionError: If nobody reads any more.
        """
        if (
            "method" in message
            and "id" not in message
            and (waiting := self._held.get(_session_of(message["params"]))) is not None
        ):
            waiting.append(message)
            return
        if "method" in message:
            if "id" in message:
                self._load_original(message["id"])
        else:
            self._prompts.pop(message["id"], None)
        if "error" in message:
            _strip_error_input(message["error"])
        await self._write(message)
        if "result" in message:
            for each in self._held.pop(_session_of(message["result"]), []):
                await self._write(each)

    def _load_original(self, id: int | str) -> None:
        task = asyncio.current_task()
        if task is not None and task not in self._request_ids:
            task.add_done_callback(lambda task: self._request_ids.pop(task, None) and None)
        self._request_ids[task] = id

    async def _write(self, message: dict[str, Any]) -> None:
        await self._wire.send(encode_line(message, str))

    async def receive(self) -> dict[str, Any] | None:
        """The next message; ``None`` at the end."""
        while True:
            try:
                line = await self._wire.line()
            except LineTooLongError as error:
                await self._refuse(_INVALID, str(error))
                continue
            if line is None:
                return None
            try:
                message = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                await self._refuse(_NOT_JSON, f"the line is no JSON: {error}")
                continue
            except RecursionError:
                await self._refuse(_NOT_JSON, "the line is nested too deeply")
                continue
            problem = _message_problem(message)
            if not problem:
                return self._register_incoming(_strip_meta(message))
            await self._refuse(_INVALID, problem, message)

    def _register_incoming(self, message: dict[str, Any]) -> dict[str, Any]:
        method = message.get("method")
        if method == "session/prompt" and "id" in message:
            self._prompts[message["id"]] = _session_of(message.get("params"))
        return {**message, "method": f"_{method}"} if method in _NOT_ROUTED else message

    async def _refuse(self, code: int, reason: str, message: Any = None) -> None:
        given = cast("dict[str, Any]", message).get("id") if isinstance(message, dict) else None
        id = given if _is_id(given) else None
        await self._write({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": reason}})

    async def close(self) -> None:
        """Nothing: the lines belong to whoever opened them."""


def _is_id(value: Any) -> bool:
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))


def _message_problem(message: Any) -> str:
    """Why something is no message; empty if it is one."""
    if not isinstance(message, dict):
        return "a message is one JSON object; batches are not part of the protocol"
    given = cast("dict[str, Any]", message)
    if "id" in given and not _is_id(given["id"]):
        return "an id is a string or a whole number"
    if "method" in given:
        if not isinstance(given["method"], str):
            return "a method is a string"
        if not isinstance(given.get("params"), dict | list | None):
            return "params are an object"
        return ""
    if "id" not in given or ("result" in given) == ("error" in given):
        return "a message has a method, or an id with either a result or an error"
    error = given.get("error")
    if "error" in given and not (
        isinstance(error, dict)
        and isinstance(cast("dict[str, Any]", error).get("code"), int)
        and isinstance(cast("dict[str, Any]", error).get("message"), str)
    ):
        return "an error is an object with a code and a message"
    return ""


def _strip_meta(message: dict[str, Any]) -> dict[str, Any]:
    """A message without ``_meta``: the connection would let it take the place of parameters."""
    params = message.get("params")
    if isinstance(params, dict) and "_meta" in params:
        rest = {k: v for k, v in cast("dict[str, Any]", params).items() if k != "_meta"}
        return {**message, "params": rest}
    return message


def _session_of(value: Any) -> str:
    found = cast("dict[str, Any]", value).get("sessionId") if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _strip_error_input(error: dict[str, Any]) -> None:
    """Errors of a check hold everything that was checked; where and why is enough."""
    data = error.get("data")
    errors = cast("dict[str, Any]", data).get("errors") if isinstance(data, dict) else None
    if isinstance(errors, list):
        error["data"] = {
            "errors": [
                {"where": ".".join(map(str, each.get("loc", ()))), "why": str(each.get("msg", ""))[:200]}
                for each in cast("list[dict[str, Any]]", errors)[:10]
            ]
        }
