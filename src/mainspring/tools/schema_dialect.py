"""Prepare a JSON Schema for `jsonschema_rs`, which is stricter than the schemas that servers and applications send.

The prepared copy has the same shape, so the path of an error leads to the same part in both.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from mainspring.lazy import lazy_re
from mainspring.tools.problems import format_value, is_dict, is_list

SUPPORTED_FORMATS = frozenset({"date", "date-time", "email", "ipv4", "ipv6", "time", "uri", "uuid"})
"""Formats that are checked; a value of another format is accepted."""

UNRESOLVED = "unresolved $ref: "
"""Start of the comment that replaces a reference that cannot be resolved."""

_DIALECT = lazy_re(r"https?://json-schema\.org/(?:draft-0[467]|draft/20(?:19-09|20-12))/schema#?")
_LEGACY = lazy_re(r"https?://json-schema\.org/draft-0[467]/schema#?")
_URI = lazy_re(r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
_NEVER = r"[^\s\S]"
_ONLY_JAVASCRIPT = lazy_re(r"\\[pPuc]|\(\?<|\(\?-?[a-z]")
_CLASS = lazy_re(r"\\.|\[\^?\]|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_EMPTY_CLASSES = {"[]": _NEVER, "[^]": r"[\s\S]"}
_BACKTRACK_LIMIT = 1_000
_LONG_TEXT = r"^[\s\S]{1000}"
"""Matches a text that is too long for a pattern that is not searched in linear time, so that the text is accepted."""

_DATA = frozenset({"const", "enum", "default", "examples", "required", "dependentRequired"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
_IGNORED = frozenset({"contentEncoding", "contentMediaType", "contentSchema"})


class BadPatternError(ValueError):
    """The text is not a regular expression in any supported dialect."""


class PreparedSchema:
    """A schema as `jsonschema_rs` accepts it.

    Args:
        root: JSON Schema.
        local_only: Whether a reference that is not a pointer into the schema is replaced by a part that fits no value.

    Attributes:
        schema: The prepared copy.
        patterns: Original of each changed pattern.
        is_legacy: Whether the dialect is draft 4, 6, or 7.
    """

    def __init__(self, root: Any, *, local_only: bool = False) -> None:
        self._root = root
        self._local_only = local_only
        self._parts: list[dict[str, Any]] = []
        self.patterns: dict[str, str] = {}
        named: Any = root.get("$schema") if is_dict(root) else None
        self.is_legacy = isinstance(named, str) and _LEGACY.fullmatch(named) is not None
        self._ignored = _IGNORED if self.is_legacy else _IGNORED | {"dependencies"}
        self.schema: Any = self._prepare(root)

    def _prepare(self, node: Any) -> Any:
        if is_list(node):
            return [self._prepare(each) for each in node]
        if not is_dict(node):
            return node
        if self._local_only and "$ref" in node:
            try:
                resolve_local_ref(self._root, node["$ref"])
            except LookupError:
                return {"not": {"$comment": f"{UNRESOLVED}{node['$ref']}"}}
        made = {key: self._prepare_keyword(key, value) for key, value in node.items() if key not in self._ignored}
        if node.get("nullable") is True:
            _allow_null(made)
        for key, is_valid in _CHECKED.items():
            if key in made and not (isinstance(made[key], str) and is_valid(made[key])):
                del made[key]
        self._parts.append(made)
        return made

    def _prepare_keyword(self, key: str, value: Any) -> Any:
        if key in _DATA:
            return value
        if key == "pattern" and isinstance(value, str):
            return self._prepare_pattern(value)
        if key in _NAMED and is_dict(value):
            names = map(self._prepare_name_pattern, value) if key == "patternProperties" else value
            return {name: self._prepare(each) for name, each in zip(names, value.values(), strict=True)}
        return self._prepare(value)

    def _prepare_pattern(self, pattern: str) -> str:
        """Return a pattern that the engine accepts; one that matches nothing replaces a pattern that is not valid."""
        try:
            return self._prepare_name_pattern(pattern)
        except BadPatternError:
            changed = f"{_NEVER}{{{len(self.patterns) + 1}}}"
            self.patterns[changed] = pattern
            return changed

    def _prepare_name_pattern(self, pattern: str) -> str:
        changed = _translate(pattern)
        if changed is None:  # matches everything; several names must differ
            changed = f"(?:){{{len(self.patterns) + 1}}}"
        if changed != pattern:
            self.patterns[changed] = pattern
        return changed

    def get_max_depth(self, budget: int) -> int | None:
        """Return the maximum depth of a value that can be checked within a number of nested steps.

        A reference can lead back to its own schema, so the depth of the value limits the use of the stack. The value is
        `None` if the schema contains no references, and 0 if a schema refers to itself for the same value.
        """
        references = [key for part in self._parts for key in ("$ref", "$dynamicRef", "$recursiveRef") if key in part]
        if not references:
            return None
        chains = _ChainLengths(self.schema)
        try:
            chains.measure(self.schema)
        except RecursionError:
            return 0
        except LookupError:
            pass
        has_embedded = any("$id" in part or "id" in part for part in self._parts[:-1])
        try:
            longest = len(self._parts) if has_embedded else max(map(chains.measure, self._parts))
        except (LookupError, RecursionError):  # an anchor, or a part that refers to itself
            longest = len(self._parts)
        return budget // longest


class _ChainLengths:
    """Measure how many parts of a schema can apply to the same value one inside another."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._lengths: dict[int, int | None] = {}

    def measure(self, part: Any) -> int:
        if not is_dict(part):
            return 1
        key = id(part)
        if key in self._lengths:
            known = self._lengths[key]
            if known is None:
                raise RecursionError
            return known
        self._lengths[key] = None
        length = 1 + max(map(self.measure, self._iter_same_value(part)), default=0)
        self._lengths[key] = length
        return length

    def _iter_same_value(self, part: dict[str, Any]) -> Iterator[Any]:
        if "$dynamicRef" in part or "$recursiveRef" in part:
            raise LookupError
        if "$ref" in part:
            yield resolve_local_ref(self._root, part["$ref"])
        for key in ("not", "if", "then", "else"):
            yield part.get(key)
        for key in ("allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"):
            inner = part.get(key)
            yield from inner.values() if is_dict(inner) else inner if is_list(inner) else ()


def _allow_null(part: dict[str, Any]) -> None:
    """Apply `nullable: true` of OpenAPI."""
    named = part.get("type")
    kinds: Any = [named] if isinstance(named, str) else named
    if is_list(kinds) and kinds and "null" not in kinds:
        part["type"] = [*kinds, "null"]
    if is_list(part.get("enum")):
        part["enum"] = [*part["enum"], None]


_CHECKED: dict[str, Callable[[str], Any]] = {
    "$schema": lambda text: _DIALECT.fullmatch(text),
    "$id": lambda text: _URI.fullmatch(text),
    "format": SUPPORTED_FORMATS.__contains__,
}
"""Test for each keyword that is ignored if its value is not usable."""


def resolve_local_ref(root: Any, reference: Any) -> Any:
    """Return the part of the root schema that a local `$ref` refers to.

    Raises:
        LookupError: The reference is not a local pointer, or its target does not exist.
    """
    if not isinstance(reference, str) or not reference.startswith("#") or reference[1:2] not in {"", "/"}:
        raise LookupError(reference)
    at: Any = root
    if "%" in reference:
        from urllib.parse import unquote

        reference = unquote(reference)
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if is_dict(at) and name in at and ("$id" not in at or at is root):
            at = at[name]
        elif is_list(at) and name.isdecimal() and int(name) < len(at):
            at = at[int(name)]
        else:
            raise LookupError(reference)
    return at


def compile_schema(prepared: PreparedSchema, function: str = "validator_for") -> Any:
    """Compile a prepared schema with a function of `jsonschema_rs`.

    Raises:
        ValueError: The schema is not valid.
    """
    import jsonschema_rs

    if isinstance(prepared.schema, str):  # the library would parse the text
        raise ValueError(f"{format_value(prepared.schema)} is not of type 'object' or 'boolean'")
    return getattr(jsonschema_rs, function)(
        prepared.schema,
        offline=True,
        formats=_create_formats() if prepared.is_legacy else None,
        validate_formats=True,
        email_options=_create_email_options(),
        pattern_options=_create_pattern_options(),
    )


def _create_email_options() -> Any:
    from jsonschema_rs import EmailOptions

    return EmailOptions(allow_display_text=False)


def _create_pattern_options() -> Any:
    """Return the options of the regular expression engine.

    A pattern can come from an untrusted server. The engine needs linear time, except for look-around and references to
    groups, which it searches up to a limit.
    """
    from jsonschema_rs import FancyRegexOptions

    return FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT)


@lru_cache(maxsize=1)
def _create_formats() -> dict[str, Callable[[str], bool]]:
    """Return a test for each supported format; a legacy dialect does not define all of them."""
    from jsonschema_rs import validator_for

    email = _create_email_options()
    return {
        name: validator_for({"format": name}, validate_formats=True, email_options=email).is_valid
        for name in SUPPORTED_FORMATS
    }


@lru_cache(maxsize=512)
def _translate(pattern: str) -> str | None:
    """Return the pattern for the engine; `None` if it cannot be checked, so that it matches everything.

    Raises:
        BadPatternError: The pattern is not a regular expression.
    """
    from jsonschema_rs import RegexOptions

    changed = _CLASS.sub(lambda match: _EMPTY_CLASSES.get(match[0], match[0]), pattern)
    if _is_readable(changed, RegexOptions()):
        return changed
    if _is_readable(changed, _create_pattern_options()):
        return f"{_LONG_TEXT}|(?:{changed})"
    try:
        re.compile(changed)
    except (re.error, OverflowError, RecursionError) as problem:
        if not _ONLY_JAVASCRIPT.search(pattern):
            raise BadPatternError(f"{pattern[:80]!r} is not a regular expression: {problem}") from problem
    return None


def _is_readable(pattern: str, options: Any) -> bool:
    from jsonschema_rs import validator_for

    try:
        validator_for({"pattern": pattern}, pattern_options=options)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=128)
def _search(pattern: str) -> Callable[[str], bool]:
    from jsonschema_rs import validator_for

    return validator_for({"pattern": pattern}, pattern_options=_create_pattern_options()).is_valid


def matches_pattern(pattern: str, text: str) -> bool:
    """Return True if a pattern of a schema matches a text, or cannot be checked.

    Raises:
        BadPatternError: The pattern is not a regular expression.
    """
    changed = _translate(pattern)
    try:
        return changed is None or _search(changed)(text)
    except ValueError:  # a lone surrogate
        return False


def explain_bad_pattern(pattern: str) -> str:
    """Return why a pattern is not valid; empty if it is."""
    try:
        _translate(pattern)
    except BadPatternError as problem:
        return str(problem)
    return ""


def exceeds_depth(value: Any, limit: int) -> bool:
    """Return True if a value is nested deeper than a number of levels."""
    level: list[Any] = [value]
    for _ in range(limit):
        level = [inner for each in level for inner in _get_items(each) if is_dict(inner) or is_list(inner)]
        if not level:
            return False
    return True


def _get_items(value: Any) -> Iterable[Any]:
    return value.values() if is_dict(value) else value if is_list(value) else ()
