"""Front ends use only the public layers of the agent."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FRONT_ENDS = (
    "cli", "export", "printing/json_output.py", "printing/text_output.py", "servers/acp", "servers/http", "servers/mcp", "servers/rpc",
    "tui",
)  # fmt: skip
"""Code that shows the agent or reads input for it, without commands and print mode."""

ALLOWED = (
    "mainspring.app",
    "mainspring.agent",
    "mainspring.events",
    "mainspring.messages",
    "mainspring.cancellation",
    "mainspring.errors",
    "mainspring.extras",
    "mainspring.lazy",
    "mainspring.line_transport",
    "mainspring.locks",
    "mainspring.programs",
    "mainspring.redaction",
    "mainspring.text",
)
"""The layers that a front end may import, and the modules that all layers share."""

EXCEPTIONS = {("export", "mainspring.sessions.transcript"), ("servers", "mainspring.durable.feed")}
"""Modules with the values that exports render and that HTTP streams send."""


def iter_imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a file imports, at the top or inside a function."""
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


def python_files(path: Path) -> list[Path]:
    return list(path.rglob("*.py")) if path.is_dir() else [path]


@pytest.mark.covers("PKG-04")
def test_front_ends_import_only_allowed_layers(repository: Path) -> None:
    source = repository / "src" / "mainspring" / "app"
    files = sorted(path for part in FRONT_ENDS for path in python_files(source / part))

    found = [
        f"{path.relative_to(source)}: {name}"
        for path in files
        for name in iter_imports(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith("mainspring.")
        and not any(name == allowed or name.startswith(f"{allowed}.") for allowed in ALLOWED)
        and (path.relative_to(source).parts[0], name) not in EXCEPTIONS
    ]

    assert {path.relative_to(source).parts[0] for path in files} == {"cli", "export", "printing", "servers", "tui"}
    assert found == []


def is_model_name(receiver: ast.expr) -> bool:
    """Return True if a method is called on something with a model's name: ``self.model``, ``choice.model``, ``provider``."""
    names = {node.attr if isinstance(node, ast.Attribute) else node.id for node in ast.walk(receiver)
             if isinstance(node, ast.Attribute | ast.Name)}  # fmt: skip
    return any(word in name.lower() for name in names for word in ("model", "provider", "client"))


@pytest.mark.covers("PKG-04")
def test_app_never_calls_a_model_directly(repository: Path) -> None:
    source = repository / "src" / "mainspring" / "app"
    calls = {
        "stream",
        "complete",
        "invoke",
    }  # methods of a model; chats and requests have methods with the same names

    found = [
        f"{path.relative_to(source)}:{node.lineno}: {node.func.attr}"
        for path in sorted(source.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr == "side_call" or (node.func.attr in calls and is_model_name(node.func.value)))
    ]

    assert found == []
