"""Replay a recorded transcript as an MCP server: each request gets the messages that the real server sent, up to its result."""

import json
import sys


def request_key(message):
    """Return what identifies a request: the method and its subject."""
    params = message.get("params") or {}
    about = {k: params[k] for k in ("name", "arguments", "uri") if k in params}
    return json.dumps([message.get("method"), about], sort_keys=True)


def load_responses(path):
    """Return the server messages up to the result of each request, by request key."""
    with open(path, encoding="utf-8") as file:
        transcript = json.load(file)["transcript"]
    parsed = []
    for step in transcript:
        try:
            parsed.append((step["dir"], json.loads(step["line"])))
        except ValueError:
            continue
    found = {}
    for i, (side, message) in enumerate(parsed):
        if (
            not side.startswith("client")
            or not isinstance(message, dict)
            or "method" not in message
            or "id" not in message
        ):
            continue
        messages = []
        for other, answer in parsed[i + 1 :]:
            if other.startswith("server"):
                messages.append(answer)
                if "method" not in answer and answer.get("id") == message["id"]:
                    found.setdefault(request_key(message), (message["id"], messages))
                    break
    return found


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main():
    responses = load_responses(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        if "method" not in request or "id" not in request:
            continue
        key = request_key({"method": "initialize"}) if request["method"] == "initialize" else request_key(request)
        if key not in responses:
            send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "not recorded"}})
            continue
        old, messages = responses[key]
        for message in messages:
            if "method" not in message and message.get("id") == old:
                message = {**message, "id": request["id"]}
            elif message.get("method") == "notifications/progress":
                token = (request["params"].get("_meta") or {}).get("progressToken")
                message = {**message, "params": {**message["params"], "progressToken": token}}
            send(message)


main()
