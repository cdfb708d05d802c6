"""Commands that a shell runs itself: with which arguments they do the same in bash, dash, and zsh, and evaluate nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mainspring.lazy import lazy_re
from mainspring.shell_analysis.syntax import Word

_INTEGER = lazy_re(r"[-+]?[0-9]{1,9}")
_STATUS = frozenset(("$?", '"$?"', "${?}"))
_PLAIN_NAME = lazy_re(r"[A-Za-z0-9_./+@:][A-Za-z0-9_./+@:-]*|\[")
_CONVERSION = lazy_re(r"%(?:%|[-+ 0#]*[0-9]*(?:\.[0-9]+)?([A-Za-z]))")
_FILE_TESTS = frozenset("-e -f -d -r -w -x -s -L -h -p -S -b -c -n -z -u -g -k -O -G".split())
_TEXT_TESTS = frozenset("= == != -nt -ot -ef".split())
_NUMBER_TESTS = frozenset("-eq -ne -lt -le -gt -ge".split())
_SET_OPTIONS = lazy_re(r"-[eu]+|-[eu]*o")

SPECIAL_BUILTINS = frozenset(": break continue exec exit return set shift".split())
"""Builtins after which a variable that is set before them keeps its value in some shell."""

_UNKNOWN_BUILTINS = frozenset(
    ". alias autoload bg bind bindkey builtin bye caller chdir comparguments compcall compctl compdescribe compfiles compgen compgroups "
    "complete compopt compquote comptags comptry compvalues coproc declare dirs disable disown echotc echoti emulate enable eval export "
    "fc fg float functions getln getopts hash help history integer let limit local log logout mapfile noglob popd print private pushd "
    "pushln r read readarray readonly rehash sched setopt shopt source suspend times trap ttyctl typeset unalias unfunction unhash "
    "unlimit unset unsetopt vared whence where zcompile zformat zle zmodload zparseopts zregexparse zstyle "
    "nocorrect".split()
)
"""Builtins of some shell that change the shell, run code, or evaluate their arguments, so that lines with them are not understood."""


def construct(words: Sequence[Word]) -> str:
    """The name of a construct that is not understood in a command, or an empty text.

    Args:
        words: The command, whose name is known.
    """
    name = words[0].text
    if name in _UNKNOWN_BUILTINS:
        return f"the builtin {name!r}"
    if not _PLAIN_NAME.fullmatch(name):
        return "a command name with characters that a shell may take for something else"
    check = _CHECKS.get(name)
    return (
        ""
        if check is None or check(words[1:])
        else f"{name!r} with arguments that a shell may evaluate or that are not known"
    )


def _is_integer(word: Word) -> bool:
    return _INTEGER.fullmatch(word.text) is not None or word.source in _STATUS


def _at_most_one_integer(words: Sequence[Word]) -> bool:
    return not words or (len(words) == 1 and _is_integer(words[0]))


def _all_literal(words: Sequence[Word]) -> bool:
    return all(word.literal for word in words)


def _folder(words: Sequence[Word]) -> bool:
    return not words or (
        len(words) == 1 and not words[0].splits and (words[0].text == "-" or words[0].text[:1] not in "-+")
    )


def _plain_command(words: Sequence[Word]) -> bool:
    """For ``command`` and ``exec``: a name, or ``-v`` and names."""
    if not words or not words[0].text.startswith("-"):
        return True
    return words[0].text in ("-v", "-V") and _all_literal(words)


def _exec(words: Sequence[Word]) -> bool:
    return bool(words) and words[0].literal and not words[0].text.startswith("-")


def _time(words: Sequence[Word]) -> bool:
    rest = words[1:] if words and words[0].text == "-p" else words
    return not rest or (_PLAIN_NAME.fullmatch(rest[0].text) is not None and rest[0].source not in _RESERVED)


def _set(words: Sequence[Word]) -> bool:
    texts = [word.text for word in words]
    if texts and texts[-1] == "pipefail":
        return len(texts) == 2 and texts[0].endswith("o") and _SET_OPTIONS.fullmatch(texts[0]) is not None
    return len(texts) == 1 and _SET_OPTIONS.fullmatch(texts[0]) is not None and not texts[0].endswith("o")


def _printf(words: Sequence[Word]) -> bool:
    """A format with nothing in it but texts; numbers only where every argument is a number, since zsh computes them."""
    if words and words[0].text == "--":
        words = words[1:]
    if not words or not words[0].literal or words[0].text.startswith("-"):
        return False
    text = words[0].text
    letters = [match[1] for match in _CONVERSION.finditer(text) if match[1] is not None]
    if "%" in _CONVERSION.sub("", text) or not set(letters) <= set("sbqdiuxXofFgGeE"):
        return False
    if set(letters) <= {"s", "b", "q"}:
        return True
    if any(word.splits for word in words[1:]):
        return all(map(_is_integer, words[1:]))
    return all(letters[i % len(letters)] in "sbq" or _is_integer(word) for i, word in enumerate(words[1:]))


def _test(words: Sequence[Word]) -> bool:
    """``[ ... ]`` and ``test``: one comparison, whose operator is known and which computes nothing."""
    if any(word.splits for word in words):
        return False
    if words and words[0].text == "!":
        words = words[1:]
    match len(words):
        case 0 | 1:
            return True
        case 2:
            return words[0].text in _FILE_TESTS or (words[0].text == "-t" and _is_integer(words[1]))
        case 3:
            operator = words[1].text
            return operator in _TEXT_TESTS or (
                operator in _NUMBER_TESTS and _is_integer(words[0]) and _is_integer(words[2])
            )
        case _:
            return False


def _bracket(words: Sequence[Word]) -> bool:
    return bool(words) and words[-1].text == "]" and _test(words[:-1])


_RESERVED = frozenset(
    "! { } [[ ]] case coproc declare do done elif else end esac export fi float for foreach function if in integer let local "
    "nocorrect noglob readonly repeat select then time typeset until while".split()
)

_CHECKS: Mapping[str, Callable[[Sequence[Word]], bool]] = {
    "break": _at_most_one_integer,
    "continue": _at_most_one_integer,
    "exit": _at_most_one_integer,
    "return": _at_most_one_integer,
    "shift": _at_most_one_integer,
    "wait": _at_most_one_integer,
    "cd": _folder,
    "command": _plain_command,
    "exec": _exec,
    "time": _time,
    "set": _set,
    "printf": _printf,
    "test": _test,
    "[": _bracket,
    "jobs": _all_literal,
    "pwd": _all_literal,
    "type": _all_literal,
    "which": _all_literal,
    "ulimit": lambda words: not words,
    "umask": lambda words: not words,
}
