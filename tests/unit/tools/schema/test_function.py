"""Schemas from functions and types, and decoding of JSON objects to keyword arguments."""

import dataclasses
import enum
import functools
import subprocess
import sys
import textwrap
import typing
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import msgspec
import pydantic
import pytest
from msgspec import Meta

from mainspring.errors import ToolError
from mainspring.tools.arguments.parse import parse_arguments
from mainspring.tools.schema.function import (
    FunctionSchema,
    check_object_schema,
    parse_docstring,
    schema_from_signature,
    schema_from_type,
)
from mainspring.tools.validation import validate


class Context:
    __tool_context__ = True


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Node(msgspec.Struct):
    value: int
    children: list["Node"] = []


@dataclasses.dataclass
class Trip:
    city: str
    colours: list[Colour] = dataclasses.field(default_factory=list)


class Options(TypedDict):
    deep: bool
    limit: NotRequired[int]


class Search(pydantic.BaseModel):
    """Search the archive."""

    query: str = pydantic.Field(min_length=2, description="Words to look for.")
    title: str = "none"
    near: Optional["Search"] = None


class Forecast(pydantic.BaseModel):
    city: str
    days: int = pydantic.Field(1, ge=1, le=7)


async def forecast(
    city: str,
    days: Annotated[int, Meta(ge=1, le=7)] = 1,
    units: Literal["c", "f"] = "c",
    *,
    ctx: Context,
    when: Annotated[str | None, Meta(description="A day.")] = None,
) -> str:
    """Forecast for a city.

    With wind: and rain.

    Args:
        city: Name of the city.
        days (int): How many days
            ahead, 1 to 7.
        when: Not this, the annotation wins.

    Returns:
        Text: all of it.
    """
    return f"{city}{days}{units}{when}{ctx}"


@pytest.mark.covers("TDF-21")
def test_schema_from_a_signature():
    schema = schema_from_signature(forecast)
    assert schema.name == "forecast"
    assert schema.description == "Forecast for a city.\n\nWith wind: and rain."
    assert schema.context_param == "ctx"
    assert schema.input_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city."},
            "days": {
                "type": "integer",
                "minimum": 1,
                "maximum": 7,
                "description": "How many days ahead, 1 to 7.",
                "default": 1,
            },
            "units": {"type": "string", "enum": ["c", "f"], "default": "c"},
            "when": {"description": "A day.", "anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_decoder_omits_missing_arguments():
    decode = schema_from_signature(forecast).decode
    arguments = {"city": "Oslo", "days": 2}
    decoded = decode(arguments)
    assert decoded == arguments
    assert decoded is not arguments


@pytest.mark.covers("TEX-03")
def test_decoder_coerces_and_reports_problems():
    decode = schema_from_signature(forecast).decode
    assert decode({"city": 5, "days": "3"}) == {"city": "5", "days": 3}
    assert decode({"city": "Oslo", "days": 3.0}) == {"city": "Oslo", "days": 3}
    with pytest.raises(
        ToolError, match=r"(?s)2 problems.*\$\.days: 9 is greater.*unknown property 'dayz'; did you mean 'days'"
    ):
        decode({"city": "Oslo", "days": 9, "dayz": 1})


def take_all_types(
    point: Point,
    trip: Trip,
    options: Options,
    search: Search,
    path: Path,
    at: datetime,
    pair: tuple[int, str],
    tags: set[str],
    table: dict[str, list[float]],
    either: int | list[str],
    colour: Colour = Colour.RED,
    limits: tuple[int, ...] = (1, 2),
    anything: Any = None,
    raw: bytes = b"",
):
    """Everything at once."""


def test_rich_types_are_described_and_decoded():
    schema = schema_from_signature(take_all_types)
    properties = schema.input_schema["properties"]
    assert properties["colour"] == {"type": "string", "enum": ["blue", "red"], "default": "red"}
    assert properties["path"] == {"type": "string", "format": "path"}
    assert properties["trip"]["properties"]["colours"]["items"] == {"type": "string", "enum": ["blue", "red"]}
    assert properties["options"]["required"] == ["deep"]
    assert properties["pair"]["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert properties["anything"] == {"default": None}
    raw: dict[str, Any] = {
        "point": {"x": 1},
        "trip": {"city": "Oslo", "colours": ["red"]},
        "options": {"deep": True},
        "search": {"query": "fish", "near": {"query": "sea"}},
        "path": "a/b",
        "at": "2026-01-02T03:04:05Z",
        "pair": [1, "a"],
        "tags": ["x"],
        "table": {"a": [1, 2.5]},
        "either": ["a"],
        "colour": "blue",
        "limits": [3],
    }
    assert parse_arguments(schema.input_schema, raw).error is None
    assert schema.decode(raw) == {
        "point": Point(1),
        "trip": Trip("Oslo", [Colour.RED]),
        "options": {"deep": True},
        "search": Search(query="fish", near=Search(query="sea")),
        "path": Path("a/b"),
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "pair": (1, "a"),
        "tags": {"x"},
        "table": {"a": [1, 2.5]},
        "either": ["a"],
        "colour": Colour.BLUE,
        "limits": (3,),
    }


def collect_keywords(schema: Any) -> set[str]:
    """Return every keyword in schema position."""
    if isinstance(schema, list):
        return set[str]().union(*map(collect_keywords, schema))
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for key, value in schema.items():
        found |= collect_keywords(
            list(value.values())
            if key in {"properties", "$defs"}
            else value
            if key not in {"default", "enum"}
            else None
        )
    return found


@pytest.mark.parametrize(
    "kind", [Point, Trip, Options, Search, Node, list[Node], dict[str, Search | None], Point | None], ids=str
)
def test_schemas_have_no_titles_and_no_unused_definitions(kind: Any):
    schema, _ = schema_from_type(kind)
    assert "title" not in collect_keywords(schema)
    assert ("$ref" in collect_keywords(schema)) is ("$defs" in collect_keywords(schema))
    assert validate(schema, {"no": 1}) or validate(schema, 5)


def test_recursive_type_keeps_its_definition():
    schema, decode = schema_from_type(Node)
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    tree = {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]}
    assert validate(schema, tree) == []
    assert validate(schema, {"value": 1, "children": [{"value": 2, "children": [{"value": "x"}]}]}) == [
        "$.children[0].children[0].value: \"x\" is not of type 'integer'"
    ]
    assert decode(tree) == Node(1, [Node(2, [Node(3)])])


def test_definitions_of_two_models_do_not_clash():
    def two(a: Node, b: Search, c: list[Search]): ...

    schema = schema_from_signature(two).input_schema
    good = {
        "a": {"value": 1, "children": [{"value": 1}]},
        "b": {"query": "ab", "near": {"query": "cd"}},
        "c": [{"query": "ab"}],
    }
    assert validate(schema, good) == []
    assert validate(schema, {**good, "c": [{"query": "ab", "near": {"query": "c"}}]}) != []


@pytest.mark.covers("TDF-21")
@pytest.mark.parametrize(
    ("kind", "good", "bad", "value"),
    [
        (Forecast, {"city": "Oslo", "days": 2}, {"city": "Oslo", "days": 9}, Forecast(city="Oslo", days=2)),
        (Search, {"query": "fish"}, {"query": "f"}, Search(query="fish")),
        (Point, {"x": 1}, {"y": 1}, Point(1)),
        (Node, {"value": 1}, {"value": None}, Node(1)),
        (Trip, {"city": "Oslo"}, {"city": ["Oslo"]}, Trip("Oslo")),
        (Options, {"deep": True}, {"deep": "maybe"}, {"deep": True}),
    ],
)
def test_single_record_parameter_defines_the_arguments(kind: Any, good: Any, bad: Any, value: Any):
    def run(ctx: Context, params: Any): ...

    run.__annotations__["params"] = kind
    schema = schema_from_signature(run)
    assert schema.input_schema["type"] == "object"
    assert schema.input_schema["additionalProperties"] is False
    assert "params" not in schema.input_schema["properties"]
    assert schema.context_param == "ctx"
    assert validate(schema.input_schema, good) == []
    assert schema.decode(good) == {"params": value}
    with pytest.raises(ToolError):
        schema.decode(bad)
    with pytest.raises(ToolError, match="unknown property 'stray'"):
        schema.decode({**good, "stray": 1})


def test_record_docstring_is_the_fallback_description():
    def search(params: Search): ...

    assert schema_from_signature(search).description == "Search the archive."


def test_record_with_a_default_or_other_parameters_is_one_argument():
    def one(params: Point = Point(1)): ...  # noqa: B008

    def two(params: Point, verbose: bool): ...

    assert list(schema_from_signature(one).input_schema["properties"]) == ["params"]
    assert schema_from_signature(one).input_schema["properties"]["params"]["default"] == {"x": 1, "y": 0}
    assert list(schema_from_signature(two).input_schema["properties"]) == ["params", "verbose"]


def test_pydantic_error_is_reported_without_links():
    class Even(pydantic.BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def check(cls, n: int) -> int:
            if n % 2:
                raise ValueError("must be even")
            return n

    def run(params: Even): ...

    with pytest.raises(ToolError) as caught:
        schema_from_signature(run).decode({"n": 3})
    assert str(caught.value) == "$.n: Value error, must be even"


REFUSED: list[tuple[str, str]] = [
    ("def f(x): ...", "Parameter 'x' of f() has no type annotation"),
    ("def f(*names: str): ...", "*names of f() cannot be described to a model. Use a list parameter"),
    ("def f(**more: int): ...", "**more of f() cannot be described to a model. Use a dict parameter"),
    ("def f(x: int, /): ...", "Parameter 'x' of f() is positional-only"),
    ("def f(a: int, x: Callable[[int], int]): ...", "Parameter 'x' of f() has type"),
    ("def f(x: complex): ...", "Parameter 'x' of f() has type complex, which JSON cannot express"),
    ("def f(x: 'Missing'): ...", "Parameter 'x' of f() is annotated 'Missing', which cannot be resolved"),
    ("def f(a: Context, b: Context): ...", "f() has two ToolContext parameters: 'a' and 'b'"),
    ("def f(x: object): ...", "Use plain types, a dataclass, a msgspec struct, or a pydantic model"),
]


@pytest.mark.parametrize(("source", "message"), REFUSED)
def test_undescribable_parameter_is_rejected_by_name(source: str, message: str):
    scope: dict[str, Any] = {"Callable": Callable, "Context": Context}
    exec(source, scope)
    with pytest.raises(TypeError) as caught:
        schema_from_signature(scope["f"])
    assert message in str(caught.value)


@pytest.mark.parametrize("fn", [len, print, int])
def test_builtin_function_is_rejected(fn: Any):
    with pytest.raises(TypeError, match=fn.__name__):
        schema_from_signature(fn)


def make_module(source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("made_for_a_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(textwrap.dedent(source), "made_for_a_test.py", "exec", dont_inherit=True), module.__dict__)
    return module


def test_string_annotations_are_resolved(monkeypatch: pytest.MonkeyPatch):
    module = make_module(
        """
        from __future__ import annotations
        import typing
        if typing.TYPE_CHECKING:
            from somewhere import ToolContext
        from dataclasses import dataclass

        @dataclass
        class Here:
            n: int

        def top(a: list[Here], b: "int | None" = None, *, ctx: ToolContext) -> Nowhere: ...

        def outer():
            @dataclass
            class Inner:
                n: int
            def inner(a: Inner, b: Inner, c: tool.ToolContext | None = None):
                return Inner
            return inner

        class Holder:
            def method(self, a: Here, b: int): ...
        """,
        monkeypatch,
    )
    top = schema_from_signature(module.top)
    assert (list(top.input_schema["properties"]), top.context_param) == (["a", "b"], "ctx")
    assert top.decode({"a": [{"n": 1}]})["a"] == [module.Here(1)]
    inner = schema_from_signature(module.outer())
    assert (list(inner.input_schema["properties"]), inner.context_param) == (["a", "b"], "c")
    assert list(schema_from_signature(module.Holder().method).input_schema["properties"]) == ["a", "b"]


def test_any_callable_is_accepted():
    class Adder:
        """Adds."""

        def __call__(self, a: int, b: int = 1) -> int:
            """Add b to a."""
            return a + b

        def method(self, a: int) -> int:
            """A method."""
            return a

        @classmethod
        def of_class(cls, a: int) -> int:
            return a

    def plain(a: int, b: str):
        """Plain."""

    @functools.wraps(plain)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    assert schema_from_signature(Adder()).description == "Add b to a."
    assert schema_from_signature(Adder()).name == "Adder"
    assert list(schema_from_signature(Adder().method).input_schema["properties"]) == ["a"]
    assert list(schema_from_signature(Adder.of_class).input_schema["properties"]) == ["a"]
    assert list(schema_from_signature(wrapped).input_schema["properties"]) == ["a", "b"]
    bound = schema_from_signature(functools.partial(plain, b="x"))
    assert (bound.name, bound.description, bound.input_schema["required"]) == ("plain", "Plain.", ["a"])


def test_function_without_parameters():
    def now() -> str:
        return ""

    schema = schema_from_signature(now)
    assert schema.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert schema.decode({}) == {}


def test_type_is_inferred_from_a_default():
    def f(n=3, deep=False): ...

    assert schema_from_signature(f).input_schema["properties"] == {
        "n": {"type": "integer", "default": 3},
        "deep": {"type": "boolean", "default": False},
    }


def test_context_is_found_in_a_union():
    def f(a: int, ctx: Context | None = None): ...

    assert schema_from_signature(f).context_param == "ctx"


def test_decoded_calls_share_no_defaults():
    def f(tags: list[str] = [], more: dict[str, int] = {}): ...  # noqa: B006

    decode = schema_from_signature(f).decode
    first = decode({"tags": ["a"]})
    first["tags"].append("b")
    first["ctx"] = 1
    assert decode({"tags": ["a"]}) == {"tags": ["a"]}
    assert decode({}) == {}


# --- types and raw schemas --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (int, 1, "x"),
        (list[Point], [{"x": 1}], [{"x": "a"}]),
        (Search, {"query": "ab"}, {"query": 1}),
        (Colour, "red", "green"),
        (int | None, None, "x"),
    ],
)
def test_type_gives_a_schema_and_a_decoder(kind: Any, good: Any, bad: Any):
    schema, decode = schema_from_type(kind)
    assert validate(schema, good) == []
    assert validate(schema, bad) != []
    decode(good)
    with pytest.raises(ValueError, match=r"\$|Expected|Invalid"):
        decode(bad)


def test_type_without_a_schema_is_rejected():
    with pytest.raises(TypeError, match="complex has no JSON Schema"):
        schema_from_type(complex)


@pytest.mark.covers("TDF-21")
def test_raw_schema_is_used_unchanged():
    raw: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {}},
        "x-note": 1,
    }
    assert check_object_schema(raw) is raw
    assert check_object_schema({}) == {}
    assert check_object_schema({"anyOf": [{"type": "object"}]})


@pytest.mark.parametrize(
    "raw", [{"type": "string"}, {"type": ["array", "null"]}, {"type": "object", "properties": ["a"]}]
)
def test_raw_schema_of_a_non_object_is_rejected(raw: Any):
    with pytest.raises(TypeError, match="schema"):
        check_object_schema(raw)


# --- docstrings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "description", "parameters"),
    [
        (None, "", {}),
        ("One line.", "One line.", {}),
        ("Do it.\n\nNote: this stays.\n", "Do it.\n\nNote: this stays.", {}),
        (
            "Do it.\n\nArgs:\n    a: First: of all.\n\n        More.\n    *b (list[int], optional): Second.\n    c:\n        Third.\n    d:\n\nExample:\n    >>> 1\n\nThe end.",
            "Do it.\n\nThe end.",
            {"a": "First: of all. More.", "b": "Second.", "c": "Third."},
        ),
        (
            "Do it.\n\n:param a: First.\n:type a: int\n:param int b: Second\n  line.\n:returns: x",
            "Do it.",
            {"a": "First.", "b": "Second line."},
        ),
        (
            "Do it.\n\nLonger.\n\nParameters\n----------\na : int\n    First.\nb : str, optional\n    Second\n    line.\n\nReturns\n-------\nstr\n    x",
            "Do it.\n\nLonger.",
            {"a": "First.", "b": "Second line."},
        ),
    ],
)
def test_docstrings_are_parsed(text: str | None, description: str, parameters: dict[str, str]):
    assert parse_docstring(text) == (description, parameters)


def test_reading_a_signature_imports_no_heavy_modules():
    code = (
        "import sys; from mainspring.tools.schema.function import schema_from_signature as s\n"
        "def f(a: int, b: list[str] | None = None):\n    '''F.\\n\\n    Args:\\n        a: A.\\n    '''\n"
        "assert s(f).decode({'a': 1}) == {'a': 1}\n"
        "assert not {'jsonschema_rs', 'json_repair', 'docstring_parser', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_function_schema_is_frozen():
    assert FunctionSchema.__struct_config__.frozen
    assert typing.get_type_hints(FunctionSchema)["context_param"] == str | None
