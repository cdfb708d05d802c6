"""Find the files that a read-only command opens, from the table of read-only programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.code_arguments import required_literal_words
from mainspring.shell_analysis.commands import SYSTEM_FOLDERS
from mainspring.shell_analysis.git_commands import GitCommand, sort_git_words
from mainspring.shell_analysis.programs import AWK, OPAQUE_WRAPPERS, has_option
from mainspring.shell_analysis.readonly_programs import (
    FIND_FLAGS,
    FIND_PATH_OPTIONS,
    FIND_TEXT_OPTIONS,
    READONLY_GIT,
    READONLY_PROGRAMS,
    VERSION_OPTIONS,
    ReadonlyProgram,
)
from mainspring.shell_analysis.syntax import AnalyzedCommand, Word, program_name, without_global_options

_HERE = Word(wildcards.CWD, ".")
_FOUND = Word(f"./{wildcards.ANY_CHAR}", "{}")
"""The value of ``{}`` in ``find``: it begins with the folder as spelled, so it is never an option."""

_PLAIN_NAME = lazy_re(r"[A-Za-z0-9_.*-]+")
"""Name patterns that mean the same in every locale."""

_PLAIN_START = lazy_re(r"[A-Za-z0-9_./-]+")
_FIND_OUTPUT = frozenset(("-print", "-print0", "-printf", "-ls"))
_CLUSTER = lazy_re(r"-([A-Za-z]+)([A-Za-z])")
_LISTING_OPTIONS = lazy_re(
    r"-[EFGiInrsvwxlL]+|-[tge]|--(?:include|exclude|exclude-dir|glob|type)=.*|--files(?:-with-matches)?"
)
_LISTS = lazy_re(r"-[A-Za-z]*[lL][A-Za-z]*|--files(?:-with-matches)?")
"""Options with which a search prints only names of files, and the option that makes it recursive."""

_PLAIN_PATHSPEC = lazy_re(r"(?![-/])(?!.*\.\.)[A-Za-z0-9_.*/-]+")
_ENDING = lazy_re(r"\*[A-Za-z0-9_.-]+")
"""Paths for git below the folder, and a pattern that means the same for a path and for its last name."""

_XARGS_OPTIONS = lazy_re(r"-[0rt]+|-[nP]\d*|\d+|--null|--no-run-if-empty")
_XARGS_NULL = lazy_re(r"-[rt]*0[0rt]*|--null")

_NOT_IN_CONJUNCTIONS = frozenset(("-o", "-or", ",", "!", "-not", "(", ")", "-H"))
"""Tests of ``find`` that are more than a conjunction that a file must pass, or that make it follow links."""

_RECURSIVE_OPTIONS: Mapping[str, re.Pattern[str]] = {
    "cp": lazy_re(r"-[A-Za-z]*[aRr][A-Za-z]*|--recursive|--archive"),
    "rsync": lazy_re(r"-[A-Za-z]*[ar][A-Za-z]*|--recursive|--archive"),
    "scp": lazy_re(r"-[A-Za-z]*r[A-Za-z]*"),
    "tar": lazy_re(r"-?[A-Za-z]*[cru][A-Za-z]*|--create|--append|--update"),
    "zip": lazy_re(r"-[A-Za-z]*r[A-Za-z]*|--recurse-paths"),
}
"""Options with which a program processes everything below its operands."""

_SEARCHES = frozenset(("rg", "ag", "ack", "ugrep", "ug"))
_GREPS = frozenset(("grep", "egrep", "fgrep"))
_DEEP_GREP = ("-r", "-R", "-d", "--recursive", "--dereference-recursive", "--directories")

_GIT_SHOWS = frozenset(
    "annotate blame bundle cat-file diff diff-files diff-index diff-tree difftool fast-export format-patch grep log range-diff show "
    "whatchanged".split()
)
"""Subcommands of git that may show files of the folder, or of the history."""

_READS_FOLDERS = _SEARCHES.union(_GREPS, _RECURSIVE_OPTIONS, ("diff", "fd", "fdfind", "git"))
_RUNS_LOCALLY = OPAQUE_WRAPPERS.union(("env",)).difference(("ssh",))

_LAST_IS_DESTINATION = frozenset(("cp", "rsync", "scp"))
_AWK_OPENS = lazy_re(r"print.*>", re.DOTALL)
_JQ_OPENS = lazy_re(r"\b(?:env|ENV|__\w+|import|include|input_filename|modulemeta|debug|stderr|get_search_list)\b")


class FileReads(Struct, frozen=True):
    """The files that a read-only command opens.

    Attributes:
        paths: The files and folders.
        deep: Whether it shows the content of all files below them.
        tracked: Whether that includes only files that git does not ignore.
        follows: Whether it follows links on the way.
        only: Name patterns that it shows, whatever ignore files contain; empty if it does not search by name.
        omitted: Name patterns of files that it does not show, and of folders, with a slash at the end.
        skips_hidden: Whether it shows no hidden files below its folders, unless an ignore file includes them.
        wild: Words that begin with a wildcard; the names that they match may look like options.
        plain: Whether names with spaces, quotes, and the like would be read as other names.
        git: The git command, which may run programs from a repository's settings; ``None`` for other programs.
        folder: The folder that git changes to first; ``None`` if it stays in the folder of the line.
        is_index: Whether it opens exactly the files below the folder that the git index names.
    """

    paths: tuple[Word, ...] = ()
    deep: bool = False
    tracked: bool = False
    follows: bool = False
    only: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    skips_hidden: bool = False
    wild: tuple[Word, ...] = ()
    plain: bool = False
    git: GitCommand | None = None
    folder: Word | None = None
    is_index: bool = False


def find_readonly_reads(unit: AnalyzedCommand) -> FileReads | None:
    """Return the files that a command opens if the table lists it as read-only; else None.

    A command that runs others is checked through those. This function is for commands that run none, and for ``find`` if it passes
    files to a command.
    """
    words = unit.words
    if words[0].text == "command" and len(words) == 3 and words[1].text in ("-v", "-V"):
        return FileReads() if words[2].literal and not words[2].splits else None
    name = _name(words[0]) or ""
    if len(words) == 2 and words[1].literal and re.fullmatch(VERSION_OPTIONS.get(name, r"(?!)"), words[1].text):
        return FileReads()
    if unit.unknown:
        return None
    if name == "find":
        return _find(unit)
    if unit.inner or unit.required_rules != "self":
        return None
    if name == "git":
        return _git(unit)
    reader = READONLY_PROGRAMS.get(name)
    return None if reader is None or unit.fixed > 1 else _read(reader, name, words[1:])


def _name(word: Word) -> str | None:
    """Return the program's name: the bare name, or the last part of a path in a system folder."""
    if not word.literal or word.splits:
        return None
    folder, slash, name = word.text.rpartition("/")
    return name if not slash or f"{folder}/" in SYSTEM_FOLDERS else None


def _git(unit: AnalyzedCommand) -> FileReads | None:
    words = list(unit.words)
    if len(words) > 1 and words[1].text in ("--no-pager", "-P"):
        del words[1]
    folder = None
    if len(words) > 3 and words[1].text == "-C" and _is_plain_folder(words[2]):
        folder = words[2]
        del words[1:3]
    for length in (3, 2, 1):
        head = " ".join(w.text for w in words[1 : 1 + length])
        reader = READONLY_GIT.get(head)
        if reader is not None and len(words) > length and (unit.fixed == 1 or head.startswith("config ")):
            rest = words[1 + length :]
            found = _read(reader, head, rest)
            command = None if found is None else sort_git_words(head, reader, rest)
            if found is None or command is None:
                return None
            return replace(found, paths=(*found.paths, _HERE), git=command, folder=folder)
    return None


def _is_plain_folder(word: Word) -> bool:
    """Return True if a word names one folder without ``..``: a shell and a program may resolve ``..`` after a link differently."""
    is_one = word.literal and not word.splits and _PLAIN_START.fullmatch(word.text) is not None
    return is_one and not word.text.startswith("-") and ".." not in word.text.split("/")


class _ParsedArguments:
    """The parsed words of a command."""

    def __init__(self, reader: ReadonlyProgram) -> None:
        self.reader = reader
        self.operands: list[Word] = []
        self._always_deep = reader.deep == ""
        self._shows_names = self._shows_content = False
        self.has_pattern = False
        self.only: list[str] = []
        self.omitted: list[str] = []
        self.is_open = False  # whether it also shows files that match none of the name patterns
        self.skips_hidden = reader.shows_hidden != ""

    @property
    def deep(self) -> bool:
        """Return True if the command shows the content of files."""
        return self._shows_content or (self._always_deep and not self._shows_names)

    def parse(self, words: Sequence[Word]) -> bool:
        """Parse the words. Return True if the table knows every option."""
        rest = iter(words)
        ended = False
        for word in rest:
            if wildcards.ANY_TEXT in word.text or (word.splits and not wildcards.is_glob(word.text)):
                return False
            if ended or word.text == "-" or not word.text.startswith(("-", "+")):
                self.operands.append(word)
            elif word.text == "--":
                ended = True
            elif not self._option(word, rest):
                return False
        return True

    def _option(self, word: Word, remaining_words: Iterator[Word]) -> bool:
        text, reader = word.text, self.reader
        name, equals, named = text.partition("=")
        if not wildcards.is_literal(name if equals else text):
            return False
        cluster = _CLUSTER.fullmatch(text) if reader.clusters and text not in reader.valued else None
        if cluster and f"-{cluster[2]}" in reader.valued:
            if not all(re.fullmatch(reader.options, f"-{flag}") for flag in cluster[1]):
                return False
            return self._option(Word(f"-{cluster[1]}", word.source), remaining_words) and self._option(
                Word(f"-{cluster[2]}", word.source), remaining_words
            )
        value = next(remaining_words, None) if text in reader.valued else None
        if value is not None:
            if not value.literal or value.splits:
                return False
            named = value.text
        elif re.fullmatch(reader.options, text, re.DOTALL) is None:
            return False
        self.has_pattern = self.has_pattern or name in reader.pattern_options
        if reader.shows and re.fullmatch(reader.shows, name):
            self.only.append(named or text[2:])
        if name in reader.omits and not self.only:
            self.is_open = True
            if "/" not in named:  # no name contains a slash
                self.omitted.append(named + "/" * name.endswith("-dir"))
        self.skips_hidden = self.skips_hidden and re.fullmatch(reader.shows_hidden, text, re.DOTALL) is None
        content = reader.deep or reader.content
        self._shows_content = self._shows_content or re.fullmatch(content, text, re.DOTALL) is not None
        self._shows_names = self._shows_names or re.fullmatch(reader.names, text, re.DOTALL) is not None
        return True


def _read(reader: ReadonlyProgram, name: str, words: Sequence[Word]) -> FileReads | None:
    """Return the files that a command reads, from its entry in the table."""
    if reader.first:
        if not words or not re.fullmatch(reader.first, words[0].text):
            return None
        words = words[1:]
    sorted_words = _ParsedArguments(reader)
    if name in ("echo", "printf"):
        sorted_words.operands = list(words)
    elif not sorted_words.parse(words):
        return None
    operands = sorted_words.operands
    if name in ("echo", "printf"):  # variables that are allowed in parsed lines contain no secrets
        return FileReads(tuple(w for w in operands if wildcards.is_glob(w.text)))
    if reader.operands in ("text", "program"):
        return FileReads() if all(w.literal for w in operands) else None
    if reader.operands == "pattern" and not sorted_words.has_pattern:
        if not operands or not operands[0].literal or not _opens_nothing(name, operands[0].text):
            return None
        operands = operands[1:]
    paths = tuple(w for w in operands if w.text != "-")
    limit = {"none": 0, "one path": 1}.get(reader.operands, len(operands))
    if reader.operands == "one path" and any(w.splits for w in operands):
        return None  # the second match would be written
    if len(operands) > limit or (name == "tar" and any(":" in w.text for w in paths)):
        return None  # for tar, a name with a colon is on another machine
    wild = tuple(w for w in paths if wildcards.is_glob(w.text[:1]))
    shown = () if sorted_words.is_open else sorted_words.only
    only = tuple(pattern for pattern in shown if not pattern.startswith("!"))
    return FileReads(
        paths or ((_HERE,) if reader.reads_cwd else ()),
        sorted_words.deep,
        reader.tracked,
        reader.follows,
        only,
        () if sorted_words.only else tuple(sorted_words.omitted),
        sorted_words.skips_hidden and not only,
        wild,
    )


def _opens_nothing(name: str, code: str) -> bool:
    """Return True if the first operand, if it is a program, opens no file."""
    if name in AWK:
        return _AWK_OPENS.search(code) is None
    return name != "jq" or _JQ_OPENS.search(code) is None


class _ParsedFind:
    """The parsed words of ``find``.

    Attributes:
        starts: The folders that it searches.
        compared: Files that others are compared with.
        names: Name patterns that each file matches before a command runs.
        only_files: Whether it finds only files that are not links.
        runs: Whether it runs a command for the files that it finds.
    """

    def __init__(self, unit: AnalyzedCommand) -> None:
        self.starts: list[Word] = []
        self.compared: list[Word] = []
        self.names: list[str] = []
        self.runs = False
        self._commands = iter(unit.inner)
        self._begun = False
        self._is_conjunction = True
        self.only_files = False

    @property
    def lists_names(self) -> bool:
        """Return True if it only lists, and no name resembles an option."""
        return self._is_conjunction and not self.runs and all(map(_is_plain_start, self.starts))

    def take(self, words: Sequence[Word]) -> bool:
        """Parse the words. Return True if all actions are known to be read-only."""
        rest = iter(words)
        if not all(self._word(word, rest) for word in rest) or next(self._commands, None) is not None:
            return False
        return not self.runs or (self._is_conjunction and all(map(_is_plain_start, self.starts)))

    def _word(self, word: Word, remaining_words: Iterator[Word]) -> bool:
        text = word.text
        unknown = wildcards.ANY_TEXT in text or (word.splits and not wildcards.is_glob(text))
        if unknown or (self._begun and not word.literal) or wildcards.is_glob(text[:1]):
            return False
        if text in FIND_FLAGS:
            self._begun = self._begun or text not in ("-H", "-P")
            self._is_conjunction = self._is_conjunction and text not in _NOT_IN_CONJUNCTIONS
            return True
        if text in FIND_TEXT_OPTIONS or text in FIND_PATH_OPTIONS or text == "-exec":
            self._begun = True
            return self._run(remaining_words) if text == "-exec" else self._option(text, next(remaining_words, None))
        self.starts.append(word)
        return not self._begun and not text.startswith("-")

    def _option(self, text: str, value: Word | None) -> bool:
        if value is None or not value.literal or value.splits:
            return False
        if text in FIND_PATH_OPTIONS:
            self.compared.append(value)
        elif text == "-name" and not self.runs and _PLAIN_NAME.fullmatch(value.text):
            self.names.append(value.text)
        self.only_files = self.only_files or (text == "-type" and value.text == "f")
        return True

    def _run(self, remaining_words: Iterator[Word]) -> bool:
        """Parse the command after ``-exec``. Return True if it only reads the given file, which is not a link."""
        self.runs = True
        command: list[Word] = []
        end = ""
        for word in remaining_words:
            if word.text in (";", "+"):
                end = word.text
                break
            command.append(word)
        unit = next(self._commands, None)
        if not end or unit is None or [w.source for w in unit.words] != [w.source for w in command]:
            return False
        if end == "+" and (command[-1].text != "{}" or sum(w.text == "{}" for w in command) > 1):
            return False
        return self.only_files and self._is_conjunction and _reads_found_files(unit, command, many=end == "+")


def _is_plain_start(word: Word) -> bool:
    """Return True if the paths that ``find`` builds from a folder are never options: they begin with the folder as spelled."""
    return word.literal and not word.splits and not word.text.startswith(("-", "+"))


def _reads_found_files(unit: AnalyzedCommand, words: Sequence[Word], *, many: bool) -> bool:
    """Return True if a command that ``find`` runs only reads, and only the files in place of ``{}``."""
    name = _name(words[0]) or ""
    reader = READONLY_PROGRAMS.get(name)
    if reader is None or reader.first or reader.operands not in ("paths", "pattern", "one path"):
        return False
    if name in ("test", "[") or unit.unknown or unit.inner or unit.required_rules != "self":
        return False  # find cannot run shell builtins
    if any(w.splits or not w.literal or ("{}" in w.text and w.text != "{}") for w in words):
        return False
    operands: list[Word] = []
    for word in words[1:]:
        operands += ([_FOUND, _FOUND] if many else [_FOUND]) if word.text == "{}" else [word]
    if required_literal_words(name, (words[0], *operands)) > 1:
        return False
    found = _read(reader, name, operands)
    return found is not None and set(found.paths) == {_FOUND}


def find_xargs_reads(unit: AnalyzedCommand) -> list[FileReads] | None:
    """Return the files that ``xargs`` opens if ``find`` or a search feeds it and it runs a read-only command; else None."""
    feeder = unit.feeder
    if feeder is None or len(unit.inner) != 1 or _name(unit.words[0]) != "xargs" or feeder.unknown:
        return None
    command = unit.inner[0].words[:-1]
    options = unit.words[1 : len(unit.words) - len(command)]
    if not command or not all(o.literal and _XARGS_OPTIONS.fullmatch(o.text) for o in options):
        return None
    if not _reads_found_files(unit.inner[0], (*command, Word("{}", "{}")), many=True):
        return None
    name = _name(command[0]) or ""
    alone = _read(READONLY_PROGRAMS[name], name, command[1:])  # it runs once without a file if none is found
    is_terminated = any(_XARGS_NULL.fullmatch(option.text) for option in options)
    if _name(feeder.words[0]) == "git":
        listed = None if is_terminated or alone is None or alone.deep else _listed_by_git(feeder)
    elif _name(feeder.words[0]) == "find":
        listed = _listed_by_find(feeder, is_terminated=is_terminated)
        if listed is not None and listed.follows and (alone is None or alone.deep):
            return None  # it would search a folder that is listed
    else:
        listed = None if is_terminated else _listed_by_search(feeder)
    return None if alone is None or listed is None else [listed, alone]


def _listed_by_find(feeder: AnalyzedCommand, *, is_terminated: bool) -> FileReads | None:
    """Return the files that ``find`` lists, as files to read; links among them are followed."""
    end = feeder.words[-1].text
    listing = feeder.words[1:-1] if end in ("-print", "-print0") else feeder.words[1:]
    if is_terminated != (end == "-print0") or any(word.text in _FIND_OUTPUT for word in listing):
        return None
    parsed = _ParsedFind(feeder)
    if not parsed.take(listing) or not parsed.lists_names:
        return None
    if not is_terminated and not all(_PLAIN_START.fullmatch(word.text) for word in parsed.starts):
        return None
    starts, names = tuple(parsed.starts) or (_HERE,), tuple(parsed.names[:1])
    return FileReads(starts, deep=True, follows=not parsed.only_files, only=names, plain=not is_terminated)


def _listed_by_git(feeder: AnalyzedCommand) -> FileReads | None:
    """Return the files of the index that ``git ls-files`` lists, as files to read."""
    if len(feeder.words) < 2 or feeder.words[1].text != "ls-files":
        return None
    patterns = [word.text for word in feeder.words[2:] if word.literal and not word.splits]
    if len(patterns) < len(feeder.words) - 2 or not all(map(_PLAIN_PATHSPEC.fullmatch, patterns)):
        return None
    only = tuple(patterns) if len(patterns) == 1 and _ENDING.fullmatch(patterns[0]) else ()
    return FileReads((_HERE,), deep=True, only=only, is_index=True)


def _listed_by_search(feeder: AnalyzedCommand) -> FileReads | None:
    """Return the files that a search lists, as files to read: it lists only files that it has read itself."""
    if _name(feeder.words[0]) not in (*_GREPS, "rg"):
        return None
    options = [word.text for word in feeder.words[1:] if word.text.startswith("-")]
    if not all(map(_LISTING_OPTIONS.fullmatch, options)) or not any(map(_LISTS.fullmatch, options)):
        return None
    found = find_readonly_reads(feeder)
    if found is None or not found.deep or not all(_PLAIN_START.fullmatch(w.text) or w == _HERE for w in found.paths):
        return None
    return replace(found, plain=True)


def _find(unit: AnalyzedCommand) -> FileReads | None:
    parsed = _ParsedFind(unit)
    if not parsed.take(unit.words[1:]):
        return None
    paths = (*(parsed.starts or (_HERE,)), *parsed.compared)
    return FileReads(paths, deep=parsed.runs, only=tuple(parsed.names[:1]) if parsed.runs else ())


def find_recursive_read(unit: AnalyzedCommand) -> FileReads | None:
    """Return the folders that a command processes with everything below them; None if it is not such a command."""
    if not unit.words[0].literal:
        return None
    name = program_name(unit.words[0].text)
    if unit.scan and not unit.inner and name in _RUNS_LOCALLY:
        return _read_by_arguments(unit)
    if (
        name in _SEARCHES
        or (name in _GREPS and has_option(unit.words, _DEEP_GREP))
        or (name == "diff" and has_option(unit.words, ("-r", "--recursive")))
        or (name in ("fd", "fdfind") and has_option(unit.words, ("-x", "-X", "--exec", "--exec-batch")))
    ):
        return FileReads((_HERE, *_operands(unit.words[1:])), deep=True)
    if name == "git":
        return _git_takes(unit)
    if name == "find" and unit.inner:
        return FileReads(tuple(touch.word for touch in unit.file_accesses), deep=True)
    if name == "xargs" and unit.inner and not _ignores_operands(unit.inner[0]):
        return FileReads((_HERE,), deep=True)
    return _read_recursively(name, unit.words[1:]) if name in _RECURSIVE_OPTIONS else None


def _read_recursively(name: str, rest: Sequence[Word]) -> FileReads | None:
    """Return the operands of a program that processes everything below them with some option."""
    recursive_options = _RECURSIVE_OPTIONS[name]
    dashed = {number for number, word in enumerate(rest) if word.text.startswith("-")}
    options = dashed | {0} if name == "tar" else dashed  # tar accepts its options without a dash, too
    texts = [word.text.partition("=")[0] for number, word in enumerate(rest) if number in options]
    if not any(recursive_options.fullmatch(text) or _shortened(recursive_options, text) for text in texts):
        return None
    paths = tuple(word for number, word in enumerate(rest) if number not in options)
    return FileReads(paths[:-1] if name in _LAST_IS_DESTINATION else paths, deep=True)


def _read_by_arguments(unit: AnalyzedCommand) -> FileReads | None:
    """Return the folders that a command in the arguments of another one processes, if its name is a separate word."""
    texts = [
        text for word in unit.words[1:] for text in re.sub(r"^(?:-[A-Za-z](?=\w)|--[\w-]+=)", "", word.text).split()
    ]
    words = tuple([Word(text, text) for text in texts])
    starts = [number for number, text in enumerate(texts) if program_name(text) in _READS_FOLDERS]
    return next(filter(None, (find_recursive_read(AnalyzedCommand(words=words[n:], text="")) for n in starts)), None)


def _operands(words: Sequence[Word]) -> list[Word]:
    return [word for word in words if not word.text.startswith("-")]


def _ignores_operands(unit: AnalyzedCommand) -> bool:
    """Return True if a command opens no file that its words name."""
    reader = READONLY_PROGRAMS.get(program_name(unit.words[0].text)) if unit.words else None
    return reader is not None and reader.operands in ("text", "none", "program")


def _shortened(pattern: re.Pattern[str], text: str) -> bool:
    """Return True if a long option is an abbreviation of a recursive one."""
    long = [name for name in pattern.pattern.split("|") if name.startswith("--")]
    return len(text) > 3 and any(name.startswith(text) for name in long)


def _git_takes(unit: AnalyzedCommand) -> FileReads | None:
    """Return the folders of git commands that show files and whose options no table lists."""
    words = [word.text for word in without_global_options(unit.words)[1:]]
    beyond = has_option(unit.words, ("--no-index", "--untracked", "--no-exclude-standard"))
    if "archive" in words or beyond or words[:1] and words[0] in _GIT_SHOWS:
        return FileReads((_HERE, *_operands(unit.words[1:])), deep=True)
    return None
