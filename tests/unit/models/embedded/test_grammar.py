"""The output format of a call or an answer: its schema, and a parser that does not depend on chunk boundaries."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, strategies as st

from mainspring.models.embedded.grammar import (
    AnswerDelta,
    ArgumentsDelta,
    CallStart,
    Piece,
    TurnParser,
    encode_answer,
    encode_call,
    simplify_schema,
    turn_schema,
)

pytestmark = pytest.mark.covers("PRV-38")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
calls = st.builds(
    lambda name, given, indent: (name, given, json.dumps({"tool": name, "args": given}, indent=indent)),
    st.text(min_size=1),
    st.dictionaries(st.text(), values, max_size=3),
    st.sampled_from([None, 2]),
)
answers = st.builds(
    lambda text, ascii: (text, json.dumps({"answer": text}, ensure_ascii=ascii)), st.text(), st.booleans()
)


def parse(text: str, cuts: list[int] | None = None) -> list[Piece]:
    """Return all pieces, with adjacent pieces of the same kind joined."""
    reader, found, begin = TurnParser(), list[Piece](), 0
    for end in [*sorted(cuts or []), len(text)]:
        found += reader.feed(text[begin:end])
        begin = end
    joined: list[Piece] = []
    for piece in found:
        last = joined[-1] if joined else None
        if isinstance(last, AnswerDelta) and isinstance(piece, AnswerDelta):
            joined[-1] = AnswerDelta(last.text + piece.text)
        elif isinstance(last, ArgumentsDelta) and isinstance(piece, ArgumentsDelta):
            joined[-1] = ArgumentsDelta(last.text + piece.text)
        else:
            joined.append(piece)
    return joined


@given(answers)
def test_answer_is_decoded(case: tuple[str, str]) -> None:
    text, written = case
    assert "".join(p.text for p in parse(written) if isinstance(p, AnswerDelta)) == text


@given(calls)
def test_call_is_parsed_with_its_arguments(case: tuple[str, dict[str, Any], str]) -> None:
    name, given_arguments, written = case
    start, text = parse(written)
    assert start == CallStart(name)
    assert isinstance(text, ArgumentsDelta)
    assert json.loads(text.text) == given_arguments


@given(
    st.one_of(calls.map(lambda c: c[2]), answers.map(lambda a: a[1]), st.text(), st.text('{}[]",:\\u0dD89 a')),
    st.data(),
)
def test_chunk_boundaries_do_not_change_the_result(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=len(text)))
    assert parse(text, cuts) == parse(text)


@given(st.text('{}[]",:\\u0dD89 atools', max_size=60))
def test_parser_accepts_any_text(text: str) -> None:
    parse('{"' + text)


def test_text_is_returned_immediately_if_it_is_complete() -> None:
    reader = TurnParser()
    assert reader.feed('{"answer": "He') == [AnswerDelta("He")]
    assert reader.feed("llo\\") == [AnswerDelta("llo")]
    assert reader.feed("n\\ud83d") == [AnswerDelta("\n")]
    assert reader.feed('\\ude00!"}') == [AnswerDelta("\U0001f600!")]


def test_plain_prose_is_an_answer_and_unknown_keys_are_skipped() -> None:
    assert parse(" Hello {") == [AnswerDelta("Hello {")]
    assert parse('{"why": {"a": ["}"]}, "answer": "x"}') == [AnswerDelta("x")]


def test_structured_answer_is_returned_as_json() -> None:
    assert parse('{"answer": {"a": [1, "}"]}}') == [AnswerDelta('{"a": [1, "}"]}')]


def test_lone_surrogate_is_replaced() -> None:
    assert parse('{"answer": "\\ud800 x"}') == [AnswerDelta("\ufffd x")]


PATH = {"type": "object", "properties": {"path": {"type": "string", "minLength": 1}}, "required": ["path"]}


@pytest.mark.parametrize(
    ("turn", "is_valid"),
    [
        (encode_call("read_file", {"path": "a"}), True),
        (encode_answer("yes"), True),
        (encode_call("read_file", {}), False),
        (encode_call("rm", {"path": "a"}), False),
        ('{"tool": "read_file", "args": {"path": "a"}, "answer": "x"}', False),
    ],
)
def test_turn_schema_allows_one_call_or_one_answer(turn: str, is_valid: bool) -> None:
    schema = turn_schema({"read_file": PATH}, {"type": "string"})
    assert jsonschema.Draft202012Validator(schema).is_valid(json.loads(turn)) is is_valid


def test_turn_schema_can_allow_only_calls_or_only_an_answer() -> None:
    assert "anyOf" not in turn_schema({"read_file": PATH}, None)
    assert list(turn_schema({}, {"type": "string"})["properties"]) == ["answer"]


def test_simplify_schema_inlines_references_and_stops_at_cycles() -> None:
    schema = {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/node"}, "kind": {"oneOf": [{"const": "a"}, {"type": "null"}]}},
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "title": "Node"}},
    }
    simplified = simplify_schema(schema)
    assert "$ref" not in json.dumps(simplified)
    assert "title" not in json.dumps(simplified)
    assert simplified["properties"]["kind"] == {"anyOf": [{"const": "a"}, {"type": "null"}]}
    assert simplify_schema({"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}}) == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }
