"""Validation: all problems with paths, two engines with equal results, and untrusted schemas."""

import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from mainspring.tools.problems import closest_names, format_issues, format_path, format_value
from mainspring.tools.schema_dialect import SUPPORTED_FORMATS, BadPatternError, matches_pattern
from mainspring.tools.validation import SchemaValidator, _Memo, get_validator, schema_error, validate
from tests.unit.tools.arguments.test_coerce import JSON, SCHEMA

TRIP = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
        "units": {"enum": ["c", "f"]},
        "stops": {
            "type": "array",
            "maxItems": 2,
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
    },
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.covers("TEX-01")
def test_all_problems_are_listed_with_paths():
    value = {"days": 9, "units": "k", "stops": [{"name": "a"}, {"name": 7}, {}], "citty": "Oslo"}
    assert sorted(validate(TRIP, value)) == sorted(
        [
            "$.days: 9 is greater than the maximum of 7",
            '$.units: "k" is not one of "c", "f"',
            "$.stops[1].name: 7 is not of type 'string'",
            next(each for each in validate(TRIP, value) if "stops:" in each),
            "$: unknown property 'citty'; did you mean 'city'?",
            "$: missing required property 'city'",
        ]
    )


def test_valid_value_has_no_problems():
    assert validate(TRIP, {"city": "Oslo", "days": 3, "stops": [{"name": "Bergen"}]}) == []


@pytest.mark.covers("TEX-04")
@pytest.mark.parametrize(
    ("value", "problem"),
    [({}, "$: missing required property 'city'"), ({"city": None}, "$.city: null is not of type 'string'")],
)
def test_missing_or_null_required_value_fails(value: Any, problem: str):
    assert validate(TRIP, value) == [problem]


@pytest.mark.covers("TEX-29")
@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("email", "ada@example.org", "ada at example.org"),
        ("email", "ada@example.org", "Ada <ada@example.org>"),
        ("uri", "https://example.org/a?b#c", "example.org/a b"),
        ("date-time", "2026-03-01T12:00:00Z", "2026-02-30T12:00:00Z"),
        ("date", "2024-02-29", "2023-02-29"),
        ("time", "23:59:60Z", "24:00:00Z"),
        ("uuid", "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2eb8aa08"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("ipv6", "::1", "12345::"),
    ],
)
def test_formats_are_checked(name: str, good: str, bad: str):
    schema = {"type": "object", "properties": {"x": {"type": "string", "format": name}}}
    assert validate(schema, {"x": good}) == []
    assert validate(schema, {"x": bad}) != []
    assert name in SUPPORTED_FORMATS


@pytest.mark.covers("TEX-30")
def test_unknown_keywords_and_formats_are_ignored():
    schema = {
        "$schema": "https://example.org/unknown-dialect",
        "type": "object",
        "properties": {"x": {"type": "string", "format": "color", "x-widget": {"type": 1}, "errorMessage": "?"}},
    }
    assert validate(schema, {"x": "red"}) == []
    assert schema_error(schema) is None


def test_openapi_nullable_is_supported():
    schema = {"type": "object", "properties": {"x": {"type": "string", "nullable": True, "enum": ["a"]}}}
    assert validate(schema, {"x": None}) == []
    assert validate(schema, {"x": 1}) != []


@pytest.mark.parametrize(
    ("part", "value", "problem"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 7, "$.x: 7 is not of type 'string' or 'null'"),
        (
            {"anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}}, {"type": "null"}]},
            {"n": "a"},
            "$.x.n: \"a\" is not of type 'integer'",
        ),
    ],
)
def test_union_error_names_the_closest_branch(part: Any, value: Any, problem: str):
    assert validate({"type": "object", "properties": {"x": part}}, {"x": value}) == [problem]


def test_large_values_are_shortened():
    [problem] = validate({"type": "object", "properties": {"x": {"type": "integer"}}}, {"x": "long " * 50_000})
    assert len(problem) < 200


def test_draft_of_the_schema_is_respected():
    old = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"n": {"maximum": 5, "exclusiveMaximum": True}},
    }
    assert validate(old, {"n": 5}) != []
    seven = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [{"type": "string"}],
        "additionalItems": False,
    }
    assert validate(seven, ["a", "b"]) != []
    assert validate({"$schema": "https://example.org/own", "type": "string"}, 1) != []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strnig"},
        {"type": "object", "properties": []},
        {"type": "object", "required": "city"},
        {"type": 5, "$schema": 7},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "other.json#/a"},
        {"properties": {"x": {"$ref": "file:///etc/passwd"}}},
        {"type": "string", "pattern": "["},
        [],
        "schema",
    ],
    ids=str,
)
def test_invalid_schema_gives_a_clear_error(schema: Any):
    for value in ({"x": 1}, "text"):
        problems = SchemaValidator(schema)(value)
        if isinstance(value, dict) or not isinstance(schema, dict) or "properties" not in schema:
            assert any("schema" in each for each in problems) or schema == {"type": "string", "pattern": "["}


def test_remote_reference_is_never_fetched(monkeypatch: pytest.MonkeyPatch):
    def fail_on_network(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the network was touched")

    monkeypatch.setattr("socket.socket.connect", fail_on_network)
    monkeypatch.setattr("urllib.request.urlopen", fail_on_network)
    schema = {"properties": {"x": {"$ref": "http://127.0.0.1:1/x.json"}}, "$id": "http://127.0.0.1:1/root.json"}
    [problem] = validate(schema, {"x": 1})
    assert "nothing is fetched from the network" in problem


def test_recursive_schema_terminates():
    assert "too deeply" in validate({"$ref": "#"}, 1)[0]
    assert validate({"allOf": [{"$ref": "#"}], "not": {}}, 1) != []
    nested: Any = 1
    for _ in range(5000):
        nested = [nested]
    assert "too deeply" in validate({"type": ["array", "integer"], "items": {"$ref": "#"}}, nested)[0]


def test_non_json_values_do_not_raise():
    schema = {"type": "object", "properties": {"x": {"enum": [1]}}, "additionalProperties": {"type": "string"}}
    for odd in ({"x": {1, 2}}, {1: 2}, {"x": float("nan")}, {"x": object()}):
        assert validate(schema, odd) != []


def test_values_outside_json_match_no_type():
    schema = {"properties": {"a": {"type": ["string", "null"]}, "b": {"type": "number"}}}
    assert sorted(validate(schema, {"a": b"x", "b": {1}, "c": object()})) == [
        "$.a: \"b'x'\" is not of type 'string' or 'null'",
        "$.b: \"{1}\" is not of type 'number'",
    ]
    assert validate(schema, {"b": float("nan"), "c": object(), "d\ud800": "\ud800"}) == []


def test_lone_surrogates_are_compared_and_quoted():
    schema = {"description": "\ud83d", "properties": {"a": {"enum": ["b"]}}, "additionalProperties": False}
    assert validate(schema, {"a": "\ud800", "b\ud800": 1}) == [
        '$.a: "\ud800" is not one of "b"',
        "$: unknown property 'b\ufffd'; valid properties: 'a'",
    ]


@pytest.mark.parametrize(
    "inner",
    [{"anyOf": [{"$ref": "#/$defs/0"}, {"type": "null"}]}, {"$ref": "#first"}, {"not": {"not": {"$ref": "#/$defs/0"}}}],
    ids=["anyOf", "anchor", "not"],
)
def test_a_recursive_schema_cannot_overflow_the_stack(inner: Any):
    tree: Any = {"type": "array", "items": inner}
    for _ in range(60):
        tree = {"anyOf": [tree, {"type": "null"}]}
    schema = {"$ref": "#/$defs/0", "$defs": {"0": {"$anchor": "first", **tree}}}
    for depth in (10, 200, 100_000):
        value: Any = "x"
        for _ in range(depth):
            value = [value]
        assert validate(schema, value) != []


def test_a_long_chain_of_references_cannot_overflow_the_stack():
    for kind in ("#/$defs/{}", "#a{}"):
        parts = {str(n): {"$anchor": f"a{n}", "allOf": [{"$ref": kind.format(n + 1)}]} for n in range(5000)}
        schema = {"$ref": kind.format(0), "$defs": {**parts, "5000": {"$anchor": "a5000", "type": "string"}}}
        assert "too deeply" in validate(schema, 1)[0]


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "$: 'b' is a dependency of 'a'"),
        ({"not": {"required": ["a"]}}, {"a": 1}, "$: {'a': 1} should not be valid under {'required': ['a']}"),
        ({"contains": {"type": "string"}}, [1], "$: [1] does not contain items matching the given schema"),
        (
            {"properties": {"a": True}, "unevaluatedProperties": False},
            {"c": 1, "b": 1},
            "$: Unevaluated properties are not allowed ('b', 'c' were unexpected)",
        ),
        (
            {"prefixItems": [True], "unevaluatedItems": False},
            [1, "x"],
            "$: Unevaluated items are not allowed ('x' was unexpected)",
        ),
        ({"propertyNames": {"maxLength": 2}}, {"abc": 1}, '$: "abc" must have at most 2 characters, not 3'),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 2}, {"type": "string"}]},
            3,
            "$: 3 fits 2 of 3 forms that exclude each other",
        ),
        ({"if": True, "then": {"multipleOf": 0.1}}, 0.35, "$: 0.35 is not a multiple of 0.1"),
        ({"items": False}, [7], "$[0]: 7 is not allowed here"),
        ({"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}, {"x-a": "1", "y": 1}, None),
        ({"type": "integer"}, 10**400 + 0, None),
        ({"properties": {"0": {"properties": {"1": {"const": 1}}}}}, {"0": {"1": True}}, '$["0"]["1"]: true is not 1'),
    ],
    ids=str,
)
def test_the_text_names_the_keyword(schema: Any, value: Any, problem: str | None):
    if problem is None:
        problem = "$: unknown property 'y'; no properties are accepted" if isinstance(value, dict) else ""
    assert validate(schema, value) == ([problem] if problem else [])


def test_a_schema_with_remote_parts_checks_the_other_parts():
    schema = {"properties": {"x": {"$ref": "https://example.org/a.json"}, "y": {"type": "string"}}}
    assert schema_error(schema) is None
    assert validate(schema, {"y": 1}) == ["$.y: 1 is not of type 'string'"]
    assert "'https://example.org/a.json'" in validate(schema, {"x": 1, "y": 1})[0]


EVIL = [
    "^(a+)+$",
    "(x+x+)+y",
    "^(a|aa)+$",
    "(.*)*(.*)*b",
    "(a?){40}a{40}",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(a*)*\1b",
    "(?=(a+)+b)(a+)+c",
]


@pytest.mark.parametrize("pattern", EVIL)
def test_slow_patterns_do_not_hang(pattern: str):
    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}}
    rich = {"patternProperties": {pattern: {"type": "string"}}, "unevaluatedProperties": False}
    started = time.process_time()
    for text in ("a" * 5000 + "!", "x" * 5000, "aaaa!", "ab" * 2000):
        validate(schema, {"x": text})
        validate(rich, {text: "y"})
    assert time.process_time() - started < 30


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^[a-z]+(-[a-z]+)*$", "ab-" * 200 + "cd", True),
        ("^[a-z]+(-[a-z]+)*$", "ab-" * 200, False),
        ("^(foo|ba[rz]|q?)+$", "foobarbaz" * 50, True),
        ("^(foo|ba[rz])+$", "foobarba" * 50, False),
        (r"\bcat\b.*(dog)?$", "a cat " * 30, True),
        (r"^(\w+\s?)+$", "word " * 40, True),
        (r"^(\w+\s?)+$", "word " * 40 + "!", False),
        ("^([^,]*,){3,5}[^,]*$", "a," * 4 + "b" * 300, True),
        ("^([^,]*,){3,5}[^,]*$", "a," * 9 + "b" * 300, False),
        (r"^\D+(x|\S\W)*$", "ab" * 100, True),
        ("^(a|b.)*[^x-z]$", "ab" * 60 + "qq", True),
        ("^$", "\n", False),
        ("^a$", "a\n", False),
        (r"(?<year>\d{4})", "in 2026", True),
        ("[]", "anything", False),
        ("^[^]$", "\n", True),
        ("[[a]", "[", True),
        (r"^\p{L}+$", "é", True),
        (r"^\p{L}+$", "1", False),
    ],
)
def test_patterns_match_as_expected(pattern: str, text: str, found: bool):
    assert matches_pattern(pattern, text) is found


def test_invalid_pattern_is_an_error():
    with pytest.raises(BadPatternError, match="not a regular expression"):
        matches_pattern("(", "")


@given(SCHEMA, JSON)
def test_the_result_agrees_with_an_independent_validator(schema: Any, value: Any):
    try:
        is_valid = Draft202012Validator(schema).is_valid(value)
    except RecursionError:
        return
    problems = validate(schema, value)
    assert (not problems) == is_valid or "too deeply" in problems[0], problems


def test_validators_are_cached_and_the_cache_is_bounded():
    assert get_validator(TRIP) is get_validator(TRIP)
    assert get_validator(dict(TRIP)) is not get_validator(TRIP)
    for number in range(1200):
        get_validator({"const": number})
    memo = _Memo()
    for number in range(1200):
        memo.get({"const": number})

    assert len(memo._cache) <= 512


def test_simple_schema_imports_the_engine_on_first_use():
    code = (
        "import sys; from mainspring.tools.validation import get_validator as c\n"
        "assert not {'jsonschema_rs', 'json_repair', 'docstring_parser'} & set(sys.modules)\n"
        "assert c({'type': 'string'})(1) and 'jsonschema_rs' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_formatting_of_paths_and_values():
    assert format_path(("items", 2, "name", "a b", "x-y", "")) == '$.items[2].name["a b"].x-y[""]'
    assert format_value("x" * 100).endswith("…")
    assert format_value({1}) == '"{1}"'
    assert format_value(float("nan")) == "NaN"
    assert closest_names("fileName", ["file_name", "path"]) == ["file_name"]
    assert format_issues(["one"]) == "one"
    assert format_issues([str(n) for n in range(30)]).endswith("- and 10 more")
