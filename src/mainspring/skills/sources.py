"""Where skills are found: folders of the project and of the user, what the program brings, and the bundled ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from mainspring.skills.catalog import SkillCatalog
from mainspring.skills.content import read_text
from mainspring.skills.discovery import SUFFIX, Place, places_in
from mainspring.skills.fields import name_of
from mainspring.skills.manifest import LONGEST_NAME, parse_skill
from mainspring.skills.skill import Script, Skill, SkillError, SkillProblem, SkillsConfig, Source

SAMPLES = Path(__file__).parent / "bundled"
"""The bundled skills."""

_UNTRUSTED = "the project is not trusted, so it was not read; `mainspring trust` trusts it"
_MOST_SCRIPTS = 100


class _Root(Struct, frozen=True):
    folder: Path
    source: Source
    trusted: bool
    readable: bool = True
    within: tuple[str, ...] = ()


def find_skills(config: SkillsConfig | None = None) -> SkillCatalog:
    """Look for skills. Blocks while it reads; only the heads of files are kept.

    Args:
        config: Where to look, and whom to trust; the bundled ones alone if left out.

    Raises:
        SkillError: If a skill that the program brings itself is none.
    """
    config = config or SkillsConfig()
    if not config.enabled:
        return SkillCatalog()
    found: list[Skill] = [_checked(skill) for skill in config.inline]
    problems: list[SkillProblem] = []
    seen: set[str] = set()
    for root in _roots(config):
        places = places_in(root.folder, within=root.within, ignore_files=root.source != "builtin")
        problems += places.problems
        for place in places.found:
            if place.real in seen:  # one folder that two links lead to is one skill
                continue
            seen.add(place.real)
            if not root.readable:
                problems.append(SkillProblem(str(place.file), _UNTRUSTED))
                continue
            try:
                skill = load_skill(place, root.source, trusted=root.trusted)
            except SkillError as error:
                problems.append(SkillProblem(str(place.file), str(error), line=error.line))
                continue
            found.append(skill)
            problems += [SkillProblem(str(place.file), text, level="warning") for text in skill.warnings]
    return SkillCatalog(found, problems, disabled=config.disabled, switched_on=config.switched_on)


def load_skill(place: Place, source: Source, *, trusted: bool) -> Skill:
    """The skill of a file, with the scripts of its folder. Blocks.

    Raises:
        SkillError: If the file gives none, or cannot be read.
    """
    own = place.folder
    directory = os.path.realpath(own) if own is not None else None
    fallback = own.name if own is not None else place.file.name.lower().removesuffix(SUFFIX)
    try:
        text = read_text(place.file)
    except OSError as error:
        raise SkillError(f"it cannot be read: {error.strerror or error}") from None
    skill = parse_skill(
        text, fallback=fallback, source=source, trusted=trusted, directory=directory, path=str(place.file)
    )
    odd: list[str] = []
    if place.file.name not in ("SKILL.md", "skill.md") and own is not None:
        odd.append(f"the file should be called SKILL.md, not {place.file.name}")
    scripts = tuple([s for s in skill.scripts if _is_there(directory, s, odd)])
    if directory is not None and trusted:
        named = {s.path for s in scripts} | {s.name for s in scripts}
        scripts += tuple([s for s in _programs(Path(directory)) if s.path not in named and s.name not in named])
    return replace(skill, scripts=scripts, warnings=(*skill.warnings, *odd))


def _is_there(directory: str | None, script: Script, odd: list[str]) -> bool:
    if directory is None:
        odd.append(f"the script {script.name!r} is left out: a single file has no folder of its own")
        return False
    real = os.path.realpath(os.path.join(directory, script.path))
    if not real.startswith(directory.rstrip(os.sep) + os.sep):
        odd.append(f"the script {script.name!r} is left out: {script.path} leads out of the skill's folder")
        return False
    if not os.path.isfile(real):
        odd.append(f"the script {script.name!r} is left out: there is no file {script.path}")
        return False
    return True


def _programs(directory: Path) -> Iterator[Script]:
    """The files of the folder ``scripts``, those that lie in it directly; links are left out."""
    try:
        with os.scandir(directory / "scripts") as entries:
            names = sorted(
                e.name for e in entries if e.is_file(follow_symlinks=False) and not e.name.startswith((".", "_"))
            )
    except OSError:
        return
    for name in names[:_MOST_SCRIPTS]:
        yield Script(name=name, path=f"scripts/{name}")


def _checked(skill: Skill) -> Skill:
    if skill.name != name_of(skill.name) or not 0 < len(skill.name) <= LONGEST_NAME:
        raise SkillError(
            f"{skill.name!r} cannot be the name of a skill: 1 to {LONGEST_NAME} lower-case letters, digits and single hyphens"
        )
    if not skill.description.strip():
        raise SkillError(f"the skill {skill.name!r} has no description")
    return replace(skill, source="inline")


def _roots(config: SkillsConfig) -> Iterator[_Root]:
    """The folders to look into, in the order in which they count."""
    own = {os.path.realpath(folder) for folder in config.user}
    if config.project is not None:
        for folder in _upwards(Path(config.project), config.up_to):
            for layout in config.layouts:
                place = folder / layout
                if os.path.realpath(place) not in own:  # the user's own folder is nothing of a project
                    within = (os.path.realpath(config.up_to or config.project), *own)
                    trust = config.trust_project_skills
                    yield _Root(place, "project", trust is True, trust is not False, within)
    for folder in config.user:
        yield _Root(Path(folder), "user", True)
    if config.builtin:
        yield _Root(SAMPLES, "builtin", True)


def _upwards(folder: Path, last: str | None) -> Iterable[Path]:
    """The folder, and those above it up to ``last`` if that holds it."""
    if last is None or not folder.is_relative_to(last):
        return (folder,)
    return (folder, *[p for p in folder.parents if p.is_relative_to(last)])
