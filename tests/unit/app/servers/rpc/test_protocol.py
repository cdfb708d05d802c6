"""The lines of ``serve --rpc``: the published schema, hostile lines, and the client in the documentation."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mainspring.app.servers.rpc.protocol import Error, read_request, rpc_schema_text
from mainspring.testing.scripted_model import ScriptedCall
from tests.e2e.command import Command, command
from tests.e2e.servers.chat import call
from tests.helpers.waiting_model import Gate, WaitingModel
from tests.unit.app.servers.rpc.harness import REQUEST, SCHEMA, open_client

__all__ = ["command"]

pytestmark = pytest.mark.covers("BYD-23")

DOCS = Path(__file__).resolve().parents[5] / "docs"


def test_published_schema_is_current() -> None:
    published = (DOCS / "rpc.schema.json").read_text()
    assert published == rpc_schema_text(), "python -m mainspring.app.servers.rpc.protocol > docs/rpc.schema.json"


async def test_conversation_over_rpc(tmp_path: Path, home: Path) -> None:
    async with open_client(
        tmp_path, home, ScriptedCall("write_file", {"path": "a.txt", "content": "x"}), "Written."
    ) as client:
        assert (await client.next())["protocol"] == 2
        client.send_command(1, type="prompt", text="write it")
        request = await client.wait_for("approval_request")
        client.send_command(2, type="approve", id=request["id"], decision="once")
        assert (await client.wait_for("agent_end"))["text"] == "Written."
        client.send_command(3, type="get_status")
        assert (await client.wait_for("reply", id=3))["status"]["running"] is False
        client.send_command(4, type="complete", line="/co")
        assert {c["text"] for c in (await client.wait_for("reply", id=4))["candidates"]} >= {"/cost", "/compact"}
        client.send_command(5, type="list_commands")
        assert "cost" in (await client.wait_for("reply", id=5))["commands"]
        client.send_command(6, type="approve", id="q99", decision="once")
        assert (await client.wait_for("error", id=6))["code"] == "refused"
        client.send_command(7, type="close")
        await client.wait_for("reply", id=7)
    assert (tmp_path / "a.txt").read_text() == "x"


@settings(max_examples=20)
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
async def test_bad_lines_are_answered_and_the_conversation_continues(
    tmp_path: Path, home: Path, sent: list[bytes]
) -> None:
    bad = [line for line in (each.replace(b"\n", b" ") for each in sent) if line.strip()]
    assert all(isinstance(read_request(line), Error) for line in bad)
    async with open_client(tmp_path, home) as client:
        for line in bad:
            client.send_line(line)
        for _ in bad:
            await client.wait_for("error")
        client.send_command(1, type="get_status")
        await client.wait_for("reply", id=1)


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
    "background": {},
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


def make_variants(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Return variants without one field, with an extra field, and with values of other types."""
    variants: list[dict[str, Any]] = [{**fields, "unknown": 1}]
    for name in fields:
        variants.append({k: v for k, v in fields.items() if k != name})
        variants += [{**fields, name: wrong} for wrong in (None, 5, True, "text", [], {}, [5], ["x"], [{"x": 1}])]
    return variants


def test_every_command_has_an_example() -> None:
    assert set(SCHEMA["$defs"]["Request"]["properties"]["command"]["discriminator"]["mapping"]) == set(EXAMPLES)


@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_parser_and_schema_accept_the_same_requests(kind: str) -> None:
    def is_accepted_and_valid(request: Any) -> tuple[bool, bool]:
        return not isinstance(read_request(json.dumps(request).encode()), Error), REQUEST.is_valid(request)

    fields = EXAMPLES[kind]
    assert is_accepted_and_valid({"id": 1, "command": {"type": kind, **fields}}) == (True, True)
    for each in make_variants(fields):
        if each.get("attachments") != ["x"]:  # a schema cannot describe base64
            accepted, valid = is_accepted_and_valid({"id": "x", "command": {"type": kind, **each}})
            assert accepted == valid, each
    for request in ({"command": {"type": kind, **fields}, "idd": 1}, {"id": [], "command": {"type": kind, **fields}}):
        assert is_accepted_and_valid(request) == (False, False)
    assert is_accepted_and_valid({"command": {"type": f"{kind}x", **fields}}) == (False, False)


async def test_unknown_field_is_rejected(tmp_path: Path, home: Path) -> None:
    async with open_client(tmp_path, home, "never said") as client:
        client.send_command(1, type="prompt", text="x", attachment=[])
        error = await client.wait_for("error", id=1)
        assert error["code"] == "invalid"
        assert "attachment" in error["message"]
        assert (await client.reply(2, type="get_messages"))["messages"] == []


async def test_prompts_steering_and_abort_during_a_run(tmp_path: Path, home: Path) -> None:
    """A second prompt is queued, a steering message joins the next turn, and an abort keeps the queue."""
    (tmp_path / "a.txt").write_text("x")
    gates = {0: Gate(), 3: Gate()}
    script: list[Any] = [ScriptedCall("read_file", {"path": "a.txt"}), "First.", "Second.", "never said"]
    model = WaitingModel(*script, gates=gates)
    async with open_client(tmp_path, home, model) as client:
        await client.reply(1, type="prompt", text="one")
        await gates[0].reached_limit.wait()
        await client.reply(2, type="prompt", text="two")
        await client.reply(3, type="steer", text="and mind the gap")
        gates[0].open.set()
        assert (await client.wait_for("agent_end"))["text"] == "First."
        assert "mind the gap" in repr(model.requests[1].messages)
        assert (await client.wait_for("agent_end"))["text"] == "Second."
        await client.reply(4, type="prompt", text="three")
        await gates[3].reached_limit.wait()
        await client.reply(5, type="queue", text="four")
        await client.reply(6, type="abort", reason="enough")
        assert (await client.wait_for("agent_end"))["status"] == "aborted"
        assert (await client.reply(7, type="get_status"))["status"]["queued"] == 1
        messages = (await client.reply(8, type="get_messages"))["messages"]
    texts = [
        block["text"] for m in messages if m["role"] == "user" for block in m["content"] if block["type"] == "text"
    ]
    assert [text for text in texts if text in ("one", "two", "three", "four")] == ["one", "two", "three"]
    assert [b["type"] for m in messages for b in m["content"]].count("tool_result") == 1


async def test_session_commands(tmp_path: Path, home: Path) -> None:
    """Sessions are started, renamed, listed, resumed, forked, and exported."""
    async with open_client(tmp_path, home, "One.", "Two.", "Three.") as client:
        await client.reply(1, type="prompt", text="first")
        await client.wait_for("agent_end")
        await client.reply(2, type="rename", title="The first one")
        await client.reply(3, type="new_session")
        await client.wait_for("session_change", reason="new")
        await client.reply(4, type="prompt", text="second")
        await client.wait_for("agent_end")
        listed = (await client.reply(5, type="list_sessions"))["sessions"]
        assert {s["title"] for s in listed} == {"The first one", "second"}
        assert {s["cwd"] for s in listed} == {str(tmp_path)}
        first = next(s["id"] for s in listed if s["title"] == "The first one")
        await client.reply(6, type="resume", session=first)
        await client.wait_for("session_change", reason="resumed")
        await client.reply(7, type="fork")
        copied = await client.wait_for("session_change", reason="forked")
        assert copied["id"] != first
        await client.reply(8, type="prompt", text="third")
        await client.wait_for("agent_end")
        messages = repr((await client.reply(9, type="get_messages"))["messages"])
        assert ("One." in messages, "Two." in messages, "Three." in messages) == (True, False, True)
        for number, kind in enumerate(("html", "md", "jsonl")):
            done = await client.reply(20 + number, type="slash", line=f"/export out.{kind}")
            await client.wait_for("command_end", id=done["command"])
            assert "Three." in (tmp_path / f"out.{kind}").read_text()
        assert (await client.reply(30, type="list_sessions", everywhere=True))["sessions"]
        assert isinstance((await client.reply(31, type="list_models"))["models"], dict)


async def test_text_that_is_not_utf8_is_published(tmp_path: Path, home: Path) -> None:
    """Text without a UTF-8 encoding is published."""
    os.mkdir(os.fsencode(tmp_path) + b"/sub")
    (tmp_path / "sub" / os.fsdecode(b"bad-\xff.txt")).write_text("x")
    call_it = ScriptedCall("list_files", {"path": "sub"})
    async with open_client(tmp_path, home, call_it, "It has \udcff in it.") as client:
        await client.reply(1, type="prompt", text="look")
        finished = await client.wait_for("tool_execution_end")
        assert "bad-" in finished["result"]["content"]
        await client.wait_for("agent_end")
        await client.reply(2, type="get_messages")


def documented_client() -> Any:
    text = (DOCS / "front-ends.md").read_text()
    code = text.split("### A client\n")[1].split("```python\n")[1].split("```")[0]
    assert len(code.splitlines()) <= 68
    found: dict[str, Any] = {}
    exec(code, found)
    return found["Agent"]


def test_client_in_the_documentation_works(command: Command) -> None:
    command.server.script = [call("write_file", path="a.txt", content="x"), "Written."]
    agent = documented_client()(
        "--model", "openai:test-model", decide=lambda request: "once", cwd=command.folder, env=command.environment
    )
    assert agent.ask("write it")["text"] == "Written."
    assert (command.folder / "a.txt").read_text() == "x"
    assert agent.close() == 0


def test_signal_ends_the_server_cleanly(command: Command) -> None:
    process = command.start("serve", "--rpc", "--model", "openai:test-model", stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["type"] == "hello"
    json.loads(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (143, "")


def test_unknown_session_is_reported(command: Command) -> None:
    done = command.run("serve", "--rpc", "--session", "nonsense", piped="")
    assert [line["type"] for line in done.lines] == ["hello", "error"]
    assert done.result["code"] == "not_opened"
    assert (done.code, "nonsense" in done.err) == (2, True)
