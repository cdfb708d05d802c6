"""A small language server that reports lines with ``bad``; its argument selects a way to misbehave."""

import json
import os
import sys
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else "push"


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()


def receive() -> dict[str, Any]:
    length = 0
    while (line := sys.stdin.buffer.readline()) not in (b"\r\n", b"\n"):
        if not line:
            sys.exit()
        length = int(line.partition(b":")[2])
    return json.loads(sys.stdin.buffer.read(length))


def find_problems(text: str) -> list[dict[str, Any]]:
    place = {"character": 0}
    return [
        {
            "range": {"start": {"line": i, **place}, "end": {"line": i, **place}},
            "severity": 1,
            "message": line.strip(),
            "code": "B1",
        }
        for i, line in enumerate(text.split("\n"))
        if "bad" in line
    ] + [{"nonsense": 1}]


def main() -> None:
    text = ""
    while True:
        message = receive()
        method, params = message.get("method"), message.get("params", {})
        if method == "initialize":
            if MODE == "hang":
                continue
            if MODE == "garbage":
                sys.stdout.write("this is no header\r\n\r\n")
                sys.stdout.flush()
            provider = {"diagnosticProvider": {}} if MODE == "pull" else {}
            send({"id": message["id"], "result": {"capabilities": provider}})
            send(
                {
                    "id": "s1",
                    "method": "workspace/configuration",
                    "params": {"items": [{"section": "x"}, {"section": "y"}]},
                }
            )
        elif message.get("id") == "s1":
            sys.stderr.write(json.dumps(message["result"]))
        elif method in ("textDocument/didOpen", "textDocument/didChange"):
            text = params["textDocument"].get("text") or params["contentChanges"][0]["text"]
            if MODE == "crash":
                sys.exit(3)
            if MODE == "crash once" and method.endswith("Change") and not os.path.exists("crashed"):
                open("crashed", "w").close()
                sys.exit(3)
            while MODE == "flood":
                send({"method": "window/logMessage", "params": {"message": "x" * 100_000}})
            if MODE in ("push", "versions", "crash once"):
                version = {"version": params["textDocument"]["version"]} if MODE == "versions" else {}
                parameters = {"uri": params["textDocument"]["uri"], "diagnostics": find_problems(text), **version}
                send(
                    {"method": "textDocument/publishDiagnostics", "params": {"uri": "file:///other", "diagnostics": []}}
                )
                send({"method": "textDocument/publishDiagnostics", "params": parameters})
        elif method == "textDocument/diagnostic":
            send({"id": message["id"], "result": {"kind": "full", "items": find_problems(text)}})


main()
