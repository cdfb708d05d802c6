"""Text of skills on its way to a model: nothing hidden in it, and nothing that ends the envelope it stands in.

The instructions of a skill, read when they are needed: a catalogue of thousands keeps none in memory.

The files of a skill: what is inside its folder, and nothing else.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from mainspring.env import ExecutionEnv, RealPath
from mainspring.frontmatter import parse_fields_and_body
from mainspring.lazy import lazy_re
from mainspring.permissions.sensitive_paths import SensitivePaths
from mainspring.skills.skill import Skill, SkillError

CONTENT_TAG, CATALOG_TAG = "skill_content", "available_skills"
"""The envelopes: of a skill's text, and of the list of skills."""


_HIDDEN = lazy_re(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
    "|[\ufe00-\ufe0f]{2,}"
)
"""What nobody sees and a model reads: controls, marks that reorder text, tag characters, runs of variation selectors. Joiners stay:
scripts need them.
"""
_BREAKS = lazy_re("\r\n?|[\u2028\u2029\x85]")
_MARKS = lazy_re(rf"<(?=\s*[/\\]?\s*(?:{CONTENT_TAG}|{CATALOG_TAG}))", re.IGNORECASE)


def strip_invisible(text: str) -> str:
    """The text without hidden characters, its lines ended by line feeds alone."""
    return _HIDDEN.sub("", _BREAKS.sub("\n", text))


def escape_for_tag(text: str) -> str:
    """The text as it may stand in an envelope: clean, and without a mark that would end or begin one."""
    return _MARKS.sub("&lt;", strip_invisible(text))


def to_single_line(text: str, limit: int = 1024) -> str:
    """The text on one line that can be read as nothing but text: clean, ``<`` and ``>`` escaped, cut to so many characters."""
    plain = " ".join(strip_invisible(text).split())
    if len(plain) > limit:
        plain = f"{plain[: limit - 1].rstrip()}…"
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str) -> str:
    """The text as the value of an attribute."""
    return to_single_line(text).replace('"', "&quot;")


MAX_FILE_BYTES = 1 << 20
"""Bytes of a skill's file beyond which it is none."""


_EXAMPLES = lazy_re(r"^(#{1,6})[ \t]+(?:[^\n]*\b)?examples?\b[^\n]*$", re.IGNORECASE | re.MULTILINE)
_FENCED = lazy_re(r"^(`{3,}|~{3,}).*?(?:^\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_SHELL = lazy_re(r"!`([^`\n]+)`")


def read_text(path: Path) -> str:
    """The text of a skill's file, with a line feed alone as its end of line. Blocks.

    Raises:
        SkillError: If it is too large, or no text.
        OSError: If it cannot be read.
    """
    with path.open("rb") as file:
        return decode_skill_file(file.read(MAX_FILE_BYTES + 1))


def decode_skill_file(data: bytes) -> str:
    """The text of a skill's file from its bytes.

    Raises:
        SkillError: If it is too large, or no text.
    """
    if len(data) > MAX_FILE_BYTES:
        raise SkillError(
            f"it is larger than {MAX_FILE_BYTES >> 10} KiB; put what is seldom needed into files beside it"
        )
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SkillError(f"it is not UTF-8 (byte {error.start}); save it as UTF-8", line=0 if utf16 else line) from None
    if "\0" in text:
        raise SkillError("it is no text: it holds a zero byte")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_body(skill: Skill) -> str:
    """The instructions: the Markdown behind the head, without characters that a person could not see. Blocks.

    Raises:
        SkillError: If the file is gone or cannot be read any more.
    """
    if skill.text is not None or skill.path is None:
        return strip_invisible(skill.text or "").strip()
    try:
        return strip_invisible(parse_fields_and_body(read_text(Path(skill.path)))[1]).strip()
    except OSError as error:
        raise SkillError(f"{skill.path}: cannot be read any more: {error.strerror or error}") from None
    except SkillError as error:
        raise SkillError(f"{skill.path}: {error}", line=error.line) from None


def extract_examples(body: str) -> str:
    """What stands below the first heading that speaks of examples, up to the next heading of its level; empty if there is none."""
    plain = _FENCED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), body)  # what is in a fence is no heading
    found = _EXAMPLES.search(plain)
    if found is None:
        return ""
    end = re.compile(rf"^#{{1,{len(found[1])}}}[ \t]", re.MULTILINE).search(plain, found.end())
    return body[found.end() : end.start() if end else len(body)].strip()


def find_shell_commands(body: str) -> tuple[str, ...]:
    """The commands that the text would have run when it is used: those of ``!`command` ``, each once."""
    return tuple(dict.fromkeys(_SHELL.findall(body)))


MAX_LISTED = 60
"""Files that are named to the model."""


_DEPTH = 4
_MOST_WALKED = 2_000
_standard = lru_cache(1)(SensitivePaths.standard)


class OutsideFolderError(ValueError):
    """A path that does not stay in the skill's folder; the text says what to do."""


def is_within(folder: str, root: str) -> bool:
    """Whether a folder is another one, or lies in it; both are real paths."""
    return folder == root or folder.startswith(root.rstrip("/") + "/")


async def resolve_skill_path(env: ExecutionEnv, folder: str, path: str) -> RealPath:
    """The real path of a file of a skill.

    Args:
        env: Where the folder is.
        folder: The skill's folder.
        path: As a model wrote it: relative to the folder, with ``/``.

    Raises:
        OutsideError: If it leads out of the folder, by itself or by a link, or to what may hold secrets.
        OSError: If it cannot be looked at.
    """
    parts = path.replace("\\", "/").split("/")
    if not path.strip() or "\0" in path or path.startswith(("/", "\\", "~")) or ".." in parts or ":" in parts[0]:
        raise OutsideFolderError(f"{path!r} is no path in the skill's folder; give one like references/guide.md")
    root = await env.realpath(folder)
    real = await env.realpath(posixpath.join(root, *[p for p in parts if p not in ("", ".")]))
    if not is_within(real, root):
        raise OutsideFolderError(f"{path!r} is a link that leads out of the skill's folder; it is not followed")
    inner = tuple(part.casefold() for part in real[len(root) :].split("/") if part)
    if _is_secret(inner):
        raise OutsideFolderError(f"{path!r} may hold keys or passwords, so it is not read as part of a skill")
    return RealPath(real)


async def list_files(env: ExecutionEnv, folder: str) -> tuple[Sequence[str], int]:
    """The files of a skill beside its own text, sorted, as far as there is room, and how many there are.

    Hidden ones, links, and what may hold secrets are left out.
    """
    try:
        walk = await env.walk(folder, depth=_DEPTH, limit=_MOST_WALKED)
    except OSError:
        return (), 0
    found: list[str] = []
    for entry in walk.entries:
        parts = tuple(entry.path.split("/"))
        if entry.kind != "file" or any(p.startswith((".", "__")) for p in parts):
            continue
        if entry.path in ("SKILL.md", "skill.md") or entry.path.endswith(".skill.md"):
            continue
        if not _is_secret(tuple(p.casefold() for p in parts)):
            found.append(entry.path)
    return sorted(found)[:MAX_LISTED], len(found)


def _is_secret(parts: tuple[str, ...]) -> bool:
    """Whether a path may hold keys or passwords. A guide about them is none, whatever its name."""
    if parts and parts[-1].endswith((".md", ".markdown", ".rst")):
        parts = parts[:-1]
    return bool(parts) and bool(_standard().why(parts, parts, changes=False))
