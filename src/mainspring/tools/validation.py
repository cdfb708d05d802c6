"""Validate a value against a JSON Schema and report all problems with their paths.

Plain schemas are checked by compiled closures (`mainspring.tools.checks`); other schemas use `jsonschema`, which is
imported only then. Neither loads a `$ref` from the network, and a `pattern` cannot block the process. Formats are checked,
unknown keywords are ignored, and `nullable: true` of OpenAPI is supported.

A schema is compiled once. Do not change it afterward.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, cast

from mainspring.tools.assertions import SUPPORTED_FORMATS, Check
from mainspring.tools.checks import compile_plain
from mainspring.tools.patterns import BadPatternError, compile_pattern, max_safe_length
from mainspring.tools.problems import (
    Path,
    Problem,
    canonical_arguments,
    format_value,
    is_dict,
    is_list,
    missing_property_message,
    union_issues,
    unknown_property_message,
    wrong_type_message,
)

_CACHED_SCHEMAS = 512
_MAX_PROBLEMS = 200
_MAX_MESSAGE = 300


class SchemaValidator:
    """A compiled schema.

    Attributes:
        schema: JSON Schema.
        is_plain: Whether the schema does not require `jsonschema`.
    """

    __slots__ = ("_check", "_compile", "_parts", "is_plain", "schema")

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        plain = compile_plain(schema)
        self.is_plain = plain is not None
        self._check: Check
        self._compile: Callable[[Any], Check]
        if plain is not None:
            self._check, self._compile = plain.root_check, plain.compile
        else:
            full = _FullSchema(schema)
            self._check, self._compile = full.check, full.compile
        self._parts: dict[int, Check] = {}

    def problems(self, value: Any) -> list[Problem]:
        """Return the problems of the value; empty if it fits."""
        try:
            return self._check(value) or []
        except RecursionError:
            return [Problem((), "depth", "nested too deeply to be checked")]
        except (
            TypeError,
            ValueError,
            ArithmeticError,
        ) as problem:  # a value that JSON cannot represent, for example, a set
            return [Problem((), "type", f"cannot be checked: {problem}")]

    def __call__(self, value: Any) -> list[str]:
        """Return the problems of the value as texts; empty if it fits."""
        return [str(each) for each in self.problems(value)]

    def is_valid_part(self, part: Any, value: Any) -> bool:
        """Return True if the value fits a part of this schema, with references resolved against the whole schema."""
        check = self._parts.get(id(part))
        if check is None:
            check = self._parts[id(part)] = self._compile(part)
        try:
            return not check(value)
        except (RecursionError, TypeError, ValueError, ArithmeticError):
            return False


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
    if compile_plain(schema) is not None:
        return None
    return _FullSchema(schema).invalid


class _FullSchema:
    """A schema that `jsonschema` checks."""

    __slots__ = ("_validator", "invalid")

    def __init__(self, schema: Any) -> None:
        from jsonschema import FormatChecker
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import Draft202012Validator, validator_for
        from referencing import Registry

        nothing = cast("Any", Registry)()  # references to outside the schema stay unresolved

        self._validator: Any = None
        self.invalid: str | None = None
        try:
            base: Any = validator_for(_without_surprises(schema), default=Draft202012Validator)
            base.check_schema(schema, format_checker=FormatChecker(formats=()))
            self._validator = _dialect(base, _longest_name(schema))(
                schema, registry=nothing, format_checker=_format_checker()
            )
        except SchemaError as problem:
            self.invalid = f"the schema of this tool is not valid at {_problem(problem)}"
        except (RecursionError, TypeError, AttributeError, ValueError) as problem:
            self.invalid = f"the schema of this tool is not valid: {str(problem)[:_MAX_MESSAGE]}"

    def check(self, value: Any) -> list[Problem] | None:
        """Check a value against the whole schema."""
        return self._run(self._validator, value)

    def compile(self, schema: Any) -> Check:
        """Return the check of a part of the schema."""
        validator = None if self._validator is None else self._validator.evolve(schema=schema)
        return lambda value: self._run(validator, value)

    def _run(self, validator: Any, value: Any) -> list[Problem]:
        from jsonschema.exceptions import UndefinedTypeCheck, UnknownType
        from referencing.exceptions import CannotDetermineSpecification, Unresolvable

        if self.invalid is not None:
            return [Problem((), "schema", self.invalid)]
        try:
            return [each for error in islice(validator.iter_errors(value), _MAX_PROBLEMS) for each in _problems(error)]
        except (Unresolvable, CannotDetermineSpecification) as problem:
            where = str(getattr(problem, "ref", problem))[:_MAX_MESSAGE]
            text = f"the schema of this tool has a $ref that cannot be resolved: {where!r}; nothing is fetched from the network"
            return [Problem((), "schema", text)]
        except (UnknownType, UndefinedTypeCheck, BadPatternError, AttributeError, KeyError) as problem:
            first = str(problem).strip().partition("\n")[0]
            return [Problem((), "schema", f"the schema of this tool is not valid: {first[:_MAX_MESSAGE]}")]


def _without_surprises(schema: Any) -> Any:
    """Return the schema, or an empty schema if `$schema` is not text and so cannot name a dialect."""
    return schema if is_dict(schema) and isinstance(schema.get("$schema", ""), str) else {}


def _problem(error: Any) -> Problem:
    """Convert an error of `jsonschema` to a `Problem`; its text is cut in the middle, since it can quote a large value."""
    text = str(error.message)
    if len(text) > _MAX_MESSAGE:
        text = f"{text[: _MAX_MESSAGE // 2]} … {text[-_MAX_MESSAGE // 2 :]}"
    return Problem(cast("Path", tuple(error.absolute_path)), str(error.validator), text)


def _problems(error: Any) -> list[Problem]:
    """Return the problems of a `jsonschema` error; the error of a union is described by its branches."""
    if error.validator not in {"anyOf", "oneOf"} or not error.context:
        return [_problem(error)]
    place: Path = tuple(error.absolute_path)
    branches: dict[Any, list[Problem]] = {}
    for each in error.context:
        found = [Problem(p.path[len(place) :], p.keyword, p.text) for p in _problems(each)]
        branches.setdefault(each.schema_path[0] if each.schema_path else None, []).extend(found)
    return [
        Problem((*place, *p.path), p.keyword, p.text) for p in union_issues(error.instance, list(branches.values()))
    ]


@lru_cache(maxsize=1)
def _format_checker() -> Any:
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())
    for name, test in SUPPORTED_FORMATS.items():
        checker.checks(name)(_skipping_others(test))
    return checker


def _skipping_others(test: Callable[[str], bool]) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, str) or test(value)


@lru_cache(maxsize=32)
def _dialect(base: Any, max_length: int) -> Any:
    """Return the validator class of a dialect with safer or better implementations of a few keywords.

    Args:
        base: Validator class of `jsonschema`.
        max_length: Maximum length of a property name for which `jsonschema` itself matches names against patterns.
    """
    from jsonschema import validators

    extend = cast("Any", validators).extend
    ours = {name: _saying(rule) for name, rule in _RULES.items() if name in base.VALIDATORS}
    if base.__name__ == "Draft3Validator":
        del ours["type"]  # a type may be a schema there
    inherited = base.VALIDATORS.get("unevaluatedProperties")
    if inherited is not None:
        ours["unevaluatedProperties"] = _unevaluated(inherited, max_length)
    return extend(base, ours)


KeywordRule = Callable[[Any, Any, Any, Any], Iterator[Any]]


def _saying(rule: KeywordRule) -> KeywordRule:
    """Convert a rule that yields texts to a rule that yields errors; errors from `jsonschema` are passed through."""

    def check(validator: Any, expected: Any, value: Any, schema: Any) -> Iterator[Any]:
        from jsonschema.exceptions import ValidationError

        for found in rule(validator, expected, value, schema):
            yield ValidationError(found) if isinstance(found, str) else found

    return check


def _type(validator: Any, expected: Any, value: Any, schema: Any) -> Iterator[Any]:
    kinds: list[Any] = [expected] if isinstance(expected, str) else expected
    if value is None and schema.get("nullable") is True:
        return
    if not any(validator.is_type(value, each) for each in kinds):
        yield wrong_type_message(value, kinds)


def _enum(validator: Any, expected: Any, value: Any, schema: Any) -> Iterator[Any]:
    if value is None and schema.get("nullable") is True:
        return
    key = canonical_arguments(value)
    if all(key != canonical_arguments(each) for each in expected):
        yield f"{format_value(value)} is not one of {', '.join(format_value(each) for each in expected[:20])}{', …' if len(expected) > 20 else ''}"


def _required(validator: Any, expected: Any, value: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(value, "object") and is_list(expected):
        for name in expected:
            if name not in value:
                yield missing_property_message(name)


def _pattern(validator: Any, expected: Any, value: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(value, "string") and not compile_pattern(expected)(value):
        yield f"{format_value(value)} does not match the pattern {format_value(expected)}"


def _pattern_properties(validator: Any, expected: Any, value: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(value, "object"):
        for pattern, part in expected.items():
            search = compile_pattern(pattern)
            for name, item in value.items():
                if search(name):
                    yield from validator.descend(item, part, path=name, schema_path=pattern)


def _additional(validator: Any, expected: Any, value: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(value, "object"):
        return
    known = schema.get("properties", {})
    searches = [compile_pattern(each) for each in schema.get("patternProperties", {})]
    for name, item in value.items():
        if name in known or any(search(name) for search in searches):
            continue
        if expected is False:
            yield unknown_property_message(name, known)
        elif isinstance(expected, dict):
            yield from validator.descend(item, expected, path=name)


def _unique(validator: Any, expected: Any, value: Any, schema: Any) -> Iterator[Any]:
    if (
        expected
        and validator.is_type(value, "array")
        and len({canonical_arguments(each) for each in value}) < len(value)
    ):
        yield f"{format_value(value)} has the same item twice"


def _unevaluated(inherited: KeywordRule, max_length: int) -> KeywordRule:
    """Check `unevaluatedProperties`, except for names so long that the sibling patterns could take unbounded time."""

    def check(validator: Any, expected: Any, value: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(value, "object") and all(len(name) <= max_length for name in value):
            yield from inherited(validator, expected, value, schema)

    return check


def _longest_name(schema: Any) -> int:
    """Return the maximum name length for which every name pattern in the schema is harmless to `re`."""
    max_length = 1_000_000
    if is_dict(schema):
        patterns = schema.get("patternProperties")
        own = [max_safe_length(each) for each in patterns] if is_dict(patterns) else []
        return min([max_length, *own, *map(_longest_name, schema.values())])
    return min([max_length, *map(_longest_name, schema)]) if is_list(schema) else max_length


_RULES: dict[str, KeywordRule] = {
    "type": _type,
    "enum": _enum,
    "required": _required,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "uniqueItems": _unique,
}
