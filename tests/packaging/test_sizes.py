"""The size limits are checked and may only decrease."""

import ast

import pytest

from scripts import check_imports as code_rules
from scripts.check_sizes import (
    Finding,
    SizeReport,
    compare,
    count_habits,
    count_suppressions,
    only_reexports,
)


def test_size_limits_may_only_decrease() -> None:
    measured, allowed = (
        {"grew": 700, "fell": 610, "same": 650, "new": 601},
        {"grew": 650, "fell": 620, "same": 650, "gone": 630},
    )

    assert compare(measured, allowed, "file") == [
        "file: fell is down from 620: lower its entry to 610 in size_limits.toml",
        "file: gone is down from 630: remove its entry in size_limits.toml",
        "file: grew is 700, allowed are 650",
        "file: new is 601, allowed are 0",
    ]


def test_report_lists_only_files_over_the_limit() -> None:
    survey = SizeReport([Finding("file", "a.py", 600, 600), Finding("file", "b.py", 601, 600)], {"noqa in src": 2}, [])

    assert survey.exceptions == {"file": {"b.py": 601}}
    assert survey.complaints({"file": {"b.py": 601}, "counts": {"noqa in src": 2}}) == []


def test_mocks_sleeps_and_skips_are_counted() -> None:
    source = """
import time, pytest
from unittest import mock
@pytest.mark.skipif(True, reason="")
@mock.patch("x")
def test(monkeypatch):
    time.sleep(1)
    mock.patch.object(a, "b", mock.MagicMock())
    monkeypatch.setattr(a, "b", 1)
    pytest.skip("no")
"""
    assert count_habits(ast.parse(source)) == {"mocks": 3, "sleeps": 1, "skips": 2}
    assert count_habits(ast.parse("def test(time, patch):\n    time.sleep(1)\n    apply(patch)\n")) == {}


def test_suppressions_are_counted_in_comments_only() -> None:
    source = 'a = 1  # noqa: E501\nb = 2  # type: ignore[x]\nc = "# noqa"  # pyright: ignore[y]\n'

    assert count_suppressions(source) == {"noqa": 1, "type: ignore": 2}


@pytest.mark.parametrize(
    ("source", "fine"),
    [
        ('"""Doc."""\nfrom a import b\n__all__ = ["b"]\n', True),
        ("if TYPE_CHECKING:\n    from a import b\n_HOMES = {}\ndef __getattr__(name): ...\n", True),
        ('lazy_exports(__name__, {"b": "B"})\n', True),
        ('exports(__name__, {"b": "B"})\n', False),
        ('if TYPE_CHECKING:\n    from a import b\nelse:\n    b = lazy_function("a", "b")\n', True),
        ("if TYPE_CHECKING:\n    from a import b\nelse:\n    b = find()\n", False),
        ("x = 1\n", False),
        ("_, y = 1, 2\n", False),
        ("def helper(): ...\n", False),
    ],
)
def test_init_modules_may_only_reexport(source: str, fine: bool) -> None:
    assert only_reexports(ast.parse(source)) is fine


def test_late_imports_are_found() -> None:
    source = """
import json
def one():
    import mainspring.loop
    from mainspring import errors
def two():
    importlib.import_module("mainspring.env")
"""
    assert sorted(code_rules.late_imports(ast.parse(source))) == [
        (4, "mainspring.loop"),
        (5, "mainspring"),
        (7, "mainspring.env"),
    ]
