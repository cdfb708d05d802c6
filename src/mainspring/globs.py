"""Glob patterns: ``*`` and ``?`` match within a name, ``**`` matches across folders, ``[ab]`` and ``{a,b}`` match alternatives."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple
from unicodedata import normalize

from mainspring.lazy import lazy_re

_MAGIC = lazy_re(r"[*?\[{]")
_TOKEN = lazy_re(r"\\.|\[[!^]?+.[^\]]*\]|[\w./ -]+|.", re.DOTALL)
_PLAIN_TOKEN = lazy_re(r"[\w./ -]+|.", re.DOTALL)
_MAX_ALTERNATIVES = 200
_MAX_BRACES = 100


class GlobError(ValueError):
    """The pattern is not a valid glob."""


class Dialect(NamedTuple):
    """The syntax of a pattern for one name.

    Attributes:
        many: The character that matches any text.
        one: The character that matches one character.
        char: Regular expression for one character of a match.
        special: Whether a backslash escapes a character, and brackets contain alternatives.
    """

    many: str
    one: str
    char: str
    special: bool


TOOL_GLOB = Dialect("*", "?", "[^/]", special=True)
"""Patterns of `glob` and `grep`; `compile_glob` adds ``**`` and braces."""

PLAIN = Dialect("*", "?", ".", special=False)
"""Patterns in which only ``*`` and ``?`` are special."""


def has_wildcard(path: str) -> bool:
    """Return True if a path contains a wildcard."""
    return _MAGIC.search(path) is not None


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Return True if a name, for example of a tool, matches a pattern with ``*``, ``?``, and ``[ab]``; case matters."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def split_at_wildcard(path: str) -> tuple[str, str]:
    """Split a path before the first name with a wildcard; without a wildcard the last name is the rest."""
    names = path.split("/")
    count = next((i for i, name in enumerate(names) if has_wildcard(name)), max(len(names) - 1, 0))
    folder = "/".join(names[:count])
    return folder or ("/" if path.startswith("/") else "."), "/".join(names[count:])


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Return a function that returns True if a relative path matches.

    A pattern without a slash matches names in any folder; one with a slash matches the whole path. It does not matter how accents
    are composed. Brackets also match themselves: ``app/[id]/*.tsx`` finds the files of a folder ``[id]``.

    Raises:
        GlobError: If brackets or braces are not closed, or the pattern contains ``..``.
    """
    patterns = expand_braces(normalize("NFC", pattern))
    literal = [p.replace("[", r"\[") for p in patterns if "[" in p and "\\" not in p]
    alternatives = [_regex(p) for p in (*patterns, *literal)]
    try:
        found = re.compile("|".join([f"(?:{a})" for a in alternatives]), re.DOTALL).fullmatch
    except re.error as e:
        raise GlobError(f"{pattern!r} is not a valid glob: {e}") from None
    return lambda path: found(path if path.isascii() else normalize("NFC", path)) is not None


def max_depth(pattern: str) -> int | None:
    """Return the maximum number of names in a match; ``None`` if it is unlimited."""
    depths: list[int] = []
    for each in expand_braces(pattern):
        names = posixpath.normpath(each).lstrip("/").split("/")
        if "/" not in each.rstrip("/") or each.endswith("/") or "**" in names:
            return None
        depths.append(len(names))
    return max(depths)


def expand_braces(pattern: str) -> list[str]:
    """Expand ``{a,b}`` to all patterns; braces may be nested."""
    if pattern.count("{") > _MAX_BRACES:
        raise GlobError(f"A glob pattern of {len(pattern)} characters has more than {_MAX_BRACES} braces")
    opened = _unescaped(pattern, "{")
    if opened < 0:
        return [pattern]
    depth, start, parts = 0, opened + 1, list[str]()
    i = opened
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            i += 1
        elif c == "{":
            depth += 1
        elif c == "," and depth == 1:
            parts.append(pattern[start:i])
            start = i + 1
        elif c == "}":
            depth -= 1
            if depth == 0:
                parts.append(pattern[start:i])
                found = [pattern[:opened] + part + rest for rest in expand_braces(pattern[i + 1 :]) for part in parts]
                expanded = [e for f in found for e in expand_braces(f)] if any("{" in p for p in parts) else found
                if len(expanded) > _MAX_ALTERNATIVES:
                    raise GlobError(f"{pattern!r} expands to too many patterns")
                return expanded
        i += 1
    raise GlobError(f"{pattern!r} has a '{{' that is not closed; write \\{{ for the character itself")


def _unescaped(pattern: str, char: str) -> int:
    i = 0
    while i < len(pattern):
        if pattern[i] == "\\":
            i += 1
        elif pattern[i] == char:
            return i
        i += 1
    return -1


def _regex(pattern: str) -> str:
    is_anchored = "/" in pattern.rstrip("/")
    if pattern.endswith("/"):
        pattern += "**"
    if ".." in pattern.split("/"):
        raise GlobError(f"{pattern!r} contains '..'; pass the folder as path instead")
    pattern = posixpath.normpath(pattern).lstrip("/") if is_anchored else pattern
    names = pattern.split("/")
    pieces: list[str] = [] if is_anchored else ["(?:.*/)?"]
    for i, name in enumerate(names):
        is_last = i == len(names) - 1
        if name == "**":
            pieces.append(".+" if is_last else "(?:.*/)?")
        else:
            pieces.append(translate_name(name) + ("" if is_last else "/"))
    return "".join(pieces)


def translate_name(pattern: str, dialect: Dialect = TOOL_GLOB) -> str:
    """Return the regular expression of a pattern for one name, for a match of the whole name.

    Raises:
        GlobError: If a bracket is not closed.
    """
    many, one, char, special = dialect
    pieces, out = list[str](), list[str]()
    for match in (_TOKEN if special else _PLAIN_TOKEN).finditer(pattern):
        token = match[0]
        if token == many:
            pieces.append("".join(out))
            out = []
        elif token == one:
            out.append(char)
        elif special and token == "[":
            raise GlobError(f"{pattern!r} has a '[' that is not closed; write \\[ for the character itself")
        elif special and len(token) > 1 and token[0] in "\\[":
            out.append(re.escape(token[1]) if token[0] == "\\" else _class_regex(token[1:-1]))
        else:
            out.append(re.escape(token))
    if len(pieces) > 2:
        # The first match of a piece between two wildcards is the best one; without backtracking, the time stays linear.
        pieces = [pieces[0] + "".join([f"(?>{char}*?{piece})" for piece in pieces[1:] if piece])]
    return f"{char}*".join([*pieces, "".join(out)])


def _class_regex(inside: str) -> str:
    negated = inside[:1] in ("!", "^")
    body = (inside[1:] if negated else inside).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    body = body.replace("^", "\\^").replace("&", "\\&").replace("~", "\\~").replace("|", "\\|")
    return f"(?![/])[{'^' if negated else ''}{body}]"
