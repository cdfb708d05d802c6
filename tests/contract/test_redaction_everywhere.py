"""Each secret, through each source, is in none of the places where text is stored, exported, sent, or shown."""

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mainspring import Agent
from mainspring.app.commands.mcp import inspect_servers
from mainspring.app.dashboard.session_runs import SavedRuns
from mainspring.app.export import render_html, render_markdown
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.manage_settings import describe_settings
from mainspring.app.workspace.saved_sessions import export_jsonl, export_transcript
from mainspring.env import MemoryEnv
from mainspring.errors import ToolError
from mainspring.mcp.config import McpServerConfig
from mainspring.mcp.server_log import ServerLog
from mainspring.messages import ImageBlock, Message, TextBlock
from mainspring.models import MemoryResponse, MemoryTransport, RecordingTransport, create_model
from mainspring.models.http_model import HttpModel
from mainspring.policies.audit_log import AuditLog
from mainspring.run_options import RunOptions
from mainspring.sessions import Session, SqliteSessionStore
from mainspring.sessions.event_log import SessionEventLog
from mainspring.telemetry import Tracing
from mainspring.testing import Reply, ScriptedCall, ScriptedModel, Tape
from mainspring.tools import tool
from tests.secret_forms import FORMS
from tests.secret_samples import ORDINARY, SAMPLES, Sample
from tests.unit.telemetry.recorder import Recorder

pytestmark = pytest.mark.slow

SOURCES = ("prompt", "tool argument", "tool result", "tool error", "model text", "thinking")
NAMED = "correct-horse-42"
"""The value of an environment variable, which looks like no token."""

ALL_SAMPLES = [*SAMPLES, *FORMS[::16], Sample("environment", f"it is {NAMED} there", NAMED)]

BATCHES = [ALL_SAMPLES[at : at + 8] for at in range(0, len(ALL_SAMPLES), 8)]
"""One session for each batch, since the cost of a session here grows with the square of its length."""


@tool
async def look(text: str, fail: bool = False) -> str:
    """Return a text."""
    if fail:
        raise ToolError(text)
    return text


@pytest.fixture(autouse=True)
def set_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", NAMED)


def create_script(source: str, samples: list[Sample]) -> Iterator[Any]:
    """Yield model responses that send each sample through a source."""
    for number, sample in enumerate(samples):
        if source == "model text":
            yield Reply(sample.text)
        elif source == "thinking":
            yield Reply("done", thinking=sample.text)
        elif source.startswith("tool"):
            given = {"text": sample.text, "fail": source == "tool error"}
            yield Reply(calls=[ScriptedCall("look", given, id=f"call-{number}")])
            yield Reply("done")
        else:
            yield Reply("done")


def find_secrets(text: str) -> list[str]:
    """Return the names of the samples whose secrets are in a text, in any encoding."""
    return [
        s.name
        for s in ALL_SAMPLES
        if any(
            form in text
            for form in {s.secret, json.dumps(s.secret)[1:-1], html.escape(s.secret), quote(s.secret, safe="")}
        )
    ]


def read_files(folder: Path) -> str:
    return "\n".join(f.read_bytes().decode("utf-8", "replace") for f in sorted(folder.rglob("*")) if f.is_file())


async def run_all(source: str, samples: list[Sample], session: Session, *plugs: Any) -> None:
    agent = Agent(
        ScriptedModel(*create_script(source, samples)),
        session=session,
        execution=MemoryEnv(),
        tools=[look],
        plugs=plugs,
        behavior=RunOptions(max_turns=1000),
    )
    for sample in samples:
        await agent.run(sample.text if source == "prompt" else "go")
    session.close()


@pytest.mark.parametrize("source", SOURCES)
async def test_stored_and_exported_data_contains_no_secrets(source: str, tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "project"
    folder.mkdir()
    recorder = Recorder(environ={"DB_PASSWORD": NAMED}, sensitive=True, content="both")
    audit = AuditLog(tmp_path / "audit.jsonl")
    ids: list[str] = []
    for samples in BATCHES:
        session = Session.create(str(folder), home=home)
        ids.append(session.id)
        await run_all(source, samples, session, SessionEventLog(session), audit, Tracing(recorder.telemetry))

    environ = {"MAINSPRING_HOME": str(home), "HOME": str(tmp_path), "DB_PASSWORD": NAMED}
    place = WorkspaceOptions(cwd=str(folder))
    transcripts = [export_transcript(id, place, environ) for id in ids]
    viewer = SavedRuns(home, environ)
    sinks: dict[str, str] = {
        "files of the session and its log": read_files(home),
        "audit log": audit.path.read_text(encoding="utf-8") if audit.path.exists() else "",
        "HTML": "\n".join(map(render_html, transcripts)),
        "Markdown": "\n".join(map(render_markdown, transcripts)),
        "JSON lines": b"\n".join(line for id in ids for line in export_jsonl(id, place, environ)).decode(),
        "telemetry": recorder.everything(),
        "viewer": repr([viewer.run(run.id) for run in viewer.runs()[::10]]),
    }
    assert {name: found for name, text in sinks.items() if (found := find_secrets(text))} == {}
    assert "[redacted]" in sinks["files of the session and its log"]


async def test_sqlite_session_contains_no_secrets(tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "db" / "sessions.db")
    for source in ("prompt", "tool result"):
        for samples in BATCHES:
            await run_all(source, samples, Session.create("/work", home=store))
    assert find_secrets(read_files(tmp_path)) == []


def chat(delta: dict[str, Any], reason: str | None = None) -> bytes:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta, 'finish_reason': reason}]})}\n\n".encode()


def text_stream(text: str) -> bytes:
    """Return a stream that sends a text in pieces of seven characters."""
    parts = [text[at : at + 7] for at in range(0, len(text), 7)]
    return b"".join(chat({"content": part}) for part in parts) + chat({}, "stop") + b"data: [DONE]\n\n"


def tool_call_stream(text: str) -> bytes:
    arguments = json.dumps({"text": text})
    parts = [arguments[at : at + 7] for at in range(0, len(arguments), 7)]
    head = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": ""}}]}
    body = [chat({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}) for part in parts]
    return chat(head) + b"".join(body) + chat({}, "tool_calls") + b"data: [DONE]\n\n"


def create_http_model(*answers: bytes) -> HttpModel:
    model = create_model("compatible:m", base_url="http://h/v1", api_key="sk-" + "a1B2" * 8)
    assert isinstance(model, HttpModel)
    return model.with_transport(
        MemoryTransport(*[MemoryResponse(a, headers={"content-type": "text/event-stream"}) for a in answers])
    )


class _Recording(Tape):
    def model(self, model: Any, **settings: Any) -> Any:
        recorder: Any = super().model(model, **settings)
        recorder._own_transport._own = model._own_transport
        return recorder


async def test_tapes_and_recorded_traffic_contain_no_secrets(tmp_path: Path) -> None:
    for number, sample in enumerate(ALL_SAMPLES):
        answers = (tool_call_stream(sample.text), text_stream(sample.text))
        path = tmp_path / "tapes" / f"{number}.jsonl"
        with _Recording(path, "record") as tape:
            agent = Agent(
                tape.model(create_http_model(*answers)), tools=[look], steps=tape.steps, execution=MemoryEnv()
            )
            await agent.run(sample.text)
        with Tape(path) as tape:
            model = tape.model("compatible:m", base_url="http://h/v1")
            await Agent(model, tools=[look], steps=tape.steps, execution=MemoryEnv()).run(sample.text)
        model = create_http_model(*answers)
        transport: Any = model._own_transport
        recording = model.with_transport(RecordingTransport(tmp_path / "traffic" / f"{number}", transport))
        await Agent(recording, tools=[look], execution=MemoryEnv()).run(sample.text)
    for folder in ("tapes", "traffic"):
        assert find_secrets(read_files(tmp_path / folder)) == []


async def test_settings_and_server_list_show_no_secrets(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    folder.mkdir()
    servers: dict[str, Any] = {}
    for number, sample in enumerate(ALL_SAMPLES):
        if len(sample.secret) >= 6:
            servers[f"flag{number}"] = {
                "command": "x",
                "args": ["--token", sample.secret, f"--api-key={sample.secret}"],
            }
        servers[f"text{number}"] = {"command": "x", "args": [sample.text], "env": {"ANY": sample.secret}}
        servers[f"url{number}"] = {
            "url": f"https://u:{quote(sample.secret, safe='')}@h/mcp?token={quote(sample.secret, safe='')}"
        }
        servers[f"header{number}"] = {"url": "https://h/mcp", "headers": {"X-Any": sample.secret}}
    settings = {
        "providers": {"openai": {"apiKey": NAMED, "baseUrl": f"https://u:{NAMED}@h/v1"}},
        "mcp": {"servers": servers},
    }
    (home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    environ = {"MAINSPRING_HOME": str(home), "HOME": str(tmp_path)}
    place = WorkspaceOptions(cwd=str(folder))

    assert find_secrets(repr(describe_settings(place, environ))) == []
    found = await inspect_servers(place, connect=False, environ=environ)
    assert len(found.servers) > len(ALL_SAMPLES)
    assert find_secrets(repr(found)) == []
    assert (
        find_secrets(
            "\n".join(
                repr(McpServerConfig(name="a", command="x", args=("--token", s.secret)))
                for s in ALL_SAMPLES
                if len(s.secret) >= 6
            )
        )
        == []
    )


async def test_mcp_server_log_contains_no_secrets(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "server.log")
    for sample in ALL_SAMPLES:
        if "\n" not in sample.text:  # the log contains single lines
            log.add(sample.text)
    await log.flush()
    assert find_secrets(read_files(tmp_path)) == []
    assert find_secrets("\n".join(log.lines)) == []


async def test_ordinary_text_and_images_are_stored_unchanged(tmp_path: Path) -> None:
    home = tmp_path / "home"
    key = SAMPLES[0].secret
    session = Session.create("/work", home=home, id="s-1")
    agent = Agent(
        ScriptedModel(
            *[Reply(calls=[ScriptedCall("look", {"text": t}, id=f"c{n}")]) for n, t in enumerate(ORDINARY)], "done"
        ),
        session=session,
        execution=MemoryEnv(),
        tools=[look],
        behavior=RunOptions(max_turns=1000),
    )
    await agent.run([TextBlock("see"), ImageBlock("image/png", key)])
    session.close()

    again = Session.open("s-1", home=home)
    texts = {block.text for message in again.messages if isinstance(message, Message) for block in message.tool_results}
    assert texts == set(ORDINARY)
    assert key in read_files(home)
    again.close()
