"""The lines of ``serve --rpc``: the published schema, hostile lines, and the client of the documentation."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from referencing import Registry

from mainspring.app.server.rpc.protocol import Error, read_request
from mainspring.app.server.rpc.schema import rpc_schema, rpc_schema_text
from mainspring.app.server.rpc.serve import serve_rpc
from mainspring.app.server.running import OpenChats
from mainspring.app.server.stdio import Wire
from mainspring.testing import Call, ScriptedModel
from tests.e2e.command import Command, command
from tests.e2e.servers.chat import call
from tests.unit.app.server.acp.stage import options_for

__all__ = ["command"]

pytestmark = pytest.mark.covers("BYD-23")

DOCS = Path(__file__).resolve().parents[5] / "docs"
VALIDATOR = jsonschema.Draft202012Validator(rpc_schema(), registry=Registry())


class Client:
    """A program at the other end."""

    def __init__(self) -> None:
        self.out: asyncio.Queue[bytes] = asyncio.Queue()
        self.into: asyncio.Queue[bytes] = asyncio.Queue()
        self.wire = Wire(self.out.get, self.into.put)

    def say(self, line: bytes) -> None:
        self.out.put_nowait(line + b"\n")

    def ask(self, number: int, /, **command: Any) -> None:
        self.say(json.dumps({"id": number, "command": command}).encode())

    async def next(self) -> dict[str, Any]:
        line = json.loads(await asyncio.wait_for(self.into.get(), 10))
        VALIDATOR.validate(line)
        return line

    async def until(self, kind: str, **facts: Any) -> dict[str, Any]:
        while True:
            line = await self.next()
            found = line["event"] if line["type"] == "event" else line
            if found["type"] == kind and facts.items() <= found.items():
                return found


@asynccontextmanager
async def serving(tmp_path: Path, home: Path, *script: Any) -> AsyncGenerator[Client]:
    client = Client()
    task = asyncio.create_task(serve_rpc(client.wire, OpenChats(), options_for(tmp_path, home, ScriptedModel(*script))))
    yield client
    client.out.put_nowait(b"")
    async with asyncio.timeout(10):
        await task


def test_the_published_schema_is_that_of_the_structs() -> None:
    published = (DOCS / "rpc.schema.json").read_text()
    assert published == rpc_schema_text(), "python -m mainspring.app.server.rpc.schema > docs/rpc.schema.json"


async def test_a_conversation(tmp_path: Path, home: Path) -> None:
    async with serving(tmp_path, home, Call("write_file", {"path": "a.txt", "content": "x"}), "Written.") as client:
        assert (await client.next())["protocol"] == 1
        client.ask(1, type="prompt", text="write it")
        asked = await client.until("approval_asked")
        client.ask(2, type="approve", id=asked["id"], decision="once")
        assert (await client.until("run_finished"))["text"] == "Written."
        client.ask(3, type="get_status")
        assert (await client.until("reply", id=3))["status"]["running"] is False
        client.ask(4, type="complete", line="/co")
        assert {c["text"] for c in (await client.until("reply", id=4))["candidates"]} >= {"/cost", "/compact"}
        client.ask(5, type="list_commands")
        assert "cost" in (await client.until("reply", id=5))["commands"]
        client.ask(6, type="approve", id="q99", decision="once")
        assert (await client.until("error", id=6))["code"] == "refused"
        client.ask(7, type="close")
        await client.until("reply", id=7)
    assert (tmp_path / "a.txt").read_text() == "x"


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sent=st.lists(
        st.binary(max_size=40)
        | st.integers(1, 20_000).map(lambda depth: b"[" * depth)
        | st.dictionaries(st.sampled_from(["id", "command", "type"]), st.none() | st.text() | st.integers()).map(
            lambda value: json.dumps(value).encode()
        ),
        max_size=6,
    )
)
async def test_bad_lines_are_answered_and_the_conversation_goes_on(
    tmp_path: Path, home: Path, sent: list[bytes]
) -> None:
    bad = [line for line in (each.replace(b"\n", b" ") for each in sent) if line.strip()]
    assert all(isinstance(read_request(line), Error) for line in bad)
    async with serving(tmp_path, home) as client:
        for line in bad:
            client.say(line)
        for _ in bad:
            await client.until("error")
        client.ask(1, type="get_status")
        await client.until("reply", id=1)


def documented_client() -> Any:
    text = (DOCS / "rpc.md").read_text()
    code = text.split("## A client")[1].split("```python\n")[1].split("```")[0]
    assert len(code.splitlines()) <= 64
    found: dict[str, Any] = {}
    exec(code, found)
    return found["Agent"]


def test_the_client_of_the_documentation(command: Command) -> None:
    command.server.script = [call("write_file", path="a.txt", content="x"), "Written."]
    agent = documented_client()(
        "--model", "openai:test-model", decide=lambda asked: "once", cwd=command.folder, env=command.environment
    )
    assert agent.ask("write it")["text"] == "Written."
    assert (command.folder / "a.txt").read_text() == "x"
    assert agent.close() == 0


def test_a_signal_ends_it_in_order(command: Command) -> None:
    process = command.start("serve", "--rpc", "--model", "openai:test-model", stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["type"] == "hello"
    json.loads(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (143, "")


def test_what_cannot_be_opened_is_said(command: Command) -> None:
    done = command.run("serve", "--rpc", "--session", "nonsense", piped="")
    assert [line["type"] for line in done.lines] == ["hello", "error"]
    assert done.result["code"] == "not_opened"
    assert (done.code, "nonsense" in done.err) == (2, True)
