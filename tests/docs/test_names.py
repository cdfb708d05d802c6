"""Names of Python in the text of the pages exist: parameters of calls, dotted names of the library, and attributes of its objects."""

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

import mainspring
from mainspring.app.workspace.settings.validation import iter_settings
from mainspring.loop.hooks.names import HOOKS
from scripts.make_reference import PACKAGES

DOCS = Path(mainspring.__file__).resolve().parents[2] / "docs"
PAGES = [p for p in sorted(DOCS.rglob("*.md")) if not {"reference", "python-api"} & set(p.relative_to(DOCS).parts)]

_FENCE = re.compile(r"^ *```.*?^ *```[^\n]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_CALL = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\(")
_ATTRIBUTE = re.compile(r"(?<![\w./-])([A-Za-z]\w*)\.([a-z_]\w*)")
_DOTTED = re.compile(r"(?<![\w./-])mainspring(?:\.[A-Za-z_]\w*)+(?![\w./-]*[/-])")


_NOT_LIBRARY = {"mainspring.__main__", "mainspring.app.pyinstaller", "mainspring.testing.pytest_plugin"}
"""Modules that act when they are imported."""


@cache
def public_names() -> dict[str, list[Any]]:
    """The classes and functions of the library that have a public name, by name."""
    found: dict[str, list[Any]] = {}
    for info in pkgutil.walk_packages(mainspring.__path__, "mainspring.", onerror=lambda _: None):
        if any(info.name.startswith(module) for module in _NOT_LIBRARY):
            continue
        try:
            module = import_module(info.name)
        except ImportError:  # an extra that is not installed
            continue
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == info.name]
        for name in {*getattr(module, "__all__", ()), *own}:
            value = getattr(module, name)
            if not name.startswith("_") and callable(value):
                found.setdefault(name, []).append(value)
    return found


@cache
def public_functions() -> dict[str, list[Any]]:
    """The functions of the reference; others have the names of methods that the pages describe."""
    documented = {name for package in PACKAGES for name in getattr(import_module(package), "__all__", ())}
    return {name: found for name, found in public_names().items() if name in documented}


@cache
def source_text() -> str:
    """The source of the library: the names of attributes and events of telemetry and protocols are texts in it."""
    root = Path(mainspring.__file__).parent
    return "\n".join([path.read_text(encoding="utf-8") for path in root.rglob("*.py")])


@cache
def attributes_of(kind: Any) -> set[str]:
    """The attributes of the objects of a class, also those that only its methods assign."""
    found = set(dir(kind)) | set(getattr(kind, "__struct_fields__", ()))
    for base in kind.__mro__:
        found |= set(getattr(base, "__annotations__", ()))
        try:
            found |= set(re.findall(r"\bself\.(\w+)(?:: [^=\n]+)? =", inspect.getsource(base)))
        except (OSError, TypeError):
            continue
    return found


def code_of(text: str) -> Iterator[str]:
    """The code in backticks, outside of fenced blocks."""
    yield from _CODE.findall(_FENCE.sub("", text))


def keywords_of(code: str, start: int) -> list[str]:
    """The keywords of the call whose parenthesis opens before ``start``; what follows `...` is left out."""
    depth, end = 1, start
    while end < len(code) and depth:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(code[end], 0)
        end += 1
    arguments = re.sub(r",\s*\.\.\.\s*(?=$|\))", "", code[start : end - 1])
    try:
        call = ast.parse(f"f({arguments})", mode="eval").body
    except SyntaxError:
        return []
    return [keyword.arg for keyword in call.keywords if keyword.arg] if isinstance(call, ast.Call) else []


def accepts(target: Any, keyword: str) -> bool:
    """Whether a call of ``target`` takes a keyword."""
    if isinstance(target, type) and issubclass(target, msgspec.Struct):
        return keyword in target.__struct_fields__
    options = getattr(target, "declared", None)
    if isinstance(options, dict):
        return keyword in options
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):
        return True
    return keyword in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def wrong_calls(text: str) -> Iterator[str]:
    for code in code_of(text):
        for call in _CALL.finditer(code):
            names = public_names() if call[1][0].isupper() else public_functions()
            targets = names.get(call[1], ())
            for keyword in keywords_of(code, call.end()) if targets else ():
                if not any(accepts(target, keyword) for target in targets):
                    yield f"{call[1]}({keyword}=)"


def resolves(name: str, *, is_called: bool) -> bool:
    """Whether a dotted name is a module of the library, or an attribute of one, that can be called if it is."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:length]))
        except ImportError:
            continue
        if all((found := getattr(found, part, None)) is not None for part in parts[length:]):
            return callable(found) or not is_called
        break
    return any(f'"{each}"' in source_text() for each in (name, name.removeprefix("mainspring.")))


def wrong_dotted_names(text: str) -> Iterator[str]:
    for code in code_of(text):
        for match in _DOTTED.finditer(code):
            if not resolves(match[0], is_called=code[match.end() :].startswith("(")):
                yield match[0]


_SUFFIXES = {"md", "json", "jsonl", "py", "toml", "yaml"}

_OBJECTS = {
    "session": ("Session",),
    "telemetry": ("Telemetry",),
    "ctx": ("ToolContext", "ExtensionContext"),
    "agent": ("Agent",),
    "result": ("RunResult",),
}
"""The classes of the objects that the pages call by these names."""


def is_attribute(owner: str, name: str) -> bool:
    """Whether an object, a class, or a section of the settings has an attribute."""
    classes = [c for n in _OBJECTS.get(owner, (owner,)) for c in public_names().get(n, ()) if isinstance(c, type)]
    classes += HOOKS.values() if owner == "ctx" else ()
    if any(name in attributes_of(c) for c in classes) or not classes:
        return True
    return owner in _OBJECTS and f"{owner}.{name}" in settings_names()


@cache
def settings_names() -> set[str]:
    return {".".join(path) for path, _ in iter_settings()}


def wrong_attributes(text: str) -> Iterator[str]:
    for code in code_of(text):
        for owner, name in _ATTRIBUTE.findall(code):
            if name not in _SUFFIXES and (owner in _OBJECTS or owner[0].isupper()) and not is_attribute(owner, name):
                yield f"{owner}.{name}"


@pytest.mark.covers("PKG-16")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_names_in_the_text_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.name == "deviations.md":  # the first column has the names of the specification
        text = re.sub(r"^\|[^|]*\|", "|", text, flags=re.MULTILINE)
    if page.name == "other-libraries.md":  # the last column has the names here
        text = re.sub(r"^\|.*\|(?=[^|]*\|$)", "|", text, flags=re.MULTILINE)
    assert [*wrong_calls(text), *wrong_dotted_names(text), *wrong_attributes(text)] == []
