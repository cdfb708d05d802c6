"""Skills: listed, shown, checked, installed, switched, updated, removed and begun."""

from __future__ import annotations

import asyncio
import difflib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.paths import PROJECT_FOLDER, UserPaths, find_repository
from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.skills import build_skills_config, open_skill_registry
from mainspring.errors import ConfigError
from mainspring.skills.authoring import create_skill_folder
from mainspring.skills.content import find_shell_commands, read_body
from mainspring.skills.discovery import SkillCatalog, discover_skills
from mainspring.skills.fetch import InstallSpec, parse_spec
from mainspring.skills.install import (
    Candidate,
    InstallPreview,
    InstallSource,
    SkillChanges,
    diff_folders,
    discard_staged,
    hash_folder,
    install_skill,
    open_source,
    recover_interrupted,
)
from mainspring.skills.skill import Skill, SkillDiagnostic
from mainspring.skills.state import SkillState, SkillStateFile
from mainspring.skills.validation import Verdict as Verdict
from mainspring.skills.validation import check_skills, find_missing
from mainspring.state_files import resolve_project_file


class SkillView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A skill, for people and programs.

    Attributes:
        name: Its name.
        brief: What it is for, in a sentence.
        description: What it is for.
        source: ``project``, ``user`` or ``builtin``.
        state: ``on``, ``off``, or ``hidden`` by another one of its name.
        path: Its file.
        version: Its version.
        origin: Where it was installed from.
        commit: The commit that was installed.
        installed: When it was.
        used: How often it was used.
        last_used: When last.
        warnings: What is odd about it.
    """

    name: str
    brief: str
    description: str
    source: str
    state: str
    path: str | None
    version: str | None = None
    origin: str | None = None
    commit: str | None = None
    installed: datetime | None = None
    used: int = 0
    last_used: datetime | None = None
    warnings: tuple[str, ...] = ()


class SkillList(Struct, frozen=True):
    """The skills of a folder, and files that give none."""

    skills: tuple[SkillView, ...]
    problems: tuple[SkillDiagnostic, ...] = ()


class SkillDetail(Struct, frozen=True, kw_only=True, rename="camel"):
    """One skill in full.

    Attributes:
        view: What the list says of it.
        skill: All of its fields.
        body: Its instructions.
        lacking: What it needs and is missing here.
        shell_lines: Commands in its text that run when it is used.
    """

    view: SkillView
    skill: Skill
    body: str
    lacking: tuple[str, ...] = ()
    shell_lines: tuple[str, ...] = ()


class SkillChange(Struct, frozen=True, kw_only=True):
    """What became of one skill.

    Attributes:
        name: Its name.
        what: ``installed``, ``updated``, ``unchanged``, ``refused`` (by the user) or ``failed``.
        path: Where it is.
        commit: The commit that is installed; empty for a folder.
        text: Why it failed, or what should be known.
    """

    name: str
    what: str
    path: str = ""
    commit: str = ""
    text: str = ""


class PendingSkill(Struct, frozen=True, kw_only=True):
    """A skill that waits for a decision in a folder of its own, beside the place where it would be.

    Attributes:
        name: Its name.
        what: What becomes of it if it is wanted: ``installed`` or ``updated``.
        preview: What it brings.
        changes: What it changes where there is one of its name.
        done: What became of it already: it could not be fetched, or there is nothing newer.
        candidate: Its files.
        folder: The user's folder of skills.
    """

    name: str
    what: str = "installed"
    preview: InstallPreview | None = None
    changes: SkillChanges | None = None
    done: SkillChange | None = None
    candidate: Candidate | None = None
    folder: Path | None = None


def list_installed_skills(place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> SkillList:
    """The skills of a folder. Nothing of them is run.

    Raises:
        ConfigError: If the settings or the registry are broken.
    """
    catalog, entries, _ = _load_skills(place, environ)
    rows = (
        [(s, "on") for s in catalog.skills]
        + [(s, "off") for s in catalog.disabled_skills]
        + [(s, "hidden") for s in catalog.shadowed]
    )
    views = [
        _view(skill, state, entries) for skill, state in sorted(rows, key=lambda row: (row[0].name, row[1] == "hidden"))
    ]
    return SkillList(tuple(views), catalog.problems)


def show_skill(name: str, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> SkillDetail:
    """One skill, also one that is off; ``SOURCE:NAME`` is that of a source.

    Raises:
        ConfigError: If there is none.
    """
    catalog, entries, _ = _load_skills(place, environ)
    skill = _get_skill(name, catalog)
    state = "on" if skill in catalog.skills else "off" if skill in catalog.disabled_skills else "hidden"
    body = read_body(skill)
    return SkillDetail(
        view=_view(skill, state, entries),
        skill=skill,
        body=body,
        lacking=tuple([each.text for each in find_missing(skill, environ=environ)]),
        shell_lines=find_shell_commands(body),
    )


def validate_skills(
    paths: Sequence[str], place: WorkspaceOptions, environ: Mapping[str, str] = os.environ
) -> tuple[Verdict, ...]:
    """Look at files and folders of skills, or at skills by their names; at the working folder if none is named.

    Raises:
        ConfigError: If one is not there.
    """
    cwd, _ = load_rules(place, {}, environ)
    files = [Path(os.path.abspath(os.path.join(cwd, os.path.expanduser(path)))) for path in paths or (".",)]
    for n, (path, file) in enumerate(zip(paths, files, strict=False)):
        if not file.exists() and not os.path.dirname(path):
            catalog = _load_skills(place, environ)[0]
            every = (*catalog.skills, *catalog.disabled_skills, *catalog.shadowed)
            named = next((s for s in every if s.name == path and s.path is not None), None)
            files[n] = Path(named.path) if named is not None and named.path is not None else file
    return tuple([verdict for file in files for verdict in check_skills(file)])


async def fetch_skills(
    source: str,
    place: WorkspaceOptions,
    *,
    ref: str = "",
    path: str = "",
    names: Sequence[str] = (),
    select_all: bool = False,
    force: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> tuple[PendingSkill, ...]:
    """Fetch skills of a folder or a repository, to be looked at and then put in their place by `settle`. Nothing of them is run.

    Args:
        source: The folder or repository.
        place: Where the command works.
        ref: Branch, tag or commit.
        path: The folder in it to look into.
        names: Which, where there are several.
        select_all: Whether all are meant.
        force: Whether one of the same name is replaced though it was written or changed by hand.
        environ: The environment.

    Raises:
        ConfigError: If it cannot be fetched, or it is not clear which skill is meant.
    """
    cwd, settings = load_rules(place, {}, environ)
    home = _require_home(settings)
    spec = parse_spec(source, cwd=cwd, ref=ref, path=path)
    _require_online(spec, place)
    await asyncio.to_thread(recover_interrupted, home.skills)
    async with open_source(spec) as opening:
        requested = await _select_skills(opening, names, select_all)
        return tuple([await _fetch(opening, name, folder, home, force=force) for name, folder in requested.items()])


async def fetch_updates(
    names: Sequence[str],
    place: WorkspaceOptions,
    *,
    force: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> tuple[PendingSkill, ...]:
    """Fetch what is newer of installed skills; all of them if none is named.

    Args:
        names: Which.
        place: Where the command works.
        force: Whether files that were changed by hand are replaced.
        environ: The environment.

    Raises:
        ConfigError: If one was not installed.
    """
    home = _require_home(load_rules(place, {}, environ)[1])
    entries = open_skill_registry(home).entries()
    known = {
        name: entry for name, entry in entries.items() if entry.origin is not None and (home.skills / name).exists()
    }
    for name in names:
        if name not in known:
            raise ConfigError(f"{name!r} was not installed by `mainspring skills install`{_suggestion(name, known)}")
    await asyncio.to_thread(recover_interrupted, home.skills)
    requested = names or sorted(known)
    return tuple([await _fetch_update(name, known[name], home, place, force=force) for name in requested])


def apply_pending(fetched: PendingSkill, *, wanted: bool) -> SkillChange:
    """Put a skill in its place, or leave everything as it is. Blocks."""
    candidate, folder = fetched.candidate, fetched.folder
    if fetched.done is not None or candidate is None or folder is None:
        return fetched.done or SkillChange(name=fetched.name, what="failed", text="nothing was fetched")
    if not wanted:
        return SkillChange(name=fetched.name, what="refused")
    try:
        target = install_skill(candidate, folder, SkillStateFile(folder))
    except ConfigError as error:
        return SkillChange(name=fetched.name, what="failed", text=str(error))
    return SkillChange(name=fetched.name, what=fetched.what, path=str(target), commit=candidate.origin.commit)


def discard_pending(fetched: Sequence[PendingSkill]) -> None:
    """Remove what was fetched and has not been put in its place. Blocks."""
    discard_staged([each.candidate for each in fetched if each.candidate is not None])


def set_skill_enabled(name: str, on: bool, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> str:
    """Switch a skill on or off for all folders; what should be known about it, mostly nothing.

    Raises:
        ConfigError: If there is none, or the settings say otherwise.
    """
    catalog, _, settings = _load_skills(place, environ)
    skill = _get_skill(name, catalog)
    if on and skill.name in settings.config.skills.disabled:
        origin = settings.origins.get("skills.disabled", "the settings")
        raise ConfigError(f"{skill.name} is in skills.disabled of {origin}; take it out there")
    open_skill_registry(_require_home(settings)).set_enabled(skill.name, on)
    return "skills are off altogether: skills.enabled is false" if on and not settings.config.skills.enabled else ""


def remove_skill(
    name: str, place: WorkspaceOptions, confirm: Callable[[str], bool], environ: Mapping[str, str] = os.environ
) -> Path | None:
    """Remove a skill from the user's folder, with its files.

    Args:
        name: Which.
        place: Where the command works.
        confirm: Is asked with the path.
        environ: The environment.

    Returns:
        What was removed; ``None`` if the user did not want it.

    Raises:
        ConfigError: If there is none, or it does not lie in the user's folder.
    """
    catalog, entries, settings = _load_skills(place, environ)
    home = _require_home(settings)
    target = home.skills / name
    every = (*catalog.skills, *catalog.disabled_skills, *catalog.shadowed)
    own = next((s for s in every if s.name == name and s.source == "user" and _is_inside(s, home.skills)), None)
    if own is not None:
        target = Path(own.path or "").parent if own.directory is not None else Path(own.path or "")
    elif not (os.path.lexists(target) and name in entries):
        other = next((s for s in every if s.name == name), None)
        if other is None:
            raise ConfigError(f"there is no skill {name!r}{_suggestion(name, [s.name for s in every])}")
        how = "mainspring skills disable switches it off" if other.source == "builtin" else f"it lies in {other.path}"
        raise ConfigError(f"{name} is not in your own folder {home.skills}, so it is not removed; {how}")
    if not confirm(str(target)):
        return None
    try:
        if target.is_symlink() or target.is_file():
            target.unlink()
        else:
            shutil.rmtree(target)
    except OSError as error:
        raise ConfigError(f"{target}: cannot be removed: {error.strerror or error}") from error
    open_skill_registry(home).forget(name)
    return target


def new_skill(
    name: str,
    place: WorkspaceOptions,
    *,
    description: str = "",
    project: bool = False,
    scripts: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """Begin a skill, in the user's folder or in the project's; its file.

    Raises:
        ConfigError: If it cannot have that name, or there is one already.
    """
    cwd, settings = load_rules(place, {}, environ)
    if project:
        top = find_repository(Path(cwd)) or Path(cwd)
        near = next(
            (
                p
                for p in (Path(cwd), *Path(cwd).parents)
                if (p / PROJECT_FOLDER / "skills").is_dir() and p.is_relative_to(top)
            ),
            top,
        )
        folder = near / PROJECT_FOLDER / "skills"
        try:
            resolve_project_file(folder / name, near)
        except PermissionError as error:
            raise ConfigError(f"{folder / name}: {error.strerror}") from None
        return create_skill_folder(folder, name, description=description, scripts=scripts)
    return create_skill_folder(_require_home(settings).skills, name, description=description, scripts=scripts)


async def _select_skills(source: InstallSource, names: Sequence[str], select_all: bool) -> dict[str, str]:
    """The skills that are meant, with their folders.

    Raises:
        ConfigError: If that is not clear.
    """
    offer = await source.list_skills()
    problems = "".join(f"\n  {folder or 'the top'}: {reason}" for folder, reason in sorted(offer.problems.items()))
    where = source.spec.url + (f" ({source.spec.path})" if source.spec.path else "")
    if not offer.names:
        raise ConfigError(f"there is no skill in {where}{':' + problems if problems else ''}")
    for name in names:
        if name not in offer.names:
            raise ConfigError(
                f"there is no skill {name!r} in {where}; there are {', '.join(sorted(offer.names))}{problems}"
            )
    if names or select_all:
        return {name: offer.names[name] for name in names or sorted(offer.names)}
    if len(offer.names) > 1:
        raise ConfigError(
            f"there are {len(offer.names)} skills in {where}: {', '.join(sorted(offer.names))}; name some with --skill, or give --all"
        )
    return offer.names


async def _fetch(source: InstallSource, name: str, folder: str, home: UserPaths, *, force: bool) -> PendingSkill:
    try:
        candidate = await source.stage(folder, home.skills)
    except ConfigError as error:
        return PendingSkill(name=name, done=SkillChange(name=name, what="failed", text=str(error)))
    if (
        candidate.preview.replaces
        and not force
        and await asyncio.to_thread(_has_local_changes, candidate.skill.name, home)
    ):
        await asyncio.to_thread(discard_staged, [candidate])
        text = f"there is one in {home.skills / name} that was written or changed by hand; --force replaces it"
        return PendingSkill(name=name, done=SkillChange(name=name, what="failed", text=text))
    return await asyncio.to_thread(_pending, candidate, home, "installed")


def _has_local_changes(name: str, home: UserPaths) -> bool:
    """Whether the files of a skill are others than were installed."""
    origin = open_skill_registry(home).entries().get(name, SkillState()).origin
    return origin is None or hash_folder(home.skills / name) != origin.digest


def _pending(candidate: Candidate, home: UserPaths, subject: str) -> PendingSkill:
    name = candidate.skill.name
    changed = diff_folders(home.skills / name, candidate.staged) if candidate.preview.replaces else None
    return PendingSkill(
        name=name, what=subject, preview=candidate.preview, changes=changed, candidate=candidate, folder=home.skills
    )


async def _fetch_update(
    name: str, entry: SkillState, home: UserPaths, place: WorkspaceOptions, *, force: bool
) -> PendingSkill:
    origin = entry.origin
    assert origin is not None
    spec = InstallSpec(url=origin.url, git=bool(origin.commit), ref=origin.ref)
    target = home.skills / name

    def describe_failure(what: str, text: str) -> PendingSkill:
        return PendingSkill(
            name=name, done=SkillChange(name=name, what=what, path=str(target), commit=origin.commit, text=text)
        )

    if spec.is_pinned:
        return describe_failure("unchanged", "it is pinned to a commit")
    try:
        _require_online(spec, place)
        async with open_source(spec) as source:
            candidate = await source.stage(origin.path, home.skills)
    except ConfigError as error:
        return describe_failure("failed", str(error))
    newer, by_hand = candidate.origin.digest != origin.digest, await asyncio.to_thread(_has_local_changes, name, home)
    problem = ""
    if newer and candidate.skill.name != name:
        problem = f"it is called {candidate.skill.name} now; install it by that name"
    elif newer and by_hand and not force:
        problem = "its files were changed by hand since they were installed; --force replaces them"
    elif newer or (by_hand and force):
        return await asyncio.to_thread(_pending, candidate, home, "updated")
    await asyncio.to_thread(discard_staged, [candidate])
    note = "its files were changed by hand since they were installed; --force puts them back" if by_hand else ""
    return describe_failure("failed", problem) if problem else describe_failure("unchanged", note)


def _load_skills(
    place: WorkspaceOptions, environ: Mapping[str, str]
) -> tuple[SkillCatalog, dict[str, SkillState], Settings]:
    cwd, settings = load_rules(place, {}, environ)
    return discover_skills(build_skills_config(cwd, settings)), open_skill_registry(settings.home).entries(), settings


def _view(skill: Skill, state: str, entries: Mapping[str, SkillState]) -> SkillView:
    entry = entries.get(skill.name, SkillState())
    origin = entry.origin if skill.source == "user" and state != "hidden" else None
    return SkillView(
        name=skill.name,
        brief=skill.brief,
        description=skill.description,
        source=skill.source,
        state=state,
        path=skill.path,
        version=skill.version,
        origin=origin.url if origin else None,
        commit=(origin.commit or None) if origin else None,
        installed=origin.installed if origin else None,
        used=entry.usage.count if entry.usage else 0,
        last_used=entry.usage.last if entry.usage else None,
        warnings=skill.warnings,
    )


def _get_skill(name: str, catalog: SkillCatalog) -> Skill:
    found = catalog.get(name) or next(
        (s for s in catalog.disabled_skills if name in (s.name, f"{s.source}:{s.name}")), None
    )
    if found is None:
        known = [s.name for s in (*catalog.skills, *catalog.disabled_skills)]
        broken = next((p for p in catalog.problems if p.level == "error" and name in Path(p.path).parts), None)
        reason = f": {broken.path} was not loaded: {broken.reason}" if broken else _suggestion(name, known)
        raise ConfigError(f"there is no skill {name!r}{reason}")
    return found


def _suggestion(name: str, known: Mapping[str, object] | Sequence[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(sorted(known))}" if known else ""


def _require_home(settings: Settings) -> UserPaths:
    if settings.home is None:
        raise ConfigError("there is no home folder to keep skills in; set MAINSPRING_HOME to one")
    return settings.home


def _is_inside(skill: Skill, folder: Path) -> bool:
    return skill.path is not None and Path(skill.path).is_relative_to(folder)


def _require_online(spec: InstallSpec, place: WorkspaceOptions) -> None:
    if place.offline and spec.is_remote:
        raise ConfigError(f"--offline: {spec.url} is not fetched")
