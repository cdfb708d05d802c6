"""A scripted OpenAI-compatible server on loopback; standard library only: `python server.py` prints its address.

It answers by the tools that a request offers: it hands off what is about a refund, calls tools that have no result yet, and fills an
output by the names of its fields. The first refund is too large, and the first review rejects the report.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OUTPUTS: dict[str, list[dict[str, Any]]] = {
    "text": [{"text": "It is on its way."}],
    "dollars": [{"order": 7, "dollars": 99.0}, {"order": 7, "dollars": 12.5}],
    "questions": [{"questions": ["Price?", "Range?"]}],
    "facts": [{"question": "Price?", "facts": ["30,000 dollars"]}],
    "accepted": [{"accepted": True, "comment": ""}],
}


def choose_response(request: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the text of the response, or the name and arguments of its call."""
    messages, tools = request["messages"], {t["function"]["name"]: t["function"] for t in request.get("tools", ())}
    prompt = json.dumps([m for m in messages if m["role"] == "user"])
    called = [c["function"]["name"] for m in messages for c in m.get("tool_calls") or ()]
    outputs = {n: t for n, t in tools.items() if n == "__output__" or n.startswith("final_result")}
    if "find_payment" in tools and "find_payment" not in called:
        return "find_payment", {"order": 7}
    for name, each in tools.items():
        if "transfer" in name and "money back" in prompt and name not in called:
            arguments = {"request": "The customer wants the money back for order 7."}
            return name, arguments if each["parameters"].get("properties") else {}
    for name, each in outputs.items():
        fields = each["parameters"]["properties"]
        known = next(field for field in OUTPUTS if field in fields)
        values = OUTPUTS[known]
        if known == "accepted" and "400 km" not in prompt:
            return name, {"accepted": False, "comment": "Add the range."}
        return name, values[min(called.count(name), len(values) - 1)]
    return "30,000 dollars, 400 km." if "Add the range" in prompt else "30,000 dollars.", {}


class Handler(BaseHTTPRequestHandler):
    """Answers chat completions."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer a request, streamed or not."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text, arguments = choose_response(request)
        names = {t["function"]["name"] for t in request.get("tools", ())}
        message: dict[str, Any] = {"role": "assistant", "content": text}
        reason = "stop"
        if text in names:
            call = {"index": 0, "id": f"call_{len(request['messages'])}", "type": "function"}
            call["function"] = {"name": text, "arguments": json.dumps(arguments)}
            message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        body: dict[str, Any] = {"id": "c1", "created": 1, "model": "scripted"}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if request.get("stream"):
            chunk = {**body, "object": "chat.completion.chunk", "usage": usage}
            chunk["choices"] = [{"index": 0, "delta": message, "finish_reason": reason}]
            self._send("text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")
        else:
            choices = [{"index": 0, "message": message, "finish_reason": reason}]
            self._send(
                "application/json",
                json.dumps({**body, "object": "chat.completion", "choices": choices, "usage": usage}),
            )

    def _send(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        """Log nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
