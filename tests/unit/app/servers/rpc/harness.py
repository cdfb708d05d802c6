"""A client of ``serve --rpc`` in the same process, with a scripted model."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
from referencing import Registry

from mainspring.app.export.formats import EXPORTERS
from mainspring.app.servers.rpc.protocol import rpc_schema_text
from mainspring.app.servers.rpc.server import serve_rpc
from mainspring.app.servers.stdio import ChatRegistry
from mainspring.testing.scripted_model import ScriptedModel
from tests.helpers.memory_lines import MemoryLines
from tests.unit.app.servers.acp.harness import options_for

SCHEMA: dict[str, Any] = json.loads(rpc_schema_text())
LINE, REQUEST = (
    jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}, registry=Registry())
    for name in ("Line", "Request")
)


class Client(MemoryLines):
    """A client of the server."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: dict[int, Any] = {}

    def send_command(self, number: int, /, **command: Any) -> None:
        self.sent[number] = {"id": number, "command": command}
        self.send_line(json.dumps(self.sent[number]).encode())

    async def reply(self, number: int, /, **command: Any) -> dict[str, Any]:
        """Send a request and return its reply."""
        self.send_command(number, **command)
        return await self.wait_for("reply", id=number)

    async def next(self) -> dict[str, Any]:
        line = json.loads(await self.written())
        LINE.validate(line)
        if line["type"] == "reply" and line["id"] in self.sent:
            REQUEST.validate(self.sent[line["id"]])  # accepted requests match the schema
        return line

    async def wait_for(self, kind: str, **facts: Any) -> dict[str, Any]:
        while True:
            line = await self.next()
            found = line["event"] if line["type"] == "event" else line
            if found["type"] == kind and facts.items() <= found.items():
                return found


@asynccontextmanager
async def open_client(tmp_path: Path, home: Path, *script: Any, **more: Any) -> AsyncGenerator[Client]:
    client = Client()
    model = script[0] if script and isinstance(script[0], ScriptedModel) else ScriptedModel(*script)
    options = options_for(tmp_path, home, model, exporters=EXPORTERS, **more)
    task = asyncio.create_task(serve_rpc(client.wire, ChatRegistry(), options))
    yield client
    client.feed(b"")
    await task
