"""Installs skills from a folder or repository: listed, checked, previewed, and then moved into place, all or nothing."""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from mainspring.skills.content import (
    MAX_SKILL_FILE_BYTES,
    decode_skill_file,
    find_shell_commands,
    read_body,
    strip_invisible,
)
from mainspring.skills.discovery import SUFFIX, SkillFile, load_skill
from mainspring.skills.fetch import (
    MAX_FETCHED_BYTES,
    MAX_FILES,
    FileTree,
    FolderTree,
    GitTree,
    InstallSpec,
    SourceFile,
    fetch_commit,
)
from mainspring.skills.manifest import parse_skill
from mainspring.skills.skill import Script, Skill, SkillError
from mainspring.skills.state import InstallOrigin, SkillStateFile
from mainspring.skills.validation import MissingRequirement, find_missing
from mainspring.text import pluralize

_DIFF_LINES = 200


class InstallPreview(Struct, frozen=True, kw_only=True):
    """The content of an installation.

    Attributes:
        name: The skill's name.
        description: Its description.
        files: Its files.
        size: Their bytes.
        scripts: Its programs.
        toolsets: Classes that would run inside Mainspring.
        allowed_tools: The tools to which it restricts a conversation. ``None`` for no restriction.
        shell_lines: Commands in its text that run when it is used.
        lacking: Requirements that are missing here.
        warnings: Warnings.
        replaces: Whether a skill with this name exists.
    """

    name: str
    description: str
    files: tuple[str, ...]
    size: int
    scripts: tuple[Script, ...] = ()
    toolsets: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    shell_lines: tuple[str, ...] = ()
    lacking: tuple[MissingRequirement, ...] = ()
    warnings: tuple[str, ...] = ()
    replaces: bool = False


class SkillChanges(Struct, frozen=True, kw_only=True):
    """Differences between the new and the installed skill.

    Attributes:
        added: New files.
        removed: Removed files.
        changed: Files with other content.
        instructions: The diff of its ``SKILL.md``.
        by_hand: Whether the installed files were modified after the installation.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    instructions: str = ""
    by_hand: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def build_preview(skill: Skill, folder: Path, *, replaces: bool) -> InstallPreview:
    """Preview a skill in a staging folder. Blocks.

    Raises:
        SkillError: If its text cannot be read.
    """
    contents = _contents(folder)
    text = _readable(contents.get(Path(skill.path or "").name, b""), keep=True)
    hidden = len(text) - len(strip_invisible(text))
    odd = (f"{hidden} hidden characters in its text are removed when it is used",) if hidden > 0 else ()
    return InstallPreview(
        name=skill.name,
        description=skill.description,
        files=tuple(sorted(contents)),
        size=sum(len(data) for data in contents.values()),
        scripts=skill.scripts,
        toolsets=skill.toolsets,
        allowed_tools=skill.allowed_tools,
        shell_lines=find_shell_commands(read_body(skill)),
        lacking=find_missing(skill),
        warnings=(*skill.warnings, *odd),
        replaces=replaces,
    )


def diff_folders(installed: Path, staged: Path) -> SkillChanges:
    """Compare the new with the installed skill. Blocks."""
    old, new = _contents(installed), _contents(staged)
    before, after = [_readable(side.get("SKILL.md") or side.get("skill.md") or b"").splitlines() for side in (old, new)]
    lines = list(difflib.unified_diff(before, after, "installed", "new", lineterm="", n=2))
    more = [f"... {pluralize(len(lines) - _DIFF_LINES, 'more line')}"] if len(lines) > _DIFF_LINES else []
    return SkillChanges(
        added=tuple(sorted(set(new) - set(old))),
        removed=tuple(sorted(set(old) - set(new))),
        changed=tuple(sorted(name for name in set(new) & set(old) if new[name] != old[name])),
        instructions="\n".join([*lines[:_DIFF_LINES], *more]),
    )


def hash_folder(folder: Path) -> str:
    """Hash all files of a skill: names, content, and executable bits. Blocks."""
    total = hashlib.sha256()
    for name, data in sorted(_contents(folder).items()):
        path = folder / name
        runs = not path.is_symlink() and os.access(path, os.X_OK)
        total.update(f"{len(name.encode())}:{name}:{int(runs)}:{len(data)}:".encode())
        total.update(data)
    return total.hexdigest()


def _contents(folder: Path) -> dict[str, bytes]:
    """Return the content of each file by path, without caches of programs."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if "__pycache__" in path.parts or path.name == ".DS_Store":
            continue
        if path.is_symlink():
            found[name] = b"link " + os.fsencode(os.readlink(path))
        elif path.is_file():
            with suppress(OSError):
                found[name] = path.read_bytes()
    return found


def _readable(data: bytes, *, keep: bool = False) -> str:
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return text if keep else strip_invisible(text)


_STAGING, _ASIDE = ".staging-", ".replaced-"
_DEPENDENCY_FOLDERS = frozenset({"node_modules", "bower_components", "vendor", "site-packages", "venv", ".venv"})
_MAX_DEPTH = 16
_STALE = 86_400.0  # seconds; younger folders may be in use


class Candidate(Struct, frozen=True, kw_only=True):
    """A fetched and checked skill that is not installed yet."""

    skill: Skill
    staged: Path
    origin: InstallOrigin
    preview: InstallPreview


class AvailableSkills(Struct, frozen=True):
    """The skills in a folder or repository.

    Attributes:
        names: Installable skills by name, with their folders.
        problems: The folders of others, and the reasons.
    """

    names: dict[str, str]
    problems: dict[str, str]


class InstallSource:
    """A folder or commit from which skills can be installed.

    Args:
        spec: Its location.
        tree: Its files.
    """

    def __init__(self, spec: InstallSpec, tree: FileTree) -> None:
        self.spec = spec
        self._tree = tree
        self._items: Sequence[SourceFile] | None = None

    async def list_skills(self) -> AvailableSkills:
        """List the skills.

        Raises:
            SkillError: If the files cannot be listed.
        """
        items = await self._list()
        files = _skill_files(items)
        texts = await self._tree.read([i for i in files.values() if not i.link and i.size <= MAX_SKILL_FILE_BYTES])
        names: dict[str, str] = {}
        problems: dict[str, str] = {}
        for folder, item in files.items():
            if item.path not in texts:
                problems[folder] = "its SKILL.md is a link, or too large"
                continue
            try:
                name = parse_skill(decode_skill_file(texts[item.path]), default_name=self._fallback(folder)).name
            except SkillError as error:
                problems[folder] = str(error)
                continue
            if name in names:
                problems[folder] = f"{names[name] or 'the root'} already has the name {name!r}"
            else:
                names[name] = folder
        return AvailableSkills(names, problems)

    async def stage(self, folder: str, home: Path) -> Candidate:
        """Copy a skill's files into a staging folder next to their destination, and check them. None is run.

        Args:
            folder: Its folder in the source.
            home: The user's folder for skills.

        Raises:
            SkillError: If it is too large, contains a link to the outside, or is not a skill.
        """
        items = [i for i in await self._list() if _inside(i.path, folder)]
        _check(items, folder)
        contents = await self._tree.read(items)
        return await asyncio.to_thread(self._stage, items, contents, folder, home)

    def _fallback(self, folder: str) -> str:
        """Return the name of a skill without a name in its front matter."""
        name = PurePosixPath(folder or self.spec.url.rstrip("/").removesuffix(".git")).name
        return name[: -len(SUFFIX)] if name.lower().endswith(SUFFIX) else name

    async def _list(self) -> Sequence[SourceFile]:
        if self._items is None:
            items = await self._tree.items()
            prefix = self.spec.path
            self._items = [i for i in items if _inside(i.path, prefix)]
            if prefix and not self._items:
                raise SkillError(f"Folder not found in {self.spec.url}: {prefix}")
        return self._items

    def _stage(self, items: Sequence[SourceFile], contents: Mapping[str, bytes], folder: str, home: Path) -> Candidate:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        outer = Path(tempfile.mkdtemp(prefix=_STAGING, dir=home))
        staged = outer / (self._fallback(folder) or "skill")
        try:
            _write(staged, items, contents, folder)
            file = next(p for n in ("SKILL.md", "skill.md") if (p := staged / n).is_file())
            skill = load_skill(SkillFile(file, staged, str(staged)), "user", trusted=True)
            digest = hash_folder(staged)
            preview = build_preview(skill, staged, replaces=os.path.lexists(home / skill.name))
        except BaseException:
            shutil.rmtree(outer, ignore_errors=True)
            raise
        now = datetime.now(UTC).replace(microsecond=0)
        origin = InstallOrigin(
            url=self.spec.url,
            ref=self.spec.ref,
            path=folder,
            commit=self._tree.commit,
            digest=digest,
            installed=now,
            updated=now,
        )
        return Candidate(skill=skill, staged=staged, origin=origin, preview=preview)


@asynccontextmanager
async def open_source(spec: InstallSpec) -> AsyncGenerator[InstallSource]:
    """Fetch a source for the duration of the block.

    Raises:
        SkillError: If it cannot be fetched.
    """
    if not spec.git:
        yield InstallSource(spec, FolderTree(Path(spec.url)))
        return
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="mainspring-fetch-"))
    try:
        git, commit = await fetch_commit(spec, folder)
        yield InstallSource(spec, GitTree(git, commit))
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def install_skill(candidate: Candidate, home: Path, registry: SkillStateFile) -> Path:
    """Move a skill into place, replacing an older one. Blocks.

    Returns:
        Its folder.

    Raises:
        SkillError: If it cannot be installed. The older one is unchanged then.
        ConfigError: If the registry cannot be written.
    """
    target = home / candidate.skill.name
    old = registry.entries().get(candidate.skill.name)
    aside: Path | None = None
    try:
        if os.path.lexists(target):
            aside = Path(tempfile.mkdtemp(prefix=f"{_ASIDE}{candidate.skill.name}-", dir=home)) / candidate.skill.name
            target.rename(aside)
        candidate.staged.rename(target)
        origin = candidate.origin
        if old is not None and old.origin is not None:
            origin = replace(origin, installed=old.origin.installed)
        registry.record(candidate.skill.name, origin)
    except BaseException as error:
        if aside is not None and os.path.lexists(aside):
            shutil.rmtree(target, ignore_errors=True)
            aside.rename(target)
            shutil.rmtree(aside.parent, ignore_errors=True)
        elif target.is_dir() and not candidate.staged.exists():
            shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError):
            raise SkillError(f"Cannot install to {target}: {error.strerror or error}") from error
        raise
    if aside is not None:
        shutil.rmtree(aside.parent, ignore_errors=True)
    shutil.rmtree(candidate.staged.parent, ignore_errors=True)
    return target


def discard_staged(candidates: Iterable[Candidate]) -> None:
    """Delete the staging folder. Blocks."""
    for each in candidates:
        shutil.rmtree(each.staged.parent, ignore_errors=True)


def recover_interrupted(home: Path) -> None:
    """Restore what an interrupted installation had moved, and delete its leftovers. Blocks."""
    with suppress(OSError):
        for path in sorted(home.iterdir()):
            if path.name.startswith(_ASIDE) and path.is_dir():
                _restore_in_place(path, home)
            elif path.name.startswith(_STAGING) and time.time() - path.stat().st_mtime > _STALE:
                shutil.rmtree(path, ignore_errors=True)


def _restore_in_place(backup: Path, home: Path) -> None:
    for skill in backup.iterdir():
        if not os.path.lexists(home / skill.name):
            skill.rename(home / skill.name)
    shutil.rmtree(backup, ignore_errors=True)


def _skill_files(items: Sequence[SourceFile]) -> dict[str, SourceFile]:
    """Map each skill's folder (or its single file) to its main file. Subfolders of a skill belong to it."""
    files: dict[str, SourceFile] = {}
    for item in sorted(items, key=lambda i: (i.path.count("/"), i.path)):
        path = PurePosixPath(item.path)
        folder = "" if str(path.parent) == "." else str(path.parent)
        single = path.name.lower().endswith(SUFFIX)
        if path.name not in ("SKILL.md", "skill.md") and not single:
            continue
        if _DEPENDENCY_FOLDERS & set(path.parts[:-1]) or any(_inside(folder, skill_folder) for skill_folder in files):
            continue
        files[item.path if single else folder] = item
    return files


def _inside(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _check(items: Sequence[SourceFile], folder: str) -> None:
    """Check a list of files before any is read.

    Raises:
        SkillError: If there are too many, they are too large, or one has an invalid name.
    """
    size = sum(item.size for item in items)
    if len(items) > MAX_FILES:
        raise SkillError(f"it contains {len(items)} files; the maximum is {MAX_FILES}")
    if size > MAX_FETCHED_BYTES:
        raise SkillError(f"it contains {size >> 20} MiB; the maximum is {MAX_FETCHED_BYTES >> 20}")
    seen: dict[str, str] = {}
    for item in items:
        parts = item.path.split("/")
        if (
            any(p in ("", ".", "..", ".git") for p in parts)
            or "\\" in item.path
            or strip_invisible(item.path) != item.path
        ):
            raise SkillError(f"it contains a file with an invalid name: {item.path!r}")
        if len(parts) > _MAX_DEPTH + folder.count("/"):
            raise SkillError(f"its folders are nested more than {_MAX_DEPTH} deep: {item.path}")
        other = seen.setdefault(item.path.casefold(), item.path)
        if other != item.path:
            raise SkillError(f"{other} and {item.path} are the same file on a file system that ignores case")


def _write(staged: Path, items: Sequence[SourceFile], contents: Mapping[str, bytes], folder: str) -> None:
    """Write the files, then the links, and check that no link leads outside.

    Raises:
        SkillError: If one does, or they cannot be written.
    """
    staged.mkdir(mode=0o755)
    single = folder.lower().endswith(SUFFIX)
    try:
        for item in sorted(items, key=lambda i: i.link):  # Links last: nothing is written through one.
            inner = "SKILL.md" if single else item.path[len(folder) :].lstrip("/")
            path = staged / inner
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            if item.link:
                path.symlink_to(os.fsdecode(contents[item.path]))
                continue
            with open(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755 if item.executable else 0o644), "wb"
            ) as file:
                file.write(contents[item.path])
    except (OSError, ValueError) as error:
        raise SkillError(f"its files cannot be written: {getattr(error, 'strerror', None) or error}") from None
    root = os.path.realpath(staged)
    for item in items:
        if not item.link:
            continue
        real = os.path.realpath(staged / item.path[len(folder) :].lstrip("/"))
        if not real.startswith(root + os.sep) or not os.path.exists(real):
            reason = "leads out of the skill's folder" if os.path.exists(real) else "leads nowhere"
            raise SkillError(f"the link {item.path} {reason}, so it is not installed")
