"""Checks of skills: violations of the format, problems for Mainspring, and missing requirements. Nothing is started or installed."""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import unquote

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.skills.content import read_body
from mainspring.skills.discovery import SUFFIX, SkillFile, load_skill, scan_folder
from mainspring.skills.skill import Skill, SkillError

FIELDS = frozenset({"name", "description", "license", "allowed-tools", "metadata", "compatibility"})
MAX_NAME_CHARS, MAX_DESCRIPTION_CHARS, MAX_COMPATIBILITY_CHARS = 64, 1024, 500


SpecRule = Literal[
    "file-missing",
    "text-encoding",
    "head-missing",
    "head-open",
    "yaml",
    "no-map",
    "unknown-fields",
    "name-missing",
    "name-empty",
    "name-long",
    "name-case",
    "name-hyphen-outside",
    "name-hyphens",
    "name-characters",
    "name-folder",
    "description-missing",
    "description-empty",
    "description-long",
    "compatibility-text",
    "compatibility-long",
]


class RuleViolation(Struct, frozen=True):
    """A violated rule.

    Attributes:
        rule: The rule.
        text: The problem.
        line: The line of the file. 0 if unknown.
    """

    rule: SpecRule
    text: str
    line: int = 0


def check_spec(text: str, folder: str) -> tuple[RuleViolation, ...]:
    """Return the findings of the reference validator for a ``SKILL.md``, in its order. Empty for a valid file.

    Args:
        text: The file's text, including a byte order mark.
        folder: Name of its folder.
    """
    if not text.startswith("---"):
        return (RuleViolation("head-missing", "the file does not start with --- at its very first character", 1),)
    parts = text.split("---", 2)
    if len(parts) < 3:
        return (RuleViolation("head-open", "the front matter has no closing ---", 1),)
    fields = _strict_yaml(parts[1])
    if isinstance(fields, RuleViolation):
        return (fields,)
    return (*_check_unknown_fields(fields), *_name(fields, folder), *_description(fields), *_compatibility(fields))


def _strict_yaml(raw: str) -> dict[str, Any] | RuleViolation:
    """Parse the fields of plain YAML: no ``[a, b]`` or ``{a: b}``, no tags, no anchors, no duplicate keys."""
    import yaml

    reader: Any = yaml  # its type stubs omit parameters and results of these functions
    loader = yaml.SafeLoader  # the C parser accepts a tab before a value
    raw = raw.replace("\u2028", " ").replace("\u2029", " ")  # YAML 1.2 has no such line ends
    try:
        for token in reader.scan(raw, Loader=loader):
            what = _DISALLOWED.get(type(token).__name__)
            if what is not None:
                return RuleViolation(
                    "yaml",
                    f"{what} is not allowed; put the text in quotes if it is meant literally",
                    token.start_mark.line + 1,
                )
        node = reader.compose(raw, Loader=loader)
        if not isinstance(node, yaml.MappingNode):
            return RuleViolation("no-map", "its front matter is not a map of fields", 1)
        odd = _check_map(node, 0)
        return odd if odd is not None else cast("dict[str, Any]", _plain(node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return RuleViolation("yaml", f"invalid YAML: {error.problem or error.context}", mark.line + 1 if mark else 0)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return RuleViolation("yaml", f"invalid YAML: {' '.join(str(error).split())[:200]}")


_DISALLOWED = {
    "FlowSequenceStartToken": "a list in brackets",
    "FlowMappingStartToken": "a map in braces",
    "TagToken": "a tag (!)",
    "AnchorToken": "an anchor (&)",
    "AliasToken": "a reference to an anchor (*)",
}
_MAX_DEPTH = 50


def _check_map(node: Any, depth: int) -> RuleViolation | None:
    """Raise for a duplicate key, or for maps with different indentation."""
    import yaml

    if depth > _MAX_DEPTH:
        return RuleViolation("yaml", "it is nested too deeply", node.start_mark.line + 1)
    seen: set[str] = set()
    column = -1
    for pair in node.value:
        key, value = pair if isinstance(node, yaml.MappingNode) else (None, pair)
        if key is not None and str(key.value) in seen:
            return RuleViolation("yaml", f"{str(key.value)[:80]} is a duplicate", key.start_mark.line + 1)
        if key is not None:
            seen.add(str(key.value))
        if isinstance(value, yaml.MappingNode) and key is not None:
            if column not in (-1, value.start_mark.column):
                return RuleViolation("yaml", "its maps have different indentation", value.start_mark.line + 1)
            column = value.start_mark.column
        if isinstance(value, yaml.CollectionNode) and (odd := _check_map(value, depth + 1)) is not None:
            return odd
    return None


def _plain(node: Any) -> Any:
    import yaml

    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(each) for each in node.value]
    return {} if node.tag == "tag:yaml.org,2002:merge" else node.value


def _check_unknown_fields(fields: dict[str, Any]) -> Iterator[RuleViolation]:
    extra = sorted(set(fields) - FIELDS)
    if extra:
        yield RuleViolation(
            "unknown-fields", f"the format has no field {', '.join(extra)}; move other data below metadata"
        )


def _name(fields: dict[str, Any], folder: str) -> Iterator[RuleViolation]:
    value = fields.get("name")
    if "name" not in fields:
        yield RuleViolation("name-missing", "it has no name")
        return
    if not isinstance(value, str) or not value.strip():
        yield RuleViolation("name-empty", "its name is empty or not text")
        return
    name = unicodedata.normalize("NFKC", value.strip())
    if len(name) > MAX_NAME_CHARS:
        yield RuleViolation("name-long", f"its name has {len(name)} characters; the maximum is {MAX_NAME_CHARS}")
    if name != name.lower():
        yield RuleViolation("name-case", f"its name {name!r} has upper-case letters")
    if name.startswith("-") or name.endswith("-"):
        yield RuleViolation("name-hyphen-outside", "its name starts or ends with a hyphen")
    if "--" in name:
        yield RuleViolation("name-hyphens", "its name has two hyphens in a row")
    if not all(c.isalnum() or c == "-" for c in name):
        yield RuleViolation(
            "name-characters", f"its name {name!r} has characters other than letters, digits, and hyphens"
        )
    if unicodedata.normalize("NFKC", folder) != name:
        yield RuleViolation("name-folder", f"its name {name!r} differs from that of its folder, {folder!r}")


def _description(fields: dict[str, Any]) -> Iterator[RuleViolation]:
    value = fields.get("description")
    if "description" not in fields:
        yield RuleViolation("description-missing", "it has no description")
    elif not isinstance(value, str) or not value.strip():
        yield RuleViolation("description-empty", "its description is empty or not text")
    elif len(value) > MAX_DESCRIPTION_CHARS:
        yield RuleViolation(
            "description-long", f"its description has {len(value)} characters; the maximum is {MAX_DESCRIPTION_CHARS}"
        )


def _compatibility(fields: dict[str, Any]) -> Iterator[RuleViolation]:
    value = fields.get("compatibility", "")
    if not isinstance(value, str):
        yield RuleViolation("compatibility-text", "its compatibility is not text")
    elif len(value) > MAX_COMPATIBILITY_CHARS:
        yield RuleViolation(
            "compatibility-long",
            f"its compatibility has {len(value)} characters; the maximum is {MAX_COMPATIBILITY_CHARS}",
        )


_PACKAGE = lazy_re(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE = lazy_re(r"[A-Za-z_]\w*")
_PROGRAM = lazy_re(r"[\w.+-]+")
_WORD = lazy_re(r"[A-Za-z][A-Za-z0-9.+-]*[A-Za-z0-9+]|[A-Za-z]")
_NEEDS = lazy_re(r"\b(?:requires?|needs?|depends on|must have|install(?:ed)?)\b", re.IGNORECASE)
_SHEBANG = lazy_re(rb"#![ \t]*(?:\S*/env[ \t]+(?:-\S+[ \t]+)*)?(?:\S*/)?([\w.+-]+)")
_KNOWN_PROGRAMS = frozenset(
    "git gh glab docker podman kubectl helm terraform jq yq rg node npm npx pnpm yarn bun deno python3 pip pipx uv uvx ruff cargo "
    "go java mvn gradle dotnet ruby php perl make cmake gcc ffmpeg pandoc pdftotext tesseract libreoffice soffice latexmk pdflatex "
    "xelatex sqlite3 psql mysql redis-cli aws az gcloud azd curl wget ssh rsync tmux playwright".split()
)
"""Programs that a sentence about compatibility may name; other words there are words."""


class MissingRequirement(Struct, frozen=True):
    """A requirement of a skill that this machine does not meet.

    Attributes:
        kind: ``program``, ``package`` (of Python) or ``variable``.
        name: Its name.
        text: The missing requirement and its reason, for users.
    """

    kind: Literal["program", "package", "variable"]
    name: str
    text: str


def find_missing(
    skill: Skill,
    *,
    environ: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
    has_package: Callable[[str], bool] | None = None,
) -> tuple[MissingRequirement, ...]:
    """Find the missing requirements of a skill. Blocks, since it reads the first line of its scripts.

    Args:
        skill: The skill.
        environ: Environment variables.
        which: Finds a program.
        has_package: Returns True if a package is installed next to Mainspring, where toolsets run.
    """
    has = has_package or _has_package
    found: dict[tuple[str, str], MissingRequirement] = {}
    for kind, name, reason in _iter_requirements(skill):
        if kind == "program" and which(name) is None:
            found.setdefault(
                (kind, name), MissingRequirement("program", name, f"the program {name} is not on PATH ({reason})")
            )
        elif kind == "package" and not has(name):
            text = f"the Python package {name} is not installed where Mainspring runs ({reason})"
            found.setdefault((kind, name), MissingRequirement("package", name, text))
        elif kind == "variable" and not environ.get(name):
            found.setdefault(
                (kind, name), MissingRequirement("variable", name, f"the variable {name} is not set ({reason})")
            )
    return tuple(found.values())


def _iter_requirements(skill: Skill) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, name, and reason of each requirement."""
    for text in skill.requires:
        kind, _, rest = text.rpartition(":")
        name = rest.strip()
        if kind.strip().lower() in ("python", "pip", "package") and (package := _PACKAGE.match(name)):
            yield "package", package[0], "listed in requires"
        elif kind.strip().lower() in ("env", "variable") and _VARIABLE.fullmatch(name):
            yield "variable", name, "listed in requires"
        elif program := _PROGRAM.match(name):
            yield "program", program[0], "listed in requires"
    compatibility = skill.compatibility or ""
    if _NEEDS.search(compatibility):
        for word in _WORD.findall(compatibility):
            if word in _KNOWN_PROGRAMS or word.lower() in _KNOWN_PROGRAMS:
                yield "program", word.lower(), "its compatibility names it"
    if skill.directory is not None:
        for script in skill.scripts:
            program = _read_shebang(Path(skill.directory) / script.path)
            if program:
                yield "program", program, f"its script {script.path} begins with it"


def _read_shebang(path: Path) -> str:
    """Return the program in the first line of a script; empty if it names no program."""
    try:
        with path.open("rb") as file:
            found = _SHEBANG.match(file.read(256))
    except OSError:
        return ""
    return found[1].decode("ascii", "replace") if found else ""


def _has_package(name: str) -> bool:
    try:
        distribution(name)
    except (PackageNotFoundError, ValueError):
        return False
    return True


RECOMMENDED_LINES = 500
_LINK = lazy_re(r"\]\(<?([^)\s>#]+)[^)]*\)")
_FENCED = lazy_re(r"^(`{3,}|~{3,}).*?(?:^\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


class Verdict(Struct, frozen=True, kw_only=True):
    """The result of the checks of a file.

    Attributes:
        path: The file, or the folder without a file.
        name: The name of its skill; empty if it cannot be loaded.
        valid: True if the reference validator would report nothing.
        faults: The violations that it would report.
        loads: True if Mainspring can load the skill.
        reason: The error of a skill that cannot be loaded; else empty.
        warnings: Other problems.
    """

    path: str
    name: str = ""
    valid: bool
    faults: tuple[RuleViolation, ...] = ()
    loads: bool
    reason: str = ""
    warnings: tuple[str, ...] = ()


def check_skills(path: Path) -> tuple[Verdict, ...]:
    """Check a skill's folder or file, or all skills in a folder. Blocks.

    Raises:
        SkillError: If the path does not exist.
    """
    if not os.path.exists(path):
        raise SkillError(f"{path} does not exist.")
    if os.path.isfile(path):
        single = path.name.lower().endswith(SUFFIX)
        return (_check_file(SkillFile(path, None if single else path.parent, str(path))),)
    places = scan_folder(path)
    verdicts = [_check_file(place) for place in places.found]
    if not verdicts:
        fault = RuleViolation("file-missing", "it contains no SKILL.md")
        return (Verdict(path=str(path), valid=False, faults=(fault,), loads=False, reason=fault.text),)
    verdicts += [
        Verdict(path=p.path, valid=False, loads=False, reason=p.reason) for p in places.problems if p.level == "error"
    ]
    return tuple(sorted(verdicts, key=lambda v: v.path))


def _check_file(place: SkillFile) -> Verdict:
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
        warnings=(*skill.warnings, *suggest_improvements(skill)),
    )


def _faults(place: SkillFile) -> tuple[RuleViolation, ...]:
    if place.folder is not None and place.file.name not in ("SKILL.md", "skill.md"):
        return (RuleViolation("file-missing", f"the file must be called SKILL.md, not {place.file.name}"),)
    try:
        text = place.file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        return (RuleViolation("text-encoding", f"it is not UTF-8 (byte {error.start})"),)
    except OSError as error:
        return (RuleViolation("file-missing", f"it cannot be read: {error.strerror or error}"),)
    folder = place.folder.resolve().name if place.folder is not None else place.file.name[: -len(SUFFIX)]
    return check_spec(text.replace("\r\n", "\n").replace("\r", "\n"), folder)


def suggest_improvements(skill: Skill) -> tuple[str, ...]:
    """Return suggestions for a skill that can be loaded: about its text and its requirements. Blocks."""
    try:
        body = read_body(skill)
    except SkillError as error:
        return (str(error),)
    found: list[str] = []
    lines = body.count("\n") + 1
    if not body:
        found.append("it has no instructions after its front matter")
    elif lines > RECOMMENDED_LINES:
        found.append(
            f"its text has {lines} lines; move rarely needed parts to other files (recommended: at most {RECOMMENDED_LINES} lines)"
        )
    if skill.directory is not None:
        root = Path(skill.directory)
        targets = [t for t in dict.fromkeys(_LINK.findall(_FENCED.sub("", body))) if _is_file(t)]
        found += [f"its text links to {t}, which does not exist" for t in targets if not (root / unquote(t)).exists()]
    return (*found, *[each.text for each in find_missing(skill)])


def _is_file(target: str) -> bool:
    """Return True if the target of a link is a file of the skill."""
    return ":" not in target and not target.startswith(("/", "#", "$", "{"))
