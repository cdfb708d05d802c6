"""The text and files of a skill.

Text for a model is cleaned: it contains no hidden characters and cannot end its envelope. Instructions are read when needed: a
catalog of thousands of skills keeps none in memory. Files are restricted to the skill's folder.
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
"""The tags around a skill's text, and around the list of skills."""


_HIDDEN = lazy_re(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
    "|[\ufe00-\ufe0f]{2,}"
)
"""Characters that users do not see and a model reads: controls, bidirectional marks, tag characters, runs of variation selectors.
Joiners stay: scripts need them.
"""
_BREAKS = lazy_re("\r\n?|[\u2028\u2029\x85]")
_MARKS = lazy_re(rf"<(?=\s*[/\\]?\s*(?:{CONTENT_TAG}|{CATALOG_TAG}))", re.IGNORECASE)


def strip_invisible(text: str) -> str:
    """Remove hidden characters, and end lines with line feeds."""
    return _HIDDEN.sub("", _BREAKS.sub("\n", text))


def escape_for_tag(text: str) -> str:
    """Return cleaned text that cannot start or end a tag."""
    return _MARKS.sub("&lt;", strip_invisible(text))


def to_single_line(text: str, limit: int = 1024) -> str:
    """Return the text on one line: cleaned, ``<`` and ``>`` escaped, truncated."""
    plain = " ".join(strip_invisible(text).split())
    if len(plain) > limit:
        plain = f"{plain[: limit - 1].rstrip()}…"
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str) -> str:
    """Return the text as an attribute value."""
    return to_single_line(text).replace('"', "&quot;")


MAX_FILE_BYTES = 1 << 20
"""Maximum bytes of a skill file."""


_EXAMPLES = lazy_re(r"^(#{1,6})[ \t]+(?:[^\n]*\b)?examples?\b[^\n]*$", re.IGNORECASE | re.MULTILINE)
_FENCED = lazy_re(r"^(`{3,}|~{3,}).*?(?:^\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_SHELL = lazy_re(r"!`([^`\n]+)`")


def read_text(path: Path) -> str:
    """Read a skill file, with line feeds as line ends. Blocks.

    Raises:
        SkillError: If it is too large or not text.
        OSError: If it cannot be read.
    """
    with path.open("rb") as file:
        return decode_skill_file(file.read(MAX_FILE_BYTES + 1))


def decode_skill_file(data: bytes) -> str:
    """Decode the bytes of a skill file.

    Raises:
        SkillError: If it is too large or not text.
    """
    if len(data) > MAX_FILE_BYTES:
        raise SkillError(f"it is larger than {MAX_FILE_BYTES >> 10} KiB; move rarely used parts into separate files")
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SkillError(f"it is not UTF-8 (byte {error.start}); save it as UTF-8", line=0 if utf16 else line) from None
    if "\0" in text:
        raise SkillError("it is not text: it contains a zero byte")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_body(skill: Skill) -> str:
    """Read the instructions: the Markdown after the front matter, without hidden characters. Blocks.

    Raises:
        SkillError: If the file is missing or can no longer be read.
    """
    if skill.text is not None or skill.path is None:
        return strip_invisible(skill.text or "").strip()
    try:
        return strip_invisible(parse_fields_and_body(read_text(Path(skill.path)))[1]).strip()
    except OSError as error:
        raise SkillError(f"{skill.path}: it can no longer be read: {error.strerror or error}") from None
    except SkillError as error:
        raise SkillError(f"{skill.path}: {error}", line=error.line) from None


def extract_examples(body: str) -> str:
    """Return the section under the first heading about examples. Empty if there is none."""
    plain = _FENCED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), body)  # A line in a fenced block is not a heading.
    found = _EXAMPLES.search(plain)
    if found is None:
        return ""
    end = re.compile(rf"^#{{1,{len(found[1])}}}[ \t]", re.MULTILINE).search(plain, found.end())
    return body[found.end() : end.start() if end else len(body)].strip()


def find_shell_commands(body: str) -> tuple[str, ...]:
    """Return the commands that the text runs when used, those of ``!`command` ``, without duplicates."""
    return tuple(dict.fromkeys(_SHELL.findall(body)))


MAX_LISTED = 60
"""Maximum number of files that are listed for the model."""


_DEPTH = 4
_MOST_WALKED = 2_000
_standard = lru_cache(1)(SensitivePaths.standard)


class OutsideFolderError(ValueError):
    """A path outside the skill's folder. The message says what to do."""


def is_within(folder: str, root: str) -> bool:
    """Return True if a folder equals or is inside another. Both are real paths."""
    return folder == root or folder.startswith(root.rstrip("/") + "/")


async def resolve_skill_path(env: ExecutionEnv, folder: str, path: str) -> RealPath:
    """Return the real path of a skill's file.

    Args:
        env: The environment with the folder.
        folder: The skill's folder.
        path: A path by the model: relative to the folder, with ``/``.

    Raises:
        OutsideFolderError: If it is outside the folder, directly or by a link, or may contain secrets.
        OSError: If it cannot be accessed.
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
    """List the files of a skill except its own text, sorted, up to the limit, and count them.

    Hidden files, links, and files that may contain secrets are omitted.
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
    """Return True if a path may contain keys or passwords. A guide about them does not count, regardless of its name."""
    if parts and parts[-1].endswith((".md", ".markdown", ".rst")):
        parts = parts[:-1]
    return bool(parts) and bool(_standard().why(parts, parts, changes=False))
