"""A server that plays a model over Chat Completions or the Messages API, and validates each request like the real hosts."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from mainspring.models import HttpModel, create_model

SPECS = {"chat": "compatible:m", "anthropic": "anthropic:claude-sonnet-4-5"}
SUMMARY = (
    "## Goal\nLook everything up.\n## Progress\n### Done\nMany were looked up.\n## Next steps\nGo on with the next key."
)
TOKEN = 4  # characters


@dataclass
class StrictServer:
    """The state of the server.

    Attributes:
        protocol: ``chat`` or ``anthropic``.
        calls: The number of tool calls before the final response.
        faults: What real hosts would reject, with the number of the request.
        requests: The bodies of the requests of the task, in order, without those for summaries.
        summaries: The number of requested summaries.
    """

    protocol: str
    calls: int
    faults: list[str] = field(default_factory=list[str])
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    summaries: int = 0
    calls_made: int = 0
    url: str = ""

    def model(self) -> HttpModel:
        http_model = create_model(SPECS[self.protocol], base_url=self.url, api_key="k")
        assert isinstance(http_model, HttpModel)
        return http_model

    def answer(self, body: dict[str, Any]) -> bytes:
        if "tools" not in body:
            self.summaries += 1
            return self._text_response(SUMMARY, body)
        self.requests.append(body)
        check = check_chat if self.protocol == "chat" else check_anthropic
        self.faults += [f"request {len(self.requests)}: {fault}" for fault in check(body["messages"])]
        if self.calls_made >= self.calls:
            return self._text_response("all done", body)
        first = self.calls_made
        self.calls_made += 2 if first % 10 == 0 and first + 2 <= self.calls else 1  # sometimes two at the same time
        return self._call_response([f"{n}" for n in range(first, self.calls_made)], body)

    def _text_response(self, text: str, body: dict[str, Any]) -> bytes:
        if self.protocol == "chat":
            return chat_stream([{"content": text}], "stop", count_tokens(body))
        return anthropic_stream(
            [({"type": "text", "text": ""}, {"type": "text_delta", "text": text})], "end_turn", count_tokens(body)
        )

    def _call_response(self, keys: list[str], body: dict[str, Any]) -> bytes:
        if self.protocol == "chat":
            calls = [
                {"index": i, "id": f"call_{k}", "type": "function", "function": {"name": "look", "arguments": json.dumps({"key": k})}}
                for i, k in enumerate(keys)
            ]  # fmt: skip
            return chat_stream([{"tool_calls": [call]} for call in calls], "tool_calls", count_tokens(body))
        blocks = [
            ({"type": "tool_use", "id": f"call_{k}", "name": "look", "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps({"key": k})})
            for k in keys
        ]  # fmt: skip
        return anthropic_stream(blocks, "tool_use", count_tokens(body))


def count_tokens(body: dict[str, Any]) -> int:
    return len(json.dumps(body)) // TOKEN


def chat_stream(deltas: list[dict[str, Any]], finish: str, prompt: int) -> bytes:
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    usage = {"prompt_tokens": prompt, "completion_tokens": 5, "total_tokens": prompt + 5}
    chunks.append({"choices": [], "usage": usage})
    lines = [json.dumps({"id": "r", "model": "m", **chunk}) for chunk in chunks]
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()


def anthropic_stream(blocks: list[tuple[dict[str, Any], dict[str, Any]]], stop: str, prompt: int) -> bytes:
    usage = {"input_tokens": prompt, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "claude", "usage": usage}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for i, (start, delta) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": i, "content_block": start})
        events.append({"type": "content_block_delta", "index": i, "delta": delta})
        events.append({"type": "content_block_stop", "index": i})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}})
    events.append({"type": "message_stop"})
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()


def check_chat(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what the Chat Completions API rejects: calls without results right after them, and results without calls."""
    waiting: list[str] = []
    for i, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"message {i}: a result of {message['tool_call_id']}, which was not called right before"
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield f"message {i}: no result of {waiting}"
        waiting = [c["id"] for c in message.get("tool_calls") or ()]
    if waiting:
        yield f"at the end no result of {waiting}"


def check_anthropic(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what the Messages API rejects: the same, roles that do not alternate, and a first message not by the user."""
    waiting: list[str] = []
    for i, message in enumerate(messages):
        if message["role"] != ("user", "assistant")[i % 2]:
            yield f"message {i}: the role is {message['role']}"
        content = message["content"]
        blocks = cast("list[dict[str, Any]]", content if isinstance(content, list) else [])
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            yield f"message {i}: results of {results}, called were {waiting}"
        if results and any(b["type"] != "tool_result" for b in blocks[: len(results)]):
            yield f"message {i}: results do not come first"
        waiting = [b["id"] for b in blocks if b["type"] == "tool_use"]
    if waiting:
        yield f"at the end no result of {waiting}"


@contextmanager
def strict_server(protocol: str, calls: int) -> Iterator[StrictServer]:
    state = StrictServer(protocol, calls)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet; otherwise each response waits for an acknowledgement

        def do_POST(self) -> None:
            data = state.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}{'/v1' if protocol == 'chat' else ''}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(120)
