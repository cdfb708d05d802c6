"""Checks of JSON values, compiled once from a plain schema to closures.

A check takes about a microsecond and imports nothing.

Plain schemas cover nearly every tool: types, properties, items, enums, limits, formats, unions, and local references.
`compile_plain` returns `None` for other schemas; the full validator handles them.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from mainspring.tools.assertions import ASSERTIONS, TYPE_CHECKS, Check, NotPlainError, accept, require_list
from mainspring.tools.problems import (
    Problem,
    format_value,
    is_dict,
    is_list,
    missing_property_message,
    prefix_path,
    union_issues,
    unknown_property_message,
    wrong_type_message,
)

_DRAFTS = {
    "https://json-schema.org/draft/2020-12/schema": 2020,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "http://json-schema.org/draft-07/schema": 7,
    "http://json-schema.org/draft-06/schema": 6,
}

_NEEDS_MORE = frozenset(
    "$id id $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor $vocabulary not if then else contains "
    "minContains maxContains additionalItems dependencies dependentRequired dependentSchemas patternProperties "
    "unevaluatedItems unevaluatedProperties extends disallow divisibleBy".split()
)


def compile_plain(schema: Any) -> "PlainSchema | None":
    """Compile the checks of a schema. Return `None` if the schema is not plain or not valid."""
    try:
        plain = PlainSchema(schema)
        plain.root_check = plain.compile(schema)
    except (NotPlainError, RecursionError):
        return None
    return plain


class PlainSchema:
    """A schema and the checks compiled from it and from its parts."""

    __slots__ = ("_draft", "_compiled", "_root", "root_check")

    def __init__(self, root: Any) -> None:
        named = root.get("$schema") if is_dict(root) else None
        draft = 2020 if named is None else _DRAFTS.get(str(named).rstrip("#"))
        if draft is None:
            raise NotPlainError(named)
        self._root: Any = root
        self._draft = draft
        self._compiled: dict[int, Check | None] = {}
        self.root_check: Check = accept

    def compile(self, schema: Any) -> Check:
        """Compile the check of a part of the schema.

        Raises:
            NotPlainError: The part is not plain, or not valid.
        """
        if schema is True:
            return accept
        if schema is False:
            return _refuse
        if not is_dict(schema):
            raise NotPlainError(schema)
        key = id(schema)
        if key in self._compiled:
            return self._compiled[key] or self._enqueue(key)
        self._compiled[key] = None
        check = _all_of(list(self._checks(schema)))
        self._compiled[key] = check
        return check

    def _enqueue(self, key: int) -> Check:
        """Return the check of a schema whose compilation is in progress (a recursive schema)."""
        compiled = self._compiled

        def check(value: Any) -> list[Problem] | None:
            found = compiled[key]
            return found(value) if found else None

        return check

    def _checks(self, schema: dict[str, Any]) -> Iterable[Check]:
        if not _NEEDS_MORE.isdisjoint(schema):
            raise NotPlainError(schema.keys() & _NEEDS_MORE)
        if "$ref" in schema:
            yield self.compile(resolve_local_ref(self._root, schema["$ref"]))
            if self._draft <= 7:
                return
        kinds = _type_names(schema)
        shapes = [*self._object_check(schema), *self._array_check(schema)]
        scalars = [make(schema[keyword], schema) for keyword, make in ASSERTIONS.items() if keyword in schema]
        if kinds:
            yield _typed(kinds, _all_of([*shapes, *scalars]) if shapes or scalars else None)
        else:
            yield from shapes
            yield from scalars
        yield from self._unions(schema)

    def _unions(self, schema: dict[str, Any]) -> Iterable[Check]:
        for keyword, make in (("allOf", _all_of), ("anyOf", _any_of), ("oneOf", _one_of)):
            if keyword in schema:
                yield make([self.compile(each) for each in require_list(schema[keyword], at_least=1)])

    def _object_check(self, schema: dict[str, Any]) -> Iterable[Check]:
        if _OBJECT_KEYWORDS.isdisjoint(schema):
            return
        children = {name: self.compile(each) for name, each in _dict(schema.get("properties", {})).items()}
        others = schema.get("additionalProperties", True)
        other = None if others is True else self.compile(others)
        required = tuple(_names(schema.get("required", [])))
        names = self.compile(schema["propertyNames"]) if "propertyNames" in schema else None
        yield _object(children, required, other, names if names is not accept else None)

    def _array_check(self, schema: dict[str, Any]) -> Iterable[Check]:
        first: list[Check] = []
        if "prefixItems" in schema and self._draft == 2020:
            first = [self.compile(each) for each in require_list(schema["prefixItems"], at_least=1)]
        rest = self.compile(schema["items"]) if schema.get("items", True) is not True else None
        if first or rest:
            yield _array(first, rest)


def resolve_local_ref(root: Any, reference: Any) -> Any:
    """Return the part of the root schema that a local `$ref` refers to.

    Raises:
        NotPlainError: The reference is not a local pointer, or its target does not exist.
    """
    if not isinstance(reference, str) or not reference.startswith("#") or reference[1:2] not in {"", "/"}:
        raise NotPlainError(reference)
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
            raise NotPlainError(reference)
    return at


def _refuse(value: Any) -> list[Problem]:
    return [Problem((), "false", f"{format_value(value)} is not allowed here")]


def _dict(value: Any) -> dict[str, Any]:
    if not is_dict(value):
        raise NotPlainError(value)
    return value


def _names(value: Any) -> Sequence[str]:
    names = require_list(value)
    if not all(isinstance(each, str) for each in names):
        raise NotPlainError(value)
    return names


def _type_names(schema: dict[str, Any]) -> list[str]:
    named = schema.get("type")
    if named is None:
        return []
    kinds: list[Any] = [named] if isinstance(named, str) else require_list(named, at_least=1)
    if not all(isinstance(each, str) and each in TYPE_CHECKS for each in kinds):
        raise NotPlainError(named)
    return [*kinds, "null"] if schema.get("nullable") is True and "null" not in kinds else kinds


def _typed(kinds: list[str], rest: Check | None) -> Check:
    """Return a check for a type, and for the keywords that apply to values of this type."""
    if len(kinds) == 1 and kinds[0] in _CLASSES:
        return _of_class(_CLASSES[kinds[0]], kinds, rest)
    tests = [TYPE_CHECKS[each] for each in kinds]
    right: Callable[[Any], bool] = tests[0] if len(tests) == 1 else lambda value: any(test(value) for test in tests)

    def check(value: Any) -> list[Problem] | None:
        if right(value):
            return rest(value) if rest else None
        return [Problem((), "type", wrong_type_message(value, kinds))]

    return check


_CLASSES: dict[str, type] = {"string": str, "array": list, "object": dict, "integer": int}


def _of_class(kind: type, kinds: list[str], rest: Check | None) -> Check:
    """Return a fast check for a type that is a single Python class, except where `TYPE_CHECKS` is more exact."""
    right = TYPE_CHECKS[kinds[0]]
    if rest is None:

        def check(value: Any) -> list[Problem] | None:
            if type(value) is kind or right(value):
                return None
            return [Problem((), "type", wrong_type_message(value, kinds))]

        return check

    def check_both(value: Any) -> list[Problem] | None:
        if type(value) is kind or right(value):
            return rest(value)
        return [Problem((), "type", wrong_type_message(value, kinds))]

    return check_both


def _all_of(checks: Sequence[Check]) -> Check:
    checks = list(dict.fromkeys(checks))  # resolve each reference only once
    if len(checks) == 1:
        return checks[0]
    if not checks:
        return accept

    def check(value: Any) -> list[Problem] | None:
        problems: list[Problem] | None = None
        for each in checks:
            found = each(value)
            if found:
                problems = [*(problems or ()), *found]
        return problems

    return check


def _any_of(branches: Sequence[Check]) -> Check:
    branches = list(dict.fromkeys(branches))

    def check(value: Any) -> list[Problem] | None:
        failed: list[list[Problem]] = []
        for each in branches:
            found = each(value)
            if not found:
                return None
            failed.append(found)
        return union_issues(value, failed)

    return check


def _one_of(branches: Sequence[Check]) -> Check:
    def check(value: Any) -> list[Problem] | None:
        failed = [found for each in branches if (found := each(value))]
        fitting = len(branches) - len(failed)
        if fitting == 1:
            return None
        if not fitting:
            return union_issues(value, failed)
        return [
            Problem(
                (), "oneOf", f"{format_value(value)} fits {fitting} of {len(branches)} forms that exclude each other"
            )
        ]

    return check


_OBJECT_KEYWORDS = frozenset({"properties", "required", "additionalProperties", "propertyNames"})


def _stray(children: dict[str, Check], other: Check) -> Callable[[str, Any], list[Problem]]:
    """Describe the problem of a property that the schema does not define."""
    if other is _refuse:
        return lambda name, value: [Problem((), "additionalProperties", unknown_property_message(name, children))]
    return lambda name, value: prefix_path(name, other(value) or ())


def _object(children: dict[str, Check], required: tuple[str, ...], other: Check | None, names: Check | None) -> Check:
    child_of = children.get
    stray = _stray(children, other) if other else None

    def check_names(entries: dict[str, Any]) -> list[Problem]:
        found = [Problem((), "required", missing_property_message(name)) for name in required if name not in entries]
        if names is not None:
            for name in entries:
                found += names(name) or ()
        return found

    needs_count = bool(required) or names is not None

    def check(value: Any) -> list[Problem] | None:
        if not isinstance(value, dict):
            return None
        problems: list[Problem] = []
        entries = cast("dict[str, Any]", value)
        for name, item in entries.items():
            child = child_of(name)
            if child is not None:
                found = child(item)
                if found:
                    problems += prefix_path(name, found)
            elif stray is not None:
                problems += stray(name, item)
        if needs_count:
            problems += check_names(entries)
        return problems

    return check


def _array(first: Sequence[Check], rest: Check | None) -> Check:
    count = len(first)

    def check(value: Any) -> list[Problem] | None:
        if not isinstance(value, list):
            return None
        problems: list[Problem] = []
        for index, item in enumerate(cast("list[Any]", value)):
            each = first[index] if index < count else rest
            found = each(item) if each is not None else None
            if found:
                problems += prefix_path(index, found)
        return problems

    return check
