"""Every event survives the wire, except for what only listeners in the process get."""

import json
from datetime import UTC, datetime
from typing import Any, get_args, get_type_hints

import jsonschema_rs
import pytest
from hypothesis import given, settings, strategies as st
from msgspec import structs

from mainspring.errors import AgentProviderError, RateLimitedError
from mainspring.events import (
    AgentEnd,
    Envelope,
    ErrorInfo,
    Event,
    RunEvent,
    SubagentEvent,
    SubagentStats,
    TextDelta,
    TextStart,
    UnknownEventError,
    decode,
    encode,
    schema,
)
from mainspring.messages import AgentMessage, Message, TextBlock, ToolResultBlock, ToolUseBlock, Usage
from mainspring.models.message_builder import MessageBuilder

KINDS: tuple[type[Event], ...] = get_args(RunEvent)
SCHEMA = jsonschema_rs.validator_for(json.loads(schema(RunEvent, "events")))

_VALUES: dict[Any, st.SearchStrategy[Any]] = {
    Any: st.none() | st.integers(-9, 9) | st.text(max_size=5),
    AgentMessage: st.builds(Message, st.just("user"), st.tuples(st.builds(TextBlock, st.text(max_size=5)))),
    Message: st.builds(Message, st.just("assistant"), st.tuples(st.builds(TextBlock, st.text(max_size=5)))),
    ToolUseBlock: st.builds(ToolUseBlock, st.text(max_size=5), st.text(max_size=5)),
    ToolResultBlock: st.builds(ToolResultBlock, st.text(max_size=5), st.text(max_size=5), st.text(max_size=5)),
    Usage: st.builds(Usage, st.integers(0, 9), st.integers(0, 9)),
    SubagentStats: st.builds(
        SubagentStats, child_id=st.text(), child=st.text(), depth=st.just(1), status=st.just("error")
    ),
    float: st.floats(allow_nan=False, allow_infinity=False),
    RunEvent: st.builds(TextDelta, st.integers(0, 9), st.text(max_size=5)),
}


def _value(kind: Any) -> st.SearchStrategy[Any]:
    if kind in _VALUES:
        return _VALUES[kind]
    if isinstance(kind, type) and hasattr(kind, "__struct_fields__"):
        return _build(kind)
    return st.from_type(kind)


def _build(kind: type[Any]) -> st.SearchStrategy[Any]:
    hidden = getattr(kind, "in_process", ())
    hints = get_type_hints(kind)
    return st.builds(kind, **{f.name: _field(hints[f.name]) for f in structs.fields(kind) if f.name not in hidden})


def _field(hint: Any) -> st.SearchStrategy[Any]:
    if hint in _VALUES:
        return _VALUES[hint]
    arguments = get_args(hint)
    if type(None) in arguments:
        return st.none() | st.one_of(*(_value(a) for a in arguments if a is not type(None)))
    if getattr(hint, "__origin__", None) is tuple:
        return st.lists(_value(arguments[0]), max_size=2).map(tuple)
    if getattr(hint, "__origin__", None) is dict:
        return st.dictionaries(st.text(max_size=3), _value(arguments[1]), max_size=2)
    return _value(hint)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.type)
@settings(max_examples=8)
@given(data=st.data())
def test_event_survives_the_wire_and_fits_the_schema(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(_build(kind))
    line = encode(event)
    assert b"\n" not in line
    copy = decode(line)
    assert type(copy) is kind
    assert encode(copy) == line
    assert repr(copy) == repr(event)
    SCHEMA.validate(json.loads(line))


def test_names_are_unique_and_in_snake_case() -> None:
    names = [str(kind.type) for kind in KINDS]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").isalpha() and name.islower() for name in names)


def test_draft_and_exception_stay_in_the_process() -> None:
    draft = MessageBuilder()
    draft.open_text()
    event = draft.text(0, "Hi")
    assert event.partial.text == "Hi"
    assert json.loads(encode(event)) == {"type": "text_delta", "index": 0, "text": "Hi"}
    nested = SubagentEvent(("a", "b"), event)
    assert json.loads(encode(Envelope(1, datetime.now(UTC), nested)))["event"]["event"] == json.loads(encode(event))
    assert event.partial.text == "Hi", "the event itself is unchanged"
    end = AgentEnd("r", (), "error", error=ErrorInfo(type="E", message="m"), exception=ValueError("m"))
    assert json.loads(encode(end)) == {
        "type": "agent_end", "run_id": "r", "messages": [], "status": "error", "error": {"type": "E", "message": "m"},
    }  # fmt: skip


def test_error_info_describes_the_failed_model_call_behind_an_error() -> None:
    cause = RateLimitedError("slow down", reason="quota", retry_after=3.5, status=429, provider="p", model="m")
    info = ErrorInfo.from_exception(AgentProviderError("The model failed", cause=cause))
    assert info == ErrorInfo(
        type="RateLimitedError",
        message="The model failed",
        code="RATE_LIMITED",
        reason="quota",
        retryable=True,
        retry_after=3.5,
        status=429,
        provider="p",
        model="m",
    )
    assert ErrorInfo.from_exception(ValueError("no")) == ErrorInfo(type="ValueError", message="no")
    assert ErrorInfo.from_exception(ValueError("no"), "hidden").message == "hidden"


def test_values_that_json_cannot_represent_become_text() -> None:
    assert json.loads(encode(TextDelta(0, "a\ud800b")))["text"] == "a\ufffdb"


@pytest.mark.parametrize("line", [b'{"type":"event_of_2031"}', b"{", b'{"index":1}', b'{"type":"text_delta"}'])
def test_unknown_event_is_a_clear_error(line: bytes) -> None:
    with pytest.raises(UnknownEventError, match="Not an event that this version knows"):
        decode(line)


def test_schema_does_not_mention_in_process_fields() -> None:
    definitions = json.loads(schema(RunEvent, "Events, version 1", "All events."))
    assert (definitions["title"], definitions["description"]) == ("Events, version 1", "All events.")
    assert set(definitions["$defs"][TextStart.__name__]["properties"]) == {"type", "index"}
    assert "exception" not in definitions["$defs"]["ModelCallRetry"]["properties"]
