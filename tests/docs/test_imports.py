"""The examples of the pages and of `examples/` import from the stable modules only, so that a reader finds each name in one list."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.check_examples import ROOT, find_blocks, find_pages, join_blocks
from scripts.make_reference import PACKAGES, find_public_names

SOURCES = [*find_pages(), *sorted((ROOT / "examples").rglob("*.py")), *sorted((ROOT / "examples").rglob("*.md"))]


def read_code(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return text if path.suffix == ".py" else join_blocks(find_blocks(text))


def internal_imports(code: str) -> Iterator[str]:
    """Yield the imports of modules or names of the library that are not in the list of public names."""
    tree = compile(code, "page", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "mainspring":
            public = find_public_names(node.module) if node.module in PACKAGES else []
            yield from [f"{node.lineno}: {node.module}.{a.name}" for a in node.names if a.name not in public]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.partition(".")[0] == "mainspring"]
            yield from [f"{node.lineno}: {name}" for name in names if name not in PACKAGES]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_import_from_stable_modules(path: Path) -> None:
    assert list(internal_imports(read_code(path))) == []


def test_internal_imports_are_found() -> None:
    code = "from mainspring import Agent\nfrom mainspring.agent.agent import Agent\nimport mainspring.loop.loop\nimport json\n"
    assert list(internal_imports(code)) == ["2: mainspring.agent.agent.Agent", "3: mainspring.loop.loop"]
    assert list(internal_imports("from mainspring.models import no_such_name\n")) == [
        "1: mainspring.models.no_such_name"
    ]
