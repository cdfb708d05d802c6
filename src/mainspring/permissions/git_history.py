"""Lists the files whose content a git command would show, by asking git itself for names only."""

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
from mainspring.shell_analysis.git_commands import GitCommand
from mainspring.shell_analysis.syntax import Word

MAX_SECONDS = 3.0
MAX_OUTPUT = 8 << 20
MAX_FILES = 50_000
_LIMITS = OutputLimits(head=MAX_OUTPUT, tail=0, cap=MAX_OUTPUT)

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
"""Options that neither leave out commits nor change their order, so that a limit on their number counts the same."""

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
    """It cannot be known which files a command would show; the message says why."""


@runtime_checkable
class Runs(Protocol):
    """An environment that runs programs; see `ExecutionEnv`."""

    scratch: dict[str, Any]

    async def find_program(self, name: str) -> str | None:
        """The path of a program, or ``None``."""
        ...

    async def realpath(self, path: str) -> str:
        """The absolute path with every link resolved."""
        ...

    async def run(self, command: Sequence[str], **options: Any) -> ProcessResult:
        """Run a program to its end; see `ExecutionEnv.run`."""
        ...


class GitHistory:
    """Asks git for the files that a command would show.

    Git runs with the neutral environment, and only in a repository that was judged to be harmless.

    Args:
        env: Where the command will run.
        program: The path of git.
        folder: Where the command will run.
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
        """The files whose content a command may show, relative to the top of the repository.

        Raises:
            UnknownFilesError: If they cannot be known.
        """
        top = (await self._run("rev-parse", "--show-toplevel")).decode("utf-8", "surrogateescape").removesuffix("\n")
        if top not in (self._top, self._env.name_of(self._top) if isinstance(self._env, PathNaming) else self._top):
            raise UnknownFilesError("git finds another repository here")
        if command.name == "status":
            return await self._names("diff", *_NAMES, "--cached") + await self._names("diff", *_NAMES)
        operands = [word.text for word in command.operands if word.literal]
        types = await self._types(operands)
        if len(operands) < len(
            command.operands
        ):  # wildcards stand for files, as git takes no revision that is a file, too
            if command.is_ended or command.name in ("cat-file", "stash show"):
                raise UnknownFilesError("it is not known which revisions its wildcards stand for")
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
                raise UnknownFilesError("it shows whatever tags stand for")
            if any(option == "--follow" or option.startswith("-L") for option, _ in command.options):
                command = replace(command, paths=())
                operands = operands if command.is_ended else _revisions(operands, types)
            left = [o for o in operands if o not in blobs and types[o][0] != "tree"]
            return found if operands and not left else found + await self._walked(command, left)
        if any("tree" in types[o] for o in operands) or any(":" in o and ".." in o for o in operands):
            raise UnknownFilesError("it compares folders by themselves")
        return found if blobs else await self._compared(command, operands)

    async def _types(self, operands: Sequence[str]) -> dict[str, tuple[str, str]]:
        """The type of each operand that is one object, as it is and without its tag; empty for others."""
        if not operands:
            return {}
        if any("\n" in operand for operand in operands):
            raise UnknownFilesError("a revision holds a line break")
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
        """The files that commits change."""
        names = [option for option, _ in command.options]
        if sum(name.startswith(("-C", "--find-copies")) for name in names) > 1:
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
        """The files that differ."""
        kept = [option for option, _ in command.options if _COMPARES.fullmatch(option)]
        if command.name == "stash show":
            kept = ["--include-untracked"] if any(option == "-u" for option, _ in command.options) else []
            return await self._names("stash", "show", *_NAMES[:4], *kept, *operands)
        more = ["-r", "-m", "--root", "--no-commit-id"] if command.name == "diff-tree" else []
        return await self._names(command.name, *_NAMES, *more, *kept, *operands, *_ended(command.paths))

    async def _searched(
        self, command: GitCommand, types: Mapping[str, tuple[str, str]], *, is_limited: bool
    ) -> list[str]:
        """The files that ``git grep`` searches; with ``is_limited`` only those that it names."""
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
        """Where files really are whose folder is now a link: git takes them for deleted, but a search opens them."""
        missing = set(await self._names("diff-files", "-z", "--name-only", "--diff-filter=D"))
        real = [await self._env.realpath(posixpath.join(self._top, name)) for name in names if name in missing]
        return [posixpath.relpath(path, self._top) for path in real]

    async def words_in_settings(self) -> list[str]:
        """The words in the values of all settings, which may be names of programs.

        Raises:
            UnknownFilesError: If they cannot be known.
        """
        settings = (await self._run("config", "--list", "-z")).decode("utf-8", "surrogateescape").split("\0")
        return list(dict.fromkeys(word for each in settings for word in _WORD.findall(each.partition("\n")[2])))

    async def _names(self, *arguments: str) -> list[str]:
        output = (await self._run(*arguments)).decode("utf-8", "surrogateescape")
        names = list(dict.fromkeys(name for part in output.split("\0") if (name := part.strip("\n"))))
        if len(names) > MAX_FILES:
            raise UnknownFilesError(_TOO_LONG)
        return names

    async def _run(self, *arguments: str, stdin: bytes | None = None) -> bytes:
        slow: set[object] = self._env.scratch.setdefault(_SLOW, set())
        if (self._folder, arguments, stdin) in slow:  # a decision is made several times
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
            raise UnknownFilesError("git cannot be asked which files it shows") from None
        if result.timed_out or result.overflowed or result.stdout.omitted:
            raise UnknownFilesError(
                "the history is too long to check; name the files behind --, or fewer commits with -n"
            )
        if result.exit_code and (result.stdout.total or not any(t in result.stderr.data for t in _FAILS_ANYWAY)):
            raise UnknownFilesError("git cannot say which files it shows")
        return result.stdout.data


async def history_of(env: object, root: tuple[str, ...], folder: str, top: str) -> GitHistory | None:
    """What asks git; ``None`` if there is no git.

    Args:
        env: Where the command will run.
        root: Components of the project's folder.
        folder: Where the command will run.
        top: The working folder of the repository.

    Raises:
        UnknownFilesError: If git is a program of the project.
    """
    program = await env.find_program("git") if isinstance(env, Runs) else None
    if program is None or not isinstance(env, Runs):
        return None
    if split_path(posixpath.join(folder, program))[: len(root)] == root:
        raise UnknownFilesError("the project has a git of its own")
    variables = neutral_environment(env) | await search_path_outside(env, root) | {"LC_ALL": "C"}
    return GitHistory(env, program, folder, top, variables)


async def find_program_of_settings(env: object, root: tuple[str, ...], folders: Sequence[str | None]) -> str:
    """Find a program of the project that git may start for a setting of the user, if git gets the whole search path.

    Args:
        env: Where the command will run.
        root: Components of the project's folder.
        folders: The folders in which it may run; ``None`` for one that is not known.

    Returns:
        Why git may start one; empty if it does not.
    """
    try:
        histories = [await history_of(env, root, folder, folder) for folder in folders if folder]
        names = [name for each in histories if each is not None for name in await each.words_in_settings()]
    except UnknownFilesError:
        return "it is not known which programs git starts; run git alone"
    found = await find_named_program(env, root, names, folders)
    return f"git may start {found!r}, which lies in the project and on the PATH; run git alone" if found else ""


def path_in_revision(text: str) -> str:
    """The path in ``REVISION:PATH``, or in ``:PATH`` for the index; empty if there is none."""
    if text.startswith(":"):
        stage = text[1:2] in tuple("0123") and text[2:3] == ":"
        return "" if text.startswith(":/") else text[3 if stage else 1 :]
    depth = 0
    for at, character in enumerate(text):
        if character == "{":
            depth += 1
        elif character == "}" and depth:
            depth -= 1
        elif character == ":" and not depth:
            return text[at + 1 :]
    return ""


def _revisions(operands: Sequence[str], types: Mapping[str, tuple[str, str]]) -> list[str]:
    """The operands that are revisions and not paths."""
    if any(not types[o][0] and (".." in o or o.startswith("^")) for o in operands):
        raise UnknownFilesError("it is not known which revisions it shows; write -- after them")
    return [o for o in operands if types[o][0]]


def _ended(paths: Sequence[Word]) -> list[str]:
    """Paths as arguments; none, which are all files, if one of them is not known."""
    if not paths or not all(word.literal for word in paths):
        return []
    return ["--", *(word.text for word in paths)]
