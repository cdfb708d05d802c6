"""An MCP server with three tools, as a program."""

import sys
import textwrap
from pathlib import Path

SERVER = '''
    import json, sys

    sys.stderr.write("server is up, key sk-ant-REDACTED-0123456789abcdefghijklmnop\\n")
    sys.stderr.flush()
    TOOLS = [
        {"name": f"tool_{n}", "description": f"Does the thing number {n}.", "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "description": "What to do it with."}}}}
        for n in range(3)
    ]
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "little", "version": "1.2"}}
        elif method == "tools/list":
            result = {"tools": TOOLS}
        elif "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}}
            print(json.dumps(answer), flush=True)
            continue
        else:
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
'''  # fmt: skip


def write_server(folder: Path) -> list[str]:
    """Write the server into a folder and return the command line that starts it."""
    file = folder / "little.py"
    file.write_text(textwrap.dedent(SERVER), encoding="utf-8")
    return [sys.executable, "-S", "-E", str(file)]
