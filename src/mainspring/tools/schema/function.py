"""Create the JSON Schema and the argument decoder of a plain Python function or a type.

The signature defines names, types, required parameters, and defaults; the docstring provides descriptions.
"""

import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import PurePath
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from mainspring.errors import ToolError
from mainspring.lazy import lazy_re
from mainspring.tools.arguments.coerce import coerce
from mainspring.tools.problems import format_issues, format_path, is_dict, is_list
from mainspring.tools.validation import get_validator

_PREFIX = "#/$defs/"
_DICTS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "additionalItems")
_RECORD_MARKS = ("__struct_fields__", "__dataclass_fields__", "__attrs_attrs__", "__required_keys__")
_LEFT_OUT = frozenset({"title", "discriminator"})
_KINDS: tuple[tuple[type, str], ...] = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"))


def is_pydantic_model(kind: Any) -> bool:
    """Return True for a pydantic model class; detected by its methods, since pydantic is never imported here."""
    return isinstance(kind, type) and hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate")


def is_struct_type(kind: Any) -> bool:
    """Return True for a class with named fields: msgspec, pydantic, dataclass, attrs, or `TypedDict`."""
    return isinstance(kind, type) and (is_pydantic_model(kind) or any(hasattr(kind, mark) for mark in _RECORD_MARKS))


def schemas_for_types(kinds: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the complete schema of each type.

    References are replaced by their targets. Only a recursive type keeps its `$defs`.

    Raises:
        TypeError: JSON Schema cannot express a type.
    """
    custom = _CustomTypes()
    found, definitions = msgspec.json.schema_components(
        list(kinds), schema_hook=custom.schema, ref_template=_PREFIX + "{name}"
    )
    return [inline_definitions(each, {**definitions, **custom.definitions}) for each in found]


def decode_custom(kind: type, value: Any) -> Any:
    """Create a value of a type that msgspec does not support: the counterpart of the schemas generated here."""
    if is_pydantic_model(kind):
        try:
            return cast("Any", kind).model_validate(value)
        except ValueError as problem:
            raise ValueError(_pydantic_message(problem)) from problem
    if isinstance(kind, type) and issubclass(kind, PurePath) and isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return kind(value)
    raise NotImplementedError(f"{kind!r} cannot be created from JSON.")


def decoder_for(kind: Any) -> Callable[[Any], Any]:
    """Return a function from a JSON value to a value of the type.

    It raises `ValueError` with the path of the first value that does not fit.
    """
    if is_pydantic_model(kind):
        return lambda value: decode_custom(kind, value)
    convert = msgspec.convert

    def decode(value: Any) -> Any:
        return convert(value, kind, dec_hook=decode_custom)

    return decode


def _pydantic_message(problem: Any) -> str:
    """Format the errors of a pydantic model."""
    errors = getattr(problem, "errors", None)
    if not callable(errors):
        return str(problem)
    found = cast("list[dict[str, Any]]", errors(include_url=False, include_context=False, include_input=False))
    return format_issues([f"{format_path(each['loc'])}: {each['msg']}" for each in found])


class _CustomTypes:
    """Schemas of the types that msgspec does not support; their definitions get unique names."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}

    def schema(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type, with references to `definitions`."""
        if is_pydantic_model(kind):
            prefix = f"{kind.__name__}{len(self.definitions) or ''}_"
            model_schema = cast("dict[str, Any]", kind.model_json_schema(ref_template=_PREFIX + prefix + "{model}"))
            for name, each in model_schema.pop("$defs", {}).items():
                self.definitions[prefix + name] = each
            return model_schema
        if isinstance(kind, type) and issubclass(kind, PurePath):
            return {"type": "string", "format": "path"}
        raise NotImplementedError


def inline_definitions(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the schema without titles and, unless it is recursive, without references to `definitions`."""
    walk = _Inliner(definitions)
    inlined = walk.copy({k: v for k, v in schema.items() if k != "$defs"}, ())
    pending = list(walk.referenced)
    inlined_definitions: dict[str, Any] = {}
    while pending:
        name = pending.pop()
        if name not in inlined_definitions:
            inlined_definitions[name] = walk.copy(definitions[name], (name,))
            pending += walk.referenced
    root = inlined_definitions.get(str(inlined.get("$ref", "")).removeprefix(_PREFIX))
    if (
        root is not None
    ):  # The outermost type is recursive: a schema of arguments needs its properties at the top level.
        inlined = {**root, **{k: v for k, v in inlined.items() if k != "$ref"}}
    if inlined_definitions:
        inlined["$defs"] = inlined_definitions
    return inlined


class _Inliner:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self.referenced: set[str] = set()

    def copy(self, node: Any, open_refs: tuple[str, ...]) -> Any:
        """Copy a schema; `open_refs` names the definitions that surround it."""
        if not isinstance(node, dict):
            return node
        entries = cast("dict[str, Any]", node)
        reference = entries.get("$ref")
        if isinstance(reference, str) and reference.startswith(_PREFIX):
            return self._followed(entries, reference.removeprefix(_PREFIX), open_refs)
        copied: dict[str, Any] = {}
        for key, value in entries.items():
            if key in _LEFT_OUT and (key == "discriminator" or isinstance(value, str)):
                continue
            copied[key] = self._part(key, value, open_refs)
        return _with_type(copied)

    def _followed(self, entries: dict[str, Any], name: str, open_refs: tuple[str, ...]) -> dict[str, Any]:
        beside = {k: self._part(k, v, open_refs) for k, v in entries.items() if k not in {"$ref", "title"}}
        if name not in self._definitions:
            return {"$ref": _PREFIX + name, **beside}
        if name in open_refs or self._is_recursive(name):
            self.referenced.add(name)
            return {"$ref": _PREFIX + name, **beside}
        return {**self.copy(self._definitions[name], (*open_refs, name)), **beside}

    def _part(self, key: str, value: Any, open_refs: tuple[str, ...]) -> Any:
        if key in _DICTS and is_dict(value):
            return {name: self.copy(each, open_refs) for name, each in value.items()}
        if is_list(value) and key in (*_LISTS, "items"):
            return [self.copy(each, open_refs) for each in value]
        return self.copy(value, open_refs) if key in _SINGLE else value

    def _is_recursive(self, name: str) -> bool:
        """Return True if a definition refers to itself."""
        seen: set[str] = set()
        pending = _references(self._definitions[name])
        while pending:
            each = pending.pop()
            if each == name:
                return True
            if each not in seen and each in self._definitions:
                seen.add(each)
                pending |= _references(self._definitions[each])
        return False


def _references(node: Any) -> set[str]:
    if isinstance(node, dict):
        entries = cast("dict[str, Any]", node)
        found = set[str]().union(*map(_references, entries.values()))
        reference = entries.get("$ref")
        if isinstance(reference, str) and reference.startswith(_PREFIX):
            found.add(reference.removeprefix(_PREFIX))
        return found
    return set[str]().union(*map(_references, cast("list[Any]", node))) if isinstance(node, list) else set()


def _with_type(schema: dict[str, Any]) -> dict[str, Any]:
    """Add the type of its values to an enum: some providers reject enums without a type."""
    values = schema.get("enum")
    if isinstance(values, list) and values and "type" not in schema:
        for kind, name in _KINDS:
            if all(type(each) is kind for each in cast("list[Any]", values)):
                return {"type": name, **schema}
    return schema


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


_EMPTY = inspect.Parameter.empty
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
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    context_param: str | None
    decode: Decode


class _Parameter(NamedTuple):
    name: str
    kind: Any
    default: Any


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
    if len(parameters) == 1 and parameters[0].default is _EMPTY and is_struct_type(parameters[0].kind):
        only = parameters[0]
        schema = _schemas(name, parameters)[0]
        docs = ParsedDocstring(docs.description or schema.pop("description", ""), {})
        schema.pop("description", None)
        schema.setdefault("additionalProperties", False)
        decode = _record_decoder(only, schema)
    else:
        schema = _object_schema(parameters, _schemas(name, parameters), docs)
        decode = _decoder(name, parameters, schema)
    return FunctionSchema(name, docs.description, schema, context, decode)


def schema_from_type(kind: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """Return the JSON Schema of a type, and a function that creates values from JSON data.

    The function raises `ValueError` for data that does not fit.

    Args:
        kind: Type that msgspec supports (structs, dataclasses, `TypedDict`, containers, unions, enums), or a pydantic model.

    Raises:
        TypeError: JSON Schema cannot express the type.
    """
    try:
        schema = schemas_for_types([kind])[0]
    except (TypeError, NotImplementedError) as problem:
        raise TypeError(f"{_type_name(kind)} has no JSON Schema: {_first_line(problem)}") from problem
    return schema, decoder_for(kind)


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
        found.append(_Parameter(parameter.name, kind, parameter.default))
    return found, context


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
    if kind is not _EMPTY:
        return kind
    if type(default) in _PLAIN_DEFAULTS:
        return cast("Any", type(default))
    advice = "Write, for example, `: str`."
    if name in _CONTEXT_NAMES:
        advice = f"Write `{name}: ToolContext` if it receives the context of the call. Otherwise: {advice}"
    raise TypeError(f"{location} has no type annotation, which is required for the tool's schema. {advice}")


def _schemas(name: str, parameters: list[_Parameter]) -> list[dict[str, Any]]:
    """Return the schema of each parameter; the error names a parameter without a schema."""
    try:
        return schemas_for_types([each.kind for each in parameters])
    except (TypeError, NotImplementedError):
        for each in parameters:
            try:
                schemas_for_types([each.kind])
            except (TypeError, NotImplementedError) as problem:
                raise TypeError(
                    f"Parameter {each.name!r} of {name}() has type {_type_name(each.kind)}, which JSON cannot express "
                    f"({_first_line(problem)}). Use plain types, a dataclass, a msgspec struct, or a pydantic model."
                ) from problem
        raise


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
        if parameter.default is not _EMPTY and "default" not in schema:
            try:
                schema["default"] = msgspec.to_builtins(parameter.default)
            except (TypeError, ValueError):
                pass  # a default that only Python can represent
        properties[parameter.name] = schema
    object_schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [each.name for each in parameters if each.default is _EMPTY]
    if required:
        object_schema["required"] = required
    object_schema["additionalProperties"] = False
    if definitions:
        object_schema["$defs"] = definitions
    return object_schema


def _decoder(name: str, parameters: list[_Parameter], schema: dict[str, Any]) -> Decode:
    convert, error = msgspec.convert, msgspec.ValidationError
    record: Any = None

    def make_record() -> Any:
        fields = [(p.name, p.kind) if p.default is _EMPTY else (p.name, p.kind, None) for p in parameters]
        return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)

    def decode(arguments: dict[str, Any]) -> dict[str, Any]:
        nonlocal record
        record = record or make_record()  # on the first call, to keep startup fast
        try:
            converted = convert(arguments, record, dec_hook=decode_custom)
        except (error, OverflowError):
            converted = _coerce_and_decode(
                schema, arguments, lambda v: convert(v, record, dec_hook=decode_custom, strict=False)
            )
        return {key: getattr(converted, key) for key in arguments}

    return decode


def _record_decoder(parameter: _Parameter, schema: dict[str, Any]) -> Decode:
    name, kind = parameter.name, parameter.kind
    strict = decoder_for(kind)

    def lax(value: Any) -> Any:
        return (
            strict(value)
            if is_pydantic_model(kind)
            else msgspec.convert(value, kind, dec_hook=decode_custom, strict=False)
        )

    closed = schema["additionalProperties"] is False
    known = schema.get("properties", {}).keys()

    def decode(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            decoded = strict(arguments) if not closed or arguments.keys() <= known else None
        except (ValueError, OverflowError):
            decoded = None
        if decoded is None:
            decoded = _coerce_and_decode(schema, arguments, lax)
        return {name: decoded}

    return decode


def _coerce_and_decode(schema: dict[str, Any], arguments: dict[str, Any], lax: Callable[[Any], Any]) -> Any:
    """Handle arguments that do not fit immediately: coerce, check in full, and then decode less strictly.

    Less strictly means that `5.0` is accepted for an integer, which JSON Schema also allows. The check covers everything else.
    """
    value, _ = coerce(schema, arguments)
    problems = get_validator(schema)(value)
    if problems:
        raise ToolError(format_issues(problems))
    try:
        return lax(value)
    except (ValueError, OverflowError) as problem:
        raise ToolError(str(problem)) from problem


def _type_name(kind: Any) -> str:
    return kind.__qualname__ if isinstance(kind, type) else str(kind)


def _first_line(problem: BaseException) -> str:
    lines = [line for line in str(problem).splitlines() if line.strip()]
    return lines[-1] if lines and lines[-1].startswith("type ") else (lines or ["no JSON form is known"])[0]
