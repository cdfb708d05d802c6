"""Regular expressions: the dialect is ripgrep's (Rust, with look-around), for Python's engine translated."""

from __future__ import annotations

import re

from mainspring.lazy import lazy_re

_LITERAL_BRACE = lazy_re(r"\\.|\{(?!\d+(?:,\d*)?\})|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]", re.DOTALL)
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9a-fA-F",
}
_ESCAPE = lazy_re(r"\\(?:[xuU]\{([0-9a-fA-F]+)\}|b\{(start|end|start-half|end-half)\}|(.))", re.DOTALL)
_NEEDS_RIPGREP = lazy_re(r"(?<!\\)(?:\\\\)*(\\[pP]|&&|\(\?[a-zA-Z]*[RUu])")


class RegexError(ValueError):
    """The pattern is no regular expression; the text says why."""


def escape_literal_braces(pattern: str) -> str:
    """The pattern with ``{`` escaped where it is no repetition, as in ``interface{}`` or ``func() {``."""
    return _LITERAL_BRACE.sub(lambda m: "\\{" if m[0] == "{" and not _is_escape_argument(m) else m[0], pattern)


def escape_nul(pattern: str, literal: bool) -> tuple[str, bool]:
    r"""The same pattern without a NUL, which no argument of a program can hold: ``\x00`` in its place. And whether it is text."""
    if "\0" not in pattern:
        return pattern, literal
    if literal:
        pattern = re.sub(r"[^\w\s\0]", lambda m: "\\" + m[0], pattern, flags=re.ASCII)
    return pattern.replace("\0", r"\x00"), False


def needs_multiline(pattern: str) -> bool:
    """Whether a pattern asks for a line feed and so needs multi-line search."""
    return "\n" in pattern or re.search(r"(?<!\\)(?:\\\\)*\\n", pattern) is not None


def compile_regex(pattern: str, *, literal: bool, ignore_case: bool, multiline: bool) -> re.Pattern[str]:
    """The pattern for Python's engine.

    Raises:
        PatternError: If it is wrong, or says something that only ripgrep understands.
    """
    flags = (re.IGNORECASE if ignore_case else 0) | re.MULTILINE | (re.DOTALL if multiline else 0)
    try:
        return re.compile(re.escape(pattern) if literal else _translate(pattern), flags)
    except (re.error, OverflowError) as e:
        raise RegexError(str(e)) from None


def _translate(pattern: str) -> str:
    missing = _NEEDS_RIPGREP.search(pattern)
    if missing:
        raise RegexError(f"{missing[1]} needs ripgrep, which is not installed here")
    pattern = re.sub(r"\[:(\w+):\]", lambda m: _CLASSES.get(m[1], m[0]), pattern)
    pattern = re.sub(r"(?<!\\)((?:\\\\)*)\(\?<([A-Za-z_])", r"\1(?P<\2", pattern)
    return _ESCAPE.sub(_escape, pattern)


def _escape(match: re.Match[str]) -> str:
    if match[1]:
        return re.escape(chr(int(match[1], 16)))
    if match[2]:
        return r"\b"
    return {"z": r"\Z", "<": r"\b", ">": r"\b"}.get(match[3], match[0])


def _is_escape_argument(match: re.Match[str]) -> bool:
    r"""Whether the brace belongs to an escape such as ``\p{`` or ``\x{``."""
    before = match.string[: match.start()]
    found = re.search(r"(\\+)[pPxuUb]\Z", before)
    return found is not None and len(found[1]) % 2 == 1
