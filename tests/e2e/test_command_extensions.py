"""The command with extensions and command hooks: real processes, real shell scripts, and a test server."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command, command
from tests.e2e.servers.chat import Reply, call
from tests.helpers.processes import ended

__all__ = ["command"]


WATCH = """
def extension(api):
    @api.on("session_shutdown")
    async def over(event, ctx):
        with open({trace!r}, "a") as file:
            file.write(f"over {{event.reason}}\\n")
"""


def write_script(folder: Path, name: str, text: str) -> Path:
    """Write an executable shell script."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def write_extension(folder: Path, name: str, text: str) -> Path:
    file = folder / "extensions" / f"{name}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def set_hooks(command: Command, **events: Any) -> None:
    command.settings(
        {"hooks": {event: entry if isinstance(entry, list) else [entry] for event, entry in events.items()}}
    )


def tool_results(command: Command) -> list[str]:
    """Return the tool results of the last request."""
    return [m["content"] for m in command.server.requests[-1]["messages"] if m["role"] == "tool"]


def user_messages(command: Command) -> list[str]:
    return [m["content"] for m in command.server.requests[-1]["messages"] if m["role"] == "user"]


# --- command hooks ---------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-01")
def test_command_hooks_block_a_tool_change_input_and_add_context(command: Command) -> None:
    (command.folder / "a.txt").write_text("alpha\n", encoding="utf-8")
    (command.folder / "b.txt").write_text("beta\n", encoding="utf-8")
    block = write_script(command.home, "block.sh", "grep -q secret && { echo 'not that file' >&2; exit 2; }\nexit 0")
    change = write_script(
        command.home,
        "change.sh",
        """input=$(cat)
case "$input" in *a.txt*) ;; *) exit 0 ;; esac
echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"path": "b.txt"}}}'""",
    )
    set_hooks(
        command,
        PreToolUse=[
            {"matcher": "Read", "hooks": [{"type": "command", "command": str(block)}]},
            {"matcher": "read_file", "command": str(change), "timeout": 20},
        ],
        UserPromptSubmit={"command": "echo 'The user is called Ann.'"},
    )
    command.server.script = [
        Reply(calls=[("read_file", {"path": "secret.txt"}), ("read_file", {"path": "a.txt"})]),
        "done",
    ]

    done = command.run("-p", "read them")

    assert (done.code, done.out) == (0, "done\n"), done.err
    rejected, read = tool_results(command)
    assert rejected == "Permission denied: not that file"
    assert "beta" in read
    assert "alpha" not in read
    assert user_messages(command) == ["read them", "<hook-context>\nThe user is called Ann.\n</hook-context>"]


@pytest.mark.covers("BYD-01")
def test_hanging_hook_is_killed_and_denies_the_tool_call(command: Command) -> None:
    hang = write_script(command.home, "hang.sh", f"sleep 600 &\necho $! >{command.folder}/pid\nsleep 600")
    set_hooks(command, PreToolUse={"command": str(hang), "timeout": 3})
    command.server.script = [call("list_files"), "done"]

    done = command.run("-p", "list")

    assert done.code == 0, done.err
    assert "timed out after 3 seconds" in tool_results(command)[0]
    assert ended(int((command.folder / "pid").read_text()))


@pytest.mark.covers("BYD-01")
def test_prompt_denied_by_a_hook_sends_no_request(command: Command) -> None:
    set_hooks(command, UserPromptSubmit={"command": "echo 'not on a Friday' >&2; exit 2"})

    done = command.run("-p", "deploy")

    assert (done.code, done.out) == (4, "")
    assert "not on a Friday" in done.err
    assert command.server.requests == []


@pytest.mark.covers("BYD-01", "SEC-12")
def test_project_hooks_and_extensions_run_only_after_trust(command: Command) -> None:
    trace = command.home / "trace"
    folder = command.folder / ".agent"
    write_extension(folder, "theirs", f"open({str(trace)!r}, 'w').close()\ndef extension(api): ...\n")
    (folder / "settings.json").write_text(
        json.dumps({"hooks": {"SessionStart": [{"command": f"touch {trace}"}]}}), encoding="utf-8"
    )
    command.server.script += ["one", "two"]

    done = command.run("-p", "hello")
    assert (done.code, done.out) == (0, "one\n")
    assert "Ignored hooks.SessionStart" in done.err
    assert "The project is not trusted" in done.err
    assert not trace.exists()

    assert command.run("trust").code == 0
    assert command.run("-p", "hello").out == "two\n"
    assert trace.exists()


@pytest.mark.covers("BYD-01")
def test_hook_that_starts_mainspring_does_not_recurse_forever(command: Command) -> None:
    count = command.home / "count"
    again = write_script(command.home, "again.sh", f"echo x >>{count}\nexec {sys.executable} -m mainspring -p again")
    set_hooks(command, UserPromptSubmit={"command": str(again), "timeout": 60})
    command.variables["OPENAI_API_KEY"] = ""
    done = command.run("-p", "hello", "--model", "openai:test-model")

    assert done.code != 0
    assert command.server.requests == []
    assert count.read_text().split() == ["x"] * 3


# --- extensions -----------------------------------------------------------------------------------------------------


@pytest.mark.covers("EXT-01", "EXT-15", "TST-03")
def test_user_extensions_load_and_broken_ones_are_reported(command: Command) -> None:
    home = command.home / ".agent"
    write_extension(home, "broken", "def extension(api):\n    oops\n")
    write_extension(
        home,
        "guard",
        "def extension(api):\n"
        "    api.on('tool_call', lambda e: {'block': 'closed'} if e.tool_name == 'list_files' else None)\n"
        "    api.register_command('hi', lambda arguments: f'hello {arguments}', description='greets')\n",
    )
    command.server.script = [call("list_files"), "done"]

    done = command.run("-p", "list")
    assert (done.code, done.out) == (0, "done\n")
    assert "extension broken: NameError" in done.err
    assert "broken.py:2)" in done.err
    assert tool_results(command) == ["Permission denied: closed"]

    request_count = len(command.server.requests)
    assert command.run("-p", "/hi Ann").out == "hello Ann\n"
    assert "/hi    greets" in command.run("-p", "/help").out
    as_json = command.run("-p", "/hi Bob", "--output", "json").result
    assert as_json["text"] == "hello Bob"
    assert len(command.server.requests) == request_count


@pytest.mark.covers("SES-20")
def test_session_shutdown_fires_on_exit_and_on_sigterm(command: Command) -> None:
    trace = command.home / "trace"
    write_extension(command.home / ".agent", "watch", WATCH.format(trace=str(trace)))
    command.server.script += ["done", Reply(text="wait", stall=True)]

    assert command.run("-p", "hello").code == 0
    assert trace.read_text() == "over exit\n"

    with command.start("-p", "hello") as process:
        assert command.server.stalled.wait(120)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert trace.read_text() == "over exit\n" * 2


@pytest.mark.covers("SES-20")
@pytest.mark.parametrize("ending", ["agent.run_sync('again')", "raise KeyboardInterrupt"])
def test_session_shutdown_fires_once_without_an_explicit_close(tmp_path: Path, ending: str) -> None:
    program = f"""
import sys
from mainspring import Agent
from mainspring.testing.scripted_model import ScriptedModel

def extension(api):
    api.on("session_shutdown", lambda event: print("over", event.reason))

agent = Agent(ScriptedModel("one", "two"), extensions=[extension])
agent.run_sync("go")
{ending}
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=240, check=False
    )
    assert done.stdout == "over exit\n", done.stderr


def test_extension_paths_in_settings_must_be_absolute(command: Command) -> None:
    other = write_extension(
        command.home / "other", "more", "def extension(api):\n    api.register_command('more', lambda a: 'more')\n"
    )
    write_extension(command.folder, "near", "raise SystemExit\n")
    paths = [str(other), "extensions"]
    command.settings({"extensions": {"paths": paths}})

    done = command.run("-p", "/more")
    assert done.out == "more\n"
    assert "'extensions' is ignored" in done.err

    command.settings({"extensions": {"paths": paths[:1], "disabled": ["more"]}})
    command.server.script += ["answered"]
    assert command.run("-p", "/more").out == "answered\n"


# --- listing and testing ---------------------------------------------------------------------------------------------


def test_extensions_and_hooks_are_listed_and_hooks_are_tested(command: Command) -> None:
    write_extension(command.home / ".agent", "good", "def extension(api): ...\n")
    write_extension(command.home / ".agent", "bad", "import nothing_of_this_name\n")
    set_hooks(
        command, PreToolUse={"matcher": "Bash", "command": "grep -q 'rm -rf' && { echo no >&2; exit 2; }; exit 0"}
    )

    good, bad = json.loads(command.run("extensions", "list", "--json").out)
    assert (good["name"], good["origin"], good["problem"]) == ("good", "user", "")
    assert (bad["name"], bad["line"]) == ("bad", 1)
    [listed] = command.run("hooks").out.splitlines()
    assert listed.startswith("PreToolUse  Bash  grep")

    rejected = command.run("hooks", "test", "PreToolUse", '{"command": "rm -rf x"}')
    assert (rejected.code, rejected.out.splitlines()[-1]) == (4, "  denies: no")
    fine = command.run("hooks", "test", "PreToolUse", '{"path": "x"}', "--tool", "edit")
    assert (fine.code, "No hook matches" in fine.err) == (0, True)
