"""The official Agent Client Protocol client drives the real command: prompt, permission, diff, cancel, and load."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from acp import PROTOCOL_VERSION, Client, RequestError, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection

from tests.e2e.command import Command, command
from tests.e2e.servers.chat import Reply, call
from tests.helpers.processes import ended
from tests.unit.app.servers.acp.harness import Editor, ask, client_capabilities, notify

__all__ = ["command"]

pytestmark = pytest.mark.covers("BYD-23")


@asynccontextmanager
async def start_agent(
    command: Command, editor: Editor, *options: str, files: bool = False, terminal: bool = False
) -> AsyncGenerator[tuple[ClientSideConnection, asyncio.subprocess.Process]]:
    arguments = ("-m", "mainspring", "serve", "--acp", "--model", "openai:test-model", *options)
    async with spawn_agent_process(
        cast("Client", editor),  # it has all that the tests need
        sys.executable,
        *arguments,
        env=command.environment,
        cwd=command.folder,
        use_unstable_protocol=True,
        observers=[editor.watch],
    ) as (connection, process):
        can = client_capabilities(files=files, terminal=terminal)
        await connection.initialize(PROTOCOL_VERSION, client_capabilities=can)
        yield connection, process
    editor.watch.check()


async def test_prompt_sends_an_approval_request_with_a_diff(command: Command) -> None:
    (command.folder / "a.py").write_text("one\ntwo\nthree\n")
    command.server.script = [
        call("read_file", path="a.py"),
        call("edit", path="a.py", old_string="two", new_string="2"),
        call("todo_write", todos=[{"content": "look", "status": "completed"}, {"content": "change it"}]),
        "All *done*.",
    ]
    editor = Editor("once")
    async with start_agent(command, editor) as (connection, _):
        session = await connection.new_session(cwd=str(command.folder), mcp_servers=[])
        assert session.modes is not None
        assert session.modes.current_mode_id == "default"
        assert {option.id for option in session.config_options or []} == {"mode", "model", "thinking"}
        answer = await connection.prompt(session_id=session.session_id, prompt=[text_block("change two")])
    assert answer.stop_reason == "end_turn"
    assert (command.folder / "a.py").read_text() == "one\n2\nthree\n"
    assert editor.text() == "All *done*."
    (request,) = editor.asked
    (diff,) = request.content
    assert (diff.type, diff.path) == ("diff", str(command.folder / "a.py"))
    assert (diff.old_text, diff.new_text) == ("one\ntwo\nthree\n", "one\n2\nthree\n")
    assert editor.offered == [["once", "session", "edits", "always", "deny", "never"]]
    started = editor.of("tool_call")
    assert [(s.kind, s.locations[0].path if s.locations else "") for s in started] == [
        ("read", str(command.folder / "a.py")),
        ("edit", str(command.folder / "a.py")),
        ("think", ""),
    ]
    last = {update.tool_call_id: update for update in editor.of("tool_call_update")}
    assert {u.status for u in last.values()} == {"completed"}
    assert last[request.tool_call_id].content[0].new_text == "one\n2\nthree\n"
    (plan,) = editor.of("plan")
    assert [(e.content, e.status) for e in plan.entries] == [("look", "completed"), ("change it", "pending")]
    commands = editor.of("available_commands_update")[0].available_commands
    assert {"cost", "compact", "model"} <= {c.name for c in commands}


async def test_cancel_stops_a_streaming_response(command: Command) -> None:
    command.server.script = [Reply("It begins", stall=True), "Again."]
    editor = Editor()
    async with start_agent(command, editor) as (connection, _):
        session = await connection.new_session(cwd=str(command.folder))
        prompting = asyncio.create_task(connection.prompt(session_id=session.session_id, prompt=[text_block("go")]))
        await editor.until("agent_message_chunk")
        await connection.cancel(session_id=session.session_id)
        assert (await prompting).stop_reason == "cancelled"
        again = await connection.prompt(session_id=session.session_id, prompt=[text_block("once more")])
    assert again.stop_reason == "end_turn"
    assert len(command.server.requests) == 2, "a cancelled prompt is not sent again"


async def test_another_process_lists_loads_resumes_and_forks_sessions(command: Command) -> None:
    command.server.script += ["The first answer.", "The second.", "In the copy."]
    folder = str(command.folder)
    async with start_agent(command, Editor()) as (connection, _):
        first = await connection.new_session(cwd=folder)
        await connection.prompt(session_id=first.session_id, prompt=[text_block("first prompt")])
    editor = Editor()
    async with start_agent(command, editor) as (connection, _):
        listed = (await connection.list_sessions(cwd=folder)).sessions
        assert [(s.session_id, s.cwd, s.title) for s in listed] == [(first.session_id, folder, "first prompt")]
        await connection.load_session(cwd=folder, session_id=first.session_id)
        assert (editor.text("user_message_chunk"), editor.text()) == ("first prompt", "The first answer.")
        await connection.prompt(session_id=first.session_id, prompt=[text_block("second prompt")])
        forked = await connection.fork_session(cwd=folder, session_id=first.session_id)
        assert forked.session_id != first.session_id
        await connection.prompt(session_id=forked.session_id, prompt=[text_block("third prompt")])
        await connection.resume_session(cwd=folder, session_id=first.session_id)
        assert len(editor.of("user_message_chunk")) == 1, "resuming repeats no updates"
        with pytest.raises(RequestError, match="Session .* not found"):
            await connection.load_session(cwd=folder, session_id="../../etc/passwd")
    user_messages = [m["content"] for m in command.server.requests[-1]["messages"] if m["role"] == "user"]
    assert [s for s in user_messages if "prompt" in json.dumps(s)] == user_messages[-3:]
    assert command.server.requests[-1]["messages"][-2]["content"] == "The second."


async def test_invalid_messages_do_not_affect_two_running_sessions(command: Command) -> None:
    """A command of each session runs in the editor at the same time; invalid messages affect neither."""
    wait = f"echo begun; exec {sys.executable} -c 'import time; time.sleep(300)'"
    command.server.script = [call("shell", command=wait), call("shell", command=wait), "Again.", "And again."]
    editor = Editor("session", "session")
    async with start_agent(command, editor, terminal=True) as (connection, process):
        assert process.stdin is not None
        folder = str(command.folder)
        sessions = [(await connection.new_session(cwd=folder)).session_id for _ in range(2)]
        prompts = [
            asyncio.create_task(connection.prompt(session_id=each, prompt=[text_block("go")])) for each in sessions
        ]
        await editor.until_shown("t1", "t2")
        process.stdin.write(b'{nonsense\n[]\n\n{"id": 7}\n{"method": "session/cancel"}\n\xff\xfe\n')
        process.stdin.write(b"x" * ((32 << 20) + 1) + b"\n")
        await process.stdin.drain()
        with pytest.raises(RequestError, match="Method not found"):
            await ask(connection, "session/nonsense", sessionId=sessions[0])
        with pytest.raises(RequestError, match="Method not found"):
            await connection.ext_method("zed/buffers", {})
        await connection.cancel(session_id=sessions[0])
        assert (await prompts[0]).stop_reason == "cancelled"
        assert not prompts[1].done()
        await notify(connection, "$/cancel_request", requestId=prompt_request_id(editor, sessions[1]))
        assert (await prompts[1]).stop_reason == "cancelled"
        for terminal in editor.terminals.values():
            assert await asyncio.to_thread(ended, terminal.process.pid)
            assert terminal.released
        for each in sessions:
            assert (await connection.prompt(session_id=each, prompt=[text_block("on")])).stop_reason == "end_turn"
    rejected = [
        m["error"]["code"] for ours, m in editor.watch.messages if ours and "error" in m and m.get("id") is None
    ]
    assert sorted(rejected) == [-32700, -32700, -32600, -32600]
    assert {session for session, _ in editor.updates} == set(sessions)


def prompt_request_id(editor: Editor, session: str) -> int:
    """Return the ID of the prompt request of a session."""
    return next(
        m["id"]
        for _, m in editor.watch.messages
        if m.get("method") == "session/prompt" and m["params"]["sessionId"] == session
    )
