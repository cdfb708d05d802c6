"""What a skill needs of the machine, and what of it is missing. Looks only; nothing is started or installed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Literal

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.skills.skill import Skill

_PACKAGE = lazy_re(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE = lazy_re(r"[A-Za-z_]\w*")
_PROGRAM = lazy_re(r"[\w.+-]+")
_WORD = lazy_re(r"[A-Za-z][A-Za-z0-9.+-]*[A-Za-z0-9+]|[A-Za-z]")
_NEEDS = lazy_re(r"\b(?:requires?|needs?|depends on|must have|install(?:ed)?)\b", re.IGNORECASE)
_SHEBANG = lazy_re(rb"#![ \t]*(?:\S*/env[ \t]+(?:-\S+[ \t]+)*)?(?:\S*/)?([\w.+-]+)")
_KNOWN = frozenset(
    "git gh glab docker podman kubectl helm terraform jq yq rg node npm npx pnpm yarn bun deno python3 pip pipx uv uvx ruff cargo "
    "go java mvn gradle dotnet ruby php perl make cmake gcc ffmpeg pandoc pdftotext tesseract libreoffice soffice latexmk pdflatex "
    "xelatex sqlite3 psql mysql redis-cli aws az gcloud azd curl wget ssh rsync tmux playwright".split()
)
"""Programs that a sentence about compatibility may name; other words there are words."""


class Lacking(Struct, frozen=True):
    """Something that a skill needs and this machine has not.

    Attributes:
        kind: ``program``, ``package`` (of Python) or ``variable``.
        name: Its name.
        text: What is missing and who needs it, for people.
    """

    kind: Literal["program", "package", "variable"]
    name: str
    text: str


def lacking(
    skill: Skill,
    *,
    environ: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
    has_package: Callable[[str], bool] | None = None,
) -> tuple[Lacking, ...]:
    """What is missing for a skill. Blocks: it looks at the first line of its scripts.

    Args:
        skill: The skill.
        environ: The variables.
        which: Finds a program.
        has_package: Says whether a package is installed where Mainspring runs, which is where toolsets run.
    """
    has = has_package or _has_package
    found: dict[tuple[str, str], Lacking] = {}
    for kind, name, why in _needs(skill):
        if kind == "program" and which(name) is None:
            found.setdefault((kind, name), Lacking("program", name, f"the program {name} is not on PATH ({why})"))
        elif kind == "package" and not has(name):
            text = f"the Python package {name} is not installed where Mainspring runs ({why})"
            found.setdefault((kind, name), Lacking("package", name, text))
        elif kind == "variable" and not environ.get(name):
            found.setdefault((kind, name), Lacking("variable", name, f"the variable {name} is not set ({why})"))
    return tuple(found.values())


def _needs(skill: Skill) -> Iterator[tuple[str, str, str]]:
    """What it needs, as kind, name and who says so."""
    for text in skill.requires:
        kind, _, rest = text.rpartition(":")
        name = rest.strip()
        if kind.strip().lower() in ("python", "pip", "package") and (package := _PACKAGE.match(name)):
            yield "package", package[0], "it says so"
        elif kind.strip().lower() in ("env", "variable") and _VARIABLE.fullmatch(name):
            yield "variable", name, "it says so"
        elif program := _PROGRAM.match(name):
            yield "program", program[0], "it says so"
    compatibility = skill.compatibility or ""
    if _NEEDS.search(compatibility):
        for word in _WORD.findall(compatibility):
            if word in _KNOWN or word.lower() in _KNOWN:
                yield "program", word.lower(), "its compatibility names it"
    if skill.directory is not None:
        for script in skill.scripts:
            program = _interpreter(Path(skill.directory) / script.path)
            if program:
                yield "program", program, f"its script {script.path} begins with it"


def _interpreter(path: Path) -> str:
    """The program that the first line of a script names; empty where it names none."""
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
