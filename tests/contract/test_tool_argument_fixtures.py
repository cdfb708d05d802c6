"""Tool arguments of real models and servers, real tool schemas, and the public JSON Schema test suite.

Our own cases are in the fixtures folder. The larger collections are next to the checkout; without them those tests are skipped.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from mainspring.tools.arguments.coerce import coerce
from mainspring.tools.arguments.parse import parse_arguments
from mainspring.tools.validation import SchemaValidator, schema_error, validate
from tests.requires import skip_missing

FIXTURE = Path(__file__).parent / "fixtures" / "tool_arguments.jsonl"


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


@pytest.mark.parametrize("case", read_lines(FIXTURE), ids=lambda case: case["id"])
def test_fixture_arguments_parse_as_expected(case: dict[str, Any]):
    parsed = parse_arguments({"type": "object"}, case["raw"])
    if "value" in case:
        assert parsed.value == case["value"]
    assert parsed.truncated is case.get("truncated", False)
    if parsed.truncated:
        assert "cut off" in (parsed.error or "")
    elif "error" in case:
        assert case["error"] in (parsed.error or "")
    else:
        assert parsed.error is None
        assert parsed.repaired is case.get("repaired", True)


# --- the collection of real cases -------------------------------------------------------------------------------------

# The expected values come from a repair library. Ours differ on purpose:
KEPT_NEWLINES = {"s139", "s153", "s180", "s184", "s189", "s212"}
"""A string loses its final line break there. A file without its last newline is damaged, so the newline stays."""

CUT_AND_STRAY = {"s098", "s104"}
"""Truncated texts, which never run; the received part is shown unchanged, without guesses."""

GUESSED = {"s013", "s018"}
"""Truncated texts, which never run; the value for display has one more guess."""


@pytest.fixture(scope="module")
def cases(material: Path) -> list[dict[str, Any]]:
    path = material / "tool-args" / "cases.jsonl"
    if not path.is_file():
        skip_missing("tool arguments in the collection")
    return read_lines(path)


def test_collected_arguments_are_repaired(cases: list[dict[str, Any]]):
    differing = {
        case["id"]
        for case in cases
        if case["kind"] == "repair" and parse_arguments(None, case["raw_arguments"]).value != case["expected"]["value"]
    }
    assert differing == KEPT_NEWLINES | CUT_AND_STRAY


def test_collected_arguments_parse_or_have_an_error(cases: list[dict[str, Any]]):
    for case in cases:
        parsed = parse_arguments(None, case["raw_arguments"])
        if case["kind"] == "repair":
            assert (parsed.error is None) is not parsed.truncated, case
        if "unclosed" not in case["features"] and case["kind"] == "repair" and not parsed.truncated:
            assert parsed.error is None, case


def test_kept_newlines_are_the_only_difference(cases: list[dict[str, Any]]):
    def strip(value: Any) -> Any:
        return {key: item.rstrip() if isinstance(item, str) else item for key, item in value.items()}

    for case in cases:
        if case["id"] in KEPT_NEWLINES:
            assert strip(parse_arguments(None, case["raw_arguments"]).value) == case["expected"]["value"]


def test_collected_partial_streams_parse(cases: list[dict[str, Any]]):
    streams = [case for case in cases if case["kind"] == "partial_stream"]
    for case in streams:
        parsed = parse_arguments(None, case["raw_arguments"])
        assert parsed.truncated is (not case["raw_arguments"].endswith("Here is why."))
        assert parsed.value == case["expected"]["value"] or case["id"] in GUESSED


def test_collected_invalid_arguments_are_rejected(cases: list[dict[str, Any]]):
    for case in cases:
        if case["kind"] in {"reject_or_tolerate", "provider_failed_generation"}:
            assert parse_arguments(case["schema"], case["raw_arguments"]).error, case


def test_no_prefix_of_valid_arguments_is_accepted(cases: list[dict[str, Any]]):
    """Every valid JSON text, truncated at every position."""
    for case in cases:
        text = case["raw_arguments"]
        parsed = parse_arguments(None, text)
        if parsed.error is None and not parsed.repaired:
            for end in range(1, len(text.rstrip())):
                assert parse_arguments(None, text[:end]).error, text[:end]


# --- real tool schemas ------------------------------------------------------------------------------------------------


def test_real_tool_schemas_agree_with_an_independent_validator(material: Path):
    count = 0
    for path in sorted((material / "mcp" / "tools").glob("*.json")):
        for tool in json.loads(path.read_text(encoding="utf-8"))["tools"]:
            count += 1
            schema = tool["inputSchema"]
            assert schema_error(schema) is None, tool["name"]
            reference = validator_for(schema, default=Draft202012Validator)(schema)
            for value in ({}, dict.fromkeys(schema.get("properties", {}), "1")):
                problems = [each for each in validate(schema, value) if "is not a valid" not in each]  # formats
                assert (not problems) == reference.is_valid(value), tool["name"]
                coerce(schema, value)
    assert count > 200


# --- the JSON Schema test suite ---------------------------------------------------------------------------------------

SCHEMAS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}
# format.json expects unchecked formats; the others need schemas from a server.
LEFT_OUT = {"format.json", "refRemote.json", "vocabulary.json"}
NEEDS_A_SERVER = (
    "strict-tree schema",
    "tests for implementation dynamic anchor",
    "$ref and $dynamicAnchor are independent",
    "$ref to $dynamicRef finds detached",
)
FORMATS = ("date", "date-time", "email", "ipv4", "uri", "uuid")


def load_suite(material: Path, draft: str) -> list[tuple[str, dict[str, Any]]]:
    folder = material / "json-schema-test-suite" / "tests" / draft
    paths = [each for each in sorted(folder.glob("*.json")) if each.name not in LEFT_OUT]
    paths += [folder / "optional" / "format" / f"{name}.json" for name in FORMATS]
    return [(p.stem, group) for p in paths if p.is_file() for group in json.loads(p.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("draft", SCHEMAS)
def test_json_schema_suite_passes(material: Path, draft: str):
    count = 0
    for name, group in load_suite(material, draft):
        schema = group["schema"]
        if isinstance(schema, dict):
            schema = {"$schema": SCHEMAS[draft], **schema}
        if group["description"].startswith(NEEDS_A_SERVER):
            continue
        validator = SchemaValidator(schema)
        for test in group["tests"]:
            count += 1
            description = f"{name}: {group['description']}: {test['description']}"
            assert (not validator(test["data"])) == test["valid"], description
    assert count > 500


def test_remote_references_stay_unresolved(material: Path):
    for draft in SCHEMAS:
        path = material / "json-schema-test-suite" / "tests" / draft / "refRemote.json"
        for group in json.loads(path.read_text(encoding="utf-8")):
            for test in group["tests"]:
                assert "cannot be resolved" in " ".join(validate(group["schema"], test["data"]))
