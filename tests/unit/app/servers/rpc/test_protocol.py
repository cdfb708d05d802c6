"""The lines of ``serve --rpc``: the published schema, hostile lines, and the client of the documentation."""

import asyncio
import json
import os
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

from mainspring.app.export.formats import EXPORTERS
from mainspring.app.servers.rpc.protocol import Error, build_rpc_schema, read_request, rpc_schema_text
from mainspring.app.servers.rpc.server import serve_rpc
from mainspring.app.servers.stdio import ChatRegistry, LineTransport
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel
from tests.e2e.command import Command, command
from tests.e2e.servers.chat import call
from tests.unit.app.chat.harness import Gate, WaitingModel
from tests.unit.app.servers.acp.harness import options_for

__all__ = ["command"]

pytestmark = pytest.mark.covers("BYD-23")

DOCS = Path(__file__).resolve().parents[5] / "docs"
SCHEMA = build_rpc_schema()
LINE, REQUEST = (
    jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}, registry=Registry())
    for name in ("Line", "Request")
)


class Client:
    """A program at the other end."""

    def __init__(self) -> None:
        self.out: asyncio.Queue[bytes] = asyncio.Queue()
        self.into: asyncio.Queue[bytes] = asyncio.Queue()
        self.wire = LineTransport(self.out.get, self.into.put)
        self.asked: dict[int, Any] = {}

    def say(self, line: bytes) -> None:
        self.out.put_nowait(line + b"\n")

    def ask(self, number: int, /, **command: Any) -> None:
        self.asked[number] = {"id": number, "command": command}
        self.say(json.dumps(self.asked[number]).encode())

    async def reply(self, number: int, /, **command: Any) -> dict[str, Any]:
        """The reply to a request."""
        self.ask(number, **command)
        return await self.until("reply", id=number)

    async def next(self) -> dict[str, Any]:
        line = json.loads(await asyncio.wait_for(self.into.get(), 10))
        LINE.validate(line)
        if line["type"] == "reply" and line["id"] in self.asked:
            REQUEST.validate(self.asked[line["id"]])  # what is taken is as the schema has it
        return line

    async def until(self, kind: str, **facts: Any) -> dict[str, Any]:
        while True:
            line = await self.next()
            found = line["event"] if line["type"] == "event" else line
            if found["type"] == kind and facts.items() <= found.items():
                return found


@asynccontextmanager
async def serving(tmp_path: Path, home: Path, *script: Any, **more: Any) -> AsyncGenerator[Client]:
    client = Client()
    model = script[0] if script and isinstance(script[0], ScriptedModel) else ScriptedModel(*script)
    options = options_for(tmp_path, home, model, exporters=EXPORTERS, **more)
    task = asyncio.create_task(serve_rpc(client.wire, ChatRegistry(), options))
    yield client
    client.out.put_nowait(b"")
    async with asyncio.timeout(10):
        await task


def test_the_published_schema_is_that_of_the_structs() -> None:
    published = (DOCS / "rpc.schema.json").read_text()
    assert published == rpc_schema_text(), "python -m mainspring.app.servers.rpc.protocol > docs/rpc.schema.json"


async def test_a_conversation(tmp_path: Path, home: Path) -> None:
    async with serving(
        tmp_path, home, ScriptedCall("write_file", {"path": "a.txt", "content": "x"}), "Written."
    ) as client:
        assert (await client.next())["protocol"] == 1
        client.ask(1, type="prompt", text="write it")
        request = await client.until("approval_asked")
        client.ask(2, type="approve", id=request["id"], decision="once")
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


EXAMPLES: dict[str, dict[str, Any]] = {
    "prompt": {"text": "x", "attachments": [{"media_type": "image/png", "data": "aGk="}]},
    "steer": {"text": "x"},
    "queue": {"text": "x"},
    "edit_queued": {"id": "c1", "text": "x"},
    "remove_queued": {"id": "c1"},
    "send_queued": {},
    "shell": {"line": "ls", "tell": False},
    "shortcut": {"key": "ctrl+k"},
    "approve": {"id": "q1", "decision": "once", "reason": ""},
    "answer": {"id": "q1", "chosen": ["a"], "text": "", "declined": False},
    "abort": {"reason": "enough"},
    "set_model": {"model": "openai:x"},
    "set_thinking": {"level": "low"},
    "set_mode": {"mode": "plan"},
    "execute_plan": {"plan": "x"},
    "slash": {"line": "/cost"},
    "rewind": {"to": "x", "what": "files", "preview": True, "force": True},
    "resume": {"session": "x"},
    "fork": {"entry": "x"},
    "new_session": {},
    "rename": {"title": "x"},
    "compact": {"instructions": "x"},
    "get_status": {},
    "get_messages": {},
    "complete": {"line": "/"},
    "list_commands": {},
    "list_models": {},
    "list_sessions": {"everywhere": True},
    "close": {},
}


def spoilt(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The same without one field, with another one, and with values of other kinds."""
    made: list[dict[str, Any]] = [{**fields, "unknown": 1}]
    for name in fields:
        made.append({k: v for k, v in fields.items() if k != name})
        made += [{**fields, name: wrong} for wrong in (None, 5, True, "text", [], {}, [5], ["x"], [{"x": 1}])]
    return made


def test_every_command_has_an_example() -> None:
    assert set(SCHEMA["$defs"]["Request"]["properties"]["command"]["discriminator"]["mapping"]) == set(EXAMPLES)


@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_what_is_taken_is_what_the_schema_takes(kind: str) -> None:
    def both(request: Any) -> tuple[bool, bool]:
        return not isinstance(read_request(json.dumps(request).encode()), Error), REQUEST.is_valid(request)

    fields = EXAMPLES[kind]
    assert both({"id": 1, "command": {"type": kind, **fields}}) == (True, True)
    for each in spoilt(fields):
        if each.get("attachments") != ["x"]:  # base64 is more than a text, and no schema says so
            taken, valid = both({"id": "x", "command": {"type": kind, **each}})
            assert taken == valid, each
    for request in ({"command": {"type": kind, **fields}, "idd": 1}, {"id": [], "command": {"type": kind, **fields}}):
        assert both(request) == (False, False)
    assert both({"command": {"type": f"{kind}x", **fields}}) == (False, False)


async def test_a_field_that_is_not_known_changes_nothing(tmp_path: Path, home: Path) -> None:
    async with serving(tmp_path, home, "never said") as client:
        client.ask(1, type="prompt", text="x", attachment=[])
        error = await client.until("error", id=1)
        assert error["code"] == "invalid"
        assert "attachment" in error["message"]
        assert (await client.reply(2, type="get_messages"))["messages"] == []


async def test_what_is_said_while_a_run_goes_on(tmp_path: Path, home: Path) -> None:
    """A second prompt waits its turn, a steer comes at the next step, and an abort stops what runs and keeps what waits."""
    (tmp_path / "a.txt").write_text("x")
    gates = {0: Gate(), 3: Gate()}
    script: list[Any] = [ScriptedCall("read_file", {"path": "a.txt"}), "First.", "Second.", "never said"]
    model = WaitingModel(*script, gates=gates)
    async with serving(tmp_path, home, model) as client:
        await client.reply(1, type="prompt", text="one")
        await gates[0].reached_limit.wait()
        await client.reply(2, type="prompt", text="two")
        await client.reply(3, type="steer", text="and mind the gap")
        gates[0].open.set()
        assert (await client.until("run_finished"))["text"] == "First."
        assert "mind the gap" in repr(model.requests[1].messages)
        assert (await client.until("run_finished"))["text"] == "Second."
        await client.reply(4, type="prompt", text="three")
        await gates[3].reached_limit.wait()
        await client.reply(5, type="queue", text="four")
        await client.reply(6, type="abort", reason="enough")
        assert (await client.until("run_finished"))["status"] == "aborted"
        assert (await client.reply(7, type="get_status"))["status"]["queued"] == 1
        said = (await client.reply(8, type="get_messages"))["messages"]
    texts = [block["text"] for m in said if m["role"] == "user" for block in m["content"] if block["type"] == "text"]
    assert [text for text in texts if text in ("one", "two", "three", "four")] == ["one", "two", "three"]
    assert [b["type"] for m in said for b in m["content"]].count("tool_result") == 1


async def test_sessions(tmp_path: Path, home: Path) -> None:
    """Begun, named, listed, gone on with, copied, exported."""
    async with serving(tmp_path, home, "One.", "Two.", "Three.") as client:
        await client.reply(1, type="prompt", text="first")
        await client.until("run_finished")
        await client.reply(2, type="rename", title="The first one")
        await client.reply(3, type="new_session")
        await client.until("session_changed", reason="new")
        await client.reply(4, type="prompt", text="second")
        await client.until("run_finished")
        listed = (await client.reply(5, type="list_sessions"))["sessions"]
        assert {s["title"] for s in listed} == {"The first one", "second"}
        assert {s["cwd"] for s in listed} == {str(tmp_path)}
        first = next(s["id"] for s in listed if s["title"] == "The first one")
        await client.reply(6, type="resume", session=first)
        await client.until("session_changed", reason="resumed")
        await client.reply(7, type="fork")
        copied = await client.until("session_changed", reason="forked")
        assert copied["id"] != first
        await client.reply(8, type="prompt", text="third")
        await client.until("run_finished")
        said = repr((await client.reply(9, type="get_messages"))["messages"])
        assert ("One." in said, "Two." in said, "Three." in said) == (True, False, True)
        for number, kind in enumerate(("html", "md", "jsonl")):
            done = await client.reply(20 + number, type="slash", line=f"/export out.{kind}")
            await client.until("command_done", id=done["command"])
            assert "Three." in (tmp_path / f"out.{kind}").read_text()
        assert (await client.reply(30, type="list_sessions", everywhere=True))["sessions"]
        assert isinstance((await client.reply(31, type="list_models"))["models"], dict)


async def test_names_that_are_no_text(tmp_path: Path, home: Path) -> None:
    """What has no form in UTF-8 is told all the same."""
    os.mkdir(os.fsencode(tmp_path) + b"/sub")
    (tmp_path / "sub" / os.fsdecode(b"bad-\xff.txt")).write_text("x")
    call_it = ScriptedCall("list_files", {"path": "sub"})
    async with serving(tmp_path, home, call_it, "It has \udcff in it.") as client:
        await client.reply(1, type="prompt", text="look")
        finished = await client.until("tool_finished")
        assert "bad-" in finished["output"]
        await client.until("run_finished")
        await client.reply(2, type="get_messages")


def documented_client() -> Any:
    text = (DOCS / "front-ends.md").read_text()
    code = text.split("### A client\n")[1].split("```python\n")[1].split("```")[0]
    assert len(code.splitlines()) <= 68
    found: dict[str, Any] = {}
    exec(code, found)
    return found["Agent"]


def test_the_client_of_the_documentation(command: Command) -> None:
    command.server.script = [call("write_file", path="a.txt", content="x"), "Written."]
    agent = documented_client()(
        "--model", "openai:test-model", decide=lambda request: "once", cwd=command.folder, env=command.environment
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
