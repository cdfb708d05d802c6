"""The command stays outside the agent."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FRONT_ENDS = (
    "cli", "export", "printing/json_output.py", "printing/text_output.py", "servers/acp", "servers/http", "servers/mcp", "servers/rpc",
    "tui",
)  # fmt: skip
"""What shows the agent or takes input for it. The commands do the work of their noun, and print mode composes a run."""

ALLOWED = (
    "mainspring.app",
    "mainspring.agent",
    "mainspring.events",
    "mainspring.messages",
    "mainspring.cancellation",
    "mainspring.errors",
    "mainspring.extras",
    "mainspring.lazy",
    "mainspring.programs",
    "mainspring.redaction",
    "mainspring.text",
)
"""The layers below a front end that it sees, and the bottom modules that all share."""

EXCEPTIONS = {("export", "mainspring.sessions.transcript"), ("servers", "mainspring.durable.feed")}
"""The values that an export renders and that a stream of the HTTP server sends."""


def iter_imports(tree: ast.AST) -> Iterator[str]:
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
    }  # of the model's port; a chat and a request have methods of these names, too

    found = [
        f"{path.relative_to(source)}:{node.lineno}: {node.func.attr}"
        for path in sorted(source.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr == "side_call" or (node.func.attr in calls and is_model_name(node.func.value)))
    ]

    assert found == []
