"""Validate values by their type, and the settings of one source: a file, the environment, or flags. Numbers and strings are converted."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec import Struct, field, structs
from msgspec.structs import FieldInfo

from mainspring.app.workspace.settings.schema import AppConfig, Providers, ProviderSettings, Url
from mainspring.lazy import lazy_re
from mainspring.lenient_json import JsonNode, line_and_column
from mainspring.models.config import explain_unknown_setting, known_settings
from mainspring.models.provider_table import OWN_SETTING_TYPES, PROVIDERS, URL_SETTINGS
from mainspring.text import suggest_name, to_camel_case

_SUFFIX = lazy_re(r" - at `(?:key in )?\$(.*)`$")
_STEP = lazy_re(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_QUOTED = lazy_re(r"`([^`]*)`")
_TYPE_NAMES = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "bool | array": "true, false, or a list of strings",
    "array": "a list",
    "object": "an object",
}


@cache
def fields(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    """Return the fields of a type. Cached, because msgspec evaluates the annotations of all fields in each call."""
    return structs.fields(kind)


class SettingValueError(ValueError):
    """A value is invalid. The message continues after the name of the setting.

    Attributes:
        value_path: Invalid part of the value, as keys and indices.
    """

    def __init__(self, text: str, where: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.value_path = tuple(where)


def convert_value(value: Any, kind: Any) -> Any:
    """Convert a value to a type; None if it sets nothing. A scalar of another type is converted if nothing is lost.

    Raises:
        SettingValueError: If it is invalid.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    choices = allowed_values(kind)
    value = _unify_numbers(value)
    list_kind = next((each for each in (kind, *get_args(kind)) if get_origin(each) is tuple), None)
    if list_kind is not None and (list_kind is kind or isinstance(value, list)):
        return _convert_list(cast("object", value), choices, list_kind)
    if choices:
        return _check_choice(value, choices)
    if isinstance(value, int | float) and not isinstance(value, bool) and kind == str | None:
        value = str(value)
    if get_origin(kind) is dict and isinstance(value, dict):
        return _convert_mapping(cast("dict[str, Any]", value), kind)
    try:
        fitted = msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise SettingValueError(*_explain_error(str(error))) from None
    return (fitted.strip() or None) if isinstance(fitted, str) else fitted


def _unify_numbers(value: Any) -> Any:
    """Replace numbers like ``3.0`` by integers, which JSON does not distinguish from them."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return int(value)
    if isinstance(value, list):
        return [_unify_numbers(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _unify_numbers(item) for name, item in cast("dict[str, Any]", value).items()}
    return value


def _convert_mapping(value: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Convert a mapping one member at a time, so that errors can name the invalid one."""
    inner = get_args(kind)[1]
    fitted: dict[str, Any] = {}
    for name, item in value.items():
        try:
            fitted[name] = msgspec.convert(item, inner, strict=False)
        except msgspec.ValidationError as error:
            text, where = _explain_error(str(error))
            raise SettingValueError(f"{_dotted([name])} {text.removeprefix('in ')}", [name, *where]) from None
    return fitted


def allowed_values(kind: Any) -> tuple[str, ...]:
    """Return the allowed values of a type, or of its items; empty if any value is allowed."""
    origin = get_origin(kind)
    if origin is Literal:
        return tuple(str(value) for value in get_args(kind))
    if origin in {tuple, Union, types.UnionType}:
        return next((found for inner in get_args(kind) if (found := allowed_values(inner))), ())
    return ()


def _convert_list(value: Any, choices: Sequence[str], kind: Any) -> tuple[Any, ...]:
    if float in get_args(kind) or isinstance(value, dict | bool):
        try:
            return msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as error:
            raise SettingValueError(*_explain_error(str(error))) from None
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, str):
            raise SettingValueError(f"must be a list of strings, but contains {item!r}")
    texts = tuple([item.strip() for item in items if item.strip()])
    return tuple([_check_choice(text, choices) for text in texts]) if choices else texts


def _check_choice(value: Any, choices: Sequence[str]) -> str:
    if value in choices:
        return value
    hint = suggest_name(str(value), choices, cutoff=0.5)
    raise SettingValueError(f"must be one of {', '.join(choices)}, not {value!r}{hint and f'. {hint}'}")


def _explain_error(text: str) -> tuple[str, list[str]]:
    """Convert a message of msgspec to the rest of a sentence, and return it with the invalid part of the value."""
    match = _SUFFIX.search(text)
    where = [name or index for name, index in _STEP.findall(match.group(1))] if match else []
    text = text[: match.start()] if match else text
    if "matching regex" in text:  # Only URLs have a pattern.
        text = "must start with http:// or https:// and contain a host"
    text = text.replace(" | null", "").replace("Expected ", "must be ").replace(", got ", ", not ")
    text = _QUOTED.sub(lambda match: _describe_type(match[1]), text)
    if text.startswith("Object "):
        text = (
            text.removeprefix("Object ")
            .replace("missing required field", "needs")
            .replace("contains unknown field", "has no")
        )
    return (f"{_dotted(where)} {text}" if where else text), where


def _describe_type(name: str) -> str:
    return _TYPE_NAMES.get(name) or " or ".join([_TYPE_NAMES.get(part, part) for part in name.split(" | ")])


def _dotted(key_path: Sequence[str]) -> str:
    return (
        "in "
        + "".join(f"[{step}]" if step.isdecimal() or step == "..." else f".{step}" for step in key_path).lstrip(".")
        + ":"
    )


SCHEMA_KEY = "$schema"
"""The top-level key that is not a setting: editors read the schema of the file from it."""


SettingKey = tuple[str, ...]
"""Path of a setting in camelCase: ``("agent", "maxTokens")``."""


class SettingsSource(Struct):
    """The values of one source.

    Attributes:
        origin: Name for users: a path, ``environment``, or ``flags``.
        values: Values by path. An empty string, ``null``, or an empty section sets nothing.
        warnings: Warnings about the source.
    """

    origin: str
    values: dict[SettingKey, Any] = field(default_factory=dict[SettingKey, Any])
    warnings: list[str] = field(default_factory=list[str])


class Problem(Struct, frozen=True):
    """An invalid value: its position, the reason, and its setting."""

    position: int
    text: str
    path: SettingKey


class SettingsChecker:
    """Converts the parsed tree of a file to a `SettingsSource`.

    Args:
        origin: Name of the file.
        text: Text of the file, for positions.
    """

    def __init__(self, origin: str, text: str) -> None:
        self.layer = SettingsSource(origin)
        self.problems: list[Problem] = []
        self._text = text

    def with_position(self, position: int, text: str) -> str:
        """Add the position to a message."""
        line, column = line_and_column(self._text, position)
        return f"{self.layer.origin}:{line}:{column}: {text}"

    def check(self, node: JsonNode) -> None:
        """Check all settings, and collect `problems` and warnings."""
        self._check_section(node, AppConfig, ())

    def _check_section(self, node: JsonNode, kind: type[Struct], path: SettingKey) -> None:
        if node.members is None:
            if node.value is not None or node.items is not None:
                what = ".".join(path) or "the settings"
                self.problems.append(Problem(node.start, f"{what} must be an object, not {_describe_node(node)}", path))
            return
        known = {f.encode_name: f for f in fields(kind)}
        types = provider_setting_types(path[1]) if kind is ProviderSettings else {}
        if not path:
            node.members.pop(SCHEMA_KEY, None)
        seen: dict[str, str] = {}
        for key, member in node.members.items():
            name = to_camel_case(key)
            if types and name not in types:
                text = explain_unknown_setting(path[1], name, types)
                self.problems.append(Problem(node.keys[key], f"{'.'.join((*path, key))}: {text}", (*path, name)))
            elif not types and name not in known:
                self._warn_unknown(node.keys[key], key, path, list(known))
            elif name in seen:
                self.problems.append(
                    Problem(node.keys[key], f"{key} and {seen[name]} are the same setting", (*path, name))
                )
            else:
                seen[name] = key
                if types:
                    self._check_value(member, types[name], (*path, name))
                else:
                    self._check_member(member, known[name], (*path, name))

    def _check_member(self, node: JsonNode, info: FieldInfo, path: SettingKey) -> None:
        kind = info.type
        if kind is Providers:
            self._check_providers(node, path)
        elif isinstance(kind, type) and issubclass(kind, Struct):
            self._check_section(node, kind, path)
        elif len(path) == 1 and (named := mapping_value_type(kind)) is not None and node.members is not None:
            for name, member in node.members.items():
                self._check_value(member, named, (*path, name))
        else:
            self._check_value(node, kind, path)

    def _check_providers(self, node: JsonNode, path: SettingKey) -> None:
        if node.members is None:
            self._check_section(node, AppConfig, path)
            return
        for name, member in node.members.items():
            if name == "default":
                self._check_value(member, str | None, (*path, name))
            else:
                self._check_section(member, ProviderSettings, (*path, name))

    def _check_value(self, node: JsonNode, kind: Any, path: SettingKey) -> None:
        try:
            value = convert_value(node.to_python(), kind)
        except SettingValueError as error:
            self.problems.append(Problem(_find_node(node, error.value_path).start, f"{'.'.join(path)} {error}", path))
            return
        if value is not None:
            self.layer.values[path] = value

    def _warn_unknown(self, position: int, key: str, path: SettingKey, known: list[str]) -> None:
        every = f"Available settings: {', '.join(known)}"
        hint = _ELSEWHERE.get(key) or suggest_name(to_camel_case(key), known, every, cutoff=0.5)
        name = ".".join((*path, key))
        self.layer.warnings.append(self.with_position(position, f"Unknown setting: {name!r}. {hint}"))


_ELSEWHERE = {"mcpServers": "List MCP servers in mcp.json next to this file, or under mcp.servers."}
"""Keys of the settings files of other programs, and where their content belongs."""


def _find_node(node: JsonNode, key_path: Sequence[str]) -> JsonNode:
    """Return the node of a part of a value, or of the closest existing parent."""
    for step in key_path:
        if node.members is not None and step in node.members:
            node = node.members[step]
        elif node.items is not None and step.isdecimal() and int(step) < len(node.items):
            node = node.items[int(step)]
        else:
            break
    return node


def mapping_value_type(kind: Any) -> type[Struct] | None:
    """Return the value type of a setting that is a mapping of objects, or None."""
    inner = get_args(kind)[1] if get_origin(kind) is dict else None
    return inner if isinstance(inner, type) and issubclass(inner, Struct) else None


def _describe_node(node: JsonNode) -> str:
    return "a list" if node.items is not None else repr(node.value)


_KEY_SOURCES = ("apiKeyCommand", "apiKeyFile", "apiKeyKeyring")


def provider_setting_types(provider: str) -> dict[str, Any]:
    """Return the settings of the section of a provider, each with its type."""
    names = known_settings(provider)
    own = {"systemPrompt", *(_KEY_SOURCES if "apiKey" in names else ())}
    common = {info.encode_name: info.type for info in fields(ProviderSettings)}
    kinds = {name: kind for name, kind in common.items() if name in own or name in names} | {
        name: OWN_SETTING_TYPES.get(name, str) | None for name in names if name not in common
    }
    profile = PROVIDERS.get(provider)
    has_urls = profile is None or not profile.free_address
    return {name: Url | None if has_urls and name in URL_SETTINGS else kind for name, kind in kinds.items()}


def iter_settings(kind: type[Struct] = AppConfig, path: SettingKey = ()) -> Iterator[tuple[SettingKey, Any]]:
    """Iterate over all settings outside the sections of providers, with path and type."""
    for info in fields(kind):
        here = (*path, info.encode_name)
        inner: Any = info.type
        if inner is Providers:
            yield (*here, "default"), str | None
        elif isinstance(inner, type) and issubclass(inner, Struct):
            yield from iter_settings(inner, here)
        else:
            yield here, inner


def setting_type(path: SettingKey) -> Any:
    """Return the type of a setting.

    Raises:
        ValueError: If the setting is unknown.
    """
    known = dict(iter_settings())
    if len(path) == 3 and path[0] == "providers":
        types = provider_setting_types(path[1])
        if path[2] not in types:
            raise ValueError(f"Unknown setting: {'.'.join(path)!r}. {explain_unknown_setting(path[1], path[2], types)}")
        return types[path[2]]
    if len(path) == 2 and (named := mapping_value_type(known.get(path[:1]))) is not None:
        return named
    if path not in known:
        names = {".".join(p) for p in known}
        every = "List all settings with `mainspring config show --all`."
        hint = suggest_name(".".join(path), names, every, cutoff=0.5)
        raise ValueError(f"Unknown setting: {'.'.join(path)!r}. {hint}")
    return known[path]
