"""What is done on first use: patterns that are compiled late are right, and functions that are imported late are the same."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from mainspring.lazy import LazyPattern, lazy_function, lazy_re


def test_a_late_pattern_works_like_a_pattern() -> None:
    late, plain = lazy_re(r"(?P<a>\d+)-(\w)", re.IGNORECASE), re.compile(r"(?P<a>\d+)-(\w)", re.IGNORECASE)

    assert late.findall("1-a 22-B") == plain.findall("1-a 22-B")
    assert late.sub(r"\2", "1-a") == "a"
    match = late.fullmatch("22-B")
    assert match is not None
    assert match["a"] == "22"
    assert (late.pattern, late.flags) == (plain.pattern, plain.flags)
    assert lazy_re(rb"\d").match(b"1") is not None


def test_a_wrong_one_is_said_when_it_is_used() -> None:
    late = lazy_re("(")

    with pytest.raises(re.error):
        late.match("x")


def test_every_late_pattern_of_the_program_is_one(repository: Path) -> None:
    source = repository / "src"
    compiled = 0
    for path in (source / "mainspring").rglob("*.py"):
        if "lazy_re(" in path.read_text(encoding="utf-8") and path.name != "lazy.py":
            module = import_module(".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"))
            for value in vars(module).values():
                if isinstance(value, LazyPattern):
                    assert value.pattern
                    compiled += 1
    assert compiled > 100


def test_a_late_function_is_the_function() -> None:
    join = lazy_function("os.path", "join")

    assert join("a", "b") == "a/b"
    with pytest.raises(AttributeError):
        lazy_function("os.path", "nothing")()
