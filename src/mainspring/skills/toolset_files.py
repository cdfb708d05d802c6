"""Finds the file of a toolset, and why a toolset cannot be loaded, without running its code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mainspring.env.paths import is_inside

if TYPE_CHECKING:
    import ast


def find_toolset_file(directory: str | None, place: str) -> str | None:
    """Return the path of a toolset's file within the skill's folder, or None if ``place`` names an installed module. Blocks.

    Args:
        directory: The skill's folder.
        place: The part before the colon: ``tools.py``, ``toolsets/index`` (without ``.py``), or ``package.module``.
    """
    if place.endswith(".py"):
        return place
    file = f"{place}.py"
    is_own = directory is not None and os.path.isfile(os.path.join(directory, file))
    return file if is_own or "/" in place else None


def find_toolset_problem(directory: str | None, spec: str) -> str:
    """Return why a toolset cannot be loaded, or an empty string. Blocks. Its code is parsed, never run.

    Args:
        directory: The skill's folder.
        spec: The toolset in the form of the front matter.
    """
    place, _, name = spec.rpartition(":")
    file = find_toolset_file(directory, place)
    if file is None:
        return "" if _is_installed(place) else f"{place} is neither a file of the skill nor an installed module"
    if directory is None:
        return "a single file has no folder"
    path = os.path.realpath(os.path.join(directory, file))
    if not is_inside(path, directory):
        return f"{file} is outside the skill's folder"
    try:
        with open(path, "rb") as stream:
            source = stream.read()
    except OSError as error:
        return f"{file}: {error.strerror or error}"
    return _find_source_problem(source, file, name)


def _find_source_problem(source: bytes, file: str, name: str) -> str:
    import ast  # slow, and only skills with toolsets need it

    try:
        tree = ast.parse(source, file)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        return f"{file}{where}: {getattr(error, 'msg', error)}"
    names: set[str | None] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    if names.isdisjoint((name, "*", "__getattr__")):
        return f"{file} has no {name}"
    missing = next((module for module in _iter_imports(tree.body) if not _is_installed(module)), None)
    return f"{file} imports {missing}, which is not installed" if missing else ""


def _iter_imports(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the modules that a file always imports: those in no ``if``, ``try``, or function."""
    import ast

    for node in body:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _is_installed(module: str) -> bool:
    """Return True if the top package of a module is installed. Finding a submodule would run the package's code."""
    import importlib.util
    import sys

    top = module.partition(".")[0]
    try:
        return top in sys.modules or importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False
