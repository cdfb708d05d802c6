"""Run untrusted regular expressions in bounded time.

A `pattern` comes with a tool's schema, so an untrusted server can choose it, and Python's `re` needs exponential time for
some patterns (`^(a+)+$`), cannot be interrupted, and blocks the whole process. Every pattern is therefore measured first:
an upper bound of the number of ways in which it can match a text of a given length. Texts short enough to keep the bound
small are searched with `re`, and longer texts with a simulation in linear time. Patterns that neither can search in
bounded time are not checked: the server that sent the pattern checks the value itself.
"""

import re
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any, cast

_BUDGET = 2_000_000
"""Maximum number of steps of a search in the worst case; about a tenth of a second for `re`, less for short texts."""

_SIMULATION_BUDGET = 400_000
_PROGRAM_LIMIT = 1_500
_LENGTHS = tuple(2**n for n in range(21))
_ENDLESS = 10**12

Search = Callable[[str], bool]


class BadPatternError(ValueError):
    """The text is not a regular expression in any supported dialect."""


class _NotSimulableError(Exception):
    """The expression contains a construct that a simulation without memory does not support."""


@lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> Search:
    r"""Return a function that searches for the pattern in a text, in bounded time for every pattern and text.

    Args:
        pattern: Regular expression in JSON Schema: the JavaScript dialect, not anchored.

    Returns:
        The search function. It returns `True` if the pattern cannot be checked: it uses a construct that exists only in
        JavaScript (`\p{L}`), or the text is too long.

    Raises:
        BadPatternError: The pattern is not a regular expression.
    """
    try:
        search, tree = _parsed(_translate(pattern))
    except _UNREADABLE as problem:
        if re.search(r"\\[pPuc]|\(\?<|\(\?-?[a-z]", pattern):
            return _anything
        raise BadPatternError(f"{pattern[:80]!r} is not a regular expression: {problem}") from problem
    if tree is None:
        return _anything
    try:
        program = _Program(tree)
    except (_NotSimulableError, RecursionError):
        program = None
    limit = _safe_length(tree)

    def found(text: str) -> bool:
        if len(text) <= limit:
            return search(text) is not None
        if program is not None and len(text) * len(program.code) <= _SIMULATION_BUDGET:
            return program.search(text)
        return True

    return found


def max_safe_length(pattern: str) -> int:
    """Return the maximum length of a text that `re.search` can search with this pattern in bounded time."""
    try:
        _, tree = _parsed(pattern)
    except _UNREADABLE:
        return -1
    return -1 if tree is None else _safe_length(tree)


_UNREADABLE = (re.error, OverflowError, RecursionError, KeyError)


def _parsed(pattern: str) -> tuple[Callable[[str], Any], Any]:
    """Return the search function of `re` and the parse tree; `None` if this Python version does not provide the tree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `[[` is a literal in JavaScript and in today's Python
        search = re.compile(pattern).search
        try:
            parser = import_module("re._parser")
        except ImportError:
            return search, None
        return search, parser.parse(pattern)


def _anything(text: str) -> bool:
    return True


def _translate(pattern: str) -> str:
    """Translate JavaScript syntax to Python: named groups, empty classes, and `$` as the absolute end."""
    spelling = {"$": r"\Z", "(?<": "(?P<", "[]": "(?!)", "[^]": r"[\s\S]"}

    def swap(match: re.Match[str]) -> str:
        return spelling.get(match[0], match[0])

    return re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]|\(\?<(?![=!])|\$", swap, pattern, flags=re.DOTALL)


def _safe_length(tree: Any) -> int:
    """Return the longest text, as a power of two, that `re` can search within the budget."""
    anchored = (
        bool(len(tree)) and str(tree[0][0]) == "AT" and str(tree[0][1]) in {"AT_BEGINNING", "AT_BEGINNING_STRING"}
    )
    size = tree.getwidth()[0] + len(tree)
    limit = 0
    for length in _LENGTHS:
        starts = 1 if anchored else length + 1
        if _ways(tree, length) * (length + size) * starts > _BUDGET:
            break
        limit = length
    return limit


def _ways(items: Iterable[Any], length: int) -> int:
    """Return an upper bound of the number of paths through the expression in a text of a given length."""
    total = 1
    for operation, argument in items:
        match str(operation):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                total *= _repeat_ways(argument, length)
            case "BRANCH":
                total *= sum(_ways(each, length) for each in argument[1])
            case "SUBPATTERN":
                total *= _ways(argument[3], length)
            case "ASSERT" | "ASSERT_NOT":
                total *= 1 + _ways(argument[1], length)
            case "ATOMIC_GROUP":
                total *= _ways(argument, length)
            case "GROUPREF_EXISTS":
                total *= _ways(argument[1], length) + _ways(argument[2] or (), length)
            case _:
                pass
        if total >= _ENDLESS:
            return _ENDLESS
    return total


def _repeat_ways(argument: tuple[int, Any, Any], length: int) -> int:
    low, high, body = argument
    rounds = min(int(high), max(int(low), length // max(1, body.getwidth()[0]) + 1))
    each = _ways(body, length)
    if each == 1:
        return max(1, rounds - int(low) + 1)
    if rounds > 40:
        return _ENDLESS
    return min(_ENDLESS, each**rounds * (rounds - int(low) + 1))


class _Program:
    """Expression as instructions of a machine that follows all paths at the same time, so its time is linear in the text.

    Instructions: `("char", test)`, `("at", where)`, `("split", one, other)`, `("jump", to)`, `("match",)`.
    """

    def __init__(self, tree: Any) -> None:
        if tree.state.flags & ~re.UNICODE:
            raise _NotSimulableError
        self.code: list[tuple[Any, ...]] = []
        self._add_all(tree)
        self.code.append(("match",))

    def search(self, text: str) -> bool:
        """Return True if the expression matches anywhere in the text."""
        current: set[int] = set()
        for index in range(len(text) + 1):
            current.add(0)
            reached = self._closure(current, text, index)
            if reached is None:
                return True
            if index == len(text):
                break
            char = text[index]
            current = {at + 1 for at in reached if self.code[at][1](char)}
        return False

    def _closure(self, starts: set[int], text: str, index: int) -> list[int] | None:
        """Return the `char` instructions that wait for the next character; `None` if a match was reached."""
        pending, seen, waiting = list(starts), set(starts), list[int]()
        while pending:
            at = pending.pop()
            instruction = self.code[at]
            match instruction[0]:
                case "match":
                    return None
                case "char":
                    waiting.append(at)
                    continue
                case "jump":
                    following = (instruction[1],)
                case "split":
                    following = instruction[1:]
                case _:
                    following = (at + 1,) if _check(instruction[1], text, index) else ()
            for each in following:
                if each not in seen:
                    seen.add(each)
                    pending.append(each)
        return waiting

    def _add_all(self, items: Iterable[Any]) -> None:
        for operation, argument in items:
            self._add(str(operation), argument)
            if len(self.code) > _PROGRAM_LIMIT:
                raise _NotSimulableError

    def _add(self, operation: str, argument: Any) -> None:
        match operation:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                self.code.append(("char", _char_test(operation, argument)))
            case "AT":
                self.code.append(("at", str(argument)))
            case "SUBPATTERN" if not argument[1] and not argument[2]:
                self._add_all(argument[3])
            case "BRANCH":
                self._branch(argument[1])
            case "MAX_REPEAT" | "MIN_REPEAT":
                self._repeat(int(argument[0]), int(argument[1]), argument[2])
            case _:
                raise _NotSimulableError

    def _branch(self, alternatives: list[Any]) -> None:
        ends: list[int] = []
        for each in alternatives[:-1]:
            split = len(self.code)
            self.code.append(("split",))
            self._add_all(each)
            ends.append(len(self.code))
            self.code.append(("jump",))
            self.code[split] = ("split", split + 1, len(self.code))
        self._add_all(alternatives[-1])
        for end in ends:
            self.code[end] = ("jump", len(self.code))

    def _repeat(self, low: int, high: int, body: Any) -> None:
        if low > _PROGRAM_LIMIT:
            raise _NotSimulableError
        for _ in range(low):
            self._add_all(body)
        if high > 65_535:  # no upper limit, or a limit that no text reaches
            split = len(self.code)
            self.code.append(("split",))
            self._add_all(body)
            self.code.append(("jump", split))
            self.code[split] = ("split", split + 1, len(self.code))
            return
        splits: list[int] = []
        for _ in range(high - low):
            splits.append(len(self.code))
            self.code.append(("split",))
            self._add_all(body)
        for split in splits:
            self.code[split] = ("split", split + 1, len(self.code))


def _check(location: str, text: str, index: int) -> bool:
    match location:
        case "AT_BEGINNING" | "AT_BEGINNING_STRING":
            return index == 0
        case "AT_END" | "AT_END_STRING":
            return index == len(text)
        case "AT_BOUNDARY" | "AT_NON_BOUNDARY":
            before = index > 0 and _is_word(text[index - 1])
            after = index < len(text) and _is_word(text[index])
            return (before != after) == (location == "AT_BOUNDARY")
        case _:
            raise _NotSimulableError


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "CATEGORY_DIGIT": str.isdecimal,
    "CATEGORY_NOT_DIGIT": lambda char: not char.isdecimal(),
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_NOT_SPACE": lambda char: not char.isspace(),
    "CATEGORY_WORD": _is_word,
    "CATEGORY_NOT_WORD": lambda char: not _is_word(char),
}


def _char_test(operation: str, argument: Any) -> Callable[[str], bool]:
    match operation:
        case "LITERAL":
            return chr(argument).__eq__
        case "NOT_LITERAL":
            return chr(argument).__ne__
        case "ANY":
            return "\n".__ne__
        case _:
            members = cast("list[tuple[Any, Any]]", argument)
    negated = bool(members) and str(members[0][0]) == "NEGATE"
    tests = [_member_test(str(kind), value) for kind, value in members[negated:]]
    return lambda char: any(test(char) for test in tests) != negated


def _member_test(kind: str, value: Any) -> Callable[[str], bool]:
    match kind:
        case "LITERAL":
            return chr(value).__eq__
        case "RANGE":
            low, high = chr(value[0]), chr(value[1])
            return lambda char: low <= char <= high
        case "CATEGORY" if str(value) in _CATEGORIES:
            return _CATEGORIES[str(value)]
        case _:
            raise _NotSimulableError
