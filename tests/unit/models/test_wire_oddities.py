"""Content and refusals that hosts and other models rarely produce, in each wire protocol."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.errors import AuthenticationError, ContextExceededError, ModelError, RateLimitedError
from mainspring.messages import (
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models.port import ModelInfo
from mainspring.models.profile import ChatCapabilities, ModelProfile
from mainspring.models.wire import ollama
from mainspring.models.wire.anthropic import options as anthropic
from mainspring.models.wire.gemini import encode as gemini
from mainspring.models.wire.gemini.encode import json_schema
from mainspring.models.wire.openai_chat.encode import with_cache_breakpoint
from mainspring.models.wire.openai_responses import encode as openai_responses
from tests.unit.models import responses_wire as responses, wire as chat
from tests.unit.models.messages_wire import body as messages_body, profile as messages_profile
from tests.unit.models.test_gemini import body as gemini_body, message as gemini_message

PIXEL = ImageBlock("image/png", "iVBORw0KGgo=")
PROFILE = ModelProfile(ModelInfo("m1", "host", vision=True), "http://host/v1")
RESULT = ToolResultBlock("c1", "look", "a result")


# --- Responses ----------------------------------------------------------------------------------------------------------


def call_item(id: str, call_id: str, at: int = 0) -> dict[str, Any]:
    item = {"type": "function_call", "id": id, "call_id": call_id, "name": "look", "arguments": "{}"}
    return responses.event("output_item.done", output_index=at, item=item)


@pytest.mark.parametrize(("second", "expected"), [("c1", ["c1"]), ("c2", ["c1", "c2"])])
def test_finished_item_is_repeated_only_with_the_same_call(second: str, expected: list[str]) -> None:
    found = responses.message(call_item("i0", "c1"), call_item("other", second), responses.completed())

    assert [call.id for call in found.tool_uses] == expected


@pytest.mark.parametrize(("second", "expected"), [("Hello", "Hello"), (" world", "Hello world")])
def test_finished_text_is_repeated_only_with_the_same_text(second: str, expected: str) -> None:
    first = responses.event("output_item.done", output_index=0, item=responses.text_item("Hello"))
    again = responses.event("output_item.done", output_index=0, item=responses.text_item(second, id="other"))
    delta = responses.delta("output_text", 0, "Hello", content_index=0)

    found = responses.message(responses.added(0, "message"), delta, first, again, responses.completed())

    assert "".join(b.text for b in found.content if isinstance(b, TextBlock)) == expected


def test_complete_parts_replace_missing_deltas() -> None:
    refusal = responses.event("refusal.done", output_index=0, item_id="i0", content_index=0, refusal="I won't.")
    custom = responses.event("custom_tool_call_input.done", output_index=1, item_id="i1", input="2 + 2")

    found = responses.message(
        responses.added(0, "message"),
        refusal,
        responses.added(1, "custom_tool_call", call_id="c1", name="calculate"),
        custom,
        responses.completed(),
    )

    assert found.text == "I won't."
    assert [call.input for call in found.tool_uses] == [{"input": "2 + 2"}]


def test_arguments_of_another_type_are_kept_as_text() -> None:
    item = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": [1, 2]}

    found = responses.message(responses.done(0, **item), responses.completed())

    assert [call.raw_input for call in found.tool_uses] == ["[1, 2]"]


# --- requests -----------------------------------------------------------------------------------------------------------


def test_result_in_a_response_is_no_item_of_the_model() -> None:
    history = [Message.user("hi"), Message.assistant([RESULT, TextBlock("done")])]

    sent = responses.body(history)

    assert [item.get("content") for item in sent["input"]] == [
        "hi",
        [{"type": "output_text", "text": "done", "annotations": []}],
    ]
    assert messages_body(history)["messages"][1]["content"][0] == {"type": "text", "text": "[result]"}


def test_damaged_server_block_is_left_out() -> None:
    block = RedactedThinkingBlock('{"type": "server_tool_use", ')

    sent = messages_body([Message.user("hi"), Message.assistant([block, TextBlock("done")])])

    assert sent["messages"][1]["content"] == [{"type": "text", "text": "done"}]


def test_block_that_no_user_writes_is_left_out() -> None:
    history = [Message.user([RedactedThinkingBlock("x"), TextBlock("hi"), PIXEL])]

    [message] = chat.body(history)["messages"]
    [item] = responses.body(history)["input"]
    [content] = gemini_body(history)["contents"]

    assert [len(message["content"]), len(item["content"]), len(content["parts"])] == [2, 2, 2]


def test_name_of_a_result_is_sent_if_the_host_needs_it() -> None:
    history = [Message.user("hi"), Message.assistant([ToolUseBlock("c1", "look")]), Message.user([RESULT])]

    named = chat.body(history, chat.profile(ChatCapabilities(name_results=True)))["messages"][2]

    assert named["name"] == "look"
    assert "name" not in chat.body(history)["messages"][2]


def test_message_without_content_carries_the_cache_breakpoint_itself() -> None:
    item = {"role": "assistant", "content": None, "tool_calls": []}

    assert with_cache_breakpoint(item) == {**item, "cache_control": {"type": "ephemeral"}}


def test_schemas_that_all_apply_are_merged() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "allOf": [{"properties": {"a": {"type": "integer"}, "b": {"type": "number"}}, "required": ["b", "a"]}],
    }

    merged = json_schema(schema)

    assert merged["properties"] == {"a": {"type": "string"}, "b": {"type": "number"}}
    assert merged["required"] == ["a", "b"]


# --- responses of other hosts -------------------------------------------------------------------------------------------


def test_calls_without_ids_and_positions_are_separate() -> None:
    chunks = [chat.call("look", '{"at": 1}'), chat.call("look", '{"at": 1}'), chat.call("look", '{"at": 2}')]

    found = chat.message(*[chat.chunk({"tool_calls": [each]}) for each in chunks], chat.chunk({}, "tool_calls"))

    assert [call.input for call in found.tool_uses] == [{"at": 1}, {"at": 2}]


def test_signature_of_a_growing_call_may_arrive_late() -> None:
    parts = [
        {"functionCall": {"name": "look", "willContinue": True}},
        {"functionCall": {"partialArgs": [{"jsonPath": "$.at", "stringValue": "x"}]}, "thoughtSignature": "late"},
    ]
    chunk = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}

    [call] = gemini_message(chunk).tool_uses

    assert (call.input, call.signature) == ({"at": "x"}, "late")


# --- refusals -----------------------------------------------------------------------------------------------------------


def test_refused_field_is_left_out() -> None:
    stored = next(openai_responses.profiles_without_rejected(PROFILE, "store must be set to false"))
    blind = list(anthropic.profiles_without_rejected(PROFILE, "Images are not supported by this model"))
    signed = list(gemini.profiles_without_rejected(PROFILE, "Function call is missing a thought_signature"))

    assert stored.responses.store is False
    assert [each.info.vision for each in blind] == [False]
    assert [(each.gemini.echo, each.gemini.sign_calls) for each in signed] == [(True, True), (False, False)]


def test_rejected_thinking_budget_is_not_replaced_if_none_was_sent() -> None:
    adaptive = messages_profile()
    adaptive = replace(adaptive, messages=replace(adaptive.messages, thinking="adaptive"))

    found = list(anthropic.profiles_without_rejected(adaptive, "thinking.budget_tokens is not supported"))

    assert "budget" not in [each.messages.thinking for each in found]


@pytest.mark.parametrize("mark", ["[DONE] ", " [DONE]", "[DONE]\r"])
def test_done_mark_may_have_spaces(mark: str) -> None:
    assert chat.message(chat.chunk({"content": "Hello"}), chat.chunk({}, "stop"), mark, done=False).text == "Hello"


def test_done_mark_of_a_gateway_is_no_line_of_ollama() -> None:
    decoder = ollama.OllamaDecoder(PROFILE)
    events: list[Any] = []

    decoder.feed("", b"[DONE]", events)

    assert events == []
    assert (decoder.ended, decoder.complete) == (True, False)


# --- Frames and parts in unexpected places ------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", ["null", "[]", "", " ", ": OPENROUTER PROCESSING", ": keepalive"])
def test_frame_without_content_is_a_keep_alive(nothing: str) -> None:
    hello, end = chat.chunk({"content": "Hello"}), chat.chunk({}, "stop")

    assert chat.message(nothing, hello, nothing, end).text == "Hello"


@pytest.mark.parametrize("data", ["", "{}", "ping", "null"])
@pytest.mark.parametrize("name", ["keepalive", "ping", "heartbeat"])
def test_named_keep_alive_may_contain_anything(name: str, data: str) -> None:
    frame = f"event: {name}\ndata: {data}\n\n".encode()
    hello, end = chat.sse(chat.chunk({"content": "Hello"}), done=False), chat.sse(chat.chunk({}, "stop"))

    assert chat.read(frame + hello + frame + end)[-1].partial.text == "Hello"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            {"choices": None, "error_message": "32927 tokens exceed the maximum context length of 32768"},
            ContextExceededError,
        ),
        ({"base_resp": {"status_code": 1002, "status_msg": "rate limit exceeded"}}, RateLimitedError),
        ({"error_code": 401, "error_msg": "invalid api key"}, AuthenticationError),
        ({"object": "error", "message": "rate limit exceeded", "code": 429}, RateLimitedError),
    ],
)
@pytest.mark.parametrize("has_started", [False, True])
def test_error_in_the_format_of_some_host_is_raised(
    error: dict[str, Any], kind: type[ModelError], has_started: bool
) -> None:
    before = [chat.chunk({"content": "Hel"})] if has_started else []

    with pytest.raises(kind) as caught:
        chat.message(*before, error)

    assert (caught.value.partial is not None) == has_started


def test_success_code_of_a_host_is_not_an_error() -> None:
    last = {"choices": None, "base_resp": {"status_code": 0, "status_msg": ""}}

    assert chat.message(chat.chunk({"content": "Hi"}, "stop"), last).text == "Hi"


def test_calls_in_a_message_with_an_empty_delta_are_read() -> None:
    whole = {"role": "assistant", "content": "", "tool_calls": [chat.call("look", "{}", id="c1")]}
    last = chat.chunk({}, "tool_calls")
    last["choices"][0]["message"] = whole

    found = chat.message(chat.chunk({"role": "assistant"}), chat.chunk({"reasoning": "Hm."}), last)

    assert chat.calls(found) == [("c1", "look", {})]


def test_message_that_repeats_the_deltas_adds_nothing() -> None:
    first = chat.chunk({"content": "Look: ", "tool_calls": [chat.call("look", "{}", id="c1", index=0)]})
    last = chat.chunk({}, "tool_calls")
    last["choices"][0]["message"] = {"content": "Look: ", "tool_calls": [chat.call("look", "{}", id="c1")]}

    found = chat.message(first, last)

    assert (found.text, chat.calls(found)) == ("Look: ", [("c1", "look", {})])


def test_status_requires_action_completes_a_response() -> None:
    item = {"type": "function_call", "id": "i0", "call_id": "c1", "name": "look", "arguments": "{}"}
    body = {"id": "r1", "object": "response", "status": "requires_action", "output": [item]}

    found = responses.read(json.dumps(body).encode())[-1].partial

    assert (found.stop_reason, [call.id for call in found.tool_uses]) == ("tool_use", ["c1"])
