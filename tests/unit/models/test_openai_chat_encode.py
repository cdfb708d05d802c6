"""Requests as Chat Completions bodies."""

import json
from typing import Any

import pytest

from mainspring.messages import (
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from mainspring.models.codec.normalize import iter_complete_turns
from mainspring.models.port import EncodingCache, ModelRequest
from mainspring.models.profile import ChatCapabilities
from mainspring.models.wire.openai_chat import ChatCompletionsProtocol, encode_request
from tests.unit.models.wire import body, chunk, message, profile

LOOK = ToolDefinition("look", "Look at it.", {"type": "object", "properties": {"at": {"type": "string"}}})
NOW = ToolDefinition("now", "Tell the time.", {"type": "object"})


def assistant(*blocks: Any, **fields: Any) -> Message:
    return Message("assistant", blocks, **{"provider": "host", "model": "m1", **fields})


@pytest.mark.covers("STR-12")
def test_plain_request_contains_only_what_is_needed() -> None:
    assert body([Message.user("Hi")], system="Be kind.") == {
        "model": "m1",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
    }


@pytest.mark.covers("MOD-09")
def test_system_messages_keep_their_position() -> None:
    sent = body(
        [Message.user("Hi"), Message.system("From now on in French."), Message.user("Well?")], system="Be kind."
    )

    assert [(m["role"], m["content"]) for m in sent["messages"]] == [
        ("system", "Be kind."),
        ("user", "Hi"),
        ("system", "From now on in French."),
        ("user", "Well?"),
    ]


def test_turn_with_calls_has_a_tool_message_for_each_result() -> None:
    sent = body(
        [
            Message.user("Look"),
            assistant(TextBlock("Looking."), ToolUseBlock("c1", "look", {"at": "x"}), ToolUseBlock("c2", "now")),
            Message(
                "user", (ToolResultBlock("c1", "look", "a wall"), ToolResultBlock("c2", "now", ""), TextBlock("Hurry!"))
            ),
        ]
    )

    assert sent["messages"][1:] == [
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"x"}'}},
                {"id": "c2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a wall"},
        {"role": "tool", "tool_call_id": "c2", "content": "(no output)"},
        {"role": "user", "content": "Hurry!"},
    ]


def test_message_with_only_calls_has_no_content() -> None:
    sent = body([assistant(ToolUseBlock("c1", "now")), Message("user", (ToolResultBlock("c1", "now", "noon"),))])

    assert "content" not in sent["messages"][0]


def test_text_is_a_string_and_images_are_parts() -> None:
    picture = ImageBlock("image/png", "QUJD")
    sent = body([Message.user([TextBlock("a"), TextBlock("b")]), Message.user([TextBlock("See"), picture])])

    assert sent["messages"][0]["content"] == "a\nb"
    assert sent["messages"][1]["content"] == [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
    ]


def test_images_of_results_follow_all_results() -> None:
    picture = ImageBlock("image/png", "QUJD")
    history = [
        assistant(ToolUseBlock("c1", "shot"), ToolUseBlock("c2", "now")),
        Message(
            "user", (ToolResultBlock("c1", "shot", (TextBlock("Here:"), picture)), ToolResultBlock("c2", "now", "noon"))
        ),
    ]

    first, second, image_message = body(history)["messages"][1:]

    assert first == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "Here:\n[the image follows in the next user message]",
    }
    assert second["content"] == "noon"
    assert image_message["role"] == "user"
    assert image_message["content"][1]["image_url"]["url"] == "data:image/png;base64,QUJD"
    without = body(history, profile(ChatCapabilities(tool_images=False)))["messages"]
    assert len(without) == 3
    assert "left out" in without[1]["content"]
    blind = body(history, profile(vision=False))["messages"]
    assert "image/png image left out" in blind[1]["content"]
    assert "base64" not in json.dumps(blind)


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ('{"a": "x\ny"}', {"a": "x\ny"}),
        ('{"a": 1', {"unreadable_arguments": '{"a": 1'}),
        ("[1]", {"unreadable_arguments": "[1]"}),
    ],
)
def test_arguments_are_always_a_json_object(raw: str, arguments: dict[str, Any]) -> None:
    sent = body(
        [assistant(ToolUseBlock("c1", "look", {}, raw)), Message("user", (ToolResultBlock("c1", "look", "no"),))]
    )

    assert json.loads(sent["messages"][0]["tool_calls"][0]["function"]["arguments"]) == arguments


def test_empty_messages_are_not_sent() -> None:
    sent = body(
        [
            Message.user([TextBlock(""), TextBlock("Hi")]),
            assistant(TextBlock("")),
            assistant(),
            assistant(ThinkingBlock("Hm.", "reasoning_content")),
            Message.user(" \n"),
            Message.system(""),
            Message("user"),
        ],
        system="  ",
    )

    assert sent["messages"] == [{"role": "user", "content": "Hi"}]


@pytest.mark.covers("MSG-22")
def test_lone_surrogates_are_replaced() -> None:
    sent = body(
        [Message.user("a\ud83d"), assistant(ToolUseBlock("c1", "look", {"at": "\ude00"}))],
        system="s\udfff",
        tools=[ToolDefinition("t", "d\ud800", {"type": "object"})],
    )

    assert sent["messages"][0]["content"] == "s\ufffd"
    assert sent["messages"][1]["content"] == "a\ufffd"
    assert json.loads(sent["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {"at": "\ufffd"}
    assert sent["tools"][0]["function"]["description"] == "d\ufffd"


# --- reasoning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "Hm."},
        {"reasoning": "Hm."},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "signature": "sig", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm.", "format": "f", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "index": 0}]},
    ],
)
def test_reasoning_is_returned_unchanged_only_to_its_model(delta: dict[str, Any]) -> None:
    answer = message(chunk(delta), chunk({"content": "So."}, "stop"))

    assert body([answer])["messages"] == [{"role": "assistant", **delta, "content": "So."}]
    assert body([answer], profile(model="m2"))["messages"] == [{"role": "assistant", "content": "So."}]
    assert body([answer], profile(provider="other"))["messages"] == [{"role": "assistant", "content": "So."}]
    assert body([answer], profile(ChatCapabilities(reasoning="none")))["messages"] == [
        {"role": "assistant", "content": "So."}
    ]


def test_reasoning_parts_of_the_content_are_returned_in_the_content() -> None:
    part = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    answer = message(chunk({"content": [part]}), chunk({"content": "So."}, "stop"))

    assert body([answer])["messages"][0]["content"] == [part, {"type": "text", "text": "So."}]


def test_reasoning_of_unknown_origin_is_left_out() -> None:
    sent = body([assistant(ThinkingBlock("Hm."), RedactedThinkingBlock("no json"), TextBlock("So."))])

    assert sent["messages"] == [{"role": "assistant", "content": "So."}]


def test_signature_of_a_call_is_returned_only_to_its_model() -> None:
    history = [
        assistant(ToolUseBlock("c1", "now", {}, None, '{"google":{"thought_signature":"s"}}')),
        Message("user", (ToolResultBlock("c1", "now", "noon"),)),
    ]

    assert body(history)["messages"][0]["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}
    assert "extra_content" not in body(history, profile(model="m2"))["messages"][0]["tool_calls"][0]


# --- options -----------------------------------------------------------------------------------------------------------


def test_tools_are_encoded_once_with_object_schemas() -> None:
    sent = body([Message.user("Hi")], tools=[LOOK, NOW])

    assert [t["function"]["name"] for t in sent["tools"]] == ["look", "now"]
    assert sent["tools"][0] == {
        "type": "function",
        "function": {"name": "look", "description": "Look at it.", "parameters": LOOK.input_schema},
    }
    assert sent["tools"][1]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert "tool_choice" not in sent


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", None),
        ("required", "required"),
        ("none", "none"),
        ("look", {"type": "function", "function": {"name": "look"}}),
    ],
)
def test_tool_choice_is_encoded(choice: str, sent: Any) -> None:
    assert body([Message.user("Hi")], tools=[LOOK], tool_choice=choice).get("tool_choice") == sent
    assert "tool_choice" not in body([Message.user("Hi")], tool_choice=choice)


def test_options_use_the_field_names_of_the_host() -> None:
    fields: dict[str, Any] = {
        "max_output_tokens": 100,
        "temperature": 0.5,
        "stop": ["#"],
        "thinking": "low",
        "session_id": "s1",
        "schema": {"type": "object"},
        "extra": {"top_k": 5},
    }

    sent = body([Message.user("Hi")], **fields)
    assert (sent["max_tokens"], sent["temperature"], sent["stop"], sent["top_k"]) == (100, 0.5, ["#"], 5)
    assert sent["reasoning_effort"] == "low"
    assert sent["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert "strict" not in sent["response_format"]["json_schema"]
    assert "prompt_cache_key" not in sent

    other = ChatCapabilities(
        max_tokens_field="max_completion_tokens",
        stream_usage=False,
        developer_role=True,
        efforts=(),
        temperature=False,
        stop=False,
        prompt_cache_key=True,
        strict_schema=True,
    )
    sent = body([Message.user("Hi")], profile(other), system="S", **fields)
    assert sent["max_completion_tokens"] == 100
    assert sent["prompt_cache_key"] == "s1"
    assert sent["messages"][0]["role"] == "developer"
    assert sent["response_format"]["json_schema"]["strict"] is True
    assert not {"max_tokens", "stream_options", "temperature", "stop", "reasoning_effort"} & set(sent)


@pytest.mark.covers("CAC-09")
def test_session_id_is_the_cache_key_if_supported_and_enabled() -> None:
    with_cache_key = profile(ChatCapabilities(prompt_cache_key=True))
    hi = [Message.user("Hi")]

    assert body(hi, with_cache_key, session_id="s1")["prompt_cache_key"] == "s1"
    assert "prompt_cache_key" not in body(hi, with_cache_key, session_id="s1", cache=False)
    assert "prompt_cache_key" not in body(hi, with_cache_key)
    assert "prompt_cache_key" not in body(hi, profile(), session_id="s1")


@pytest.mark.parametrize(
    ("level", "accepted", "reasons", "sent"),
    [
        ("xhigh", ("low", "medium", "high"), True, "high"),
        ("minimal", ("low", "medium", "high"), True, "low"),
        ("off", ("minimal", "low"), True, "minimal"),
        ("off", ("none", "low"), True, "none"),
        ("off", ("minimal", "low"), False, None),
        ("high", (), True, None),
        (None, ("low",), True, None),
    ],
)
def test_thinking_level_becomes_the_nearest_supported_effort(
    level: Any, accepted: tuple[str, ...], reasons: bool, sent: str | None
) -> None:
    using = profile(ChatCapabilities(efforts=accepted), reasoning=reasons)

    assert body([Message.user("Hi")], using, thinking=level).get("reasoning_effort") == sent


def test_output_limit_is_clamped_to_the_model_and_the_context_window() -> None:
    small = profile(context_window=10_000, max_output_tokens=4_000)
    long = [Message.user("x"), assistant(TextBlock("y"), usage=Usage(6_000, 500)), Message.user("z" * 4_000)]

    assert body([Message.user("Hi")], small, max_output_tokens=16_384)["max_tokens"] == 4_000
    assert body(long, small, max_output_tokens=16_384)["max_tokens"] == 10_000 - 6_500 - 1_000 - 256
    assert body([Message.user("x" * 80_000)], small, max_output_tokens=16_384)["max_tokens"] == 1_024
    assert "max_tokens" not in body([Message.user("Hi")], small)


# --- the encoding cache ------------------------------------------------------------------------------------------------


def turn(number: int) -> list[Message]:
    return [
        assistant(ToolUseBlock(f"c{number}", "look", {"at": number})),
        Message("user", (ToolResultBlock(f"c{number}", "look", "x" * 20),)),
    ]


@pytest.mark.covers("CAC-10")
def test_each_request_starts_with_the_bytes_of_the_previous_one() -> None:
    scratch = EncodingCache()
    history = [Message.user("Go")]
    before = b""
    for number in range(30):
        sent = encode_request(
            ModelRequest(list(history), system="S", tools=(LOOK, NOW), max_output_tokens=100, scratch=scratch),
            profile(),
        )
        assert sent.startswith(before.removesuffix(b"]}"))
        assert sent == encode_request(
            ModelRequest(tuple(history), system="S", tools=[LOOK, NOW], max_output_tokens=100), profile()
        )
        before = sent
        history += turn(number)


def test_message_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from mainspring.models.wire.openai_chat import encode

    encoded: list[Message] = []
    original = encode.encode_message

    def count_encode(one: Message, using: Any) -> bytes:
        encoded.append(one)
        return original(one, using)

    monkeypatch.setattr(encode, "encode_message", count_encode)
    scratch, history = EncodingCache(), [Message.user("Go")]
    for number in range(20):
        encode_request(ModelRequest(list(history), scratch=scratch), profile())
        history += turn(number)
    encode_request(ModelRequest([*history[:9], Message.user("Another way")], scratch=EncodingCache()), profile())

    assert len(encoded) == len({id(m) for m in encoded}) == 1 + 19 * 2 + 1


def test_repeated_requests_do_not_process_old_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    from mainspring.models.codec import encoded_history as module

    starts: list[int] = []
    original = iter_complete_turns

    def record_start(messages: list[Message], start: int = 0) -> Any:
        starts.append(start)
        return original(messages, start)

    monkeypatch.setattr(module, "iter_complete_turns", record_start)
    scratch, history = EncodingCache(), [Message.user("Go")]
    for number in range(5):
        encode_request(ModelRequest(list(history), scratch=scratch), profile())
        history += turn(number)

    assert starts == [0, 1, 3, 5, 7]


def test_other_history_or_model_restarts_the_encoding() -> None:
    scratch = EncodingCache()
    first, second = [Message.user("One"), *turn(1)], [Message.user("Two"), *turn(2)]

    def sent(history: list[Message], using: Any) -> Any:
        return json.loads(encode_request(ModelRequest(history, scratch=scratch), using))["messages"]

    assert sent(first, profile()) == body(first)["messages"]
    assert sent(second, profile()) == body(second)["messages"]
    assert sent(first, profile()) == body(first)["messages"]
    assert sent(first[:1], profile()) == body(first[:1])["messages"]
    blind = profile(vision=False, model="m2")
    assert sent(first, blind) == body(first, blind)["messages"]


def test_call_without_a_result_is_not_cached_as_complete() -> None:
    scratch = EncodingCache()
    history = [Message.user("Go"), *turn(1), turn(2)[0]]

    def sent(messages: list[Message]) -> Any:
        return json.loads(encode_request(ModelRequest(messages, scratch=scratch), profile()))["messages"]

    assert sent(history)[-1]["content"].startswith("Tool execution was interrupted")
    assert sent([*history, turn(2)[1]])[-1] == {"role": "tool", "tool_call_id": "c2", "content": "x" * 20}


# --- rejections --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refusal", "field"),
    [
        ("Unrecognized request argument supplied: stream_options", "stream_options"),
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "max_tokens",
        ),
        (
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) is supported.",
            "temperature",
        ),
        ("property 'reasoning_effort' is unsupported", "reasoning_effort"),
        ("Unsupported parameter: 'stop' is not supported with this model.", "stop"),
        ("response_format is not supported by this model", "response_format"),
    ],
)
def test_rejected_field_is_left_out(refusal: str, field: str) -> None:
    fields: dict[str, Any] = {
        "max_output_tokens": 5,
        "temperature": 0.2,
        "thinking": "low",
        "stop": ["#"],
        "schema": {"type": "object"},
    }
    first = body([Message.user("Hi")], **fields)

    changed = next(iter(ChatCompletionsProtocol().without_rejected(profile(), refusal)))

    second = body([Message.user("Hi")], changed, **fields)
    assert field in first
    assert field not in second
    assert {k for k in first if k != field} <= set(second)


def test_rejected_effort_is_replaced_by_a_supported_one() -> None:
    refusal = "Unsupported value: 'reasoning_effort' does not support 'xhigh'. Supported values are: 'low', 'medium', and 'high'."

    changed = next(iter(ChatCompletionsProtocol().without_rejected(profile(), refusal)))

    assert body([Message.user("Hi")], changed, thinking="xhigh")["reasoning_effort"] == "high"


@pytest.mark.parametrize(
    "refusal", ["Invalid 'temperature': decimal below minimum value.", "Error while downloading the image.", "no"]
)
def test_invalid_value_is_not_left_out(refusal: str) -> None:
    assert list(ChatCompletionsProtocol().without_rejected(profile(), refusal)) == []


def test_images_become_text_for_a_host_without_vision() -> None:
    [blind] = ChatCompletionsProtocol().without_rejected(profile(), "This model does not support image input")

    assert "image left out" in body([Message.user([ImageBlock("image/png", "QUJD")])], blind)["messages"][0]["content"]


def test_call_ids_use_the_format_of_the_host() -> None:
    history = turn(1)
    refusal = "Tool call id was c1 but must be a-z, A-Z, 0-9, with a length of 9."
    changed = next(iter(ChatCompletionsProtocol().without_rejected(profile(), refusal)))

    called, result = body(history, changed)["messages"]

    id = called["tool_calls"][0]["id"]
    assert len(id) == 9
    assert id.isalnum()
    assert result["tool_call_id"] == id
