"""A Chat Completions server that follows a script: text, tool calls, errors, broken streams, and stalls."""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self


@dataclass
class Reply:
    """One response.

    Attributes:
        text: The text, sent in ``pieces`` deltas.
        calls: Tool calls: name and arguments (an object, or the raw argument text).
        status: The HTTP status; any status but 200 sends ``body``.
        body: The body of an error.
        headers: Additional headers.
        cut: Whether the connection breaks before the end.
        stall: Whether nothing follows the text and the connection stays open.
        delay: Seconds before each delta.
        finish: The finish reason; by default ``tool_calls`` or ``stop``.
    """

    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cut: bool = False
    stall: bool = False
    delay: float = 0.0
    pieces: int = 2
    finish: str = ""


Step = str | Reply | Callable[[dict[str, Any]], "str | Reply"]


def call(name: str, **arguments: Any) -> Reply:
    """Create a response with one tool call."""
    return Reply(calls=[(name, arguments)])


def error(status: int, message: str = "refused", kind: str = "error", **headers: str) -> Reply:
    """Create an error in the format of the real service."""
    body = {"error": {"message": message, "type": kind, "code": kind}}
    return Reply(status=status, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})


class ChatServer:
    """A server on a free local port, in its own thread, running within a ``with`` block.

    Attributes:
        base_url: Its base URL, including ``/v1``.
        requests: The bodies of the requests, in order.
        headers: The headers of the requests, in order.
        models: The models of ``GET /models``.
        request_received: Set when a request arrives.
        stalled: Set when a stalling response has sent its text.
    """

    def __init__(self, *script: Step) -> None:
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.models = ["test-model"]
        self.request_received = threading.Event()
        self.stalled = threading.Event()
        self.base_url = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(120)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(120)

    def _main(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if head[0].startswith("GET"):
            data = {"object": "list", "data": [{"id": m, "object": "model"} for m in self.models]}
            _answer(writer, 200, json.dumps(data).encode(), {})
            await writer.drain()
            return True
        request = json.loads(body)
        self.requests.append(request)
        self.headers.append(headers)
        self.request_received.set()
        return await self._reply(self._next(request), writer)

    def _next(self, request: dict[str, Any]) -> Reply:
        if not self.script:
            return error(400, "the test's script has no further answer")
        step = self.script.pop(0)
        if callable(step):
            step = step(request)
        return Reply(step) if isinstance(step, str) else step

    async def _reply(self, reply: Reply, writer: asyncio.StreamWriter) -> bool:
        if reply.status != 200:
            _answer(writer, reply.status, json.dumps(reply.body).encode(), reply.headers)
            await writer.drain()
            return True
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
            + b"".join(f"{k}: {v}\r\n".encode() for k, v in reply.headers.items())
            + b"\r\n"
        )
        for delta in _deltas(reply):
            if reply.delay:
                await asyncio.sleep(reply.delay)
            _event(writer, _chunk(delta))
            await writer.drain()
        if reply.stall:
            self.stalled.set()
            await asyncio.sleep(600)
        if reply.cut:
            writer.transport.abort()
            return False
        _event(writer, _chunk({}, reply.finish or ("tool_calls" if reply.calls else "stop")))
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        _event(writer, {**_chunk({}), "choices": [], "usage": usage})
        _part(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def _answer(writer: asyncio.StreamWriter, status: int, body: bytes, headers: dict[str, str]) -> None:
    lines = [f"HTTP/1.1 {status} X", "content-type: application/json", f"content-length: {len(body)}"]
    lines += [f"{k}: {v}" for k, v in headers.items()]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def _deltas(reply: Reply) -> list[dict[str, Any]]:
    size = max(1, -(-len(reply.text) // reply.pieces))
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": reply.text[i : i + size]} for i in range(0, len(reply.text), size)]
    for index, (name, arguments) in enumerate(reply.calls):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        start = {
            "index": index,
            "id": f"call_{index}_{name}",
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        half = len(text) // 2
        deltas.append({"tool_calls": [start]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": part}}]} for part in (text[:half], text[half:])
        ]
    return deltas


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "test-model",
        "choices": [choice],
    }


def _event(writer: asyncio.StreamWriter, value: Any) -> None:
    _part(writer, b"data: " + json.dumps(value).encode() + b"\n\n")


def _part(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
