"""Find the simple commands of a line, and the commands that they run in turn. Rules are compared with each of them."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import programs, wildcards
from mainspring.shell_analysis.code_arguments import required_literal_words
from mainspring.shell_analysis.effects import SPECIAL_BUILTINS, construct, file_effects, find_command_effects
from mainspring.shell_analysis.parser import parse
from mainspring.shell_analysis.programs import is_known, uncovered_words
from mainspring.shell_analysis.syntax import (
    AnalyzedCommand,
    ApprovalTarget,
    Loop,
    Node,
    NotUnderstoodError,
    Redirect,
    Redirection,
    Simple,
    Spelling,
    Substitution,
    Word,
    program_name,
)
from mainspring.shell_analysis.variables import VariableValues, find_values, forms, is_own_name, is_special

_MAX_DEPTH = 6
"""Maximum depth at which commands run commands; deeper lines are rejected."""

_MAX_COMMANDS = 200
"""Maximum number of commands and redirections of a line; longer lines are rejected."""

_LOGIN = lazy_re(r"--login|-[a-z]*l[a-z]*")
_KNOWN_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ash", "rbash"))
"""Shells that read the language of `parser` in the same way."""


SYSTEM_FOLDERS = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/opt/homebrew/bin/")


class AnalyzedLine(Struct, frozen=True):
    """An analyzed line.

    Attributes:
        parts: Its commands and redirections, in order, including redirections of nested lines. None if the line cannot be parsed.
        problem: Why it cannot be parsed; empty if it can.
        unordered: Positions of parts that may run more than once, at the same time, or in another order.
    """

    parts: tuple[AnalyzedCommand | Redirect, ...] = ()
    problem: str = ""
    unordered: tuple[range, ...] = ()

    @property
    def units(self) -> tuple[AnalyzedCommand, ...]:
        """Return its commands."""
        return tuple(p for p in self.parts if isinstance(p, AnalyzedCommand))


def analyze(text: str) -> AnalyzedLine:
    """Find the commands and files of a line, or why it cannot be parsed. Never raises."""
    try:
        analysis = _Analysis(0)
        return AnalyzedLine(tuple(analysis.line(text)), "", tuple(analysis.unordered))
    except NotUnderstoodError as error:
        return AnalyzedLine((), str(error))


class _Analysis:
    """Analysis of one line; nested lines get their own."""

    def __init__(self, depth: int, *, piped: bool = False, hides_dotfiles: bool = True) -> None:
        if depth > _MAX_DEPTH:
            raise NotUnderstoodError("it is nested too deeply")
        self.depth = depth
        self.piped = piped
        self.hides_dotfiles = hides_dotfiles
        self.parts: list[AnalyzedCommand | Redirect] = []
        self.values: VariableValues = {}
        self.looping = False
        self.nested_redirects: list[Redirect] = []
        self.unordered: list[range] = []
        self.runs_again = self.runs_in_background = False  # the commands that the current command runs
        self.background: list[int] = []  # positions of the parts that still run while later parts run

    def line(self, text: str) -> list[AnalyzedCommand | Redirect]:
        tree = parse(text, hides_dotfiles=self.hides_dotfiles)
        self.values = find_values(tree)
        self.node(tree, self.piped, frozenset())
        if self.background:
            self._mark_unordered(self.background[0])
        return self.parts

    # --- the syntax tree --------------------------------------------------------------------------------------------

    def node(self, node: Node, piped: bool, certain: frozenset[str]) -> None:
        """Collect the commands of a syntax tree node.

        Args:
            node: The node.
            piped: Whether it reads the output of another command in the line.
            certain: Variables that are certainly set.
        """
        self.check_length()
        if isinstance(node, Simple):
            self.simple(node, piped, certain)
            return
        self.redirections(node.redirects, piped, certain)
        has_input = piped or any(not r.writes for r in node.redirects)
        looping = self.looping
        first = len(self.parts)
        if isinstance(node, Loop):
            for value in node.values:
                self.inside(value, has_input, certain)
                for [word] in forms((value,), self.values, certain) if value.splits else ():
                    self.parts.append(
                        Redirect(word, False, value.source)
                    )  # a list of names has the same effect as reading a folder
            first = len(self.parts)
            self.looping = True
            self.node(node.body, has_input, certain | {node.name})
        else:
            self.looping = node.kind == "loop" or (looping and node.kind != "subshell")
            feeder: AnalyzedCommand | None = None
            for number, item in enumerate(node.items):
                start = len(self.parts)
                self.node(item, has_input or (node.kind == "pipe" and number > 0), certain)
                feeder = self._connect(feeder, item, start) if node.kind == "pipe" else None
                if node.kind == "list" and isinstance(item, Simple) and not item.words:
                    certain = certain.union(name for name, _ in item.assignments)
        if isinstance(node, Loop) or node.kind in ("loop", "pipe"):
            self._mark_unordered(first)
        elif node.kind == "background":
            self.background.append(first)
        self.looping = looping

    def _mark_unordered(self, first: int) -> None:
        """Note that the parts from a position to the last one may run more than once or in another order."""
        self.unordered = [*(each for each in self.unordered if each.start < first), range(first, len(self.parts))]

    def check_length(self) -> None:
        if len(self.parts) > _MAX_COMMANDS:
            raise NotUnderstoodError(f"it contains more than {_MAX_COMMANDS} commands and redirections")

    def _connect(self, feeder: AnalyzedCommand | None, item: Node, start: int) -> AnalyzedCommand | None:
        """Record the command that feeds ``xargs``; the result feeds the next command of the pipeline."""
        units = [part for part in self.parts[start:] if isinstance(part, AnalyzedCommand)]
        if not isinstance(item, Simple) or len(units) != 1 or self.parts[-1] is not units[0]:
            return None
        if feeder is not None and units[0].words[0].text == "xargs":
            self.parts[-1] = replace(units[0], feeder=feeder)
        return None if ">&" in item.source else units[0]

    def inside(self, spelling: Spelling, piped: bool, certain: frozenset[str]) -> None:
        """Return the commands of the substitutions in a word."""
        looping, self.looping = self.looping, False
        for piece in spelling.pieces:
            if isinstance(piece, Substitution):
                self.node(piece.body, piped, certain)
        self.looping = looping

    def redirections(self, redirects: tuple[Redirection, ...], piped: bool, certain: frozenset[str]) -> None:
        for redirect in redirects:
            if redirect.target is None:
                continue
            self.inside(redirect.target, piped, certain)
            for [target] in forms((redirect.target,), self.values, certain):
                if target.splits:
                    raise NotUnderstoodError(
                        "it uses a redirection to a file whose name is not known; quote the variable"
                    )
                self.parts.append(Redirect(target, redirect.writes, redirect.source))
                self.check_length()

    def simple(self, node: Simple, piped: bool, certain: frozenset[str]) -> None:
        has_input = piped or any(not r.writes for r in node.redirects)
        assigned = tuple([value for _, value in node.assignments])
        first = len(self.parts)
        for spelling in assigned:
            self.inside(spelling, has_input, certain)
        first_of_words = len(self.parts)
        for spelling in node.words:
            self.inside(spelling, has_input, certain)
        if first < first_of_words < len(self.parts):  # shells expand the words first
            self._mark_unordered(first)
        self.redirections(node.redirects, has_input, certain)
        fed = next((r.fed for r in reversed(node.redirects) if not r.writes and r.target is None), None)
        names = [name for name, _ in node.assignments]
        first = len(self.parts)
        self.runs_again = self.runs_in_background = False
        for words in forms((*assigned, *node.words), self.values, certain):
            self.piped = has_input
            prefix = tuple([Word(f"{n}={w.text}", f"{n}={w.source}") for n, w in zip(names, words, strict=False)])
            unit = self.command(names, prefix, words[len(names) :], node.source, fed)
            if self.looping and any(inner.cd_target is not None for inner in unit.walk()):
                raise NotUnderstoodError("it uses 'cd' in a loop, which also changes the folder of earlier commands")
            self.parts.append(replace(unit, piped=True) if has_input else unit)
            self.parts += self.nested_redirects  # the folder and the links of the nested code apply to them
            self.nested_redirects.clear()
        if self.runs_again:
            self._mark_unordered(first)
        if self.runs_in_background:
            self.background.append(first)

    def command(
        self, names: list[str], prefix: tuple[Word, ...], words: tuple[Word, ...], text: str, stdin_text: str | None
    ) -> AnalyzedCommand:
        if not words:
            return AnalyzedCommand(words=prefix, text=text, fixed=len(prefix), is_unrestricted=True)
        core = self.analyze_words(words, text, stdin_text)
        if not prefix:
            return core
        if words[0].text in SPECIAL_BUILTINS:
            raise NotUnderstoodError(f"it uses an assignment before {words[0].text!r}, which lasts in some shells")
        for name, word in zip(names, prefix, strict=True):
            if "$(" in word.text or "`" in word.text:
                raise NotUnderstoodError(f"it uses an assignment to {name} with a value that contains code")
            if is_special(name):
                number = name in ("COLUMNS", "LINES") and word.text.partition("=")[2].isdigit()
                if not number:
                    raise NotUnderstoodError(f"it uses an assignment to {name}, which a shell uses itself")
            elif not word.literal and not is_own_name(name):
                raise NotUnderstoodError(f"it uses an assignment to {name} with a value that is not known")
        return AnalyzedCommand(
            words=prefix + words,
            text=text,
            fixed=len(prefix) + core.fixed,
            required_rules="inner"
            if all(programs.HARMLESS_VARIABLES.fullmatch(word.text) for word in prefix)
            else "self",
            inner=(core,),
            unknown=core.unknown,
            code=any(programs.CODE_VARIABLES.fullmatch(name) for name in names) or core.code,
        )

    def analyze_nested(self, code: str, *, hides_dotfiles: bool = True) -> tuple[AnalyzedCommand, ...]:
        """Return the commands of code that a command passes to a shell."""
        deeper = self._nested(hides_dotfiles=hides_dotfiles)
        parts = deeper.line(code)
        self.nested_redirects += [p for p in parts if isinstance(p, Redirect)]
        self.runs_again = self.runs_again or bool(deeper.unordered)
        self.runs_in_background = self.runs_in_background or bool(deeper.background)
        return tuple(p for p in parts if isinstance(p, AnalyzedCommand))

    def _nested(self, *, hides_dotfiles: bool) -> _Analysis:
        hides_dotfiles = hides_dotfiles and self.hides_dotfiles
        return _Analysis(self.depth + 1, piped=self.piped, hides_dotfiles=hides_dotfiles)

    def analyze_words(self, words: tuple[Word, ...], text: str = "", stdin_text: str | None = None) -> AnalyzedCommand:
        """Analyze a command without assignments before it."""
        text = text or " ".join(w.source or w.text for w in words)
        first = words[0]
        if not first.literal or first.splits or not first.text:
            raise NotUnderstoodError("it uses a command name that is not known before it runs")
        if first.text[0] in (wildcards.HOME, wildcards.CWD):
            return AnalyzedCommand(
                words=words, text=text, fixed=len(words), unknown="its program is not in a known folder", scan=True
            )
        problem = construct(words)
        if problem:
            raise NotUnderstoodError(f"it uses {problem}")
        name = program_name(first.text)
        for handle in (self._builtin, self._shell, self._wrapper, self._subcommand, self._interpreter):
            unit = handle(name, words, text, stdin_text)
            if unit is not None:
                return unit
        fixed = required_literal_words(name, words)
        code = fixed > 1 or (is_known(name) and bool(uncovered_words(name, words)))
        return AnalyzedCommand(words=words, text=text, fixed=fixed, code=code, file_accesses=file_effects(name, words))

    # --- kinds of commands; each returns None if the command is of another kind -----------------------------------------

    def _builtin(self, name: str, words: tuple[Word, ...], text: str, stdin_text: str | None) -> AnalyzedCommand | None:
        first = words[0].text
        if first in programs.NO_OP_BUILTINS or first in ("set", "[", "wait"):
            return AnalyzedCommand(words=words, text=text, is_unrestricted=True)
        if first == "cd":
            known = len(words) == 2 and words[1].text != "-"
            return AnalyzedCommand(
                words=words, text=text, cd_target=words[1] if known else Word(wildcards.ANY_TEXT, "", splits=True)
            )
        return None

    def _shell(self, name: str, words: tuple[Word, ...], text: str, stdin_text: str | None) -> AnalyzedCommand | None:
        if name not in programs.SHELLS:
            return None
        found = _shell_arguments(words)
        if found is None:
            if [word.text for word in words[1:]] == ["--version"]:
                return AnalyzedCommand(
                    words=words, text=text, fixed=len(words), unknown="its options are unknown", scan=True
                )
            raise NotUnderstoodError(f"it uses {name} with options that may change how code is read")
        kind, index = found
        # A login shell and zsh read files in which the user may have chosen that wildcards match hidden files.
        hides_dotfiles = name != "zsh" and not any(_LOGIN.fullmatch(word.text) for word in words[1:index])
        if kind == "code":
            if name not in _KNOWN_SHELLS or index >= len(words) or not _is_code(words[index]):
                raise NotUnderstoodError(f"it uses code for {name} that is not known, or in another language")
            needs: ApprovalTarget = "inner" if _is_system_program(words[0]) else "self"
            inner = self.analyze_nested(words[index].text, hides_dotfiles=hides_dotfiles)
            return AnalyzedCommand(words=words, text=text, fixed=len(words), required_rules=needs, inner=inner)
        if index < len(words) and not _is_process_substitution(words[index]):
            return AnalyzedCommand(words=words, text=text, fixed=index + 1, code=True)
        if stdin_text is None or index < len(words) or name not in _KNOWN_SHELLS:
            return AnalyzedCommand(
                words=words, text=text, fixed=len(words), unknown="the code it runs is not known", scan=True
            )
        return AnalyzedCommand(
            words=words,
            text=text,
            fixed=len(words),
            required_rules="inner",
            inner=self.analyze_nested(stdin_text, hides_dotfiles=hides_dotfiles),
            fed=True,
        )

    def _wrapper(self, name: str, words: tuple[Word, ...], text: str, stdin_text: str | None) -> AnalyzedCommand | None:
        if name == "find":
            return self._find(words, text)
        if name == "watch":
            return self._watch(words, text)
        spec = programs.WRAPPERS.get(name)
        if spec is None:
            if name not in programs.OPAQUE_WRAPPERS:
                return None
            return AnalyzedCommand(words=words, text=text, fixed=len(words), scan=True)
        start, plain = _inner_start(words, spec, assigns=name in ("env", "sudo"))
        if start is None:
            return AnalyzedCommand(words=words, text=text, fixed=len(words), scan=True)
        if start >= len(words):
            return AnalyzedCommand(
                words=words, text=text, fixed=len(words), is_unrestricted=name in ("command", "time")
            )
        inner_words = words[start:]
        if programs.has_option(words[:start], programs.BACKGROUND_OPTIONS.get(name, ())):
            self.runs_in_background = True
        if name == "xargs":
            inner_words = _add_xargs_arguments(words[:start], inner_words)
            self.runs_again = True
        plain = plain and spec.plain and _is_system_program(words[0])
        inner = self.run_by(inner_words, stdin_text if name != "xargs" else None, hides_dotfiles=plain)
        return AnalyzedCommand(
            words=words,
            text=text,
            fixed=start + inner.fixed if name != "xargs" else len(words),
            required_rules="inner" if plain else "self",
            inner=(inner,),
            unknown=inner.unknown,
            scan=not plain,
        )

    def run_by(
        self, words: tuple[Word, ...], stdin_text: str | None = None, *, hides_dotfiles: bool = True
    ) -> AnalyzedCommand:
        """Return the command that another command runs; redirections in it belong to the line."""
        deeper = self._nested(hides_dotfiles=hides_dotfiles)
        unit = deeper.analyze_words(words, "", stdin_text)
        self.nested_redirects += deeper.nested_redirects
        self.runs_again = self.runs_again or deeper.runs_again
        self.runs_in_background = self.runs_in_background or deeper.runs_in_background
        return unit

    def _find(self, words: tuple[Word, ...], text: str) -> AnalyzedCommand:
        inner: list[AnalyzedCommand] = []
        i = 1
        unsure = any(w.text.startswith(wildcards.ANY_TEXT) for w in words[1:])
        while i < len(words):
            if words[i].text in ("-exec", "-execdir", "-ok", "-okdir"):
                end = next((k for k in range(i + 1, len(words)) if words[k].text in (";", "+")), len(words))
                run = tuple(_replace_placeholder(w, "{}") for w in words[i + 1 : end])
                if run:
                    self.runs_again = True
                    inner.append(self.run_by(run))
                unsure = unsure or not run
                i = end
            i += 1
        needs: ApprovalTarget = "both" if inner else "self"
        acts = [i for i, w in enumerate(words) if w.text in ("-delete", "-fprint", "-fprint0", "-fprintf", "-fls")]
        fixed = len(words) if unsure else max(acts, default=0) + 1
        return AnalyzedCommand(
            words=words,
            text=text,
            fixed=fixed,
            required_rules=needs,
            inner=tuple(inner),
            file_accesses=find_command_effects(words),
        )

    def _watch(self, words: tuple[Word, ...], text: str) -> AnalyzedCommand:
        spec = programs.Wrapper(
            frozenset("-d -t -b -e -g -c -x -p --exec --beep --color".split()), frozenset(("-n", "--interval"))
        )
        start, _ = _inner_start(words, spec)
        if start is None or start >= len(words):
            return AnalyzedCommand(
                words=words, text=text, fixed=len(words), unknown="its options are unknown", scan=True
            )
        code = words[start:]
        if not all(map(_is_code, code)):
            return AnalyzedCommand(
                words=words, text=text, fixed=len(words), unknown="the code it runs is not known", scan=True
            )
        self.runs_again = True
        inner = self.analyze_nested(" ".join(w.text for w in code))
        return AnalyzedCommand(words=words, text=text, fixed=len(words), required_rules="inner", inner=inner)

    def _subcommand(
        self, name: str, words: tuple[Word, ...], text: str, stdin_text: str | None
    ) -> AnalyzedCommand | None:
        second = words[1] if len(words) > 1 else Word("", "")
        runners = programs.CONTAINER_RUNNERS.get(name, ())
        if any(w.literal and w.text in runners for w in words[1:]):  # after options, too, which may have values
            return AnalyzedCommand(words=words, text=text, fixed=len(words), scan=True)
        if name == "git" and any(w.text in ("bisect", "foreach", "filter-branch") for w in words[1:3]):
            return AnalyzedCommand(words=words, text=text, fixed=len(words), scan=True)
        wrappers = programs.SUBCOMMAND_WRAPPERS.get(name, ())
        if not second.literal or second.text not in wrappers:
            if second.text.startswith("-") and any(w.text in wrappers for w in words[2:]):
                return AnalyzedCommand(words=words, text=text, fixed=len(words), scan=True)
            return None
        start = 3 if len(words) > 2 and words[2].text == "--" else 2
        if start >= len(words) or not words[start].literal or words[start].text.startswith("-"):
            return AnalyzedCommand(words=words, text=text, fixed=len(words), scan=True)
        inner = self.run_by(words[start:], hides_dotfiles=False)
        return AnalyzedCommand(
            words=words, text=text, fixed=start + inner.fixed, inner=(inner,), unknown=inner.unknown, scan=True
        )

    def _interpreter(
        self, name: str, words: tuple[Word, ...], text: str, stdin_text: str | None
    ) -> AnalyzedCommand | None:
        family = re.sub(r"[\d.]+$", "", name)
        safe = programs.INTERPRETERS.get(name, programs.INTERPRETERS.get(family))
        if safe is None or name in (".", "source"):
            return None
        i = 1
        while i < len(words) and words[i].literal and words[i].text in safe:
            i += 1
        if i + 1 < len(words) and words[i].text == "-m" and family in ("python", "pypy"):
            return AnalyzedCommand(words=words, text=text, fixed=i + 2, code=True)
        has_input = self.piped and family in programs.INTERACTIVE_PROGRAMS
        if has_input or i >= len(words) or words[i].text == "-" or _is_process_substitution(words[i]):
            return AnalyzedCommand(words=words, text=text, fixed=len(words), unknown="the code it runs is not known")
        script = words[i].literal and not words[i].text.startswith("-") and not words[i].splits
        return AnalyzedCommand(words=words, text=text, fixed=i + 1 if script else len(words), code=True)


def _is_code(word: Word) -> bool:
    """Return True if a word is certainly this code in every shell."""
    return word.literal and not word.splits and not set(word.text) & {wildcards.HOME, wildcards.CWD}


def _is_process_substitution(word: Word) -> bool:
    """Return True if a script is the output of another command instead of a file."""
    return re.match(r"/dev/(?:stdin|fd/)|/proc/[^/]+/fd/", word.text) is not None


def _is_system_program(word: Word) -> bool:
    """Return True if a name certainly refers to the system's program, not to another file with the same name."""
    return "/" not in word.text or word.text.rpartition("/")[0] + "/" in SYSTEM_FOLDERS


def _shell_arguments(words: tuple[Word, ...]) -> tuple[Literal["code", "script"], int] | None:
    """Return the position of a shell's code or script; None if its options are unknown."""
    i, code = 1, False
    while i < len(words):
        text = words[i].text
        if not words[i].literal:
            break
        if text in ("--norc", "--noprofile", "--login"):
            pass
        elif re.fullmatch(r"-[eux]*o", text) and i + 1 < len(words):
            if words[i + 1].text not in ("pipefail", "errexit", "nounset", "xtrace"):
                return None
            i += 1
        elif re.fullmatch(r"-[euxlc]+", text):
            code = code or "c" in text
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
    """Return the position where the command of a wrapper begins, and whether the command runs as it would alone."""
    i, operands, plain = 1, spec.operands, True
    while i < len(words):
        word = words[i]
        text = word.text
        if assigns and "=" in text and not text.startswith("-"):
            plain = plain and word.literal and programs.HARMLESS_VARIABLES.fullmatch(text) is not None
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
    """Return the number of words that an option takes; 0 if the option is unknown."""
    if text in spec.flags or text.partition("=")[0] in spec.optional or (spec.numeric and re.fullmatch(r"-\d+", text)):
        return 1
    if text in spec.valued:
        return 2
    if text.startswith("--"):
        return 1 if text.partition("=")[0] in spec.valued else 0
    if text[:2] in spec.valued:
        return 1
    return 1 if all(f"-{c}" in spec.flags for c in text[1:]) else 0


def _add_xargs_arguments(options: tuple[Word, ...], command: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return a command with the unknown arguments that xargs adds."""
    for i, word in enumerate(options):
        placeholder = ""
        if word.text in ("-I", "--replace") and i + 1 < len(options):
            placeholder = options[i + 1].text
        elif word.text.startswith("-I"):
            placeholder = word.text[2:]
        elif word.text.startswith("--replace"):
            placeholder = word.text.partition("=")[2] or "{}"
        if placeholder:
            return tuple(_replace_placeholder(w, placeholder) for w in command)
    return (*command, Word(wildcards.ANY_TEXT, "…", splits=True))


def _replace_placeholder(word: Word, placeholder: str) -> Word:
    if placeholder not in word.text:
        return word
    return Word(word.text.replace(placeholder, wildcards.ANY_TEXT), word.source, word.splits)
