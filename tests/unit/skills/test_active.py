from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from mainspring import RunOptions
from mainspring.loop.hooks import ToolFinished, ToolGate
from mainspring.permissions import PermissionRequest, Permissions
from mainspring.skills.active import parse_allowed_tools
from mainspring.subagents import Subagents
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import tool
from mainspring.tools.builtin import builtin_tools
from tests.unit.skills.factories import make_agent, results, write_skill


def use_skill(name: str) -> ScriptedCall:
    return ScriptedCall("skills_use", {"name": name})


async def find_allowed_calls(
    tmp_path: Path, entries: str, *calls: ScriptedCall, others: tuple[tuple[str, str], ...] = ()
) -> list[bool]:
    """Return for each call whether it is allowed while a skill with these allowed tools is active."""
    write_skill(tmp_path / "s", "one", head=f"allowed-tools: {entries}")
    for name, listed in others:
        write_skill(tmp_path / "s", name, head=f"allowed-tools: {listed}" if listed else "")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "docs").mkdir()
    (tmp_path / "p" / "docs" / "a.md").write_text("a", encoding="utf-8")

    @tool
    def mcp__docs__search(query: str) -> str:
        """Search."""
        return query

    first = [use_skill("one"), *[use_skill(name) for name, _ in others]]
    agent, _, _ = make_agent(
        tmp_path / "s",
        first,
        list(calls),
        "done",
        execution=str(tmp_path / "p"),
        tools=[*builtin_tools(), mcp__docs__search],
    )
    await agent.run("go")
    return [not r.text.startswith(("Blocked", "Permission denied")) for r in results(agent)[len(first) :]]


def shell_call(command: str) -> ScriptedCall:
    return ScriptedCall("shell", {"command": command})


READ = ScriptedCall("read_file", {"path": "docs/a.md"})
WRITE = ScriptedCall("write_file", {"path": "x", "content": "x"})
SEARCH = ScriptedCall("mcp__docs__search", {"query": "x"})


@pytest.mark.covers("SKL-28")
@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ("Read", [True, False, False, False, False]),
        ("Read Write", [True, True, False, False, False]),
        ("read_file, shell(git *)", [True, False, True, False, False]),
        ("Bash(git:*)", [False, False, True, False, False]),
        ("Bash", [False, False, True, True, False]),
        ("Bash(*) mcp__docs__*", [False, False, True, True, True]),
        ("mcp__docs__search Read(docs/**)", [True, False, False, False, True]),
        ("Read(other/**)", [False, False, False, False, False]),
        ("Bash(git status:*) Write", [False, True, False, False, False]),
        ('""', [True, True, True, True, True]),
    ],
)
async def test_active_skill_restricts_tool_calls(tmp_path: Path, entries: str, expected: list[bool]) -> None:
    calls = (READ, WRITE, shell_call("git --version"), shell_call("ls"), SEARCH)

    assert await find_allowed_calls(tmp_path, entries, *calls) == expected


@pytest.mark.covers("SKL-28")
async def test_commands_joined_to_an_allowed_command_are_blocked(tmp_path: Path) -> None:
    commands = (
        "git --version && rm -rf docs",
        "git --version; ls",
        "$(rm x) git",
        "GIT_PAGER='sh -c ls' git log",
        "git --version | sh",
    )

    assert await find_allowed_calls(tmp_path, "Bash(git:*)", *map(shell_call, commands)) == [False] * len(commands)
    assert (tmp_path / "p" / "docs" / "a.md").exists()


@pytest.mark.covers("SKL-28")
async def test_allowed_tools_of_all_active_skills_are_combined(tmp_path: Path) -> None:
    calls = (
        READ,
        WRITE,
        shell_call("git --version"),
        use_skill("one"),
        ScriptedCall("skills_read", {"skill": "one", "path": "SKILL.md"}),
    )
    others = (("two", "Bash(git:*)"), ("free", ""))

    assert await find_allowed_calls(tmp_path, "Read", *calls, others=others) == [True, False, True, True, True]


@pytest.mark.covers("SKL-28")
async def test_restriction_ends_with_the_run_and_blocked_calls_do_not_ask(tmp_path: Path) -> None:
    write_skill(tmp_path / "s", "one", head="allowed-tools: Read")
    permission_requests: list[PermissionRequest] = []

    def ask(request: PermissionRequest) -> bool:
        permission_requests.append(request)
        return True

    agent, _, _ = make_agent(
        tmp_path / "s",
        *(use_skill("one"), WRITE, "done", WRITE, "done"),
        execution=str(tmp_path),
        tools=builtin_tools(),
        permissions=Permissions(on_permission_request=ask),
    )
    await agent.run("go")
    assert permission_requests == []
    assert results(agent)[1].text.startswith(
        "Blocked: this call of write_file is not among what the active skill allows (one: Read)"
    )

    await agent.run("go")
    assert len(permission_requests) == 1
    assert not results(agent)[2].is_error


@pytest.mark.covers("SKL-28")
async def test_triggered_skill_restricts_only_after_its_activation(tmp_path: Path) -> None:
    write_skill(tmp_path / "s", "one", head="allowed-tools: Read\ntriggers:\n  keywords: [notes]")
    agent, _, _ = make_agent(
        tmp_path / "s", WRITE, use_skill("one"), WRITE, "done", execution=str(tmp_path), tools=builtin_tools()
    )

    await agent.run("write the notes")

    assert [r.is_error for r in results(agent)] == [False, False, True]


@pytest.mark.covers("SKL-28", "SUB-02")
async def test_subagent_has_the_restrictions_of_its_parent(tmp_path: Path) -> None:
    write_skill(tmp_path / "s", "one", head="allowed-tools: Read Task")
    write_skill(tmp_path / "s", "two", "Second.")
    model = ScriptedModel(
        use_skill("one"),
        ScriptedCall("spawn", {"task": "write it"}),
        [WRITE, READ, use_skill("two")],  # the subagent
        "child is done",
        [use_skill("two"), ScriptedCall("skills_read", {"skill": "two", "path": "SKILL.md"})],
        "done",
    )
    agent, _, skills = make_agent(
        tmp_path / "s", model=model, execution=str(tmp_path), tools=builtin_tools(), subagents=Subagents()
    )
    inner: list[tuple[str, bool]] = []
    agent.on(ToolFinished, lambda h: inner.append((h.name, h.is_error)), subagents=True)
    blocked: list[str] = []
    agent.on(ToolGate, lambda h: blocked.append(h.name), order=50, subagents=True)

    await agent.run("go")

    assert not (tmp_path / "x").exists()
    assert inner == [("read_file", True), ("skills_use", False)]
    assert model.requests[3].messages[-1].tool_results[0].text.startswith("Blocked: this call of write_file")
    child = model.requests[2].request
    assert "- two: All about two." in child.system
    assert [t.name for t in child.tools].count("skills_use") == 1
    assert results(agent)[2].text.startswith('<skill_content name="two"')  # the skill was active for the subagent only
    assert skills.active.names == ()


@pytest.mark.covers("SKL-28")
async def test_structured_output_is_never_blocked(tmp_path: Path) -> None:
    write_skill(tmp_path / "s", "one", head="allowed-tools: Read")
    agent, _, _ = make_agent(
        tmp_path / "s", use_skill("one"), ScriptedCall("__output__", {"n": 5}), execution=str(tmp_path)
    )
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    result = await agent.run("go", behavior=RunOptions(schema=schema))

    assert result.output == {"n": 5}


@pytest.mark.covers("SKL-28")
@given(st.lists(st.text(max_size=30), max_size=5))
def test_any_text_of_allowed_tools_is_parsed(entries: list[str]) -> None:
    read = parse_allowed_tools(tuple(entries))

    assert len(read.odd) <= len(entries)
    for each in read.odd:
        assert not parse_allowed_tools((each,)).tools


@pytest.mark.covers("SKL-28")
def test_tool_names_of_other_programs_are_translated() -> None:
    read = parse_allowed_tools(
        ("Bash", "Edit", "WebFetch", "MultiEdit", "TodoWrite", "LS", "Grep", "Task", "mcp__A__B", "Bash(git:*", "a b")
    )

    assert read.tools == (
        *("shell", "jobs", "edit", "multi_edit", "apply_patch", "fetch", "todo_write", "list_files", "grep", "spawn"),
        "mcp__A__B",
    )
    assert read.odd == ("Bash(git:*", "a b")
