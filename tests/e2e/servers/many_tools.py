"""An MCP server on stdio with many tools: `many_tools.py NAME COUNT [start-file]`.

With a file, the server starts to answer when that file exists; with the file ``exit``, it fails immediately.
"""

import json
import sys
import threading
from pathlib import Path

NAME, COUNT, *START = sys.argv[1:]


def tool(number: int) -> dict[str, object]:
    """Return a tool of about 70 tokens."""
    text = {"type": "string", "description": f"The {NAME} to work on, by its ID or its path in the project."}
    schema = {"type": "object", "properties": {"target": text}, "required": ["target"]}
    about = f"Work on a {NAME} in way {number}. Use it when the user asks for way {number}."
    return {"name": f"way_{number}", "description": about, "inputSchema": schema}


def answer(method: str, parameters: dict[str, str]) -> dict[str, object]:
    """Return the result of a request."""
    if method == "initialize":
        info = {"name": NAME, "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [tool(number) for number in range(int(COUNT))]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"{NAME} did {parameters['name']}"}]}
    return {}


if START == ["exit"]:
    sys.exit("the database is gone")
while START and not Path(START[0]).exists():
    threading.Event().wait(0.02)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message["method"], message.get("params", {}))}
        sys.stdout.write(f"{json.dumps(reply)}\n")
        sys.stdout.flush()
