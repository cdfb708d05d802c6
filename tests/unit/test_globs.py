"""Glob patterns: each dialect against a slow matcher, and patterns that must not take long."""

import re
import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, strategies as st

from mainspring.globs import PLAIN, TOOL_GLOB, GlobError, compile_glob, expand_braces, matches_any, translate_name
from mainspring.shell_analysis import wildcards

NAMES = st.text("ab.[-\\\n", max_size=8)


def matches_slowly(pattern: str, name: str, many: str = "*", one: str = "?") -> bool:
    """Match a pattern without sets and escapes by trying every split."""
    if not pattern:
        return not name
    if pattern[0] == many:
        return any(matches_slowly(pattern[1:], name[i:], many, one) for i in range(len(name) + 1))
    return bool(name) and pattern[0] in (one, name[0]) and matches_slowly(pattern[1:], name[1:], many, one)


@given(st.text("ab*?.[\\\n", max_size=8) | st.text("a*", max_size=9), NAMES | st.text("a", max_size=4))
def test_plain_pattern_matches_like_its_definition(pattern: str, name: str) -> None:
    found = re.compile(translate_name(pattern, PLAIN), re.DOTALL).fullmatch(name) is not None
    assert found == matches_slowly(pattern, name)


@given(st.text("ab*?\0\1.", max_size=8), st.text("ab*?.", max_size=8))
def test_marked_pattern_matches_like_its_definition(pattern: str, text: str) -> None:
    assert wildcards.fullmatch(pattern, text) == matches_slowly(pattern, text, "\0", "\1")
    assert wildcards.may_match(pattern, text) == wildcards.fullmatch(pattern, text)


@given(st.from_regex(r"(?:[ab.*?]|\[!?(?:a|ab|a-b|-a|a-)\]){0,6}", fullmatch=True), st.text("ab.-", max_size=8))
def test_tool_glob_matches_names_like_fnmatch(pattern: str, name: str) -> None:
    found = re.compile(translate_name(pattern, TOOL_GLOB), re.DOTALL).fullmatch(name) is not None
    assert found == fnmatchcase(name, pattern)


@given(st.text(max_size=8))
def test_escaped_pattern_matches_only_itself(text: str) -> None:
    escaped = re.sub(r"([*?\[\]\\])", r"\\\1", text)
    assert re.compile(translate_name(escaped), re.DOTALL).fullmatch(text)
    assert not re.compile(translate_name(escaped), re.DOTALL).fullmatch(f"{text}x")


@given(
    st.lists(st.sampled_from(("a", "b", "**", "*", "a*")), min_size=1, max_size=4),
    st.lists(st.sampled_from("ab"), min_size=1),
)
def test_tool_glob_matches_folders_like_its_definition(parts: list[str], names: list[str]) -> None:
    def matches(parts: list[str], names: list[str]) -> bool:
        if not parts:
            return not names
        if parts[0] == "**":
            return bool(names) if len(parts) == 1 else any(matches(parts[1:], names[i:]) for i in range(len(names) + 1))
        return bool(names) and matches_slowly(parts[0], names[0]) and matches(parts[1:], names[1:])

    path = "/".join(names)
    expected = matches(parts, names) if len(parts) > 1 else any([matches(["**", *parts], names), matches(parts, names)])
    assert compile_glob("/".join(parts))(path) == expected


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.{ts,py}", "src/a.py", True),
        ("src/*.py", "src/sub/a.py", False),
        ("./*.py", "src/a.py", False),
        ("src/", "src/sub/a.py", True),
        ("[!a]*", "b", True),
        ("[!]a]x", "]x", False),
        ("[]a]x", "]x", True),
        ("[^b]x", "ax", True),
        ("a?c", "a/c", False),
        ("a[!b]c", "a/c", False),
        ("\\*", "*", True),
        ("a\\", "a\\", True),
        ("*_*_*_*.py", "a_b_c_d.py", True),
        ("a*a*a*a", "aaaa", True),
        ("*_*_*_*.py", "a_b/c_d_e.py", False),
        ("app/[id].tsx", "app/[id].tsx", True),
        ("app/[id].tsx", "app/d.tsx", True),
        ("{app,src}/**/[...slug]/*.tsx", "src/a/[...slug]/page.tsx", True),
        ("app/[[]id].tsx", "app/d.tsx", False),
        ("app/\\[id].tsx", "app/d.tsx", False),
    ],
)
def test_tool_glob(pattern: str, path: str, expected: bool) -> None:
    assert compile_glob(pattern)(path) is expected


@pytest.mark.parametrize("pattern", ["[a", "{a", "../a", "[!]", "[]", "{a}" * 1000, "{" * 1000 + "}" * 1000])
def test_invalid_glob_is_an_error(pattern: str) -> None:
    with pytest.raises(GlobError):
        compile_glob(pattern)


def test_many_wildcards_match_in_linear_time() -> None:
    name = "a" * 3_000
    start = time.process_time()
    assert not compile_glob("*a" * 30 + "b")(name)
    assert not wildcards.fullmatch(wildcards.encode_wildcards("*a" * 30 + "b"), name)
    assert time.process_time() - start < 9


def test_names_match_any_pattern() -> None:
    assert matches_any("mcp__git__log", ("read_*", "mcp__*__log"))
    assert not matches_any("Shell", ("shell", "s*"))
    assert not matches_any("shell", ())


def test_braces_expand_in_order() -> None:
    assert expand_braces("a{b,c{d,e}}f") == ["abf", "acdf", "acef"]
