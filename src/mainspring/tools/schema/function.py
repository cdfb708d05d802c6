"""Create the JSON Schema and the argument decoder of a plain Python function or a type.

The signature defines names, types, required parameters, and defaults; the docstring provides descriptions.
"""

import inspect
import re
import sys
import typing
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from mainspring.errors import ConfigWarning, ToolError
from mainspring.lazy import lazy_function, lazy_re
from mainspring.text import suggest_name
from mainspring.tools.problems import format_issues, format_path, is_dict
from mainspring.tools.schema.types import (
    MISSING,
    convert,
    is_plain_type,
    is_simple_type,
    is_struct_type,
    schemas_for_types,
    type_name,
)

if TYPE_CHECKING:
    from mainspring.tools.arguments.coerce import coerce
    from mainspring.tools.validation import get_validator
else:
    coerce = lazy_function("mainspring.tools.arguments.coerce", "coerce")
    get_validator = lazy_function("mainspring.tools.validation", "get_validator")

_adapt_type = lazy_function("mainspring.tools.schema.adapted", "adapt_type")
_adapt_parameter = lazy_function("mainspring.tools.schema.adapted", "adapt_parameter")

_SECTIONS = frozenset(
    "args arguments parameters params other parameters keyword args keyword arguments returns return yields yield raises "
    "raise except exceptions warns example examples note notes attributes see also references todo warning warnings".split()
)
_ARGUMENTS = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters"}
)
_MULTI_WORD = frozenset({"other parameters", "keyword args", "keyword arguments", "see also"})
_HEADING = lazy_re(r"([A-Za-z]+(?: [A-Za-z]+)?):\s*")
_ENTRY = lazy_re(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:\s*(.*)")
_OTHER_STYLE = lazy_re(
    r"^\s*(?::param\b|:parameter\b|:arg\b|@param\b)|^(?:Other )?Parameters\s*\n\s*-{3,}", re.MULTILINE
)


class ParsedDocstring(NamedTuple):
    """Description of a function, and the description of each documented parameter."""

    description: str
    parameters: dict[str, str]


def parse_docstring(text: str | None) -> ParsedDocstring:
    """Parse a docstring in Google, NumPy, or Sphinx style; any other text is the description."""
    if not text:
        return ParsedDocstring("", {})
    clean = inspect.cleandoc(text)
    if _OTHER_STYLE.search(clean):
        return _read_with_parser(clean)
    return _read_sections(clean)


def _read_sections(text: str) -> ParsedDocstring:
    description: list[str] = []
    parameters: dict[str, str] = {}
    section, name, entry_indent = "", "", 0
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        heading = _HEADING.fullmatch(line)
        if heading and _is_section(heading[1].lower()):
            section, name, entry_indent = heading[1].lower(), "", 0
        elif not section:
            description.append(line)
        elif indent == 0 and line.strip():
            section = ""
            description.append(line)
        elif section in _ARGUMENTS and line.strip():
            entry_indent = entry_indent or indent
            entry = _ENTRY.fullmatch(line.strip()) if indent <= entry_indent else None
            if entry:
                name = entry[1]
                parameters[name] = entry[2]
            elif name:
                parameters[name] = f"{parameters[name]} {line.strip()}".strip()
    return ParsedDocstring("\n".join(description).strip(), {each: text for each, text in parameters.items() if text})


def _is_section(heading: str) -> bool:
    return heading in _SECTIONS or heading in _MULTI_WORD


def _read_with_parser(text: str) -> ParsedDocstring:
    from docstring_parser import ParseError, parse

    try:
        found = parse(text)
    except (ParseError, ValueError):
        return ParsedDocstring(text, {})
    parts = [found.short_description or "", found.long_description or ""]
    parameters = {each.arg_name: " ".join((each.description or "").split()) for each in found.params}
    return ParsedDocstring(
        "\n\n".join(part for part in parts if part), {name: text for name, text in parameters.items() if text}
    )


_CONTEXT_ANNOTATION = lazy_re(r"""['"]?(\w+\.)*(Tool|Run)Context['"]?\s*($|\||\[)""")
_CONTEXT_NAMES = ("ctx", "context", "tool_context")
"""Names of unannotated parameters that are probably meant for the context."""
_PLAIN_DEFAULTS = (bool, int, float, str)


Decode = Callable[[dict[str, Any]], dict[str, Any]]


class FunctionSchema(Struct, frozen=True):
    """Schema and description from a function's signature and docstring.

    Attributes:
        name: Name of the function.
        description: Docstring without its sections.
        input_schema: JSON Schema of the arguments: an object without additional properties.
        context_param: Parameter that receives the `ToolContext`, if any; it is not in the schema.
        decode: Function from a JSON object that fits the schema to a new dict of keyword arguments, of the annotated types.
            Omitted arguments stay omitted. Other values are coerced if possible, or raise `ToolError`.
        record_param: The only parameter, if its fields are the arguments.
        is_complete: Whether the schema alone decides which arguments are valid; validators of a class are not part of it.
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    context_param: str | None
    decode: Decode
    record_param: str | None = None
    is_complete: bool = True


class _Parameter(NamedTuple):
    name: str
    kind: Any
    adapted: Any
    default: Any
    is_required: bool
    create_default: Callable[[], Any] | None = None


def schema_from_signature(fn: Callable[..., Any]) -> FunctionSchema:
    """Return the schema of a sync or async function.

    A parameter annotated with `ToolContext` is omitted. If the only other parameter is a record (a pydantic model, a msgspec
    struct, a dataclass, or a `TypedDict`) without default, its fields are the arguments.

    Raises:
        TypeError: A parameter cannot be expressed in JSON; the message names it and the fix.
    """
    name = _name_of(fn)
    docs = parse_docstring(_doc_of(fn))
    parameters, context = _parameters(fn, name)
    if inspect.isroutine(fn):  # the docstring of a class, or a partial function, may describe other parameters
        _warn_about_unknown_parameters(docs, name, parameters, context)
    record: str | None = None
    only = parameters[0] if len(parameters) == 1 and parameters[0].is_required else None
    if only is not None and is_struct_type(only.kind) and _is_object(schema := _schemas(name, parameters)[0]):
        docs = ParsedDocstring(docs.description or schema.pop("description", ""), {})
        schema.pop("description", None)
        schema.setdefault("additionalProperties", False)
        decode = _record_decoder(only, schema)
        record = only.name
    else:
        schema = _object_schema(parameters, _schemas(name, parameters), docs)
        decode = _decoder(name, parameters, schema)
    is_complete = all(is_simple_type(each.adapted) for each in parameters)
    return FunctionSchema(name, docs.description, schema, context, decode, record, is_complete)


def schema_from_type(kind: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """Return the JSON Schema of a type, and a function that creates values from JSON data.

    The function raises `ValueError` with all problems of data that does not fit.

    Args:
        kind: Type that msgspec supports (structs, dataclasses, `TypedDict`, containers, unions, enums), or that pydantic supports.
            Unions can have several object types; constraints can be those of msgspec, pydantic, and annotated_types.

    Raises:
        TypeError: JSON Schema cannot express the type, or a constraint is unknown.
    """
    try:
        adapted = kind if is_plain_type(kind) else _adapt_type(kind)
        schema = schemas_for_types([adapted])[0]
    except (TypeError, NotImplementedError) as problem:
        raise TypeError(f"{type_name(kind)} has no JSON Schema: {_first_line(problem)}") from problem

    def decode(value: Any) -> Any:
        try:
            return convert(value, adapted)
        except (ValueError, OverflowError):
            decoded, failures = _convert_whole(value, adapted)
            problems = get_validator(schema)(value) or failures
            if problems:
                raise ValueError(format_issues(problems)) from None
            return decoded

    return schema, decode


def _warn_about_unknown_parameters(
    docs: ParsedDocstring, name: str, parameters: list[_Parameter], context: str | None
) -> None:
    """Warn if the docstring describes a parameter that does not exist: the model never reads that description."""
    known = [each.name for each in parameters]
    if len(parameters) == 1 and is_struct_type(parameters[0].kind):
        known += typing.get_type_hints(parameters[0].kind)  # its fields are the arguments
    for each in docs.parameters:
        if each not in known and each != context:
            hint = suggest_name(each, known, f"Parameters: {', '.join(known) or 'none'}.")
            text = f"The docstring of {name}() describes the parameter {each!r}, which does not exist. {hint}"
            warnings.warn(text, ConfigWarning, stacklevel=2)


def check_object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a raw JSON Schema of arguments unchanged if it describes an object.

    Raises:
        TypeError: The schema does not describe an object.
    """
    named: Any = schema.get("type")
    if named != "object" and not (named is None or (isinstance(named, list) and "object" in named)):
        raise TypeError(
            f"The parameters of a tool must be a JSON object: set the schema's type to 'object', not {named!r}."
        )
    properties: Any = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        raise TypeError(f"'properties' of a tool's schema must map names to schemas, not {type(properties).__name__}.")
    return schema if is_dict(schema) else dict(schema)


def _name_of(fn: Any) -> str:
    while not hasattr(fn, "__name__") and hasattr(fn, "func"):
        fn = fn.func  # functools.partial
    return str(getattr(fn, "__name__", type(fn).__name__))


def _doc_of(fn: Any) -> str | None:
    while not hasattr(fn, "__name__") and hasattr(fn, "func"):
        fn = fn.func
    if not hasattr(fn, "__name__"):  # a callable object
        return type(fn).__call__.__doc__ or type(fn).__doc__
    return fn.__doc__


def _signature(fn: Callable[..., Any], name: str) -> inspect.Signature:
    try:
        return inspect.signature(fn)
    except NameError:  # Python 3.14 evaluates annotations only now; use their text instead
        text: Any = import_module("annotationlib").Format.STRING
        return cast("Any", inspect.signature)(fn, annotation_format=text)
    except ValueError as problem:
        raise TypeError(f"{name}() has no readable signature. Wrap it in a function that has one.") from problem


def _parameters(fn: Callable[..., Any], name: str) -> tuple[list[_Parameter], str | None]:
    """Return the parameters for the model, and the name of the context parameter."""
    found: list[_Parameter] = []
    context: str | None = None
    for parameter in _signature(fn, name).parameters.values():
        where = f"Parameter {parameter.name!r} of {name}()"
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            advice = "a list parameter" if star == "*" else "a dict parameter, or one parameter for each name"
            raise TypeError(f"{star}{parameter.name} of {name}() cannot be described to a model. Use {advice}.")
        kind = _resolve_annotation(fn, parameter.annotation, where)
        if _is_context(kind):
            if context is not None:
                raise TypeError(
                    f"{name}() has two ToolContext parameters: {context!r} and {parameter.name!r}. Keep only one."
                )
            context = parameter.name
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"{where} is positional-only, but tools are called with keyword arguments. Remove the '/'.")
        kind = _check_annotation(kind, parameter.name, parameter.default, where)
        found.append(_adapt(parameter.name, kind, parameter.default, where))
    return found, context


def _adapt(name: str, kind: Any, default: Any, location: str) -> _Parameter:
    if is_plain_type(kind) and type(default).__name__ != "FieldInfo":
        return _Parameter(name, kind, kind, default, default is MISSING)
    try:
        found = _adapt_parameter(kind, default)
    except TypeError as problem:
        raise TypeError(f"{location}: {problem}.") from problem
    is_required = found.default is MISSING and not found.is_filled
    return _Parameter(
        name, kind, found.kind, found.default, is_required, found.create_default if found.is_filled else None
    )


def _resolve_annotation(fn: Any, annotation: Any, location: str) -> Any:
    """Return the annotation as a type; text, for example from `from __future__ import annotations`, is evaluated."""
    if not isinstance(annotation, str):
        return annotation
    plain: Any = inspect.unwrap(fn)
    while hasattr(plain, "func"):
        plain = inspect.unwrap(plain.func)
    if not hasattr(plain, "__code__"):  # a method or a callable object
        plain = getattr(plain, "__func__", getattr(cast("Any", type(plain)), "__call__", plain))
    names: dict[str, Any] = dict(vars(sys.modules[plain.__module__])) if plain.__module__ in sys.modules else {}
    names |= getattr(plain, "__globals__", {})
    closure = getattr(plain, "__closure__", None) or ()
    for name, cell in zip(plain.__code__.co_freevars if closure else (), closure, strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue  # not assigned yet

    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    try:
        return typing.get_type_hints(holder, globalns=names, localns=names, include_extras=True)["it"]
    except Exception as problem:  # the annotation is user code
        if _CONTEXT_ANNOTATION.match(annotation):
            return _ContextPlaceholder
        advice = "Import it outside `if TYPE_CHECKING`, and define it at module level."
        raise TypeError(
            f"{location} is annotated {annotation!r}, which cannot be resolved ({problem}). {advice}"
        ) from problem


class _ContextPlaceholder:
    """Placeholder for the context's class if only its name is known."""

    __tool_context__ = True


def _is_context(kind: Any) -> bool:
    # ToolContext, ToolContext[Deps], or a union with one of them
    return any(
        getattr(typing.get_origin(each) or each, "__tool_context__", False) for each in (kind, *typing.get_args(kind))
    )


def _check_annotation(kind: Any, name: str, default: Any, location: str) -> Any:
    if kind is not MISSING:
        return kind
    if type(default) in _PLAIN_DEFAULTS:
        return cast("Any", type(default))
    advice = "Write, for example, `: str`."
    if name in ("self", "cls"):
        raise TypeError(
            f"{location} has no type: a method becomes a tool only together with its object. Remove @tool, and pass the bound "
            "method: Agent(tools=[instance.method])."
        )
    if name in _CONTEXT_NAMES:
        advice = f"Write `{name}: ToolContext` if it receives the context of the call. Otherwise, write its type, for example, `: str`."
    raise TypeError(f"{location} has no type annotation, which is required for the tool's schema. {advice}")


def _schemas(name: str, parameters: list[_Parameter]) -> list[dict[str, Any]]:
    """Return the schema of each parameter; the error names a parameter without a schema."""
    try:
        return schemas_for_types([each.adapted for each in parameters])
    except (TypeError, NotImplementedError):
        for each in parameters:
            try:
                schemas_for_types([each.adapted])
            except (TypeError, NotImplementedError) as problem:
                raise TypeError(
                    f"Parameter {each.name!r} of {name}() has type {type_name(each.kind)}, which JSON cannot express "
                    f"({_first_line(problem)}). Use plain types, a dataclass, a msgspec struct, or a pydantic model."
                ) from problem
        raise


def _is_object(schema: dict[str, Any]) -> bool:
    """Return True if each value is an object: a pydantic `RootModel` may be a list, a text, or a union."""
    return schema.get("type", "object") == "object" and "anyOf" not in schema and "oneOf" not in schema


def _object_schema(
    parameters: list[_Parameter], schemas: list[dict[str, Any]], docs: ParsedDocstring
) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for parameter, schema in zip(parameters, schemas, strict=True):
        definitions |= schema.pop("$defs", {})
        described = docs.parameters.get(parameter.name)
        if described and (is_struct_type(parameter.kind) or "description" not in schema):
            schema["description"] = described
        if parameter.default is not MISSING and "default" not in schema:
            try:
                schema["default"] = msgspec.to_builtins(parameter.default)
            except (TypeError, ValueError):
                pass  # a default that only Python can represent
        properties[parameter.name] = schema
    object_schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [each.name for each in parameters if each.is_required]
    if required:
        object_schema["required"] = required
    object_schema["additionalProperties"] = False
    if definitions:
        object_schema["$defs"] = definitions
    return object_schema


def _decoder(name: str, parameters: list[_Parameter], schema: dict[str, Any]) -> Decode:
    kinds = {each.name: each.adapted for each in parameters}
    filled = {each.name: each.create_default for each in parameters if each.create_default}
    record: Any = None

    def make_record() -> Any:
        fields = [(p.name, p.adapted) if p.is_required else (p.name, p.adapted, None) for p in parameters]
        return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)

    def decode(arguments: dict[str, Any]) -> dict[str, Any]:
        nonlocal record
        record = record or make_record()  # on the first call, to keep startup fast
        try:
            converted = convert(arguments, record)
        except (ValueError, OverflowError):
            decoded = _decode_each(schema, kinds, arguments)
        else:
            decoded = {key: getattr(converted, key) for key in arguments}
        for key, create in filled.items():
            if key not in decoded:
                decoded[key] = create()
        return decoded

    return decode


def _decode_each(schema: dict[str, Any], kinds: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Handle arguments that do not fit immediately: coerce, check all, and report the problems of all arguments."""
    value, _ = coerce(schema, arguments)
    found = get_validator(schema).problems(value)
    problems, invalid = [str(each) for each in found], {each.path[0] for each in found if each.path}
    decoded: dict[str, Any] = {}
    for key, item in value.items():
        if key in kinds and key not in invalid:
            decoded[key], failures = _convert_whole(item, kinds[key], format_path([key]))
            problems += failures
    if problems:
        raise ToolError(format_issues(problems))
    return decoded


def _record_decoder(parameter: _Parameter, schema: dict[str, Any]) -> Decode:
    name, kind = parameter.name, parameter.adapted
    closed = schema["additionalProperties"] is False
    known = schema.get("properties", {}).keys()

    def decode(arguments: dict[str, Any]) -> dict[str, Any]:
        if not closed or arguments.keys() <= known:
            try:
                return {name: convert(arguments, kind)}
            except (ValueError, OverflowError):
                pass
        value, _ = coerce(schema, arguments)
        problems = get_validator(schema)(value)
        decoded, failures = _convert_whole(value, kind)
        problems += [each for each in failures if not problems or _VALIDATOR_ERROR.search(each)]
        if problems:
            raise ToolError(format_issues(problems))
        return {name: decoded}

    return decode


_VALIDATOR_ERROR = lazy_re("^[^ ]+: (?:Value error|Assertion failed), ")
"""Error of a validator of pydantic, which the schema does not contain."""


def _convert_whole(value: Any, kind: Any, path: str = "$") -> tuple[Any, list[str]]:
    """Convert a value that fits its schema, in which `5.0` is an integer; return it, and the problems that remain."""
    try:
        return convert(value, kind), []
    except (ValueError, OverflowError):
        try:
            return convert(value, kind, strict=False), []
        except (ValueError, OverflowError) as problem:
            return None, _describe_failure(problem, path)


def _describe_failure(problem: Exception, path: str) -> list[str]:
    """Return each problem with its whole path: every level of a type adds its own part to the text of an error."""
    text, *parts = str(problem).split(" - at `")
    path += "".join(each.rstrip("`").removeprefix("$") for each in reversed(parts))
    lines = text.splitlines()
    if len(lines) > 1 and lines[0].endswith(" problems:"):
        lines = [each.removeprefix("- ") for each in lines[1:]]
    else:
        lines = [text]
    return [path + each.removeprefix("$") if each.startswith("$") else f"{path}: {each}" for each in lines]


def _first_line(problem: BaseException) -> str:
    lines = [line for line in str(problem).splitlines() if line.strip()]
    return lines[-1] if lines and lines[-1].startswith("type ") else (lines or ["no JSON form is known"])[0]
