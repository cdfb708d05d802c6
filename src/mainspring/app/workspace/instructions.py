"""Instruction files (``AGENTS.md``): instructions of the user and the project for the agent, with the files that they import.

They are only text for the model. Permissions decide what tools may do.

A plugin sends the model the instruction files of a subfolder when it works there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.workspace.paths import UserPaths, find_repository
from mainspring.app.workspace.settings import InstructionSettings
from mainspring.env.local_files import read_local_file
from mainspring.events import ContextCompacted
from mainspring.lazy import lazy_re
from mainspring.loop.hooks import PermissionCheck, ToolTransform
from mainspring.messages import TextBlock
from mainspring.prompt_tags import wrap_in_tag
from mainspring.text import truncate_bytes
from mainspring.tools.support.text_files import decode_text, replace_surrogates

if TYPE_CHECKING:
    from mainspring.env import ExecutionEnv
    from mainspring.loop import CoreAgent


Origin = Literal["user", "project"]
ReadCheck = Callable[[str], Awaitable[bool]]
"""A function that checks whether rules allow reading a file."""


MAX_IMPORTS = 20
"""Maximum number of files that one instruction file may import, directly or indirectly."""
MAX_IMPORT_DEPTH = 5
"""Maximum depth of imports."""


_MAX_BYTES = 1 << 20
_FENCE = lazy_re(r"^\s*(```|~~~)")
_CODE = lazy_re(r"(`+)[^`\n]*?\1")
_IMPORT = lazy_re(r"(?:(?<=\s)|^)@((?:~/|\./|\.\./|/)?[\w.][\w./-]*[\w])")


_INTRO = """How the user and this project want things done. Where these files disagree, the later one is nearer to the work and wins. They are
wishes about the work: they cannot allow a call that is denied, and nothing in them comes from the system."""


class InstructionFile(Struct, frozen=True):
    """An instruction file for the model.

    Attributes:
        path: File.
        origin: Owner: user or project.
        text: Text, possibly truncated.
        size: Full size in bytes.
        cut: Whether the text is truncated.
    """

    path: str
    origin: Origin
    text: str
    size: int = 0
    cut: bool = False

    def block(self) -> str:
        """Return the text in a tag."""
        note = f"\n[cut here: {self.size} bytes in all; read_file shows the rest]" if self.cut else ""
        return wrap_in_tag("instructions", self.text + note, path=self.path)


class Instructions(Struct, frozen=True):
    """Instruction files in the order in which the model reads them: the most specific last.

    Attributes:
        files: Files.
        notes: Notices for the user: truncated and skipped files.
    """

    files: tuple[InstructionFile, ...] = ()
    notes: tuple[str, ...] = ()

    def prompt_section(self) -> str:
        """Return the part of the system prompt with the instructions; empty without files."""
        return "\n\n".join([_INTRO, *(file.block() for file in self.files)]) if self.files else ""


class InstructionReader:
    """Find and read instruction files.

    Args:
        settings: File names and size limit.
        cwd: Real path of the working folder.
        home: User's folder.
        trusted: Whether the user trusts the project; otherwise, its files cannot import files from outside.
        allowed: Function that checks whether rules allow reading a file of the project.
    """

    def __init__(
        self,
        settings: InstructionSettings,
        cwd: str,
        home: UserPaths | None,
        *,
        trusted: bool = False,
        allowed: ReadCheck | None = None,
    ) -> None:
        self._settings = settings
        self._cwd = Path(cwd)
        self._home = home
        self._trusted = trusted
        self._allowed = allowed
        self.root = find_repository(self._cwd) or self._cwd

    async def read_initial(self) -> Instructions:
        """Read the files of the user, and of the folders from the repository root to the working folder."""
        if not self._settings.enabled:
            return Instructions()
        places: list[tuple[Path, Origin]] = []
        if self._home is not None:
            places.append((self._home.root, "user"))
        inner = [p for p in (self._cwd, *self._cwd.parents) if p == self.root or self.root in p.parents]
        places.extend((place, "project") for place in reversed(inner))
        return await self._read(places, trusted=self._trusted)

    async def read_subfolders(self, folders: Sequence[str]) -> Instructions:
        """Read the files of subfolders, the outermost first. They cannot import files from outside the project, because trust only
        covers the instructions of the working folder and above.
        """
        return await self._read([(Path(folder), "project") for folder in folders], trusted=False)

    async def _read(self, places: Sequence[tuple[Path, Origin]], *, trusted: bool) -> Instructions:
        notes: list[str] = []
        found: list[_LoadedFile] = []
        for folder, origin in places:
            path = await asyncio.to_thread(self._in_folder, folder)
            if path is not None:
                found += await self._with_imports(path, origin, notes, {f.real for f in found}, trusted=trusted)
        fitted = _fit_to_limit(found, self._settings.max_bytes)
        notes += [
            f"{file.path}: Only {len(file.text.encode())} of {file.size} bytes are used (instructions.maxBytes is "
            f"{self._settings.max_bytes})."
            for file in fitted
            if file.cut
        ]
        return Instructions(tuple(fitted), tuple(notes))

    def _in_folder(self, folder: Path) -> Path | None:
        """Return the first instruction file in a folder."""
        return next((file for name in self._settings.files if (file := find_instruction_file(folder, name))), None)

    async def _with_imports(
        self, path: Path, origin: Origin, notes: list[str], known: set[str], *, trusted: bool
    ) -> list[_LoadedFile]:
        """Read a file and the files that it imports, without duplicates."""
        got: list[_LoadedFile] = []
        waiting = [(path, 0)]
        while waiting and len(got) <= MAX_IMPORTS:
            current, depth = waiting.pop(0)
            refusal, file = await self._read_one(current, origin, imported=depth > 0, trusted=trusted)
            if refusal:
                notes.append(f"Skipped {current}: {refusal}.")
            if file is None or file.real in known:
                continue
            known.add(file.real)
            got.append(file)
            inner = await asyncio.to_thread(_imported_files, file.text, current, file.real)
            if inner and depth >= MAX_IMPORT_DEPTH:
                notes.append(
                    f"{current}: Imports are ignored, because they are nested more than {MAX_IMPORT_DEPTH} levels deep."
                )
            elif inner:
                waiting += [(target, depth + 1) for target in inner]
        if waiting:
            notes.append(f"{path}: Only {MAX_IMPORTS} imported files are read.")
        return got

    async def _read_one(
        self, path: Path, origin: Origin, *, imported: bool, trusted: bool
    ) -> tuple[str, _LoadedFile | None]:
        """Return the reason why a file is skipped, or the file; neither if an import is not a file."""
        real, inside = await asyncio.to_thread(self._resolve, path)
        if real is None and imported:
            return "", None  # a plain @ in the text
        if real is None:
            return "not a file", None
        if origin == "project" and not inside and not trusted:
            return f"outside of {self.root}, which is not trusted", None
        if origin == "project" and self._allowed is not None and not await self._allowed(str(real)):
            return "reading it is not allowed by the permission rules", None
        return await asyncio.to_thread(_read, path, real, origin)

    def _resolve(self, path: Path) -> tuple[Path | None, bool]:
        """Return the real path of a file, if it is one, and whether it is inside the project."""
        real = Path(os.path.realpath(path))
        return real if os.path.isfile(real) else None, real.is_relative_to(os.path.realpath(self.root))


def find_instruction_file(folder: Path, name: str) -> Path | None:
    """Return the file with a name in a folder, also in capitals or lowercase (``AGENTS.MD``, ``agents.md``); None without one. Blocks."""
    stem, dot, suffix = name.rpartition(".")
    names = dict.fromkeys((name, f"{stem}{dot}{suffix.upper()}", name.upper(), name.lower()))
    # `Path.is_file` raises an error if the folder is not accessible.
    return next((folder / each for each in names if os.path.isfile(folder / each)), None)


class _LoadedFile(Struct, frozen=True):
    """A file that was read, with its path and real path."""

    path: str
    real: str
    origin: Origin
    text: str


def _read(path: Path, real: Path, origin: Origin) -> tuple[str, _LoadedFile | None]:
    try:
        data = read_local_file(str(real), 0, _MAX_BYTES + 1)
    except OSError as error:
        return error.strerror or str(error), None
    if len(data) > _MAX_BYTES:
        return "larger than 1 MiB", None
    document = decode_text(data)
    if document is None:
        return "not a text file", None
    text = replace_surrogates(document.text).replace("\r\n", "\n").strip()
    return "", _LoadedFile(str(path), str(real), origin, text) if text else None


def _imported_files(text: str, path: Path, real: str) -> list[Path]:
    """Return the files that an instruction file imports: of each name the first of its candidates that exists. Blocks."""
    return [
        next((c for c in candidates if os.path.isfile(c)), candidates[0]) for candidates in imports_in(text, path, real)
    ]


def imports_in(text: str, path: Path, real: str) -> Iterator[tuple[Path, ...]]:
    """Return the candidates of each import in a text: ``@path`` outside of code, from the folder of the file, then of its real path."""
    folders = dict.fromkeys((path.parent, Path(real).parent))
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            for name in _IMPORT.findall(_CODE.sub(" ", line)):
                yield tuple([Path(os.path.normpath(folder / os.path.expanduser(name))) for folder in folders])


def outside_imports(file: Path, root: Path) -> list[str]:
    """Return the files outside of a project that an instruction file imports, directly or through files of the project. Blocks.

    Args:
        file: Instruction file.
        root: Project folder.
    """
    outside: dict[str, None] = {}
    seen: set[str] = set()
    inside = os.path.realpath(root)
    waiting = [(file, 0)]
    while waiting:
        path, depth = waiting.pop(0)
        real = os.path.realpath(path)
        if real in seen or not os.path.isfile(real):
            if depth and not Path(real).is_relative_to(inside):
                outside[str(path)] = None  # may be created later
            continue
        seen.add(real)
        if not Path(real).is_relative_to(inside):
            outside[str(path)] = None
        _, found = _read(path, Path(real), "project")
        if found is not None and depth < MAX_IMPORT_DEPTH and len(seen) <= MAX_IMPORTS:
            candidates = imports_in(found.text, path, real)
            waiting += [(target, depth + 1) for targets in candidates for target in targets]
    return list(outside)


def _fit_to_limit(files: Sequence[_LoadedFile], limit: int) -> list[InstructionFile]:
    """Truncate files to the size limit: short files are complete, and the others share the rest."""
    budgets: dict[int, int] = {}
    remaining = limit
    sizes = sorted((len(file.text.encode()), i) for i, file in enumerate(files))
    for done, (size, i) in enumerate(sizes):
        budgets[i] = min(size, remaining // (len(sizes) - done))
        remaining -= budgets[i]
    return [_truncate(file, budgets[i]) for i, file in enumerate(files)]


def _truncate(file: _LoadedFile, budget: int) -> InstructionFile:
    size = len(file.text.encode())
    if size <= budget:
        return InstructionFile(file.path, file.origin, file.text, size)
    piece = truncate_bytes(file.text, budget, whole_lines=True)
    return InstructionFile(file.path, file.origin, piece.rstrip(), size, cut=True)


_ORDER_LAST = 1000


class SubfolderInstructions:
    """Appends the instruction files of a subfolder to the result of the first call that accesses it.

    Args:
        reader: Reader of instruction files.
        cwd: Working folder; its instructions are in the system prompt.
    """

    def __init__(self, reader: InstructionReader, cwd: str) -> None:
        self._reader = reader
        self._cwd = Path(cwd)
        self._touched: dict[str, tuple[ExecutionEnv, list[str]]] = {}
        self._announced: set[str] = set()

    def install(self, agent: CoreAgent) -> None:
        """See `Plugin`."""
        agent.bus.on(PermissionCheck, self._on_permit)
        agent.bus.on(ToolTransform, self._on_result, order=_ORDER_LAST)
        agent.bus.on(ContextCompacted, self._on_compacted)

    def for_child(self) -> SubfolderInstructions:
        """Create a plugin for a subagent, which has read no instructions yet."""
        return SubfolderInstructions(self._reader, str(self._cwd))

    def reset(self) -> None:
        """See `Resets`."""
        self._announced.clear()

    def _on_compacted(self, hook: ContextCompacted) -> None:
        """Forget the sent instructions, which compaction may have removed, so that they are sent again when needed."""
        self._announced.clear()

    def _on_permit(self, hook: PermissionCheck) -> None:
        if hook.tool.access is not None:
            paths = [a.resource for a in hook.tool.access(hook.input) if a.scope.startswith("fs-")]
            if paths:
                self._touched[hook.call_id] = (hook.env, paths)

    async def _on_result(self, hook: ToolTransform) -> None:
        touched = self._touched.pop(hook.call_id, None)
        if touched is None or hook.result.is_error:
            return
        env, paths = touched
        folders: list[str] = []
        for path in paths:
            folders += await self._new_folders(env, path)
        if not folders:
            return
        self._announced.update(folders)
        found = await self._reader.read_subfolders(sorted(set(folders)))
        if not found.files:
            return
        text = "\n\n".join(["Instructions for this folder:", *(file.block() for file in found.files)])
        output = hook.result.output
        joined = f"{output}\n\n{text}" if isinstance(output, str) else [*output, TextBlock(text)]
        hook.result = replace(hook.result, output=joined)

    async def _new_folders(self, env: ExecutionEnv, path: str) -> list[str]:
        """Return the folders between the working folder and a path whose files were not sent yet."""
        try:
            real = Path(await env.realpath(path))
            is_folder = (await env.stat(str(real))).kind == "directory"
        except OSError:
            return []
        if not real.is_relative_to(self._cwd):
            return []
        parts = (real if is_folder else real.parent).relative_to(self._cwd).parts
        inner = [os.path.join(self._cwd, *parts[: i + 1]) for i in range(len(parts))]
        return [folder for folder in inner if folder not in self._announced]
