"""The table of known problems names existing tests."""

import ast
import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.rows import each_row

REPOSITORY = Path(__file__).resolve().parent.parent.parent.parent
TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    (REPOSITORY / "tests" / "known_problems.toml").read_text(encoding="utf-8")
)


@lru_cache
def find_test_names(file: Path) -> frozenset[str]:
    """Return the names of the tests in a file."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    found = (n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in found if name.startswith("test_"))


def test_ids_are_numbered_by_family() -> None:
    assert all(re.fullmatch(r"[A-Z]{1,2}-\d\d", key) for key in TABLE)
    for family in {key.rpartition("-")[0] for key in TABLE}:
        numbers = sorted(int(key.rpartition("-")[2]) for key in TABLE if key.rpartition("-")[0] == family)
        assert numbers == list(range(1, len(numbers) + 1)), family


def test_every_entry_describes_the_right_behavior() -> None:
    texts = [entry["right"] for entry in TABLE.values()]

    assert all(text and text == text.strip() and text.endswith(".") for text in texts)
    assert len(texts) == len(set(texts))
    assert all(entry.keys() == {"right", "tests"} for entry in TABLE.values())


@each_row("key", TABLE)
def test_tests_of_every_entry_exist(key: str) -> None:
    node_ids: list[str] = TABLE[key]["tests"]

    assert node_ids
    assert len(node_ids) == len(set(node_ids))
    for node in node_ids:
        file, colons, name = node.partition("::")
        assert colons, node
        assert (REPOSITORY / file).is_file(), node
        assert name in find_test_names(REPOSITORY / file), f"Unknown test: {node}"
