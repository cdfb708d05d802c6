"""A server in plain Python, without the SDK: it starts in a moment and can do everything wrong that servers do.

Its behaviour is given as flags: ``hang`` (never answers), ``die`` (ends at once), ``noise`` (prints what is no message), ``pages``
(one tool a page), ``loop`` (the same page for ever), ``deaf`` (keeps running when its input is closed), ``flood`` (fills stderr).
"""

import json
import os
import subprocess
import sys
import time

FLAGS = set(sys.argv[1:])
STATE = {"calls": 0, "extra": False}
WAITING = {}


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def tools():
    names = ["add", "ask", "big", "child", "crash", "echo", "env", "fail", "grow", "late", "pid", "progress", "roots", "sample"]
    names += ["slow", "state", "visit"] + (["grown"] if STATE["extra"] else [])
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"}}}
    found = [{"name": n, "description": f"It does {n}.", "inputSchema": schema} for n in names]
    found[0]["annotations"] = {"readOnlyHint": True, "idempotentHint": True, "title": 5}
    return found


PARTS = [
    {"type": "text", "text": "first"},
    {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
    {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "the file a"},
    {"type": "resource", "resource": {"uri": "file:///b", "text": "inside b"}},
    {"type": "resource", "resource": {"uri": "file:///c", "blob": "aGVsbG8=", "mimeType": "application/zip"}},
    {"type": "hologram", "data": "?"},
    {"type": "image", "mimeType": "image/png"},
]


def ask_client(call, method, params, shape):
    STATE["asked"] = STATE.get("asked", 0) + 1
    key = f"s{STATE['asked']}"
    WAITING[key] = (call, shape)
    send({"id": key, "method": method, "params": params})


def call(key, name, args, meta):
    STATE["calls"] += 1
    if name == "add":
        return send({"id": key, "result": {"content": [], "structuredContent": {"sum": args["n"] + 1}}})
    if name == "echo":
        return send({"id": key, "result": text(args.get("text", ""))})
    if name == "big":
        return send({"id": key, "result": text("x" * args["n"])})
    if name == "fail":
        return send({"id": key, "result": {**text("it went wrong"), "isError": True}})
    if name == "parts":
        return send({"id": key, "result": {"content": PARTS}})
    if name == "env":
        return send({"id": key, "result": text(dict(os.environ))})
    if name == "pid":
        return send({"id": key, "result": text(str(os.getpid()))})
    if name == "state":
        return send({"id": key, "result": text(STATE)})
    if name == "crash":
        sys.stderr.write("token=sk-ant-REDACTME123456 out of memory\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "child":
        made = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=bool(args.get("n")))
        return send({"id": key, "result": text(f"{os.getpid()} {made.pid}")})
    if name == "progress":
        for i in range(3):
            send({"method": "notifications/progress", "params": {"progressToken": meta["progressToken"], "progress": i + 1, "total": 3, "message": f"step {i + 1}"}})
            time.sleep(args.get("n", 0) / 1000)
        return send({"id": key, "result": text("done")})
    if name == "grow":
        STATE["extra"] = True
        send({"id": key, "result": text("grown")})
        return send({"method": "notifications/tools/list_changed"})
    if name == "ask":
        schema = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city", "days"]}
        return ask_client(key, "elicitation/create", {"message": "Where to?", "requestedSchema": schema}, "result")
    if name == "visit":
        return ask_client(key, "elicitation/create", {"mode": "url", "message": "Log in", "url": "https://x.test/in", "elicitationId": "e"}, "result")
    if name == "sample":
        params = {"messages": [{"role": "user", "content": {"type": "text", "text": "Say hi"}}], "maxTokens": 50, "systemPrompt": "Short."}
        return ask_client(key, "sampling/createMessage", params, "result")
    if name == "roots":
        return ask_client(key, "roots/list", {}, "result")
    if name in ("slow", "late"):
        STATE["slow"] = key
        return None
    return send({"id": key, "error": {"code": -32602, "message": f"no tool {name}"}})


def page(params, items, key):
    if "loop" in FLAGS:
        return {key: items[:1], "nextCursor": "again"}
    if "pages" not in FLAGS:
        return {key: items}
    at = int((params or {}).get("cursor") or 0)
    more = {"nextCursor": str(at + 1)} if at + 1 < len(items) else {}
    return {key: items[at : at + 1], **more}


def handle(message):
    key, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method is None:
        waiting = WAITING.pop(key, None)
        if waiting:
            send({"id": waiting[0], "result": text(message.get("result", message.get("error")))})
    elif method == "initialize":
        able = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
        send({"id": key, "result": {"protocolVersion": params["protocolVersion"], "capabilities": able, "serverInfo": {"name": "raw", "version": "1"}, "instructions": "Be kind."}})
    elif method == "tools/list":
        listed = tools()
        if "odd" in FLAGS:
            listed += [{"name": "bare"}, {"inputSchema": {}}, "nonsense", {"name": "naïve tool/ü", "inputSchema": {"properties": {}}}, {"name": "parts", "inputSchema": None, "outputSchema": {"type": "object", "required": ["never"]}}]
        send({"id": key, "result": page(params, listed, "tools")})
    elif method == "resources/list":
        send({"id": key, "result": page(params, [{"uri": "memo://one", "name": "one", "mimeType": "text/plain"}, {"uri": "memo://two", "name": "two"}], "resources")})
    elif method == "resources/templates/list":
        send({"id": key, "result": {"resourceTemplates": [{"uriTemplate": "memo://{name}", "name": "any"}]}})
    elif method == "resources/read":
        send({"id": key, "result": {"contents": [{"uri": params["uri"], "text": f"text of {params['uri']}"}]}})
    elif method == "prompts/list":
        send({"id": key, "result": {"prompts": [{"name": "sum", "description": "Sum up", "arguments": [{"name": "topic", "required": True}, {"name": "style"}]}]}})
    elif method == "prompts/get":
        send({"id": key, "result": {"messages": [{"role": "user", "content": {"type": "text", "text": f"Sum up {params['arguments']['topic']}"}}]}})
    elif method == "tools/call":
        call(key, params["name"], params.get("arguments") or {}, params.get("_meta") or {})
    elif method == "notifications/cancelled":
        STATE["cancelled"] = params.get("requestId")
        if STATE.get("slow") == params.get("requestId"):
            send({"id": STATE["slow"], "result": text("too late")})
    elif key is not None:
        send({"id": key, "error": {"code": -32601, "message": "unknown"}})


def main():
    if "die" in FLAGS:
        sys.exit("cannot find the database")
    if "flood" in FLAGS:
        for i in range(5000):
            sys.stderr.write(f"line {i} " + "y" * 100 + "\n")
    if "hang" in FLAGS:
        time.sleep(600)
    if "noise" in FLAGS:
        sys.stdout.write("Server running on stdio\n\xff\n[1, 2]\n{}\n\n" + "z" * 100_000 + "\n")
    sys.stdout.flush()
    sys.stderr.write("ready\n")
    sys.stderr.flush()
    for line in sys.stdin:
        handle(json.loads(line))
    if "deaf" in FLAGS:
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)


main()
