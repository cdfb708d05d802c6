"""Subagent definitions in Markdown files."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError
from mainspring.run_options import RunOptions
from mainspring.subagents import AgentDefinition, load_definitions, parse_definition
from mainspring.testing.scripted_model import ScriptedModel
from mainspring.tools.builtin import builtin_tools
from tests.unit.subagents.harness import spawn_call

REVIEWER = """---
name: reviewer
description: >
  Reviews a change.
  Use when: a change is ready.
tools: Read, Grep, Glob, Bash, mcp__docs__*
model: openai:gpt-5-mini
max-turns: 12
maxCost: "0.5"
thinking: high
color: red
---
You review changes.

Be brief.
"""


@pytest.mark.covers("BYD-03")
def test_file_defines_prompt_tools_model_and_limits() -> None:
    parsed = parse_definition(REVIEWER, source="reviewer.md")
    assert parsed == AgentDefinition(
        name="reviewer",
        description="Reviews a change. Use when: a change is ready.",
        system="You review changes.\n\nBe brief.",
        tools=("read_file", "grep", "glob", "shell", "mcp__docs__*"),
        model="openai:gpt-5-mini",
        behavior=RunOptions(max_turns=12, max_cost=0.5, thinking="high"),
        source="reviewer.md",
    )


@pytest.mark.covers("BYD-03")
def test_missing_fields_are_inherited_from_the_parent() -> None:
    parsed = parse_definition("---\nmodel: inherit\n---\n", name="plain")
    assert parsed == AgentDefinition(name="plain")
    assert parse_definition("Just a prompt.", name="x").system == "Just a prompt."
    assert parse_definition("---\ntools: []\n---\n", name="x").tools == ()
    assert parse_definition("---\ntools:\n  - Read\n  - custom\n---\n", name="x").tools == ("read_file", "custom")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("---\nmax_turns: many\n---\n", "max_turns"),
        ("---\nmax_turns: 0\n---\n", "more than 0"),
        ("---\nmax_cost: nan\n---\n", "more than 0"),
        ("---\nthinking: a lot\n---\n", "thinking"),
        ("---\nname: ../escape\n---\n", "1 to 64"),
        ("---\nname: ''\n---\n", "1 to 64"),
    ],
)
def test_invalid_value_is_reported_with_its_file(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_definition(text, source="some/file.md")
    assert "some/file.md" in str(caught.value)


def write_files(folder: Path, **files: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


@pytest.mark.covers("BYD-03")
def test_definitions_of_a_project_require_trust(tmp_path: Path) -> None:
    user = write_files(tmp_path / "user", zeta="Z", both="---\ndescription: the user's\n---\n")
    project = tmp_path / "project"
    write_files(project / ".agents" / "agents", both="---\ndescription: the project's\n---\n", alpha="A")
    write_files(project / ".agent" / "agents", alpha="another A", broken="---\nmax_turns: x\n---\n")

    without_trust = load_definitions(user=[user, tmp_path / "none"], project=project)
    assert [(d.name, d.description) for d in without_trust.definitions] == [("both", "the user's"), ("zeta", "")]
    assert {s.reason for s in without_trust.skipped} == {"the project is not trusted"}
    assert len(without_trust.skipped) == 4

    with_trust = load_definitions(user=[user], project=project, trusted=True)
    assert [(d.name, d.description) for d in with_trust.definitions] == [
        ("alpha", ""),
        ("both", "the project's"),
        ("zeta", ""),
    ]
    assert with_trust.definitions[0].system == "A"
    reasons = {Path(s.path).stem: s.reason for s in with_trust.skipped}
    assert "is already defined by" in reasons["alpha"]
    assert "is already defined by" in reasons["both"]
    assert "max_turns" in reasons["broken"]


def test_definitions_in_subfolders_and_behind_links_are_read_once(tmp_path: Path) -> None:
    elsewhere = write_files(tmp_path / "elsewhere", linked="L", one="1")
    folder = write_files(tmp_path / "agents", top="T", README="About these agents")
    write_files(folder / "team" / "deep", nested="N")
    write_files(folder / ".hidden", hidden="H")
    (folder / "shared").symlink_to(elsewhere)
    (folder / "file.md").symlink_to(elsewhere / "one.md")
    (folder / "loop").symlink_to(folder)
    (folder / "gone").symlink_to(tmp_path / "gone")
    found = load_definitions(user=[folder])
    assert [d.name for d in found.definitions] == ["file", "linked", "nested", "one", "top"]
    assert found.skipped == ()


def test_invalid_files_are_skipped_with_a_reason(tmp_path: Path) -> None:
    folder = write_files(tmp_path, binary=b"\xff\xfe\x00", large="x" * 300_000, fine="ok")
    (folder / "notes.txt").write_text("not Markdown")
    (folder / "folder.md").mkdir()
    found = load_definitions(user=[folder])
    assert [d.name for d in found.definitions] == ["fine"]
    assert {Path(s.path).stem: s.reason.split(":")[0] for s in found.skipped} == {
        "binary": "it is not UTF-8",
        "large": "it is larger than 256KiB, too large for the definition of a subagent",
    }


@pytest.mark.covers("BYD-03")
async def test_defined_subagent_runs_with_its_prompt_and_tools(tmp_path: Path) -> None:
    write_files(tmp_path, scout="---\ndescription: Looks around.\ntools: Read, Write, Nonsense\n---\nLook around.")
    model = ScriptedModel(spawn_call("go", "scout"), "seen", "done")
    agent = Agent(
        model,
        system="Parent.",
        execution=MemoryEnv({}),
        tools=builtin_tools(),
        subagents=load_definitions(user=[tmp_path]).definitions,
    )
    assert (await agent.run("go")).text == "done"
    request = model.requests[1].request
    assert (request.system, [t.name for t in request.tools]) == ("Look around.", ["read_file", "write_file"])


@given(st.text())
def test_any_text_is_a_definition_or_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert parse_definition(text, name="x").name
