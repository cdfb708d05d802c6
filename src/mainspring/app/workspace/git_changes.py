"""Changes in a git repository: uncommitted ones, those of a branch, and those of a commit.

Git runs without the programs, hooks, and hosts that a repository names.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from mainspring.env import ExecutionEnv, OutputLimits, ProcessResult
from mainspring.errors import ConfigError
from mainspring.events import FileDiff, Hunk
from mainspring.permissions.git_repository import find_git_repository, neutral_environment
from mainspring.permissions.path_patterns import split_path
from mainspring.permissions.programs import search_path_outside
from mainspring.tools.support.editing.diffs import parse_diff

_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_SECONDS = 60.0
_MAX_OUTPUT = 8 << 20
_MAX_NEW_FILE = 256 << 10
"""Bytes above which the content of a new file is not part of the changes."""
_MAX_NEW_FILES = 200
_DIFF = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/")


class GitRef(Struct, frozen=True):
    """A branch or a commit.

    Attributes:
        name: The name that git understands.
        subject: The first line of the commit.
    """

    name: str
    subject: str


class GitChanges:
    """Reads the changes of the repository of an environment's folder.

    Args:
        env: The environment.
        top: The top folder of the repository, with all links resolved.
        variables: Variables of git.

    Attributes:
        top: The top folder of the repository.
    """

    def __init__(self, env: ExecutionEnv, top: str, variables: dict[str, str]) -> None:
        self._env = env
        self.top = top
        self._variables = variables

    @classmethod
    async def open(cls, env: ExecutionEnv) -> GitChanges:
        """Find and check the repository.

        Raises:
            ConfigError: If the folder is not in a repository, or git could run a program that the repository names.
        """
        folder = await env.realpath(env.cwd)
        root = split_path(folder)
        found = await find_git_repository(env, folder, root)
        if found.problem:
            raise ConfigError(f"The changes cannot be read: {found.problem}.")
        if not found.top:
            raise ConfigError(f"{env.cwd} is not in a git repository. Create one with: git init")
        variables = neutral_environment(env) | await search_path_outside(env, root) | {"LC_ALL": "C"}
        return cls(env, found.top, variables)

    async def uncommitted(self) -> tuple[FileDiff, ...]:
        """Return the changes since the last commit, with new files that git does not track."""
        base = "HEAD" if await self._resolve("HEAD") else _EMPTY_TREE
        tracked = parse_git_diff(await self._git("diff", *_DIFF, base, "--"))
        names = (await self._git("ls-files", "--others", "--exclude-standard", "-z")).split("\0")
        untracked = [name for name in names if name]
        new = [await self._new_file(name) for name in untracked[:_MAX_NEW_FILES]]
        new += [FileDiff(path=name, change="create", note="not shown") for name in untracked[_MAX_NEW_FILES:]]
        return (*tracked, *new)

    async def of(self, name: str) -> tuple[str, tuple[FileDiff, ...]]:
        """Return a description and the changes of a branch, a commit, or a range of commits.

        The changes of a branch are those between it and the current commit, since they diverged.

        Raises:
            ConfigError: If git does not know the name.
        """
        if name.startswith("-"):
            raise ConfigError(f"Unknown branch or commit: {name}.")
        if ".." in name:
            return f"the commits {name}", parse_git_diff(await self._git("diff", *_DIFF, name, "--"))
        if not await self._resolve(name):
            raise ConfigError(f"Unknown branch or commit: {name}. Use /review without a name to list them.")
        if await self._resolve(f"refs/heads/{name}") or await self._resolve(f"refs/remotes/{name}"):
            ahead = parse_git_diff(await self._git("diff", *_DIFF, f"{name}...HEAD", "--"))
            if ahead:
                return f"the current branch, compared with {name}", ahead
            return f"the branch {name}", parse_git_diff(await self._git("diff", *_DIFF, f"HEAD...{name}", "--"))
        shown = await self._git("show", "--format=", "--first-parent", "-m", *_DIFF, name, "--")
        return f"the commit {name}", parse_git_diff(shown)

    async def refs(self) -> list[GitRef]:
        """Return the other branches, and the last commits of the current one."""
        branches = await self._git("for-each-ref", "--format=%(HEAD)%(refname:short)%00%(subject)", "refs/heads")
        commits = await self._git("log", "--no-color", "-n", "20", "--format= %h%x00%s") if branches else ""
        lines = [line.partition("\0") for line in f"{branches}\n{commits}".split("\n") if line.strip()]
        return [GitRef(name[1:], subject) for name, _, subject in lines if name.startswith(" ")]

    async def _new_file(self, name: str) -> FileDiff:
        path = f"{self.top}/{name}"
        try:
            if await self._env.realpath(path) != path:
                return FileDiff(path=name, change="create", note="a link")
            data = await self._env.read_bytes(path, limit=_MAX_NEW_FILE + 1)
        except OSError as error:
            return FileDiff(path=name, change="create", note=f"cannot be read: {error.strerror or error}")
        if len(data) > _MAX_NEW_FILE or b"\0" in data:
            return FileDiff(path=name, change="create", note="binary" if b"\0" in data else "too large to show")
        lines = tuple([f"+{line}" for line in data.decode("utf-8", "replace").splitlines()])
        hunks = (Hunk(0, f"@@ -0,0 +1,{len(lines)} @@", lines),) if lines else ()
        return FileDiff(path=name, change="create", added=len(lines), hunks=hunks)

    async def _resolve(self, name: str) -> bool:
        result = await self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return result.exit_code == 0

    async def _git(self, *arguments: str) -> str:
        result = await self._run(*arguments)
        if result.exit_code:
            raise ConfigError(f"git {arguments[0]} failed: {result.stderr.text.strip() or result.exit_code}")
        if result.stdout.omitted:
            raise ConfigError(
                f"The changes are larger than {_MAX_OUTPUT >> 20}MB. Name a commit or a range of commits."
            )
        return result.stdout.text

    async def _run(self, *arguments: str) -> ProcessResult:
        return await self._env.run(
            ("git", "-c", "core.quotePath=false", *arguments),
            cwd=self.top,
            env=self._variables,
            timeout=_SECONDS,
            limits=OutputLimits(head=_MAX_OUTPUT, tail=0),
        )


def parse_git_diff(text: str) -> tuple[FileDiff, ...]:
    """Parse the output of ``git diff``, also of new, deleted, renamed, and binary files."""
    found: list[FileDiff] = []
    for part in f"\n{text}".split("\ndiff --git ")[1:]:
        head, separator, body = part.partition("\n--- ")
        diff = next(iter(parse_diff(f"--- {body}")), None) if separator else None
        found.append(_complete_diff(diff, head.split("\n")))
    return tuple(found)


def _complete_diff(diff: FileDiff | None, head: list[str]) -> FileDiff:
    """Add the facts in the head of a diff: the kind of change, and notes about changes that no line shows."""
    names, *facts = head
    if diff is None:  # without a rename, both names are the same
        diff = FileDiff(path=names[len(names) // 2 + 1 :].removeprefix("b/"))
    diff = replace(diff, path=diff.path.rstrip("\t"))
    for fact in facts:
        if fact.startswith("new file mode"):
            diff = replace(diff, change="create")
        elif fact.startswith("deleted file mode"):
            diff = replace(diff, change="delete")
        elif fact.startswith("rename from "):
            diff = replace(diff, change="rename", note=f"renamed from {fact.removeprefix('rename from ')}")
        elif fact.startswith("rename to "):
            diff = replace(diff, path=fact.removeprefix("rename to "))
        elif fact.startswith("new mode "):
            diff = replace(diff, note=f"mode {fact.removeprefix('new mode ')}")
        elif fact.startswith("Binary files "):
            diff = replace(diff, note="binary")
    return diff
