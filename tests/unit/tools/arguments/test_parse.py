"""Arguments of a call: valid text is unchanged, malformed text is repaired, and truncated text is an error."""

import copy
import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings, strategies as st

from mainspring.lenient_json import MAX_DEPTH, parse_relaxed
from mainspring.tools.arguments.parse import (
    ParsedArguments,
    find_json_start,
    join_surrogates,
    looks_truncated,
    parse_arguments,
    recover_object,
    repair_json,
)
from mainspring.tools.validation import validate
from tests.unit.tools.arguments.test_coerce import SCHEMA

ANYTHING = {"type": "object"}
TRIP = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 7}, "tags": {"type": "array"}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("raw", [None, "", "  \n", b"", "null", " null ", b"null", {}, '""', "\ufeff", "{}"], ids=repr)
def test_missing_arguments_become_an_empty_object(raw: Any):
    parsed = parse_arguments(ANYTHING, raw)
    assert (parsed.value, parsed.error, parsed.truncated) == ({}, None, False)


@pytest.mark.covers("TEX-04")
@pytest.mark.parametrize("raw", [None, "", "null", "{}", '{"city": null}'])
def test_missing_or_null_required_argument_fails(raw: Any):
    assert "city" in (parse_arguments(TRIP, raw).error or "")


@pytest.mark.parametrize(
    "raw", ['{"city": "Oslo"}', b'{"city": "Oslo"}', bytearray(b'{"city": "Oslo"}'), {"city": "Oslo"}], ids=repr
)
def test_text_bytes_and_objects_are_accepted(raw: Any):
    assert parse_arguments(TRIP, raw) == ParsedArguments({"city": "Oslo"})


@pytest.mark.covers("TEX-03", "TEX-06", "TEX-07", "TEX-10")
def test_coerced_arguments_are_returned_and_reported():
    parsed = parse_arguments(TRIP, '{"city": "Oslo", "days": "3", "tags": "[1]"}')
    assert parsed.value == {"city": "Oslo", "days": 3, "tags": [1]}
    assert [(each.path, each.before, each.after) for each in parsed.coercions] == [
        ("$.days", "3", 3),
        ("$.tags", "[1]", [1]),
    ]
    assert (parsed.error, parsed.repaired) == (None, False)


@pytest.mark.covers("TEX-05", "TEX-08")
def test_booleans_and_strings_are_coerced():
    schema = {"type": "object", "properties": {"all": {"type": "boolean"}, "name": {"type": "string"}}}
    assert parse_arguments(schema, '{"all": "yes", "name": 7}').value == {"all": True, "name": "7"}


@pytest.mark.covers("TEX-01")
def test_error_lists_all_problems():
    error = parse_arguments(TRIP, '{"citty": "Oslo", "days": 9, "tags": 1}').error
    assert error == "\n".join(
        [
            "4 problems:",
            "- $: unknown property 'citty'; did you mean 'city'?",
            "- $.days: 9 is greater than the maximum of 7",
            "- $.tags: 1 is not of type 'array'",
            "- $: missing required property 'city'",
        ]
    )


def test_error_reports_the_coerced_value():
    parsed = parse_arguments(TRIP, {"city": 5, "days": "9"})
    assert parsed.value == {"city": "5", "days": 9}
    assert parsed.error == "$.days: 9 is greater than the maximum of 7"


@pytest.mark.covers("TEX-02")
def test_raw_arguments_are_not_modified():
    raw = {"city": 5, "days": "3", "tags": '["a"]'}
    before = copy.deepcopy(raw)
    parse_arguments(TRIP, raw)
    assert raw == before


@pytest.mark.parametrize("schema", [None, {}, True])
def test_any_object_is_valid_without_a_schema(schema: Any):
    assert parse_arguments(schema, '{"a": [1]}') == ParsedArguments({"a": [1]})


def test_false_schema_rejects_everything():
    assert parse_arguments(False, "{}").error


@pytest.mark.parametrize("raw", [5, ["a"], 1.5, object()])
def test_other_python_values_are_rejected(raw: Any):
    assert "type" in (parse_arguments(None, raw).error or "")


def test_any_mapping_is_accepted():
    from types import MappingProxyType

    assert parse_arguments(TRIP, MappingProxyType({"city": "Oslo"})).value == {"city": "Oslo"}


# --- repairs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "x\x00\x1fy\n"}', {"a": "x\x00\x1fy\n"}),
        ('{"a": "x\\\ny"}', {"a": "x\\\ny"}),
        ('{"a": "\\`x\\` \\„y“"}', {"a": "`x` „y“"}),
        ('{"a": "\\user \\u12"}', {"a": "\\user \\u12"}),
        ("{'a': \"it's\", 'b': 'a \"b\"'}", {"a": "it's", "b": 'a "b"'}),
        ("{'a': 'the dogs' bone'}", {"a": "the dogs' bone"}),
        ("{`a`: `b`}", {"a": "b"}),
        ("{a-b: 1, $c: 2, 7: 3}", {"a-b": 1, "$c": 2, "7": 3}),
        ("{a: undefined, b: NONE}", {"a": None, "b": None}),
        ("{/**/'a'/**/:/**/1/**/,/**/}", {"a": 1}),
        ("# note\n{'a': 1 # one\n}", {"a": 1}),
        ("{'a': -1_0.5e+1}", {"a": -105.0}),
        ("\u00a0\u200b{'a': 1}\u200b", {"a": 1}),
        ('{"a": 1};', {"a": 1}),
        ("\"{'a': 1}\"", {"a": 1}),
        ('"\\"{\\\\\\"a\\\\\\": 1}\\""', {"a": 1}),
        ("'{\"a\": 1}'", {"a": 1}),
        ('<args>{"a": 1}</args>', {"a": 1}),
        ('{"a": 1}{"a": 1.0}', {"a": 1}),
        ('{}\n{}\n{"a": 1}', {"a": 1}),
        ("{}{}", {}),
        ('[]{"a": 1}', {"a": 1}),
        ('{"a": 1} and {this} is prose', {"a": 1}),
        ('{"a": 1,\n "a": 1,}', {"a": 1}),
    ],
)
def test_repaired_arguments_are_marked(text: str, value: Any):
    parsed = parse_arguments(ANYTHING, text)
    assert parsed == ParsedArguments(value, repaired=True)


def test_repaired_arguments_must_match_the_schema():
    assert parse_arguments(TRIP, "{'city': 'Oslo',}").error is None
    assert parse_arguments(TRIP, "{'town': 'Oslo',}").error


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"a": 1}{"a": 2}', "2 different"),
        ('{"a": 1}\nor\n{"a": 2}', "2 different"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' is there twice"),
        ("{'a': 1, 'a': 2}", "'a' is there twice"),
        ('{"a": Infinity}', "Infinity is not"),
        ("{a: nan}", "nan is not"),
        ('{"a": +Infinity, b: x}', "Infinity is not"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
        ('{"a": -1e400}', "too large"),
        ("[[1]]", "an array"),
        ("true", "no JSON object"),
        ("3.5", "no JSON object"),
        ('"true"', "no JSON object"),
        ("maybe", "no JSON object"),
        ("}{", "cut off"),
        ("{}" * 60 + '{"a": 1}{"a": 2}', None),
        (json.dumps(json.dumps(json.dumps(json.dumps(json.dumps({"a": 1}))))), "a string"),
        ('{"a": ' + "[" * 10_000 + "]" * 10_000 + "}", "nested deeper"),
        ('{"a": ' * 10_000, "nested deeper"),
        ('{"a": ' * 500 + "1" + "}" * 500, "nested deeper"),
        ("{a: " * 300 + "1" + "}" * 300, "nested deeper"),
        ("{" + "(" * 3000, None),
    ],
)
def test_ambiguous_text_is_an_error(text: str, part: str | None):
    parsed = parse_arguments(ANYTHING, text)
    assert parsed.error is not None or part is None
    assert part is None or part in (parsed.error or "")


def test_unrepairable_text_is_a_short_error():
    error = parse_arguments(None, '{"a": "x" "' + "y " * 60_000 + '"}').error
    assert error is not None
    assert "could not be repaired" in error
    assert len(error) < 300


def test_repair_time_is_bounded():
    started = time.process_time()
    for text in (
        '{"a": ' + "(" * 50_000,
        '{"a": x ' + '"y" ' * 20_000 + "}",
        "{a: " * 20_000,
        "[" * 50_000 + "}" * 50_000,
    ):
        parse_arguments(None, text)
    assert time.process_time() - started < 30


def test_surrogates_are_joined_or_replaced():
    assert join_surrogates("a\ud83d\ude00b") == "a😀b"
    assert join_surrogates("a\ud83d") == "a\ufffd"
    assert parse_arguments(None, '{"\\ud83d": ["\\ude00", {"a": "\\ud83d\\ude00"}]}').value == {
        "\ufffd": ["\ufffd", {"a": "😀"}]
    }
    assert parse_arguments(None, b'{"a": "\xff"}').value == {"a": "\ufffd"}
    msgspec.json.encode(parse_arguments(None, '{"a": "\\ud83d x').value)


# --- truncated texts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "a.py", "text": "import os',
        '{"a": "}',
        '{"a": "x", ',
        "{'a': 'it's",
        '```json\n{"a": 1',
        'Sure: {"a": [{"b": 1}, {"c": "}"}',
        '{"a": True, "b": foo, "c": [1, 2',
        '{"a": "say "hi" and "bye" to {x}',
        '{"a": "x"}, "b": "y',
        "{a: b, c: 'd}",
        '{"a": "x" /* note',
        '"{\\"a\\": 1',
        '{"a": 1}{"a',
        "{",
        '{"a": 1}, {"b"',
        'Here: {"a": [1, "```{}"',
        '{"a": 1, // "so"\n "}": 2, // no',
    ],
)
def test_truncated_text_is_an_error(text: str):
    parsed = parse_arguments(None, text)
    assert parsed.truncated
    assert "cut off" in (parsed.error or "")
    assert "several smaller calls" in (parsed.error or "")


@pytest.mark.parametrize(
    "text", ['{"a": "v"alue"}', '{"a": "x" y}', '{a: b}, "c": d}', '{"a": [1, 2}', '{"a": b"}', "{a: “b c”}"]
)
def test_malformed_but_closed_text_is_not_truncated(text: str):
    assert not looks_truncated(text)
    assert not parse_arguments(None, text).truncated


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TRICKY = st.sampled_from(
    ['"', "}", "]", '"}', "\\", '\\"', ":", ",", "/*", "//", "#", "'", "```", "{}", "null", "\n", "“", "é"]
)
STRING = TEXT | st.lists(TRICKY, max_size=6).map("".join)
VALUE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | STRING,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRING, inner, max_size=3),
    max_leaves=6,
)
OBJECT_VALUE = st.dictionaries(STRING, VALUE, max_size=4)


@given(OBJECT_VALUE, st.booleans(), st.sampled_from([None, 2]))
def test_strict_json_is_parsed_unchanged(value: Any, ascii_only: bool, indent: int | None):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    for raw in (text, text.encode(), f" {text}\n"):
        assert parse_arguments(ANYTHING, raw) == ParsedArguments(value)
    assert parse_arguments(None, json.dumps(text)).value == value


@given(OBJECT_VALUE, st.sampled_from([None, 2]), st.booleans(), st.data())
@example({"a": "}"}, None, True, None)
def test_prefix_of_strict_json_is_an_error(value: Any, indent: int | None, twice: bool, data: Any):
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if twice:
        text = json.dumps(text, ensure_ascii=False)
    cuts = range(1, len(text)) if data is None else [data.draw(st.integers(1, len(text) - 1))]
    for end in cuts:
        parsed = parse_arguments(None, text[:end])
        assert parsed.error is not None, text[:end]


@given(OBJECT_VALUE, st.sampled_from(["```json\n", "Here: ", "f(", "  "]), st.data())
def test_prefix_of_json_after_prose_is_an_error(value: Any, before: str, data: Any):
    text = json.dumps(value, ensure_ascii=False)
    parsed = parse_arguments(None, before + text[: data.draw(st.integers(1, len(text) - 1))])
    assert parsed.error is not None


@given(OBJECT_VALUE, st.sampled_from([repr, "commas", "comments"]), st.data())
def test_prefix_of_relaxed_json_is_an_error(value: Any, style: Any, data: Any):
    if style is repr:
        text = repr(value)
    else:
        text = json.dumps(value, indent=1).replace("\n}", ",\n}")
        text = text.replace("\n", ' // so "\n') if style == "comments" else text
    parsed = parse_arguments(None, text[: data.draw(st.integers(1, len(text) - 1))])
    assert parsed.error is not None


@given(OBJECT_VALUE)
def test_relaxed_parser_agrees_with_strict_json(value: Any):
    text = json.dumps(value, ensure_ascii=False)
    reading = parse_relaxed(text + " rest")
    assert (reading.value, reading.end, reading.state, reading.problem) == (value, len(text), "whole", "")
    assert recover_object(text + " rest").value == value


PRINTED = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" \n\t'\"\\"), max_size=8)


@given(st.dictionaries(PRINTED, st.none() | st.booleans() | st.integers() | PRINTED | st.lists(PRINTED), max_size=4))
@example({"a": "\x00\x1b\xa0"})
def test_python_literals_are_parsed_exactly(value: Any):
    assert parse_arguments(None, "arguments = " + repr(value)).value == value


SOUP = st.lists(
    TRICKY | st.sampled_from(["{", "[", "(", "1", "true", "NaN", '"a"', "1e", "0", "-", ".", " "]), max_size=14
).map("".join)


@settings(max_examples=300)
@given(SOUP | st.text(max_size=30) | st.binary(max_size=30), SCHEMA)
def test_any_input_gives_an_object(raw: Any, schema: Any):
    parsed = parse_arguments(schema, raw)
    assert type(parsed.value) is dict
    assert parsed.error is not None or not validate(schema, parsed.value)
    assert parsed.error is not None or not parsed.truncated
    if parsed.error is None:
        msgspec.json.encode(parsed.value)


@given(VALUE, SCHEMA)
def test_result_is_valid_or_an_error(value: Any, schema: Any):
    raw = {"a": value}
    before = copy.deepcopy(raw)
    parsed = parse_arguments(schema, raw)
    assert raw == before
    assert (parsed.error is None) == (not validate(schema, parsed.value))


# --- display ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        (" ", {}),
        ("{", {}),
        ('{"a', {}),
        ('{"a": ', {}),
        ('{"a": "x', {"a": "x"}),
        ('{"a": "x\ny', {"a": "x\ny"}),
        ('{"a": "\\u00', {"a": ""}),
        ('{"a": [1, 2, oops', {"a": [1, 2, "oops"]}),
        ('{"a": -', {}),
        ('{"a": 1.', {}),
        ("{'a': 1.5", {"a": 1.5}),
        ('```json\n{"a": 1, "b": [true, fal', {"a": 1, "b": [True]}),
        ('{"a": 1} Here is why.', {"a": 1}),
        ('"{\\"a\\": \\"x', {"a": "x"}),
        ('{}{"a": 1', {"a": 1}),
        ("[1, 2", {}),
        ("maybe", {}),
        ("null", {}),
    ],
)
def test_value_of_truncated_text_is_the_received_part(text: str, expected: Any):
    assert parse_arguments(None, text).value == expected
    assert parse_arguments(None, text.encode()).value == expected


def test_find_json_start_and_parser_limits():
    assert find_json_start("see [1] ```json\n[1]\n```") == 16
    assert find_json_start("no") == -1
    assert repair_json("x") is None
    assert parse_relaxed("[" * (MAX_DEPTH + 1)).problem.startswith("nested deeper")
