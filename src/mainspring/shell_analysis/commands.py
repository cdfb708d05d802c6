"""What rules about commands are asked about: each simple command of a line, and the commands that it runs in turn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from mainspring.shell_analysis import programs, wildcards
from mainspring.shell_analysis.code_arguments import named_words
from mainspring.shell_analysis.effects import Touch, find_touches, touches
from mainspring.shell_analysis.line import RESERVED, Assignment, Command, Line, Redirect
from mainspring.shell_analysis.options import is_known, uncovered_words
from mainspring.shell_analysis.parser import read_line
from mainspring.shell_analysis.variables import Values, resolved
from mainspring.shell_analysis.words import PIPE, Word, program

MAX_DEPTH = 6
"""How deep commands may run commands before the line counts as unknown."""

Needs = Literal["self", "inner", "both"]
"""Whether a rule for the command itself is needed, or rules for what it runs, or both."""

SYSTEM_FOLDERS = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/opt/homebrew/bin/")


class Unit(Struct, frozen=True, kw_only=True):
    """A command that is judged by itself.

    Attributes:
        words: Assignments before it, its name and its arguments.
        text: Its source, for people.
        fixed: How many words a pattern has to name for certain before it may allow it. All, where arguments may be code.
        needs: What allows it.
        inner: The commands that it runs.
        unknown: Why what it runs cannot be known; empty if it can. No pattern allows such a command.
        scan: Whether its arguments may be a command, so that rules that tighten look at each of them.
        code: Whether its arguments may be code, in which paths are looked for.
        free: Whether it needs no rule.
        moves: Where it makes the shell go; ``None`` if nowhere.
        touches: Files that it is known to change or read.
        piped: Whether it reads what something else in the line gives it, so that its words alone do not say what it does.
        fed: Whether it runs code that it is given to read.
    """

    words: tuple[Word, ...]
    text: str
    fixed: int = 1
    needs: Needs = "self"
    inner: tuple[Unit, ...] = ()
    unknown: str = ""
    scan: bool = False
    code: bool = False
    free: bool = False
    moves: Word | None = None
    touches: tuple[Touch, ...] = ()
    piped: bool = False
    fed: bool = False

    def walk(self) -> Iterator[Unit]:
        """It and all that it runs, in the order in which they run."""
        yield self
        for unit in self.inner:
            yield from unit.walk()


class CommandLine(Struct, frozen=True):
    """A line, ready to be judged.

    Attributes:
        parts: Its commands and redirections, in order; redirections of nested lines among them.
        doubts: Why it cannot be judged as a whole; empty if it can.
        values: What the names that it sets may stand for, as far as that is known.
        pours: Whether it feeds values of variables to a command, which may show them.
    """

    parts: tuple[Unit | Redirect, ...]
    doubts: tuple[str, ...] = ()
    values: Values = {}
    pours: bool = False

    @property
    def units(self) -> tuple[Unit, ...]:
        """Its commands."""
        return tuple(p for p in self.parts if isinstance(p, Unit))


def analyse(text: str) -> CommandLine:
    """Take a line apart. Never raises."""
    return _Analysis(0).line(text)


class _Analysis:
    """Works on one line; nested lines get one of their own."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.doubts: list[str] = []
        self.redirects: list[Redirect] = []
        self.assigned: list[tuple[str, Word]] = []
        self.pours = False
        self.piped = self.given = False

    def line(self, text: str) -> CommandLine:
        read = read_line(text)
        self.doubts += read.doubts
        parts: list[Unit | Redirect] = []
        for part in read.parts:
            if isinstance(part, Redirect):
                parts.append(part)
            else:
                self.assigned += [(a.name, a.value) for a in part.assignments]
                self.doubts += [
                    f"it sets {a.name}, which says where paths lead" for a in part.assignments if _moves(a, text)
                ]
                self.piped = part.piped or self.given
                parts.append(replace(self.command(part), piped=self.piped))
                parts += self.redirects
                self.redirects = []
        parts += [_function(name, read) for name in read.functions]
        doubts, values = tuple(dict.fromkeys(self.doubts)), resolved(self.assigned)
        return CommandLine(tuple(parts), doubts, values, self.pours or read.pours)

    def nested(self, code: str) -> tuple[Unit, ...]:
        """The commands of code that a command hands to a shell."""
        if self.depth >= MAX_DEPTH:
            self.doubts.append("it is nested too deeply")
            return ()
        analysis = _Analysis(self.depth + 1)
        analysis.given = self.piped
        inner = analysis.line(code)
        self.assigned += analysis.assigned
        self.doubts += inner.doubts
        self.pours = self.pours or inner.pours
        self.redirects += [p for p in inner.parts if isinstance(p, Redirect)]
        return inner.units

    def command(self, command: Command) -> Unit:
        prefix = tuple(Word(f"{a.name}={a.value.text}", a.text) for a in command.assignments)
        if not command.words:
            free = all(programs.SHELL_VARIABLES.fullmatch(a.name) or _harmless(a) for a in command.assignments)
            return Unit(words=prefix, text=command.text, fixed=len(prefix), free=free, code=not free)
        core = self.unit(command.words, command.text, command.fed)
        if not prefix:
            return core
        return Unit(
            words=prefix + command.words,
            text=command.text,
            fixed=len(prefix) + core.fixed,
            needs="inner" if all(map(_harmless, command.assignments)) else "self",
            inner=(core,),
            unknown=core.unknown,
            code=any(programs.CODE_VARIABLES.fullmatch(a.name) for a in command.assignments) or core.code,
        )

    def unit(self, words: tuple[Word, ...], text: str = "", fed: str | None = None) -> Unit:
        """A command without assignments before it."""
        text = text or " ".join(w.source or w.text for w in words)
        first = words[0]
        if not first.literal or first.splits or not first.text or first.text[0] in (wildcards.HOME, wildcards.HERE):
            return Unit(
                words=words, text=text, fixed=len(words), unknown="its name is not known before it runs", scan=True
            )
        if first.text in RESERVED:
            self.doubts.append(f"it holds {first.text!r} where a command should be")
        name = program(first.text)
        for handle in (self._builtin, self._shell, self._wrapper, self._subcommand, self._interpreter):
            unit = handle(name, words, text, fed)
            if unit is not None:
                return unit
        fixed = named_words(name, words)
        code = fixed > 1 or (is_known(name) and bool(uncovered_words(name, words)))
        return Unit(words=words, text=text, fixed=fixed, code=code, touches=touches(name, words))

    # --- kinds of commands; each gives None if the command is none of its kind -----------------------------------------

    def _builtin(self, name: str, words: tuple[Word, ...], text: str, fed: str | None) -> Unit | None:
        first = words[0].text
        if first in programs.FREE or (first == "set" and _harmless_set(words)):
            return Unit(words=words, text=text, free=True)
        if first in ("cd", "pushd", "popd"):
            plain = len(words) == 2 and first != "popd" and words[1].text[:1] not in ("-", "+")
            target = words[1] if plain else Word(wildcards.MANY, "", splits=True)
            return Unit(words=words, text=text, moves=target)
        if first == "eval":
            return self._evaluates(words, words[1:], text)
        if first == "trap":
            return self._evaluates(words, words[1:2], text)
        if first == "alias":
            bodies = [Word(w.text.partition("=")[2], w.source) for w in words[1:] if w.literal and "=" in w.text]
            inner = tuple(unit for body in bodies for unit in self.nested(body.text))
            return Unit(words=words, text=text, fixed=len(words), unknown="it changes what a name means", inner=inner)
        if first in programs.PREFIX_BUILTINS:
            return Unit(words=words, text=text, fixed=len(words), unknown="it changes how the shell works", scan=True)
        if first in ("declare", "typeset", "local", "export", "readonly", "mapfile", "readarray"):
            return Unit(words=words, text=text, fixed=len(words), code=True)
        return None

    def _evaluates(self, words: tuple[Word, ...], code: Sequence[Word], text: str) -> Unit:
        if code and code[0].text == "--":
            code = words[words.index(code[0]) + 1 :][: 1 if words[0].text == "trap" else None]
        options = bool(code) and code[0].text.startswith("-") and code[0].text != "-"
        if not code or options or not all(map(_is_code, code)):
            return Unit(words=words, text=text, fixed=len(words), unknown="the code it runs is not known", scan=True)
        source = " ".join(w.text for w in code)
        if words[0].text == "trap" and source in ("-", ""):
            return Unit(words=words, text=text, free=True)
        return Unit(words=words, text=text, fixed=len(words), needs="inner", inner=self.nested(source))

    def _shell(self, name: str, words: tuple[Word, ...], text: str, fed: str | None) -> Unit | None:
        if name not in programs.SHELLS:
            return None
        found = _shell_arguments(words)
        if found is None:
            return Unit(words=words, text=text, fixed=len(words), unknown="its options are not understood", scan=True)
        kind, index = found
        if kind == "script" and index < len(words) and _is_stream(words[index]):
            return Unit(words=words, text=text, fixed=len(words), unknown="the code it runs is not known", scan=True)
        if kind == "script" and index < len(words):
            return Unit(words=words, text=text, fixed=index + 1, code=True)
        if kind == "script" and fed is not None:
            return Unit(words=words, text=text, fixed=len(words), needs="inner", inner=self.nested(fed), fed=True)
        if kind == "script" or index >= len(words) or not _is_code(words[index]):
            return Unit(words=words, text=text, fixed=len(words), unknown="the code it runs is not known", scan=True)
        inner = self.nested(words[index].text)
        return Unit(
            words=words, text=text, fixed=len(words), needs="inner" if _system(words[0]) else "self", inner=inner
        )

    def _wrapper(self, name: str, words: tuple[Word, ...], text: str, fed: str | None) -> Unit | None:
        if name == "find":
            return self._find(words, text)
        if name == "watch":
            return self._watch(words, text)
        spec = programs.WRAPPERS.get(name)
        if spec is None:
            if name not in programs.OPAQUE_WRAPPERS:
                return None
            return Unit(words=words, text=text, fixed=len(words), scan=True)
        start, plain = _inner_start(words, spec, assigns=name in ("env", "sudo"))
        if start is None or self.depth >= MAX_DEPTH:
            return Unit(words=words, text=text, fixed=len(words), scan=True)
        if start >= len(words):
            free = name in ("exec", "command", "builtin", "time")
            return Unit(words=words, text=text, fixed=len(words), free=free)
        inner_words = words[start:]
        if name == "xargs":
            inner_words = _fed_by_xargs(words[:start], inner_words)
        inner = self.deeper().unit_into(self, inner_words, fed if name != "xargs" else None)
        plain = plain and spec.plain and _system(words[0])
        return Unit(
            words=words,
            text=text,
            fixed=start + inner.fixed if name != "xargs" else len(words),
            needs="inner" if plain else "self",
            inner=(inner,),
            unknown=inner.unknown,
            scan=not plain,
        )

    def deeper(self) -> _Analysis:
        inner = _Analysis(self.depth + 1)
        inner.piped = self.piped
        return inner

    def unit_into(self, outer: _Analysis, words: tuple[Word, ...], fed: str | None = None) -> Unit:
        """A command inside a command; what is found on the way goes to the outer line."""
        unit = self.unit(words, "", fed)
        outer.doubts += self.doubts
        outer.redirects += self.redirects
        outer.assigned += self.assigned
        outer.pours = outer.pours or self.pours
        return unit

    def _find(self, words: tuple[Word, ...], text: str) -> Unit:
        inner: list[Unit] = []
        i = 1
        unsure = any(w.text.startswith(wildcards.MANY) for w in words[1:])
        while i < len(words):
            if words[i].text in ("-exec", "-execdir", "-ok", "-okdir"):
                end = next((k for k in range(i + 1, len(words)) if words[k].text in (";", "+")), len(words))
                run = tuple(_holed(w, "{}") for w in words[i + 1 : end])
                if not run or self.depth >= MAX_DEPTH:
                    unsure = True
                else:
                    inner.append(self.deeper().unit_into(self, run))
                i = end
            i += 1
        needs: Needs = "both" if inner else "self"
        acts = [i for i, w in enumerate(words) if w.text in ("-delete", "-fprint", "-fprint0", "-fprintf", "-fls")]
        fixed = len(words) if unsure else max(acts, default=0) + 1
        return Unit(words=words, text=text, fixed=fixed, needs=needs, inner=tuple(inner), touches=find_touches(words))

    def _watch(self, words: tuple[Word, ...], text: str) -> Unit:
        spec = programs.Wrapper(
            frozenset("-d -t -b -e -g -c -x -p --exec --beep --color".split()), frozenset(("-n", "--interval"))
        )
        start, _ = _inner_start(words, spec)
        if start is None or start >= len(words):
            return Unit(words=words, text=text, fixed=len(words), unknown="its options are not understood", scan=True)
        return self._evaluates(words, words[start:], text)

    def _subcommand(self, name: str, words: tuple[Word, ...], text: str, fed: str | None) -> Unit | None:
        second = words[1] if len(words) > 1 else Word("", "")
        runners = programs.CONTAINER_RUNNERS.get(name, ())
        if any(w.literal and w.text in runners for w in words[1:]):  # behind options, too, and they may have values
            return Unit(words=words, text=text, fixed=len(words), scan=True)
        if name == "git" and any(w.text in ("bisect", "foreach", "filter-branch") for w in words[1:3]):
            return Unit(words=words, text=text, fixed=len(words), scan=True)
        wrappers = programs.SUBCOMMAND_WRAPPERS.get(name, ())
        if not second.literal or second.text not in wrappers:
            if second.text.startswith("-") and any(w.text in wrappers for w in words[2:]):
                return Unit(words=words, text=text, fixed=len(words), scan=True)
            return None
        start = 3 if len(words) > 2 and words[2].text == "--" else 2
        if (
            start >= len(words)
            or not words[start].literal
            or words[start].text.startswith("-")
            or self.depth >= MAX_DEPTH
        ):
            return Unit(words=words, text=text, fixed=len(words), scan=True)
        inner = self.deeper().unit_into(self, words[start:])
        return Unit(words=words, text=text, fixed=start + inner.fixed, inner=(inner,), unknown=inner.unknown, scan=True)

    def _interpreter(self, name: str, words: tuple[Word, ...], text: str, fed: str | None) -> Unit | None:
        family = re.sub(r"[\d.]+$", "", name)
        safe = programs.INTERPRETERS.get(name, programs.INTERPRETERS.get(family))
        if safe is None or (name == "." and words[0].text != "."):
            return None
        i = 1
        while i < len(words) and words[i].literal and words[i].text in safe:
            i += 1
        if i + 1 < len(words) and words[i].text == "-m" and family in ("python", "pypy"):
            return Unit(words=words, text=text, fixed=i + 2, code=True)
        given = self.piped and family in programs.PROMPTS
        if given or i >= len(words) or words[i].text == "-" or _is_stream(words[i]):
            sourced = name in (".", "source")
            return Unit(words=words, text=text, fixed=len(words), unknown="the code it runs is not known", scan=sourced)
        script = words[i].literal and not words[i].text.startswith("-") and not words[i].splits
        return Unit(words=words, text=text, fixed=i + 1 if script else len(words), code=True)


def _is_code(word: Word) -> bool:
    """Whether a word is known to be this code in every shell; some do not know ``$'...'``."""
    return word.literal and not word.splits and "$'" not in word.source


def _is_stream(word: Word) -> bool:
    """Whether a script is no file that lies somewhere, but what another command writes."""
    return word.text == PIPE or re.match(r"/dev/(?:stdin|fd/)|/proc/[^/]+/fd/", word.text) is not None


def _function(name: str, read: Line) -> Unit:
    word = Word(name, name)
    return Unit(words=(word,), text=f"{name}()", fixed=1, unknown="it is defined as a function in the line")


def _harmless(assignment: Assignment) -> bool:
    return programs.HARMLESS_VARIABLES.fullmatch(assignment.name) is not None


def _moves(assignment: Assignment, line: str) -> bool:
    """Whether an assignment changes what paths of the line stand for."""
    if assignment.name == "HOME":
        return "~" in line or len(re.findall(r"\$\{?HOME\b", line)) > 0
    return assignment.name in ("PWD", "OLDPWD")


def _harmless_set(words: tuple[Word, ...]) -> bool:
    return len(words) > 1 and all(re.fullmatch(r"[-+][euxovf]+|pipefail|--", w.text) for w in words[1:])


def _system(word: Word) -> bool:
    """Whether a name stands for the program of the system, and not for a file that happens to be called so."""
    return "/" not in word.text or word.text.rpartition("/")[0] + "/" in SYSTEM_FOLDERS


def _shell_arguments(words: tuple[Word, ...]) -> tuple[Literal["code", "script"], int] | None:
    """Where a shell's code or script stands; ``None`` if its options are not understood."""
    i, code = 1, False
    while i < len(words):
        text = words[i].text
        if not words[i].literal or text in ("--norc", "--noprofile", "--login", "--posix"):
            if not words[i].literal:
                break
        elif re.fullmatch(r"[-+][euxv]*o", text) and i + 1 < len(words):
            i += 1
        elif re.fullmatch(r"[-+][abefhkmnpuvxBCEHPTlc]+", text):
            code = code or (text.startswith("-") and "c" in text)
        elif text == "--":
            i += 1
            break
        elif text.startswith(("-", "+")):
            return None
        else:
            break
        i += 1
    return ("code" if code else "script"), i


def _inner_start(words: tuple[Word, ...], spec: programs.Wrapper, *, assigns: bool = False) -> tuple[int | None, bool]:
    """Where the command of a wrapper begins, and whether it runs as it would by itself."""
    i, operands, plain = 1, spec.operands, True
    while i < len(words):
        word = words[i]
        text = word.text
        if assigns and "=" in text and not text.startswith("-"):
            name = text.partition("=")[0]
            plain = plain and word.literal and programs.HARMLESS_VARIABLES.fullmatch(name) is not None
            i += 1
        elif not word.literal or word.splits:
            return (i, plain) if operands == 0 else (None, False)
        elif text == "--":
            i += 1
            break
        elif text.startswith("-") and len(text) > 1 or text in spec.flags:
            step = _option(text, spec)
            if step == 0:
                return None, False
            i += step
        elif operands:
            operands -= 1
            i += 1
        else:
            break
    return i, plain


def _option(text: str, spec: programs.Wrapper) -> int:
    """How many words an option takes; 0 if it is not known."""
    if text in spec.flags or text.partition("=")[0] in spec.optional or (spec.numeric and re.fullmatch(r"-\d+", text)):
        return 1
    if text in spec.valued:
        return 2
    if text.startswith("--"):
        return 1 if text.partition("=")[0] in spec.valued else 0
    if text[:2] in spec.valued:
        return 1
    return 1 if all(f"-{c}" in spec.flags for c in text[1:]) else 0


def _fed_by_xargs(options: tuple[Word, ...], command: tuple[Word, ...]) -> tuple[Word, ...]:
    """A command with what xargs puts into it, which is not known."""
    for i, word in enumerate(options):
        placeholder = ""
        if word.text in ("-I", "--replace") and i + 1 < len(options):
            placeholder = options[i + 1].text
        elif word.text.startswith("-I"):
            placeholder = word.text[2:]
        elif word.text.startswith("--replace"):
            placeholder = word.text.partition("=")[2] or "{}"
        if placeholder:
            return tuple(_holed(w, placeholder) for w in command)
    return (*command, Word(wildcards.MANY, "…", splits=True))


def _holed(word: Word, placeholder: str) -> Word:
    if placeholder not in word.text:
        return word
    return Word(word.text.replace(placeholder, wildcards.MANY), word.source, word.splits)
