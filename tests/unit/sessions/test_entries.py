"""Encoding of session entries on disk."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from mainspring.messages import CustomMessage, Message, TextBlock, ToolResultBlock, ToolUseBlock, Usage, encode_message
from mainspring.sessions import (
    BranchEntry,
    CallStartedEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    IntentEntry,
    Kept,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    PairEntry,
    PauseEntry,
    ResultEntry,
    RunEndEntry,
    RunStartEntry,
    SessionEntry,
    decode_entry,
    encode_entry,
    entry_schema,
)
from mainspring.sessions.entries import ENTRY_TYPES, decode_header

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
USER = Message.user("hi", timestamp=NOW, id="m1")
ASKING = Message.assistant([TextBlock("I look"), ToolUseBlock("c", "look", {"snake_key": 1})], timestamp=NOW, id="m2")


def make_entry(kind: type[Any], **fields: Any) -> Any:
    return kind(id="e1", parent="e0", timestamp=NOW, **fields)


ALL: list[Entry] = [
    make_entry(SessionEntry, version=1, cwd="/work", title="t", forked_from="s0"),
    make_entry(MessageEntry, message=USER, source="prompt", run="r"),
    make_entry(MessageEntry, message=CustomMessage("note", [1, {"a": None}], timestamp=NOW), source="synthetic"),
    make_entry(RunStartEntry, run="r", agent="a", resumed=True, pid=7, host="h"),
    make_entry(RunEndEntry, run="r", status="completed", turns=2, usage=Usage(1, 2), first="e1", last="e2", error="E: x"),
    make_entry(IntentEntry, message=ASKING, run="r"),
    make_entry(CallStartedEntry, intent="e1", call="c", tool="look", idempotent=False, input={"snake_key": 2}),
    make_entry(ResultEntry, intent="e1", call="c", result=ToolResultBlock("c", "look", "x", True, {"k": 1}), seconds=0.5, repaired=True),
    make_entry(PairEntry, intent="e1", results=("e2",), message="m3", repaired=True),
    make_entry(PauseEntry, intent="e1", reasons={"c": "may I?"}),
    make_entry(CompactionEntry, history=(Kept("e1"), USER, CustomMessage("note", timestamp=NOW)), reason="overflow"),
    make_entry(BranchEntry, label="l", left="e9"),
    make_entry(LabelEntry, target="e1", label="here"),
    make_entry(ModelChangeEntry, model="openai:gpt-5-mini", thinking="low"),
    make_entry(CustomEntry, custom_type="mine", data={"snake_key": [1.5, None]}),
]  # fmt: skip
NAMES = [f"{number}-{type(entry).__name__}" for number, entry in enumerate(ALL)]


@pytest.mark.covers("SES-10", "SES-11")
@pytest.mark.parametrize("entry", ALL, ids=NAMES)
def test_entry_round_trip(entry: Entry) -> None:
    line = encode_entry(entry)
    assert b"\n" not in line
    assert encode_entry(decode_entry(line)) == line
    data = json.loads(line)
    assert list(data)[:4] == ["type", "id", "parent", "timestamp"]
    assert (data["id"], data["parent"], data["timestamp"]) == ("e1", "e0", "2026-01-02T03:04:05.678901Z")
    assert not [key for key in data if "_" in key]
    link = decode_header(line)
    assert (link.type, link.id, link.parent) == (data["type"], "e1", "e0")


def test_entry_types_are_those_of_version_1() -> None:
    assert {decode_header(encode_entry(e)).type for e in ALL} == ENTRY_TYPES == {
        "session", "message", "run_start", "run_end", "intent", "call_started", "result", "pair", "pause", "compaction",
        "branch", "label", "model_change", "custom",
    }  # fmt: skip


def test_message_in_an_entry_uses_the_common_encoding() -> None:
    line = encode_entry(make_entry(MessageEntry, message=USER, source="prompt"))
    assert encode_message(USER) in line


def test_unknown_field_of_a_newer_version_is_ignored() -> None:
    data = {**json.loads(encode_entry(make_entry(LabelEntry, target="e1", label="x"))), "newField": {"a": 1}}
    assert decode_entry(json.dumps(data).encode()) is not None
    assert decode_header(b'{"type":"newType","id":"e1","parent":null,"x":[]}').type == "newType"
    with pytest.raises(msgspec.ValidationError):
        decode_entry(b'{"type":"newType","id":"e1","parent":null}')


class NotJson:
    """A value that cannot be encoded as JSON."""

    def __str__(self) -> str:
        return "an odd thing"


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"path": Path("/x"), "odd": NotJson()}, {"path": "/x", "odd": "an odd thing"}),
        ({"set": {1}, 2: "key"}, {"set": [1], "2": "key"}),
        ({("a", 1): "key"}, None),
        ({"big": 1 << 80, "nested": [1 << 70]}, {"big": str(1 << 80), "nested": [str(1 << 70)]}),
        ({"bytes": b"x", "half": "\ud800", "nan": float("nan")}, {"bytes": "eA==", "half": "\ufffd", "nan": None}),
        (NotJson(), "an odd thing"),
    ],
)
def test_details_of_any_type_can_be_stored(details: Any, expected: Any) -> None:
    block = ToolResultBlock("c", "look", "\udc80 text", details=details)
    entry = decode_entry(encode_entry(make_entry(ResultEntry, intent="e1", call="c", result=block)))
    assert isinstance(entry, ResultEntry)
    assert entry.result.content == "\ufffd text"
    assert expected is None or entry.result.details == expected


def test_circular_details_are_left_out() -> None:
    details: dict[str, Any] = {}
    details["self"] = details
    entry = decode_entry(
        encode_entry(make_entry(ResultEntry, intent="e1", call="c", result=ToolResultBlock("c", details=details)))
    )
    assert isinstance(entry, ResultEntry)
    assert "contains itself" in entry.result.details
    with pytest.raises(RecursionError):
        encode_entry(make_entry(CustomEntry, custom_type="mine", data=details))


def test_published_schema_is_up_to_date(repository: Path) -> None:
    """Regenerate the schema with: python -m tests.unit.sessions.test_entries"""
    published = (repository / "docs" / "session-v1.schema.json").read_text("utf-8")
    assert json.loads(published) == json.loads(json.dumps(entry_schema()))


@pytest.mark.parametrize("entry", ALL, ids=NAMES)
def test_every_entry_matches_the_published_schema(entry: Entry) -> None:
    Draft202012Validator(entry_schema()).validate(json.loads(encode_entry(entry)))


if __name__ == "__main__":
    target = Path(__file__).resolve().parents[3] / "docs" / "session-v1.schema.json"
    target.write_text(json.dumps(entry_schema(), indent=2) + "\n", "utf-8")
