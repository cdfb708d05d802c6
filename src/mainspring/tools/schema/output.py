"""The one way from a type to its JSON Schema, to a converter of JSON data, and to the problems of data that does not fit.

Agents, `LLMClient.structured`, and `RunResult.output_as` use it for outputs. JSON in a text is found as the whole text, in a code
fence, or within prose.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, cast, get_args, get_origin, is_typeddict

from msgspec import UNSET, Struct, to_builtins

from mainspring.errors import ConfigError, ToolError
from mainspring.lazy import lazy_function, lazy_re
from mainspring.lenient_json import parse_relaxed
from mainspring.text import pluralize
from mainspring.threads import run_in_thread
from mainspring.tools.arguments.coerce import coerce
from mainspring.tools.arguments.parse import parse_arguments
from mainspring.tools.problems import format_issues, is_dict, is_list
from mainspring.tools.schema.function import schema_from_signature, schema_from_type
from mainspring.tools.validation import get_validator

if TYPE_CHECKING:
    from mainspring.tools.tool import RunContext

_count_matches: Callable[[Any, Any, Any], int] = lazy_function("mainspring.tools.schema.adapted", "count_matches")

_FIELD = "output"
_ROOTS = ("$defs", "definitions")

_Decode = Callable[[Any], Any]


class Answer(Struct, frozen=True):
    """A parsed answer.

    Attributes:
        value: The output: JSON data, a value of the requested type, or a `OutputFunctionCall`.
        raw: The JSON data, valid or not.
        error: Why the data is invalid, for the model; ``None`` if it is valid.
    """

    value: Any
    raw: Any
    error: str | None = None


class OutputFunctionCall(Struct, frozen=True):
    """A call of an output function, with converted arguments.

    Attributes:
        fn: The function, sync or async.
        arguments: Its arguments.
        context_param: The parameter that gets the context of the run, if any.
    """

    fn: Callable[..., Any]
    arguments: dict[str, Any]
    context_param: str | None = None

    async def run(self, context: RunContext[Any]) -> Any:
        """Call the function and return its result, the output."""
        added = {self.context_param: context} if self.context_param else {}
        return await call_function(self.fn, **self.arguments, **added)


async def call_function(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a sync function in a thread, so that it cannot block the loop, or await an async one."""
    if inspect.iscoroutinefunction(fn):
        return await fn(*args, **kwargs)
    value = await run_in_thread(fn, *args, **kwargs)
    return await value if inspect.isawaitable(value) else value


class OutputSchema:
    """A schema for the output.

    Tool arguments are an object, so any other schema becomes the field ``output`` of an object.

    Args:
        expected: A JSON Schema, a type (a msgspec struct, a dataclass, a `TypedDict`, a pydantic model, ``list[int]``, ``A | B``,
            ...), a function whose arguments are the data and whose result is the output, or a list of types and functions.

    Attributes:
        schema: The JSON Schema.
        arguments: The schema of the tool's arguments.
        takes_text: Whether a plain text is one of several allowed outputs.
        has_functions: Whether an output function is allowed.

    Raises:
        ConfigError: If the schema is invalid, or JSON Schema cannot express the type.
    """

    def __init__(self, expected: Any) -> None:
        self._decode: _Decode | None = None
        self._branches: list[dict[str, Any]] = []  # of a union, without required fields
        self.takes_text = self.has_functions = False
        if isinstance(expected, Mapping):
            self.schema = dict(cast("Mapping[str, Any]", expected))
            problem = get_validator(self.schema).invalid
            if problem is not None:
                raise ConfigError(
                    f"The output schema cannot be used: {problem.replace('the schema of this tool', 'it')}"
                )
        else:
            kinds = _alternatives(expected)
            self.takes_text = len(kinds) > 1 and str in kinds
            self.has_functions = any(map(_is_function, kinds))
            try:
                parts = [_schema_and_decoder(kind) for kind in kinds]
                self.schema, self._decode = combine_alternatives(parts)
            except TypeError as error:
                raise ConfigError(f"The output type cannot be used: {error}") from error
            if len(parts) > 1:
                self._branches = [{**schema, "required": []} for schema, _ in parts]
        self._wrapped = self.schema.get("type") != "object"
        self.arguments = _wrap_in_object(self.schema) if self._wrapped else self.schema

    def parse_arguments(self, raw: str | Mapping[str, Any] | None) -> Answer:
        """Return the output from the arguments of a call, parsed or as raw text."""
        parsed = parse_arguments(self.arguments, raw)
        value: Any = parsed.value
        if self._wrapped:
            value = parsed.value.get(_FIELD, parsed.value)
        if parsed.error is not None:
            return Answer(None, value, parsed.error)
        if self._decode is None:
            return Answer(value, value)
        try:
            return Answer(self._decode(value), value)
        except ValueError as error:  # checks of the type beyond its schema
            return Answer(None, value, str(error))

    def validate(self, value: Any) -> Answer:
        """Validate JSON data and return the output."""
        if self._wrapped:
            return self.parse_arguments({_FIELD: value})
        if not isinstance(value, dict):
            return Answer(None, value, f"the answer must be a JSON object, not {type(value).__name__}")
        return self.parse_arguments(cast("dict[str, Any]", value))

    def convert(self, value: Any) -> Answer:
        """Validate JSON data without any coercion, and return the output."""
        if problems := get_validator(self.schema)(value):
            return Answer(None, value, format_issues(problems))
        try:
            return Answer(value if self._decode is None else self._decode(value), value)
        except ValueError as error:  # checks of the type beyond its schema
            return Answer(None, value, str(error))

    def parse_text(self, text: str) -> Answer:
        """Return the output from a text with exactly one JSON value that fits, bare or as the field of the arguments."""
        answers: list[Answer] = []
        for value in extract_json_values(text):
            answer = self.convert(value)
            if self._wrapped and is_dict(value) and value.keys() == {_FIELD}:  # the requested form
                inner = self.convert(value[_FIELD])
                answer = answer if inner.error and not answer.error else inner
            answers.append(answer)
        fitting = [answer for answer in answers if answer.error is None]
        if len(fitting) == 1:
            return fitting[0]
        if len(answers) == 1:
            return answers[0]
        found = pluralize(len(fitting), "value that fits", "values that fit") if fitting else "no JSON value that fits"
        return Answer(None, text, f"The response contains {found}, but must contain one.")

    def _is_ambiguous(self, value: Any) -> bool:
        """Return True if the rest of an object decides which of several types it is."""
        if not is_dict(value) or not self._branches:
            return False
        known = [b for b in self._branches if value.keys() <= b.get("properties", {}).keys()] or self._branches
        return sum(not get_validator(branch)(value) for branch in known) > 1

    def parse_partial(self, text: str, *, is_call: bool) -> Any:
        """Return the output from the beginning of its JSON, or `UNSET` if that does not fit the type yet.

        Args:
            text: The beginning of the arguments of a call, or of a response in text.
            is_call: Whether the text is that of a call.
        """
        parsed = parse_relaxed(text)
        if parsed.state == "cut" and parsed.end < len(text):  # a number may have more digits
            parsed = parse_relaxed(text[: parsed.end])
        value = parsed.value
        if is_call and self._wrapped:
            value = value.get(_FIELD) if is_dict(value) else None
        check = get_validator(self.schema)
        is_open = parsed.state == "cut"
        for incomplete in reversed(
            [None, *_open_containers(value)]
        ):  # parts that do not fit yet are left out, innermost first
            if not check(value):
                if is_open and self._is_ambiguous(value):
                    return UNSET
                answer = self.convert(value)
                return (
                    UNSET if answer.error is not None or isinstance(answer.value, OutputFunctionCall) else answer.value
                )
            if incomplete:
                incomplete.pop() if is_list(incomplete) else incomplete.popitem()
        return UNSET


def _open_containers(value: Any) -> list[Any]:
    """Return the lists and objects at the end of a value, outermost first: those that further text may continue."""
    found: list[Any] = []
    while isinstance(value, list | dict) and value:
        found.append(value)
        value = value[-1] if is_list(value) else next(reversed(cast("dict[str, Any]", value).values()))
    return found


def convert_output(value: Any, kind: Any) -> Answer:
    """Return a value, which may be JSON data, as an instance of a type."""
    if isinstance(kind, type) and get_origin(kind) is None and not is_typeddict(kind) and isinstance(value, kind):
        return Answer(value, value)
    return OutputSchema(kind).convert(to_builtins(value, str_keys=True, enc_hook=_to_data))


def combine_alternatives(parts: Sequence[tuple[dict[str, Any], _Decode]]) -> tuple[dict[str, Any], _Decode]:
    """Return the schema and the decoder of a value that fits one of several types.

    Data that fits several types becomes the type with the most of the given fields, else the first that it fits without a conversion.
    """
    if len(parts) == 1:
        return parts[0]
    definitions: dict[str, Any] = {}
    branches = [_hoist_definitions(schema, definitions) for schema, _ in parts]
    combined = {"anyOf": branches, **({"$defs": definitions} if definitions else {})}

    def distance(value: Any, schema: dict[str, Any]) -> tuple[int, bool]:
        return -_count_matches(schema, schema, value), bool(get_validator(schema)(value))

    def decode(value: Any) -> Any:
        problems: list[str] = []
        for schema, decode_part in sorted(parts, key=lambda part: distance(value, part[0])):
            coerced = value if not get_validator(schema)(value) else coerce(schema, value)[0]
            if get_validator(schema)(coerced):
                continue
            try:
                return decode_part(coerced)
            except ValueError as problem:  # checks of the type beyond its schema
                problems.append(str(problem))
        raise ValueError(format_issues(list(dict.fromkeys(problems))) or "the value fits none of the allowed types")

    return combined, decode


def _alternatives(expected: Any) -> list[Any]:
    """Return the types and functions that a list, or a union, allows."""
    if isinstance(expected, list | tuple):
        listed = cast("Sequence[Any]", expected)
        if not listed:
            raise ConfigError("The list of output types is empty. Add a type or a function.")
        return list(dict.fromkeys(kind for each in listed for kind in _alternatives(each)))
    return list(get_args(expected)) if get_origin(expected) in (Union, UnionType) else [expected]


def _schema_and_decoder(kind: Any) -> tuple[dict[str, Any], _Decode]:
    if not _is_function(kind):
        return schema_from_type(kind)
    found = schema_from_signature(kind)
    schema = {**found.input_schema, "description": found.description} if found.description else found.input_schema

    def decode(value: Any) -> OutputFunctionCall:
        try:
            return OutputFunctionCall(kind, found.decode(value), found.context_param)
        except ToolError as error:
            raise ValueError(str(error)) from error

    return schema, decode


def _is_function(kind: Any) -> bool:
    """Return True for a function or a callable object, and not for a type, its alias, or a form such as ``list[int]``."""
    return (
        callable(kind)
        and not isinstance(kind, type)
        and get_origin(kind) is None
        and not hasattr(kind, "__supertype__")
        and not hasattr(kind, "__value__")
    )


def _hoist_definitions(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without its definitions, which are added to those of the whole schema, renamed if a name is taken."""
    own: dict[str, Any] = schema.get("$defs", {})
    new_names: dict[str, str] = {}
    for name in own:
        new, number = name, 1
        while new in definitions:
            number += 1
            new = f"{name}{number}"
        new_names[f"#/$defs/{name}"] = f"#/$defs/{new}"
        definitions[new] = None
    for name, each in own.items():
        definitions[new_names[f"#/$defs/{name}"].removeprefix("#/$defs/")] = _map_refs(each, new_names.get)
    return _map_refs({k: v for k, v in schema.items() if k != "$defs"}, new_names.get)


def _wrap_in_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object schema with the schema as its only field, with references adjusted."""
    inner = _map_refs({k: v for k, v in schema.items() if k not in (*_ROOTS, "$schema", "$id")}, _rebase_ref)
    roots = {k: _map_refs(schema[k], _rebase_ref) for k in _ROOTS if k in schema}
    return {
        "type": "object",
        "properties": {_FIELD: inner},
        "required": [_FIELD],
        "additionalProperties": False,
        **roots,
    }


def _rebase_ref(ref: str) -> str | None:
    """Return the new path of a reference to a moved part."""
    if ref != "#" and (not ref.startswith("#/") or any(ref.startswith(f"#/{root}/") for root in _ROOTS)):
        return None
    return f"#/properties/{_FIELD}{ref[1:]}"


def _map_refs(node: Any, new_ref: Callable[[str], str | None]) -> Any:
    """Return a copy with the new references that the function returns; ``None`` leaves a reference unchanged."""
    if isinstance(node, list):
        return [_map_refs(each, new_ref) for each in cast("list[Any]", node)]
    if not is_dict(node):
        return node
    mapped = {key: _map_refs(value, new_ref) for key, value in node.items()}
    if isinstance(ref := node.get("$ref"), str) and (new := new_ref(ref)) is not None:
        mapped["$ref"] = new
    return mapped


def _to_data(value: Any) -> Any:
    """Return the JSON data of a value that msgspec does not support."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)


_FENCE = lazy_re(r"```[ \t]*(?:json[c5]?|javascript|js)?[ \t]*\r?\n(.*?)```", re.DOTALL | re.IGNORECASE)
_DECODER = json.JSONDecoder()
_MAX_STARTS = 200
"""Maximum number of positions tried in a long text; each costs at most one pass over text that resembles JSON."""


def extract_json_values(text: str) -> list[Any]:
    """Return the JSON values in a text, from the most reliable source: the whole text, else code fences, else prose.

    In prose only objects and lists are recognized, and only the outermost of nested values.
    """
    parsed = _value(text)
    if parsed is not _NOTHING:
        return [parsed]
    fenced = [value for body in _FENCE.findall(text) if (value := _value(body)) is not _NOTHING]
    return fenced or list(_iter_json_in_prose(text))


class _NotJson:
    """Marks text that is not JSON; ``None`` is a JSON value."""


_NOTHING = _NotJson()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NOTHING


def _iter_json_in_prose(text: str) -> Iterator[Any]:
    at = 0
    for _ in range(_MAX_STARTS):
        starts = [i for i in (text.find("{", at), text.find("[", at)) if i >= 0]
        if not starts:
            return
        at = min(starts)
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        yield value
