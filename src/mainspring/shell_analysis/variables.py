"""Find the possible values of a line's variables, so that ``for f in a b; do cat "$f"; done`` is checked as the commands that it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.syntax import (
    Block,
    Loop,
    Node,
    NotUnderstoodError,
    Spelling,
    Substitution,
    Variable,
    Word,
)

MAX_FORMS = 40
"""Maximum number of combinations of values; a command with more is rejected."""

_HARMLESS = frozenset(
    "HOME PWD OLDPWD PPID USER LOGNAME SHELL PATH TMPDIR LANG LC_ALL TERM HOSTNAME EDITOR PAGER VISUAL VIRTUAL_ENV CONDA_PREFIX CI COLUMNS "
    "LINES NODE_ENV PYTHONPATH GOPATH GOROOT JAVA_HOME CARGO_HOME RUSTUP_HOME NVM_DIR XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME "
    "XDG_RUNTIME_DIR ?".split()
)
"""Environment variables that a line may use: they contain no secrets."""

_OWN_NAME = lazy_re(r"(?!.*_proxy$|npm_|zle_|dis_)[a-z][a-z0-9_]*")
_ZSH_NAMES = frozenset(
    "aliases argv builtins cdpath commands dirstack epochtime errnos fignore fpath funcfiletrace funcsourcetrace funcstack functions "
    "functrace galiases histchars history historywords jobdirs jobstates jobtexts keymaps langinfo mailpath manpath mapfile module_path "
    "modules nameddirs options parameters patchars path pipestatus prompt prompt2 prompt3 prompt4 psvar reswords saliases signals status "
    "sysparams termcap terminfo userdirs usergroups watch widgets zsh_eval_context zsh_scheduled_events".split()
)
_SPECIAL = lazy_re(
    r"BASH.*|ZSH.*|HIST.*|PS[0-9]|PROMPT.*|RPROMPT.*|RPS[0-9]|SPROMPT|IFS|PATH|HOME|PWD|OLDPWD|CDPATH|FPATH|ENV|SHELLOPTS|POSIX.*|ZDOTDIR|"
    r"OPT(?:IND|ERR|ARG)|RANDOM|SRANDOM|SECONDS|EPOCH.*|LINENO|COLUMNS|LINES|[EU]*[UG]ID|USERNAME|ERRNO|FUNC.*|FIGNORE|GLOBIGNORE|"
    r"EXECIGNORE|MODULE_PATH|MAILPATH|MANPATH|PSVAR|WATCH.*|LISTMAX|SAVEHIST|BAUD|DIRSTACKSIZE|LOGCHECK|TMOUT|TMPPREFIX|REPORT.*|MENUSCROLL|"
    r"TRY_BLOCK.*|SHLVL|PPID|KEYTIMEOUT|NULLCMD|READNULLCMD|STTY|TIMEFMT|WORDCHARS|CORRECT_.*|ARGV0|CPUTYPE|DIRSTACK|GROUPS|MAIL.*|CHILD_MAX|"
    r"COMP.*|COPROC|READLINE.*|MAPFILE|REPLY|TIMEFORMAT|IGNOREEOF|INPUTRC|_"
)
_PLAIN = lazy_re(r"[A-Za-z0-9_./][A-Za-z0-9_./,:@%+=-]*")

_SPLIT = lazy_re(r"[^A-Za-z0-9_./,:@%+=-]")

VariableValues = Mapping[str, tuple[str, ...]]
"""The possible values of each name, `wildcards.MANY` for an unknown one."""


def is_own_name(name: str) -> bool:
    """Return True if a line may set this variable: no shell and no program uses the name."""
    return _OWN_NAME.fullmatch(name) is not None and name not in _ZSH_NAMES


def is_special(name: str) -> bool:
    """Return True if some shell uses the variable, so that not even one command may run with another value."""
    return name in _ZSH_NAMES or _SPECIAL.fullmatch(name) is not None


def find_values(node: Node) -> VariableValues:
    """Return all values that the names which a line sets may get anywhere in the line.

    Raises:
        NotUnderstoodError: If it sets a name that some shell uses.
    """
    found: dict[str, dict[str, None]] = {}
    for name, value in _assignments(node):
        if not is_own_name(name):
            raise NotUnderstoodError(f"it uses an assignment to {name}, which is not a plain name in lower case")
        text = value.pieces[0] if len(value.pieces) == 1 else "" if not value.pieces else wildcards.ANY_TEXT
        found.setdefault(name, {})[text if isinstance(text, str) else wildcards.ANY_TEXT] = None
    return {name: tuple(values) for name, values in found.items()}


def _assignments(node: Node) -> Iterator[tuple[str, Spelling]]:
    todo: list[Node] = [node]
    while todo:
        one = todo.pop()
        if isinstance(one, Block):
            todo += one.items
            continue
        if isinstance(one, Loop):
            yield from ((one.name, value) for value in one.values)
            todo.append(one.body)
            spellings = one.values
        else:
            if not one.words:
                yield from one.assignments
            spellings = (*(value for _, value in one.assignments), *one.words)
        spellings = (*spellings, *(r.target for r in one.redirects if r.target is not None))
        todo += [p.body for s in spellings for p in s.pieces if isinstance(p, Substitution)]


def forms(
    spellings: tuple[Spelling, ...], values: VariableValues, certain: frozenset[str]
) -> Iterator[tuple[Word, ...]]:
    """Return the words of a command, for each combination of the values of its variables.

    Args:
        spellings: The words as the parser reads them.
        values: The values that the line assigns to names.
        certain: The names that certainly have one of these values.

    Raises:
        NotUnderstoodError: If a variable is not known to be harmless, or the combinations are too many.
    """
    names = dict.fromkeys(p.name for s in spellings for p in s.pieces if isinstance(p, Variable))
    if not names:
        yield tuple([_word(s, {}) for s in spellings])
        return
    choices: list[tuple[str, ...]] = []
    count = 1
    for name in names:
        if name not in values and name not in _HARMLESS:
            raise NotUnderstoodError(f"it uses the variable {name}, which the line does not set")
        given = values.get(name, ())
        choices.append(given if name in certain else tuple(dict.fromkeys((*given, wildcards.ANY_TEXT))))
        count *= len(choices[-1])
    if count > MAX_FORMS:
        raise NotUnderstoodError("it uses variables with too many values in one command")
    for combination in product(*choices):
        binding = dict(zip(names, combination, strict=True))
        yield tuple([_word(s, binding) for s in spellings])


def _word(spelling: Spelling, binding: Mapping[str, str]) -> Word:
    text, splits = "", spelling.splits
    for piece in spelling.pieces:
        if isinstance(piece, str):
            text += piece
        elif isinstance(piece, Substitution):
            text += wildcards.ANY_TEXT
            splits = splits or not piece.quoted
        else:
            value, may_split = _value(piece, binding)
            text += value
            splits = splits or may_split
    return Word(text, spelling.source, splits)


def _value(variable: Variable, binding: Mapping[str, str]) -> tuple[str, bool]:
    if variable.name == "HOME":
        return wildcards.HOME, False
    if variable.name == "PWD" and variable.quoted:
        return wildcards.CWD, False
    value = binding[variable.name]
    if variable.quoted:
        return value, False
    if variable.name == "?":
        return value, False
    if _PLAIN.fullmatch(value.removeprefix(wildcards.HOME)):
        return value, False
    if wildcards.is_literal(value) and _SPLIT.search(value):
        raise NotUnderstoodError(f"it uses ${variable.name} without quotes, and shells split or expand its value")
    return wildcards.ANY_TEXT, True
