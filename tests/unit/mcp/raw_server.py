"""A server in plain Python, without the SDK, that starts quickly and can make every mistake that real servers make.

Flags select the behavior: ``hang`` (never responds), ``die`` (exits immediately), ``noise`` (prints invalid messages), ``pages``
(one tool per page), ``loop`` (the same page forever), ``deaf`` (keeps running after its input is closed), ``flood`` (fills stderr),
``odd`` (invalid tools), ``strict`` (ends at a request before ``initialize``), ``old`` (a very old protocol), ``changes``, ``logs``, and ``errors`` (endless list changes, log messages, or lines on stderr).
"""

import json
import os
import signal
import subprocess
import sys
import threading

FLAGS = set(sys.argv[1:])
STATE = {"calls": 0, "extra": False, "asked": 0, "listed": 0}
WRITING = threading.Lock()
WAITING = {}
FOREVER = 600


def send(message):
    with WRITING:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text(value):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def add(key, args, meta):
    return {"content": [], "structuredContent": {"sum": args["n"] + 1}}


def echo(key, args, meta):
    return text(args.get("text", ""))


def big(key, args, meta):
    return text("x" * args["n"])


def fail(key, args, meta):
    return {**text("it went wrong"), "isError": True}


def parts(key, args, meta):
    return {
        "content": [
            {"type": "text", "text": "first"},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "the file a"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "inside b"}},
            {"type": "resource", "resource": {"uri": "file:///c", "blob": "aGVsbG8=", "mimeType": "application/zip"}},
            {"type": "hologram", "data": "?"},
            {"type": "image", "mimeType": "image/png"},
        ]
    }


def env(key, args, meta):
    return text(dict(os.environ))


def pid(key, args, meta):
    return text(str(os.getpid()))


def state(key, args, meta):
    return text(STATE)


def crash(key, args, meta):
    sys.stderr.write("token=sk-ant-REDACTME123456 out of memory\n")
    sys.stderr.flush()
    os._exit(3)


def child(key, args, meta):
    command = [sys.executable, "-c", f"import time; time.sleep({FOREVER})"]
    process = subprocess.Popen(command, start_new_session=bool(args.get("n")))
    return text(f"{os.getpid()} {process.pid}")


def progress(key, args, meta):
    for i in range(3):
        step = {"progressToken": meta["progressToken"], "progress": i + 1, "total": 3, "message": f"step {i + 1}"}
        send({"method": "notifications/progress", "params": step})
        threading.Event().wait(args.get("n", 0) / 1000)
    return text("done")


def grow(key, args, meta):
    STATE["extra"] = True
    send({"id": key, "result": text("grown")})
    send({"method": "notifications/tools/list_changed"})


def ask_client(key, method, params):
    STATE["asked"] += 1
    WAITING[f"s{STATE['asked']}"] = key
    send({"id": f"s{STATE['asked']}", "method": method, "params": params})


def ask(key, args, meta):
    fields = {"city": {"type": "string"}, "days": {"type": "integer"}}
    schema = {"type": "object", "properties": fields, "required": ["city", "days"]}
    ask_client(key, "elicitation/create", {"message": "Where to?", "requestedSchema": schema})


def visit(key, args, meta):
    page = {"mode": "url", "message": "Log in", "url": "https://x.test/in", "elicitationId": "e"}
    ask_client(key, "elicitation/create", page)


def sample(key, args, meta):
    messages = [{"role": "user", "content": {"type": "text", "text": "Say hi"}}]
    ask_client(key, "sampling/createMessage", {"messages": messages, "maxTokens": 50, "systemPrompt": "Short."})


def roots(key, args, meta):
    ask_client(key, "roots/list", {})


def ping(key, args, meta):
    ask_client(key, "ping", {})


def slow(key, args, meta):
    STATE["slow"] = key


def broken(key, args, meta):
    line = args["text"].replace("DEEP", "[" * 200_000 + "]" * 200_000)
    sys.stdout.write(line.replace("KEY", json.dumps(key)) + "\n")
    sys.stdout.flush()


TOOLS = {
    f.__name__: f
    for f in (
        add,
        ask,
        big,
        child,
        crash,
        echo,
        env,
        fail,
        grow,
        pid,
        ping,
        progress,
        roots,
        sample,
        slow,
        state,
        visit,
    )
}
HIDDEN = {"broken": broken, "parts": parts, "grown": echo}


def list_definitions():
    names = [*TOOLS, *(["grown"] if STATE["extra"] else [])]
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"}}}
    found = [{"name": n, "description": f"It does {n}.", "inputSchema": schema} for n in names]
    found[0]["annotations"] = {"readOnlyHint": True, "idempotentHint": True, "title": 5}
    if "odd" in FLAGS:
        never = {"type": "object", "required": ["never"]}
        found += [{"name": "bare"}, {"inputSchema": {}}, "nonsense"]
        found += [{"name": "naïve tool/ü", "inputSchema": {"properties": {}}}]
        found += [{"name": "parts", "inputSchema": None, "outputSchema": never}]
        deep = {}
        for _ in range(400):
            deep = {"type": "object", "properties": {"a": deep}}
        found += [{"name": "deep", "inputSchema": deep}]
        found += [{"name": "array", "inputSchema": {"properties": [1], "required": "a", "$defs": 5}}]
    return found


def page(params, items, key):
    if "loop" in FLAGS:
        return {key: items[:1], "nextCursor": "again"}
    if "pages" not in FLAGS:
        return {key: items}
    at = int(params.get("cursor") or 0)
    more = {"nextCursor": str(at + 1)} if at + 1 < len(items) else {}
    return {key: items[at : at + 1], **more}


def changes(n):
    send({"method": "notifications/tools/list_changed"})


def logs(n):
    send({"method": "notifications/message", "params": {"level": "info", "logger": "own", "data": f"line {n}."}})


def errors(n):
    sys.stderr.write(f"line {n}.\n")


def repeat_forever(publish):
    n = 0
    while True:
        publish(n)
        n += 1


def list_tools(params):
    STATE["listed"] += 1
    return page(params, list_definitions(), "tools")


def initialize(params):
    able = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
    facts = {"serverInfo": {"name": "raw", "version": "1"}, "instructions": "Be kind."}
    FLAGS.discard("strict")
    version = "2024-10-07" if "old" in FLAGS else params["protocolVersion"]
    return {"protocolVersion": version, "capabilities": able, **facts}


def list_resources(params):
    found = [{"uri": "memo://one", "name": "one", "mimeType": "text/plain"}, {"uri": "memo://two", "name": "two"}]
    return page(params, found, "resources")


def list_prompts(params):
    arguments = [{"name": "topic", "required": True}, {"name": "style"}]
    return {"prompts": [{"name": "sum", "description": "Sum up", "arguments": arguments}]}


def get_prompt(params):
    content = {"type": "text", "text": f"Sum up {params['arguments']['topic']}"}
    return {"messages": [{"role": "user", "content": content}]}


METHODS = {
    "initialize": initialize,
    "tools/list": list_tools,
    "resources/list": list_resources,
    "resources/templates/list": lambda params: {"resourceTemplates": [{"uriTemplate": "memo://{name}", "name": "any"}]},
    "resources/read": lambda params: {"contents": [{"uri": params["uri"], "text": f"text of {params['uri']}"}]},
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
}


def start_floods():
    for publish in (changes, logs, errors):
        if publish.__name__ in FLAGS:
            threading.Thread(target=repeat_forever, args=(publish,), daemon=True).start()


AFTER_RESPONSE = {"initialize": start_floods}


def handle(message):
    key, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method is None:
        if key in WAITING:
            send({"id": WAITING.pop(key), "result": text(message.get("result", message.get("error")))})
    elif method in METHODS:
        send({"id": key, "result": METHODS[method](params)})
        AFTER_RESPONSE.get(method, lambda: None)()
    elif method == "tools/call":
        work = TOOLS.get(params["name"]) or HIDDEN.get(params["name"])
        if work is None:
            send({"id": key, "error": {"code": -32602, "message": f"no tool {params['name']}"}})
            return
        STATE["calls"] += 1
        result = work(key, params.get("arguments") or {}, params.get("_meta") or {})
        if result is not None:
            send({"id": key, "result": result})
    elif method == "notifications/cancelled":
        STATE["cancelled"] = params.get("requestId")
        if STATE.get("slow") == params.get("requestId"):
            send({"id": STATE["slow"], "result": text("too late")})
    elif "strict" in FLAGS:
        sys.exit(1)
    elif key is not None:
        send({"id": key, "error": {"code": -32601, "message": "unknown"}})


def main():
    if "die" in FLAGS:
        sys.exit("cannot find the database")
    if "flood" in FLAGS:
        for i in range(5000):
            sys.stderr.write(f"line {i} " + "y" * 100 + "\n")
    if "hang" in FLAGS:
        threading.Event().wait(FOREVER)
    if "noise" in FLAGS:
        sys.stdout.buffer.write(b"Server running on stdio\n\xff\xfe\n[1, 2]\n{}\n\n" + b"z" * 100_000 + b"\n")
    sys.stdout.flush()
    sys.stderr.write("ready\n")
    sys.stderr.flush()
    for line in sys.stdin:
        handle(json.loads(line))
    if "deaf" in FLAGS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Event().wait(FOREVER)


main()
