"""The instructions of a skill, read when they are needed: a catalogue of thousands keeps none in memory."""

from __future__ import annotations

import re
from pathlib import Path

from mainspring.frontmatter import split_front_matter
from mainspring.lazy import lazy_re
from mainspring.skills.envelope import clean
from mainspring.skills.skill import Skill, SkillError

LARGEST = 1 << 20
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
        return decode(file.read(LARGEST + 1))


def decode(data: bytes) -> str:
    """The text of a skill's file from its bytes.

    Raises:
        SkillError: If it is too large, or no text.
    """
    if len(data) > LARGEST:
        raise SkillError(f"it is larger than {LARGEST >> 10} KiB; put what is seldom needed into files beside it")
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
        return clean(skill.text or "").strip()
    try:
        return clean(split_front_matter(read_text(Path(skill.path)))[1]).strip()
    except OSError as error:
        raise SkillError(f"{skill.path}: cannot be read any more: {error.strerror or error}") from None
    except SkillError as error:
        raise SkillError(f"{skill.path}: {error}", line=error.line) from None


def examples_of(body: str) -> str:
    """What stands below the first heading that speaks of examples, up to the next heading of its level; empty if there is none."""
    plain = _FENCED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), body)  # what is in a fence is no heading
    found = _EXAMPLES.search(plain)
    if found is None:
        return ""
    end = re.compile(rf"^#{{1,{len(found[1])}}}[ \t]", re.MULTILINE).search(plain, found.end())
    return body[found.end() : end.start() if end else len(body)].strip()


def shell_lines(body: str) -> tuple[str, ...]:
    """The commands that the text would have run when it is used: those of ``!`command` ``, each once."""
    return tuple(dict.fromkeys(_SHELL.findall(body)))
