"""Facts about programs, as data: which run other commands, which run code, and which change files.

Also the spelling of options, and the words of a command that a wildcard of a rule does not cover.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import harmless_options, wildcards
from mainspring.shell_analysis.git_commands import RUNS_GPG
from mainspring.shell_analysis.readonly_programs import (
    FIND_FLAGS,
    FIND_PATH_OPTIONS,
    FIND_TEXT_OPTIONS,
    READONLY_GIT,
    READONLY_PROGRAMS,
    ReadonlyProgram,
)
from mainspring.shell_analysis.syntax import Word, program_name

if TYPE_CHECKING:
    from mainspring.shell_analysis.syntax import AnalyzedCommand


class Wrapper(Struct, frozen=True):
    """A program that runs the command in its arguments.

    Attributes:
        flags: Options without a value that do not change the command that runs.
        valued: The same for options with a value.
        operands: Number of words before the command.
        optional: Options whose value can only follow a ``=``.
        numeric: Whether ``-10`` is an option.
        plain: Whether the command runs as it would without the wrapper, so that a rule for it is enough.
    """

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    operands: int = 0
    optional: frozenset[str] = frozenset()
    numeric: bool = False
    plain: bool = True


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


WRAPPERS: Mapping[str, Wrapper] = {
    "time": Wrapper(_set("-p")),  # the shell knows no other option and would run the text after it
    "nohup": Wrapper(),
    "nice": Wrapper(valued=_set("-n --adjustment"), numeric=True),
    "ionice": Wrapper(_set("-t --ignore"), _set("-c -n --class --classdata")),
    "timeout": Wrapper(
        _set("-v --foreground --preserve-status --verbose"), _set("-s -k --signal --kill-after"), operands=1
    ),
    "gtimeout": Wrapper(
        _set("-v --foreground --preserve-status --verbose"), _set("-s -k --signal --kill-after"), operands=1
    ),
    "stdbuf": Wrapper(valued=_set("-i -o -e --input --output --error")),
    "unbuffer": Wrapper(_set("-p")),
    "setsid": Wrapper(_set("-c -f -w --ctty --fork --wait")),
    "chronic": Wrapper(_set("-v -e")),
    "command": Wrapper(),
    "exec": Wrapper(),
    "env": Wrapper(_set("-i - -v -0 --ignore-environment --debug"), _set("-u --unset")),
    "xargs": Wrapper(
        _set("-0 -r -t -x --null --no-run-if-empty --verbose --exit"),
        _set("-n -P -I -L -d -E -s --max-args --max-procs --delimiter --max-chars"),
        optional=_set("--replace --max-lines"),
    ),
    "sudo": Wrapper(_set("-n -E -H -k -S -b -i -s"), _set("-u -g -p -C -D -h --user --group"), plain=False),
    "doas": Wrapper(_set("-n -s"), _set("-u -C"), plain=False),
    "busybox": Wrapper(plain=False),
    "toybox": Wrapper(plain=False),
    "npx": Wrapper(plain=False),
    "bunx": Wrapper(plain=False),
    "uvx": Wrapper(plain=False),
    "fakeroot": Wrapper(plain=False),
    "xvfb-run": Wrapper(_set("-a"), plain=False),
    "strace": Wrapper(_set("-f -c"), plain=False),
    "ltrace": Wrapper(_set("-f -c"), plain=False),
    "valgrind": Wrapper(plain=False),
}
"""Programs that run the command in their arguments."""


BACKGROUND_OPTIONS: Mapping[str, tuple[str, ...]] = {"setsid": ("-f", "--fork"), "sudo": ("-b", "--background")}
"""Options with which a wrapper does not wait for the command that it runs."""


SUBCOMMAND_WRAPPERS: Mapping[str, frozenset[str]] = {
    "uv": _set("run"), "poetry": _set("run"), "pipenv": _set("run"), "pdm": _set("run"), "hatch": _set("run"), "rye": _set("run"),
    "pipx": _set("run"), "pixi": _set("run"), "bundle": _set("exec"), "npm": _set("exec x"), "pnpm": _set("exec dlx"),
    "yarn": _set("exec dlx"), "bun": _set("x"), "direnv": _set("exec"), "mise": _set("exec x"), "rbenv": _set("exec"),
    "pyenv": _set("exec"), "dotenv": _set("run"), "op": _set("run"), "doppler": _set("run"),
}  # fmt: skip
"""Programs with a subcommand that runs the command in its arguments."""


OPAQUE_WRAPPERS = _set(
    "ssh su runuser pkexec gosu chroot unshare nsenter flock script parallel entr watchexec nodemon perf systemd-run setpriv capsh "
    "firejail bwrap proot dbus-run-session torsocks proxychains proxychains4 rlwrap screen tmux at batch crontab tini dumb-init "
    "start-stop-daemon gdb lldb taskset chrt numactl prlimit catchsegv conda mamba micromamba rustup nix nix-shell concurrently "
    "dotenvx setarch linux32 linux64 jobs watchman expect socat ncat nc"
)
"""Programs that run commands, but whose arguments are not parsed: only a rule that names all of them allows one."""


CONTAINER_RUNNERS: Mapping[str, frozenset[str]] = {
    "docker": _set("exec run compose"), "podman": _set("exec run"), "kubectl": _set("exec run debug"), "nerdctl": _set("exec run"),
    "docker-compose": _set("exec run"), "vagrant": _set("ssh"), "heroku": _set("run"), "fly": _set("ssh"),
}  # fmt: skip
"""Subcommands that run commands, but whose arguments are not parsed."""


SHELLS = _set("sh bash dash zsh ksh mksh ash fish rbash")


INTERPRETERS: Mapping[str, frozenset[str]] = {
    "python": _set("-u -B -O -OO -s -S -E -I -v -q -b -bb"),
    "pypy": _set("-u -B -O -OO -s -S -E -I -v -q -b"),
    "node": _set("--test --watch --no-warnings"),
    "nodejs": _set("--no-warnings"),
    "deno": frozenset(), "bun": frozenset(), "tsx": frozenset(), "ts-node": frozenset(), "perl": _set("-w -T"), "ruby": _set("-w"),
    "irb": frozenset(), "php": frozenset(), "lua": frozenset(), "luajit": frozenset(), "rscript": _set("--vanilla"),
    "r": frozenset(), "julia": frozenset(), "tclsh": frozenset(), "wish": frozenset(), "osascript": frozenset(),
    "pwsh": frozenset(), "powershell": frozenset(), "cmd": frozenset(), "groovy": frozenset(), "scala": frozenset(),
    "jshell": frozenset(), "ghci": frozenset(), "runghc": frozenset(), "elixir": frozenset(), "erl": frozenset(),
    "swipl": frozenset(), "octave": frozenset(), "racket": frozenset(), "guile": frozenset(), "sbcl": frozenset(),
    "ocaml": frozenset(), "vim": frozenset(), "vi": frozenset(), "nvim": frozenset(), "view": frozenset(), "ex": frozenset(),
    "ed": frozenset(), "emacs": frozenset(), "emacsclient": frozenset(), "sqlite3": frozenset(), "psql": frozenset(),
    "mysql": frozenset(), "bc": frozenset(), "dc": frozenset(), "m4": frozenset(),
}  # fmt: skip
"""Programs that run code, and the options that may precede a script's name. A rule must name the script."""


INTERACTIVE_PROGRAMS = _set("sqlite3 sqlite psql mysql bc dc ed ex vi vim nvim emacs")
"""Interpreters that run their standard input even if a file is named."""


AWK = _set("awk gawk mawk nawk")
SED = _set("sed gsed")


NO_OP_BUILTINS = _set(": true false break continue return shift exit")
"""Builtins that have no effect alone; they need no rule."""


HARMLESS_VARIABLES = lazy_re(
    r"(?:LANG|LANGUAGE|LC_[A-Z]+|TZ)=(?!:?/|(?s:.*)\.\.)(?s:.*)|"  # a path would name a file to read
    r"(?:NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES|CI|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|"
    r"RUST_BACKTRACE|RUST_LOG|CARGO_TERM_COLOR|NODE_ENV|GOOS|GOARCH|CGO_ENABLED|DEBIAN_FRONTEND)=(?s:.*)"
)
"""Assignments that may precede a command without changing its effect."""


CODE_VARIABLES = lazy_re(
    r"BASH_ENV|ENV|PS[0-4]|PROMPT_COMMAND|\w*(?:PAGER|EDITOR|VISUAL|BROWSER|COMMAND|ASKPASS|DIFF|LESSOPEN)"
)
"""Variables whose value is run."""


_ENTRY = lazy_re(r"([^\s:=]+)(?:([:=])(?:~(\S*))?)?")
_SETTING = lazy_re(r"[A-Za-z_][\w.-]*\+?=")
_CONFIGURES = lazy_re(
    r"(?:[a-z]+[:-])?(?:self|tap|source|config(?:ure|uration)?|conf|settings?|set|unset|alias(?:es)?|plugins?|extensions?|hooks?|"
    r"contexts?|remotes?|repos?|trust|exec|eval)(?:[:-][a-z-]+)?"
)
"""Subcommands whose names mean that they change settings or run code."""
_PLACE = lazy_re(r"(?:(?:/usr(?:/local)?|/opt/homebrew)?/s?bin|(?:.*/)?(?:node_modules/\.bin|\.?venv/bin))/[^/]*$")
"""Folders of programs that a package manager has installed."""
_VERSION = lazy_re(r"[-\d.]+$")
_PLAIN_ADDRESS = lazy_re(r"(?i:https?://)?(?![^/]*(?::(?!\d)|[\x00-\x04]))[^{}\[\]\\]*")
"""A URL without another protocol, such as ``file:``, and without brackets, which curl expands to several URLs."""
_REMOTE_HELPER = lazy_re(r"[^/:]*::")
"""The beginning of a URL for which git starts a program that the URL names."""
_FIND_MORE = frozenset("-delete -L -follow -fprint -fprint0 -fprintf -fls".split())
"""Words of ``find`` that are harmless or that a rule must name anyway."""


def option_value(text: str, option: str) -> str | None:
    """Return the value in a word after an option, empty if the value is the next word, and None if the word does not contain the option.

    The text before a short option in a word is parsed as other options. As a result, a word that contains a value may also be found.
    """
    if option.startswith("--"):
        name, _, value = text.partition("=")
        return value if len(name) > 3 and option.startswith(name) else None
    found = re.match(rf"-[A-Za-z0-9]*?{re.escape(option[1:])}", text)
    return None if found is None else text[found.end() :]


def has_option(words: Sequence[Word], options: Sequence[str]) -> bool:
    """Return True if a command contains one of some options."""
    return any(option_value(word.text, option) is not None for word in words[1:] for option in options)


def option_values(words: Sequence[Word], options: Sequence[str]) -> Iterator[Word]:
    """Return the values of some options in a command."""
    for word, following in zip(words[1:], [*words[2:], None], strict=False):
        for option in options:
            value = option_value(word.text, option)
            if value:
                yield Word(value.removeprefix("=") if option.startswith("--") else value, word.source, word.splits)
            elif value == "" and "=" not in word.text and following is not None:
                yield following


def uncovered(unit: AnalyzedCommand) -> Mapping[int, str]:
    """Return the words of a command that a wildcard of a rule does not cover, by position, each with a description of the word.

    A wildcard covers arguments. It covers an option, or a subcommand, only if the tables list it as harmless.
    """
    words = unit.words
    inner = unit.inner[-1].words if unit.inner else ()
    if inner and len(inner) < len(words) and words[-len(inner) :] == inner:
        start = len(words) - len(inner)
        return {start + number: what for number, what in uncovered(unit.inner[-1]).items()}
    name = _name(words)
    if name in SHELLS or any(n in INTERPRETERS for n in (name, re.sub(r"[\d.]+$", "", name))):
        start = unit.fixed - 1  # a rule must name all words up to the script or the module
        module = start > 0 and words[start - 1].text == "-m"
        found = uncovered_words(program_name(words[start].text) if module else "", words[start:])
        return {start + number: what for number, what in found.items()}
    return uncovered_words(name, words)


def uncovered_words(name: str, words: Sequence[Word]) -> Mapping[int, str]:
    """Do the same for the words of one program; an empty name means an unknown program."""
    if name in harmless_options.ANY_OPTION:
        return {}
    if name == "find":
        return _uncovered_in_find(words)
    known = name if is_known(name) else _VERSION.sub("", name)
    return _Cover(known if is_known(known) else "", words).check()


def _name(words: Sequence[Word]) -> str:
    """Return the name of a program in the tables; empty for a program in a folder where a project may have its own."""
    text = words[0].text if words else ""
    return program_name(text) if "/" not in text or _PLACE.match(text) else ""


def words_like_options(unit: AnalyzedCommand) -> Iterator[Word]:
    """Return the words of a command that begin with a wildcard and may match a file that is named like an option."""
    words = unit.words
    if _name(words) not in harmless_options.ANY_OPTION:
        end = next((number for number, word in enumerate(words) if word.text == "--"), len(words))
        yield from (word for word in words[1:end] if wildcards.is_glob(word.text[:1]))


def is_known(name: str) -> bool:
    """Return True if a table lists the harmless options of a program."""
    return (
        name in harmless_options.HARMLESS
        or name in READONLY_PROGRAMS
        or name in _PARENTS
        or name in harmless_options.ANY_OPTION
    )


_PARENTS = frozenset(
    key.rsplit(" ", count)[0]
    for key in (*harmless_options.HARMLESS, *(f"git {key}" for key in READONLY_GIT if not key.startswith("config")))
    for count in range(1, key.count(" ") + 1)
    if not key.endswith(" --")
)
"""Programs and subcommands that have subcommands."""


class _Table(Struct, frozen=True):
    """The harmless options of one program or subcommand.

    Attributes:
        flags: Options without a value, and words.
        valued: Options with a value that may be the next word; each with a regular expression for the value, or nothing.
        attached: Options with a value that is in the same word or missing.
        bare: Options without a value that are not harmless.
        numbers: Whether a number may be an option.
        named: Whether a rule must name the subcommand itself.
        reader: The facts about a read-only program.
    """

    flags: frozenset[str] = frozenset()
    valued: Mapping[str, str] = {}
    attached: Mapping[str, str] = {}
    bare: frozenset[str] = frozenset()
    numbers: bool = False
    named: bool = False
    reader: ReadonlyProgram | None = None


@lru_cache(512)
def _table(path: str) -> _Table | None:
    """Return the table of a program or subcommand; None if it has none."""
    text = harmless_options.HARMLESS.get(path)
    name, _, subcommand = path.partition(" ")
    reader = READONLY_GIT.get(subcommand) if name == "git" else READONLY_PROGRAMS.get(path)
    if path.startswith("git config") or (text is None and reader is None):
        return None
    flags: set[str] = set()
    valued: dict[str, str] = {}
    attached: dict[str, str] = {}
    for entry in (text or "").split():
        found = _ENTRY.fullmatch(entry)
        assert found is not None, entry
        option, kind, value = found[1], found[2], found[3] or ""
        if kind == ":":
            valued[option] = value
        elif kind == "=":
            attached[option] = value
        else:
            flags.add(option)
    marked = {option for option in flags if option.endswith("!")}
    bare = frozenset(option[:-1] for option in marked)
    return _Table(frozenset(flags - marked), valued, attached, bare, "-#" in flags, "!" in marked, reader)


class _Cover:
    """Iteration over the words of one command."""

    def __init__(self, name: str, words: Sequence[Word]) -> None:
        self.name = name
        self.words = words
        self.path = name
        self.table = _table(name) or _Table()
        self.everywhere = _table("") or _Table(frozenset(harmless_options.EVERY_PROGRAM.split()))
        self.choosing = name in _PARENTS
        self.operands = 0
        self.found: dict[int, str] = {}

    def check(self) -> Mapping[int, str]:
        number, ended = 1, False
        while number < len(self.words):
            text = self.words[number].text
            if text == "--" and self.name and not ended:
                following = _table(f"{self.path} --")
                ended = following is None and self.name not in harmless_options.NO_END
                self.table = following or self.table
                number += 1
            elif not ended and (text.startswith("-") and text != "-"):
                number += self._option(number)
            elif number == 1 and self.name in harmless_options.OLD_STYLE:
                number += self._bundle(number)
            else:
                self._operand(number, ended=ended)
                number += 1
        return self.found

    def _operand(self, number: int, *, ended: bool) -> None:
        word = self.words[number]
        text = word.text
        self.operands += 1
        if wildcards.ANY_TEXT in text and (word.splits or (text.startswith(wildcards.ANY_TEXT) and not ended)):
            self.found[number] = f"the word {word.source!r}, which may be an option"
        elif wildcards.is_glob(text[:1]) and self.name in harmless_options.DASH_FILE_RISK:
            self.found[number] = f"the word {word.source!r}, which may match a file that is named like an option"
        elif self.choosing:
            self._subcommand(number, text)
        elif text[:1] == "/" and ":" in text and self.name in harmless_options.SLASH_OPTIONS:
            self.found[number] = f"the option {text.partition(':')[0]!r}"
        elif problem := self._address_problem(text):
            self.found[number] = f"the word {text!r}, which {problem}"
        elif self.name == "git" and RUNS_GPG.search(f"{self.words[number - 1].text} {text}"):
            self.found[number] = f"the word {text!r}, which may make git start another program"
        elif text[:1] == "@" and self.name not in harmless_options.PLAIN_AT:
            self.found[number] = f"the word {text!r}, which may name a file with options"
        elif text[:1] == "+" and not ended and not self._reads(text):
            self.found[number] = f"the option {text!r}"
        elif not self.name and self.operands <= 2 and _CONFIGURES.fullmatch(text):
            self.found[number] = f"the subcommand {text!r}"
        elif self._is_setting(text):
            self.found[number] = f"the setting {text.partition('=')[0] + '='!r}"

    def _address_problem(self, text: str) -> str:
        """Return the side effect of a URL in addition to the connection; empty if it has none."""
        if self.name in harmless_options.DOWNLOADERS:
            is_named = has_option(self.words, ("-O", "--output-document", "--spider"))
            return "" if is_named else "names the file that is written"
        if self.name == "curl":
            return "" if _PLAIN_ADDRESS.fullmatch(text) else "is not a plain website URL"
        return "may make git start another program" if self.name == "git" and _REMOTE_HELPER.match(text) else ""

    def _subcommand(self, number: int, text: str) -> None:
        path = f"{self.path} {text}"
        table = _table(path)
        if table is None and path not in _PARENTS:
            self.found[number] = f"the subcommand {text!r}"
            self.choosing, self.table = False, self.everywhere
            return
        self.path, self.table, self.choosing = path, table or _Table(), path in _PARENTS
        if self.table.named:
            self.found[number] = f"the subcommand {text!r}"

    def _is_setting(self, text: str) -> bool:
        if self.name in harmless_options.NAMES_ITS_SETTINGS:
            name, equals, value = text.partition("=")
            pattern = self.table.attached.get(name)
            return bool(equals) and (pattern is None or not self._is_harmless(value, pattern))
        return not self.name and _SETTING.match(text) is not None

    def _reads(self, text: str) -> bool:
        reader = self.table.reader
        return reader is not None and re.fullmatch(reader.options, text, re.DOTALL) is not None

    def _option(self, number: int) -> int:
        """Check an option. Return the number of words that it takes."""
        text = self.words[number].text
        following = self.words[number + 1] if number + 1 < len(self.words) else None
        both = text if following is None else f"{text} {following.text}"
        runs = self.name == "git" and RUNS_GPG.search(both) is not None
        for table in () if runs else (self.table, self.everywhere):
            count = self._takes(table, text, following)
            if count:
                return count
        name = text.partition("=")[0].split(wildcards.ANY_TEXT)[0]
        self.found[number] = f"the option {name!r}"
        if not self.name or "=" in text or following is None or following.text.startswith("-"):
            return 1
        if not {text, text[:2], f"-{text[-1]}"}.isdisjoint(self.table.bare):
            return 1
        self.found[number + 1] = f"the value of the option {name!r}"
        return 2

    def _takes(self, table: _Table, text: str, following: Word | None) -> int:
        """Return the number of words that a harmless option takes; 0 if the table does not list it as harmless."""
        name, equals, value = text.partition("=")
        if not equals and name in table.flags or (table.numbers and re.fullmatch(r"-\d+", text)):
            return 1
        if name in table.attached:
            return int(not equals or self._is_harmless(value, table.attached[name]))
        if name in table.valued:
            if equals:
                return int(self._is_harmless(value, table.valued[name]))
            return self._next(following, table.valued[name])
        if not text.startswith("--"):
            count = self._short(table, text, following)
            if count:
                return count
        if table.reader is not None:
            if text in table.reader.valued:
                return self._next(following, "")
            return int(self._reads(text))
        return 0

    def _short(self, table: _Table, text: str, following: Word | None) -> int:
        """Do the same for short options in one word, the last of them with its value."""
        for end in range(1, len(text)):
            option = f"-{text[end]}"
            if option in table.flags:
                if self.name in harmless_options.EXACT_OPTIONS:
                    return 0
                continue
            value = text[end + 1 :]
            if option in table.attached:
                return int(self._is_harmless(value, table.attached[option]) or not value)
            if option not in table.valued or (value and self.name in harmless_options.EXACT_VALUES):
                return 0
            return (
                int(self._is_harmless(value, table.valued[option]))
                if value
                else self._next(following, table.valued[option])
            )
        return 1

    def _next(self, following: Word | None, pattern: str) -> int:
        """Return the number of words of an option whose value is the next word; 0 if the value is not harmless."""
        if following is None:
            return 1
        text, greedy = following.text, self.name in harmless_options.GREEDY
        unsure = (text.startswith("-") and not re.match(r"-(?: |\d|$)", text)) or text.startswith(wildcards.ANY_TEXT)
        if following.splits or (unsure and not greedy):
            return 0 if pattern else 1  # the next word is checked separately
        return 2 if self._is_harmless(text, pattern) else 0

    def _is_harmless(self, value: str, pattern: str) -> bool:
        if not pattern:
            return True
        return wildcards.is_literal(value) and re.fullmatch(pattern, value, re.DOTALL) is not None

    def _bundle(self, number: int) -> int:
        """Check options without a dash. Return the number of words that they take."""
        letters = self.words[number].text
        valued = [f"-{c}" for c in letters if f"-{c}" in self.table.valued]
        if len(valued) < 2 and all(f"-{c}" in self.table.flags or f"-{c}" in valued for c in letters):
            following = self.words[number + 1] if number + 1 < len(self.words) else None
            count = self._next(following, self.table.valued[valued[0]]) if valued else 1
            if count:
                return count
        self.found[number] = f"the options {letters!r}"
        self.found[number + 1] = self.found[number]
        return 2


def _uncovered_in_find(words: Sequence[Word]) -> Mapping[int, str]:
    found: dict[int, str] = {}
    rest = iter(enumerate(words[1:], 1))
    for number, word in rest:
        text = word.text
        if text in ("-exec", "-execdir", "-ok", "-okdir"):  # the commands that these run are checked separately
            next((None for _, inner in rest if inner.text in (";", "+")), None)
        elif text in FIND_TEXT_OPTIONS or text in FIND_PATH_OPTIONS:
            value = next(rest, None)
            if value is not None and value[1].splits:
                found[value[0]] = f"the word {value[1].source!r}, which may be an option"
        elif wildcards.ANY_TEXT in text and word.splits:
            found[number] = f"the word {word.source!r}, which may be an option"
        elif text.startswith("-") and text not in FIND_FLAGS and text not in _FIND_MORE:
            found[number] = f"the option {text!r}"
    return found
