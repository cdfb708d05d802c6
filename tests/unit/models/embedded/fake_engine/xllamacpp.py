"""Replaces the engine in the child process: the same names, a real HTTP server, and canned output.

``FAKE_ENGINE`` selects how it starts: ``serve`` (default), ``refuse``, ``illegal``, ``killed``, ``leave``, or
``stuck``. ``FAKE_TURNS`` is a JSON list of its output, one text per request. The last text is repeated, and the text
``!die`` ends the process in the middle of the stream.
"""

import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace


def CommonParams():
    return SimpleNamespace(
        model=SimpleNamespace(path=""), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace()
    )


class Server:
    def __init__(self, params):
        if seen := os.environ.get("FAKE_SEEN"):
            with open(seen, "w", encoding="utf-8") as file:
                json.dump({"argv": sys.orig_argv, "environ": dict(os.environ)}, file)
        match os.environ.get("FAKE_ENGINE", "serve"):
            case "refuse":
                os.write(2, b"0.00.001 E load: error loading model: it is no model\n")
                raise RuntimeError("no luck")
            case "illegal":
                os.kill(os.getpid(), signal.SIGILL)
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "leave":
                os._exit(7)
            case "stuck":
                threading.Event().wait()
            case _:
                pass
        handler = type("Handler", (_Handler,), {"params": params, "turns": json.loads(os.environ["FAKE_TURNS"])})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{self.server.server_port}"


class _Handler(BaseHTTPRequestHandler):
    params: SimpleNamespace
    turns: list[str]
    lock = threading.Lock()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers.get("authorization") != f"Bearer {self.params.api_keys[0]}":
            self._whole(401, {"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}})
            return
        if log := os.environ.get("FAKE_LOG"):
            with open(log, "a", encoding="utf-8") as file:
                file.write(json.dumps(body) + "\n")
        with self.lock:
            text = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        die = text.endswith("!die")
        for char in text.removesuffix("!die"):
            self._event({"choices": [{"index": 0, "delta": {"content": char}, "finish_reason": None}]})
        if die:
            os.write(2, b"0.00.001 E the floor gave way\n")
            os._exit(3)
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        usage = {"prompt_tokens": 50, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 40}}
        self._event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, value):
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.flush()

    def _whole(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format, *args):
        pass
