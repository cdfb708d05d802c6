"""JSON-RPC messages over lines. An invalid message gets an error response and never reaches the connection."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from mainspring.app.servers.json_rpc import INVALID_MESSAGE, receive_json, send_error
from mainspring.events import encode
from mainspring.line_transport import LineTransport

DELETE = "session/delete"
CANCEL = "$/cancel_request"
_NOT_ROUTED = {DELETE, CANCEL}
"""Protocol methods that the package does not route: the agent receives them as extension methods of these names."""


class AcpTransport:
    """The lines of one client. Implements `Transport` of the ``acp`` package.

    Args:
        wire: Transport of the lines.
    """

    def __init__(self, wire: LineTransport) -> None:
        self._wire = wire
        self._held: dict[str, list[dict[str, Any]]] = {}
        self._request_ids: dict[asyncio.Task[Any] | None, int | str] = {}
        self._prompts: dict[int | str | None, str] = {}

    def hold_notifications(self, session: str) -> None:
        """Delay the notifications of a session until the client gets a response with its ID."""
        self._held[session] = []

    def session_for_request(self, request: int | str | None) -> str:
        """Return the session of a running prompt by its request ID, or an empty string."""
        return self._prompts.get(request, "")

    async def cancel_outgoing_requests(self) -> None:
        """Cancel the requests that this task sent to the client, so that the editor closes their prompts."""
        id = self._request_ids.pop(asyncio.current_task(), None)
        if id is None:
            return
        try:
            await self._write({"jsonrpc": "2.0", "method": CANCEL, "params": {"requestId": id}})
        except ConnectionError:
            pass  # the client disconnected, so its user no longer sees the prompt

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message.

        Raises:
            ConnectionError: If the client closed the connection.
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
                self._store_request_id(message["id"])
        else:
            self._prompts.pop(message["id"], None)
        if "error" in message:
            _strip_error_input(message["error"])
        await self._write(message)
        if "result" in message:
            for each in self._held.pop(_session_of(message["result"]), []):
                await self._write(each)

    def _store_request_id(self, id: int | str) -> None:
        task = asyncio.current_task()
        if task is not None and task not in self._request_ids:
            task.add_done_callback(lambda task: self._request_ids.pop(task, None) and None)
        self._request_ids[task] = id

    async def _write(self, message: dict[str, Any]) -> None:
        await self._wire.send(encode(message))

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, or ``None`` at the end."""
        while (received := await receive_json(self._wire)) is not None:
            _, message = received
            problem = _message_problem(message)
            if not problem:
                return self._register_incoming(_strip_meta(message))
            given = cast("dict[str, Any]", message).get("id") if isinstance(message, dict) else None
            await send_error(self._wire, INVALID_MESSAGE, problem, given if _is_id(given) else None)
        return None

    def _register_incoming(self, message: dict[str, Any]) -> dict[str, Any]:
        method = message.get("method")
        if method == "session/prompt" and "id" in message:
            self._prompts[message["id"]] = _session_of(message.get("params"))
        return {**message, "method": f"_{method}"} if method in _NOT_ROUTED else message

    async def close(self) -> None:
        """Do nothing: the caller of the server owns the lines."""


def _is_id(value: Any) -> bool:
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))


def _message_problem(message: Any) -> str:
    """Return the reason why a message is invalid, or an empty string."""
    if not isinstance(message, dict):
        return "A message must be one JSON object; batches are not supported."
    given = cast("dict[str, Any]", message)
    if "id" in given and not _is_id(given["id"]):
        return "An id must be a string or an integer."
    if "method" in given:
        if not isinstance(given["method"], str):
            return "A method must be a string."
        if not isinstance(given.get("params"), dict | list | None):
            return "params must be an object."
        return ""
    if "id" not in given or ("result" in given) == ("error" in given):
        return "A message must have a method, or an id with either a result or an error."
    error = given.get("error")
    if "error" in given and not (
        isinstance(error, dict)
        and isinstance(cast("dict[str, Any]", error).get("code"), int)
        and isinstance(cast("dict[str, Any]", error).get("message"), str)
    ):
        return "An error must be an object with a code and a message."
    return ""


def _strip_meta(message: dict[str, Any]) -> dict[str, Any]:
    """Remove ``_meta`` from a message: the connection would let it replace parameters."""
    params = message.get("params")
    if isinstance(params, dict) and "_meta" in params:
        rest = {k: v for k, v in cast("dict[str, Any]", params).items() if k != "_meta"}
        return {**message, "params": rest}
    return message


def _session_of(value: Any) -> str:
    found = cast("dict[str, Any]", value).get("sessionId") if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _strip_error_input(error: dict[str, Any]) -> None:
    """Remove the input from validation errors, and keep only the location and the reason."""
    data = error.get("data")
    errors = cast("dict[str, Any]", data).get("errors") if isinstance(data, dict) else None
    if isinstance(errors, list):
        error["data"] = {
            "errors": [
                {"where": ".".join(map(str, each.get("loc", ()))), "why": str(each.get("msg", ""))[:200]}
                for each in cast("list[dict[str, Any]]", errors)[:10]
            ]
        }
