"""What an installation would bring, and what it would change, for people to decide on."""

from __future__ import annotations

import difflib
import hashlib
import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from mainspring.counting import counted
from mainspring.skills.content import read_body, shell_lines
from mainspring.skills.envelope import clean
from mainspring.skills.requires import Lacking, lacking
from mainspring.skills.skill import Script, Skill

_DIFF_LINES = 200


class Preview(Struct, frozen=True, kw_only=True):
    """What an installation would bring.

    Attributes:
        name: The skill's name.
        description: What it is for.
        files: Its files.
        size: Their bytes.
        scripts: Its programs.
        toolsets: Classes that would run inside Mainspring.
        allowed_tools: The tools that it limits a conversation to; ``None`` if it does not.
        shell_lines: Commands in its text that run when it is used.
        lacking: What it needs and is missing here.
        warnings: What is odd about it.
        replaces: Whether one of that name is there already.
    """

    name: str
    description: str
    files: tuple[str, ...]
    size: int
    scripts: tuple[Script, ...] = ()
    toolsets: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    shell_lines: tuple[str, ...] = ()
    lacking: tuple[Lacking, ...] = ()
    warnings: tuple[str, ...] = ()
    replaces: bool = False


class Changes(Struct, frozen=True, kw_only=True):
    """How what would be installed differs from what is there.

    Attributes:
        added: New files.
        removed: Files that go.
        changed: Files with other content.
        instructions: The change of its ``SKILL.md``, line by line.
        by_hand: Whether the files that are there were changed since they were installed.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    instructions: str = ""
    by_hand: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def preview_of(skill: Skill, folder: Path, *, replaces: bool) -> Preview:
    """What a skill in a staging folder would bring. Blocks.

    Raises:
        SkillError: If its text cannot be read.
    """
    contents = _contents(folder)
    text = _readable(contents.get(Path(skill.path or "").name, b""), keep=True)
    hidden = len(text) - len(clean(text))
    odd = (f"{hidden} hidden characters in its text are left out when it is used",) if hidden > 0 else ()
    return Preview(
        name=skill.name,
        description=skill.description,
        files=tuple(sorted(contents)),
        size=sum(len(data) for data in contents.values()),
        scripts=skill.scripts,
        toolsets=skill.toolsets,
        allowed_tools=skill.allowed_tools,
        shell_lines=shell_lines(read_body(skill)),
        lacking=lacking(skill),
        warnings=(*skill.warnings, *odd),
        replaces=replaces,
    )


def changes_between(installed: Path, staged: Path) -> Changes:
    """How what would be installed differs from what is there. Blocks."""
    old, new = _contents(installed), _contents(staged)
    before, after = [_readable(side.get("SKILL.md") or side.get("skill.md") or b"").splitlines() for side in (old, new)]
    lines = list(difflib.unified_diff(before, after, "installed", "new", lineterm="", n=2))
    more = [f"... {counted(len(lines) - _DIFF_LINES, 'more line')}"] if len(lines) > _DIFF_LINES else []
    return Changes(
        added=tuple(sorted(set(new) - set(old))),
        removed=tuple(sorted(set(old) - set(new))),
        changed=tuple(sorted(name for name in set(new) & set(old) if new[name] != old[name])),
        instructions="\n".join([*lines[:_DIFF_LINES], *more]),
    )


def digest_of(folder: Path) -> str:
    """A hash over all files of a skill: names, content, and whether they may be run. Blocks."""
    total = hashlib.sha256()
    for name, data in sorted(_contents(folder).items()):
        path = folder / name
        runs = not path.is_symlink() and os.access(path, os.X_OK)
        total.update(f"{len(name.encode())}:{name}:{int(runs)}:{len(data)}:".encode())
        total.update(data)
    return total.hexdigest()


def _contents(folder: Path) -> dict[str, bytes]:
    """The content of each file, by path; what programs leave behind is none of it."""
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
    return text if keep else clean(text)
