"""Principles that can be checked in the source: no mutable global state, and a core that names no provider."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

MUTATORS = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"
}  # fmt: skip
VENDORS = (
    "anthropic", "azure", "bedrock", "cerebras", "foundry", "gemini", "github", "google", "groq", "langchain", "llama", "mistral",
    "ollama", "openai", "openrouter", "vertex",
)  # fmt: skip


def parse_files(*places: Path) -> Iterator[tuple[Path, ast.Module]]:
    for place in places:
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def module_names(tree: ast.Module) -> set[str]:
    """Return the names that are assigned at the top level of a module."""
    targets: list[ast.expr] = []
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets += node.targets
        elif isinstance(node, ast.AnnAssign):
            targets.append(node.target)
    return {target.id for target in targets if isinstance(target, ast.Name)}


def find_changed_name(node: ast.AST) -> str | None:
    """Return the name whose value a node changes in place."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in MUTATORS:
            return name
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name
        case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name
        case _:
            return None


def local_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    arguments = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    stored = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return arguments | stored


def find_state_changes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the lines where a function changes the state of the module."""
    names = module_names(tree)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        local = local_names(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                yield node.lineno, ", ".join(node.names)
            name = find_changed_name(node)
            if name is not None and name in names - local:
                yield getattr(node, "lineno", 0), name


@pytest.mark.covers("PKG-06")
def test_no_function_writes_to_module_state(repository: Path) -> None:
    source = repository / "src" / "mainspring"

    found = [
        f"{path.relative_to(source)}:{line}: {name}"
        for path, tree in parse_files(source)
        for line, name in find_state_changes(tree)
    ]

    assert found == []


def test_module_state_changes_are_found() -> None:
    source = """
CACHE = {}
SEEN: list[str] = []
def one(): CACHE["a"] = 1
def two(): SEEN.append("b")
def three():
    global SEEN
def four():
    CACHE = {}
    CACHE["a"] = 1
def five(SEEN): SEEN.append("c")
"""
    assert list(find_state_changes(ast.parse(source))) == [(4, "CACHE"), (5, "SEEN"), (7, "SEEN")]


def find_words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the identifiers and strings of a module, without docstrings."""
    prose = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in prose:
                yield node.lineno, text
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.alias(name=name):
                yield node.lineno, name
            case _:
                pass


@pytest.mark.covers("PKG-13")
def test_core_types_name_no_provider(repository: Path) -> None:
    source = repository / "src" / "mainspring"
    core = (source / "errors.py", source / "messages", source / "events", source / "loop", source / "tools")

    found = [
        f"{path.relative_to(source)}:{line}: {word!r}"
        for path, tree in parse_files(*core)
        for line, word in find_words(tree)
        if any(vendor in word.lower() for vendor in VENDORS)
    ]

    assert found == []
