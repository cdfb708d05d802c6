"""The message builder: cheap while the message grows, and correct whenever it is read."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring.events import TextDelta
from mainspring.messages import Message, RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolUseBlock
from mainspring.models.message_builder import MessageBuilder, parse_call


@pytest.mark.covers("STR-04", "STR-05", "STR-06", "STR-07", "STR-08", "STR-10", "MSG-03")
def test_events_contain_the_partial_message_of_their_moment() -> None:
    draft = MessageBuilder("p", "m")
    events: list[Any] = [draft.start(), draft.open_thinking(), draft.thinking(0, "hm"), draft.close_thinking(0, "sig")]
    events += [draft.open_text(), draft.text(1, "He"), draft.open_call("c1", "look"), draft.arguments(2, '{"a":')]
    events += [draft.text(1, "llo"), draft.arguments(2, "1}"), draft.close_text(1), draft.close_call(2)]
    events.append(draft.done("tool_use"))
    assert [e.type for e in events] == [
        "start", "thinking_start", "thinking_delta", "thinking_end", "text_start", "text_delta", "toolcall_start",
        "toolcall_delta", "text_delta", "toolcall_delta", "text_end", "toolcall_end", "done",
    ]  # fmt: skip
    assert (events[0].partial.provider, events[0].partial.model) == ("p", "m")
    assert [getattr(e, "index", None) for e in events] == [None, 0, 0, 0, 1, 1, 2, 2, 1, 2, 1, 2, None]
    assert [e.partial.text for e in events] == [
        "",
        "",
        "",
        "",
        "",
        "He",
        "He",
        "He",
        "Hello",
        "Hello",
        "Hello",
        "Hello",
        "Hello",
    ]
    assert events[7].partial.content[2] == ToolUseBlock("c1", "look", {}, '{"a":')
    assert events[3].text == "hm"
    assert events[10].text == "Hello"
    assert events[11].call == ToolUseBlock("c1", "look", {"a": 1})
    final = events[-1]
    assert final.reason == "tool_use"
    assert final.message.content == (
        ThinkingBlock("hm", "sig"),
        TextBlock("Hello"),
        ToolUseBlock("c1", "look", {"a": 1}),
    )
    assert (final.message.provider, final.message.model, final.message.stop_reason) == ("p", "m", "tool_use")


@given(st.lists(st.tuples(st.integers(0, 2), st.text(max_size=3)), max_size=30))
def test_partial_is_correct_if_it_is_read_late(pieces: list[tuple[int, str]]) -> None:
    draft = MessageBuilder()
    for _ in range(3):
        draft.open_text()
    seen: list[tuple[TextDelta, list[str]]] = []
    now = ["", "", ""]
    for index, text in pieces:
        now[index] += text
        seen.append((draft.text(index, text), now[:]))
    for index in range(3):
        draft.close_text(index)
    for event, texts in seen:
        assert [b.text for b in event.partial.content if isinstance(b, TextBlock)] == texts


def test_call_can_get_its_name_late() -> None:
    draft = MessageBuilder()
    start = draft.open_call("", "")
    draft.arguments(0, "{")
    draft.update_call(0, "c9", "look")
    last = draft.arguments(0, "}")
    assert start.name == ""
    assert last.partial.content == (ToolUseBlock("c9", "look", {}, "{}"),)
    assert draft.close_call(0).call == ToolUseBlock("c9", "look", {})


@pytest.mark.covers("MSG-04")
def test_redacted_thinking_keeps_its_position() -> None:
    draft = MessageBuilder()
    draft.redacted_thinking("opaque")
    draft.open_text()
    draft.text(1, "a")
    draft.close_text(1)
    assert draft.done("end_turn").message.content == (RedactedThinkingBlock("opaque"), TextBlock("a"))


@pytest.mark.covers("STR-06")
def test_thinking_events_have_the_index_of_their_block() -> None:
    draft = MessageBuilder()
    draft.open_text()
    draft.close_text(0)
    events = [draft.open_thinking(), draft.thinking(1, "hm"), draft.close_thinking(1)]
    assert [(e.type, e.index) for e in events] == [("thinking_start", 1), ("thinking_delta", 1), ("thinking_end", 1)]


@pytest.mark.covers("MSG-02")
def test_text_keeps_its_signature() -> None:
    draft = MessageBuilder()
    draft.open_text()
    draft.text(0, "a")
    draft.close_text(0, "mark")
    assert draft.done("end_turn").message.content == (TextBlock("a", "mark"),)


@pytest.mark.covers("STR-13")
def test_content_of_open_blocks_is_kept_on_failure() -> None:
    draft = MessageBuilder("p", "m")
    draft.open_text()
    draft.text(0, "half an ans")
    draft.open_call("c", "write")
    draft.arguments(1, '{"path": "a')
    message = draft.message("error", "connection lost")
    assert message.text == "half an ans"
    assert message.content[1] == ToolUseBlock("c", "write", {}, '{"path": "a')
    assert (message.stop_reason, message.error) == ("error", "connection lost")


@pytest.mark.parametrize("text", ["", "  ", "null", "{}"])
def test_empty_arguments_in_any_form_become_an_empty_object(text: str) -> None:
    assert parse_call("i", "n", text) == ToolUseBlock("i", "n", {})


@pytest.mark.parametrize("text", ['{"a": 1', "[1]", '"x"', "7", '{"a": 1} trailing', "{'a': 1}", "[" * 100_000])
def test_invalid_arguments_are_stored_as_raw_text(text: str) -> None:
    assert parse_call("i", "n", text) == ToolUseBlock("i", "n", {}, text)


def test_event_without_a_builder_has_an_empty_partial() -> None:
    assert isinstance(TextDelta(0, "x").partial, Message)
