"""Ask git for the files whose content a read-only git command would show."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec.structs import replace

from mainspring.env import OutputLimits, ProcessResult
from mainspring.env.protocol import PathNaming
from mainspring.lazy import lazy_re
from mainspring.permissions.git_repository import neutral_environment
from mainspring.permissions.path_patterns import split_path
from mainspring.permissions.programs import find_named_program, search_path_outside
from mainspring.shell_analysis.git_commands import GitCommand, path_in_revision
from mainspring.shell_analysis.syntax import Word

MAX_SECONDS = 3.0
_MAX_OUTPUT = 8 << 20
_MAX_FILES = 50_000
_LIMITS = OutputLimits(head=_MAX_OUTPUT, tail=0, cap=_MAX_OUTPUT)


_WALKS = frozenset(("log", "show"))
_COUNT = lazy_re(r"-\d+|-n\d*|--max-count(?:=\d+)?")
_ADDS_REVISIONS = lazy_re(r"--(?:all|branches|tags|remotes)(?:=.*)?")
_COMPARES = lazy_re(r"--(?:cached|staged|merge-base)|-[R]")
_SPLITS_MERGES = lazy_re(r"-[A-Za-z]*[cm][A-Za-z]*|--first-parent")
_KEEPS_ORDER = lazy_re(
    r"-[pucms]+|-U\d+|--(?:oneline|decorate|no-decorate|pretty|format|date|abbrev|abbrev-commit|no-abbrev-commit|patch|no-patch|stat"
    r"|shortstat|numstat|summary|patch-with-stat|name-only|name-status|colou?r|no-color|color-words|word-diff|unified|full-index|raw"
    r"|no-ext-diff|no-textconv|no-renames|find-renames|function-context|no-prefix|compact-summary|color-moved)(?:=.*)?"
)
"""Options that neither omit commits nor change their order, so that a limit on their number selects the same ones."""

_FAILS_ANYWAY = (
    b"does not have any commits yet",
    b"unknown revision or path", b"bad revision", b"bad object", b"invalid object name", b"No stash entries", b"does not exist in",
    b"exists on disk, but not in",
)  # fmt: skip
_WORD = lazy_re(r"[\w.+@-]+")
_MAGIC = lazy_re(r".*[*?\[\]:\\].*")
_NAMES = ("--name-only", "-z", "--no-renames", "--no-relative", "--no-ext-diff", "--no-textconv")

_TOO_LONG = "the history is too long to check; name the files after --, or fewer commits with -n"
_SLOW = "git commands that take too long"


class UnknownFilesError(Exception):
    """The files that a command would show are unknown; the message contains the reason."""


@runtime_checkable
class Runs(Protocol):
    """An environment that runs programs; see `ExecutionEnv`."""

    scratch: dict[str, Any]

    async def find_program(self, name: str) -> str | None:
        """Return the path of a program, or ``None``."""
        ...

    async def realpath(self, path: str) -> str:
        """Return the absolute path with every link resolved."""
        ...

    async def run(self, command: Sequence[str], **options: Any) -> ProcessResult:
        """Run a program until it exits; see `ExecutionEnv.run`."""
        ...


class GitHistory:
    """Query of git for the files that a command would show.

    Git runs with the neutral environment, and only in a repository that was checked to be harmless.

    Args:
        env: Environment in which the command will run.
        program: The path of git.
        folder: Folder in which the command will run.
        top: The working folder of the repository.
        variables: The variables with which git runs nothing that the project names.
    """

    def __init__(self, env: Runs, program: str, folder: str, top: str, variables: Mapping[str, str]) -> None:
        self._env = env
        self._variables = variables
        self._program = program
        self._folder = folder
        self._top = top

    async def files(self, command: GitCommand) -> list[str]:
        """Return the files whose content a command may show, relative to the top of the repository.

        Raises:
            UnknownFilesError: If the files are unknown.
        """
        top = (await self._run("rev-parse", "--show-toplevel")).decode("utf-8", "surrogateescape").removesuffix("\n")
        if top not in (
            self._top,
            self._env.display_name(self._top) if isinstance(self._env, PathNaming) else self._top,
        ):
            raise UnknownFilesError("git finds another repository here")
        if command.name == "status":
            return await self._names("diff", *_NAMES, "--cached") + await self._names("diff", *_NAMES)
        operands = [word.text for word in command.operands if word.literal]
        types = await self._types(operands)
        if len(operands) < len(
            command.operands
        ):  # wildcards match files, since git does not accept a revision that is also a file
            if command.is_ended or command.name in ("cat-file", "stash show"):
                raise UnknownFilesError("the revisions that its wildcards match are unknown")
            operands = _revisions(operands, types)
        blobs = [o for o, (kind, peeled) in types.items() if "blob" in (kind, peeled)]
        found = [self._path_in(blob) for blob in blobs]
        if command.name == "cat-file":
            return found
        if command.name == "grep":
            is_known = len(operands) == len(command.operands) and all(word.literal for word in command.paths)
            return found + await self._searched(command, types, is_limited=is_known)
        if command.name in _WALKS:
            if command.name == "show" and any(_ADDS_REVISIONS.fullmatch(option) for option, _ in command.options):
                raise UnknownFilesError("it shows the objects that tags refer to")
            if any(option == "--follow" or option.startswith("-L") for option, _ in command.options):
                command = replace(command, paths=())
                operands = operands if command.is_ended else _revisions(operands, types)
            remaining = [o for o in operands if o not in blobs and types[o][0] != "tree"]
            return found if operands and not remaining else found + await self._walked(command, remaining)
        if any("tree" in types[o] for o in operands) or any(":" in o and ".." in o for o in operands):
            raise UnknownFilesError("it compares folders directly")
        return found if blobs else await self._compared(command, operands)

    async def _types(self, operands: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return the type of each operand that is one object, with and without dereferencing its tag.

        Empty for others.
        """
        if not operands:
            return {}
        if any("\n" in operand for operand in operands):
            raise UnknownFilesError("a revision contains a line break")
        lines = "".join(f"{operand}\n{operand}^{{}}\n" for operand in operands)
        output = await self._run(
            "cat-file", "--batch-check=%(objecttype)", stdin=lines.encode("utf-8", "surrogateescape")
        )
        kinds = [
            kind if kind in ("blob", "tree", "commit", "tag") else "" for kind in output.decode("latin-1").split("\n")
        ]
        return {operand: (kinds[2 * i], kinds[2 * i + 1]) for i, operand in enumerate(operands)}

    def _path_in(self, operand: str) -> str:
        path = path_in_revision(operand)
        if not path:
            raise UnknownFilesError(f"it is not known which file {operand[:80]} is")
        return posixpath.relpath(posixpath.join(self._folder if path.startswith(".") else self._top, path), self._top)

    async def _walked(self, command: GitCommand, operands: Sequence[str]) -> list[str]:
        """Return the files that commits change."""
        names = [option for option, _ in command.options]
        if sum(name.startswith("--find-copies") for name in names) > 1:
            raise UnknownFilesError("it compares with files that did not change")
        arguments = [command.name, "--format=", *_NAMES]
        counts: list[str] = []
        for option, value in command.options:
            if _ADDS_REVISIONS.fullmatch(option):
                arguments.append(option)
            elif _COUNT.fullmatch(option):
                counts = [f"--max-count={value or option.lstrip('-n').rpartition('=')[2]}"]
        if all(_COUNT.fullmatch(name) or _KEEPS_ORDER.fullmatch(name) for name in names):
            arguments += counts
        if any(_SPLITS_MERGES.fullmatch(name) for name in names):
            arguments.append("-m")
        return await self._names(*arguments, *operands, *_ended(command.paths))

    async def _compared(self, command: GitCommand, operands: Sequence[str]) -> list[str]:
        """Return the files that differ."""
        options = [option for option, _ in command.options if _COMPARES.fullmatch(option)]
        if command.name == "stash show":
            options = ["--include-untracked"] if any(option == "-u" for option, _ in command.options) else []
            return await self._names("stash", "show", *_NAMES[:4], *options, *operands)
        more = ["-r", "-m", "--root", "--no-commit-id"] if command.name == "diff-tree" else []
        return await self._names(command.name, *_NAMES, *more, *options, *operands, *_ended(command.paths))

    async def _searched(
        self, command: GitCommand, types: Mapping[str, tuple[str, str]], *, is_limited: bool
    ) -> list[str]:
        """Return the files that ``git grep`` searches; with ``is_limited`` only those that it names."""
        revisions = [o for o, (kind, _) in types.items() if kind in ("commit", "tree", "tag")]
        paths = [o for o, (kind, _) in types.items() if not kind] + [word.text for word in command.paths]
        paths = paths if is_limited else []
        if not revisions:
            more = ["--", *paths] if paths else []
            names = await self._names("ls-files", "-z", "--full-name", "--recurse-submodules", *more)
            return names + await self._behind_links(names)
        if any(":" in revision for revision in revisions):
            raise UnknownFilesError("it searches a folder of a revision")
        found: list[str] = []
        for revision in revisions:
            limited = (
                ["--full-tree", revision] if any(map(_MAGIC.fullmatch, paths)) else ["--full-name", revision, *paths]
            )
            found += await self._names("ls-tree", "-r", "-z", "--name-only", *limited)
        return found

    async def _behind_links(self, names: Sequence[str]) -> list[str]:
        """Return the resolved paths of files whose folder is now a link: git considers them deleted, but a search opens them."""
        missing = set(await self._names("diff-files", "-z", "--name-only", "--diff-filter=D"))
        real = [await self._env.realpath(posixpath.join(self._top, name)) for name in names if name in missing]
        return [posixpath.relpath(path, self._top) for path in real]

    async def words_in_settings(self) -> list[str]:
        """Return the words in the values of all settings, which may be names of programs.

        Raises:
            UnknownFilesError: If the settings are unknown.
        """
        settings = (await self._run("config", "--list", "-z")).decode("utf-8", "surrogateescape").split("\0")
        return list(dict.fromkeys(word for each in settings for word in _WORD.findall(each.partition("\n")[2])))

    async def _names(self, *arguments: str) -> list[str]:
        output = (await self._run(*arguments)).decode("utf-8", "surrogateescape")
        names = list(dict.fromkeys(name for part in output.split("\0") if (name := part.strip("\n"))))
        if len(names) > _MAX_FILES:
            raise UnknownFilesError(_TOO_LONG)
        return names

    async def _run(self, *arguments: str, stdin: bytes | None = None) -> bytes:
        slow: set[object] = self._env.scratch.setdefault(_SLOW, set())
        if (self._folder, arguments, stdin) in slow:  # cached, since a call may be decided about several times
            raise UnknownFilesError(_TOO_LONG)
        try:
            result = await self._env.run(
                [self._program, "--no-pager", *arguments],
                cwd=self._folder,
                env=self._variables,
                timeout=MAX_SECONDS,
                stdin=stdin,
                limits=_LIMITS,
            )
        except (OSError, ValueError):
            raise UnknownFilesError("git cannot list the files that it shows") from None
        if result.timed_out or result.overflowed or result.stdout.omitted:
            slow.add((self._folder, arguments, stdin))
            raise UnknownFilesError(_TOO_LONG)
        if result.exit_code and (result.stdout.total or not any(t in result.stderr.data for t in _FAILS_ANYWAY)):
            raise UnknownFilesError("git failed to list the files that it shows")
        return result.stdout.data


async def open_history(env: object, root: tuple[str, ...], folder: str, top: str) -> GitHistory | None:
    """Return the query of git; None if git is not installed.

    Args:
        env: Environment in which the command will run.
        root: Components of the project's folder.
        folder: Folder in which the command will run.
        top: The working folder of the repository.

    Raises:
        UnknownFilesError: If git is a program of the project.
    """
    program = await env.find_program("git") if isinstance(env, Runs) else None
    if program is None or not isinstance(env, Runs):
        return None
    if split_path(posixpath.join(folder, program))[: len(root)] == root:
        raise UnknownFilesError("the project contains its own git program")
    variables = neutral_environment(env) | await search_path_outside(env, root) | {"LC_ALL": "C"}
    return GitHistory(env, program, folder, top, variables)


async def find_program_of_settings(env: object, root: tuple[str, ...], folders: Sequence[str | None]) -> str:
    """Find a program of the project that git may start for a setting of the user, if git gets the whole search path.

    Args:
        env: Environment in which the command will run.
        root: Components of the project's folder.
        folders: The folders in which it may run; ``None`` for an unknown one.

    Returns:
        Why git may start one; empty if it does not.
    """
    try:
        histories = [await open_history(env, root, folder, folder) for folder in folders if folder]
        names = [name for each in histories if each is not None for name in await each.words_in_settings()]
    except UnknownFilesError:
        return "it is not known which programs git starts; run git alone"
    found = await find_named_program(env, root, names, folders)
    return f"git may start {found!r}, which is in the project and on the PATH; run git alone" if found else ""


def _revisions(operands: Sequence[str], types: Mapping[str, tuple[str, str]]) -> list[str]:
    """Return the operands that are revisions and not paths."""
    if any(not types[o][0] and (".." in o or o.startswith("^")) for o in operands):
        raise UnknownFilesError("it is not known which revisions it shows; write -- after them")
    return [o for o in operands if types[o][0]]


def _ended(paths: Sequence[Word]) -> list[str]:
    """Return paths as arguments; no arguments, which means all files, if one of them is unknown."""
    if not paths or not all(word.literal for word in paths):
        return []
    return ["--", *(word.text for word in paths)]
