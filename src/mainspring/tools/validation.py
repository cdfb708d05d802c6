"""Validate a value against a JSON Schema and report all problems with their paths.

`jsonschema_rs` checks the value and is imported for the first schema. Nothing loads a `$ref` from the network or from a
file, and a `pattern` cannot block the process. Formats are checked, unknown keywords are ignored, and `nullable: true` of
OpenAPI is supported.

A schema is compiled once. Do not change it afterward.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, cast

from mainspring.lazy import lazy_re
from mainspring.text import truncate_middle
from mainspring.tools.problems import (
    Path,
    Problem,
    format_value,
    is_dict,
    is_list,
    missing_property_message,
    union_issues,
    unknown_property_message,
    wrong_type_message,
)
from mainspring.tools.schema_dialect import (
    UNRESOLVED,
    BadPatternError,
    PreparedSchema,
    compile_schema,
    exceeds_depth,
    explain_bad_pattern,
)

_CACHED_SCHEMAS = 512
_MAX_PROBLEMS = 500
_MAX_MESSAGE = 300
_MAX_NESTED_STEPS = 800
"""Maximum number of parts of a schema that apply one inside another; the engine needs less than 2KB of the stack for each."""

_TYPE_KEYWORDS = frozenset({"type", "anyOf"})
_SURROGATE = lazy_re("[\ud800-\udfff]")
_TOO_DEEP = Problem((), "depth", "nested too deeply to be checked")


class SchemaValidator:
    """A compiled schema.

    Attributes:
        schema: JSON Schema.
        invalid: Problem of the schema itself, or `None`.
    """

    __slots__ = ("_engine", "_max_depth", "_parts", "_pointers", "_prepared", "invalid", "schema")

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.invalid: str | None = None
        self._engine: Any = None
        self._max_depth: int | None = None
        self._parts: Any = None
        self._pointers: dict[int, str] = {}
        try:
            self._compile()
        except RecursionError:
            self.invalid = "the schema of this tool is not valid: nested too deeply"

    def _compile(self) -> None:
        from jsonschema_rs import ValidationError

        source, local_only = self.schema, False
        while self._engine is None:
            try:
                self._prepared = PreparedSchema(source, local_only=local_only)
                self._engine = compile_schema(self._prepared)
            except ValidationError as error:
                if local_only or not type(error.kind).__name__.endswith("Referencing"):
                    self.invalid = f"the schema of this tool is not valid at {self._describe(error)}"
                    return
                local_only = True
            except ValueError as problem:
                if source is not self.schema or isinstance(problem, BadPatternError):
                    self.invalid = f"the schema of this tool is not valid: {str(problem)[:_MAX_MESSAGE]}"
                    return
                source = _to_json(self.schema, None)
        self._max_depth = self._prepared.get_max_depth(_MAX_NESTED_STEPS)

    def _describe(self, error: Any) -> str:
        metaschema = PreparedSchema(True)  # errors of a schema do not refer to parts of the schema
        found = _ErrorConverter(metaschema, self._prepared.schema).convert([error])
        return str(found[0]) if found else f"$: {error.message[:_MAX_MESSAGE]}"

    def problems(self, value: Any) -> list[Problem]:
        """Return the problems of the value; empty if it fits."""
        if self.invalid is not None:
            return [Problem((), "schema", self.invalid)]
        return self._check(self._engine, value)

    def _check(self, engine: Any, value: Any) -> list[Problem]:
        if self._max_depth is not None and exceeds_depth(value, self._max_depth):
            return [_TOO_DEEP]
        try:
            return [] if engine.is_valid(value) else self._explain(engine, value, value)
        except RecursionError:
            return [_TOO_DEEP]
        except ValueError:  # the value contains data that JSON cannot represent
            pass
        try:
            shown = _to_json(value, None, keep=True)
            found = self._explain(engine, _to_json(value, None), shown)
            # Data that is not JSON has no type: a part that accepts `null` has to accept a number, too.
            others = self._explain(engine, _to_json(value, 0.5), shown)
            return list(dict.fromkeys([*found, *(each for each in others if each.keyword in _TYPE_KEYWORDS)]))
        except RecursionError:
            return [_TOO_DEEP]
        except ValueError as problem:
            return [Problem((), "type", f"cannot be checked: {problem}")]

    def _explain(self, engine: Any, value: Any, shown: Any) -> list[Problem]:
        try:
            return _ErrorConverter(self._prepared, shown).convert(islice(engine.iter_errors(value), _MAX_PROBLEMS))
        except _BrokenSchemaError as problem:
            return [Problem((), "schema", str(problem))]

    def __call__(self, value: Any) -> list[str]:
        """Return the problems of the value as texts; empty if it fits."""
        return [str(each) for each in self.problems(value)]

    def is_valid_part(self, part: Any, value: Any) -> bool:
        """Return True if the value fits a part of this schema, with references resolved against the whole schema."""
        if isinstance(part, bool) or self.invalid is not None:
            return part is True
        if self._parts is None:
            self._parts = compile_schema(self._prepared, "validator_map_for")
            self._pointers = dict(_iter_pointers(self.schema, "#"))
        engine = self._parts.get(self._pointers.get(id(part), ""))
        return engine is not None and not self._check(engine, value)


def _iter_pointers(node: Any, pointer: str) -> Iterator[tuple[int, str]]:
    """Return the JSON pointer of every part of a schema by the ID of the part."""
    if is_dict(node):
        yield id(node), pointer
        for key, inner in node.items():
            yield from _iter_pointers(inner, f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}")
    elif is_list(node):
        for index, inner in enumerate(node):
            yield from _iter_pointers(inner, f"{pointer}/{index}")


def _to_json(value: Any, placeholder: float | None, *, keep: bool = False) -> Any:
    """Return a copy that JSON can represent: other data is replaced by the placeholder, a lone surrogate by a mark.

    With `keep`, only the keys of objects are changed.
    """
    if is_list(value):
        return [_to_json(each, placeholder, keep=keep) for each in value]
    if is_dict(value):
        return {_to_text(str(key)): _to_json(each, placeholder, keep=keep) for key, each in value.items()}
    if keep or value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _to_text(value)
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else placeholder


def _to_text(text: str) -> str:
    return _SURROGATE.sub("\ufffd", "".join(text))


class _Memo:
    """Cache of compiled schemas by schema object; a full cache removes the oldest entries."""

    __slots__ = ("_cache",)

    def __init__(self) -> None:
        self._cache: dict[int, SchemaValidator] = {}

    def get(self, schema: Any) -> SchemaValidator:
        found = self._cache.get(id(schema))
        if found is not None and found.schema is schema:
            return found
        validator = SchemaValidator(schema)
        if len(self._cache) >= _CACHED_SCHEMAS:
            for oldest in list(self._cache)[: _CACHED_SCHEMAS // 8]:
                self._cache.pop(oldest, None)
        self._cache[id(schema)] = validator
        return validator


get_validator: Callable[[Any], SchemaValidator] = _Memo().get
"""Return the validator of a schema, created once for each schema object.

It is a function from a value to the list of all problems. The function of an invalid schema reports the schema's problem
for every value. The dialect is the one in ``$schema``, else 2020-12.
"""


def validate(schema: Any, value: Any) -> list[str]:
    """Return all problems of the value, each as `$.path: text`; empty if it fits."""
    return get_validator(schema)(value)


def schema_error(schema: Any) -> str | None:
    """Return the problem of the schema itself, or `None`.

    Use it for schemas from untrusted sources.
    """
    return SchemaValidator(schema).invalid


_COMBINING = frozenset({"allOf", "anyOf", "oneOf", "$ref", "not", "if", "then", "else"})
_UNCHECKED = frozenset({"BacktrackLimitExceeded", "RegexEngineFailure"})
_LIMITS = {
    "Minimum": "less than the minimum of",
    "Maximum": "greater than the maximum of",
    "ExclusiveMinimum": "not greater than",
    "ExclusiveMaximum": "not less than",
}
_SIZES = {
    "MinLength": "at least {} characters",
    "MaxLength": "at most {} characters",
    "MinItems": "at least {} items",
    "MaxItems": "at most {} items",
    "MinProperties": "at least {} properties",
    "MaxProperties": "at most {} properties",
}


class _BrokenSchemaError(Exception):
    """A part of the schema that applies to the value cannot be used."""


class _ErrorConverter:
    """Convert the errors of `jsonschema_rs` to problems with texts that a model can act on.

    Args:
        prepared: Schema that the value was checked against.
        value: The value.
    """

    def __init__(self, prepared: PreparedSchema, value: Any) -> None:
        self.prepared = prepared
        self._value = value
        self._places: dict[Problem, Path] = {}  # where an unknown property is
        self._indexes: dict[int, dict[str, int]] = {}

    def convert(self, errors: Iterable[Any]) -> list[Problem]:
        """Return the problems in the order of the value, those of a part before those of the whole, without duplicates.

        Raises:
            _BrokenSchemaError: The schema has a reference or a pattern that cannot be used.
        """
        remaining = _drop_consequences(list(errors))
        found = dict.fromkeys(problem for error in remaining for problem in self._convert(error))
        return sorted(found, key=self._position)

    def _position(self, problem: Problem) -> list[float]:
        position: list[float] = []
        at: Any = self._value
        for step in self._places.get(problem, problem.path):
            if is_dict(at):
                if id(at) not in self._indexes:
                    self._indexes[id(at)] = {name: index for index, name in enumerate(at)}
                position.append(self._indexes[id(at)].get(str(step), 0))
            else:
                position.append(step if isinstance(step, int) else 0)
            _, at = _find(at, [step])
        return [*position, math.inf, problem.keyword == "required"]

    def _convert(self, error: Any) -> list[Problem]:
        name = type(error.kind).__name__.rpartition("_")[2]
        path, value = _find(self._value, error.instance_path)
        if name in {"AnyOf", "OneOfNotValid"}:
            return self._convert_union(error, path, value)
        if name == "PropertyNames":
            name_of = error.kind.error.instance
            return [
                Problem(path, each.keyword, each.text)
                for each in _ErrorConverter(self.prepared, name_of).convert([error.kind.error])
            ]
        keyword = _get_keyword(error)
        if name in _UNCHECKED or (name == "Type" and _is_special_number(value, error.kind.types)):
            return []
        if name == "AdditionalProperties" or (name == "FalseSchema" and keyword == "additionalProperties"):
            known = self.part(error).get("properties", {})
            unknown = error.kind.unexpected if name == "AdditionalProperties" else value
            problems = {
                each: Problem(path, "additionalProperties", unknown_property_message(each, known)) for each in unknown
            }
            self._places |= {problem: (*path, each) for each, problem in problems.items()}
            return list(problems.values())
        if name == "FalseSchema":
            refused = value if keyword == "propertyNames" else [value]
            return [Problem(path, "false", f"{format_value(each)} is not allowed here") for each in refused]
        text = _TEXTS.get(name, _default_text)(self, error, value)
        shown = truncate_middle(text, _MAX_MESSAGE // 2, _MAX_MESSAGE // 2, " … ")  # The text can quote a large value.
        is_fixed = name == "Enum" and len(self.part(error).get("enum", ())) == 1
        return [Problem(path, "const" if is_fixed else error.kind.name, shown)]

    def _convert_union(self, error: Any, path: Path, value: Any) -> list[Problem]:
        branches: list[list[Problem]] = []
        for errors in error.kind.context:
            found = [Problem(p.path[len(path) :], p.keyword, p.text) for p in self.convert(errors)]
            if not found:  # only what cannot be checked
                return []
            branches.append(found)
        return [Problem((*path, *p.path), p.keyword, p.text) for p in union_issues(value, branches)]

    def part(self, error: Any) -> dict[str, Any]:
        """Return the part of the schema that contains the keyword of an error."""
        _, part = _find(self.prepared.schema, error.schema_path[:-1])
        return part if is_dict(part) else {}


def _drop_consequences(errors: list[Any]) -> list[Any]:
    """Return the errors without those of other keywords of a part whose `type` does not allow the value."""
    wrong = [(each.evaluation_path[:-1], each.instance_path) for each in errors if _get_keyword(each) == "type"]

    def follows(error: Any, part: list[Any], at: list[Any]) -> bool:
        path = error.evaluation_path
        return (
            path[: len(part)] == part
            and error.instance_path[: len(at)] == at
            and _COMBINING.isdisjoint(path[len(part) :][:1])
        )

    return [
        each
        for each in errors
        if _get_keyword(each) == "type" or not any(follows(each, part, at) for part, at in wrong)
    ]


def _get_keyword(error: Any) -> str:
    return str(error.schema_path[-1]) if error.schema_path else ""


def _type_text(converter: _ErrorConverter, error: Any, value: Any) -> str:
    named = converter.part(error).get("type")
    kinds: Sequence[str] = error.kind.types
    if is_list(named) and set(named) == set(kinds):
        kinds = named  # in the order of the schema
    return wrong_type_message(value, kinds)


def _pattern_text(converter: _ErrorConverter, error: Any, value: Any) -> str:
    found: str = error.kind.pattern
    pattern = converter.prepared.patterns.get(found, found)
    if problem := explain_bad_pattern(pattern):
        raise _BrokenSchemaError(f"the schema of this tool is not valid: {problem}")
    return f"{format_value(value)} does not match the pattern {format_value(pattern)}"


def _required_text(converter: _ErrorConverter, error: Any, value: Any) -> str:
    name = error.kind.property
    keyword = error.schema_path[-1]
    if keyword == "required":
        return missing_property_message(name)
    needed_by: dict[str, Any] = converter.part(error).get(keyword, {})
    found = [each for each in needed_by if each in value and name in needed_by[each]]
    return f"{name!r} is a dependency of {found[0]!r}" if found else missing_property_message(name)


def _not_text(converter: _ErrorConverter, error: Any, value: Any) -> str:
    unwanted = error.kind.schema
    comment = str(unwanted.get("$comment", "")) if is_dict(unwanted) else ""
    if comment.startswith(UNRESOLVED):
        reference = comment.removeprefix(UNRESOLVED)[:_MAX_MESSAGE]
        raise _BrokenSchemaError(
            f"the schema of this tool has a $ref that cannot be resolved: {reference!r}; nothing is fetched from the network"
        )
    return f"{value!r} should not be valid under {converter.part(error).get('not', unwanted)!r}"


def _contains_text(converter: _ErrorConverter, error: Any, value: Any) -> str:
    keyword = error.schema_path[-1]
    part = converter.part(error)
    if keyword == "maxContains":
        low = part.get("minContains", 1)
        return f"Expected at least {low} and at most {part.get(keyword)} items that match the given schema"
    if keyword == "minContains":
        return f"Too few items match the given schema (expected at least {part.get(keyword)})"
    return f"{value!r} does not contain items matching the given schema"


def _additional_items_text(converter: _ErrorConverter, error: Any, value: Any) -> str:
    return f"Additional items are not allowed ({_format_unexpected(value[error.kind.limit :])})"


def _unevaluated_items_text(converter: _ErrorConverter, error: Any, value: Any) -> str:
    import json

    return f"Unevaluated items are not allowed ({_format_unexpected(map(json.loads, error.kind.unexpected))})"


def _unevaluated_text(converter: _ErrorConverter, error: Any, value: Any) -> str:
    names = sorted(error.kind.unexpected)
    if is_dict(converter.part(error).get("unevaluatedProperties")):
        listed = ", ".join(map(repr, names))
        verb = "was" if len(names) == 1 else "were"
        return f"Unevaluated properties are not valid under the given schema ({listed} {verb} unevaluated and invalid)"
    return f"Unevaluated properties are not allowed ({_format_unexpected(names)})"


def _format_unexpected(values: Iterable[Any]) -> str:
    listed = [repr(each) for each in values]
    return f"{', '.join(listed)} {'was' if len(listed) == 1 else 'were'} unexpected"


def _default_text(converter: _ErrorConverter, error: Any, value: Any) -> str:
    return str(error.message)


def _enum_text(converter: _ErrorConverter, error: Any, value: Any) -> str:
    options = converter.part(error).get("enum", error.kind.options)
    listed = ", ".join(format_value(each) for each in options[:20])
    return f"{format_value(value)} is not one of {listed}{', …' if len(options) > 20 else ''}"


def _const_text(converter: _ErrorConverter, error: Any, value: Any) -> str:
    return f"{format_value(value)} is not {format_value(converter.part(error).get('const', error.kind.expected_value))}"


def _one_of_text(converter: _ErrorConverter, error: Any, value: Any) -> str:
    branches = error.kind.context
    fitting = sum(not each for each in branches)
    return f"{format_value(value)} fits {fitting} of {len(branches)} forms that exclude each other"


def _limit_text(words: str) -> Callable[[_ErrorConverter, Any, Any], str]:
    return lambda converter, error, value: f"{format_value(value)} is {words} {format_value(error.kind.limit)}"


def _size_text(words: str) -> Callable[[_ErrorConverter, Any, Any], str]:
    return lambda converter, error, value: (
        f"{format_value(value)} must have {words.format(error.kind.limit)}, not {len(value)}"
    )


_TEXTS: dict[str, Callable[[_ErrorConverter, Any, Any], str]] = {
    "Type": _type_text,
    "Enum": _enum_text,
    "Constant": _const_text,
    "MultipleOf": lambda _, error, value: f"{format_value(value)} is not a multiple of {error.kind.multiple_of}",
    "UniqueItems": lambda _, error, value: f"{format_value(value)} has the same item twice",
    "Format": lambda _, error, value: f"{format_value(value)} is not a valid {error.kind.format}",
    "Pattern": _pattern_text,
    "Required": _required_text,
    "Not": _not_text,
    "Contains": _contains_text,
    "AdditionalItems": _additional_items_text,
    "UnevaluatedItems": _unevaluated_items_text,
    "UnevaluatedProperties": _unevaluated_text,
    "OneOfMultipleValid": _one_of_text,
    **{name: _limit_text(words) for name, words in _LIMITS.items()},
    **{name: _size_text(words) for name, words in _SIZES.items()},
}
"""Text for each kind of error."""


def _find(root: Any, steps: Sequence[str | int]) -> tuple[Path, Any]:
    """Return the exact path and the value at a path, in which a number can be the name of a property."""
    path: list[str | int] = []
    at: Any = root
    for step in steps:
        if is_dict(at):
            step = str(step)
            at = at.get(step)
        else:
            items: Sequence[Any] = cast("Sequence[Any]", at) if isinstance(at, (list, tuple)) else ()
            at = items[step] if isinstance(step, int) and step < len(items) else None
        path.append(step)
    return tuple(path), at


def _is_special_number(value: Any, kinds: Sequence[str]) -> bool:
    """Return True for NaN and infinite numbers, which JSON does not have, where a number is allowed."""
    return isinstance(value, float) and value - value != 0 and "number" in kinds
