"""Definitions of the built-in tools, and limits on their code."""

import ast
import json
from pathlib import Path

import pytest

import mainspring.tools.builtin as builtin
from mainspring.env import MemoryEnv
from mainspring.tools import Access, Tool, ToolContext, ToolRegistry
from mainspring.tools.builtin import (
    COMMON_ALIASES,
    builtin_tools,
    edit,
    glob,
    grep,
    list_files,
    read_file,
    shell,
    write_file,
)

OFFERED = [
    *("read_file", "write_file", "edit", "multi_edit", "glob", "grep", "list_files", "shell", "jobs", "fetch"),
    "todo_write",
]
NAMES = [*OFFERED, "apply_patch", "todo_read", "ask_user", "present_plan", "hello", "greet", "search_books"]
SOURCE = Path(builtin.__file__).parent


@pytest.mark.covers("TOL-16", "TOL-24")
def test_all_tools_are_exported_and_default_tools_offered() -> None:
    assert [t.name for t in builtin_tools()] == OFFERED
    assert [t.name for t in builtin_tools(include_optional=True)] == NAMES
    assert [getattr(builtin, name) for name in NAMES] == builtin_tools(include_optional=True)
    assert len(ToolRegistry(builtin_tools(include_optional=True))) == len(NAMES)
    assert {t.source for t in builtin_tools(include_optional=True)} == {"builtin"}


@pytest.mark.covers("TOL-17", "OPT-02")
def test_common_aliases_map_to_builtin_tools() -> None:
    assert COMMON_ALIASES == {
        "read": "read_file",
        "write": "write_file",
        "list": "list_files",
        "bash": "shell",
        "task": "spawn",
        "todowrite": "todo_write",
        "todoread": "todo_read",
        "webfetch": "fetch",
    }
    assert set(COMMON_ALIASES.values()) - {"spawn"} <= set(NAMES)


@pytest.mark.covers("TOL-24")
async def test_tool_works_without_an_agent() -> None:
    ctx = ToolContext(env=MemoryEnv({"x.txt": "one\ntwo\n"}))
    assert (await read_file(ctx, path="x.txt")).text.startswith("1\tone\n2\ttwo\n")
    assert "1:one" in (await grep(ctx, pattern="o.e")).text


@pytest.mark.parametrize("tool", builtin_tools(include_optional=True), ids=lambda t: t.name)
def test_schemas_are_closed_and_list_their_paths(tool: Tool) -> None:
    schema = tool.input_schema
    assert schema["additionalProperties"] is False
    assert set(schema.get("required", [])) <= set(schema["properties"])
    assert set(tool.path_params) <= set(schema["properties"])
    assert tool.access is not None
    assert tool.description


def test_definitions_are_short() -> None:
    total_characters = sum(len(json.dumps([t.description, t.input_schema])) for t in builtin_tools())
    assert total_characters < 8_500


def test_tools_with_side_effects_are_not_run_in_parallel() -> None:
    tools = builtin_tools(include_optional=True)
    assert {t.name for t in tools if not t.concurrency_safe} == {
        *("write_file", "edit", "multi_edit", "apply_patch", "shell", "todo_write", "ask_user", "present_plan")
    }
    assert {t.name for t in tools if not t.idempotent} == {
        *("edit", "multi_edit", "apply_patch", "shell", "jobs", "ask_user", "present_plan")
    }


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("read_file", {"path": "a"}, [Access("fs-read", "a")]),
        ("read_file", {"path": "@.env"}, [Access("fs-read", "@.env"), Access("fs-read", ".env")]),
        ("write_file", {"path": "a", "content": ""}, [Access("fs-write", "a")]),
        ("edit", {"path": "a"}, [Access("fs-write", "a")]),
        ("multi_edit", {"path": "@a"}, [Access("fs-write", "@a"), Access("fs-write", "a")]),
        ("grep", {"pattern": "x"}, [Access("fs-read", ".")]),
        ("grep", {"pattern": "x", "path": "/etc/*.d"}, [Access("fs-read", "/etc/*.d"), Access("fs-read", "/etc")]),
        ("glob", {"pattern": "**/*.py"}, [Access("fs-read", ".")]),
        ("glob", {"pattern": "/etc/*"}, [Access("fs-read", "/etc")]),
        ("glob", {"pattern": "../x/*.py", "path": "src"}, [Access("fs-read", "src/../x")]),
        ("list_files", {}, [Access("fs-read", ".")]),
        ("shell", {"command": "rm -rf x"}, [Access("shell-run", "rm -rf x")]),
    ],
)
def test_tools_declare_their_access(name: str, arguments: dict[str, object], expected: list[Access]) -> None:
    tool = getattr(builtin, name)
    assert tool.access(arguments) == expected


@pytest.mark.covers("EXE-04")
async def test_tools_reach_files_and_programs_through_the_environment() -> None:
    env = MemoryEnv({"a.txt": "one\n"}, run={"make": "built"})
    ctx = ToolContext(env=env)
    assert (await read_file(ctx, path="a.txt")).text.startswith("1\tone")
    assert "1:one" in (await grep(ctx, pattern="o.e")).text
    assert "a.txt" in (await glob(ctx, pattern="*.txt")).text
    assert "a.txt" in (await list_files(ctx)).text
    await edit(ctx, path="a.txt", old_string="one", new_string="two")
    await write_file(ctx, path="b.txt", content="new")
    assert (await env.read_bytes("a.txt"), await env.read_bytes("b.txt")) == (b"two\n", b"new")
    assert (await shell(ctx, command="make")).text.startswith("built")
    assert env.commands == ["make"]


@pytest.mark.covers("EXE-04")
@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.relative_to(SOURCE).as_posix())
def test_tools_use_only_the_environment_for_io(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    outside = {"os", "pathlib", "subprocess", "shutil", "tempfile", "io", "socket", "glob", "http"}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                assert not {n.name.partition(".")[0] for n in names} & outside
            case ast.ImportFrom(module="urllib.parse"):
                pass  # only parses URLs
            case ast.ImportFrom(module=str(module)):
                assert module.partition(".")[0] not in {*outside, "urllib"}
            case ast.Call(func=ast.Name(id=name)):
                assert name not in {"open", "exec", "eval", "__import__"}
            case _:
                pass
