"""Each example runs with a scripted model."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from starlette.testclient import TestClient

from mainspring.extensions import NonInteractiveUI
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel


def load_example(repository: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", repository / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.covers("PKG-15")
async def test_weather(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel(ScriptedCall("forecast", {"city": "Oslo", "days": 2}), "An umbrella.")
    assert await load_example(repository, "weather").main(model) == "An umbrella."
    assert "2 model calls" in capsys.readouterr().out


@pytest.mark.covers("PKG-15")
async def test_watch(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel(ScriptedCall("word_count", {"text": "the quick brown fox"}), "Four.")
    seen = await load_example(repository, "watch").main(model)
    assert (seen[0], seen[-1]) == ("agent_start", "agent_end")
    out = capsys.readouterr().out
    assert "[-> 4 in" in out
    assert "Four.\ncompleted" in out


@pytest.mark.covers("PKG-15")
async def test_notes(repository: Path, tmp_path: Path) -> None:
    model = ScriptedModel(
        ScriptedCall("write_file", {"path": "notes.md", "content": "buy milk\n"}),
        "Written.",
        ScriptedCall("read_file", {"path": "notes.md"}),
        "Buy milk.",
    )
    assert await load_example(repository, "notes").main(model, str(tmp_path)) == "Buy milk."
    assert (tmp_path / "notes.md").read_text() == "buy milk\n"
    assert len(model.requests[2].messages) == 5, "the second agent goes on with what the first one stored"


@pytest.mark.covers("PKG-15")
async def test_audit(repository: Path) -> None:
    model = ScriptedModel(
        ScriptedCall("status", {"site": "example.org"}), ScriptedCall("launch", {"site": "example.org"}), "It may not."
    )
    log = await load_example(repository, "audit").main(model)
    assert [line.split(" after")[0] for line in log] == ["status ok", "refused launch"]


@pytest.mark.covers("PKG-15", "SEC-06", "SEC-07")
@pytest.mark.parametrize("sql", ["DROP DATABASE tests", "delete from users;", "rm -rf /var/lib/db"])
@pytest.mark.parametrize("answer", [True, False, None])
async def test_guardrails(repository: Path, capsys: pytest.CaptureFixture[str], sql: str, answer: bool | None) -> None:
    asked: list[str] = []

    class User(NonInteractiveUI):
        async def confirm(self, title: str, message: str = "") -> bool:
            asked.append(f"{title} {message}")
            return answer is True

    model = ScriptedModel(ScriptedCall("query", {"sql": "select 1"}), ScriptedCall("query", {"sql": sql}), "Finished.")
    ui = None if answer is None else User()
    assert await load_example(repository, "guardrails").main(model, ui) == "Finished."

    results = [r for m in model.requests[-1].messages for r in m.tool_results]
    assert (results[0].text, results[1].is_error) == ("done: select 1", answer is not True)
    assert "Blocked by guardrails" in results[1].text or answer is True
    assert len(asked) == (answer is not None)
    assert capsys.readouterr().out.splitlines()[0] == "query: OK"


def test_every_example_is_listed_and_tested(repository: Path) -> None:
    page = (repository / "examples" / "README.md").read_text(encoding="utf-8")
    for path in sorted((repository / "examples").glob("*.py")):
        assert f"({path.name})" in page
        assert f"def test_{path.stem}(" in Path(__file__).read_text(encoding="utf-8")


def test_web_backend(repository: Path) -> None:
    model = ScriptedModel(
        lambda request: (
            ScriptedCall("packing_list", {"city": "Oslo"})
            if not request.messages[-1].tool_results
            else f"{request.messages[-1].tool_results[0].text} {len(request.messages)} messages."
        ),
        loop=True,
    )
    with TestClient(load_example(repository, "web_backend").create_app(model)) as client:
        assert client.get("/chats/ada/events").status_code == 204
        assert client.post("/chats/ada", json={"prompt": "Hi"}).json() == {"started": True}
        streams = [client.get("/chats/ada/events").text for _ in range(2)]
        resumed = client.get("/chats/ada/events", headers={"last-event-id": "3"}).text
        with client.websocket_connect("/chats/bob/socket") as socket:
            socket.send_text("Hi")
            events = [socket.receive_json()]
            while events[-1]["event"]["type"] != "agent_end":
                events.append(socket.receive_json())
        client.post("/chats/ada/save")
        message = {"role": "user", "parts": [{"type": "text", "text": "And now?"}]}
        ui = client.post("/chats/ada/ui", json={"messages": [message]})

    assert streams[0] == streams[1]
    assert "Ada took" not in streams[0]
    assert "ada took an umbrella to Oslo. 3 messages." in streams[0]
    assert streams[0].endswith(resumed)
    assert resumed.startswith("id: 4\n")
    assert [e["id"] for e in events] == list(range(1, len(events) + 1))
    assert events[-1]["event"]["text"] == "bob took an umbrella to Oslo. 3 messages."
    assert ui.headers["x-vercel-ai-ui-message-stream"] == "v1"
    chunks = [line.removeprefix("data: ") for line in ui.text.splitlines() if line]
    assert chunks[-1] == "[DONE]"
    read = [json.loads(chunk) for chunk in chunks[:-1]]
    assert [c["type"] for c in read][:2] == ["start", "start-step"]
    assert "".join(c["delta"] for c in read if c["type"] == "text-delta") == "ada took an umbrella to Oslo. 7 messages."
