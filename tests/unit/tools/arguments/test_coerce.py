"""Coercion: nearly valid values are converted if the schema is unambiguous; nothing else changes."""

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring.tools.arguments.coerce import Coercion, coerce
from mainspring.tools.validation import validate


def make_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


INTEGER, NUMBER, BOOLEAN, STRING = ({"type": each} for each in ("integer", "number", "boolean", "string"))
ARRAY, OBJECT = {"type": "array"}, {"type": "object"}


def coerce_value(part: Any, value: Any) -> Any:
    """Return the coerced value of a property with that schema."""
    return coerce(make_schema(x=part), {"x": value})[0]["x"]


def is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


@pytest.mark.covers("TEX-03", "TEX-06")
@pytest.mark.parametrize(
    ("part", "text", "number"),
    [
        (INTEGER, "123", 123),
        (INTEGER, " 5", 5),
        (INTEGER, "+5 ", 5),
        (INTEGER, "-7", -7),
        (INTEGER, "5.0", 5),
        (INTEGER, "1e3", 1000),
        (INTEGER, "90071992547409931234", 90071992547409931234),
        (NUMBER, "5", 5),
        (NUMBER, "2.5", 2.5),
        (NUMBER, "-.5", -0.5),
        (NUMBER, "1e-3", 0.001),
        ({"type": ["integer", "null"]}, "8", 8),
        ({"enum": [1, 2, 3]}, "2", 2),
        ({"const": 4}, "4", 4),
        ({"type": "integer", "nullable": True}, "9", 9),
    ],
)
def test_numeric_string_becomes_a_number(part: Any, text: str, number: float):
    assert is_same(coerce_value(part, text), number)


@pytest.mark.parametrize(
    "text", ["5.5", "", "0x10", "1_000", "five", "nan", "inf", "1e999", "٣", "--5", "9" * 500, "5,0", "1e"]
)
def test_non_integer_string_is_unchanged(text: str):
    assert coerce_value(INTEGER, text) == text


@pytest.mark.parametrize("text", ["nan", "infinity", "1e999", "1,5", ""])
def test_non_finite_number_string_is_unchanged(text: str):
    assert coerce_value(NUMBER, text) == text


@pytest.mark.covers("TEX-05")
@pytest.mark.parametrize(
    ("text", "flag"), [("true", True), ("YES", True), (" 1 ", True), ("False", False), ("no", False), ("0", False)]
)
def test_words_become_booleans(text: str, flag: bool):
    assert coerce_value(BOOLEAN, text) is flag


@pytest.mark.parametrize("value", ["on", "off", "y", "t", "2", "", 1, 0])
def test_other_words_and_numbers_do_not_become_booleans(value: Any):
    assert is_same(coerce_value(BOOLEAN, value), value)


@pytest.mark.covers("TEX-07")
@pytest.mark.parametrize(
    ("part", "text", "value"),
    [
        (ARRAY, '["a", "b"]', ["a", "b"]),
        (ARRAY, " [1]\n", [1]),
        (ARRAY, "['a', True,]", ["a", True]),
        (OBJECT, '{"a": {"b": []}}', {"a": {"b": []}}),
        ({"type": "array", "items": INTEGER}, '["1", 2]', [1, 2]),
        ({"type": "object", "additionalProperties": BOOLEAN}, '{"a": "yes"}', {"a": True}),
        ({"type": ["object", "null"]}, "{}", {}),
    ],
)
def test_json_string_becomes_a_container(part: Any, text: str, value: Any):
    assert coerce_value(part, text) == value


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (ARRAY, '{"a": 1}'),
        (OBJECT, "[1]"),
        (ARRAY, "[1"),
        (ARRAY, "[1] and more"),
        (ARRAY, "1, 2"),
        (OBJECT, '{"a": 1, "a": 2}'),
        (OBJECT, '{"a": NaN}'),
    ],
)
def test_invalid_or_unsuitable_json_string_is_unchanged(part: Any, text: str):
    assert coerce_value(part, text) == text


@pytest.mark.covers("TEX-08")
@pytest.mark.parametrize(
    ("value", "text"), [(5, "5"), (2.5, "2.5"), (True, "true"), (False, "false"), (10**20, str(10**20))]
)
def test_numbers_and_booleans_become_strings(value: Any, text: str):
    assert coerce_value(STRING, value) == text
    assert coerce_value({"type": ["string", "null"]}, value) == text


@pytest.mark.parametrize("part", [{"type": ["string", "array"]}, {}, True, {"type": "array"}])
def test_value_becomes_a_string_only_for_a_string_schema(part: Any):
    assert is_same(coerce_value(part, 5), 5)


@pytest.mark.parametrize("value", [[1], {"a": 1}, None])
def test_containers_and_null_never_become_strings(value: Any):
    schema = {**make_schema(x=STRING), "required": ["x"]}
    assert coerce(schema, {"x": value}) == ({"x": value}, [])


@pytest.mark.parametrize("text", ["5", "true", "[1]", '{"a": 1}', "null", " 7 "])
@pytest.mark.parametrize(
    "part",
    [
        STRING,
        {},
        {"type": ["integer", "string"]},
        {"anyOf": [INTEGER, STRING]},
        {"anyOf": [ARRAY, {"type": "string", "enum": ["all"]}]},
        {"oneOf": [{"$ref": "#/$defs/text"}, OBJECT]},
        {"anyOf": [{"anyOf": [STRING, ARRAY]}, BOOLEAN]},
    ],
)
def test_string_is_unchanged_if_the_schema_allows_strings(part: Any, text: str):
    schema = {**make_schema(x=part, other=INTEGER), "$defs": {"text": STRING}}
    assert coerce(schema, {"x": text, "other": "1"})[0] == {"x": text, "other": 1}


@pytest.mark.parametrize(
    ("part", "value", "expected"),
    [
        ({"anyOf": [INTEGER, {"type": "null"}]}, "7", 7),
        ({"anyOf": [{"type": "null"}, ARRAY]}, "[1]", [1]),
        ({"oneOf": [BOOLEAN, ARRAY]}, "yes", True),
        ({"anyOf": [make_schema(a=INTEGER), ARRAY]}, {"a": "1"}, {"a": 1}),
        ({"anyOf": [INTEGER, {"type": "array", "items": STRING}]}, [1, "a"], ["1", "a"]),
        ({"allOf": [{"type": "array"}, {"items": NUMBER}]}, '["1.5"]', [1.5]),
        ({"$ref": "#/$defs/count"}, "3", 3),
        ({"type": "array", "prefixItems": [STRING, INTEGER], "items": BOOLEAN}, [1, "2", "no"], ["1", 2, False]),
        ({"type": "array", "items": [INTEGER], "additionalItems": BOOLEAN}, ["1", "no"], [1, False]),
        (
            {"type": "object", "patternProperties": {"^n_": INTEGER}, "additionalProperties": BOOLEAN},
            {"n_a": "1", "b": "1"},
            {"n_a": 1, "b": True},
        ),
    ],
)
def test_nested_values_are_coerced(part: Any, value: Any, expected: Any):
    schema = {**make_schema(x=part), "$defs": {"count": INTEGER}}
    if part.get("items").__class__ is list:
        schema["$schema"] = "http://json-schema.org/draft-07/schema#"
    assert coerce(schema, {"x": value})[0] == {"x": expected}


def test_value_that_fits_a_branch_is_unchanged():
    part = {"anyOf": [make_schema(n=INTEGER), make_schema(n=STRING)]}
    schema = make_schema(x=part, y=INTEGER)
    assert coerce(schema, {"x": {"n": "5"}, "y": "5"})[0] == {"x": {"n": "5"}, "y": 5}


def test_recursive_schema_is_followed():
    schema = {
        "$ref": "#/$defs/node",
        "$defs": {"node": make_schema(on=BOOLEAN, kids={"type": "array", "items": {"$ref": "#/$defs/node"}})},
    }
    value = {"on": "yes", "kids": [{"kids": '[{"on": "no"}]'}]}
    assert coerce(schema, value)[0] == {"on": True, "kids": [{"kids": [{"on": False}]}]}


def test_optional_null_is_omitted():
    value, notes = coerce(make_schema(limit=INTEGER, name=STRING), {"limit": None, "name": "a"})
    assert value == {"name": "a"}
    assert notes == [Coercion("$.limit", None, None, "null-omitted")]


@pytest.mark.covers("TEX-04")
def test_required_null_is_kept_and_fails_validation():
    schema = {**make_schema(limit=INTEGER), "required": ["limit"]}
    assert coerce(schema, {"limit": None}) == ({"limit": None}, [])
    assert validate(schema, {"limit": None}) == ["$.limit: null is not of type 'integer'"]


def test_null_string_becomes_null_unless_strings_are_allowed():
    assert coerce_value({"type": ["integer", "null"]}, "null") is None
    assert coerce_value({"type": ["string", "null"]}, "null") == "null"


@pytest.mark.covers("TEX-10")
def test_each_coercion_is_reported_with_its_path():
    schema = make_schema(items={"type": "array", "items": make_schema(count=INTEGER)})
    value, notes = coerce(schema, {"items": [{"count": 1}, {"count": "2"}]})
    assert value == {"items": [{"count": 1}, {"count": 2}]}
    assert notes == [Coercion("$.items[1].count", "2", 2, "string-to-number")]


@pytest.mark.covers("TEX-02")
def test_only_changed_levels_are_copied():
    original = {"a": {"n": "1"}, "b": {"n": 1}}
    before = copy.deepcopy(original)
    value, _ = coerce(make_schema(a=make_schema(n=INTEGER), b=make_schema(n=INTEGER)), original)
    assert original == before
    assert value["b"] is original["b"]
    assert value["a"] == {"n": 1}


def test_circular_schema_terminates():
    part: dict[str, Any] = {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "type": "integer"}
    schema = {**make_schema(x={"$ref": "#/$defs/a"}), "$defs": {"a": part}}
    value, _ = coerce(schema, {"x": "5"})
    assert value["x"] in {"5", 5}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from(["1", "true", "[1]", '{"a": "1"}', "no", "2.0", "null"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
TYPE = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
SCHEMA: st.SearchStrategy[Any] = st.recursive(
    st.builds(lambda kind: {"type": kind}, TYPE | st.lists(TYPE, min_size=1, max_size=2, unique=True))
    | st.just({})
    | st.just({"$ref": "#"})
    | st.builds(lambda values: {"enum": values}, st.lists(JSON, min_size=1, max_size=2)),
    lambda inner: st.one_of(
        st.builds(
            lambda properties, required, other: {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": other,
            },
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            st.booleans() | inner,
        ),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda branches: {"oneOf": branches}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda branches: {"allOf": branches}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=6,
)


@given(SCHEMA, JSON)
def test_valid_value_and_input_are_never_changed(schema: Any, value: Any):
    before = copy.deepcopy(value)
    result, notes = coerce(schema, value)
    assert value == before
    if not validate(schema, value):
        assert result is value
        assert notes == []
    if not notes:
        assert result == value


@given(SCHEMA, JSON)
def test_coercion_is_idempotent(schema: Any, value: Any):
    once, _ = coerce(schema, value)
    if not validate(schema, once):
        assert coerce(schema, once) == (once, [])
