"""Validation: all problems with paths, two engines with equal results, and untrusted schemas."""

import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.tools.assertions import SUPPORTED_FORMATS
from mainspring.tools.checks import compile_plain
from mainspring.tools.patterns import BadPatternError, compile_pattern, max_safe_length
from mainspring.tools.problems import closest_names, format_issues, format_path, format_value
from mainspring.tools.validation import SchemaValidator, _FullSchema, _Memo, get_validator, schema_error, validate
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


def require_full_validator(schema: dict[str, Any]) -> dict[str, Any]:
    """Add a keyword that only the full validator supports."""
    return {**schema, "dependentRequired": {}}


ENGINES = pytest.mark.parametrize("variant", [dict, require_full_validator], ids=["plain", "full"])


@pytest.mark.covers("TEX-01")
@ENGINES
def test_all_problems_are_listed_with_paths(variant: Any):
    value = {"days": 9, "units": "k", "stops": [{"name": "a"}, {"name": 7}, {}], "citty": "Oslo"}
    assert sorted(validate(variant(TRIP), value)) == sorted(
        [
            "$.days: 9 is greater than the maximum of 7",
            '$.units: "k" is not one of "c", "f"',
            "$.stops[1].name: 7 is not of type 'string'",
            next(each for each in validate(variant(TRIP), value) if "stops:" in each),
            "$: unknown property 'citty'; did you mean 'city'?",
            "$: missing required property 'city'",
        ]
    )


@ENGINES
def test_valid_value_has_no_problems(variant: Any):
    assert validate(variant(TRIP), {"city": "Oslo", "days": 3, "stops": [{"name": "Bergen"}]}) == []


@pytest.mark.covers("TEX-04")
@ENGINES
@pytest.mark.parametrize(
    ("value", "problem"),
    [({}, "$: missing required property 'city'"), ({"city": None}, "$.city: null is not of type 'string'")],
)
def test_missing_or_null_required_value_fails(variant: Any, value: Any, problem: str):
    assert validate(variant(TRIP), value) == [problem]


@pytest.mark.covers("TEX-29")
@ENGINES
@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("email", "ada@example.org", "ada at example.org"),
        ("uri", "https://example.org/a?b#c", "example.org/a b"),
        ("date-time", "2026-03-01T12:00:00Z", "2026-02-30T12:00:00Z"),
        ("date", "2024-02-29", "2023-02-29"),
        ("time", "23:59:60Z", "24:00:00Z"),
        ("uuid", "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2eb8aa08"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("ipv6", "::1", "12345::"),
    ],
)
def test_formats_are_checked(variant: Any, name: str, good: str, bad: str):
    schema = variant({"type": "object", "properties": {"x": {"type": "string", "format": name}}})
    assert validate(schema, {"x": good}) == []
    assert validate(schema, {"x": bad}) != []
    assert name in SUPPORTED_FORMATS


@pytest.mark.covers("TEX-30")
@ENGINES
def test_unknown_keywords_and_formats_are_ignored(variant: Any):
    schema = variant(
        {
            "type": "object",
            "properties": {"x": {"type": "string", "format": "color", "x-widget": {"type": 1}, "errorMessage": "?"}},
        }
    )
    assert validate(schema, {"x": "red"}) == []
    assert schema_error(schema) is None


@ENGINES
def test_openapi_nullable_is_supported(variant: Any):
    schema = variant({"type": "object", "properties": {"x": {"type": "string", "nullable": True, "enum": ["a"]}}})
    assert validate(schema, {"x": None}) == []
    assert validate(schema, {"x": 1}) != []


@ENGINES
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
def test_union_error_names_the_closest_branch(variant: Any, part: Any, value: Any, problem: str):
    assert validate(variant({"type": "object", "properties": {"x": part}}), {"x": value}) == [problem]


@ENGINES
def test_large_values_are_shortened(variant: Any):
    [problem] = validate(variant({"type": "object", "properties": {"x": {"type": "integer"}}}), {"x": "long " * 50_000})
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


@ENGINES
def test_non_json_values_do_not_raise(variant: Any):
    schema = variant({"type": "object", "properties": {"x": {"enum": [1]}}, "additionalProperties": {"type": "string"}})
    for invalid_value in ({"x": {1, 2}}, {1: 2}, {"x": float("nan")}, {"x": object()}):
        assert validate(schema, invalid_value) != []


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
    started = time.perf_counter()
    for text in ("a" * 5000 + "!", "x" * 5000, "aaaa!", "ab" * 2000):
        validate(schema, {"x": text})
        validate(rich, {text: "y"})
    assert time.perf_counter() - started < 10


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
        (r"^\p{L}+$", "1", True),
    ],
)
def test_patterns_behave_the_same_in_both_engines(pattern: str, text: str, found: bool):
    assert compile_pattern(pattern)(text) is found


def test_invalid_pattern_is_an_error():
    with pytest.raises(BadPatternError, match="not a regular expression"):
        compile_pattern("(")
    assert max_safe_length("(") == -1
    assert max_safe_length("^[a-z]{3}$") > 10_000


@given(st.text("ab-", max_size=30))
def test_pattern_simulation_agrees_with_re(text: str):
    import re

    for pattern in ("^(a+b?)+(-[ab]+)*$", "(aa|ab|-)+a$", "^(a?b?){3}-*$", r"(\w+-)+\w$"):
        assert compile_pattern(pattern)(text) is (re.search(pattern.replace("$", r"\Z"), text) is not None)


@given(SCHEMA, JSON)
def test_both_engines_agree(schema: Any, value: Any):
    plain = compile_plain(schema)
    if plain is None:
        return
    try:
        ours = not plain.root_check(value)
    except RecursionError:
        return
    full = _FullSchema(schema)
    assert ours == (not full.check(value)), (plain.root_check(value), full.check(value))


def test_validators_are_cached_and_the_cache_is_bounded():
    assert get_validator(TRIP) is get_validator(TRIP)
    assert get_validator(dict(TRIP)) is not get_validator(TRIP)
    for number in range(1200):
        get_validator({"const": number})
    memo = _Memo()
    for number in range(1200):
        memo.get({"const": number})

    assert len(memo._cache) <= 512


def test_simple_schema_does_not_import_jsonschema():
    code = (
        "import sys; from mainspring.tools.validation import get_validator as c\n"
        "s = {'type': 'object', 'properties': {'x': {'anyOf': [{'$ref': '#/$defs/a'}, {'type': 'null'}]}}, '$defs': {'a': {'type': 'string', 'format': 'uri'}}}\n"
        "assert c(s)({'x': 1}) and not c(s)({'x': 'a:b'})\n"
        "assert not {'jsonschema', 'referencing', 'json_repair', 'jiter', 'docstring_parser'} & set(sys.modules)"
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
