"""Print mode with custom commands, schemas, worktrees, instruction files, and other options."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mainspring.app.printing.output_schema import load_output_schema
from mainspring.errors import ConfigError
from tests.e2e.command import Command, command
from tests.e2e.servers.chat import Reply
from tests.helpers.git import git

__all__ = ["command"]


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def request_text(command: Command, number: int = -1) -> str:
    return json.dumps(command.server.requests[number]["messages"], ensure_ascii=False)


def tool_names(request: dict[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in request.get("tools", [])}


@pytest.mark.covers("OPT-04", "BYD-08")
def test_custom_command_expands_to_a_prompt(command: Command) -> None:
    folder = command.home / ".agent" / "commands"
    folder.mkdir(parents=True)
    head = "---\ndescription: Review a file\nallowed-tools: read_file, shell(git status)\nmodel: openai:m-2\n---\n"
    (folder / "review.md").write_text(f"{head}Review @$1 for $2. !`echo from the shell`", encoding="utf-8")
    (command.folder / "a.md").write_text("forty-two\n", encoding="utf-8")
    command.server.script += ["fine", "plain"]

    done = command.run("-p", "/review a.md speed", "--output", "json")

    assert (done.code, done.result["text"], done.result["model"]["id"]) == (0, "fine", "m-2")
    request = command.server.requests[0]
    assert tool_names(request) == {"read_file", "shell"}
    text = request_text(command)
    assert all(part in text for part in ("Review @a.md for speed.", "from the shell", "forty-two"))
    missing = command.run("-p", "/review")
    assert (missing.code, "/review requires $1, the name of a file" in missing.err) == (2, True)
    near = command.run("-p", "/reveiw x")
    assert (near.code, near.out) == (0, "plain\n")
    assert "Did you mean /review?" in near.err
    listed = command.run("commands")
    assert "/review" in listed.out
    assert "Review a file" in listed.out
    expanded = command.run("commands", "show", "review", "a.md", "speed").out
    assert expanded == "Review @a.md for speed. !`echo from the shell`\n"
    assert command.run("commands", "show", "reviw").code == 2


@pytest.mark.covers("OPT-04", "BYD-08")
def test_project_command_is_sent_as_text_until_trusted(command: Command) -> None:
    folder = command.folder / ".agent" / "commands"
    folder.mkdir(parents=True)
    (folder / "own.md").write_text("!`touch owned` done", encoding="utf-8")
    command.server.script += ["as text", "as command"]

    untrusted = command.run("-p", "/own")
    assert "own.md was sent as text, because the folder is not trusted." in untrusted.err
    assert not (command.folder / "owned").exists()
    assert '"/own"' in request_text(command)
    assert "not trusted" in command.run("commands").err
    command.run("trust")
    command.run("-p", "/own")
    assert (command.folder / "owned").exists()


@pytest.mark.covers("BYD-15")
def test_schema_flag_returns_structured_output(command: Command) -> None:
    (command.folder / "s.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    command.server.script += [
        Reply(calls=[("list_files", {})]),
        Reply(calls=[("__output__", {"n": "many"})]),
        Reply(calls=[("__output__", {"n": 3})]),
        Reply(calls=[("__output__", {"n": "four"})]),
        Reply(calls=[("__output__", {"n": 4})]),
        "no idea", "none", "no", "none", "none", "none",
    ]  # fmt: skip

    done = command.run("-p", "how many?", "--schema", "s.json", "--output", "json")
    text = command.run("-p", "how many?", "--schema", json.dumps(SCHEMA))
    failed = command.run("-p", "how many?", "--schema", "s.json", "--output", "stream-json")
    as_text = command.run("-p", "how many?", "--schema", "s.json")

    assert (done.code, done.result["output"], json.loads(done.result["text"])) == (0, {"n": 3}, {"n": 3})
    assert "list_files" in tool_names(command.server.requests[0])
    assert (text.code, json.loads(text.out)) == (0, {"n": 4})
    assert "__output__" not in text.err
    assert "The response does not match the schema. Asking the model to fix it" in text.err.splitlines()
    assert (failed.code, failed.result["exit_code"], failed.result["output"]) == (1, 1, None)
    assert (failed.result["status"], failed.result["error"]["type"]) == ("no_output", "AgentOutputError")
    assert "no response matched the schema in 3 attempts" in failed.result["output_error"]
    assert failed.result["text"] == "no"
    assert as_text.code == 1
    assert "Error: The model stopped without the requested output: no response matched" in as_text.err
    assert [line["type"] for line in failed.lines].count("result") == 1


def test_model_is_not_printed_for_a_prompt_that_cannot_be_built(command: Command) -> None:
    failed = command.run("-p", "what is in @none.txt")
    command.server.script.append("ok")
    done = command.run("-p", "x")

    assert (failed.code, "model:" in failed.err) == (2, False), failed.err
    assert done.err.startswith("model: ")


def test_missing_schema_file_fails_before_the_first_request(command: Command) -> None:
    done = command.run("-p", "x", "--schema", "none.json")

    assert (done.code, "No such file" in done.err) == (2, True), done.err
    assert not command.server.requests


def test_invalid_schemas_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    wrong = {
        "{broken": "Invalid JSON",
        '{"type": "nonsense"}': "cannot be used",
        str(tmp_path / "list.json"): "must be an object",
    }

    for given, message in wrong.items():
        with pytest.raises(ConfigError, match=message):
            load_output_schema(given)


@pytest.mark.covers("BYD-06", "OPT-01")
def test_instruction_files_reach_the_model(command: Command) -> None:
    (command.home / ".agent").mkdir()
    (command.home / ".agent" / "AGENTS.md").write_text("Always rhyme.", encoding="utf-8")
    (command.folder / "AGENTS.md").write_text("x" * 70_000, encoding="utf-8")
    command.settings({"providers": {"openai": {"systemPrompt": "Only for {{PROVIDER}}."}}})
    command.server.script.append("ok")

    done = command.run("-p", "x")

    system = command.server.requests[0]["messages"][0]["content"]
    assert "Always rhyme." in system
    assert "Only for openai." in system
    assert "[cut here: 70000 bytes in all" in system
    assert "of 70000 bytes are used" in done.err


@pytest.mark.covers("OPT-03", "CLI-07")
def test_alternative_flags_have_the_same_effect(command: Command) -> None:
    command.server.script += ["1", "2", "3"]

    assert command.run("--check", "--json").code == 0
    assert "read_file" in command.run("--tools").out
    command.run("-p", "x", "--provider", "openai", "--thinking", "high", "--tools", "read_file", "-v")
    command.run("-p", "x", "--provider", "openai", "--model", "gpt-5-nano")

    assert [r["model"] for r in command.server.requests] == ["gpt-5-mini", "gpt-5-nano"]
    assert command.server.requests[0]["reasoning_effort"] == "high"
    assert tool_names(command.server.requests[0]) == {"read_file"}
    wrong = command.run("-p", "x", "--provider", "opnai", "--model", "m")
    assert (wrong.code, "Did you mean 'openai'" in wrong.err) == (2, True)


@pytest.mark.covers("BYD-12", "CLI-05")
def test_sessions_resume_by_folder_and_by_id(command: Command) -> None:
    command.server.script += ["Nice to meet you.", "two", "three", "four"]

    first = command.run("-p", "I am Ada", "--output", "json").result["session_id"]
    assert command.run("--continue", "-p", "a", "--output", "json").result["session_id"] == first
    assert all(expected in request_text(command) for expected in ("I am Ada", "Nice to meet you."))
    second = command.run("--session-id", "my-own-id", "-p", "the second", "--output", "json")
    assert second.result["session_id"] == "my-own-id"
    assert command.run("--resume", first, "-p", "c", "--output", "json").result["session_id"] == first
    assert "I am Ada" in request_text(command)
    assert "the second" not in request_text(command)


@pytest.mark.covers("CLI-18")
def test_run_works_without_home_terminal_and_network(command: Command) -> None:
    command.server.script.append("fine")
    command.variables |= {"HOME": "/dev/null/home", "MAINSPRING_HOME": "", "TERM": "", "MAINSPRING_OFFLINE": "1"}

    done = command.run("-p", "x", "--offline")

    assert (done.code, done.out) == (0, "fine\n"), done.err
    assert "cannot save the session" in done.err


@pytest.mark.covers("BYD-28")
def test_worktree_flag_runs_in_a_git_worktree(command: Command) -> None:
    (command.folder / "a.txt").write_text("one\n", encoding="utf-8")
    git(command.folder, "init", "-q", "-b", "main")
    git(command.folder, "add", "-A")
    git(command.folder, "commit", "-q", "-m", "first")
    read = Reply(calls=[("read_file", {"path": "a.txt"})])
    write = Reply(calls=[("write_file", {"path": "a.txt", "content": "two\n"})])
    command.server.script += [read, write, "done", "again"]

    done = command.run("--worktree", "fix", "-p", "x", "--allow", "write_file", "--output", "stream-json")
    tree = Path(done.lines[0]["cwd"])

    assert done.code == 0
    assert (tree / "a.txt").read_text(encoding="utf-8") == "two\n"
    assert (command.folder / "a.txt").read_text(encoding="utf-8") == "one\n"
    again = command.run("--worktree", "fix", "--continue", "-p", "y")
    assert (again.out, "branch: mainspring/fix" in again.err) == ("again\n", True)
    assert "1 uncommitted change" in command.run("worktrees").out
    assert command.run("worktrees", "remove", "fix").code == 2
    git(tree, "checkout", "-q", "--", "a.txt")
    assert command.run("worktrees", "remove", "fix", "--branch").code == 0
    assert not tree.exists()
    wrong = command.run("--worktree", "a/b", "-p", "x", "--output", "json")
    assert (wrong.code, wrong.result["exit_code"]) == (2, 2)


def test_worktree_of_a_run_that_cannot_start_is_removed(command: Command) -> None:
    """Unless it existed before; a branch that existed before stays, too."""
    git(command.folder, "init", "-q", "-b", "main")
    git(command.folder, "commit", "-q", "--allow-empty", "-m", "first")
    git(command.folder, "branch", "mainspring/old")
    command.server.script += ["done"]

    for name in ("new", "old"):
        bad = command.run("--worktree", name, "-p", "x", "--model", "nonsense:m")
        assert (bad.code, f"{name}; branch" in bad.err, "Removed the new worktree" in bad.err) == (2, True, True)
    assert command.run("worktrees", "--json").lines == [[]]
    assert command.run("--worktree", "new", "-p", "x").code == 0
    kept = command.run("--worktree", "new", "-p", "x", "--schema", "{")
    assert (kept.code, "Removed" in kept.err) == (2, False)
    branches = subprocess.run(["git", "branch", "--format=%(refname:short)"], cwd=command.folder, capture_output=True)
    assert branches.stdout.decode().split() == ["main", "mainspring/new", "mainspring/old"]


def test_login_and_logout_explain_what_to_do(command: Command) -> None:
    out = command.run("logout")
    assert (out.code, "Not signed in" in out.err) == (0, True)
    elsewhere = command.run("login", "github")
    assert (elsewhere.code, "gh auth login" in elsewhere.err) == (2, True)
    assert "Cannot log in to 'openia'" in command.run("login", "openia").err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_contain_commands_and_options(command: Command, shell: str) -> None:
    script = command.run("completion", shell).out

    assert all(word in script for word in ("worktrees", "stream-json", "max-cost"))
    if shell == "bash":
        check = 'COMP_WORDS=(mainspring config v); COMP_CWORD=2; _mainspring; echo "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", f"{script}\n{check}"], capture_output=True, encoding="utf-8", check=True)
        assert done.stdout == "validate\n"


def test_mentioned_image_is_sent_unless_the_model_accepts_none(command: Command) -> None:
    Image.new("RGB", (20, 20), "red").save(command.folder / "a red one.png")
    command.server.script += ["It is red."]
    done = command.run("-p", 'What is @"a red one.png"?')
    assert (done.code, done.out) == (0, "It is red.\n")
    content = command.server.requests[0]["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["text", "image_url"]
    assert content[1]["image_url"]["url"].startswith("data:image/png;base64,")

    command.settings({"providers": {"openai": {"vision": False}}})
    blind = command.run("-p", 'What is @"a red one.png"?')
    assert (blind.code, len(command.server.requests)) == (2, 1)
    assert "does not accept images" in blind.err
    assert "providers.openai.vision" in blind.err
