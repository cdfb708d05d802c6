"""One value as its type asks: scalars are turned into each other, and what does not fit is said in plain words.

One source of settings, checked: a file, the environment, or flags.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec import Struct, field
from msgspec.structs import FieldInfo, fields

from mainspring.app.workspace.settings.jsonc import Node, place
from mainspring.app.workspace.settings.schema import OWN_SETTINGS, AppConfig, Providers, ProviderSettings
from mainspring.lazy import lazy_re

_SUFFIX = lazy_re(r" - at `(?:key in )?\$(.*)`$")
_STEP = lazy_re(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_WORDS = {
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "a text",
    "`bool`": "true or false",
    "`array`": "a list",
    "`object`": "an object",
}


class FitError(ValueError):
    """A value does not fit; the text goes on from the setting's name.

    Attributes:
        where: The part of the value that is meant, as keys and indices.
    """

    def __init__(self, text: str, where: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.where = tuple(where)


def fit(value: Any, kind: Any) -> Any:
    """A value as the type asks, numbers and texts turned into each other; ``None`` where it sets nothing.

    Raises:
        FitError: If it does not fit.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    choices = choices_of(kind)
    if get_origin(kind) is tuple:
        return _listed(value, choices, kind)
    if choices:
        return _chosen(value, choices)
    if isinstance(value, int | float) and not isinstance(value, bool) and kind == str | None:
        value = str(value)
    if get_origin(kind) is dict and isinstance(value, dict):
        return _named(cast("dict[str, Any]", value), kind)
    try:
        fitted = msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise FitError(*_reason(str(error))) from None
    return fitted.strip() if isinstance(fitted, str) else fitted


def _named(value: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Things by name, one after the other, so that the one that is wrong is named."""
    inner = get_args(kind)[1]
    fitted: dict[str, Any] = {}
    for name, item in value.items():
        try:
            fitted[name] = msgspec.convert(item, inner, strict=False)
        except msgspec.ValidationError as error:
            text, where = _reason(str(error))
            raise FitError(f"{_dotted([name])} {text.removeprefix('in ')}", [name, *where]) from None
    return fitted


def choices_of(kind: Any) -> tuple[str, ...]:
    """The values that a type names one by one, itself or as those of its items; none if it does not."""
    origin = get_origin(kind)
    if origin is Literal:
        return tuple(str(value) for value in get_args(kind))
    if origin in {tuple, Union, types.UnionType}:
        return next((found for inner in get_args(kind) if (found := choices_of(inner))), ())
    return ()


def _listed(value: Any, choices: Sequence[str], kind: Any) -> tuple[Any, ...]:
    if float in get_args(kind):
        try:
            return msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as error:
            raise FitError(*_reason(str(error))) from None
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, str):
            raise FitError(f"must be a list of texts, but {item!r} is none")
    texts = tuple([item.strip() for item in items if item.strip()])
    return tuple([_chosen(text, choices) for text in texts]) if choices else texts


def _chosen(value: Any, choices: Sequence[str]) -> str:
    if value in choices:
        return value
    near = difflib.get_close_matches(str(value), choices, 1, 0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise FitError(f"must be one of {', '.join(choices)}, not {value!r}{hint}")


def _reason(text: str) -> tuple[str, list[str]]:
    """What msgspec says, as the rest of a sentence, and the part of the value that it means."""
    match = _SUFFIX.search(text)
    where = [name or index for name, index in _STEP.findall(match.group(1))] if match else []
    text = text[: match.start()] if match else text
    text = text.replace(" | null", "").replace("Expected ", "must be ").replace(", got ", ", not ")
    for word, plain in _WORDS.items():
        text = text.replace(word, plain)
    text = text.replace("`null`", "null").replace("`", "")
    if text.startswith("Object "):
        text = (
            text.removeprefix("Object ")
            .replace("missing required field", "needs")
            .replace("contains unknown field", "has no")
        )
    return (f"{_dotted(where)} {text}" if where else text), where


def _dotted(where: Sequence[str]) -> str:
    return (
        "in "
        + "".join(f"[{step}]" if step.isdecimal() or step == "..." else f".{step}" for step in where).lstrip(".")
        + ":"
    )


SCHEMA_KEY = "$schema"
"""The one key at the top that is no setting: editors look there for the schema of the file."""


Path = tuple[str, ...]
"""Where a value belongs, in camelCase: ``("agent", "maxTokens")``."""


class Layer(Struct):
    """What one source sets.

    Attributes:
        origin: Its name for people: a path, ``environment``, ``flags``.
        values: Its values by path. An empty text, ``null`` and an empty section set nothing.
        warnings: What was odd about it.
    """

    origin: str
    values: dict[Path, Any] = field(default_factory=dict[Path, Any])
    warnings: list[str] = field(default_factory=list[str])


class Problem(Struct, frozen=True):
    """A value that does not fit: where it stands, why, and which setting it is about."""

    position: int
    text: str
    path: Path


class Checker:
    """Turns the tree of a file into a layer.

    Args:
        origin: Name of the file.
        text: Its text, for places.
    """

    def __init__(self, origin: str, text: str) -> None:
        self.layer = Layer(origin)
        self.problems: list[Problem] = []
        self._text = text

    def located(self, position: int, text: str) -> str:
        """A message with the place it is about."""
        line, column = place(self._text, position)
        return f"{self.layer.origin}:{line}:{column}: {text}"

    def check(self, node: Node) -> None:
        """Check everything; what is wrong is in `problems`, what is odd in the layer's warnings."""
        self._section(node, AppConfig, ())

    def _section(self, node: Node, kind: type[Struct], path: Path) -> None:
        if node.members is None:
            if node.value is not None or node.items is not None:
                what = ".".join(path) or "the settings"
                self.problems.append(Problem(node.start, f"{what} must be an object, not {_shown(node)}", path))
            return
        known = {f.encode_name: f for f in fields(kind)}
        if not path:
            node.members.pop(SCHEMA_KEY, None)
        seen: dict[str, str] = {}
        for key, member in node.members.items():
            name = camel(key)
            if kind is ProviderSettings and name in OWN_SETTINGS:
                self._leaf(member, Any, (*path, name))
            elif name not in known:
                self._unknown(node.keys[key], key, path, [*known, *(OWN_SETTINGS if kind is ProviderSettings else ())])
            elif name in seen:
                self.problems.append(
                    Problem(node.keys[key], f"{key} and {seen[name]} are the same setting", (*path, name))
                )
            else:
                seen[name] = key
                self._member(member, known[name], (*path, name))

    def _member(self, node: Node, info: FieldInfo, path: Path) -> None:
        kind = info.type
        if kind is Providers:
            self._providers(node, path)
        elif isinstance(kind, type) and issubclass(kind, Struct):
            self._section(node, kind, path)
        elif len(path) == 1 and (named := named_kind(kind)) is not None and node.members is not None:
            for name, member in node.members.items():
                self._leaf(member, named, (*path, name))
        else:
            self._leaf(node, kind, path)

    def _providers(self, node: Node, path: Path) -> None:
        if node.members is None:
            self._section(node, AppConfig, path)
            return
        for name, member in node.members.items():
            if name == "default":
                self._leaf(member, str | None, (*path, name))
            else:
                self._section(member, ProviderSettings, (*path, name))

    def _leaf(self, node: Node, kind: Any, path: Path) -> None:
        try:
            value = fit(node.plain(), kind)
        except FitError as error:
            self.problems.append(Problem(_within(node, error.where).start, f"{'.'.join(path)} {error}", path))
            return
        if value is not None:
            self.layer.values[path] = value

    def _unknown(self, position: int, key: str, path: Path, known: list[str]) -> None:
        near = difflib.get_close_matches(camel(key), known, 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
        name = ".".join((*path, key))
        self.layer.warnings.append(self.located(position, f"there is no setting {name!r}; {hint}"))


def _within(node: Node, where: Sequence[str]) -> Node:
    """The part of a value that is meant, as far as it is there."""
    for step in where:
        if node.members is not None and step in node.members:
            node = node.members[step]
        elif node.items is not None and step.isdecimal() and int(step) < len(node.items):
            node = node.items[int(step)]
        else:
            break
    return node


def named_kind(kind: Any) -> type[Struct] | None:
    """The type of the things that a setting holds by name; ``None`` if it holds no such things."""
    inner = get_args(kind)[1] if get_origin(kind) is dict else None
    return inner if isinstance(inner, type) and issubclass(inner, Struct) else None


def _shown(node: Node) -> str:
    return "a list" if node.items is not None else repr(node.value)


def camel(key: str) -> str:
    """The key in camelCase; a key that is so already stays."""
    head, *rest = key.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def leaves(kind: type[Struct] = AppConfig, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every setting outside the sections of providers: its path and type."""
    for info in fields(kind):
        here = (*path, info.encode_name)
        inner: Any = info.type
        if inner is Providers:
            yield (*here, "default"), str | None
        elif isinstance(inner, type) and issubclass(inner, Struct):
            yield from leaves(inner, here)
        else:
            yield here, inner


def type_of(path: Path) -> Any:
    """The type of a setting.

    Raises:
        ValueError: If there is no such setting.
    """
    known = dict(leaves())
    if len(path) == 3 and path[0] == "providers":
        known |= {("providers", path[1], f.encode_name): f.type for f in fields(ProviderSettings)}
        known |= {("providers", path[1], name): Any for name in OWN_SETTINGS}
    if len(path) == 2 and (named := named_kind(known.get(path[:1]))) is not None:
        return named
    if path not in known:
        names = {".".join(p) for p in known}
        near = difflib.get_close_matches(".".join(path), names, 1, 0.5)
        raise ValueError(
            f"there is no setting {'.'.join(path)!r}; "
            + (f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(names))}, providers.NAME.apiKey")
        )
    return known[path]
