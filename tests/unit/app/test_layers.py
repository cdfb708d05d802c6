"""The command stays outside the agent."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ALLOWED = ("mainspring.app", "mainspring.runtime", "mainspring.events", "mainspring.messages", "mainspring.errors")


def imported(tree: ast.AST) -> Iterator[str]:
    """Our own modules that a file names in an import, at the top or inside a function."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield module
            case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(module)), *_]):
                yield module
            case ast.Call(
                func=ast.Name(id="import_module"), args=[ast.JoinedStr(values=[ast.Constant(value=str(start)), *_])]
            ):
                yield start
            case _:
                pass


@pytest.mark.covers("PKG-04")
def test_the_command_knows_neither_models_nor_the_inside_of_the_agent(repository: Path) -> None:
    source = repository / "src" / "mainspring" / "app"
    files = sorted(source.rglob("*.py"))

    found = [
        f"{path.relative_to(source)}: {name}"
        for path in files
        for name in imported(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith("mainspring.") and not name.startswith(ALLOWED)
    ]

    assert files
    assert found == []


@pytest.mark.covers("PKG-04")
def test_the_command_calls_no_model(repository: Path) -> None:
    source = repository / "src" / "mainspring" / "app"
    calls = {"stream", "complete", "invoke", "side_call"}

    found = [
        f"{path.relative_to(source)}:{node.lineno}: {node.func.attr}"
        for path in sorted(source.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in calls
    ]

    assert found == []
