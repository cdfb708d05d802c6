"""Paths on a real disk: links, parents, spellings."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring import Agent
from mainspring.env import LocalEnv
from mainspring.env.memory import MemoryEnv
from mainspring.permissions import PermissionDecision, Permissions
from mainspring.permissions.path_patterns import split_path
from mainspring.permissions.paths import IgnoreFiles
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools.builtin import builtin_tools
from tests.unit.permissions.harness import TOOLS as HARNESS_TOOLS
from tests.unit.policies.harness import texts


@pytest.fixture
def project(tmp_path: Path) -> Path:
    tmp_path = tmp_path.resolve()
    root = tmp_path / "proj"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "notes.txt").write_text("notes")
    (root / "src" / "app.py").write_text("print()")
    (root / ".env").write_text("KEY=1")
    (root / "private").mkdir()
    (root / "private" / "key").write_text("k")
    outside = tmp_path / "proj-secrets"
    outside.mkdir()
    (outside / "file").write_text("s")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").write_text("x")
    (root / "out").symlink_to(tmp_path / "elsewhere")
    (root / "file-out").symlink_to(tmp_path / "elsewhere" / "x")
    (root / "dangling").symlink_to(tmp_path / "elsewhere" / "new")
    (root / "inner").symlink_to("src")
    (root / "innocent").symlink_to(".env")
    (root / "door").symlink_to("private")
    (root / "loop").symlink_to("loop")
    (tmp_path / "proj-link").symlink_to(root)
    return root


async def decide_path(where: Path | str, tool: str, path: str, **options: Any) -> PermissionDecision:
    arguments = {"path": path, "content": ""} if tool == "write_file" else {"path": path}
    permissions = Permissions(**options)
    return await permissions.decide(tool, arguments, env=LocalEnv(where), definition=HARNESS_TOOLS[tool])


@pytest.mark.covers("SEC-01")
@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("notes.txt", "allow"),
        ("./src/../notes.txt", "allow"),
        ("inner/app.py", "allow"),
        ("src/new/file.txt", "allow"),
        ("../proj/notes.txt", "allow"),
        ("../proj-link/notes.txt", "allow"),
        ("../proj-secrets/file", "ask"),
        ("../elsewhere/x", "ask"),
        ("src/../../elsewhere/x", "ask"),
        ("src/deep/../../../elsewhere/x", "ask"),
        ("out/x", "ask"),
        ("out/../elsewhere/x", "ask"),
        ("out", "ask"),
        ("file-out", "ask"),
        ("dangling", "ask"),
        ("dangling/new", "ask"),
        ("inner/../../elsewhere/x", "ask"),
        ("/etc/passwd", "ask"),
        ("~/x", "ask"),
        (".env", "ask"),
        ("innocent", "ask"),
        ("loop", "deny"),
        ("loop/x", "deny"),
        ("", "deny"),
        ("a\0b", "deny"),
    ],
)
async def test_reading_is_allowed_only_inside_the_project(project: Path, path: str, outcome: str) -> None:
    decision = await decide_path(project, "read_file", path)

    assert decision.outcome == outcome, decision.reason


@pytest.mark.covers("SEC-01")
@pytest.mark.parametrize(
    "path", ["out/x", "file-out", "dangling", "../proj-secrets/x", "../x", "inner/../../x", "src/../out/new/x", "~/x"]
)
async def test_broad_allow_rule_covers_only_the_project(project: Path, path: str) -> None:
    for rule in ("write_file", "write_file(**)", "scope:fs-write", "scope:fs-write(**)"):
        decision = await decide_path(project, "write_file", path, allow=[rule])
        assert decision.outcome == "ask", rule
    assert (await decide_path(project, "write_file", "src/new.py", allow=["write_file"])).outcome == "allow"


async def test_allow_rule_matches_the_target_of_a_link(project: Path) -> None:
    real = project.parent / "elsewhere"

    assert (await decide_path(project, "write_file", "out/x", allow=["write_file(out/**)"])).outcome == "ask"
    assert (await decide_path(project, "write_file", "out/x", allow=[f"write_file({real}/**)"])).outcome == "allow"


@pytest.mark.parametrize(
    "path", ["private/key", "./private//key", "src/../private/key", "door/key", "inner/../private/key", "PRIVATE/KEY"]
)
async def test_denied_path_is_denied_in_every_spelling(project: Path, path: str) -> None:
    decision = await decide_path(project, "read_file", path, deny=["read_file(private/**)"])

    assert decision.outcome == "deny"


async def test_denied_link_is_denied_by_its_own_name(project: Path) -> None:
    decision = await decide_path(project, "read_file", "inner/app.py", deny=["read_file(inner/**)"])

    assert decision.outcome == "deny"


@pytest.mark.parametrize("tool", ["read_file", "edit", "grep", "glob", "list_files"])
async def test_read_deny_rule_applies_to_other_tools(project: Path, tool: str) -> None:
    arguments = {"path": "private/key", "pattern": "x", "old": "a", "new": "b", "old_string": "a", "new_string": "b"}
    permissions = Permissions(allow=["edit"], deny=["read_file(private/**)"])

    decision = await permissions.decide(tool, arguments, env=LocalEnv(project), definition=HARNESS_TOOLS[tool])

    assert decision.outcome == "deny"


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("wc private", "deny"),
        ("wc src/app.py", "allow"),
        # commands that show or copy everything in a folder
        ("grep -r k .", "ask"),
        ("rg k", "ask"),
        ("rg k src", "allow"),
        ("tar cf all.tar .", "ask"),
        ("tar -czf all.tgz src", "allow"),
        ("zip -r all.zip .", "ask"),
        ("cp -r . /nowhere", "ask"),
        ("cp -r src src2", "allow"),
        ("cp notes.txt .", "allow"),
        ("rsync -a . host:all", "ask"),
        ("env time rg k", "ask"),
        # words that may be the name of the folder
        ("tar cf all.tar private", "deny"),
        ("npm run private", "ask"),
        ("python3 tool.py --dir=private", "ask"),
        ("npm run build", "allow"),
        # links with a different target for each program
        ("cat /proc/self/cwd/private/key", "ask"),
        ("cat /proc/1/task/1/cwd/private/key", "ask"),
        ("cat /proc/self/root/etc/hosts", "allow"),
        ("cat /proc/cpuinfo", "allow"),
    ],
)
async def test_read_deny_rule_applies_to_allowed_commands(project: Path, line: str, outcome: str) -> None:
    permissions = Permissions(allow=["shell", "scope:fs-write(/nowhere)"], deny=["read_file(private/**)"])

    decision = await permissions.decide(
        "shell", {"command": line}, env=LocalEnv(project), definition=HARNESS_TOOLS["shell"]
    )

    assert decision.outcome == outcome, decision.verdicts


@pytest.mark.parametrize("line", ["grep -r k .", "tar cf all.tar private", "npm run private", "rg k"])
async def test_allowed_command_does_not_ask_without_a_read_deny_rule(project: Path, line: str) -> None:
    """The rule also covers folders with files that would ask otherwise: its author allowed the command."""
    permissions = Permissions(allow=["shell"], deny=["write_file(private/**)"])

    decision = await permissions.decide(
        "shell", {"command": line}, env=LocalEnv(project), definition=HARNESS_TOOLS["shell"]
    )

    assert decision.outcome == "allow", decision.verdicts


async def test_wildcard_only_deny_rule_ignores_plain_words(project: Path) -> None:
    permissions = Permissions(allow=["shell"], deny=["read_file(**/*)"])

    for line, outcome in (("npm run private", "allow"), ("wc private", "deny")):
        decision = await permissions.decide(
            "shell", {"command": line}, env=LocalEnv(project), definition=HARNESS_TOOLS["shell"]
        )
        assert decision.outcome == outcome, decision.verdicts


async def test_decision_returns_the_resolved_path(project: Path) -> None:
    decision = await decide_path(project, "read_file", "inner/app.py")

    assert decision.paths == {"inner/app.py": str(project / "src" / "app.py")}


async def test_project_reached_through_a_link_is_the_project(project: Path) -> None:
    linked = project.parent / "proj-link"

    assert (await decide_path(linked, "read_file", "notes.txt")).outcome == "allow"
    assert (await decide_path(linked, "read_file", str(linked / "notes.txt"))).outcome == "allow"
    assert (
        await decide_path(linked, "read_file", str(linked / "private/key"), deny=["read_file(private/**)"])
    ).outcome == "deny"
    assert (await decide_path(project, "read_file", "notes.txt", root=str(linked))).outcome == "allow"


@pytest.mark.parametrize(
    "line",
    [
        "cat out/x > out/y", "rm out/x", "rm file-out", "touch dangling", "cp notes.txt out/", "cd out && rm x", "mv notes.txt out/x",
        "tee file-out", "sed -i s/a/b/ file-out",
    ],
)  # fmt: skip
async def test_commands_do_not_leave_the_project_through_links(project: Path, line: str) -> None:
    allow = [f"shell({name} *)" for name in ("cat", "rm", "touch", "cp", "mv", "tee", "sed", "cd")] + ["scope:fs-write"]
    permissions = Permissions(allow=allow)

    decision = await permissions.decide(
        "shell", {"command": line}, env=LocalEnv(project), definition=HARNESS_TOOLS["shell"]
    )

    assert decision.outcome == "ask"


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
TOOLS = {t.name: t for t in builtin_tools(include_optional=True)}


async def decide_ignored(tool: str, arguments: dict[str, Any], **rules: Any) -> str:
    env = MemoryEnv(FILES, links={"link.txt": "secrets/a.txt", "folder": "secrets"})
    return (await Permissions(**rules).decide(tool, arguments, env=env, definition=TOOLS.get(tool))).outcome


@pytest.mark.parametrize(
    "path", ["secrets/a.txt", "top.txt", "my.dat", "src/local.txt", "src/deep/local.txt", "link.txt"]
)
@pytest.mark.parametrize("spelled", ["{}", "./{}", "/project/{}", "src/../{}"])
@pytest.mark.covers("BYD-19")
async def test_ignored_file_is_denied_to_every_tool(path: str, spelled: str) -> None:
    named = spelled.format(path)
    for tool, more in (
        ("read_file", {}),
        ("write_file", {"content": ""}),
        ("edit", {"old_string": "a", "new_string": "b"}),
    ):
        assert (
            await decide_ignored(tool, {"path": named, **more}, allow=[tool, f"{tool}({path})"], mode="allow") == "deny"
        )
    for line in (
        f"cat {named}",
        f"echo a > {named}",
        f"rm {named}",
        f"python tool.py --file={named}",
        f"bash -c 'cat {named}'",
    ):
        assert await decide_ignored("shell", {"command": line}, allow=["shell"], mode="allow") == "deny", line
    assert await decide_ignored("github__push", {"file": named}, allow=["github__push"]) == "deny"


@pytest.mark.parametrize("path", ["src/app.py", "public.dat", "src/deep/top.txt", "other/local.txt"])
async def test_files_that_are_not_ignored_are_allowed(path: str) -> None:
    assert await decide_ignored("read_file", {"path": path}) == "allow"
    assert await decide_ignored("shell", {"command": f"cat {path}"}) == "allow"


@pytest.mark.parametrize(
    "line", ["cat sec*/a.txt", "cat folder/a.txt", "cd secrets && cat a.txt", "cat *.dat", "cat SECRETS/A.TXT"]
)
async def test_other_spellings_of_ignored_files_are_denied(line: str) -> None:
    assert await decide_ignored("shell", {"command": line}, allow=["shell(cat *)"]) == "deny"


@pytest.mark.parametrize("line", ["grep -r needle .", "rg needle", "rg needle src", "diff -r src other"])
async def test_recursive_command_over_ignored_files_asks(line: str) -> None:
    assert await decide_ignored("shell", {"command": line}) == "ask"
    assert await decide_ignored("shell", {"command": line}, allow=["shell"]) == "ask"


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("tar cf all.tar secrets", "deny"),
        ("cp -r . /elsewhere", "ask"),
        ("zip -r all.zip src", "ask"),
        ("npm run secrets", "ask"),
    ],
)
async def test_command_that_copies_ignored_files_is_not_allowed(line: str, outcome: str) -> None:
    assert await decide_ignored("shell", {"command": line}, allow=["shell", "scope:fs-write(/elsewhere)"]) == outcome


async def test_ignore_file_itself_is_guarded() -> None:
    assert await decide_ignored("write_file", {"path": ".agentignore", "content": ""}, allow=["write_file"]) == "ask"
    assert await decide_ignored("shell", {"command": "rm src/.agentignore"}, allow=["shell(rm *)"]) == "ask"


@pytest.mark.covers("BYD-19")
async def test_searches_skip_ignored_files() -> None:
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


async def test_unreadable_ignore_file_hides_its_folder() -> None:
    files = IgnoreFiles(MemoryEnv({"src/.agentignore": b"#" * (1 << 21), "src/a": ""}))

    assert await files.ignored_by(split_path("/project/src/a")) == "/project/src/.agentignore"
    assert await files.ignored_by(split_path("/project/b")) == ""


async def test_cache_of_ignore_files_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.permissions.paths._MAX_CACHED", 3)
    files = IgnoreFiles(MemoryEnv({f"{name}/.agentignore": "x\n" for name in "abcd"}))

    for name in "abcdabcd":
        assert await files.ignored_by(split_path(f"/project/{name}/x")) == f"/project/{name}/.agentignore"
        assert len(files._cached_rules) <= 3


async def test_changed_ignore_file_is_reloaded() -> None:
    now = 0.0
    env = MemoryEnv({"a": ""})
    files = IgnoreFiles(env, clock=lambda: now)
    assert await files.ignored_by(split_path("/project/a")) == ""

    await env.write_bytes(".agentignore", b"a\n")
    now = 2.0

    assert await files.ignored_by(split_path("/project/a")) == "/project/.agentignore"


@given(
    st.lists(
        st.sampled_from(["a", "b", "*.txt", "!a", "/a", "b/", "a/b", "**/b", "#x", "", "[ab]", "\\!a"]), max_size=5
    )
)
async def test_everything_in_an_ignored_folder_is_ignored(lines: list[str]) -> None:
    files = IgnoreFiles(MemoryEnv({".agentignore": "\n".join(lines)}))

    if await files.ignored_by(split_path("/project/a/b")) and await files.ignored_by(split_path("/project/a")):
        assert await files.ignored_by(split_path("/project/a/c/d"))


@pytest.mark.covers("BYD-19")
async def test_unreadable_paths_are_listed_for_a_sandbox() -> None:
    env = MemoryEnv({**FILES, "private/a": "", "private/b": ""})

    found = await Permissions(deny=["read_file(private/**)"], ask=["read_file(other/**)"]).unreadable_paths(env)

    assert found == (
        *("/project/my.dat", "/project/private", "/project/secrets"),
        *("/project/src/deep/local.txt", "/project/src/local.txt", "/project/top.txt"),
    )
