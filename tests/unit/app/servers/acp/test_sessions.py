"""Sessions of an editor: permissions, unsaved files, options, slash commands, and contents of prompts."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, schema, text_block

from mainspring.cancellation import CancelToken
from mainspring.errors import AuthenticationError
from mainspring.models import ModelInfo
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from tests.helpers.waiting_model import Gate, WaitingModel
from tests.unit.app.servers.acp.harness import Editor, ask, notify, run_client
from tests.unit.app.servers.acp.schema_rules import published
from tests.unit.mcp.harness import wait_until

pytestmark = pytest.mark.covers("BYD-23")


@pytest.mark.parametrize(
    ("answer", "written", "rules"),
    [
        ("once", True, None),
        ("edits", True, None),
        ("always", True, "allow"),
        ("deny", False, None),
        ("never", False, "deny"),
        ("", False, None),
    ],
)
async def test_permission_decisions(tmp_path: Path, home: Path, answer: str, written: bool, rules: str | None) -> None:
    script: list[Any] = [ScriptedCall("write_file", {"path": "a.txt", "content": "x"}), "ok"]
    editor = Editor(answer)
    async with run_client(tmp_path, home, editor, *script) as (connection, model):
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=[text_block("write")])
    assert (tmp_path / "a.txt").exists() is written
    assert editor.of("tool_call_update")[-1].status == ("completed" if written else "failed")
    file = home / ".agent" / "grants.json"
    saved = json.loads(file.read_text())["projects"][0]["grants"] if file.exists() else []
    assert [grant["effect"] for grant in saved] == ([rules] if rules else [])
    assert list(zip(editor.offered[0], editor.kinds[0], strict=True)) == [
        ("once", "allow_once"),
        ("session", "allow_always"),
        ("edits", "allow_always"),
        ("always", "allow_always"),
        ("deny", "reject_once"),
        ("never", "reject_always"),
    ]


async def test_unsaved_buffers_are_read_and_edited(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("saved\n")
    script: list[Any] = [
        ScriptedCall("read_file", {"path": "a.py"}),
        ScriptedCall("edit", {"path": "a.py", "old_string": "typed", "new_string": "changed"}),
        "ok",
    ]
    editor = Editor("once")
    editor.open[str(file)] = "typed, not saved\n"
    async with run_client(tmp_path, home, editor, *script, files=True) as (connection, model):
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=[text_block("change it")])
    assert editor.written == {str(file): "changed, not saved\n"}
    assert editor.asked[0].content[0].old_text == "typed, not saved\n"
    assert "typed, not saved" in repr(model.requests[1].messages)


async def test_cancel_during_a_permission_request(tmp_path: Path, home: Path) -> None:
    script: list[Any] = [ScriptedCall("write_file", {"path": "a.txt", "content": "x"}), "never said"]
    editor = Editor()
    async with run_client(tmp_path, home, editor, *script) as (connection, model):
        session = await connection.new_session(cwd=str(tmp_path))
        prompting = asyncio.create_task(connection.prompt(session_id=session.session_id, prompt=[text_block("go")]))
        await editor.waits.wait()
        await connection.cancel(session_id=session.session_id)
        assert (await prompting).stop_reason == "cancelled"
    assert not (tmp_path / "a.txt").exists()
    assert editor.of("tool_call_update")[-1].status == "failed"


async def test_prompt_right_after_a_cancellation_waits_for_its_end(tmp_path: Path, home: Path) -> None:
    """Editors that interrupt and send do both at once. A prompt that is cancelled while it waits never runs."""

    class SlowToStop(Gate):
        async def wait(self, signal: CancelToken | None = None) -> None:
            try:
                await super().wait(signal)
            finally:
                await stopped.wait()

    editor = Editor()
    gate, stopped = SlowToStop(), asyncio.Event()
    script = [WaitingModel("never shown", "second", gates={0: gate})]
    async with run_client(tmp_path, home, editor, *script) as (connection, model):
        session = await connection.new_session(cwd=str(tmp_path))

        async def prompt(text: str) -> asyncio.Task[Any]:
            """Start a prompt, and return once it was sent."""
            task = asyncio.create_task(connection.prompt(session_id=session.session_id, prompt=[text_block(text)]))
            await wait_until(lambda: text in repr(editor.watch.messages))
            return task

        await connection.cancel(session_id=session.session_id)  # nothing runs yet
        first = await prompt("one")
        await gate.reached_limit.wait()
        model.gates.clear()
        await connection.cancel(session_id=session.session_id)
        dropped = await prompt("dropped")
        await connection.cancel(session_id=session.session_id)
        last = await prompt("last")
        await connection.list_sessions()  # the messages before this request have arrived
        stopped.set()

        assert [(await each).stop_reason for each in (first, dropped, last)] == ["cancelled", "cancelled", "end_turn"]
        assert "dropped" not in repr(model.requests)


async def test_sessions_run_in_parallel(tmp_path: Path, home: Path) -> None:
    other = tmp_path.parent / "other"
    other.mkdir()
    gate = Gate()
    script = [WaitingModel("slow", "quick", gates={0: gate})]
    editor = Editor()
    async with run_client(tmp_path, home, editor, *script) as (connection, model):
        a = await connection.new_session(cwd=str(tmp_path))
        b = await connection.new_session(cwd=str(other))
        slow = asyncio.create_task(connection.prompt(session_id=a.session_id, prompt=[text_block("a")]))
        await gate.reached_limit.wait()
        model.gates.clear()
        quick = await connection.prompt(session_id=b.session_id, prompt=[text_block("b")])
        assert quick.stop_reason == "end_turn"
        assert not slow.done()
        with pytest.raises(RequestError, match="A prompt is already running"):
            await connection.prompt(session_id=a.session_id, prompt=[text_block("again")])
        await connection.close_session(session_id=a.session_id)
        assert (await slow).stop_reason == "cancelled"


async def test_modes_models_commands_and_content(tmp_path: Path, home: Path) -> None:
    (tmp_path / "note.txt").write_text("what is in the file")
    other = ScriptedModel("seen")
    editor = Editor()
    async with run_client(tmp_path, home, editor, "unused", make_model=lambda name: other) as (connection, _):
        session = await connection.new_session(cwd=str(tmp_path))
        id = session.session_id
        await connection.set_session_mode(session_id=id, mode_id="plan")
        assert editor.of("current_mode_update")[-1].current_mode_id == "plan"
        changed = await connection.set_config_option(config_id="model", session_id=id, value="openai:another")
        assert changed is not None
        assert {o.id: o.current_value for o in changed.config_options}["model"] == "scripted:scripted-1"
        with pytest.raises(RequestError, match="Invalid params"):
            await connection.set_config_option(config_id="mode", session_id=id, value="nonsense")
        assert (await connection.prompt(session_id=id, prompt=[text_block("/cost")])).stop_reason == "end_turn"
        assert "| total | 0 |" in editor.text()
        assert (await connection.prompt(session_id=id, prompt=[text_block("/nonsense")])).stop_reason == "end_turn"
        assert "Unknown command: /nonsense" in editor.text()
        prompt: list[Any] = [
            text_block("Look at"),
            schema.ResourceContentBlock(type="resource_link", name="note", uri=(tmp_path / "note.txt").as_uri()),
            schema.EmbeddedResourceContentBlock(
                type="resource",
                resource=schema.TextResourceContents(uri="file:///elsewhere/b.md", text="embedded text"),
            ),
            schema.ImageContentBlock(
                type="image",
                mime_type="image/png",
                data="iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==",
            ),
        ]
        assert (await connection.prompt(session_id=id, prompt=prompt)).stop_reason == "end_turn"
        sent = repr(other.requests[0].messages)
        assert "what is in the file" in sent
        assert "embedded text" in sent
        assert (
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==" in sent
        )


@pytest.mark.parametrize(
    ("uri", "sent"),
    [
        ("note.txt", '@"note.txt" \n\n<file path="note.txt">\nfirst\nsecond\n</file>'),
        ("note.txt#L2:3", '@"note.txt" (lines 2-3) \n\n<file path="note.txt">'),
        ("note.txt?symbol=f#L2:2", '@"note.txt" (line 2) \n\n<file'),
        ("note.txt#L2-L3", '@"note.txt" (lines 2-3) \n\n<file'),
        ("note.txt#intro", '@"note.txt" \n\n<file'),
        ("data.bin", "Look at data.bin "),
        ("missing.txt#L7", "Look at missing.txt (line 7) "),
        ("folder", '<folder path="folder">'),
        ("pipe", "Look at pipe "),
        ("@scope/x", "Look at ./@scope/x "),
        ("zed:///agent/terminal-selection?lines=4", "Look at x (zed:///agent/terminal-selection?lines=4) "),
    ],
)
async def test_link_is_attached_or_stays_a_link(tmp_path: Path, home: Path, uri: str, sent: str) -> None:
    (tmp_path / "note.txt").write_text("first\nsecond\n")
    (tmp_path / "data.bin").write_bytes(b"\0\1")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    editor = Editor()
    async with run_client(tmp_path, home, editor, "seen") as (connection, model):
        session = await connection.new_session(cwd=str(tmp_path))
        whole = uri if "://" in uri else f"file://{tmp_path}/{uri}"
        link = schema.ResourceContentBlock(type="resource_link", name="x", uri=whole)
        answer = await connection.prompt(session_id=session.session_id, prompt=[text_block("Look at"), link])
        assert answer.stop_reason == "end_turn"
    assert sent in model.requests[0].messages[-1].text


async def test_embedded_selection_names_its_lines(tmp_path: Path, home: Path) -> None:
    editor = Editor()
    async with run_client(tmp_path, home, editor, "seen") as (connection, model):
        session = await connection.new_session(cwd=str(tmp_path))
        selection = schema.TextResourceContents(uri=f"file://{tmp_path}/a.rs#L23:27", text="selected")
        block = schema.EmbeddedResourceContentBlock(type="resource", resource=selection)
        await connection.prompt(session_id=session.session_id, prompt=[block])
    assert '<file path="a.rs (lines 23-27)">\nselected\n</file>' in model.requests[0].messages[-1].text


@pytest.mark.parametrize("answer", ["once", "deny"])
async def test_call_is_pending_while_its_approval_waits(tmp_path: Path, home: Path, answer: str) -> None:
    script: list[Any] = [ScriptedCall("write_file", {"path": "a.txt", "content": "x"}), "done"]
    editor = Editor(answer)
    async with run_client(tmp_path, home, editor, *script) as (connection, _):
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=[text_block("go")])
    states = [u.status for _, u in editor.updates if u.session_update in ("tool_call", "tool_call_update")]
    end = ["in_progress", "completed"] if answer == "once" else ["failed"]
    assert states == ["in_progress", "pending", *end]


async def test_failed_run_is_a_request_error(tmp_path: Path, home: Path) -> None:
    script: list[Any] = [AuthenticationError("wrong key", provider="test")]
    editor = Editor()
    async with run_client(tmp_path, home, editor, *script) as (connection, _):
        session = await connection.new_session(cwd=str(tmp_path))
        with pytest.raises(RequestError, match="wrong key"):
            await connection.prompt(session_id=session.session_id, prompt=[text_block("go")])
        with pytest.raises(RequestError, match="Invalid params"):
            await connection.new_session(cwd="relative")


async def test_mcp_servers_of_the_editor_are_used(tmp_path: Path, home: Path) -> None:
    editor = Editor()
    server = schema.McpServerStdio(name="tickets", command="/nowhere/tickets", args=["-x"], env=[])
    async with run_client(tmp_path, home, editor, "unused") as (connection, _):
        session = await connection.new_session(cwd=str(tmp_path), mcp_servers=[server])
        await connection.prompt(session_id=session.session_id, prompt=[text_block("/mcp")])
        assert "tickets" in editor.text()
        other = schema.AcpMcpServer(type="acp", name="x", server_id="y")
        with pytest.raises(RequestError, match="Invalid params"):
            await connection.new_session(cwd=str(tmp_path), mcp_servers=[other])


async def test_deleted_session_cannot_be_loaded(tmp_path: Path, home: Path) -> None:
    editor = Editor()
    async with run_client(tmp_path, home, editor, "one", "two", "three") as (connection, _):
        open_one = await connection.new_session(cwd=str(tmp_path))
        closed = await connection.new_session(cwd=str(tmp_path))
        for each in (open_one, closed):
            await connection.prompt(session_id=each.session_id, prompt=[text_block("hello")])
        await connection.close_session(session_id=closed.session_id)
        assert len((await connection.list_sessions(cwd=str(tmp_path))).sessions) == 2
        for each in (open_one.session_id, closed.session_id, closed.session_id, "../../etc/passwd"):
            assert await ask(connection, "session/delete", sessionId=each) == {}, "deleting twice is allowed"
        assert (await connection.list_sessions(cwd=str(tmp_path))).sessions == []
        with pytest.raises(RequestError, match="Session .* not found"):
            await connection.load_session(cwd=str(tmp_path), session_id=open_one.session_id)
        with pytest.raises(RequestError, match="Invalid params"):
            await ask(connection, "session/delete", sessionId=5)
        with pytest.raises(RequestError, match="Method not found"):
            await ask(connection, "session/nonsense")


async def test_requests_can_be_cancelled_by_either_side(tmp_path: Path, home: Path) -> None:
    """The client cancels its prompt; the agent cancels a permission request that is no longer needed."""
    script: list[Any] = [ScriptedCall("write_file", {"path": "a.txt", "content": "x"}), "never said"]
    editor = Editor()
    async with run_client(tmp_path, home, editor, *script) as (connection, _):
        session = await connection.new_session(cwd=str(tmp_path))
        prompting = asyncio.create_task(connection.prompt(session_id=session.session_id, prompt=[text_block("go")]))
        await editor.waits.wait()
        (prompt,) = [m["id"] for ours, m in editor.watch.messages if m.get("method") == "session/prompt"]
        await notify(connection, "$/cancel_request", requestId=prompt + 99)
        await notify(connection, "$/cancel_request", requestId=prompt)
        assert (await prompting).stop_reason == "cancelled"
        (request,) = [m["id"] for ours, m in editor.watch.messages if m.get("method") == "session/request_permission"]
        cancelled = [m["params"] for ours, m in editor.watch.messages if ours and m.get("method") == "$/cancel_request"]
        assert cancelled == [{"requestId": request}]


@pytest.mark.parametrize(
    ("question", "content", "expected"),
    [
        ({"question": "Which?"}, {"words": "the red one"}, "The user says: the red one"),
        ({"question": "Which?"}, {"words": " "}, "The user did not answer"),
        ({"question": "Which?"}, None, "The user did not answer"),
        ({"question": "Which?", "options": ["red", "blue"]}, {"choice": "blue"}, "The user chose: blue."),
        ({"question": "Which?", "options": ["red", "blue"]}, {"choice": "pink"}, "The user did not answer"),
        ({"question": "Which?", "options": ["red"]}, {"words": "none"}, "The user says: none"),
        (
            {"question": "Which?", "options": ["red", "blue"], "multiple": True},
            {"choice": ["blue", "red"], "words": "both"},
            "The user chose: blue, red.\\nThe user says: both",
        ),
    ],
)
async def test_question_is_asked_in_a_form(
    tmp_path: Path, home: Path, question: dict[str, Any], content: dict[str, Any] | None, expected: str
) -> None:
    question = {
        **question,
        "options": [{"label": label, "description": "a colour"} for label in question.get("options", ())],
    }
    editor = Editor()
    editor.fills = [content]
    async with run_client(tmp_path, home, editor, ScriptedCall("ask_user", question), "ok", forms=True) as (
        connection,
        model,
    ):
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=[text_block("go")])
    assert expected in repr(model.requests[1].messages)
    assert editor.forms == ["Which?"]


async def test_question_without_forms_uses_buttons(tmp_path: Path, home: Path) -> None:
    """Options are buttons; for free text, the model gets no answer."""
    options = [{"label": "red"}, {"label": "blue"}]
    script = [
        ScriptedCall("ask_user", {"question": "Which?", "options": options}),
        ScriptedCall("ask_user", {"question": "What?", "options": []}),
        "ok",
    ]
    editor = Editor("blue")
    async with run_client(tmp_path, home, editor, *script) as (connection, model):
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=[text_block("go")])
    assert editor.offered == [["red", "blue", "(decline)"]]
    assert "The user chose: blue." in repr(model.requests[1].messages)
    assert "or end with the question" in repr(model.requests[2].messages)


async def test_chunks_of_one_message_share_an_id(tmp_path: Path, home: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    script: list[Any] = [
        Reply(thinking="Hm, let me see.", text="I look.", calls=(ScriptedCall("read_file", {"path": "a.txt"}),)),
        "Seen it.",
    ]
    editor = Editor()
    async with run_client(tmp_path, home, editor, *script) as (connection, _):
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=[text_block("go")])
        texts: dict[str, str] = {}
        for _, update in editor.updates:
            if "chunk" in update.session_update:
                texts[update.message_id] = texts.get(update.message_id, "") + update.content.text
        assert list(texts.values()) == ["Hm, let me see.", "I look.", "Seen it."]
        await connection.load_session(cwd=str(tmp_path), session_id=session.session_id)
    again = {u.message_id for _, u in editor.updates if "chunk" in u.session_update}
    assert len(again) == 3 + 4, "the replay has new IDs and includes the prompt"


async def test_every_documented_update_and_method_works(material: Path, tmp_path: Path, home: Path) -> None:
    """All update types of the schema are sent and its methods answered, except for the documented gaps."""
    (tmp_path / "a.txt").write_text("x")
    calls = (ScriptedCall("read_file", {"path": "a.txt"}), ScriptedCall("todo_write", {"todos": [{"content": "look"}]}))
    editor = Editor()
    info = ModelInfo("scripted-1", "scripted", context_window=100_000)
    model = ScriptedModel(Reply("I look.", calls, thinking="Hm."), "Seen it.", info=info)
    async with run_client(tmp_path, home, editor, model) as (connection, _):
        await connection.authenticate(method_id="none")
        session = await connection.new_session(cwd=str(tmp_path))
        id = session.session_id
        await connection.prompt(session_id=id, prompt=[text_block("go")])
        await connection.prompt(session_id=id, prompt=[text_block("/name Looking")])
        await connection.set_session_mode(session_id=id, mode_id="plan")
        await connection.set_config_option(config_id="thinking", session_id=id, value="low")
        await connection.list_sessions()
        await connection.cancel(session_id=id)
        await connection.load_session(cwd=str(tmp_path), session_id=id)
        await connection.resume_session(cwd=str(tmp_path), session_id=id)
        await connection.close_session(session_id=id)
        await ask(connection, "session/delete", sessionId=id)
    seen = editor.watch.check()
    rules = published()
    assert rules is not None
    updates = {each["properties"]["sessionUpdate"]["const"] for each in rules.schema["$defs"]["SessionUpdate"]["oneOf"]}
    assert updates <= set(seen)
    called = {m["method"] for ours, m in editor.watch.messages if not ours and "method" in m}
    assert set(rules.methods["agentMethods"].values()) - called == {"logout"}
    assert (len(updates), len(rules.methods["agentMethods"])) == (11, 13), "docs/editors.md has these numbers"


async def test_additional_folders_can_be_read(tmp_path: Path, home: Path) -> None:
    """The model may read additional folders like the project; writes, secrets, and other folders need permission."""
    further, other = tmp_path.parent / "library", tmp_path.parent / "elsewhere"
    for folder in (further, other):
        folder.mkdir()
        (folder / "a.txt").write_text(f"in {folder.name}")
        (folder / ".env").write_text("SECRET=1")
    calls = [
        *[
            ScriptedCall("read_file", {"path": str(path)})
            for path in (further / "a.txt", further / ".env", other / "a.txt")
        ],
        ScriptedCall("write_file", {"path": str(further / "b.txt"), "content": "x"}),
    ]
    editor = Editor("deny", "deny", "deny")
    async with run_client(tmp_path, home, editor, *calls, "ok") as (connection, model):
        session = await connection.new_session(cwd=str(tmp_path), additional_directories=[str(further)])
        await connection.prompt(session_id=session.session_id, prompt=[text_block("/cost")])
        await connection.prompt(session_id=session.session_id, prompt=[text_block("look")])
        assert str(further) in repr(model.requests[0].messages)
        assert "in library" in repr(model.requests[1].messages)
        assert [request.locations[0].path for request in editor.asked] == [
            str(further / ".env"),
            str(other / "a.txt"),
            str(further / "b.txt"),
        ]
        for wrong in ("relative", str(tmp_path / "none")):
            with pytest.raises(RequestError, match="Invalid params"):
                await connection.new_session(cwd=str(tmp_path), additional_directories=[wrong])
