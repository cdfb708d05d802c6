"""Commands that take whole folders along, so that a rule about what lies in them is about the command.

Those that only read by the table are known better; this is for what the table does not know, and in doubt it takes more folders.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.commands import Unit
from mainspring.shell_analysis.file_reads import Reading
from mainspring.shell_analysis.options import holds
from mainspring.shell_analysis.readonly_programs import READERS
from mainspring.shell_analysis.words import Word, program

_WHOLE: Mapping[str, re.Pattern[str]] = {
    "cp": lazy_re(r"-[A-Za-z]*[aRr][A-Za-z]*|--recursive|--archive"),
    "rsync": lazy_re(r"-[A-Za-z]*[ar][A-Za-z]*|--recursive|--archive"),
    "scp": lazy_re(r"-[A-Za-z]*r[A-Za-z]*"),
    "tar": lazy_re(r"-?[A-Za-z]*[cru][A-Za-z]*|--create|--append|--update"),
    "zip": lazy_re(r"-[A-Za-z]*r[A-Za-z]*|--recurse-paths"),
}
"""The options with which a program takes all that lies below its operands."""

_SEARCHES = frozenset(("rg", "ag", "ack", "ugrep", "ug"))
_GREPS = frozenset(("grep", "egrep", "fgrep"))
_DEEP_GREP = ("-r", "-R", "-d", "--recursive", "--dereference-recursive", "--directories")
_HERE = Word(wildcards.HERE, ".")

_LAST_IS_THE_PLACE = frozenset(("cp", "rsync", "scp"))


def copying(unit: Unit) -> Reading | None:
    """What a command takes along with all that lies below; ``None`` if it is no such command."""
    if not unit.words or not unit.words[0].literal:
        return None
    name = program(unit.words[0].text)
    if (
        name in _SEARCHES
        or (name in _GREPS and holds(unit.words, _DEEP_GREP))
        or (name == "diff" and holds(unit.words, ("-r", "--recursive")))
    ):
        return Reading((_HERE, *_operands(unit.words[1:])), deep=True)
    if name == "git":
        return _git(unit)
    if name == "find" and unit.inner:
        return Reading(tuple(touch.word for touch in unit.touches), deep=True)
    if name == "xargs" and unit.inner and not _says_only(unit.inner[0]):
        return Reading((_HERE,), deep=True)
    whole, rest = _WHOLE.get(name), unit.words[1:]
    if whole is None:
        return None
    dashed = {number for number, word in enumerate(rest) if word.text.startswith("-")}
    options = dashed | {0} if name == "tar" else dashed  # tar takes its options without a dash, too
    texts = [word.text.partition("=")[0] for number, word in enumerate(rest) if number in options]
    if not any(whole.fullmatch(text) or _shortened(whole, text) for text in texts):
        return None
    paths = tuple(word for number, word in enumerate(rest) if number not in options)
    return Reading(paths[:-1] if name in _LAST_IS_THE_PLACE else paths, deep=True)


def _operands(words: Sequence[Word]) -> list[Word]:
    return [word for word in words if not word.text.startswith("-")]


def _says_only(unit: Unit) -> bool:
    """Whether a command opens nothing that its words name."""
    reader = READERS.get(program(unit.words[0].text)) if unit.words else None
    return reader is not None and reader.operands in ("text", "none", "program")


def _shortened(whole: re.Pattern[str], text: str) -> bool:
    """Whether a long option is the beginning of one of those that take everything."""
    long = [name for name in whole.pattern.split("|") if name.startswith("--")]
    return len(text) > 3 and any(name.startswith(text) for name in long)


def _git(unit: Unit) -> Reading | None:
    """Searches that go beyond what the repository holds, and archives of it."""
    words = [word.text for word in unit.words[1:]]
    beyond = holds(unit.words, ("--no-index", "--untracked", "--no-exclude-standard"))
    if "archive" in words or beyond:
        return Reading((_HERE, *_operands(unit.words[1:])), deep=True)
    return None
