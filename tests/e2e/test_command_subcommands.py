"""The subcommands, as processes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.command import KEY, Command, command

__all__ = ["command"]

pytestmark = pytest.mark.slow


def test_tools_call_prints_the_result_as_json(command: Command) -> None:
    (command.folder / "a.txt").write_text("one\ntwo\n", encoding="utf-8")

    done = command.run("tools", "call", "read_file", '{"path": "a.txt", "limit": "1"}')

    [result] = done.lines
    assert done.code == 0
    assert "one" in result["output"]
    assert "two" not in result["output"]
    assert (result["is_error"], result["code"]) == (False, None)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["read_file", '{"path": "none.txt"}'], 1),
        (["read_file", "{}"], 1),
        (["raed_file", "{}"], 2),
        (["write_file", '{"path": "b.txt", "content": "x"}', "--deny", "write_file"], 4),
        (["write_file", '{"path": "b.txt", "content": "x"}'], 0),
        (["shell", '{"command": "echo hello"}'], 0),
    ],
)
def test_tools_call_exit_code_matches_the_result(command: Command, arguments: list[str], code: int) -> None:
    done = command.run("tools", "call", *arguments)

    assert done.code == code, done.err
    assert (done.out == "") == (code == 2)


def test_tools_call_accepts_tool_names_of_other_agents(command: Command) -> None:
    written = command.run("tools", "call", "write", '{"path": "b.txt", "content": "one"}')
    read = command.run("tools", "call", "read", '{"path": "b.txt"}')
    ran = command.run("tools", "call", "bash", '{"command": "cat b.txt"}')

    assert [d.code for d in (written, read, ran)] == [0, 0, 0]
    assert [d.result["name"] for d in (written, read, ran)] == ["write_file", "read_file", "shell"]
    assert read.result["output"].startswith("1\tone\n")
    assert ran.result["output"].startswith("one")


def test_tools_call_reads_arguments_from_stdin(command: Command) -> None:
    done = command.run("tools", "call", "write_file", "-", piped=json.dumps({"path": "b.txt", "content": "piped"}))

    assert done.code == 0
    assert (command.folder / "b.txt").read_text(encoding="utf-8") == "piped"


def test_tools_call_without_a_name_prints_an_example(command: Command) -> None:
    done = command.run("tools", "call")

    assert done.code == 2
    assert "tools call read_file" in done.err


def test_tools_list(command: Command) -> None:
    names = [tool["name"] for tool in json.loads(command.run("tools", "list", "--json").out)]

    assert names[:8] == ["read_file", "write_file", "edit", "multi_edit", "glob", "grep", "list_files", "shell"]
    assert {"jobs", "fetch", "apply_patch", "ask_user"} <= set(names)
    assert command.run("tools").out.splitlines()[0].startswith("read_file")


def test_config_set_show_and_unset(command: Command) -> None:
    assert command.run("config", "set", "providers.openai.apiKey", "-", piped=f"{KEY}\n").code == 0
    assert command.run("config", "set", "agent.maxTurns", "7").code == 0

    output = command.run("config", "show", "--origin")
    assert KEY not in output.out + output.err
    assert re.search(rf"agent\.maxTurns = 7 +# {command.home}", output.out)
    assert command.run("config", "unset", "agent.maxTurns").code == 0
    assert "maxTurns" not in command.run("config", "show").out
    assert command.run("config", "path").out.strip().endswith("settings.json")
    assert command.run("config", "set", "agent.maxTurn", "7").code == 2
    assert command.run("config", "set", "agent.maxTurns").code == 2


def test_check_exit_code_matches_a_run(command: Command) -> None:
    fine = command.run("check", "--json")
    assert fine.code == 0
    assert json.loads(fine.out)["model"] == "openai:gpt-5-mini"

    command.variables["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
    unreachable = command.run("check")
    assert unreachable.code == 5
    assert "FAIL  reachable" in unreachable.out
    assert command.run("check", "--model", "some-model", "--offline").code == 0


def test_models_lists_selected_and_embedded_models(command: Command) -> None:
    found = {view["spec"]: view for view in json.loads(command.run("models", "--json").out)}

    assert found["openai:gpt-5-mini"]["chosen"] is True
    assert "embedded:qwen-coder-0.5b" in found
    assert command.run("models").out.startswith("* ready")


def test_replay_decodes_recorded_traffic(command: Command) -> None:
    body = json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]})
    recording = {"provider": "openai", "api": "chat_completions", "response": {"status": 200, "body_text": body}}
    file = command.folder / "one.json"
    file.write_text(json.dumps(recording), encoding="utf-8")

    [result] = command.run("replay", "traffic", str(file), "--json").lines

    assert set(result) == {"file", "text", "thinking", "tool_calls", "usage", "stop_reason", "error"}
    assert (result["file"], result["text"]) == (str(file), "hello")
    assert command.run("replay", "traffic", "none.json").code == 2


def test_version_and_help(command: Command) -> None:
    version = command.run("--version").out
    assert version.startswith("mainspring 0.")
    assert version == command.run("-V", "-v").out
    assert "exit codes" in command.run("--help").out
    assert "NAME" in command.run("tools", "--help").out.upper()


def test_help_imports_no_third_party_package() -> None:
    probe = """
import sys
before = set(sys.modules)
from mainspring.app.cli.main import main
try:
    main(["--help"])
except SystemExit as stop:
    assert not stop.code
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(tops - sys.stdlib_module_names - {"mainspring"}))
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def test_installed_script_prints_the_same_version(command: Command) -> None:
    script = Path(sys.executable).with_name("mainspring")

    done = subprocess.run([str(script), "--version"], capture_output=True, text=True, check=True)

    assert done.stdout == command.run("--version").out


def test_session_is_searched_named_resumed_and_forked(command: Command) -> None:
    command.server.script += ["Badgers dig.", "They do.", "Still.", "In a copy.", "By title."]
    assert command.run("-p", "what do badgers do?", "--session-id", "badgers-1").code == 0
    assert command.run("-p", "really?", "--session-id", "badgers-1").code == 0

    [hit] = json.loads(command.run("sessions", "search", "BADGERS dig", "--json").out)
    assert hit["session"]["id"] == "badgers-1"
    assert command.run("sessions", "search", "walrus").code == 1
    assert command.run("sessions", "name", "badgers-1", "About", "badgers").code == 0
    assert command.run("-p", "and now?", "-r", "about badgers").code == 0
    assert len(command.server.requests[-1]["messages"]) == 6

    assert command.run("-p", "elsewhere", "--session", "About badgers", "--fork").code == 0
    assert len(command.server.requests[-1]["messages"]) == 8
    sessions = json.loads(command.run("sessions", "--json").out)
    assert len(sessions) == 2
    assert "elsewhere" not in command.run("sessions", "show", "badgers-1").out

    assert command.run("sessions", "rm", "badgers-1").code == 0
    assert command.run("-p", "x", "--session", "badgers-1").code == 2
    assert command.run("sessions", "purge", "--keep", "1").out == ""


def test_conflicting_session_flags_are_rejected(command: Command) -> None:
    assert command.run("-p", "x", "--continue", "--session-id", "a").code == 2
    assert command.run("-p", "x", "--fork").code == 2
    assert command.run("-p", "x", "--session-id", "../a").code == 2
    assert command.run("sessions", "search").code == 2
