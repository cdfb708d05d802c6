"""The union of call and answer: its schema, and the reader that must not care how the text is cut."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def read(text: str, cuts: list[int] | None = None) -> list[Piece]:
    """All pieces, with neighbours of a kind joined."""
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
def test_an_answer_comes_out_decoded(case: tuple[str, str]) -> None:
    text, written = case
    assert "".join(p.text for p in read(written) if isinstance(p, AnswerDelta)) == text


@given(calls)
def test_a_call_comes_out_with_its_arguments(case: tuple[str, dict[str, Any], str]) -> None:
    name, given_arguments, written = case
    start, text = read(written)
    assert start == CallStart(name)
    assert isinstance(text, ArgumentsDelta)
    assert json.loads(text.text) == given_arguments


@given(
    st.one_of(calls.map(lambda c: c[2]), answers.map(lambda a: a[1]), st.text(), st.text('{}[]",:\\u0dD89 a')),
    st.data(),
)
def test_where_it_is_cut_makes_no_difference(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=len(text)))
    assert read(text, cuts) == read(text)


@given(st.text('{}[]",:\\u0dD89 atools', max_size=60))
def test_nothing_a_model_writes_breaks_it(text: str) -> None:
    read('{"' + text)


def test_text_comes_out_as_soon_as_it_is_certain() -> None:
    reader = TurnParser()
    assert reader.feed('{"answer": "He') == [AnswerDelta("He")]
    assert reader.feed("llo\\") == [AnswerDelta("llo")]
    assert reader.feed("n\\ud83d") == [AnswerDelta("\n")]
    assert reader.feed('\\ude00!"}') == [AnswerDelta("\U0001f600!")]


def test_prose_is_an_answer_and_other_keys_are_skipped() -> None:
    assert read(" Hello {") == [AnswerDelta("Hello {")]
    assert read('{"why": {"a": ["}"]}, "answer": "x"}') == [AnswerDelta("x")]


def test_a_structured_answer_is_passed_on_as_json() -> None:
    assert read('{"answer": {"a": [1, "}"]}}') == [AnswerDelta('{"a": [1, "}"]}')]


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    assert read('{"answer": "\\ud800 x"}') == [AnswerDelta("\ufffd x")]


PATH = {"type": "object", "properties": {"path": {"type": "string", "minLength": 1}}, "required": ["path"]}


@pytest.mark.parametrize(
    ("turn", "fits"),
    [
        (encode_call("read_file", {"path": "a"}), True),
        (encode_answer("yes"), True),
        (encode_call("read_file", {}), False),
        (encode_call("rm", {"path": "a"}), False),
        ('{"tool": "read_file", "args": {"path": "a"}, "answer": "x"}', False),
    ],
)
def test_the_schema_allows_one_call_or_one_answer(turn: str, fits: bool) -> None:
    schema = turn_schema({"read_file": PATH}, {"type": "string"})
    assert jsonschema.Draft202012Validator(schema).is_valid(json.loads(turn)) is fits


def test_only_calls_or_only_an_answer() -> None:
    assert "anyOf" not in turn_schema({"read_file": PATH}, None)
    assert list(turn_schema({}, {"type": "string"})["properties"]) == ["answer"]


def test_lowering_writes_references_out_and_ends_where_they_turn_in_circles() -> None:
    schema = {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/node"}, "kind": {"oneOf": [{"const": "a"}, {"type": "null"}]}},
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "title": "Node"}},
    }
    lowered = simplify_schema(schema)
    assert "$ref" not in json.dumps(lowered)
    assert "title" not in json.dumps(lowered)
    assert lowered["properties"]["kind"] == {"anyOf": [{"const": "a"}, {"type": "null"}]}
    assert simplify_schema({"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}}) == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }
