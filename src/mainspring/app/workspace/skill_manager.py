"""List, show, check, install, enable, disable, update, remove, and create skills."""

from __future__ import annotations

import asyncio
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
from mainspring.skills.validation import Verdict as Verdict, check_skills, find_missing
from mainspring.state_files import resolve_project_file
from mainspring.text import suggest_name


class SkillView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A skill in a list.

    Attributes:
        name: Name.
        brief: Description in one sentence.
        description: Full description.
        source: ``project``, ``user``, or ``builtin``.
        state: ``on``, ``off``, or ``hidden`` by another skill with the same name.
        path: File.
        version: Version.
        origin: URL or folder that it was installed from.
        commit: Installed commit.
        installed: Time of the installation.
        used: Number of uses.
        last_used: Time of the last use.
        warnings: Warnings.
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
    """The skills of a folder, and the files that cannot be loaded."""

    skills: tuple[SkillView, ...]
    problems: tuple[SkillDiagnostic, ...] = ()


class SkillDetail(Struct, frozen=True, kw_only=True, rename="camel"):
    """The details of a skill.

    Attributes:
        view: Entry in the list.
        skill: All fields of the skill.
        body: Instructions.
        lacking: Missing requirements.
        shell_lines: Commands in its text that run on use.
    """

    view: SkillView
    skill: Skill
    body: str
    lacking: tuple[str, ...] = ()
    shell_lines: tuple[str, ...] = ()


class SkillChange(Struct, frozen=True, kw_only=True):
    """The outcome of a change to a skill.

    Attributes:
        name: Name.
        what: ``installed``, ``updated``, ``unchanged``, ``refused`` (by the user), or ``failed``.
        path: Path.
        commit: Installed commit; empty for a folder.
        text: Reason of a failure, or a note.
    """

    name: str
    what: str
    path: str = ""
    commit: str = ""
    text: str = ""


class PendingSkill(Struct, frozen=True, kw_only=True):
    """A downloaded skill in a staging folder that waits for confirmation.

    Attributes:
        name: Name.
        what: Outcome if it is confirmed: ``installed`` or ``updated``.
        preview: Its content.
        changes: Changes to an existing skill with the same name.
        done: Outcome, if it is already known: it could not be downloaded, or is up to date.
        candidate: Its files.
        folder: User's folder of skills.
    """

    name: str
    what: str = "installed"
    preview: InstallPreview | None = None
    changes: SkillChanges | None = None
    done: SkillChange | None = None
    candidate: Candidate | None = None
    folder: Path | None = None


def list_installed_skills(place: WorkspaceOptions) -> SkillList:
    """List the skills of a folder. Runs nothing of them.

    Raises:
        ConfigError: If the settings or the registry are invalid.
    """
    catalog, entries, _ = _load_skills(place)
    rows = (
        [(s, "on") for s in catalog.skills]
        + [(s, "off") for s in catalog.disabled_skills]
        + [(s, "hidden") for s in catalog.shadowed]
    )
    views = [
        _view(skill, state, entries) for skill, state in sorted(rows, key=lambda row: (row[0].name, row[1] == "hidden"))
    ]
    return SkillList(tuple(views), catalog.problems)


def show_skill(name: str, place: WorkspaceOptions) -> SkillDetail:
    """Show a skill, even if it is disabled; ``SOURCE:NAME`` chooses the source.

    Raises:
        ConfigError: If the skill is unknown.
    """
    catalog, entries, _ = _load_skills(place)
    skill = _get_skill(name, catalog)
    state = "on" if skill in catalog.skills else "off" if skill in catalog.disabled_skills else "hidden"
    body = read_body(skill)
    return SkillDetail(
        view=_view(skill, state, entries),
        skill=skill,
        body=body,
        lacking=tuple([each.text for each in find_missing(skill, environ=os.environ)]),
        shell_lines=find_shell_commands(body),
    )


def validate_skills(paths: Sequence[str], place: WorkspaceOptions) -> tuple[Verdict, ...]:
    """Check files and folders of skills, or skills by name (default: the working folder).

    Raises:
        ConfigError: If one does not exist.
    """
    cwd, _ = load_rules(place)
    files = [Path(os.path.abspath(os.path.join(cwd, os.path.expanduser(path)))) for path in paths or (".",)]
    for n, (path, file) in enumerate(zip(paths, files, strict=False)):
        if not file.exists() and not os.path.dirname(path):
            catalog = _load_skills(place)[0]
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
) -> tuple[PendingSkill, ...]:
    """Download skills from a folder or a repository for review; `apply_pending` installs them. Runs nothing of them.

    Args:
        source: Folder or repository.
        place: Workspace options.
        ref: Branch, tag, or commit.
        path: Folder in the repository.
        names: Names of the skills, if there are several.
        select_all: Whether to install all skills.
        force: Whether to replace a skill that was written or changed by the user.

    Raises:
        ConfigError: If the download fails, or the choice of skills is ambiguous.
    """
    cwd, settings = load_rules(place)
    home = _require_home(settings)
    spec = parse_spec(source, cwd=cwd, ref=ref, path=path)
    _require_online(spec, place)
    await asyncio.to_thread(recover_interrupted, home.skills)
    async with open_source(spec) as opening:
        requested = await _select_skills(opening, names, select_all)
        return tuple([await _fetch(opening, name, folder, home, force=force) for name, folder in requested.items()])


async def fetch_updates(
    names: Sequence[str], place: WorkspaceOptions, *, force: bool = False
) -> tuple[PendingSkill, ...]:
    """Download updates of installed skills.

    Args:
        names: Names of the skills (default: all).
        place: Workspace options.
        force: Whether to replace files that were changed by the user.

    Raises:
        ConfigError: If a skill was not installed by the command.
    """
    home = _require_home(load_rules(place)[1])
    entries = open_skill_registry(home).entries()
    known = {
        name: entry for name, entry in entries.items() if entry.origin is not None and (home.skills / name).exists()
    }
    for name in names:
        if name not in known:
            raise ConfigError(f"{name!r} was not installed by `mainspring skills install`.{_suggestion(name, known)}")
    await asyncio.to_thread(recover_interrupted, home.skills)
    requested = names or sorted(known)
    return tuple([await _fetch_update(name, known[name], home, place, force=force) for name in requested])


def apply_pending(fetched: PendingSkill, *, is_confirmed: bool) -> SkillChange:
    """Install a pending skill, or leave everything unchanged. Blocks."""
    candidate, folder = fetched.candidate, fetched.folder
    if fetched.done is not None or candidate is None or folder is None:
        return fetched.done or SkillChange(name=fetched.name, what="failed", text="nothing was downloaded")
    if not is_confirmed:
        return SkillChange(name=fetched.name, what="refused")
    try:
        target = install_skill(candidate, folder, SkillStateFile(folder))
    except ConfigError as error:
        return SkillChange(name=fetched.name, what="failed", text=str(error))
    return SkillChange(name=fetched.name, what=fetched.what, path=str(target), commit=candidate.origin.commit)


def discard_pending(fetched: Sequence[PendingSkill]) -> None:
    """Remove downloads that were not installed. Blocks."""
    discard_staged([each.candidate for each in fetched if each.candidate is not None])


def set_skill_enabled(name: str, on: bool, place: WorkspaceOptions) -> str:
    """Enable or disable a skill in all folders, and return a note or an empty string.

    Raises:
        ConfigError: If the skill is unknown, or the settings disable it.
    """
    catalog, _, settings = _load_skills(place)
    skill = _get_skill(name, catalog)
    if on and skill.name in settings.config.skills.disabled:
        origin = settings.origins.get("skills.disabled", "the settings")
        raise ConfigError(f"{skill.name} is disabled in skills.disabled of {origin}. Remove it there.")
    enabled = settings.config.skills.enabled
    if on and not isinstance(enabled, bool) and skill.name not in enabled:
        origin = settings.origins.get("skills.enabled", "the settings")
        raise ConfigError(f"{skill.name} is not in the list skills.enabled of {origin}. Add it there.")
    open_skill_registry(_require_home(settings)).set_enabled(skill.name, on)
    return "all skills are disabled, because skills.enabled is false" if on and not enabled else ""


def remove_skill(name: str, place: WorkspaceOptions, confirm: Callable[[str], bool]) -> Path | None:
    """Remove a skill from the user's folder, with its files.

    Args:
        name: Name of the skill.
        place: Workspace options.
        confirm: Function that asks the user to confirm the path.

    Returns:
        The removed path; None if the user did not confirm.

    Raises:
        ConfigError: If the skill is unknown, or is not in the user's folder.
    """
    catalog, entries, settings = _load_skills(place)
    home = _require_home(settings)
    target = home.skills / name
    every = (*catalog.skills, *catalog.disabled_skills, *catalog.shadowed)
    own = next((s for s in every if s.name == name and s.source == "user" and _is_inside(s, home.skills)), None)
    if own is not None:
        target = Path(own.path or "").parent if own.directory is not None else Path(own.path or "")
    elif not (os.path.lexists(target) and name in entries):
        other = next((s for s in every if s.name == name), None)
        if other is None:
            raise ConfigError(f"Unknown skill: {name!r}.{_suggestion(name, [s.name for s in every])}")
        how = (
            "To disable it, use `mainspring skills disable`."
            if other.source == "builtin"
            else f"It is in {other.path}."
        )
        raise ConfigError(f"Cannot remove {name}, because it is not in your own folder {home.skills}. {how}")
    if not confirm(str(target)):
        return None
    try:
        if target.is_symlink() or target.is_file():
            target.unlink()
        else:
            shutil.rmtree(target)
    except OSError as error:
        raise ConfigError(f"Cannot remove {target}: {error.strerror or error}.") from error
    open_skill_registry(home).forget(name)
    return target


def new_skill(
    name: str, place: WorkspaceOptions, *, description: str = "", project: bool = False, scripts: bool = False
) -> Path:
    """Create a skill in the user's or the project's folder, and return its file.

    Raises:
        ConfigError: If the name is invalid, or the skill exists.
    """
    cwd, settings = load_rules(place)
    if project:
        top = find_repository(Path(cwd)) or Path(cwd)
        near = next(
            (
                p
                for p in (Path(cwd), *Path(cwd).parents)
                if os.path.isdir(p / PROJECT_FOLDER / "skills") and p.is_relative_to(top)
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
    """Return the chosen skills, with their folders.

    Raises:
        ConfigError: If the choice is ambiguous.
    """
    offer = await source.list_skills()
    problems = "".join(f"\n  {folder or 'the top'}: {reason}" for folder, reason in sorted(offer.problems.items()))
    where = source.spec.url + (f" ({source.spec.path})" if source.spec.path else "")
    if not offer.names:
        raise ConfigError(f"No skills found in {where}{':' + problems if problems else ''}")
    for name in names:
        if name not in offer.names:
            raise ConfigError(
                f"Unknown skill: {name!r} in {where}. Available skills: {', '.join(sorted(offer.names))}{problems}"
            )
    if names or select_all:
        return {name: offer.names[name] for name in names or sorted(offer.names)}
    if len(offer.names) > 1:
        raise ConfigError(
            f"{len(offer.names)} skills found in {where}: {', '.join(sorted(offer.names))}. Choose some with --skill, or use --all."
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
        text = f"{home.skills / name} was written or changed by you. To replace it, use --force."
        return PendingSkill(name=name, done=SkillChange(name=name, what="failed", text=text))
    return await asyncio.to_thread(_pending, candidate, home, "installed")


def _has_local_changes(name: str, home: UserPaths) -> bool:
    """Return True if the files of a skill differ from those that were installed."""
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
        return describe_failure("unchanged", "pinned to a commit")
    try:
        _require_online(spec, place)
        async with open_source(spec) as source:
            candidate = await source.stage(origin.path, home.skills)
    except ConfigError as error:
        return describe_failure("failed", str(error))
    newer, by_hand = candidate.origin.digest != origin.digest, await asyncio.to_thread(_has_local_changes, name, home)
    problem = ""
    if newer and candidate.skill.name != name:
        problem = f"The skill was renamed to {candidate.skill.name}. Install it with that name."
    elif newer and by_hand and not force:
        problem = "You changed its files since they were installed. To replace them, use --force."
    elif newer or (by_hand and force):
        return await asyncio.to_thread(_pending, candidate, home, "updated")
    await asyncio.to_thread(discard_staged, [candidate])
    note = "You changed its files since they were installed. To restore them, use --force." if by_hand else ""
    return describe_failure("failed", problem) if problem else describe_failure("unchanged", note)


def _load_skills(place: WorkspaceOptions) -> tuple[SkillCatalog, dict[str, SkillState], Settings]:
    cwd, settings = load_rules(place)
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
        reason = f" {broken.path} was not loaded: {broken.reason}" if broken else _suggestion(name, known)
        raise ConfigError(f"Unknown skill: {name!r}.{reason}")
    return found


def _suggestion(name: str, known: Mapping[str, object] | Sequence[str]) -> str:
    hint = suggest_name(name, known, f"Available skills: {', '.join(sorted(known))}" if known else "")
    return hint and f" {hint}"


def _require_home(settings: Settings) -> UserPaths:
    if settings.home is None:
        raise ConfigError("Cannot find your home directory. Set MAINSPRING_HOME.")
    return settings.home


def _is_inside(skill: Skill, folder: Path) -> bool:
    return skill.path is not None and Path(skill.path).is_relative_to(folder)


def _require_online(spec: InstallSpec, place: WorkspaceOptions) -> None:
    if place.offline and spec.is_remote:
        raise ConfigError(f"Cannot download {spec.url} with --offline.")
