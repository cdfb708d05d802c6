"""Commands in terminals of the editor: output for the model and the user, and cancellation."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from acp import Client, schema, text_block

from mainspring.app.servers.acp.client_environment import ClientFiles
from mainspring.testing import ScriptedCall
from tests.helpers.processes import ended
from tests.helpers.sandboxes import layer as sandbox_layer
from tests.unit.app.servers.acp.harness import Editor, run_client

pytestmark = pytest.mark.covers("BYD-23")


def shell_call(command: str, **more: Any) -> ScriptedCall:
    return ScriptedCall("shell", {"command": command, **more})


async def test_command_runs_in_an_editor_terminal(tmp_path: Path, home: Path) -> None:
    editor = Editor("once")
    script = [shell_call('echo "$PWD $PAGER"; echo wrong >&2; touch made; exit 3'), "ok"]
    async with run_client(tmp_path, home, editor, *script, terminal=True) as (connection, model):
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=[text_block("go")])
    (terminal,) = editor.terminals.values()
    assert os.path.basename(terminal.command[0]) in ("bash", "sh")
    assert terminal.command[1:] == ["-c", 'echo "$PWD $PAGER"; echo wrong >&2; touch made; exit 3']
    got = repr(model.requests[1].messages)
    assert f"{tmp_path} cat\\nwrong" in got
    assert "(exit 3, " in got
    assert len(editor.asked) == 1, "a terminal does not bypass permissions"
    updates = editor.of("tool_call_update")
    (terminal_id,) = [c.terminal_id for u in updates for c in u.content or () if c.type == "terminal"]
    assert terminal_id == "t1"
    assert (updates[-1].status, updates[-1].content) == ("completed", None), "the terminal stays visible"
    assert terminal.released, "the terminal was released before the editor knew its call"


async def test_denied_command_opens_no_terminal(tmp_path: Path, home: Path) -> None:
    editor = Editor("deny")
    async with run_client(tmp_path, home, editor, shell_call("touch x"), "ok", terminal=True) as (connection, _):
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=[text_block("go")])
    assert editor.terminals == {}


async def test_api_keys_do_not_reach_the_terminal(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    editor = Editor("once")
    async with run_client(tmp_path, home, editor, shell_call("env"), "ok", terminal=True) as (connection, model):
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=[text_block("go")])
    assert "PATH=" in repr(model.requests[1].messages)
    assert "sk-very-secret" not in repr(model.requests[1].messages)


@pytest.mark.parametrize("how", ["cancelled", "timed out", "closed by the user"])
async def test_long_running_command_is_stopped(tmp_path: Path, home: Path, how: str) -> None:
    wait = f'echo begun; exec {sys.executable} -c "import time; time.sleep(300)"'
    editor = Editor("once")
    script = [shell_call(wait, timeout=4) if how == "timed out" else shell_call(wait), "ok"]
    async with run_client(tmp_path, home, editor, *script, terminal=True) as (connection, model):
        session = await connection.new_session(cwd=str(tmp_path))
        prompting = asyncio.create_task(connection.prompt(session_id=session.session_id, prompt=[text_block("go")]))
        await editor.until_shown()
        (terminal,) = editor.terminals.values()
        if how == "cancelled":
            await connection.cancel(session_id=session.session_id)
        elif how == "closed by the user":
            terminal.closed = True
            terminal.kill()
        stopped = (await prompting).stop_reason
    assert await asyncio.to_thread(ended, terminal.process.pid)
    assert terminal.released
    assert stopped == ("cancelled" if how == "cancelled" else "end_turn")
    assert editor.of("tool_call_update")[-1].status == "failed"
    if how == "timed out":
        assert "begun\\n[timed out: stopped after" in repr(model.requests[1].messages)
    if how == "closed by the user":
        assert "begun\\n[cancelled" in repr(model.requests[1].messages)


async def test_long_output_is_truncated_and_stored_in_a_file(tmp_path: Path, home: Path) -> None:
    """The model gets the end; a file has the rest, if the editor stored it."""
    editor = Editor("once")
    script = [shell_call("seq 300000; echo the end", max_bytes=1000), "ok"]
    async with run_client(tmp_path, home, editor, *script, terminal=True) as (connection, model):
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=[text_block("go")])
        got = model.requests[1].messages[-1].tool_results[0].text
        assert "bytes truncated from head" in got
        assert "the end\n[full output, " in got
        spool = got.split("[full output, ")[1].split("]")[0].split(": ")[1]
        stored = Path(spool).read_text()
    assert stored.startswith("[the editor stored only the following output]\n")
    assert stored.endswith("300000\nthe end\n")


@pytest.mark.parametrize("why", ["not opened", "in the background", "limited", "in a sandbox"])
async def test_command_runs_locally_if_no_terminal_is_suitable(tmp_path: Path, home: Path, why: str) -> None:
    """A command that the editor cannot run, or cannot restrict, runs in the agent's own environment."""
    editor = Editor("once")
    editor.no_terminals = why == "not opened"
    if why == "in a sandbox":
        sandbox_layer("bubblewrap")
    if why in ("limited", "in a sandbox"):
        settings = home / ".agent" / "settings.json"
        settings.parent.mkdir(parents=True)
        layer = '"sandbox": {"layer": "bubblewrap"}' if why == "in a sandbox" else '"execution": {"maxProcesses": 9}'
        settings.write_text("{" + layer + "}")
    script = [shell_call("echo $((40 + 2)) > made; cat made", background=why == "in the background"), "ok"]
    async with run_client(tmp_path, home, editor, *script, terminal=True) as (connection, model):
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=[text_block("go")])
    assert editor.terminals == {}
    assert "42" in repr(model.requests[1].messages)
    assert (tmp_path / "made").read_text() == "42\n"


async def test_terminals_are_not_used_without_the_capability(tmp_path: Path, home: Path) -> None:
    editor = Editor("once")
    async with run_client(tmp_path, home, editor, shell_call("echo here"), "ok") as (connection, _):
        session = await connection.new_session(cwd=str(tmp_path))
        await connection.prompt(session_id=session.session_id, prompt=[text_block("go")])
    assert editor.terminals == {}
    assert "here" in editor.of("tool_call_update")[-1].content[0].content.text


@pytest.mark.parametrize("how", ["the session is closed", "the editor disconnected"])
async def test_command_stops_when_the_session_or_the_editor_closes(tmp_path: Path, home: Path, how: str) -> None:
    wait = f'echo begun; exec {sys.executable} -c "import time; time.sleep(300)"'
    editor = Editor("once")
    async with run_client(tmp_path, home, editor, shell_call(wait), "ok", terminal=True) as (connection, _):
        session = await connection.new_session(cwd=str(tmp_path))
        prompting = asyncio.create_task(connection.prompt(session_id=session.session_id, prompt=[text_block("go")]))
        await editor.until_shown()
        (terminal,) = editor.terminals.values()
        if how == "the session is closed":
            await connection.close_session(session_id=session.session_id)
            assert (await prompting).stop_reason == "cancelled"
            assert terminal.released
    # a disconnected editor owns its terminals; the block above ends only after the agent's own command
    terminal.kill()
    prompting.cancel()
    await asyncio.wait((prompting,))
    await terminal.process.wait()


@pytest.mark.parametrize(("reads", "writes"), [(True, False), (False, True)])
async def test_unsaved_text_that_cannot_be_written_back_is_not_read(reads: bool, writes: bool) -> None:
    editor = Editor()
    editor.open["/a.py"] = "typed"
    can = schema.FileSystemCapabilities(read_text_file=reads, write_text_file=writes)
    files = ClientFiles(cast("Client", editor), can)
    files.session = "s"
    assert await files.read("/a.py") is None
