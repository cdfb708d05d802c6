"""Decisions in environments whose files cannot be read, and about more files than can be checked."""

from typing import Any

import pytest

from mainspring.env import DirEntry, WalkResult
from mainspring.env.memory import MemoryEnv
from mainspring.permissions import PermissionDecision, Permissions
from mainspring.permissions.paths import ResolvesPaths
from tests.unit.permissions.harness import TOOLS, make_index, project

REPOSITORY = {".git/HEAD": "ref: refs/heads/main", ".git/config": "", ".git/objects/a": "", ".git/refs/a": ""}


async def decide_line(line: str, env: ResolvesPaths, **options: Any) -> PermissionDecision:
    return await Permissions(**options).decide("shell", {"command": line}, env=env, definition=TOOLS["shell"])


class PathsOnlyEnv:
    """An environment that resolves paths and cannot do anything else."""

    async def realpath(self, path: str) -> str:
        return await project().realpath(path)


class UnreadableEnv(MemoryEnv):
    """An environment with paths that raise `PermissionError`; a path that ends with ``/`` raises only in `walk`."""

    unreadable: frozenset[str] = frozenset()

    def _check(self, path: str) -> None:
        if path in self.unreadable:
            raise PermissionError(13, "Permission denied", path)

    async def realpath(self, path: str) -> str:
        self._check(f"{path}@")
        return await super().realpath(path)

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        self._check(path)
        return await super().read_bytes(path, offset=offset, limit=limit)

    async def list_dir(self, path: str) -> list[DirEntry]:
        self._check(path)
        return await super().list_dir(path)

    async def walk(self, path: str, **options: Any) -> WalkResult:
        self._check(f"{path}/")
        return await super().walk(path, **options)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ls", "it only reads"),
        ("cat README.md", "it only reads"),
        ("cat *.md", "it reads, but the files that its wildcards match are unknown"),
        ("grep -r a .", "it reads, but the content of the folder is unknown"),
        ("git status", "it reads, but the repository's settings cannot be read"),
        ("ls | xargs cat", "it is not known which file that is"),
        ("cd a; cd b; cd c; cd d; git diff", "it reads, but it is not known in which folder it runs"),
    ],
)
async def test_unknown_content_asks(line: str, reason: str) -> None:
    decision = await decide_line(line, PathsOnlyEnv())

    assert decision.outcome == ("allow" if reason == "it only reads" else "ask")
    assert reason in {verdict.reason for verdict in decision.verdicts}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("git diff", "the content of the folder is unknown"),
        ("grep -r a .", "the content of the folder is unknown"),
        ("git ls-files | xargs cat", "it is not known which files git lists"),
        ("cd a; cd b; cd c; cd d; git diff", "it is not known in which folder it runs"),
    ],
)
async def test_allowed_command_with_unknown_files_asks_only_if_a_rule_restricts_reading(line: str, reason: str) -> None:
    free = await decide_line(line, PathsOnlyEnv(), allow=["shell(*)"])
    restricted = await decide_line(line, PathsOnlyEnv(), allow=["shell(*)"], deny=["read_file(private/**)"])

    assert reason not in {verdict.reason for verdict in free.verdicts}
    assert reason in {verdict.reason for verdict in restricted.needs_answer}


@pytest.mark.parametrize(
    ("unreadable", "line", "reason"),
    [
        ("/project/.git", "git status", "/project/.git cannot be read"),
        ("/project/.git/config", "git status", "/project/.git/config cannot be read"),
        ("/project/.git/objects/", "git status", "/project/.git/objects cannot be read"),
        ("/project/.git/hooks", "git status", "it only reads"),  # git cannot run hooks from there, either
        ("/project/sub@", "git status", "it only reads"),  # a submodule whose folder git cannot open, either
        ("/project/.git/index", "git diff", "/project/.git/index cannot be read"),
        ("/", "rg -. KEY", "it only reads"),  # has no .gitignore that a search could read
    ],
)
async def test_unreadable_repository_asks_unless_git_cannot_read_it(unreadable: str, line: str, reason: str) -> None:
    env = UnreadableEnv({**REPOSITORY, ".git/index": make_index("sub", mode=0o160000), "sub/a": ""})
    env.unreadable = frozenset([unreadable])

    decision = await decide_line(line, env)

    assert reason in {verdict.reason.removeprefix("it reads, but ") for verdict in decision.verdicts}
    assert decision.outcome == ("allow" if reason == "it only reads" else "ask")


@pytest.mark.parametrize(
    ("unreadable", "files", "reason"),
    [
        ("/project/", {".git/sharedindex.1": ""}, "/project cannot be searched for submodules"),
        ("/project/x@", {".git": "gitdir: x"}, "a path in /project cannot be resolved"),
        ("", {".git/refs/x/.git/config": ""}, "/project/.git/refs contains files that cannot be checked"),
        ("", {".git/index": "DIRCxxxx"}, "the files of the repository in /project are unknown"),
        ("", {".git/objects/info/alternates": "/project/missing"}, "it only reads"),
    ],
)
async def test_repository_in_an_unknown_state_asks(unreadable: str, files: dict[str, str], reason: str) -> None:
    env = UnreadableEnv(files if ".git" in files else {**REPOSITORY, **files})
    env.unreadable = frozenset([unreadable])

    decision = await decide_line("git diff", env)

    assert reason in {verdict.reason.removeprefix("it reads, but ") for verdict in decision.verdicts}
    assert decision.outcome == ("allow" if reason == "it only reads" else "ask")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("git diff", "the files of the repository in /project are unknown"),
        ("git ls-files | xargs cat", "it is not known which files git lists"),
    ],
)
async def test_allowed_git_command_asks_if_a_rule_restricts_reading_and_the_index_is_unreadable(
    line: str, reason: str
) -> None:
    env = UnreadableEnv(REPOSITORY)
    env.unreadable = frozenset(["/project/.git/index"])

    free = await decide_line(line, env, allow=["shell(*)"])
    decision = await decide_line(line, env, allow=["shell(*)"], deny=["read_file(private/**)"])

    assert reason not in {verdict.reason for verdict in free.verdicts}
    assert reason in {verdict.reason for verdict in decision.needs_answer}


@pytest.mark.covers("SEC-01")
async def test_unreadable_ignore_file_hides_everything_below() -> None:
    env = UnreadableEnv({"src/.agentignore": "x\n", "src/a": "", "b": ""})
    env.unreadable = frozenset(["/project/src/.agentignore"])

    assert (await decide_line("cat b", env)).outcome == "allow"
    assert (await decide_line("cat src/a", env)).outcome == "deny"


# --- too many files -----------------------------------------------------------------------------------------------------

MANY = " ".join(f"a{n}" for n in range(310))


@pytest.mark.covers("SEC-01")
@pytest.mark.parametrize("allow", [[], ["shell(cat *)", "shell(echo *)"]])
@pytest.mark.parametrize("line", [f"cat {MANY}", f"echo ${{x@P}} {MANY}"])
async def test_line_with_too_many_paths_asks(line: str, allow: list[str]) -> None:
    decision = await decide_line(line, project(), allow=allow)

    assert decision.outcome == "ask"
    assert any("it names too many paths" in verdict.reason for verdict in decision.needs_answer)


@pytest.mark.covers("SEC-01")
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("grep -r a .", "/project contains more than 3 names; the tool grep omits files that it may not show"),
        ("git ls-files | xargs cat", "git lists more than 3 files"),
        ("git status", "/project is too large to search for submodules"),
    ],
)
async def test_folder_with_too_many_names_asks(line: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.permissions.recursive_reads._MAX_WALKED", 3)
    monkeypatch.setattr("mainspring.permissions.git_repository._MAX_WALKED", 3)
    env = MemoryEnv({**REPOSITORY, **dict.fromkeys("abcd", "")})
    if "status" in line:
        await env.write_bytes(".git/sharedindex.1", b"")
    elif "git" in line:
        await env.write_bytes(".git/index", make_index(*"abcd"))

    decision = await decide_line(line, env)

    assert reason in {verdict.reason.removeprefix("it reads, but ") for verdict in decision.needs_answer}


async def test_folder_is_walked_once_for_a_line() -> None:
    walked: list[str] = []

    class RecordingEnv(MemoryEnv):
        async def walk(self, path: str, **options: Any) -> WalkResult:
            walked.append(path)
            return await super().walk(path, **options)

    decision = await decide_line("grep -r a .; grep -r b /project", RecordingEnv({"a": ""}))

    assert decision.outcome == "allow"
    assert walked == ["/project"]


@pytest.mark.covers("SEC-01")
async def test_file_that_is_named_like_an_option_asks() -> None:
    assert (await decide_line("cat *", MemoryEnv({"a": "", "b": ""}))).outcome == "allow"

    decision = await decide_line("cat *", MemoryEnv({"a": "", "-n": ""}))

    assert decision.reason == "it reads, but a file is named like an option"


@pytest.mark.covers("SEC-01")
@pytest.mark.parametrize("options", [{}, {"allow": ["shell(cat *)"]}, {"mode": "allow"}])
@pytest.mark.parametrize("planted", [{"d/id_rsa": ""}, {"d/a": "", "d/.agentignore": "a\n"}])
async def test_wildcard_that_matches_too_many_files_asks(options: dict[str, Any], planted: dict[str, str]) -> None:
    env = MemoryEnv({**{f"d/f{n}": "" for n in range(510)}, **planted})

    decision = await decide_line("cat d/*", env, **options)

    assert decision.outcome == "ask"
    assert "the files that its wildcards match are unknown" in decision.reason


@pytest.mark.covers("SEC-01")
async def test_allowed_commands_with_too_many_matches_of_wildcards_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.permissions.line_files.MAX_EXPANDED_PATHS", 2)
    env = MemoryEnv({"a1": "", "a2": "", "b": "", ".agentignore": "b\n"})

    for line in ("ls a*; echo b*", "ls a*; tar cf x.tar b*", "ls a*; cat b*"):
        decision = await decide_line(line, env, allow=["shell", "write_file(**)"])
        assert "the files that its wildcards match are unknown" in decision.reason
        assert (await decide_line("ls a*", env, allow=["shell"])).outcome == "allow"


@pytest.mark.covers("SEC-01")
async def test_file_is_unknown_after_too_many_folder_changes() -> None:
    decision = await decide_line("cd a; cd b; cd c; cd d; cat x", project(), allow=["shell(cd *)"])

    assert decision.outcome == "ask"
    assert decision.needs_answer[-1].reason == "it is not known which file that is"


async def test_rule_with_a_path_does_not_cover_too_many_words() -> None:
    few, many = (" ".join(f"src/f{n}" for n in range(count)) for count in (20, 205))

    assert (await decide_line(f"frob {few}", project(), allow=["shell(frob src/* **)"])).outcome == "allow"
    assert (await decide_line(f"frob {many}", project(), allow=["shell(frob src/* **)"])).outcome == "ask"
