"""Requests of the Responses protocol: options, returned output of the model, and the encoding cache."""

import json
import time
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.messages import (
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models.http_model import HttpModel
from mainspring.models.port import EncodingCache, ModelRequest
from mainspring.models.profile import ModelProfile, ResponsesCapabilities
from mainspring.models.transport.recording import MemoryResponse, MemoryTransport
from mainspring.models.wire.openai_responses import ResponsesProtocol, encode_request
from mainspring.models.wire.openai_responses.payloads import decode_item_metadata, encode_item_metadata
from tests.unit.models.responses_wire import (
    added,
    assistant,
    body,
    completed,
    delta,
    done,
    message,
    profile,
    sse,
    text_item,
)

LOOK = ToolDefinition("look", "Look at it.", {"type": "object", "properties": {"at": {"type": "string"}}})
NOW = ToolDefinition("now", "Tell the time.", {"type": "object"})
PICTURE = ImageBlock("image/png", "QUJD")
HI = [Message.user("Hi")]
LEVELS = ("minimal", "low", "medium", "high", "xhigh")


@pytest.mark.covers("STR-12")
def test_plain_request_contains_only_what_is_needed() -> None:
    assert body(HI, system="Be kind.") == {
        "model": "m1",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be kind.",
        "input": [{"type": "message", "role": "user", "content": "Hi"}],
    }


def test_options_are_encoded() -> None:
    sent = body(
        HI,
        profile(
            ResponsesCapabilities(prompt_cache_key=True, strict_tools=False, parallel_calls=False, strict_schema=True)
        ),
        tools=[LOOK, NOW],
        tool_choice="look",
        max_output_tokens=99,
        temperature=0.5,
        thinking="high",
        session_id="s1",
        schema={"type": "object"},
        extra={"service_tier": "flex"},
    )

    assert sent["tools"] == [
        {
            "type": "function",
            "name": "look",
            "description": "Look at it.",
            "parameters": LOOK.input_schema,
            "strict": False,
        },
        {
            "type": "function",
            "name": "now",
            "description": "Tell the time.",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
    ]
    assert sent["tool_choice"] == {"type": "function", "name": "look"}
    assert sent["parallel_tool_calls"] is False
    assert (sent["max_output_tokens"], sent["temperature"]) == (99, 0.5)
    assert sent["reasoning"] == {"effort": "high", "summary": "auto"}
    assert sent["prompt_cache_key"] == "s1"
    assert sent["text"] == {
        "format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}, "strict": True}
    }
    assert sent["service_tier"] == "flex"


@pytest.mark.covers("CAC-09")
def test_session_id_is_the_cache_key_if_supported_and_enabled() -> None:
    with_cache_key = profile(ResponsesCapabilities(prompt_cache_key=True))

    assert body(HI, with_cache_key, session_id="s1")["prompt_cache_key"] == "s1"
    assert "prompt_cache_key" not in body(HI, with_cache_key, session_id="s1", cache=False)
    assert "prompt_cache_key" not in body(HI, with_cache_key)
    assert "prompt_cache_key" not in body(HI, profile(), session_id="s1")


@pytest.mark.covers("MOD-36")
@pytest.mark.parametrize(
    ("level", "accepted", "sent"),
    [
        ("minimal", ("low", "medium", "high"), {"effort": "low", "summary": "auto"}),
        ("xhigh", ("low", "medium", "high"), {"effort": "high", "summary": "auto"}),
        *((level, LEVELS, {"effort": level, "summary": "auto"}) for level in LEVELS),
        ("off", ("none", "low", "high"), {"effort": "none"}),
        ("off", ("minimal", "low"), {"effort": "minimal"}),
        ("high", (), None),
    ],
)
def test_thinking_level_becomes_the_nearest_supported_effort(level: Any, accepted: tuple[str, ...], sent: Any) -> None:
    assert (
        body(HI, profile(ResponsesCapabilities(efforts=accepted), reasoning=True), thinking=level).get("reasoning")
        == sent
    )


@pytest.mark.covers("MOD-37")
def test_schema_is_left_out_if_unsupported() -> None:
    assert "text" not in body(HI, profile(ResponsesCapabilities(json_schema=False)), schema={"type": "object"})
    assert body(HI, schema={"type": "object"})["text"]["format"]["schema"] == {"type": "object"}


def test_model_without_reasoning_gets_no_reasoning_options() -> None:
    sent = body(HI, profile(ResponsesCapabilities(efforts=())), thinking="high")

    assert "reasoning" not in sent
    assert "include" not in sent


def test_host_tools_are_sent_with_the_other_tools() -> None:
    sent = body(HI, tools=[NOW], extra={"tools": [{"type": "web_search"}], "include": ["file_search_call.results"]})
    alone = body(HI, extra={"tools": [{"type": "web_search"}]})

    assert [tool["type"] for tool in sent["tools"]] == ["function", "web_search"]
    assert sent["include"] == ["reasoning.encrypted_content", "file_search_call.results"]
    assert alone["tools"] == [{"type": "web_search"}]


def test_text_options_are_merged_with_the_schema() -> None:
    sent = body(HI, schema={"type": "object"}, extra={"text": {"verbosity": "low"}})

    assert set(sent["text"]) == {"format", "verbosity"}


def test_system_text_is_sent_where_the_host_expects_it() -> None:
    history = [Message.user("Hi"), Message.system("In French."), Message.user("Well?")]
    first = profile(ResponsesCapabilities(system="message", system_role="system"))

    sent = body(history, first, system="Be kind.")
    assert "instructions" not in sent
    assert [(m["role"], m["content"]) for m in sent["input"]] == [
        ("system", "Be kind."),
        ("user", "Hi"),
        ("system", "In French."),
        ("user", "Well?"),
    ]
    assert [m["role"] for m in body(history, system="Be kind.")["input"]] == ["user", "developer", "user"]
    assert body(HI, profile(ResponsesCapabilities(instructions="Say something.")))["instructions"] == "Say something."
    assert "instructions" not in body(HI, system="  ")


def test_turn_with_calls_and_results() -> None:
    sent = body(
        [
            Message.user("Look"),
            assistant(TextBlock("Looking."), ToolUseBlock("c1", "look", {"at": "x"}), ToolUseBlock("c2", "now")),
            Message(
                "user", (ToolResultBlock("c1", "look", "a wall"), ToolResultBlock("c2", "now", ""), TextBlock("Hurry!"))
            ),
        ]
    )

    assert sent["input"][1:] == [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Looking.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":"x"}'},
        {"type": "function_call", "call_id": "c2", "name": "now", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "a wall"},
        {"type": "function_call_output", "call_id": "c2", "output": "(no output)"},
        {"type": "message", "role": "user", "content": "Hurry!"},
    ]


def test_images_are_parts_of_messages_and_results() -> None:
    history = [
        Message.user([TextBlock("See"), PICTURE]),
        assistant(ToolUseBlock("c1", "shot")),
        Message("user", (ToolResultBlock("c1", "shot", (TextBlock("Here:"), PICTURE)),)),
    ]
    image = {"type": "input_image", "image_url": "data:image/png;base64,QUJD"}

    first, _, result = body(history)["input"]

    assert first["content"] == [{"type": "input_text", "text": "See"}, image]
    assert result["output"] == [{"type": "input_text", "text": "Here:"}, image]
    _, _, text, image_message = body(history, profile(ResponsesCapabilities(tool_images=False)))["input"]
    assert text["output"] == "Here:\n[the image follows in the next user message]"
    assert image_message["content"][1] == image
    blind = json.dumps(body(history, profile(vision=False)))
    assert "base64" not in blind
    assert "image/png image left out" in blind


ANSWER = (
    added(0, "reasoning"),
    delta("reasoning_summary_text", 0, "One.", summary_index=0),
    delta("reasoning_summary_text", 0, "Two.", summary_index=1),
    done(
        0,
        "reasoning",
        encrypted_content="gAAA",
        summary=[{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}],
    ),
    done(1, "message", role="assistant", phase="commentary", content=[{"type": "output_text", "text": "I look."}]),
    done(2, "function_call", call_id="c1", name="look", namespace="eyes", arguments='{"at":"x"}'),
    completed(),
)


def encode_again(
    *events: Any, using: ModelProfile | None = None, sending: ModelProfile | None = None
) -> list[dict[str, Any]]:
    """Return the input items for the output of a response."""
    answer = message(*events, using=using)
    results = tuple(ToolResultBlock(c.id, c.name, "ok") for c in answer.tool_uses)
    follow = [Message("user", results)] if results else [Message.user("Go on")]
    return body([Message.user("Hi"), answer, *follow], sending or using)["input"][1:-1]


def test_output_of_the_model_is_returned_unchanged() -> None:
    assert encode_again(*ANSWER) == [
        {
            "type": "reasoning",
            "id": "i0",
            "summary": [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}],
            "encrypted_content": "gAAA",
        },
        {
            "type": "message",
            "id": "i1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
            "status": "completed",
            "phase": "commentary",
        },
        {
            "type": "function_call",
            "id": "i2",
            "call_id": "c1",
            "name": "look",
            "arguments": '{"at":"x"}',
            "namespace": "eyes",
        },
    ]


@pytest.mark.parametrize("other", [profile(model="m2"), profile(provider="elsewhere")])
def test_reasoning_and_ids_are_returned_only_to_their_model(other: ModelProfile) -> None:
    sent = encode_again(*ANSWER, sending=other)

    assert [item["type"] for item in sent] == ["message", "function_call"]
    assert not any({"id", "phase", "namespace", "status"} & set(item) for item in sent)
    assert "gAAA" not in json.dumps(sent)


def test_unsupported_reasoning_is_left_out_together_with_its_ids() -> None:
    bare = [added(0, "reasoning"), delta("reasoning_summary_text", 0, "Hm."), *ANSWER[4:]]

    sent = encode_again(*bare)
    assert [item["type"] for item in sent] == ["message", "function_call"]
    assert not any("id" in item for item in sent)
    keeps = profile(ResponsesCapabilities(store=True))
    assert [item.get("id") for item in encode_again(*bare, using=keeps)] == ["i0", "i1", "i2"]
    without = profile(ResponsesCapabilities(reasoning="none"))
    assert [item["type"] for item in encode_again(*ANSWER, using=without)] == ["message", "function_call"]
    nameless = profile(ResponsesCapabilities(item_ids=False))
    assert not any("id" in item for item in encode_again(*ANSWER, using=nameless))
    assert encode_again(*ANSWER, using=nameless)[0]["encrypted_content"] == "gAAA"


def test_readable_reasoning_is_returned_as_reasoning_text() -> None:
    item = encode_again(
        added(0, "reasoning"), delta("reasoning_text", 0, "Raw."), done(1, **text_item("Hi")), completed()
    )[0]

    assert item["content"] == [{"type": "reasoning_text", "text": "Raw."}]
    assert item["summary"] == []


def test_too_long_ids_are_left_out() -> None:
    long = "x" * 65
    item = {"type": "message", "id": long, "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}

    assert "id" not in encode_again(completed(item))[0]


def test_compaction_item_is_returned() -> None:
    sent = encode_again(completed({"type": "compaction", "id": "cmp", "encrypted_content": "g"}, text_item("Hi")))

    assert sent[0] == {"type": "compaction", "id": "cmp", "encrypted_content": "g"}


def test_metadata_of_other_protocols_is_ignored() -> None:
    foreign = assistant(
        ThinkingBlock("Hm.", "reasoning_content"),
        RedactedThinkingBlock('{"type":"reasoning.encrypted"}'),
        TextBlock("Hi", '{"google":1}'),
        ToolUseBlock("c1", "now", signature='{"google":1}'),
    )
    sent = body([foreign, Message("user", (ToolResultBlock("c1", "now", "noon"),))])["input"]

    assert [item["type"] for item in sent] == ["message", "function_call", "function_call_output"]
    assert "google" not in json.dumps(sent)
    assert decode_item_metadata("responses:{broken") is None
    assert encode_item_metadata(id=None) is None


def test_invalid_arguments_become_an_object() -> None:
    sent = body(
        [assistant(ToolUseBlock("c1", "f", {}, '{"a": 1')), Message("user", (ToolResultBlock("c1", "f", "no"),))]
    )

    assert json.loads(sent["input"][0]["arguments"]) == {"unreadable_arguments": '{"a": 1'}


@pytest.mark.covers("MSG-22")
def test_lone_surrogates_are_replaced() -> None:
    assert body([Message.user("a\ud800b")])["input"][0]["content"] == "a�b"


# --- the encoding cache ------------------------------------------------------------------------------------------------


def turn(number: int) -> list[Message]:
    mark = encode_item_metadata(type="reasoning", id=f"rs_{number}", encrypted_content="g" * 100)
    call = ToolUseBlock(
        f"c{number}", "look", {"at": f"place {number}"}, signature=encode_item_metadata(id=f"fc_{number}")
    )
    return [
        assistant(ThinkingBlock(f"Thought {number}", mark), TextBlock(f"Step {number}"), call),
        Message("user", (ToolResultBlock(f"c{number}", "look", (TextBlock(f"result {number}"), PICTURE)),)),
    ]


@pytest.mark.parametrize("system", ["instructions", "message"])
def test_request_prefix_of_fifty_turns_is_stable(system: Any) -> None:
    using = profile(ResponsesCapabilities(system=system))
    scratch, history, before = EncodingCache(), [Message.user("Go")], b""
    for number in range(50):
        request = ModelRequest(list(history), system="S", tools=(LOOK, NOW), max_output_tokens=100, scratch=scratch)
        sent = encode_request(request, using)
        assert sent.startswith(before.removesuffix(b"]}"))
        assert sent == encode_request(replace(request, scratch=None, messages=tuple(history)), using)
        before = sent
        history += turn(number)


def test_second_encoding_costs_less_than_a_tenth_of_the_first() -> None:
    tools = [ToolDefinition(f"tool{n}", "Does something. " * 10, LOOK.input_schema) for n in range(40)]
    ratios: list[float] = []
    for _ in range(5):
        history = [Message.user("Go"), *[m for number in range(100) for m in turn(number)]]
        fresh = [replace(tool) for tool in tools]
        scratch = EncodingCache()
        start = time.process_time()
        encode_request(ModelRequest(history, system="S", tools=fresh, scratch=scratch), profile())
        first = time.process_time() - start
        history = [*history, *turn(100)]
        start = time.process_time()
        for _ in range(10):
            encode_request(ModelRequest(history, system="S", tools=fresh, scratch=scratch), profile())
        ratios.append((time.process_time() - start) / 10 / first)

    assert min(ratios) < 0.1


def test_other_capabilities_restart_the_encoding() -> None:
    scratch = EncodingCache()
    history = [Message.user("Go"), *turn(1)]

    def sent(dialect: ResponsesCapabilities) -> Any:
        return json.loads(encode_request(ModelRequest(history, tools=[NOW], scratch=scratch), profile(dialect)))

    assert any("id" in item for item in sent(ResponsesCapabilities())["input"])
    assert not any("id" in item for item in sent(ResponsesCapabilities(item_ids=False))["input"])
    assert "strict" not in sent(ResponsesCapabilities())["tools"][0]
    assert sent(ResponsesCapabilities(strict_tools=True))["tools"][0]["strict"] is True


# --- rejections --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refusal", "fields"),
    [
        ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
        ("Unsupported parameter: 'max_output_tokens'", "max_output_tokens"),
        ("Unknown parameter: 'prompt_cache_key'.", "prompt_cache_key"),
        ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", "include reasoning"),
        ("Encrypted content is not supported with this model.", "include"),
        ("Unrecognized request argument supplied: store", "store"),
        ("Unknown parameter: 'text.format'", "text"),
        ("Unknown parameter: 'parallel_tool_calls'", "parallel_tool_calls"),
    ],
)
async def test_rejected_field_is_left_out(refusal: str, fields: str) -> None:
    transport = MemoryTransport(
        MemoryResponse(json.dumps({"error": {"message": refusal, "type": "invalid_request_error"}}).encode(), 400),
        MemoryResponse(sse(*ANSWER)),
    )
    dialect = ResponsesCapabilities(prompt_cache_key=True, parallel_calls=True, strict_tools=False)
    model = HttpModel(profile(dialect, reasoning=True), ResponsesProtocol(), transport=transport)
    request = ModelRequest(
        HI,
        tools=[NOW],
        thinking="low",
        temperature=1,
        max_output_tokens=9,
        session_id="s",
        schema={"type": "object"},
    )

    answer = await model.complete(request)

    first, second = (json.loads(sent.body) for sent in transport.requests)
    assert set(first) - set(second) == set(fields.split())
    assert answer.text == "I look."


@pytest.mark.parametrize(
    ("refusal", "change"),
    [
        (
            "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
            ResponsesCapabilities(item_ids=False),
        ),
        (
            "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
            ResponsesCapabilities(item_ids=False),
        ),
        ("The encrypted content gAAA could not be verified.", ResponsesCapabilities(reasoning="none")),
        ("Your organization must be verified to generate reasoning summaries.", ResponsesCapabilities(summary="")),
        ("Instructions are required", ResponsesCapabilities(instructions="You are a helpful assistant.")),
        (
            "Unsupported value: 'minimal' is not supported. Supported values are: 'low', 'medium' and 'high'.",
            ResponsesCapabilities(efforts=("low", "medium", "high")),
        ),
        ("Invalid value: 'developer' is not supported, expected system", ResponsesCapabilities(system_role="system")),
        ("Unknown parameter: 'tools[0].strict'", ResponsesCapabilities(strict_tools=None)),
    ],
)
def test_rejections_change_the_capabilities(refusal: str, change: ResponsesCapabilities) -> None:
    if "Unsupported value" in refusal:
        refusal = f"reasoning.effort: {refusal}"

    assert change in [changed.responses for changed in ResponsesProtocol().without_rejected(profile(), refusal)]


@pytest.mark.covers("PRV-35")
async def test_rejected_api_version_is_left_out() -> None:
    refusal = b'{"error":{"code":"BadRequest","message":"API version not supported"}}'
    transport = MemoryTransport(MemoryResponse(refusal, 400), MemoryResponse(sse(*ANSWER)))
    using = replace(profile(), query="a=1&api-version=2024-12-01-preview")
    model = HttpModel(using, ResponsesProtocol(), transport=transport)

    await model.complete(ModelRequest(HI))

    assert [sent.url for sent in transport.requests] == [
        "http://host/v1/responses?a=1&api-version=2024-12-01-preview",
        "http://host/v1/responses?a=1",
    ]


def test_rejected_value_changes_nothing() -> None:
    assert list(ResponsesProtocol().without_rejected(profile(), "temperature must be between 0 and 2")) == []
    assert [
        p.info.vision
        for p in ResponsesProtocol().without_rejected(profile(), "This model does not support image input")
    ] == [False]
