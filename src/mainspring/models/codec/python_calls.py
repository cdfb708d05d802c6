"""Read calls in the syntax of Python, as Llama 4, LFM2, and OLMo 3 write them."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from typing import Any

_MAX_LENGTH = 1 << 18  # characters; Python's parser needs a hundred times the memory


def parse_python_calls(source: str) -> list[tuple[str, dict[str, Any]]] | None:
    """Return the names and the arguments of calls, one after the other or in a list; ``None`` for any other text.

    Args:
        source: The text, for example, ``[read_file(path="a.txt")]``. Nothing of it is executed.
    """
    if len(source) > _MAX_LENGTH:
        return None
    try:
        with warnings.catch_warnings():  # of unknown escapes in strings, which are common in regular expressions
            warnings.simplefilter("ignore")
            return [_read_call(node) for statement in ast.parse(source).body for node in _nodes(statement)] or None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _nodes(statement: ast.stmt) -> Iterator[ast.expr]:
    if not isinstance(statement, ast.Expr):
        raise ValueError("not an expression")
    yield from statement.value.elts if isinstance(statement.value, ast.List) else [statement.value]


def _read_call(node: ast.expr) -> tuple[str, dict[str, Any]]:
    if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Name | ast.Attribute):
        raise ValueError("not a call with named arguments")
    return ast.unparse(node.func), {
        str(given.arg): ast.literal_eval(given.value) for given in node.keywords if given.arg
    }
