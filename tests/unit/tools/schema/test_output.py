"""Output schemas, and JSON in text."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st

from mainspring.errors import ConfigError
from mainspring.tools.schema.output import OutputSchema, combine_alternatives, convert_output, extract_json_values
from mainspring.tools.validation import get_validator

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


class Struct(msgspec.Struct):
    name: str
    age: int = 0


@dataclasses.dataclass
class Data:
    name: str
    age: int = 0


class Typed(TypedDict):
    name: str


class Model(pydantic.BaseModel):
    name: str
    age: int = 0

    @pydantic.field_validator("age")
    @classmethod
    def even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


@pytest.mark.covers("AGT-33")
@pytest.mark.parametrize(
    ("schema_source", "value"),
    [
        (PERSON, {"name": "Ann", "age": 4}),
        (Struct, Struct("Ann", 4)),
        (Data, Data("Ann", 4)),
        (Typed, {"name": "Ann"}),
        (Model, Model(name="Ann", age=4)),
    ],
)
def test_schemas_and_classes_are_accepted(schema_source: Any, value: Any) -> None:
    target = OutputSchema(schema_source)
    assert target.arguments["type"] == "object"
    given = {"name": "Ann"} if schema_source is Typed else {"name": "Ann", "age": "4"}
    answer = target.parse_arguments(json.dumps(given))
    assert (answer.error, answer.value) == (None, value)
    assert type(answer.value) is type(value)
    missing = target.parse_arguments("{}")
    assert missing.value is None
    assert "name" in (missing.error or "")


def test_validation_by_a_class_is_an_error() -> None:
    answer = OutputSchema(Model).parse_arguments({"name": "Ann", "age": 3})
    assert answer.value is None
    assert "must be even" in (answer.error or "")
    assert answer.raw == {"name": "Ann", "age": 3}


@pytest.mark.parametrize(
    ("schema_source", "given", "value"),
    [
        (list[int], [1, 2], [1, 2]),
        (int, 3, 3),
        ({"type": "string", "enum": ["a", "b"]}, "b", "b"),
        ({"anyOf": [PERSON, {"type": "null"}]}, None, None),
        (int | None, None, None),
    ],
)
def test_non_object_schema_is_wrapped_in_a_field(schema_source: Any, given: Any, value: Any) -> None:
    target = OutputSchema(schema_source)
    assert list(target.arguments["properties"]) == ["output"]
    assert target.parse_arguments({"output": given}).value == value
    assert target.validate(given).value == value
    assert target.validate(given).error is None
    assert target.parse_arguments({"output": {"no": "good"}}).error is not None


def test_references_in_a_schema_still_resolve() -> None:
    tree = {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#"}, {"$ref": "#/$defs/word"}]}}
    target = OutputSchema({**tree, "$defs": {"word": {"type": "string", "pattern": "^w"}}})
    assert target.validate([1, [2, ["w"]]]).error is None
    assert target.validate([1, [2, ["x"]]]).error is not None
    assert target.validate([1, [2, [None]]]).error is not None


@pytest.mark.parametrize("schema_source", [{"type": "objekt"}, {"type": "object", "properties": 3}, complex, object()])
def test_invalid_schema_is_rejected(schema_source: Any) -> None:
    with pytest.raises(ConfigError, match=r"The output (schema|type) cannot be used"):
        OutputSchema(schema_source)


def test_truncated_output_is_an_error() -> None:
    assert OutputSchema(PERSON).parse_arguments('{"name": "An').error is not None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1}', [{"a": 1}]),
        ("  [1, 2]\n", [[1, 2]]),
        ("3", [3]),
        ('Here it is:\n```json\n{"a": 1}\n```\nDone.', [{"a": 1}]),
        ("```\n[1]\n```", [[1]]),
        ('```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```', [{"a": 1}, {"a": 2}]),
        ('The answer is {"a": {"b": [1]}}.', [{"a": {"b": [1]}}]),
        ('{"a": 1} and {"a": 2}', [{"a": 1}, {"a": 2}]),
        ('use {curly} braces, then {"a": 1}', [{"a": 1}]),
        ("```python\nx = {}\n```", [{}]),
        ("no JSON, but 3 and true", []),
        ("", []),
        ("{" * 5000, []),
        ("[" * 100_000, []),
    ],
    ids=range(14),
)
def test_json_is_found_in_text(text: str, values: list[Any]) -> None:
    assert extract_json_values(text) == values


data = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.covers("AGT-33")
@given(st.dictionaries(st.text(max_size=5), data, max_size=3), st.sampled_from(["", "Sure! ", "Result:\n"]))
def test_object_is_found_in_surrounding_text(value: dict[str, Any], before: str) -> None:
    for text in (f"{before}{json.dumps(value)}", f"{before}```json\n{json.dumps(value)}\n```\nThat is all."):
        assert extract_json_values(text) == [value]


@given(st.text(alphabet='{}[]",:0ab`\n', max_size=60))
def test_arbitrary_text_does_not_crash(text: str) -> None:
    extract_json_values(text)


@given(data)
def test_valid_value_is_returned_unchanged(value: Any) -> None:
    target = OutputSchema(
        {"anyOf": [{"type": ["null", "boolean", "integer", "string"]}, {"type": "array"}, {"type": "object"}]}
    )
    answer = target.validate(value)
    assert (answer.error, answer.value) == (None, value)


# --- several types -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)


class First(msgspec.Struct):
    name: str = ""


class Second(pydantic.BaseModel):
    name: str = ""
    size: int = pydantic.Field(default=0, ge=0)

    @pydantic.field_validator("size")
    @classmethod
    def even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


def scale(factor: int) -> int:
    """Scale it."""
    return factor


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        (First | Second, {"name": "x"}, First("x")),
        (First | Second, {"name": "x", "size": 2}, Second(name="x", size=2)),
        ([Second, First], {"name": "x"}, Second(name="x")),
        (First | int | None, 3, 3),
        (First | int | None, None, None),
        (First | list[First], [{"name": "x"}], [First("x")]),
        (Tree | Struct, {"name": "x", "children": [{"name": "y"}]}, Tree("x", [Tree("y")])),
        (Tree | Struct, {"name": "x", "age": 2}, Struct("x", 2)),
        ([[First, int], int], 4, 4),
        (list[First] | list[Second], [{"name": "x", "size": 2}], [Second(name="x", size=2)]),
        (tuple[First] | tuple[Second], [{"name": "x", "size": 2}], (Second(name="x", size=2),)),
        (pydantic.JsonValue, {"a": [1, None]}, {"a": [1, None]}),
        (int | str, "3", "3"),
        (bool | str | None, "true", "true"),
        (int | float, 2.5, 2.5),
    ],
)
def test_data_becomes_the_type_of_a_union_that_fits_best(kind: Any, data: Any, expected: Any) -> None:
    target = OutputSchema(kind)
    for answer in (target.validate(data), target.convert(data), target.parse_text(json.dumps(data))):
        assert (answer.error, answer.value) == (None, expected)
        assert type(answer.value) is type(expected)


def test_function_becomes_a_call_with_converted_arguments() -> None:
    target = OutputSchema([scale, First])
    assert target.has_functions
    assert target.schema["anyOf"][0]["description"] == "Scale it."
    call = target.validate({"factor": "3"}).value
    assert (call.fn, call.arguments, call.context_param) == (scale, {"factor": 3}, None)


def test_problems_of_all_types_that_fit_the_schema_are_reported() -> None:
    assert "must be even" in (OutputSchema(Second | int).validate({"size": 3}).error or "")
    assert OutputSchema(First | int).validate([]).error
    with pytest.raises(ConfigError, match="empty"):
        OutputSchema([])
    with pytest.raises(ConfigError, match="The output type cannot be used"):
        OutputSchema(First | complex)


def test_definitions_with_the_same_name_stay_separate() -> None:
    def make(kind: type) -> type:
        node = msgspec.defstruct(
            "Node", [("value", kind), ("next", "Node | None", None)], namespace={"__module__": __name__}
        )
        return node

    globals()["Node"] = first = make(int)
    schema_of_first = OutputSchema(first).schema
    globals()["Node"] = second = make(str)
    schema_of_second = OutputSchema(second).schema
    assert schema_of_first != schema_of_second
    both, _ = combine_alternatives([(schema_of_first, lambda value: value), (schema_of_second, lambda value: value)])
    assert set(both["$defs"]) == {"Node", "Node2"}
    assert both["$defs"]["Node2"]["properties"]["value"] == {"type": "string"}
    assert not get_validator(both)({"value": "x", "next": {"value": "y"}})
    assert get_validator(both)({"value": "x", "next": {"value": 1}})


@pytest.mark.parametrize(
    ("value", "kind"), [("3", int), (3, str), ({"name": "x", "age": "4"}, Struct), ([1], list[str])]
)
def test_conversion_of_an_output_coerces_nothing(value: Any, kind: Any) -> None:
    assert convert_output(value, kind).error


@pytest.mark.parametrize("text", ['{"output": [1, 2]}', "[1, 2]", "```json\n[1, 2]\n```", 'Here: {"output": [1, 2]}'])
def test_text_may_have_the_form_of_the_arguments(text: str) -> None:
    assert OutputSchema(list[int]).parse_text(text).value == [1, 2]


def test_text_in_the_form_of_the_arguments_is_not_an_object_without_its_fields() -> None:
    assert OutputSchema(First | None).parse_text('{"output": {"name": "x"}}').value == First("x")


def test_text_with_other_than_one_value_is_an_error() -> None:
    target = OutputSchema(list[int])
    assert target.parse_text("Nothing.").error == "The response contains no JSON value that fits, but must contain one."
    assert "2 values that fit" in (target.parse_text("[1] and [2]").error or "")


# --- partial outputs -----------------------------------------------------------------------------------------------------


class Leaf(msgspec.Struct):
    name: str
    sizes: list[int] = []


class Root(msgspec.Struct):
    leaves: list[Leaf] = []
    by_name: dict[str, Leaf] = {}
    note: str | None = None
    number: float = 0.0


LEAF = st.builds(Leaf, name=st.text(max_size=4), sizes=st.lists(st.integers(0, 9999), max_size=3))
ROOT = st.builds(
    Root,
    leaves=st.lists(LEAF, max_size=3),
    by_name=st.dictionaries(st.text(max_size=3), LEAF, max_size=2),
    note=st.none() | st.text(max_size=5),
    number=st.floats(allow_nan=False, allow_infinity=False),
)


def is_beginning(part: Any, whole: Any) -> bool:
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(part, list):
        return len(part) <= len(whole) and all(map(is_beginning, part, whole))
    if isinstance(part, dict):
        return part.keys() <= whole.keys() and all(is_beginning(each, whole[key]) for key, each in part.items())
    if isinstance(part, msgspec.Struct):
        pairs = [(getattr(part, name), getattr(whole, name)) for name in part.__struct_fields__]
        return all(is_beginning(*pair) or pair[0] in (None, 0.0) for pair in pairs)
    return part == whole


@pytest.mark.parametrize("is_call", [True, False])
@given(data=st.data())
def test_beginning_of_any_output_fits_its_type(data: st.DataObject, *, is_call: bool) -> None:
    whole = data.draw(ROOT)
    text = msgspec.json.encode(whole).decode()
    target = OutputSchema(Root)
    assert target.parse_partial(text, is_call=is_call) == whole
    part = target.parse_partial(text[: data.draw(st.integers(0, len(text)))], is_call=is_call)
    assert part is msgspec.UNSET or (type(part) is Root and is_beginning(part, whole)), part


def test_beginning_of_a_wrapped_output_is_read() -> None:
    target = OutputSchema(list[Leaf])
    text = '{"output": [{"name": "a"}, {"name": "b", "sizes": [1, 23'
    assert target.parse_partial(text, is_call=True) == [Leaf("a"), Leaf("b", [1])]
    assert target.parse_partial('{"output": [{"name": "a"}, {"sizes": [1', is_call=True) == [Leaf("a")]
    assert target.parse_partial(text[11:], is_call=False) == [Leaf("a"), Leaf("b", [1])]
    assert target.parse_partial('{"output": ', is_call=True) is msgspec.UNSET
    assert OutputSchema(scale).parse_partial('{"factor": 3}', is_call=True) is msgspec.UNSET


class Letter(msgspec.Struct):
    type: Literal["letter"] = "letter"
    text: str = ""


class Receipt(msgspec.Struct):
    total: int
    type: Literal["receipt"] = "receipt"
    lines: list[str] = []


@pytest.mark.parametrize("is_call", [True, False])
def test_partial_value_of_a_union_waits_until_its_type_is_certain(is_call: bool) -> None:
    target = OutputSchema(Letter | Receipt)
    text = '{"output": {"type": "receipt", "total": 12, "lines": ["a", "b"]}}'[0 if is_call else 11 :]
    parts = [target.parse_partial(text[:end], is_call=is_call) for end in range(len(text) + 1)]
    assert {type(part) for part in parts if part is not msgspec.UNSET} == {Receipt}
    assert Receipt(12) in parts
    assert parts[-1] == Receipt(12, lines=["a", "b"])
    assert target.parse_partial('{"output": {}}', is_call=True) == Letter()  # complete: the first type that fits
    assert target.parse_partial('{"output": {"text": "He', is_call=True) == Letter(text="He")
