"""Path patterns, which are anchored and compared component by component."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import wildcards
from mainspring.text import fold

Anchor = Literal["project", "root", "home"]
"""The base of a pattern."""

ANY_DEPTH = "**"
"""The component that matches any number of components."""

_DRIVE = lazy_re(r"[A-Za-z]:[\\/]|\\\\")


class PathPattern(Struct, frozen=True):
    """A compiled path pattern.

    Attributes:
        anchor: The base of its first component.
        parts: Its components, wildcards marked.
        loose: The same for deny and ask rules: case and Unicode normalization are ignored.
        literal: Whether it contains no wildcard, so that it names exactly one path.
        problem: Why the pattern is invalid; empty if it is valid.
    """

    anchor: Anchor
    parts: tuple[str, ...]
    loose: tuple[str, ...]
    literal: bool
    problem: str = ""

    @property
    def has_literal_part(self) -> bool:
        """Return True if a component is more than wildcards."""
        return any(part != ANY_DEPTH and not wildcards.WILDCARDS.issuperset(part) for part in self.parts)


@lru_cache(2048)
def compile_path_pattern(text: str) -> PathPattern:
    """Compile a pattern. Never raises; see `PathPattern.problem`."""
    anchor: Anchor = "project"
    rest = text
    if text == "~" or text.startswith("~/"):
        anchor, rest = "home", text[2:]
    elif is_absolute(text):
        anchor = "root"
    parts = [p if p == ANY_DEPTH else wildcards.encode_wildcards(p) for p in split_path(rest) if p != "."]
    problem = ""
    if ".." in parts:
        problem = "contains '..'; write the path from the project's folder, or from '/' or '~/' if it is elsewhere"
    literal = all(p != ANY_DEPTH and wildcards.is_literal(p) for p in parts)
    if rest.endswith("/") and parts and parts[-1] != ANY_DEPTH:
        parts.append(ANY_DEPTH)
        literal = False
    return PathPattern(anchor, tuple(parts), tuple(map(fold, parts)), literal, problem)


def is_absolute(path: str) -> bool:
    """Return True if a path begins at the root, at a drive, or at a network share."""
    return path.startswith("/") or _DRIVE.match(path) is not None


def split_path(path: str) -> tuple[str, ...]:
    """Return the components of a path, without the leading slash, but with the drive."""
    if _DRIVE.match(path):
        path = path.replace("\\", "/")
    return tuple([p for p in path.split("/") if p])


def matches(
    pattern: tuple[str, ...], parts: tuple[str, ...], *, include_descendants: bool = False, allow_unknown: bool = False
) -> bool:
    """Return True if a path matches a pattern.

    Args:
        pattern: Components of the pattern.
        parts: Components of the path, from the same anchor.
        include_descendants: Whether paths below a match match, too.
        allow_unknown: Whether it is enough that the unknown pieces of the path can have values with which it matches.
    """
    matches_part = wildcards.may_match if allow_unknown else wildcards.fullmatch
    states = _closure({0}, pattern)
    for part in parts:
        if include_descendants and len(pattern) in states:
            return True
        following: set[int] = set()
        for i in states:
            if i < len(pattern):
                if pattern[i] == ANY_DEPTH:
                    following.add(i)
                elif matches_part(pattern[i], part):
                    following.add(i + 1)
        states = _closure(following, pattern)
        if not states:
            return False
    return len(pattern) in states


def _closure(states: set[int], pattern: tuple[str, ...]) -> set[int]:
    found = set(states)
    for start in states:
        i = start
        while i < len(pattern) and pattern[i] == ANY_DEPTH:
            i += 1
            found.add(i)
    return found
