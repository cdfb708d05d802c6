"""Output schemas, and JSON in text."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.errors import ConfigError
from mainspring.tools.schema.output import OutputSchema, extract_json_values

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
