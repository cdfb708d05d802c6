"""What is wrong with files of skills: by the letter of the format, and by what Mainspring makes of them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.skills.content import read_body
from mainspring.skills.discovery import SUFFIX, Place, places_in
from mainspring.skills.requires import lacking
from mainspring.skills.skill import Skill, SkillError
from mainspring.skills.sources import load_skill
from mainspring.skills.strict_validation import Fault, strict_faults

ADVISED_LINES = 500
_LINK = lazy_re(r"\]\(<?([^)\s>#]+)[^)]*\)")
_FENCED = lazy_re(r"^(`{3,}|~{3,}).*?(?:^\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


class Verdict(Struct, frozen=True, kw_only=True):
    """What is to be said of one file.

    Attributes:
        path: The file, or the folder that has none.
        name: The name of the skill that it gives; empty if it gives none.
        valid: Whether the reference validator would find nothing.
        faults: What it would find.
        loads: Whether Mainspring takes it as a skill.
        reason: Why not; empty if it does.
        warnings: What else is odd.
    """

    path: str
    name: str = ""
    valid: bool
    faults: tuple[Fault, ...] = ()
    loads: bool
    reason: str = ""
    warnings: tuple[str, ...] = ()


def check_skills(path: Path) -> tuple[Verdict, ...]:
    """Look at a skill's folder or file, or at all skills in a folder. Blocks.

    Raises:
        SkillError: If there is nothing there.
    """
    if not path.exists():
        raise SkillError(f"there is no {path}")
    if path.is_file():
        single = path.name.lower().endswith(SUFFIX)
        return (_of(Place(path, None if single else path.parent, str(path))),)
    places = places_in(path)
    verdicts = [_of(place) for place in places.found]
    if not verdicts:
        fault = Fault("file-missing", "there is no SKILL.md in it")
        return (Verdict(path=str(path), valid=False, faults=(fault,), loads=False, reason=fault.text),)
    verdicts += [
        Verdict(path=p.path, valid=False, loads=False, reason=p.reason) for p in places.problems if p.level == "error"
    ]
    return tuple(sorted(verdicts, key=lambda v: v.path))


def _of(place: Place) -> Verdict:
    faults = _faults(place)
    try:
        skill = load_skill(place, "user", trusted=True)
    except SkillError as error:
        reason = f"line {error.line}: {error}" if error.line else str(error)
        return Verdict(path=str(place.file), valid=not faults, faults=faults, loads=False, reason=reason)
    return Verdict(
        path=str(place.file),
        name=skill.name,
        valid=not faults,
        faults=faults,
        loads=True,
        warnings=(*skill.warnings, *advice(skill)),
    )


def _faults(place: Place) -> tuple[Fault, ...]:
    if place.folder is not None and place.file.name not in ("SKILL.md", "skill.md"):
        return (Fault("file-missing", f"the file must be called SKILL.md, not {place.file.name}"),)
    try:
        text = place.file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        return (Fault("text-encoding", f"it is not UTF-8 (byte {error.start})"),)
    except OSError as error:
        return (Fault("file-missing", f"it cannot be read: {error.strerror or error}"),)
    folder = place.folder.resolve().name if place.folder is not None else place.file.name[: -len(SUFFIX)]
    return strict_faults(text.replace("\r\n", "\n").replace("\r", "\n"), folder)


def advice(skill: Skill) -> tuple[str, ...]:
    """What could be better about a skill that loads, its text and its needs included. Blocks."""
    try:
        body = read_body(skill)
    except SkillError as error:
        return (str(error),)
    found: list[str] = []
    lines = body.count("\n") + 1
    if not body:
        found.append("it has no instructions behind its head")
    elif lines > ADVISED_LINES:
        found.append(
            f"its text has {lines} lines; put what is seldom needed into files beside it ({ADVISED_LINES} are plenty)"
        )
    if skill.directory is not None:
        root = Path(skill.directory)
        targets = [t for t in dict.fromkeys(_LINK.findall(_FENCED.sub("", body))) if _is_file(t)]
        found += [
            f"its text links to {t}, and there is no such file" for t in targets if not (root / unquote(t)).exists()
        ]
    return (*found, *[each.text for each in lacking(skill)])


def _is_file(target: str) -> bool:
    """Whether the target of a link is meant as a file beside the text."""
    return ":" not in target and not target.startswith(("/", "#", "$", "{"))
