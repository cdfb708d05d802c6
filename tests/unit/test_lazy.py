"""Lazy patterns and lazy functions behave like the real ones."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from mainspring.lazy import LazyObject, lazy_decoder, lazy_function, lazy_re


def test_lazy_pattern_works_like_a_compiled_pattern() -> None:
    lazy, plain = lazy_re(r"(?P<a>\d+)-(\w)", re.IGNORECASE), re.compile(r"(?P<a>\d+)-(\w)", re.IGNORECASE)

    assert lazy.findall("1-a 22-B") == plain.findall("1-a 22-B")
    assert lazy.sub(r"\2", "1-a") == "a"
    match = lazy.fullmatch("22-B")
    assert match is not None
    assert match["a"] == "22"
    assert (lazy.pattern, lazy.flags) == (plain.pattern, plain.flags)
    assert lazy_re(rb"\d").match(b"1") is not None


def test_invalid_pattern_fails_on_first_use() -> None:
    lazy = lazy_re("(")

    with pytest.raises(re.error):
        lazy.match("x")


def test_lazy_decoder_works_like_a_decoder() -> None:
    lazy = lazy_decoder(dict[str, int])

    assert lazy.decode(b'{"a": 1}') == {"a": 1}
    with pytest.raises(msgspec.ValidationError):
        lazy.decode(b'{"a": ""}')


def test_every_lazy_pattern_in_the_source_compiles(repository: Path) -> None:
    source = repository / "src"
    compiled = 0
    for path in (source / "mainspring").rglob("*.py"):
        if {"lazy_re", "lazy_decoder"} & {*re.findall(r"\w+", path.read_text("utf-8"))} and path.name != "lazy.py":
            module = import_module(".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"))
            for value in vars(module).values():
                if isinstance(value, LazyObject):
                    assert value.decode if "decoder" in value._create.__name__ else value.pattern
                    compiled += 1
    assert compiled > 100


def test_lazy_function_calls_the_function() -> None:
    join = lazy_function("os.path", "join")

    assert join("a", "b") == "a/b"
    with pytest.raises(AttributeError):
        lazy_function("os.path", "nothing")()


def test_lazy_class_is_imported_by_a_call_and_not_by_isinstance() -> None:
    code = (
        "import sys\nfrom mainspring.lazy import lazy_class\nkind = lazy_class('decimal', 'Decimal')\n"
        "assert not isinstance(1, kind) and 'decimal' not in sys.modules\n"
        "assert isinstance(kind('2'), kind) and not isinstance(2, kind)"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
