"""Finds skills: in folders of the project and the user, in code, and bundled ones.

Decides which files are skills and which folders are skipped, and builds the catalog of skills by name.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.env.paths import is_inside
from mainspring.env.walk import IgnoreRules, is_ignored, load_parent_rules, load_rules
from mainspring.frontmatter import FrontMatter, parse_front_matter
from mainspring.lazy import lazy_function
from mainspring.skills.content import read_text
from mainspring.skills.manifest import MAX_NAME_CHARS, normalize_name, parse_skill
from mainspring.skills.skill import (
    SOURCE_PRIORITY,
    Script,
    Skill,
    SkillDiagnostic,
    SkillError,
    SkillsConfig,
    SkillSource,
)
from mainspring.text import suggest_name

if TYPE_CHECKING:
    from mainspring.skills.toolset_files import find_toolset_problem
else:  # loaded for the first skill with toolsets
    find_toolset_problem = lazy_function("mainspring.skills.toolset_files", "find_toolset_problem")

SUFFIX = ".skill.md"
_MAX_FOLDERS = 20_000
MAX_SKILLS = 5_000
_MAX_DEPTH = 6


_MAX_IGNORE_FILE_BYTES = 1 << 20
_LINK_OUTSIDE = "the link leads out of the project, so it is not followed"


_DEPENDENCY_FOLDERS = frozenset({"node_modules", "bower_components", "vendor", "site-packages", "__pycache__", "venv"})
"""Folders with code of dependencies: a dependency's skill is not the user's."""


class SkillFile(Struct, frozen=True):
    """A file that should contain a skill.

    Attributes:
        file: The file.
        folder: Its folder, if that belongs to the skill. ``None`` for ``*.skill.md``.
        identity: The same path for all links that lead to it.
    """

    file: Path
    folder: Path | None
    identity: str


class ScanResult(Struct, frozen=True):
    """The skills in a folder, outermost first and then by path, and files that only look like skills."""

    found: tuple[SkillFile, ...] = ()
    problems: tuple[SkillDiagnostic, ...] = ()


def scan_folder(
    root: Path, *, allowed_roots: tuple[str, ...] = (), max_skills: int = MAX_SKILLS, ignore_files: bool = True
) -> ScanResult:
    """Scan a folder. Blocks.

    A folder with a ``SKILL.md`` is a skill, including its subfolders. ``*.skill.md`` is a skill in a single file. Other folders are
    scanned, except hidden ones, those of dependencies, and those that an ignore file excludes. Links are followed, each folder once.

    Args:
        root: The folder. If it does not exist, nothing is found.
        allowed_roots: Real paths of folders that links may not leave. Empty for no restriction.
        max_skills: Maximum number of skills.
        ignore_files: Whether ignore files apply. Those above an installed program are about its folder, not its content.
    """
    return _Scan(root, allowed_roots, max_skills, ignore_files).run()


class _Scan:
    def __init__(self, root: Path, parents: tuple[str, ...], limit: int, ignore_files: bool) -> None:
        self._root = root
        self._limit = limit
        self._parents = parents
        self._ignore_files = ignore_files
        self._found: list[SkillFile] = []
        self._problems: list[SkillDiagnostic] = []
        self._seen: set[str] = set()
        self._children: list[Path] = []

    def run(self) -> ScanResult:
        if not os.path.isdir(self._root):  # also False if it is not accessible
            if os.path.lexists(self._root):
                self._add_problem(self._root, "it is not a folder, so it cannot contain skills")
            return self._result()
        root = os.path.realpath(self._root)
        if self._is_outside(root):
            self._add_problem(self._root, _LINK_OUTSIDE)
            return self._result()
        above = load_parent_rules(root, _read) if self._ignore_files and not is_ignored(root, True, _read) else None
        queue: deque[tuple[Path, int, IgnoreRules | None]] = deque([(self._root, 0, above)])
        while queue:
            if len(self._seen) >= _MAX_FOLDERS or len(self._found) >= self._limit:
                self._add_problem(
                    self._root, f"more than {self._limit} skills or {_MAX_FOLDERS} folders; the rest is skipped"
                )
                break
            queue += self._visit(*queue.popleft())
        self._report_empty_folders()
        return self._result()

    def _result(self) -> ScanResult:
        return ScanResult(tuple(sorted(self._found, key=_by_depth)), tuple(self._problems))

    def _visit(self, folder: Path, depth: int, level: IgnoreRules | None) -> list[tuple[Path, int, IgnoreRules | None]]:
        """Scan one folder. Returns the subfolders to scan next."""
        real = os.path.realpath(folder)
        if real in self._seen:
            return []
        self._seen.add(real)
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            self._add_problem(folder, f"the folder cannot be read: {error.strerror or error}")
            return []
        skills = [n for n in names if n.lower() == "skill.md" and not os.path.isdir(folder / n)]
        if skills:
            name = next((n for n in ("SKILL.md", "skill.md") if n in skills), skills[0])
            self._add(folder / name, folder, real)
            return []
        level = load_rules(real, level, _read) if self._ignore_files else None
        further: list[tuple[Path, int, IgnoreRules | None]] = []
        for name in names:
            path = folder / name
            is_folder = os.path.isdir(path)
            if name.startswith(".") or self._is_left_out(path, is_folder, level, real):
                continue
            if is_folder and depth < _MAX_DEPTH:
                further.append((path, depth + 1, level))
            elif name.lower().endswith(SUFFIX):
                self._add(path, None, os.path.realpath(path))
            elif depth == 0:
                self._report_misnamed(path)
        if depth == 0:
            self._children = [path for path, _, _ in further]
        return further

    def _is_left_out(self, path: Path, is_folder: bool, level: IgnoreRules | None, parent: str) -> bool:
        if is_folder and (path.name in _DEPENDENCY_FOLDERS or os.path.isfile(path / "pyvenv.cfg")):
            return True
        if level is not None and level.ignores(posixpath.join(parent, path.name), is_folder):
            if path.name.lower().endswith(SUFFIX) or (is_folder and os.path.isfile(path / "SKILL.md")):
                self._add_problem(path, "an ignore file excludes it (.gitignore, .ignore)", level="warning")
            return True
        if not path.is_symlink():
            return False
        if not path.exists():
            self._add_problem(path, f"it is a broken link: {os.readlink(path)}")
            return True
        if self._is_outside(os.path.realpath(path)):
            self._add_problem(path, _LINK_OUTSIDE)
            return True
        return False

    def _add(self, file: Path, folder: Path | None, real_path: str) -> None:
        try:
            regular = stat.S_ISREG(file.stat().st_mode)
        except OSError as error:
            self._add_problem(file, f"it cannot be read: {error.strerror or error}")
            return
        if not regular:
            self._add_problem(file, "it is not a text file")
        elif file.is_symlink() and self._is_outside(os.path.realpath(file)):
            self._add_problem(file, _LINK_OUTSIDE)
        else:
            self._found.append(SkillFile(file, folder, real_path))

    def _is_outside(self, real_path: str) -> bool:
        """Return True if a real path is outside the allowed folders."""
        if not self._parents:
            return False
        return not any(is_inside(real_path, place) for place in self._parents)

    def _add_problem(self, path: Path, reason: str, *, level: Literal["error", "warning"] = "error") -> None:
        self._problems.append(SkillDiagnostic(str(path), reason, level))

    def _report_misnamed(self, path: Path) -> None:
        """Report a Markdown file that is written like a skill, but not named like one."""
        if path.suffix.lower() != ".md" or not os.path.isfile(path):
            return
        try:
            head = parse_front_matter(read_text(path))
        except (SkillError, OSError):
            return
        if head is not None and "description" in head.fields:
            name = path.name[: -len(path.suffix)]
            self._add_problem(path, f"its name is not that of a skill; rename it to {name}{SUFFIX}, or {name}/SKILL.md")

    def _report_empty_folders(self) -> None:
        with_skills = {p.file.relative_to(self._root).parts[0] for p in self._found if p.file != self._root}
        reported = {Path(p.path).relative_to(self._root).parts[0] for p in self._problems if Path(p.path) != self._root}
        for child in self._children:
            if (
                child.name not in with_skills
                and child.name not in reported
                and os.path.realpath(child) != os.path.realpath(self._root)
            ):
                self._add_problem(child, "the folder has no SKILL.md", level="warning")


def _by_depth(place: SkillFile) -> tuple[int, tuple[str, ...]]:
    return len(place.file.parts) - (place.folder is None), place.file.parts


def _read(path: str) -> bytes | None:
    """Read a small file, for ignore rules."""
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_IGNORE_FILE_BYTES)
    except OSError:
        return None


class SkillCatalog:
    """The usable skills and the others.

    If names are equal, the project's skill wins over the user's, an inline one, and a bundled one. Within one source, the first wins.

    Args:
        skills: All skills, those of one source by precedence.
        problems: Files with errors or warnings.
        disabled: Names of disabled skills.
        switched_on: Names of enabled skills that are disabled by default.
        enabled: Names of the only enabled skills; True for no such list.
    """

    def __init__(
        self,
        skills: Iterable[Skill] = (),
        problems: Iterable[SkillDiagnostic] = (),
        *,
        disabled: Iterable[str] = (),
        switched_on: Iterable[str] = (),
        enabled: bool | tuple[str, ...] = True,
    ) -> None:
        unwanted, requested = set(disabled), set(switched_on)
        listed = None if isinstance(enabled, bool) else enabled
        found: dict[str, Skill] = {}
        off: dict[str, Skill] = {}
        shadowed: list[Skill] = []
        diagnostics = list(problems)
        for skill in sorted(skills, key=lambda s: SOURCE_PRIORITY.index(s.source)):
            first = found.get(skill.name) or off.get(skill.name)
            if first is not None:
                shadowed.append(skill)
                diagnostics.append(_conflict(skill, first))
                continue
            on = skill.default_enabled or skill.name in requested if listed is None else skill.name in listed
            (found if on and skill.name not in unwanted else off)[skill.name] = skill
        known = {**found, **off}
        diagnostics += [_unknown(name, known) for name in dict.fromkeys(listed or ()) if name not in known]
        self.skills: tuple[Skill, ...] = tuple([found[name] for name in sorted(found)])
        """The usable skills by name."""
        self.disabled_skills: tuple[Skill, ...] = tuple([off[name] for name in sorted(off)])
        """The disabled skills by name."""
        self.shadowed: tuple[Skill, ...] = tuple(shadowed)
        """Skills with the name of another one. `get` finds them with their source, as ``user:NAME``."""
        self.problems: tuple[SkillDiagnostic, ...] = tuple(diagnostics)
        """Files that are not valid skills, and warnings about others."""

    def __len__(self) -> int:
        return len(self.skills)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self.skills)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def get(self, name: str) -> Skill | None:
        """Return the usable skill with this name. ``SOURCE:NAME`` selects the one of that source, even if it is shadowed."""
        source, colon, rest = name.partition(":")
        if not colon:
            return next((s for s in self.skills if s.name == name), None)
        return next((s for s in (*self.skills, *self.shadowed) if s.source == source and s.name == rest), None)


def _unknown(name: str, known: Iterable[str]) -> SkillDiagnostic:
    hint = suggest_name(name, tuple(known))
    return SkillDiagnostic("skills.enabled", f"no skill has the name {name!r}{hint and f'. {hint}'}", level="warning")


def _conflict(skill: Skill, first: Skill) -> SkillDiagnostic:
    where = f" ({first.path})" if first.path else ""
    way = (
        "rename one" if skill.source == first.source else f"rename one, or use this one as {skill.source}:{skill.name}"
    )
    return SkillDiagnostic(
        skill.path or skill.name,
        f"the {first.source} skill {first.name!r}{where} takes precedence; {way}",
        level="warning",
    )


BUNDLED_FOLDER = Path(__file__).parent / "bundled"
"""The bundled skills."""
BUNDLED_INDEX = BUNDLED_FOLDER / "index.json"
"""The fields of each bundled skill by its folder, so that a start does not import YAML."""


_UNTRUSTED_NOTICE = "The project is not trusted, so it was not read. Run `mainspring trust` to trust it."
_MAX_SCRIPTS = 100


class _SearchRoot(Struct, frozen=True):
    folder: Path
    source: SkillSource
    trusted: bool
    readable: bool = True
    allowed_roots: tuple[str, ...] = ()


def discover_skills(config: SkillsConfig | None = None) -> SkillCatalog:
    """Find skills. Blocks. Only the front matter of files is stored.

    Args:
        config: Where to search, and what is trusted (default: bundled skills only).

    Raises:
        SkillError: If an inline skill is invalid.
    """
    config = config or SkillsConfig()
    if not config.enabled:
        return SkillCatalog()
    found: list[Skill] = [_validate_inline(skill) for skill in config.inline]
    index = msgspec.json.decode(BUNDLED_INDEX.read_bytes(), type=dict[str, dict[str, Any]]) if config.builtin else {}
    problems: list[SkillDiagnostic] = []
    seen: set[str] = set()
    for root in _roots(config):
        places = scan_folder(root.folder, allowed_roots=root.allowed_roots, ignore_files=root.source != "builtin")
        problems += places.problems
        for place in places.found:
            if place.identity in seen:  # A folder that two links lead to is one skill.
                continue
            seen.add(place.identity)
            if not root.readable:
                problems.append(SkillDiagnostic(str(place.file), _UNTRUSTED_NOTICE))
                continue
            try:
                fields = index.get(place.file.parent.name) if root.source == "builtin" else None
                skill = load_skill(place, root.source, trusted=root.trusted, fields=fields)
            except SkillError as error:
                problems.append(SkillDiagnostic(str(place.file), str(error), line=error.line))
                continue
            found.append(skill)
            problems += [SkillDiagnostic(str(place.file), text, level="warning") for text in skill.warnings]
    return SkillCatalog(
        found, problems, disabled=config.disabled, switched_on=config.switched_on, enabled=config.enabled
    )


def load_skill(place: SkillFile, source: SkillSource, *, trusted: bool, fields: dict[str, Any] | None = None) -> Skill:
    """Load the skill of a file, with the scripts of its folder. Blocks.

    Args:
        place: The file.
        source: Its source.
        trusted: Whether its code may run.
        fields: Its front matter, if that is known; then the file is not read.

    Raises:
        SkillError: If the file is invalid or cannot be read.
    """
    own = place.folder
    directory = os.path.realpath(own) if own is not None else None
    fallback = own.name if own is not None else place.file.name.lower().removesuffix(SUFFIX)
    try:
        text = read_text(place.file) if fields is None else ""
    except OSError as error:
        raise SkillError(f"it cannot be read: {error.strerror or error}") from None
    skill = parse_skill(
        text,
        default_name=fallback,
        source=source,
        trusted=trusted,
        directory=directory,
        path=str(place.file),
        head=None if fields is None else FrontMatter(fields, ""),
    )
    odd: list[str] = []
    if place.file.name not in ("SKILL.md", "skill.md") and own is not None:
        odd.append(f"the file should be called SKILL.md, not {place.file.name}")
    scripts = tuple([s for s in skill.scripts if _script_exists(directory, s, odd)])
    if directory is not None and trusted:
        named = {s.path for s in scripts} | {s.name for s in scripts}
        scripts += tuple([s for s in _find_scripts(Path(directory)) if s.path not in named and s.name not in named])
    if trusted and fields is None:
        reasons = [(spec, find_toolset_problem(directory, spec)) for spec in skill.toolsets]
        odd += [f"the toolset {spec} cannot be loaded: {reason}" for spec, reason in reasons if reason]
    return replace(skill, scripts=scripts, warnings=(*skill.warnings, *odd))


def _script_exists(directory: str | None, script: Script, odd: list[str]) -> bool:
    if directory is None:
        odd.append(f"the script {script.name!r} was skipped: a single file has no folder")
        return False
    real = os.path.realpath(os.path.join(directory, script.path))
    if not real.startswith(directory.rstrip(os.sep) + os.sep):
        odd.append(f"the script {script.name!r} was skipped: {script.path} leads out of the skill's folder")
        return False
    if not os.path.isfile(real):
        odd.append(f"the script {script.name!r} was skipped: {script.path} does not exist")
        return False
    return True


def _find_scripts(directory: Path) -> Iterator[Script]:
    """List the files directly in the folder ``scripts``, without links."""
    try:
        with os.scandir(directory / "scripts") as entries:
            names = sorted(
                e.name for e in entries if e.is_file(follow_symlinks=False) and not e.name.startswith((".", "_"))
            )
    except OSError:
        return
    for name in names[:_MAX_SCRIPTS]:
        yield Script(name=name, path=f"scripts/{name}")


def _validate_inline(skill: Skill) -> Skill:
    if skill.name != normalize_name(skill.name) or not 0 < len(skill.name) <= MAX_NAME_CHARS:
        raise SkillError(
            f"Invalid skill name: {skill.name!r}. Use 1 to {MAX_NAME_CHARS} lower-case letters, digits, and single hyphens."
        )
    if not skill.description.strip():
        raise SkillError(f"The skill {skill.name!r} has no description.")
    return replace(skill, source="inline")


def _roots(config: SkillsConfig) -> Iterator[_SearchRoot]:
    """Return the folders to search, by precedence."""
    own = {os.path.realpath(folder) for folder in config.user}
    if config.project is not None:
        for folder in _iter_parents(Path(config.project), config.up_to):
            for layout in config.layouts:
                place = folder / layout
                if os.path.realpath(place) not in own:  # The user's own folder does not belong to a project.
                    within = (os.path.realpath(config.up_to or config.project), *own)
                    trust = config.trust_project_skills
                    yield _SearchRoot(place, "project", trust is True, trust is not False, within)
    for folder in config.user:
        yield _SearchRoot(Path(folder), "user", True)
    if config.builtin:
        yield _SearchRoot(BUNDLED_FOLDER, "builtin", True)


def _iter_parents(folder: Path, last: str | None) -> Iterable[Path]:
    """Iterate over the folder and its parents up to ``last`` if that is one of them."""
    if last is None or not folder.is_relative_to(last):
        return (folder,)
    return (folder, *[p for p in folder.parents if p.is_relative_to(last)])
