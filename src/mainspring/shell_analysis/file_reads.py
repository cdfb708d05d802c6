"""Whether a simple command only reads, by the table, and what it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.commands import SYSTEM_FOLDERS, Unit
from mainspring.shell_analysis.git_commands import GitCommand, sort_git_words
from mainspring.shell_analysis.programs import AWK, holds
from mainspring.shell_analysis.readonly_programs import (
    FIND_PATH,
    FIND_PLAIN,
    FIND_TEXT,
    GIT_READERS,
    READERS,
    VERSIONS,
    Reader,
)
from mainspring.shell_analysis.syntax import Word, program

_HERE = Word(wildcards.HERE, ".")
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

_LAST_IS_THE_PLACE = frozenset(("cp", "rsync", "scp"))
_AWK_OPENS = lazy_re(r"print.*>", re.DOTALL)
_JQ_OPENS = lazy_re(r"\b(?:env|ENV|__\w+|import|include|input_filename|modulemeta|debug|stderr|get_search_list)\b")


class Reading(Struct, frozen=True):
    """What a command that only reads opens.

    Attributes:
        paths: The files and folders.
        deep: Whether it shows what all files below them hold.
        tracked: Whether of those only the ones that git does not leave out.
        follows: Whether it follows links on the way.
        only: Patterns of names that it shows, whatever ignore files say; empty if that is not how it looks.
        wild: Words that begin with a wildcard; what they stand for may look like options.
        git: The command of git, which may run what a repository's own settings say; ``None`` for other programs.
    """

    paths: tuple[Word, ...] = ()
    deep: bool = False
    tracked: bool = False
    follows: bool = False
    only: tuple[str, ...] = ()
    wild: tuple[Word, ...] = ()
    git: GitCommand | None = None


def reading(unit: Unit) -> Reading | None:
    """What a command opens if the table says that it only reads; else ``None``.

    A command that runs others is judged by those; this is for one that runs none.
    """
    words = unit.words
    if not words:
        return None
    if words[0].text == "command" and len(words) == 3 and words[1].text in ("-v", "-V"):
        return Reading() if words[2].literal and not words[2].splits else None
    name = _name(words[0]) or ""
    if len(words) == 2 and words[1].literal and re.fullmatch(VERSIONS.get(name, r"(?!)"), words[1].text):
        return Reading()
    if unit.unknown or unit.inner or unit.needs != "self":
        return None
    if name in ("git", "find"):
        return _git(unit) if name == "git" else _find(words)
    reader = READERS.get(name)
    return None if reader is None or unit.fixed > 1 else _read(reader, name, words[1:])


def _name(word: Word) -> str | None:
    """The program's name: as it is, or in one of the system's folders."""
    if not word.literal or word.splits:
        return None
    folder, slash, name = word.text.rpartition("/")
    return name if not slash or f"{folder}/" in SYSTEM_FOLDERS else None


def _git(unit: Unit) -> Reading | None:
    words = list(unit.words)
    if len(words) > 1 and words[1].text in ("--no-pager", "-P"):
        del words[1]
    for length in (3, 2, 1):
        head = " ".join(w.text for w in words[1 : 1 + length])
        reader = GIT_READERS.get(head)
        if reader is not None and len(words) > length and (unit.fixed == 1 or head.startswith("config ")):
            rest = words[1 + length :]
            found = _read(reader, head, rest)
            command = sort_git_words(head, reader, rest)
            if found is None or command is None:
                return None
            return replace(found, paths=(*found.paths, _HERE), git=command)
    return None


class _Words:
    """The words of a command, sorted."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.operands: list[Word] = []
        self._always_deep = reader.deep == ""
        self._shows_names = self._shows_content = False
        self.given = False
        self.only: list[str] = []

    @property
    def deep(self) -> bool:
        """Whether the command shows what files hold."""
        return self._shows_content or (self._always_deep and not self._shows_names)

    def take(self, words: Sequence[Word]) -> bool:
        """Sort them; whether the table knows every option."""
        rest = iter(words)
        ended = False
        for word in rest:
            if wildcards.MANY in word.text or (word.splits and wildcards.ONE not in word.text):
                return False
            if ended or word.text == "-" or not word.text.startswith(("-", "+")):
                self.operands.append(word)
            elif word.text == "--":
                ended = True
            elif not self._option(word, rest):
                return False
        return True

    def _option(self, word: Word, rest: Iterator[Word]) -> bool:
        text, reader = word.text, self.reader
        name, equals, named = text.partition("=")
        if not wildcards.is_literal(name if equals else text):
            return False
        if text in reader.valued:
            value = next(rest, None)
            if value is None or not value.literal or value.splits:
                return False
            named = value.text
        elif re.fullmatch(reader.options, text, re.DOTALL) is None:
            return False
        self.given = self.given or name in reader.given
        if reader.shows and re.fullmatch(reader.shows, name):
            self.only.append(named or text[2:])
        content = reader.deep or reader.content
        self._shows_content = self._shows_content or re.fullmatch(content, text, re.DOTALL) is not None
        self._shows_names = self._shows_names or re.fullmatch(reader.names, text, re.DOTALL) is not None
        return True


def _read(reader: Reader, name: str, words: Sequence[Word]) -> Reading | None:
    """What a command reads by its entry of the table."""
    if reader.first:
        if not words or not re.fullmatch(reader.first, words[0].text):
            return None
        words = words[1:]
    sorted_words = _Words(reader)
    if name in ("echo", "printf"):
        sorted_words.operands = list(words)
    elif not sorted_words.take(words):
        return None
    operands = sorted_words.operands
    if name in ("echo", "printf"):  # the variables of lines that are understood hold no secrets
        return Reading(tuple(w for w in operands if wildcards.ONE in w.text))
    if reader.operands in ("text", "program"):
        return Reading() if all(w.literal for w in operands) else None
    if reader.operands == "pattern" and not sorted_words.given:
        if not operands or not operands[0].literal or not _opens_nothing(name, operands[0].text):
            return None
        operands = operands[1:]
    paths = tuple(w for w in operands if w.text != "-")
    most = {"none": 0, "one path": 1}.get(reader.operands, len(operands))
    if len(operands) > most or (name == "tar" and any(":" in w.text for w in paths)):
        return None  # what has a colon is another machine for tar
    wild = tuple(w for w in paths if w.text.startswith(wildcards.ONE))
    only = tuple(pattern for pattern in sorted_words.only if not pattern.startswith("!"))
    return Reading(
        paths or ((_HERE,) if reader.looks else ()), sorted_words.deep, reader.tracked, reader.follows, only, wild
    )


def _opens_nothing(name: str, code: str) -> bool:
    """Whether the first operand, where it is a program, opens nothing by itself."""
    if name in AWK:
        return _AWK_OPENS.search(code) is None
    return name != "jq" or _JQ_OPENS.search(code) is None


def _find(words: Sequence[Word]) -> Reading | None:
    paths: list[Word] = []
    begun = False
    rest = iter(words[1:])
    for word in rest:
        text = word.text
        unknown = wildcards.MANY in text or (word.splits and wildcards.ONE not in text)
        if unknown or (begun and not word.literal) or text.startswith(wildcards.ONE):
            return None
        if text in FIND_PLAIN:
            begun = begun or text not in ("-H", "-P")
        elif text in FIND_TEXT or text in FIND_PATH:
            begun = True
            value = next(rest, None)
            if value is None or not value.literal or value.splits:
                return None
            if text in FIND_PATH:
                paths.append(value)
        elif begun or text.startswith("-"):
            return None
        else:
            paths.append(word)
    return Reading(tuple(paths) or (_HERE,))


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
        return _git_takes(unit)
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


def _git_takes(unit: Unit) -> Reading | None:
    """Searches that go beyond what the repository holds, and archives of it."""
    words = [word.text for word in unit.words[1:]]
    beyond = holds(unit.words, ("--no-index", "--untracked", "--no-exclude-standard"))
    if "archive" in words or beyond:
        return Reading((_HERE, *_operands(unit.words[1:])), deep=True)
    return None
