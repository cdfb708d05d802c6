"""Gemini: requests, responses, and the configuration of the provider."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from mainspring.errors import (
    ContextExceededError,
    ErrorCode,
    InvalidResponseError,
    ModelError,
    NetworkError,
    ProviderConfigError,
)
from mainspring.events import Done, StreamEvent
from mainspring.messages import (
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models import EncodingCache, HttpModel, create_model
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import GeminiDialect, ModelProfile
from mainspring.models.providers.gemini import gemini_capabilities
from mainspring.models.transport.recording import MemoryResponse, MemoryTransport
from mainspring.models.wire.gemini import GeminiDecoder, GeminiProtocol, encode_request
from mainspring.models.wire.gemini.encode import json_schema, openapi_schema

PIXEL = ImageBlock("image/png", "iVBORw0KGgo=")
LOOK = ToolDefinition("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})


def profile(dialect: GeminiDialect = GeminiDialect(), **facts: Any) -> ModelProfile:
    return ModelProfile(ModelInfo("m1", "gemini", **facts), "http://host/v1beta", gemini=dialect)


def body(messages: Sequence[Message], using: ModelProfile | None = None, **fields: Any) -> dict[str, Any]:
    return json.loads(encode_request(ModelRequest(messages, **fields), using or profile()))


def assistant(*blocks: Any) -> Message:
    return Message.assistant(blocks, provider="gemini", model="m1")


def chunk(*parts: dict[str, Any], finish: Any = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "responseId": "resp-1", **more}


def sse(*chunks: dict[str, Any]) -> bytes:
    return "".join(f"data: {json.dumps(value)}\r\n\r\n" for value in chunks).encode()


def events(data: bytes, using: ModelProfile | None = None) -> list[StreamEvent]:
    reader = ResponseReader(GeminiDecoder(using or profile()))
    found = [*reader.feed(data), *reader.finish()]
    if reader.error is not None:
        raise reader.error
    return found


def message(*chunks: dict[str, Any]) -> Message:
    last = events(sse(*chunks))[-1]
    assert isinstance(last, Done)
    return last.message


# --- responses ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("STR-05", "STR-06", "STR-07", "MOD-39")
def test_streamed_response_has_thinking_text_and_parallel_calls() -> None:
    stream = sse(
        chunk({"text": "Hm", "thought": True}),
        chunk({"text": "m.", "thought": True}),
        chunk({"text": "Look"}),
        chunk({"text": "ing.", "thoughtSignature": "s1"}),
        chunk(
            {"functionCall": {"name": "look", "args": {"at": "x"}}, "thoughtSignature": "s2"},
            {"functionCall": {"name": "look", "args": {}, "id": "own1"}},
            finish="STOP",
            usageMetadata={
                "promptTokenCount": 10,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 7,
                "cachedContentTokenCount": 4,
                "toolUsePromptTokenCount": 2,
                "totalTokenCount": 24,
            },
        ),
    )
    found = events(stream)
    last = found[-1]
    assert isinstance(last, Done)

    assert [e.type for e in found] == (
        "start thinking_start thinking_delta thinking_delta thinking_end text_start text_delta text_delta text_end "
        "toolcall_start toolcall_delta toolcall_start toolcall_delta toolcall_end toolcall_end done"
    ).split()
    assert last.message.content == (
        ThinkingBlock("Hmm."),
        TextBlock("Looking.", "s1"),
        ToolUseBlock("call_resp1_0", "look", {"at": "x"}, None, "s2"),
        ToolUseBlock("own1", "look", {}),
    )
    assert last.reason == "tool_use"
    usage = last.message.usage
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read, usage.output_tokens, usage.reasoning_tokens) == (8, 4, 12, 7)
    assert usage.total_tokens == 24


@pytest.mark.covers("CAC-08", "MOD-29")
@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (
            {"promptTokenCount": 10, "totalTokenCount": 17, "candidatesTokenCount": 4},
            (10, 7, 3),
        ),  # thoughts are not reported
        (
            {"promptTokenCount": 10, "candidatesTokenCount": 7, "thoughtsTokenCount": 3, "totalTokenCount": 17},
            (10, 7, 3),
        ),
        ({"promptTokenCount": 10, "candidatesTokenCount": 4, "thoughtsTokenCount": 3}, (10, 7, 3)),
        ({"promptTokenCount": 10, "cachedContentTokenCount": 12, "totalTokenCount": 10}, (10, 0, 0)),
    ],
)
def test_usage_is_not_counted_twice(counts: dict[str, int], expected: tuple[int, int, int]) -> None:
    usage = message(chunk({"text": "Hi"}, finish="STOP", usageMetadata=counts)).usage

    assert usage is not None
    assert (usage.prompt_tokens, usage.output_tokens, usage.reasoning_tokens) == expected


def test_late_chunk_without_counts_keeps_the_usage() -> None:
    decoded = message(
        chunk({"text": "Hi"}, usageMetadata={"promptTokenCount": 3, "totalTokenCount": 4, "candidatesTokenCount": 1}),
        chunk(finish="STOP", usageMetadata={"trafficType": "ON_DEMAND"}),
    )

    assert decoded.usage is not None
    assert decoded.usage.total_tokens == 4


@pytest.mark.parametrize(
    ("reason", "kind", "error_reason", "is_retryable"),
    [
        ("SAFETY", ModelError, "content_filter", False),
        ("RECITATION", ModelError, "content_filter", False),
        ("BLOCKLIST", ModelError, "content_filter", False),
        ("PROHIBITED_CONTENT", ModelError, "content_filter", False),
        ("SPII", ModelError, "content_filter", False),
        ("IMAGE_SAFETY", ModelError, "content_filter", False),
        (3, ModelError, "content_filter", False),
        ("MALFORMED_FUNCTION_CALL", InvalidResponseError, "malformed_call", True),
        ("UNEXPECTED_TOOL_CALL", InvalidResponseError, "malformed_call", True),
        ("MALFORMED_RESPONSE", InvalidResponseError, "malformed_call", True),
        (9, InvalidResponseError, "malformed_call", True),
        ("OTHER", NetworkError, "stream_cut", True),
        ("SOMETHING_NEW", InvalidResponseError, "unknown_stop", False),
    ],
)
def test_failing_finish_reason_raises(reason: Any, kind: type, error_reason: str, is_retryable: bool) -> None:
    failed = chunk({"text": "So"}, finish=reason)
    failed["candidates"][0]["finishMessage"] = "print(default_api.look())"

    with pytest.raises(kind, match="finish reason") as caught:
        message(failed)

    assert (caught.value.reason, caught.value.retryable) == (error_reason, is_retryable)
    assert "print(default_api.look())" in caught.value.message
    assert caught.value.partial is not None
    assert caught.value.partial.text == "So"


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("STOP", "end_turn"),
        (1, "end_turn"),
        ("MAX_TOKENS", "max_tokens"),
        (2, "max_tokens"),
    ],
)
def test_finish_reason_is_mapped_to_a_stop_reason(reason: Any, stop: str) -> None:
    assert message(chunk({"text": "Hi"}, finish=reason)).stop_reason == stop


def test_call_of_an_unknown_tool_is_still_a_call() -> None:
    decoded = message(chunk({"functionCall": {"name": "list_files"}}, finish="UNEXPECTED_TOOL_CALL"))

    assert decoded.stop_reason == "tool_use"
    assert [c.name for c in decoded.tool_uses] == ["list_files"]


def test_truncated_call_has_the_stop_reason_max_tokens() -> None:
    decoded = message(chunk({"functionCall": {"name": "look", "args": {"at": "x"}}}, finish="MAX_TOKENS"))

    assert decoded.stop_reason == "max_tokens"


@pytest.mark.covers("MOD-04")
def test_empty_response_becomes_empty_text_and_a_rejected_prompt_raises() -> None:
    assert message({"candidates": [{"finishReason": "STOP", "content": {}}]}).content == (TextBlock(""),)
    for blocked in ({"blockReason": "SAFETY"}, {"blockReason": "OTHER", "blockReasonMessage": "Not this."}):
        with pytest.raises(ModelError, match=r"prompt rejected: (SAFETY|Not this\.)") as caught:
            events(sse({"promptFeedback": blocked, "usageMetadata": {"promptTokenCount": 4}}))
        assert (caught.value.code, caught.value.reason, caught.value.retryable) == (
            ErrorCode.UNKNOWN,
            "content_filter",
            False,
        )


@pytest.mark.covers("RET-21")
def test_invalid_response_raises() -> None:
    overflow = {"code": 400, "message": "The input token count (9) exceeds the maximum number of tokens allowed (5)."}
    for data, kind, text in (
        (b"", InvalidResponseError, "empty"),
        (b"{}", InvalidResponseError, "no candidates"),
        (b"[]", InvalidResponseError, "no candidates"),
        (b"<html>no</html>", InvalidResponseError, "web page"),
        (b"nonsense", InvalidResponseError, "not valid JSON"),
        (sse(chunk({"text": "Hi"})), NetworkError, "closed before"),
        (b"[" + json.dumps(chunk({"text": "Hi"})).encode() + b",", NetworkError, "closed before"),
        (sse({"error": overflow}), ContextExceededError, "exceeds the maximum"),
        (json.dumps([{"error": overflow}]).encode(), ContextExceededError, "exceeds the maximum"),
    ):
        with pytest.raises(kind, match=text):
            events(data)
    with pytest.raises(ModelError, match="quota") as caught:
        events(sse(chunk({"text": "Hi"}), {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}}))
    assert caught.value.code is ErrorCode.RATE_LIMITED
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hi"


def test_unstreamed_response_and_event_array_are_read() -> None:
    for data in (
        json.dumps(chunk({"text": "Hi there"}, finish="STOP")),
        json.dumps([chunk({"text": "Hi "}), chunk({"text": "there"}, finish="STOP")]),
    ):
        last = events(data.encode())[-1]
        assert isinstance(last, Done)
        assert last.message.text == "Hi there"


def test_invalid_json_text_is_repaired() -> None:
    odd = b'data: {"candidates": [{"content": {"parts": [{"text": "a\tb \\ud83d"}]}, "index": "0", "finishReason": "STOP"}]}\n\n'
    last = events(odd)[-1]

    assert isinstance(last, Done)
    assert last.message.text == "a\tb \ufffd"


def test_done_marker_of_a_gateway_does_not_end_the_response() -> None:
    done = b"data: [DONE]\n\n"
    last = events(sse(chunk({"text": "Hi"}, finish="STOP")) + done)[-1]

    assert isinstance(last, Done)
    with pytest.raises(NetworkError, match="closed before"):
        events(sse(chunk({"text": "Hi"})) + done)


def test_only_the_first_candidate_is_used() -> None:
    two = {
        "candidates": [
            {"index": 1, "content": {"parts": [{"text": "B"}]}, "finishReason": "STOP"},
            {"index": 0, "content": {"parts": [{"text": "A"}]}, "finishReason": "STOP"},
        ]
    }

    assert message({"candidates": two["candidates"][:1]}, two).text == "A"


def test_host_executed_code_is_skipped_and_images_are_kept() -> None:
    decoded = message(
        chunk(
            {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "s"},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thought": True},
            {"inlineData": {"mimeType": "image/png", "data": PIXEL.data}},
            {"text": "One.", "somethingNew": {}},
            finish="STOP",
        )
    )

    assert decoded.content == (PIXEL, TextBlock("One."))


def test_signature_ends_its_block() -> None:
    decoded = message(
        chunk({"text": "One", "thoughtSignature": "a"}),
        chunk({"text": "Two"}),
        chunk({"text": "", "thoughtSignature": "b"}),
        chunk({"text": "", "thoughtSignature": "lost"}, finish="STOP"),
    )

    assert decoded.content == (TextBlock("One", "a"), TextBlock("Two", "b"))


def test_arguments_can_arrive_in_pieces() -> None:
    def piece(path: str, **value: Any) -> dict[str, Any]:
        return {"functionCall": {"partialArgs": [{"jsonPath": path, **value}], "willContinue": True}}

    decoded = message(
        chunk({"functionCall": {"name": "write", "willContinue": True}, "thoughtSignature": "s"}),
        chunk(piece("$.text", stringValue="Hel", willContinue=True)),
        chunk(piece("$.text", stringValue="lo")),
        chunk(piece("$.rows[0].n", numberValue=3)),
        chunk(piece("$.rows[1].n", numberValue=0.5)),
        chunk(piece("$.rows[1]['odd.key']", boolValue=True)),
        chunk(piece("$.nothing", nullValue=None)),
        chunk(piece("$[4]", stringValue="fits nowhere")),
        chunk(piece("$.rows[999999999].n", numberValue=1)),
        chunk({"functionCall": {}}),
        chunk({"functionCall": {"name": "close", "willContinue": True}}, finish="STOP"),
    )

    assert [(c.name, c.input, c.signature) for c in decoded.tool_uses] == [
        (
            "write",
            {"text": "Hello", "rows": [{"n": 3}, {"n": 0.5, "odd.key": True}], "nothing": None},
            "s",
        ),
        ("close", {}, None),
    ]
    assert len({c.id for c in decoded.tool_uses}) == 2


def test_duplicate_call_ids_become_unique() -> None:
    call = {"functionCall": {"name": "look", "args": {}, "id": "same"}}

    assert [c.id for c in message(chunk(call, call, finish="STOP")).tool_uses] == ["same", "call_resp1_1"]


# --- requests ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("MOD-07")
def test_plain_request() -> None:
    assert body([Message.user("Hi")], system="Be brief.") == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
    }
    assert GeminiProtocol().url(profile()) == "http://host/v1beta/models/m1:streamGenerateContent?alt=sse"


def test_options_are_sent_in_gemini_format() -> None:
    sent = body(
        [Message.user("Hi")],
        max_output_tokens=100,
        temperature=0.5,
        stop=list("abcdef"),
        tools=[LOOK],
        tool_choice="look",
        extra={"generationConfig": {"seed": 7}, "safetySettings": [], "tools": [{"googleSearch": {}}]},
    )

    assert sent["generationConfig"] == {
        "maxOutputTokens": 100,
        "temperature": 0.5,
        "stopSequences": list("abcde"),
        "seed": 7,
    }
    assert sent["toolConfig"] == {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}}
    assert sent["safetySettings"] == []
    declaration = {"name": "look", "description": "Looks.", "parametersJsonSchema": LOOK.input_schema}
    assert sent["tools"] == [{"functionDeclarations": [declaration]}, {"googleSearch": {}}]
    for choice, mode in (("required", "ANY"), ("none", "NONE")):
        config = body([Message.user("Hi")], tools=[LOOK], tool_choice=choice)["toolConfig"]
        assert config == {"functionCallingConfig": {"mode": mode}}
    assert "toolConfig" not in body([Message.user("Hi")], tools=[LOOK])


@pytest.mark.covers("MOD-37")
def test_response_schema_is_sent_if_supported() -> None:
    schema = {"type": "object", "properties": {"n": {"const": 1}}, "$schema": "x"}
    settings = body([Message.user("Hi")], schema=schema)["generationConfig"]

    assert settings == {
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object", "properties": {"n": {"enum": [1]}}},
    }
    assert "generationConfig" not in body([Message.user("Hi")], schema=schema, tools=[LOOK])
    both = profile(GeminiDialect(schema_with_tools=True))
    assert "responseJsonSchema" in body([Message.user("Hi")], both, schema=schema, tools=[LOOK])["generationConfig"]


@pytest.mark.covers("MOD-36")
@pytest.mark.parametrize(
    ("model", "level", "expected"),
    [
        ("gemini-2.5-flash", "off", {"thinkingBudget": 0}),
        ("gemini-2.5-flash", "low", {"thinkingBudget": 2048, "includeThoughts": True}),
        ("gemini-2.5-flash", "xhigh", {"thinkingBudget": 24576, "includeThoughts": True}),
        ("gemini-2.5-pro", "off", {"thinkingBudget": 128}),
        ("gemini-2.5-pro", "xhigh", {"thinkingBudget": 32768, "includeThoughts": True}),
        ("gemini-2.5-flash-lite", "minimal", {"thinkingBudget": 512, "includeThoughts": True}),
        ("gemini-3-pro-preview", "off", {"thinkingLevel": "low"}),
        ("gemini-3-pro-preview", "medium", {"thinkingLevel": "low", "includeThoughts": True}),
        ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "medium", "includeThoughts": True}),
        ("gemini-3-flash-preview", "minimal", {"thinkingLevel": "minimal", "includeThoughts": True}),
        ("gemini-4-argon", "xhigh", {"thinkingLevel": "high", "includeThoughts": True}),
        ("gemini-2.0-flash", "high", None),
        ("gemini-2.5-flash-image", "high", None),
        ("gemma-3-27b", "high", None),
        ("gemini-2.5-flash", None, None),
    ],
)
def test_thinking_is_requested_in_the_format_of_the_model_generation(model: str, level: Any, expected: Any) -> None:
    settings = body([Message.user("Hi")], profile(gemini_capabilities(model)), thinking=level).get(
        "generationConfig", {}
    )

    assert settings.get("thinkingConfig") == expected


@pytest.mark.covers("MOD-36")
def test_exact_thinking_budget_overrides_the_level_and_raises_the_output_limit() -> None:
    fields: dict[str, Any] = {"thinking": "low", "thinking_budget": 5000, "max_output_tokens": 2000}
    for model in ("gemini-2.5-pro", "gemini-3.1-pro-preview"):
        settings = body([Message.user("Hi")], profile(gemini_capabilities(model)), **fields)["generationConfig"]
        assert settings["thinkingConfig"] == {"thinkingBudget": 5000, "includeThoughts": True}
        assert settings["maxOutputTokens"] == 6024
    small = profile(gemini_capabilities("gemini-2.5-pro"), max_output_tokens=4096)
    settings = body([Message.user("Hi")], small, **fields)["generationConfig"]
    assert (settings["thinkingConfig"]["thinkingBudget"], settings["maxOutputTokens"]) == (3072, 4096)


def test_conversation_with_calls_is_returned_unchanged() -> None:
    request = assistant(
        ThinkingBlock("Hm", "t0"),
        TextBlock("Looking.", "t1"),
        ToolUseBlock("c1", "look", {"at": "x"}, None, "s1"),
        ToolUseBlock("c2", "look", {}),
    )
    results = Message.user([ToolResultBlock("c2", "look", "B", is_error=True), ToolResultBlock("c1", "", "A")])
    contents = body([Message.user("Hi"), request, results, Message.user("Go on")])["contents"]

    assert contents[1:] == [
        {
            "role": "model",
            "parts": [
                {"text": "Hm", "thought": True, "thoughtSignature": "t0"},
                {"text": "Looking.", "thoughtSignature": "t1"},
                {"functionCall": {"id": "c1", "name": "look", "args": {"at": "x"}}, "thoughtSignature": "s1"},
                {"functionCall": {"id": "c2", "name": "look", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "c1", "name": "look", "response": {"output": "A"}}},
                {"functionResponse": {"id": "c2", "name": "look", "response": {"error": "B"}}},
            ],
        },
        {"role": "user", "parts": [{"text": "Go on"}]},
    ]
    bare = profile(GeminiDialect(call_ids=False, echo=False))
    parts = [p for c in body([Message.user("Hi"), request, results], bare)["contents"] for p in c["parts"]]
    assert not any("thought" in p or "thoughtSignature" in p for p in parts)
    assert not any("id" in p.get("functionCall", p.get("functionResponse", {})) for p in parts)


def test_calls_of_another_model_skip_the_signature_check() -> None:
    foreign = Message.assistant(
        [ThinkingBlock("Hm", "x"), ToolUseBlock("c1", "look", {}, None, "x"), ToolUseBlock("c2", "look", {})],
        provider="anthropic",
        model="m",
    )
    results = Message.user([ToolResultBlock("c1", "look", "A"), ToolResultBlock("c2", "look", "B")])
    old = body([Message.user("Hi"), foreign, results])["contents"][1]["parts"]
    new = body([Message.user("Hi"), foreign, results], profile(GeminiDialect(sign_calls=True)))["contents"][1]["parts"]

    assert [p.get("thoughtSignature") for p in old] == [None, None]
    assert [p.get("thoughtSignature") for p in new] == ["skip_thought_signature_validator", None]


@pytest.mark.covers("PRV-28", "PRV-27")
def test_result_images_are_sent_inside_after_or_as_text() -> None:
    call = assistant(ToolUseBlock("c1", "shot", {}), ToolUseBlock("c2", "shot", {}))
    shot = Message.user(
        [
            ToolResultBlock("c1", "shot", (TextBlock("Here"), PIXEL)),
            ToolResultBlock("c2", "shot", (PIXEL,)),
            TextBlock("And?"),
        ]
    )
    image = {"inlineData": {"mimeType": "image/png", "data": PIXEL.data}}

    after = body([Message.user("Hi"), call, shot])["contents"][2]["parts"]
    assert [p["functionResponse"]["response"] for p in after[:2]] == [
        {"output": "Here\n[the image follows]"},
        {"output": "[the image follows]"},
    ]
    decoded = {"text": "Image from the result of shot:"}
    assert after[2:] == [decoded, image, decoded, image, {"text": "And?"}]

    inside = body([Message.user("Hi"), call, shot], profile(gemini_capabilities("gemini-3-flash")))["contents"][2][
        "parts"
    ]
    assert [p["functionResponse"]["parts"] for p in inside[:2]] == [[image], [image]]
    assert [p["functionResponse"]["response"] for p in inside[:2]] == [
        {"output": "Here\n[with an image]"},
        {"output": "[with an image]"},
    ]
    blind = json.dumps(body([Message.user([PIXEL, TextBlock("Hi")]), call, shot], profile(vision=False)))
    assert PIXEL.data not in blind
    assert blind.count("image left out: this model takes no images") == 3


def test_roles_alternate() -> None:
    first, second = assistant(TextBlock("One.")), assistant(ToolUseBlock("c1", "look", {}))
    result = Message.user([ToolResultBlock("c1", "look", "A")])
    contents = body([first, second, result])["contents"]

    assert [c["role"] for c in contents] == ["user", "model", "user"]
    assert [list(p)[0] for p in contents[1]["parts"]] == ["text", "functionCall"]
    assert contents[0]["parts"] == [{"text": "Continue."}]


def test_empty_or_unreadable_content_is_left_out() -> None:
    contents = body(
        [Message.user(" "), Message.system("Be brief."), Message.user("Hi"), assistant(ThinkingBlock("Hm"))]
    )["contents"]

    assert contents == [{"role": "user", "parts": [{"text": "Be brief."}]}, {"role": "user", "parts": [{"text": "Hi"}]}]
    raw = assistant(ToolUseBlock("c1", "look", {}, '{"at": '))
    assert body([Message.user("Hi"), raw])["contents"][1]["parts"][0]["functionCall"]["args"] == {
        "unreadable_arguments": '{"at": '
    }


@pytest.mark.covers("CAC-10")
def test_request_prefix_of_fifty_turns_is_stable_and_cached() -> None:
    scratch, using = EncodingCache(), profile(gemini_capabilities("gemini-3-flash-preview"))
    history: list[Message] = []
    sent = before = b""
    for turn in range(50):
        history.append(Message.user(f"Question {turn}"))
        call = ToolUseBlock(f"c{turn}", "look", {"at": str(turn)}, None, f"sig{turn}")
        history.append(assistant(ThinkingBlock("Hm"), TextBlock("Looking."), call))
        history.append(Message.user([ToolResultBlock(f"c{turn}", "look", (TextBlock("Seen"), PIXEL))]))
        request = ModelRequest(history, system="Be brief.", tools=[LOOK], scratch=scratch)
        sent = encode_request(request, using)
        assert sent.startswith(before)
        before = sent[: -len(b"]}")]
        history.append(assistant(TextBlock(f"Answer {turn}")))
    assert len(json.loads(sent)["contents"]) == 50 * 4 - 1
    assert sent == encode_request(ModelRequest(history[:-1], system="Be brief.", tools=[LOOK]), using)


# --- schemas -----------------------------------------------------------------------------------------------------------

AWKWARD = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "definitions": {"node": {"type": "object", "properties": {"next": {"$ref": "#/definitions/node"}}}},
    "properties": {
        "kind": {"const": "a", "description": "Kind"},
        "flag": {"enum": [True, None]},
        "n": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9},
        "name": {"type": ["string", "null"], "pattern": "^a", "minLength": 1, "description": "Name"},
        "tree": {"$ref": "#/definitions/node", "description": "lost"},
        "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
        "any": True,
        "both": {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"required": ["b"]}]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"oneOf": [{"type": "string"}, {"type": "integer"}], "if": {}},
        "map": {"type": "object", "additionalProperties": {"type": "string", "format": "uri", "examples": ["x"]}},
        "level": {"enum": [1, 2]},
    },
    "required": ["kind"],
    "additionalProperties": False,
}


def test_schema_is_reduced_to_the_documented_subset() -> None:
    reduced = json_schema(AWKWARD)
    fields = reduced["properties"]

    assert set(reduced) == {"type", "properties", "required", "additionalProperties", "$defs"}
    assert reduced["$defs"]["node"]["properties"]["next"] == {"$ref": "#/$defs/node"}
    assert fields["kind"] == {"enum": ["a"], "description": "Kind"}
    assert fields["flag"] == {"description": "One of: True, None"}
    assert fields["n"] == {"type": "integer", "minimum": 1, "maximum": 8}
    assert fields["name"] == {
        "type": ["string", "null"],
        "description": "Name (Pattern: ^a) (At least, in characters: 1)",
    }
    assert fields["tree"] == {"$ref": "#/$defs/node"}
    assert fields["pair"] == {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}
    assert fields["any"] == {}
    assert fields["both"] == {"properties": {"a": {"type": "string"}}, "required": ["a", "b"]}
    assert fields["map"] == {"type": "object", "additionalProperties": {"type": "string", "format": "uri"}}


def test_schema_is_reduced_to_the_openapi_subset() -> None:
    fields = openapi_schema(AWKWARD)["properties"]

    assert fields["name"]["nullable"] is True
    assert fields["name"]["type"] == "string"
    assert fields["maybe"] == {"nullable": True, "type": "string"}
    assert fields["either"] == {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert fields["pair"] == {"type": "array", "items": {"type": "string"}}
    assert fields["level"] == {"enum": ["1", "2"], "type": "string"}
    assert fields["any"] == {"type": "string"}
    assert fields["tree"] == {"type": "object", "properties": {"next": {"type": "object"}}}


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "type properties items anyOf allOf enum const $ref $defs required description minLength x".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@example(schema={"type": [[]]})
@given(
    schema=st.dictionaries(
        st.sampled_from("type properties items anyOf allOf enum const $ref definitions".split()), json_like
    )
)
def test_schema_conversion_accepts_any_schema(schema: dict[str, Any]) -> None:
    json_schema(schema)
    openapi_schema(schema)


# --- rejections --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refusal", "change"),
    [
        (
            'Invalid JSON payload received. Unknown name "parametersJsonSchema" at tools[0]: Cannot find field.',
            {"tool_schema": "openapi"},
        ),
        ("Thinking level is not supported for this model.", {"thinking": "budget"}),
        ("Function calling with a response mime type: 'application/json' is unsupported", {"json_schema": False}),
        ("Unknown name \"id\" at 'contents[1].parts[0].function_call': Cannot find field.", {"call_ids": False}),
        (
            'Unknown name "parts" at contents[2].parts[0].function_response: Cannot find field.',
            {"result_images": "behind"},
        ),
        ("Function call is missing a thought_signature in functionCall parts.", {"sign_calls": True}),
        ("Invalid thought signature.", {"echo": False, "sign_calls": True}),
        ("temperature is not supported", {"temperature": False}),
        ("Stop sequences are not supported", {"stop": False}),
    ],
)
def test_rejected_feature_is_left_out(refusal: str, change: dict[str, Any]) -> None:
    dialect = GeminiDialect(thinking="level", result_images="inside")
    first = next(GeminiProtocol().without_rejected(profile(dialect), refusal))

    assert {name: getattr(first.gemini, name) for name in change} == change
    assert list(GeminiProtocol().without_rejected(profile(dialect), "You exceeded your quota.")) == []


def test_model_without_vision_is_detected() -> None:
    [blind] = GeminiProtocol().without_rejected(profile(), "Image input is not supported for this model")

    assert not blind.info.vision


# --- the provider ------------------------------------------------------------------------------------------------------


def as_http_model(model: Any) -> HttpModel:
    assert isinstance(model, HttpModel)
    return model


@pytest.mark.covers("PRV-16", "PRV-32", "PRV-36", "PRV-35")
async def test_gemini_has_defaults_and_reads_its_key_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProviderConfigError, match=r"GOOGLE_API_KEY.*providers\.gemini\.apiKey") as caught:
        create_model("gemini", api_key="")
    assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED
    monkeypatch.setenv("GOOGLE_API_KEY", "from-environment")
    model = as_http_model(create_model("gemini", base_url="", model=""))

    assert (model.provider, model.model) == ("gemini", "gemini-3.7-flash")
    assert model.profile.base_url == "https://generativelanguage.googleapis.com/v1beta"
    assert await model._get_credential() == "from-environment"
    assert await as_http_model(create_model("gemini:models/gemini-2.5-pro", api_key="own"))._get_credential() == "own"
    stable = as_http_model(create_model("gemini:m", api_version="v1", api_key="k"))
    assert stable.profile.base_url == "https://generativelanguage.googleapis.com/v1"
    other = as_http_model(create_model("gemini:m", base_url="https://gateway.example/gemini/v1", api_key="k"))
    assert other.profile.base_url == "https://gateway.example/gemini/v1"


@pytest.mark.covers("PRV-16", "PRV-31")
@pytest.mark.parametrize("setting", [{"useVertexai": True}, {"use_vertexai": "true"}])
def test_vertex_setting_is_rejected_with_a_hint(setting: dict[str, Any]) -> None:
    with pytest.raises(
        ProviderConfigError, match=r"extra langchain and langchain-google-vertexai.*ChatVertexAI"
    ) as caught:
        create_model("gemini", api_key="k", **setting)

    assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED
    assert create_model("gemini", api_key="k", useVertexai=False).provider == "gemini"


@pytest.mark.covers("STR-12", "PRV-16")
async def test_response_is_read_and_rejected_fields_are_left_out() -> None:
    refusal = {"error": {"code": 400, "message": 'Unknown name "id": Cannot find field.', "status": "INVALID_ARGUMENT"}}
    transport = MemoryTransport(
        MemoryResponse(json.dumps(refusal).encode(), 400),
        MemoryResponse(sse(chunk({"text": "Hi"}), chunk({"text": "!"}, finish="STOP"))),
    )
    using = profile(gemini_capabilities("gemini-3-flash"))
    model = HttpModel(using, GeminiProtocol(), lambda: "k", transport=transport)
    request = [
        Message.user("Hi"),
        assistant(ToolUseBlock("c1", "look", {})),
        Message.user([ToolResultBlock("c1", "look", "A")]),
    ]

    response = await model.complete(ModelRequest(request))

    assert response.text == "Hi!"
    first, second = [json.loads(r.body)["contents"][1]["parts"][0]["functionCall"] for r in transport.requests]
    assert (first["id"], "id" in second) == ("c1", False)
    assert transport.requests[0].url == "http://host/v1beta/models/m1:streamGenerateContent?alt=sse"
