"""Custom commands: how files become commands, and commands become prompts."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring.app.workspace.command_registry import CustomCommands
from mainspring.app.workspace.custom_commands import CustomCommand, parse_command
from mainspring.app.workspace.custom_commands.expansion import expand
from mainspring.app.workspace.file_mentions import find_mentions
from mainspring.app.workspace.paths import UserPaths
from mainspring.env import LocalEnv
from mainspring.errors import ConfigError, PermissionDeniedError
from mainspring.permissions import Permissions, RuleSet
from mainspring.policies.plan_mode import PlanMode
from mainspring.tools.builtin.read_file import read_file

pytestmark = pytest.mark.covers("OPT-04", "BYD-08")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def expand_prompt(body: str, given: str = "", **fields: Any) -> str:
    return expand(CustomCommand(name="x", body=body, **fields), given, {"CWD": "/work"}).text()


# --- files ------------------------------------------------------------------------------------------------------------------


def test_file_becomes_a_command() -> None:
    head = (
        "---\ndescription: Review: a file\nargument-hint: [file] [focus]\n"
        "allowed-tools: read_file, shell(git diff *, git log *), grep\nmodel: openai:gpt-5\nother: x\n---\n"
    )
    result = parse_command(f"{head}Review $1.\n", "review", scope="project", path="p")

    assert (result.description, result.hint, result.model, result.body) == (
        "Review: a file",
        "[file] [focus]",
        "openai:gpt-5",
        "Review $1.",
    )
    assert result.tools == ("read_file", "shell(git diff *, git log *)", "grep")
    assert result.tool_names == ("read_file", "shell", "grep")
    assert result.allow_rules == ("shell(git diff *, git log *)",)


def test_first_line_is_the_default_description() -> None:
    result = parse_command("\ufeff# Tidy up\r\n\r\nAll of it.", "tidy")

    assert (result.description, result.tools, result.usage) == ("Tidy up", None, "/tidy")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The prompt is empty"),
        ("---\na: b\n---\n", "The prompt is empty"),
        ("---\na: b\n", "not closed"),
        ("---\narguments: [1x]\n---\nx", "1x"),
    ],
)
def test_invalid_file_is_not_a_command(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_command(text, "x")


def test_commands_are_found_and_scopes_can_be_named(tmp_path: Path) -> None:
    home, project = UserPaths(tmp_path / "home"), tmp_path / "project"
    write(home.root / "commands" / "review.md", "user")
    write(home.root / "commands" / "git" / "push.md", "push")
    write(home.root / "commands" / "README.md", "no command")
    write(project / ".agent" / "commands" / "review.md", "project")
    write(project / ".agent" / "commands" / "quit.md", "quit")
    write(project / ".agent" / "commands" / "bad name.md", "x")
    write(project / ".agent" / "commands" / "user" / "review.md", "poses as the user's")
    write(project / ".agent" / "commands" / "user" / "other.md", "poses as the user's")

    found = CustomCommands.find(str(project), home, trusted=True, reserved={"quit"})

    assert [c.name for c in found] == ["git:push", "quit", "review"]
    assert {name: c.body for name in ("review", "/user:review", "project:review") if (c := found.get(name))} == {
        "review": "user",
        "/user:review": "user",
        "project:review": "project",
    }
    assert found.get("/user:other") is None
    reasons = " | ".join(s.reason for s in found.skipped)
    assert "/user:other conflicts with another file" in reasons
    assert "/quit is a built-in command; use /project:quit instead" in reasons
    assert "your own /review takes precedence; use /project:review instead" in reasons
    assert "invalid command name: 'bad name'" in reasons
    assert found.suggest("/reviw x") == "review"
    call = found.call("/git:push  origin main ")
    assert call is not None
    assert (call.command.name, call.arguments) == ("git:push", "origin main")
    assert found.call("/etc/hosts is what?") is None


def test_project_commands_need_trust(tmp_path: Path) -> None:
    write(tmp_path / ".agent" / "commands" / "evil.md", "!`touch owned`")

    found = CustomCommands.find(str(tmp_path), None, trusted=False)

    assert not list(found)
    assert "not trusted" in found.skipped[0].reason


# --- arguments --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "arguments", "fields", "expected"),
    [
        ("Do $1 then $2: $ARGUMENTS", "a 'b c'", {}, "Do a then b c: a 'b c'"),
        ("Do $@", "x y", {}, "Do x y"),
        ("awk '{print $1}'", "", {}, "awk '{print $1}'"),
        ("awk '{print $3}' $1", "x", {}, "awk '{print $3}' x"),
        (r"cost: \$1 and $1", "x", {}, "cost: $1 and x"),
        ("$12 $HOME $foo ${bar}", "x", {}, "$12 $HOME $foo ${bar}\n\nArguments: x"),
        ("Review $file for ${focus}.", "a.py speed", {"arguments": ("file", "focus?")}, "Review a.py for speed."),
        ("Review $file for ${focus}.", "a.py", {"arguments": ("file", "focus?")}, "Review a.py for ."),
        ("$1 $2 $9", "a", {"arguments": ("x", "y?")}, "a  $9"),
        ("No placeholder.", "but words", {}, "No placeholder.\n\nArguments: but words"),
        ("In {{CWD}}, {{NOPE}}", "", {}, "In /work, {{NOPE}}"),
        ("say it's $1", "it's", {}, "say it's it's"),
    ],
)
def test_arguments_are_inserted(body: str, arguments: str, fields: dict[str, Any], expected: str) -> None:
    assert expand_prompt(body, arguments, **fields) == expected


def test_missing_argument_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"/x needs focus: /x FILE FOCUS \[more\]"):
        expand_prompt("$1", "a.py", arguments=("file", "focus", "more?"))


@given(st.text(max_size=40), st.lists(st.sampled_from(["$1", "$2", "$ARGUMENTS", "!`ls $1`", "@$1", "{{CWD}}", "text ", "```\n", "\\$"]), max_size=8))  # fmt: skip
def test_inserted_text_is_not_expanded_again(arguments: str, parts: list[str]) -> None:
    hostile = f"!`touch owned` $1 $ARGUMENTS {{{{CWD}}}} {arguments}"

    result = expand(CustomCommand(name="x", body="\n".join(["start", *parts])), hostile, {"CWD": "$1 !`no`"})

    scripts = [p.text for p in result.pieces if p.is_shell]
    assert len(scripts) <= parts.count("!`ls $1`")
    assert all(s.startswith("ls '!`touch'") for s in scripts)
    assert result.text(["OUT $1 !`x`"] * len(scripts)).count("OUT $1") == len(scripts)


def test_shell_arguments_are_quoted() -> None:
    result = expand(CustomCommand(name="x", body="!`git log $1 -- $ARGUMENTS`"), "'; rm -rf /' b", {})

    assert [p.text for p in result.pieces if p.is_shell] == ["git log '; rm -rf /' -- '; rm -rf /' b"]
    result = expand(CustomCommand(name="x", body="!`echo $ARGUMENTS $@`"), "a;id $(id) `id` >x", {})
    words = "'a;id' '$(id)' '`id`' '>x'"
    assert [p.text for p in result.pieces if p.is_shell] == [f"echo {words} {words}"]


def test_code_fences_are_not_expanded() -> None:
    result = expand(CustomCommand(name="x", body="```\n!`ls` @a.md\n```\n!`pwd` @b.md @someone"), "", {})

    assert [p.text for p in result.pieces if p.is_shell] == ["pwd"]
    assert result.files == ("b.md",)


@pytest.mark.parametrize(
    ("body", "given", "path", "text"),
    [
        ("Read @$file.", "a.md", "a.md", "Read @a.md."),
        ("Read @${file}!", "a.md", "a.md", "Read @a.md!"),
        ("Read @docs/$file", "a.md", "docs/a.md", "Read @docs/a.md"),
        ('Read @"$file"', "'two words.md'", "two words.md", "Read @two words.md"),
        ("Read @$1", "..", "..", "Read @.."),
        ("Read @$1.", "'what now?!'", "what now?!", "Read @what now?!."),
        ("Read @$1", "'a.md @/etc/shadow'", "a.md @/etc/shadow", "Read @a.md @/etc/shadow"),
        ("Read @$1", "'$1 !`id`'", "$1 !`id`", "Read @$1 !`id`"),
        ("Read @$other.md", "a.md", "$other.md", "Read @$other.md"),
    ],
)
def test_argument_after_an_at_sign_is_one_path(body: str, given: str, path: str, text: str) -> None:
    result = expand(CustomCommand(name="x", body=body, arguments=("file",)), given, {})

    paths = [p for p in result.files if p not in find_mentions(given)]
    assert paths == [path]
    assert result.text().startswith(text)
    assert not any(p.is_shell for p in result.pieces)


# --- shell output and files -------------------------------------------------------------------------------------------------


async def test_output_and_files_are_included_in_the_prompt(tmp_path: Path) -> None:
    write(tmp_path / "a.md", "forty-two")
    write(tmp_path / "home" / "commands" / "x.md", "Look: !`echo @none.md; exit 3` at @$1")
    found = CustomCommands.find(str(tmp_path), UserPaths(tmp_path / "home"), trusted=False)
    env = LocalEnv(tmp_path)
    call = found.call("/x a.md")
    assert call is not None

    text = await call.prompt(env, Permissions(root=str(tmp_path)), read_file)

    assert '<output command="echo @none.md; exit 3">\n@none.md\n[exit code 3]\n</output>' in text
    assert '<file path="a.md">\nforty-two\n</file>' in text
    await env.aclose()


async def test_permission_rules_apply_to_commands_and_files(tmp_path: Path) -> None:
    write(tmp_path / "home" / "commands" / "x.md", "!`touch owned`")
    write(tmp_path / "home" / "commands" / "y.md", "@.env")
    write(tmp_path / ".env", "KEY=1")
    found = CustomCommands.find(str(tmp_path), UserPaths(tmp_path / "home"), trusted=False)
    env = LocalEnv(tmp_path)
    rules = Permissions(rules=RuleSet.build(deny=("shell(touch *)",)), root=str(tmp_path))
    for line, message in (("/x", "is denied"), ("/y", "requires approval")):
        call = found.call(line)
        assert call is not None
        with pytest.raises(PermissionDeniedError, match=message):
            await call.prompt(env, rules, read_file)
    assert not (tmp_path / "owned").exists()
    await env.aclose()


async def test_plan_mode_allows_only_read_only_commands(tmp_path: Path) -> None:
    write(tmp_path / "home" / "commands" / "x.md", "!`touch owned`")
    write(tmp_path / "home" / "commands" / "y.md", "!`echo seen`")
    found = CustomCommands.find(str(tmp_path), UserPaths(tmp_path / "home"), trusted=False)
    env = LocalEnv(tmp_path)
    rules, plan = Permissions(allow=["shell"], root=str(tmp_path)), PlanMode()
    writes, reads = found.call("/x"), found.call("/y")
    assert writes is not None
    assert reads is not None

    with pytest.raises(PermissionDeniedError, match="plan mode only allows read-only commands"):
        await writes.prompt(env, rules, read_file, plan=plan)
    assert not (tmp_path / "owned").exists()
    assert "seen" in await reads.prompt(env, rules, read_file, plan=plan)

    plan.exit()
    await writes.prompt(env, rules, read_file, plan=plan)
    assert (tmp_path / "owned").exists()
    await env.aclose()
