"""Unions of object types: one schema, conversion to the type that fits best, and clear errors."""

import dataclasses
import enum
from typing import Annotated, Any, Literal, TypedDict

import annotated_types as at
import msgspec
import pydantic
import pytest
from hypothesis import given, settings, strategies as st
from typing_extensions import TypeAliasType

from mainspring.errors import ToolError
from mainspring.tools.schema.function import schema_from_signature, schema_from_type
from mainspring.tools.validation import validate


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclasses.dataclass
class Place:
    name: str
    x: int = 0


class Named(TypedDict):
    kind: Literal["named"]
    name: str


class Model(pydantic.BaseModel):
    name: str
    size: int = pydantic.Field(ge=1)


class One(msgspec.Struct, tag=True):
    n: int


class Two(msgspec.Struct, tag=True):
    n: int


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog", "puppy"]
    tricks: list[str]


class Tree(msgspec.Struct):
    children: list["Tree | Point"] = []


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Red:
    color: Literal[Color.RED]


@dataclasses.dataclass
class Blue:
    color: Literal[Color.BLUE, "navy"]


Nested = TypeAliasType("Nested", list["Nested"] | int | None)


GOOD: list[tuple[Any, Any, Any]] = [
    (Point | Place, {"x": 1}, Point(1)),
    (Point | Place, {"x": 1, "name": "a"}, Place("a", 1)),
    (Place | Named, {"name": "a", "kind": "named"}, {"name": "a", "kind": "named"}),
    (Place | Named, {"name": "a"}, Place("a")),
    (Place | Model, {"name": "a", "size": 2}, Model(name="a", size=2)),
    (Place | Model, {"name": "a", "x": 2}, Place("a", 2)),
    (Point | Place | None, None, None),
    (Point | Place | None, {"name": "a"}, Place("a")),
    (list[Point | Model], [{"x": 1}, {"name": "a", "size": 1}], [Point(1), Model(name="a", size=1)]),
    (dict[str, Point | Place], {"k": {"name": "a"}}, {"k": Place("a")}),
    (One | Two, {"type": "Two", "n": 1}, Two(1)),
    (One | Model, {"type": "One", "n": 1}, One(1)),
    (Cat | Dog, {"kind": "puppy", "tricks": []}, Dog(kind="puppy", tricks=[])),
    (Annotated[Cat | Dog, pydantic.Field(discriminator="kind")], {"kind": "cat", "lives": 9}, Cat(kind="cat", lives=9)),
    (Point | str | int, "6", "6"),
    (Point | str | int, 5, 5),
    (Point | Place | float, 5.0, 5.0),
    (list[int] | list[str], ["a"], ["a"]),
    (Point | dict[str, int], {"z": 1}, {"z": 1}),
    (Red | Blue, {"color": "blue"}, Blue(Color.BLUE)),
    (Red | Blue, {"color": "navy"}, Blue("navy")),
    (list[Literal[Color.RED, "x"]], ["red", "x"], [Color.RED, "x"]),
    (tuple[Point] | tuple[Place], [{"x": 1, "name": "a"}], (Place("a", 1),)),
    (Nested | Point, [[1], None], [[1], None]),
    (pydantic.JsonValue, {"a": [1, None]}, {"a": [1, None]}),
    (Tree, {"children": [{"x": 1}, {"children": [{"x": 2}]}]}, Tree([Point(1), Tree([Point(2)])])),
]


@pytest.mark.parametrize(("kind", "value", "expected"), GOOD)
def test_value_becomes_the_type_that_fits_best(kind: Any, value: Any, expected: Any):
    def run(value: Any, other: int = 0): ...

    run.__annotations__["value"] = kind
    schema, decode = schema_from_type(kind)
    parameter = schema_from_signature(run)
    assert validate(schema, value) == validate(parameter.input_schema, {"value": value}) == []
    for decoded in (decode(value), parameter.decode({"value": value})["value"]):
        assert decoded == expected
        assert type(decoded) is type(expected)


def test_schema_lists_the_alternatives():
    assert schema_from_type(Point | Named | None)[0] == {
        "anyOf": [
            {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
            },
            {
                "type": "object",
                "properties": {"kind": {"type": "string", "enum": ["named"]}, "name": {"type": "string"}},
                "required": ["kind", "name"],
            },
            {"type": "null"},
        ]
    }


BAD: list[tuple[Any, Any, str]] = [
    (Cat | Dog, {"kind": "cat", "lives": "many"}, "$.lives: \"many\" is not of type 'integer'"),
    (One | Two, {"type": "Three", "n": 1}, '$.type: "Three" is not one of "One", "Two"'),
    (One | Two | None, {"type": "Two", "n": "x"}, "$.n: \"x\" is not of type 'integer'"),
    (Point | Place, {"x": "a"}, "$.x: \"a\" is not of type 'integer'"),
    (Point | Model, {"name": "a", "size": 0}, "$.size: 0 is less than the minimum of 1"),
    (Point | Place, 5, "$: 5 is not of type 'object'"),
    (list[Point | Model], [{"x": 1}, {}], "$[1]: {} fits none of the 2 allowed forms ($: missing required property 'x'; "),
    (dict[str, One | Two], {"k": {"type": "One"}}, "$.k: missing required property 'n'"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "message"), BAD)
def test_error_names_the_closest_alternative(kind: Any, value: Any, message: str):
    def run(value: Any, other: int = 0): ...

    run.__annotations__["value"] = kind
    with pytest.raises(ValueError, match=r"\$") as caught:
        schema_from_type(kind)[1](value)
    assert message in str(caught.value)
    with pytest.raises(ToolError) as refused:
        schema_from_signature(run).decode({"value": value})
    assert str(refused.value) == str(caught.value).replace("$", "$.value", 1)


# --- properties -------------------------------------------------------------------------------------------------------

NAMES = ["a", "b", "c"]
_SCALARS = st.sampled_from(
    [
        int,
        float,
        str,
        bool,
        Literal["a", "b"],
        Literal[1],
        Annotated[int, pydantic.Field(ge=0, lt=3)],
        Annotated[int, at.MultipleOf(2)],
        Annotated[str, msgspec.Meta(min_length=2)],
        Annotated[str, pydantic.Field(pattern="^a")],
        Annotated[float, at.Gt(0.5)],
    ]
)


def _records(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.dictionaries(st.sampled_from(NAMES), st.tuples(parts, st.booleans()), min_size=1, max_size=3)

    def struct(found: dict[str, Any]) -> Any:
        listed = [
            (name, kind) if is_required else (name, kind | msgspec.UnsetType, msgspec.UNSET)
            for name, (kind, is_required) in found.items()
        ]
        return msgspec.defstruct("S", listed, kw_only=True)

    def data_class(found: dict[str, Any]) -> Any:
        return dataclasses.make_dataclass("D", [(name, kind) for name, (kind, _) in found.items()])

    def typed_dict(found: dict[str, Any]) -> Any:
        create: Any = TypedDict
        return create("T", {name: kind for name, (kind, _) in found.items()})

    return st.one_of(fields.map(data_class), fields.map(typed_dict), fields.filter(_is_plain).map(struct))


def _is_plain(found: dict[str, Any]) -> bool:
    return all(isinstance(kind, type) and kind in {int, str, float, bool} for kind, _ in found.values())


def _union(members: list[Any]) -> Any:
    found = members[0]
    for each in members[1:]:
        found = found | each
    return found


_TYPES = st.recursive(
    _SCALARS,
    lambda parts: st.one_of(
        parts.map(lambda kind: list[kind]),
        parts.map(lambda kind: dict[str, kind]),
        st.tuples(parts, st.integers(0, 2)).map(lambda found: Annotated[list[found[0]], at.MinLen(found[1])]),
        st.lists(_records(parts), min_size=2, max_size=3).map(_union),
        st.tuples(_records(parts), st.none()).map(lambda found: found[0] | None),
    ),
    max_leaves=6,
)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 4), st.sampled_from(["", "a", "ab", "b", "5"]), st.sampled_from([0.0, 0.5, 1.5, 2.0])),
    lambda parts: st.one_of(st.lists(parts, max_size=2), st.dictionaries(st.sampled_from(NAMES), parts, max_size=3)),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=400)
@given(kind=_TYPES, values=st.lists(_VALUES, min_size=1, max_size=6))
def test_schema_accepts_exactly_what_conversion_accepts(kind: Any, values: list[Any]):
    schema, decode = schema_from_type(kind)
    for value in values:
        problems = validate(schema, value)
        try:
            decode(value)
        except ValueError:
            assert problems, (kind, schema, value)
        else:
            assert not problems, (kind, schema, value, problems)


class Names(pydantic.RootModel[list[str]]):
    pass


class Either(pydantic.RootModel[int | list[str]]):
    pass


@pytest.mark.parametrize("kind", [Names, Either])
def test_only_parameter_that_is_not_an_object_keeps_its_name(kind: Any) -> None:
    def count(names: Any) -> str:
        """Count."""
        return str(len(names.root))

    count.__annotations__["names"] = kind
    found = schema_from_signature(count)

    assert found.input_schema["type"] == "object"
    assert list(found.input_schema["properties"]) == ["names"]
    assert found.decode({"names": ["a", "b"]}) == {"names": kind(["a", "b"])}
