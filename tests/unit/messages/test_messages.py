"""Messages, blocks, and usage: encoding to JSON and decoding."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from mainspring.messages import (
    ContentBlock,
    Cost,
    CustomMessage,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    convert_to_llm,
    decode_message,
    decode_messages,
    encode_message,
    encode_messages,
    strip_surrogates,
    to_finish_reason,
    to_messages,
)
from mainspring.messages.usage import UNKNOWN_COST

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda c: st.lists(c) | st.dictionaries(TEXT, c),
    max_leaves=6,
)
IMAGE = st.builds(ImageBlock, st.sampled_from(["image/png", "image/jpeg"]), TEXT)
BLOCK: st.SearchStrategy[ContentBlock] = st.one_of(
    st.builds(TextBlock, TEXT, st.none() | TEXT),
    st.builds(ThinkingBlock, TEXT, st.none() | TEXT),
    st.builds(RedactedThinkingBlock, TEXT),
    IMAGE,
    st.builds(ToolUseBlock, TEXT, TEXT, st.dictionaries(TEXT, JSON), st.none() | TEXT, st.none() | TEXT),
    st.builds(
        ToolResultBlock,
        TEXT,
        TEXT,
        TEXT | st.lists(st.builds(TextBlock, TEXT) | IMAGE).map(tuple),
        st.booleans(),
        JSON,
    ),
)


WHEN = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(lambda at: at.replace(tzinfo=UTC, fold=0))
COUNT = st.integers(0, 2**53)
USAGE = st.builds(Usage, COUNT, COUNT, COUNT, COUNT, COUNT, st.none() | st.builds(Cost, st.floats(0, 1e6)))
HISTORY_MESSAGE = st.one_of(
    st.builds(
        Message,
        st.sampled_from(["system", "user", "assistant"]),
        st.lists(BLOCK).map(tuple),
        usage=st.none() | USAGE,
        stop_reason=st.none() | st.sampled_from(["end_turn", "tool_use", "max_tokens", "error", "aborted"]),
        error=st.none() | TEXT,
        provider=st.none() | TEXT,
        model=st.none() | TEXT,
        timestamp=WHEN,
        id=TEXT,
    ),
    st.builds(CustomMessage, TEXT, JSON, timestamp=WHEN, id=TEXT),
)


@given(st.lists(HISTORY_MESSAGE))
def test_every_history_round_trips(history: list[Message | CustomMessage]) -> None:
    text = encode_messages(history)
    assert repr(decode_messages(text)) == repr(decode_messages(text.decode())) == repr(history)
    assert encode_messages(decode_messages(text)) == text


@pytest.mark.covers("MSG-01", "MSG-02", "MSG-03", "MSG-04", "MSG-05", "MSG-06", "MSG-07", "MSG-08")
@given(st.sampled_from(["system", "user", "assistant"]), st.lists(BLOCK))
def test_every_block_round_trips(role: Any, blocks: list[ContentBlock]) -> None:
    message = Message(role, tuple(blocks), id="m1")
    back = decode_message(encode_message(message))
    assert isinstance(back, Message)
    assert back.content == message.content
    assert (back.role, back.id, back.timestamp) == (role, "m1", message.timestamp)


@pytest.mark.covers("MSG-08", "MSG-01", "MSG-02", "MSG-03", "MSG-04", "MSG-05", "MSG-06", "MSG-07")
def test_blocks_have_the_anthropic_type_names() -> None:
    blocks = [
        TextBlock("a", "mark"),
        ThinkingBlock("b", "mark"),
        RedactedThinkingBlock("c"),
        ImageBlock("image/png", "d"),
        ToolUseBlock("e", "f", {"g": 1}),
        ToolResultBlock("e", "f", "h", is_error=True, details={"i": 2}),
    ]
    assert msgspec.to_builtins(blocks) == [
        {"type": "text", "text": "a", "signature": "mark"},
        {"type": "thinking", "thinking": "b", "signature": "mark"},
        {"type": "redacted_thinking", "data": "c"},
        {"type": "image", "media_type": "image/png", "data": "d"},
        {"type": "tool_use", "id": "e", "name": "f", "input": {"g": 1}},
        {
            "type": "tool_result",
            "tool_use_id": "e",
            "name": "f",
            "content": "h",
            "is_error": True,
            "details": {"i": 2},
        },
    ]
    with pytest.raises(msgspec.ValidationError):
        decode_message(b'{"kind":"message","role":"user","content":[{"type":"video"}]}')


@pytest.mark.covers("MSG-08")
def test_blocks_and_messages_are_immutable() -> None:
    with pytest.raises(AttributeError):
        TextBlock("a").text = "b"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError):
        Message.user("a").role = "system"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.covers("MSG-09", "MSG-10", "MSG-11", "MSG-12")
def test_message_has_a_role_content_and_a_utc_timestamp() -> None:
    before = datetime.now(UTC)
    history = [
        Message.system("Be brief."),
        Message.user("Hi"),
        Message.user([TextBlock("See"), ImageBlock("image/png", "AAAA")]),
        Message.assistant("Hello", usage=Usage(3, 2), stop_reason="end_turn", error="none", provider="p", model="m"),
    ]
    assert [m.role for m in history] == ["system", "user", "user", "assistant"]
    assert history[1].content == (TextBlock("Hi"),)
    assert [type(b) for b in history[2].content] == [TextBlock, ImageBlock]
    assert all(before <= m.timestamp <= datetime.now(UTC) and m.timestamp.tzinfo is UTC for m in history)
    stored = [decode_message(encode_message(m)) for m in history]
    assert [m.role for m in stored if isinstance(m, Message)] == ["system", "user", "user", "assistant"]
    back = decode_message(encode_message(history[3]))
    assert isinstance(back, Message)
    assert (back.usage, back.stop_reason, back.error, back.provider, back.model) == (
        Usage(3, 2),
        "end_turn",
        "none",
        "p",
        "m",
    )


def test_other_roles_are_refused() -> None:
    role: Any = "tool"
    with pytest.raises(ValueError, match="user, assistant, or system, not 'tool'"):
        Message(role, (TextBlock("x"),))


@pytest.mark.covers("MSG-12")
def test_timestamp_is_stored_as_iso_8601() -> None:
    message = Message.user("x", timestamp=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert b'"timestamp":"2026-01-02T03:04:05Z"' in encode_message(message)


@pytest.mark.covers("MSG-13", "MSG-14")
@pytest.mark.parametrize(
    ("reason", "classic"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "toolUse"),
        ("error", "error"),
        ("aborted", "aborted"),
    ],
)
def test_stop_reason_maps_to_its_finish_reason_and_back(reason: Any, classic: str) -> None:
    assert to_finish_reason(reason) == classic
    back = decode_message(encode_message(Message("assistant", stop_reason=reason)))
    assert isinstance(back, Message)
    assert back.stop_reason == reason


@pytest.mark.covers("MSG-14")
def test_unknown_stop_reason_is_rejected() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_message(b'{"kind":"message","role":"assistant","stop_reason":"length"}')


class Artifact(msgspec.Struct):
    name: str
    size: int


@pytest.mark.covers("MSG-15", "MSG-16")
def test_custom_messages_round_trip_and_are_not_sent_to_the_model() -> None:
    message = CustomMessage("artifact", Artifact("plan.md", 12), id="c1")
    back = decode_message(encode_message(message), {"artifact": Artifact})
    assert isinstance(back, CustomMessage)
    assert (back.custom_type, back.data, back.id) == ("artifact", Artifact("plan.md", 12), "c1")
    plain = decode_message(encode_message(message))
    assert isinstance(plain, CustomMessage)
    assert plain.data == {"name": "plan.md", "size": 12}
    user = Message.user("hi")
    assert convert_to_llm([message, user, message]) == [user]


@pytest.mark.covers("MSG-22")
@pytest.mark.parametrize("code", [0xD800, 0xDBFF, 0xDC00, 0xDFFF])
def test_lone_surrogates_are_not_stored(code: int) -> None:
    message = Message.user([TextBlock(f"a{chr(code)}b"), ToolUseBlock("i", "n", {f"k{chr(code)}": [chr(code)]})])
    data = encode_message(message)
    assert data.decode("utf-8")
    back = decode_message(data)
    assert isinstance(back, Message)
    assert back.text == "a\ufffdb"
    assert back.tool_uses[0].input == {"k\ufffd": ["\ufffd"]}


@given(TEXT)
def test_text_without_surrogates_is_unchanged(text: str) -> None:
    assert strip_surrogates(text) == text


@pytest.mark.covers("MSG-25")
def test_prompts_of_every_form_become_messages() -> None:
    (message,) = to_messages("hello")
    assert isinstance(message, Message)
    assert (message.role, message.text) == ("user", "hello")
    assert to_messages("") == []
    assert to_messages(message) == [message]
    assert to_messages([message, CustomMessage("x")])[0] is message
    (blocks,) = to_messages([TextBlock("see"), ImageBlock("image/png", "AA")])
    assert isinstance(blocks, Message)
    assert len(blocks.content) == 2
    with pytest.raises(TypeError, match="A prompt must be text"):
        to_messages([message, TextBlock("x")])


def test_printed_values_contain_what_is_set() -> None:
    cost = Cost(0.1 + 0.2, 1e-7)
    assert (
        repr(Usage(12, 3, cost=cost)) == "Usage(input_tokens=12, output_tokens=3, cost=Cost(input=0.3, output=1e-07))"
    )
    assert (repr(Usage()), repr(Cost(0.0)), repr(UNKNOWN_COST)) == ("Usage()", "Cost()", "Cost(unknown)")
    assert repr(Message.assistant("hi", timestamp=None)).count("None") == 1  # only what was given


@pytest.mark.covers("MOD-29", "MOD-31")
def test_usage_adds_up_without_double_counting() -> None:
    usage = Usage(10, 5, cache_read=100, cache_write=7, reasoning_tokens=3, cost=Cost(1, 2, 3, 4))
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (117, 5, 122)
    both = usage + Usage(1, 1, cost=Cost(1, 1, 1, 1))
    assert (both.input_tokens, both.output_tokens, both.total_tokens) == (11, 6, 124)
    assert both.cost == Cost(2, 3, 4, 5)
    assert Cost(2, 3, 4, 5).total == 14
    partly = usage + Usage(1, 1) + Usage(2, 2)
    assert (partly.cost, partly.unpriced_calls) == (usage.cost, 2), "unknown prices do not hide the known sum"
    assert ((Usage.zero() + Usage(1, 1)).cost, (Usage(1, 1) + Usage.zero()).cost) == (None, None)
    assert (Usage.zero() + usage).cost == usage.cost
