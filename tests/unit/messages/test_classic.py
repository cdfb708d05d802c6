"""Messages in the form with `toolResult` messages and camelCase names."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.messages import (
    Cost,
    CustomMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResultMessage,
    ToolUseBlock,
    Usage,
    decode_message,
    encode_message,
    split_tool_results,
    to_classic_messages,
)

NOON = datetime(2026, 2, 3, 12, tzinfo=UTC)
PIXEL = ImageBlock("image/png", "iVBORw0KGgo=")
CALL = Message.assistant(
    [
        ThinkingBlock("hm", "s1"),
        TextBlock("Look.", "s2"),
        ToolUseBlock("c1", "look", {"mimeType": "kept", "toolCall": 1}),
    ],
    stop_reason="tool_use",
    usage=Usage(10, 5, cache_read=3, cost=Cost(0.5, 0.25)),
    timestamp=NOON,
)
RESULTS = Message.user(
    [
        ToolResultBlock("c1", "look", (TextBlock("Here:"), PIXEL), details={"isError": "kept"}),
        ToolResultBlock("c2", "say", "failed", is_error=True),
        TextBlock("And?"),
    ],
    timestamp=NOON,
)


@pytest.mark.covers("MSG-10")
def test_each_tool_result_becomes_a_message_of_its_own() -> None:
    note = CustomMessage("note")
    first, call, one, two, rest, last = split_tool_results([note, CALL, RESULTS, Message.user("End")])

    assert (first, call) == (note, CALL)
    assert isinstance(one, ToolResultMessage)
    assert isinstance(two, ToolResultMessage)
    assert (one.role, one.tool_call_id, one.tool_name, one.is_error) == ("toolResult", "c1", "look", False)
    assert (one.content, one.details, one.timestamp) == ((TextBlock("Here:"), PIXEL), {"isError": "kept"}, NOON)
    assert (two.text, two.is_error) == ("failed", True)
    assert (rest.text, last.text) == ("And?", "End")


@pytest.mark.covers("MSG-10")
def test_messages_are_the_same_after_conversion_and_decoding() -> None:
    written = json.loads(json.dumps(to_classic_messages([CustomMessage("note"), CALL, RESULTS])))

    assert [each["role"] for each in written] == ["assistant", "toolResult", "toolResult", "user"]
    assert written[0]["content"][2]["type"] == "toolCall"
    assert (written[0]["stopReason"], written[0]["usage"]["totalTokens"]) == ("toolUse", 18)
    assert written[0]["usage"]["cost"]["total"] == 0.75
    assert written[1]["content"][1] == {"type": "image", "data": PIXEL.data, "mimeType": "image/png"}
    assert written[1]["timestamp"] == 1770120000000
    call, *results = [decode_message(json.dumps(each)) for each in written]
    assert isinstance(call, Message)
    assert (call.content, call.usage, call.stop_reason, call.timestamp) == (
        CALL.content,
        CALL.usage,
        "tool_use",
        NOON,
    )
    first, second, rest = [each for each in results if isinstance(each, Message)]
    assert first.content == (RESULTS.content[0],)
    assert second.tool_results == (ToolResultBlock("c2", "say", (TextBlock("failed"),), is_error=True),)
    assert rest.text == "And?"


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ("stop_reason", "stopReason"),
        ("media_type", "mediaType"),
        ("tool_use_id", "toolUseId"),
        ("is_error", "isError"),
        ("input_tokens", "inputTokens"),
        ("cache_read", "cacheRead"),
    ],
)
@pytest.mark.parametrize("message", [CALL, RESULTS])
def test_fields_in_both_casings_are_accepted(message: Message, own: str, other: str) -> None:
    renamed = encode_message(message).replace(f'"{own}":'.encode(), f'"{other}":'.encode())
    decoded = decode_message(renamed)
    assert isinstance(decoded, Message)
    assert (decoded.content, decoded.usage, decoded.stop_reason) == (
        message.content,
        message.usage,
        message.stop_reason,
    )


@pytest.mark.covers("MSG-10")
@pytest.mark.parametrize("content", ["hello", [TextBlock("hello")], iter([TextBlock("hello")])])
def test_content_of_a_message_is_always_blocks(content: Any) -> None:
    assert Message("user", content).content == (TextBlock("hello"),)


@pytest.mark.parametrize("content", [["hello"], [{"type": "text", "text": "hello"}], (5,)])
def test_content_that_is_neither_text_nor_blocks_is_refused(content: Any) -> None:
    with pytest.raises(TypeError, match="must be text or blocks, not"):
        Message.user(content)
