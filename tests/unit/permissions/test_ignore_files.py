"""`.agentignore` binds every tool, searches and commands."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import Agent
from mainspring.env.memory import MemoryEnv
from mainspring.permissions import Permissions
from mainspring.permissions.ignore_files import IgnoreFiles
from mainspring.permissions.path_patterns import split_path
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools.builtin import builtin_tools
from tests.unit.policies.harness import texts

FILES = {
    ".agentignore": "secrets/\n*.dat\n!public.dat\n/top.txt\n",
    "secrets/a.txt": "needle",
    "src/app.py": "needle",
    "src/.agentignore": "local.txt\n",
    "src/local.txt": "needle",
    "src/deep/local.txt": "needle",
    "src/deep/top.txt": "needle",
    "top.txt": "needle",
    "my.dat": "needle",
    "public.dat": "needle",
    "other/local.txt": "needle",
}
TOOLS = {t.name: t for t in builtin_tools(every=True)}


async def outcome(tool: str, arguments: dict[str, Any], **rules: Any) -> str:
    env = MemoryEnv(FILES, links={"link.txt": "secrets/a.txt", "folder": "secrets"})
    return (await Permissions(**rules).decide(tool, arguments, env=env, definition=TOOLS.get(tool))).outcome


@pytest.mark.parametrize(
    "path", ["secrets/a.txt", "top.txt", "my.dat", "src/local.txt", "src/deep/local.txt", "link.txt"]
)
@pytest.mark.parametrize("spelled", ["{}", "./{}", "/project/{}", "src/../{}"])
@pytest.mark.covers("BYD-19")
async def test_no_tool_may_touch_what_it_names(path: str, spelled: str) -> None:
    named = spelled.format(path)
    for tool, more in (
        ("read_file", {}),
        ("write_file", {"content": ""}),
        ("edit", {"old_string": "a", "new_string": "b"}),
    ):
        assert await outcome(tool, {"path": named, **more}, allow=[tool, f"{tool}({path})"], mode="allow") == "deny"
    for line in (
        f"cat {named}",
        f"echo a > {named}",
        f"rm {named}",
        f"python tool.py --file={named}",
        f"bash -c 'cat {named}'",
    ):
        assert await outcome("shell", {"command": line}, allow=["shell"], mode="allow") == "deny", line
    assert await outcome("github__push", {"file": named}, allow=["github__push"]) == "deny"


@pytest.mark.parametrize("path", ["src/app.py", "public.dat", "src/deep/top.txt", "other/local.txt"])
async def test_the_rest_is_as_before(path: str) -> None:
    assert await outcome("read_file", {"path": path}) == "allow"
    assert await outcome("shell", {"command": f"cat {path}"}) == "allow"


@pytest.mark.parametrize(
    "line", ["cat sec*/a.txt", "cat folder/a.txt", "cd secrets && cat a.txt", "cat *.dat", "cat SECRETS/A.TXT"]
)
async def test_other_spellings_in_commands(line: str) -> None:
    assert await outcome("shell", {"command": line}, allow=["shell(cat *)"]) == "deny"


@pytest.mark.parametrize("line", ["grep -r needle .", "rg needle", "rg needle src", "diff -r src other"])
async def test_a_command_that_shows_everything_asks(line: str) -> None:
    assert await outcome("shell", {"command": line}) == "ask"
    assert await outcome("shell", {"command": line}, allow=["shell"]) == "ask"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tar cf all.tar secrets", "deny"),
        ("cp -r . /elsewhere", "ask"),
        ("zip -r all.zip src", "ask"),
        ("npm run secrets", "ask"),
    ],
)
async def test_a_command_that_takes_it_along_is_not_allowed(line: str, said: str) -> None:
    assert await outcome("shell", {"command": line}, allow=["shell", "scope:fs-write(/elsewhere)"]) == said


async def test_the_file_itself_is_guarded() -> None:
    assert await outcome("write_file", {"path": ".agentignore", "content": ""}, allow=["write_file"]) == "ask"
    assert await outcome("shell", {"command": "rm src/.agentignore"}, allow=["shell(rm *)"]) == "ask"


@pytest.mark.covers("BYD-19")
async def test_searches_leave_it_out() -> None:
    env = MemoryEnv(FILES)
    calls = [
        ScriptedCall("grep", {"pattern": "needle", "include_ignored": True}, id="a"),
        ScriptedCall("glob", {"pattern": "**/*.txt"}, id="b"),
        ScriptedCall("list_files", {"path": ".", "depth": 4}, id="c"),
    ]
    agent = Agent(ScriptedModel(calls, "done"), tools=list(TOOLS.values()), execution=env, permissions=Permissions())

    await agent.run("go")

    searched, globbed, listed = texts(agent.messages)
    assert "other/local.txt" in searched
    assert "other/local.txt" in globbed
    assert "app.py" in listed
    assert "secrets" not in listed
    assert listed.count("local.txt") == 1
    for text in (searched, globbed):
        assert not any(name in text for name in ("secrets/a.txt", "my.dat", "src/local.txt", "src/deep/local.txt"))


async def test_a_file_that_cannot_be_read_hides_its_folder() -> None:
    files = IgnoreFiles(MemoryEnv({"src/.agentignore": b"#" * (1 << 21), "src/a": ""}))

    assert await files.why(split_path("/project/src/a")) == "/project/src/.agentignore"
    assert await files.why(split_path("/project/b")) == ""


async def test_a_change_counts_soon() -> None:
    now = 0.0
    env = MemoryEnv({"a": ""})
    files = IgnoreFiles(env, clock=lambda: now)
    assert await files.why(split_path("/project/a")) == ""

    await env.write_bytes(".agentignore", b"a\n")
    now = 2.0

    assert await files.why(split_path("/project/a")) == "/project/.agentignore"


@given(
    st.lists(
        st.sampled_from(["a", "b", "*.txt", "!a", "/a", "b/", "a/b", "**/b", "#x", "", "[ab]", "\\!a"]), max_size=5
    )
)
async def test_what_lies_in_a_hidden_folder_is_hidden(lines: list[str]) -> None:
    files = IgnoreFiles(MemoryEnv({".agentignore": "\n".join(lines)}))

    if await files.why(split_path("/project/a/b")) and await files.why(split_path("/project/a")):
        assert await files.why(split_path("/project/a/c/d"))


@pytest.mark.covers("BYD-19")
async def test_what_is_hidden_can_be_listed_for_a_sandbox() -> None:
    env = MemoryEnv({**FILES, "private/a": "", "private/b": ""})

    found = await Permissions(deny=["read_file(private/**)"], ask=["read_file(other/**)"]).unreadable_paths(env)

    assert found == (
        *("/project/my.dat", "/project/private", "/project/secrets"),
        *("/project/src/deep/local.txt", "/project/src/local.txt", "/project/top.txt"),
    )
