"""Requests as Anthropic Messages bodies."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mainspring.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models.port import EncodingCache, ModelRequest
from mainspring.models.profile import AnthropicCapabilities, ModelProfile
from mainspring.models.wire.anthropic import (
    build_anthropic_system_param,
    encode,
    encode_message,
    encode_request,
    normalize_message,
)
from tests.unit.models.messages_wire import begin, body, end as ending, message, profile, start, stop, text

LOOK = ToolDefinition("look", "Look at it.", {"type": "object", "properties": {"at": {"type": "string"}}})
NOW = ToolDefinition("now", "", {"type": "object"})
MARK = {"type": "ephemeral"}
PICTURE = ImageBlock("image/png", "QUJD")


def assistant(*blocks: ContentBlock, **fields: Any) -> Message:
    return Message("assistant", blocks, **{"provider": "host", "model": "m1", **fields})


def results(*blocks: ContentBlock) -> Message:
    return Message("user", blocks)


def turn(number: int, size: int = 20) -> list[Message]:
    call = ToolUseBlock(f"c{number}", "look", {"at": "x" * size})
    return [
        assistant(ThinkingBlock("Hm.", "SIG"), TextBlock(f"Step {number}."), call),
        results(ToolResultBlock(f"c{number}", "look", "y" * size)),
    ]


def roles(sent: dict[str, Any]) -> list[str]:
    return [item["role"] for item in sent["messages"]]


# --- the conversation --------------------------------------------------------------------------------------------------


@pytest.mark.covers("STR-12")
def test_plain_request_contains_only_what_is_needed() -> None:
    assert body([Message.user("Hi")], system="Be kind.") == {
        "model": "m1",
        "max_tokens": 8192,
        "stream": True,
        "system": [{"type": "text", "text": "Be kind."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }


@pytest.mark.covers("MOD-07")
def test_system_texts_are_joined() -> None:
    history = [Message.user("Hi"), Message.system("From now on in French."), Message.system(" "), Message.user("Well?")]

    sent = body(history, system="Be kind.")

    assert build_anthropic_system_param(history, "Be kind.") == "Be kind.\n\nFrom now on in French."
    assert build_anthropic_system_param(history) == "From now on in French."
    assert build_anthropic_system_param([Message.user("Hi")]) == ""
    assert sent["system"] == [{"type": "text", "text": "Be kind.\n\nFrom now on in French."}]
    assert [block["text"] for item in sent["messages"] for block in item["content"]] == ["Hi", "Well?"]
    assert "system" not in body([Message.user("Hi")])


@pytest.mark.covers("MOD-08")
def test_system_message_is_not_encoded_as_a_message() -> None:
    with pytest.raises(ValueError, match="no system role"):
        normalize_message(Message.system("Be kind."))
    with pytest.raises(ValueError, match="no system role"):
        normalize_message(Message.system("Be kind."), profile())
    assert encode_message(Message.system("Be kind."), profile()) == b""


@pytest.mark.covers("MOD-08")
def test_other_messages_become_plain_objects() -> None:
    assert normalize_message(Message.user("Hi")) == {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
    assert normalize_message(Message.user(" ")) is None
    assistant_message = assistant(ThinkingBlock("Hm.", "SIG"), TextBlock("Hi"))
    assert normalize_message(assistant_message) == {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "Hm.", "signature": "SIG"}, {"type": "text", "text": "Hi"}],
    }
    assert normalize_message(assistant_message, profile(model="m2")) == {
        "role": "assistant",
        "content": [{"type": "text", "text": "Hi"}],
    }


@pytest.mark.covers("MSG-04")
def test_turn_with_parallel_calls() -> None:
    sent = body(
        [
            Message.user("Look"),
            assistant(
                ThinkingBlock("Hm.", "SIG"),
                RedactedThinkingBlock("XXXX"),
                TextBlock("Looking."),
                ToolUseBlock("c1", "look", {"at": "x"}),
                ToolUseBlock("c2", "now"),
            ),
            results(
                ToolResultBlock("c1", "look", "a wall"),
                ToolResultBlock("c2", "now", "no clock", is_error=True),
                TextBlock("Hurry!"),
            ),
        ]
    )

    assert sent["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "SIG"},
                {"type": "redacted_thinking", "data": "XXXX"},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "x"}},
                {"type": "tool_use", "id": "c2", "name": "now", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "a wall"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "no clock", "is_error": True},
                {"type": "text", "text": "Hurry!"},
            ],
        },
    ]


def test_thinking_is_returned_only_signed_to_its_model_and_never_last() -> None:
    blocks = (ThinkingBlock("Hm.", "SIG"), ThinkingBlock("Unsigned."), TextBlock("Hi"), ThinkingBlock("End.", "SIG2"))
    own_history = [Message.user("A"), assistant(*blocks), Message.user("B")]

    assert [b["type"] for b in body(own_history)["messages"][1]["content"]] == ["thinking", "text"]
    for using in (profile(model="m2"), profile(provider="other"), profile(AnthropicCapabilities(reasoning=False))):
        assert body(own_history, using)["messages"][1]["content"] == [{"type": "text", "text": "Hi"}]


def test_roles_alternate_and_the_user_begins() -> None:
    history = [
        assistant(TextBlock("I am here.")),
        Message.user("A"),
        Message.user("B"),
        Message.system("C"),
        Message.user("D"),
        assistant(TextBlock("E")),
        assistant(),
        assistant(TextBlock(" "), ThinkingBlock("Hm.", "SIG")),
        assistant(TextBlock("F"), ToolUseBlock("c1", "now")),
        Message.user("G"),
    ]

    sent = body(history)

    assert roles(sent) == ["user", "assistant", "user", "assistant", "user"]
    assert [b["text"] for b in sent["messages"][2]["content"]] == ["A", "B", "D"]
    assert [b["type"] for b in sent["messages"][3]["content"]] == ["text", "text", "tool_use"]
    assert [b["type"] for b in sent["messages"][4]["content"]] == ["tool_result", "text"]
    assert roles(body([])) == ["user"]
    assert roles(body([Message.system("Only this.")])) == ["user"]


def test_assistant_text_at_the_end_is_a_prefill() -> None:
    history = [Message.user("A story"), assistant(TextBlock("Once upon a \n"))]
    scratch = EncodingCache()

    sent = body(history, scratch=scratch)

    assert sent["messages"][-1] == {"role": "assistant", "content": [{"type": "text", "text": "Once upon a"}]}
    for using in (profile(AnthropicCapabilities(prefill=False)), profile(AnthropicCapabilities(thinking="both"))):
        request = body(history, using, thinking="low", max_output_tokens=5000)
        assert request["messages"][-2]["content"] == [{"type": "text", "text": "Once upon a \n"}]
        assert request["messages"][-1]["role"] == "user"
    went_on = [*history, Message.user("Go on")]
    assert body(went_on, scratch=scratch)["messages"] == body(went_on)["messages"]


def test_invalid_arguments_ids_and_names_are_repaired() -> None:
    history = [
        Message.user("Go"),
        assistant(
            ToolUseBlock("a b|c", "fn.look at", {}, '{"at": "x\ny"}'), ToolUseBlock("c2", "", {}, "[1]"), model="m2"
        ),
        results(ToolResultBlock("a b|c", "look", ""), ToolResultBlock("c2", "now", (TextBlock(" "),))),
    ]

    called, answered = body(history)["messages"][1:]

    first, second = called["content"]
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", first["id"])
    assert (first["name"], first["input"]) == ("fn_look_at", {"at": "x\ny"})
    assert (second["name"], second["input"]) == ("unnamed", {"unreadable_arguments": "[1]"})
    assert [b["tool_use_id"] for b in answered["content"]] == [first["id"], "c2"]
    assert [b["content"] for b in answered["content"]] == ["(no output)", "(no output)"]


@pytest.mark.covers("MSG-22")
def test_lone_surrogates_are_replaced() -> None:
    sent = body([Message.user("a\ud800b"), assistant(ToolUseBlock("c", "look", {"at": "\udc00"}))], system="\ud800")

    assert sent["system"][0]["text"] == "\N{REPLACEMENT CHARACTER}"
    assert sent["messages"][0]["content"][0]["text"] == "a\N{REPLACEMENT CHARACTER}b"
    assert sent["messages"][1]["content"][0]["input"] == {"at": "\N{REPLACEMENT CHARACTER}"}


@pytest.mark.covers("PRV-27", "PRV-28")
def test_images_are_encoded_inside_tool_results() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    history = [
        Message.user([TextBlock("See"), PICTURE]),
        assistant(ToolUseBlock("c1", "shot")),
        results(ToolResultBlock("c1", "shot", (TextBlock("Here:"), PICTURE, ImageBlock("image/tiff", "QUJD")))),
    ]

    sent = body(history)["messages"]

    assert sent[0]["content"] == [{"type": "text", "text": "See"}, image]
    [result] = sent[2]["content"]
    assert result["content"][:2] == [{"type": "text", "text": "Here:"}, image]
    assert "image/tiff image left out" in result["content"][2]["text"]
    behind = body(history, profile(AnthropicCapabilities(tool_images=False)))["messages"][2]["content"]
    assert behind[0]["content"] == [{"type": "text", "text": "Here:"}]
    assert behind[1]["text"] == "Image from the result of shot:"
    assert behind[2] == image
    blind = body(history, profile(vision=False))
    assert "image/png image left out" in blind["messages"][2]["content"][0]["content"][1]["text"]
    assert "base64" not in json.dumps(blind)


@pytest.mark.covers("PRV-28")
def test_images_of_a_failed_call_follow_the_result() -> None:
    history = [
        assistant(ToolUseBlock("c1", "shot")),
        results(ToolResultBlock("c1", "shot", (TextBlock("Broken:"), PICTURE), is_error=True)),
    ]

    failed, _, image = body(history)["messages"][-1]["content"]

    assert failed["content"] == [{"type": "text", "text": "Broken:"}]
    assert failed["is_error"] is True
    assert image["type"] == "image"


# --- server tools ------------------------------------------------------------------------------------------------------

SEARCHED = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u", "encrypted_content": "E"}]}


def opaque_block(block: dict[str, Any]) -> RedactedThinkingBlock:
    return RedactedThinkingBlock(json.dumps(block))


def test_server_tool_blocks_are_returned_to_their_model_unchanged() -> None:
    history = [
        Message.user("A"),
        assistant(opaque_block(SEARCHED), opaque_block(FOUND), TextBlock("So.")),
        Message.user("B"),
    ]

    assert body(history)["messages"][1]["content"] == [SEARCHED, FOUND, {"type": "text", "text": "So."}]
    for using in (profile(model="m2"), profile(AnthropicCapabilities(hosted=False))):
        assert body(history, using)["messages"][1]["content"] == [{"type": "text", "text": "So."}]


def test_server_tool_call_without_a_result_needs_open_calls() -> None:
    paused = [Message.user("A"), assistant(TextBlock("Hm."), opaque_block(SEARCHED)), Message.user("B")]
    waiting = [
        Message.user("A"),
        assistant(opaque_block(SEARCHED), ToolUseBlock("c1", "now")),
        results(ToolResultBlock("c1", "now", "noon")),
    ]

    assert [b["type"] for b in body(paused)["messages"][1]["content"]] == ["text"]
    assert [b["type"] for b in body(waiting)["messages"][1]["content"]] == ["server_tool_use", "tool_use"]


@pytest.mark.parametrize("dialect", [AnthropicCapabilities(), AnthropicCapabilities(prefill=False)])
@pytest.mark.parametrize("blocks", [(TextBlock("Hm. "), opaque_block(SEARCHED)), (opaque_block(SEARCHED),)])
def test_paused_turn_is_sent_back_unchanged(dialect: AnthropicCapabilities, blocks: tuple[ContentBlock, ...]) -> None:
    paused = [Message.user("A"), assistant(*blocks, stop_reason="pause_turn")]
    answered = [*paused, assistant(opaque_block(FOUND), TextBlock("So.")), Message.user("B")]
    sent = [b if isinstance(b, dict) else {"type": "text", "text": "Hm. "} for b in (SEARCHED, *blocks)][-len(blocks) :]
    sent[-1] = SEARCHED

    assert body(paused, profile(dialect))["messages"][1:] == [{"role": "assistant", "content": sent}]
    assert body(answered, profile(dialect))["messages"][1]["content"] == [*sent, FOUND, {"type": "text", "text": "So."}]
    other = body(paused, profile(dialect, model="m2"))["messages"]
    assert other[-1]["role"] == "user"


def test_compaction_block_alone_is_a_message() -> None:
    summary = {"type": "compaction", "content": "So far"}
    encoded_message = message(
        begin(), {"type": "content_block_start", "index": 0, "content_block": summary}, stop(0), *ending("compaction")
    )

    assert body([Message.user("A"), encoded_message, Message.user("B")])["messages"][1]["content"] == [summary]


def test_caller_of_a_tool_call_is_returned() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "s1"}
    encoded_message = message(
        begin(), start(0, "tool_use", id="c1", name="now", input={}, caller=caller), *ending("tool_use")
    )

    [call] = body([Message.user("A"), encoded_message])["messages"][1]["content"]

    assert call == {"type": "tool_use", "id": "c1", "name": "now", "input": {}, "caller": caller}


# --- options -----------------------------------------------------------------------------------------------------------


def test_options_are_encoded() -> None:
    sent = body(
        [Message.user("Hi")],
        max_output_tokens=100,
        temperature=1.5,
        stop=["#", " \n"],
        tools=[LOOK, NOW],
        tool_choice="required",
        extra={"metadata": {"user_id": "u"}},
    )

    assert (sent["max_tokens"], sent["temperature"], sent["stop_sequences"]) == (100, 1.0, ["#"])
    assert sent["tool_choice"] == {"type": "any"}
    assert sent["metadata"] == {"user_id": "u"}
    assert sent["tools"] == [
        {"name": "look", "description": "Look at it.", "input_schema": LOOK.input_schema},
        {"name": "now", "input_schema": {"type": "object", "properties": {}}},
    ]


@pytest.mark.parametrize(
    ("choice", "field"), [("auto", None), ("none", {"type": "none"}), ("look", {"type": "tool", "name": "look"})]
)
def test_tool_choice_is_encoded(choice: str, field: dict[str, Any] | None) -> None:
    assert body([Message.user("Hi")], tools=[LOOK], tool_choice=choice).get("tool_choice") == field
    assert "tool_choice" not in body([Message.user("Hi")], tool_choice=choice)
    free = profile(AnthropicCapabilities(forced_tools=False))
    sent = body([Message.user("Hi")], free, tools=[LOOK], tool_choice=choice).get("tool_choice")
    assert sent == (field if choice == "none" else None)


def test_server_tools_follow_the_other_tools() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}

    sent = body([Message.user("Hi")], tools=[LOOK], extra={"tools": [search]}, cache=True)

    assert [tool["name"] for tool in sent["tools"]] == ["look", "web_search"]
    assert sent["tools"][1] == {**search, "cache_control": MARK}


def test_output_limit_is_always_sent_and_clamped_to_the_model() -> None:
    hi = [Message.user("Hi")]

    assert body(hi)["max_tokens"] == 8192
    assert body(hi, profile(max_output_tokens=64_000))["max_tokens"] == 32_000
    assert body(hi, profile(max_output_tokens=4096))["max_tokens"] == 4096
    assert body(hi, profile(max_output_tokens=4096), max_output_tokens=10_000)["max_tokens"] == 4096
    long = [Message.user("x" * 400_000)]
    assert body(long, profile(max_output_tokens=64_000, context_window=120_000))["max_tokens"] < 20_000


def test_tool_schema_is_one_object() -> None:
    union = {
        "oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"properties": {"b": {}}}],
        "properties": {"c": {"type": "integer"}},
    }

    [tool] = body([Message.user("Hi")], tools=[ToolDefinition("t", "", union)])["tools"]

    assert tool["input_schema"] == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {}, "c": {"type": "integer"}},
    }


@pytest.mark.covers("MOD-37")
def test_response_schema_is_closed_and_reduced() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "format": "email"},
            "color": {"type": "string", "format": "color", "pattern": "^#"},
            "age": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
            "kids": {"type": "array", "minItems": 2, "maxItems": 5, "items": {"$ref": "#/$defs/kid"}},
            "minimum": {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "number"}]},
        },
        "required": ["name"],
        "$defs": {"kid": {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": True}},
    }

    sent = body([Message.user("Hi")], schema=schema)["output_config"]["format"]

    assert sent == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "format": "email"},
                "color": {"type": "string"},
                "age": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "kids": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/kid"}},
                "minimum": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            },
            "required": ["name"],
            "$defs": {
                "kid": {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False}
            },
            "additionalProperties": False,
        },
    }
    assert "output_config" not in body(
        [Message.user("Hi")], profile(AnthropicCapabilities(json_schema=False)), schema=schema
    )


# --- thinking ----------------------------------------------------------------------------------------------------------

BUDGET = AnthropicCapabilities(thinking="budget")
BOTH = AnthropicCapabilities(thinking="both", efforts=("low", "medium", "high", "max"))
ADAPTIVE = AnthropicCapabilities(
    thinking="adaptive", efforts=("low", "medium", "high", "xhigh", "max"), display="summarized"
)


@pytest.mark.covers("MOD-36")
@pytest.mark.parametrize(
    ("level", "budget", "effort_of_both", "effort"),
    [
        ("minimal", 1024, "low", "low"),
        ("low", 2048, "low", "low"),
        ("medium", 8192, "medium", "medium"),
        ("high", 16384, "high", "high"),
        ("xhigh", 32768, "max", "xhigh"),
    ],
)
def test_thinking_level_becomes_a_budget_or_an_effort(
    level: str, budget: int, effort_of_both: str, effort: str
) -> None:
    hi, cap = [Message.user("Hi")], {"max_output_tokens": 1000, "temperature": 0.5, "thinking": level}

    older = body(hi, profile(BUDGET), **cap)
    middle = body(hi, profile(BOTH), **cap)
    newer = body(hi, profile(ADAPTIVE), **cap)

    assert older["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert older["max_tokens"] == 1000 + budget
    assert (middle["thinking"], middle["output_config"]) == ({"type": "adaptive"}, {"effort": effort_of_both})
    assert newer["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert newer["output_config"] == {"effort": effort}
    assert all("temperature" not in sent for sent in (older, middle, newer))
    assert "thinking" not in body(hi, profile(AnthropicCapabilities(thinking="none")), **cap)


@pytest.mark.covers("MOD-36")
def test_exact_thinking_budget_is_sent_if_supported() -> None:
    hi = [Message.user("Hi")]

    for dialect in (BUDGET, BOTH):
        sent = body(hi, profile(dialect), thinking="low", thinking_budget=3000, max_output_tokens=2000)
        assert sent["thinking"] == {"type": "enabled", "budget_tokens": 3000}
        assert sent["max_tokens"] == 5000
    assert body(hi, profile(BUDGET), thinking_budget=5, max_output_tokens=2000)["thinking"]["budget_tokens"] == 1024
    assert body(hi, profile(ADAPTIVE), thinking_budget=10_000)["output_config"] == {"effort": "high"}
    assert "thinking" not in body(hi, profile(BUDGET), thinking="high", thinking_budget=0)


@pytest.mark.covers("MOD-36")
def test_thinking_budget_leaves_room_for_a_response_or_is_dropped() -> None:
    hi = [Message.user("Hi")]

    tight = body(hi, profile(BUDGET, max_output_tokens=8192), thinking="xhigh")
    tiny = body(hi, profile(BUDGET, max_output_tokens=2000), thinking="xhigh")

    assert (tight["max_tokens"], tight["thinking"]["budget_tokens"]) == (8192, 8192 - 1024)
    assert (tiny["max_tokens"], "thinking" in tiny) == (2000, False)


@pytest.mark.covers("MOD-36")
@pytest.mark.parametrize(
    ("off", "field", "effort"),
    [
        ("omit", None, None),
        ("disabled", {"type": "disabled"}, None),
        ("between_tools", {"type": "between_tools"}, None),
        ("never", None, "low"),
    ],
)
def test_thinking_off_is_encoded_for_each_model(off: Any, field: dict[str, Any] | None, effort: str | None) -> None:
    using = profile(AnthropicCapabilities(thinking="adaptive", thinking_off=off, efforts=("low", "high")))

    sent = body([Message.user("Hi")], using, thinking="off")

    assert sent.get("thinking") == field
    assert sent.get("output_config", {}).get("effort") == effort
    assert "thinking" not in body([Message.user("Hi")], using)


def test_unbound_thinking_is_dropped_by_the_host() -> None:
    using = profile(
        AnthropicCapabilities(thinking="adaptive", thinking_off="never", efforts=("low",), drop_unbound=True)
    )
    field = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}

    for level in (None, "off", "high"):
        assert body([Message.user("Hi")], using, thinking=level)["thinking"] == field


def test_forced_tool_call_excludes_a_thinking_budget() -> None:
    forced = {"tools": [LOOK], "tool_choice": "look", "thinking": "low"}

    assert "thinking" not in body([Message.user("Hi")], profile(BUDGET), **forced)
    assert body([Message.user("Hi")], profile(ADAPTIVE), **forced)["thinking"]["type"] == "adaptive"


def test_thinking_budget_is_not_requested_during_calls_made_without_thinking() -> None:
    unthought = [assistant(ToolUseBlock("c1", "now")), results(ToolResultBlock("c1", "now", "noon"))]
    foreign = [assistant(ThinkingBlock("Hm.", "S"), ToolUseBlock("c1", "now"), model="m2"), unthought[1]]
    ask = {"thinking": "low", "max_output_tokens": 100}

    for middle in (unthought, foreign):
        history = [Message.user("Go"), *middle]
        assert "thinking" not in body(history, profile(BUDGET), **ask)
        assert "thinking" in body(history, profile(ADAPTIVE), **ask)
        assert "thinking" not in body([*history, Message.user("And?")], profile(BUDGET), **ask)
        answered = [*history, assistant(TextBlock("Noon."))]
        assert "thinking" in body([*answered, Message.user("And?")], profile(BUDGET), **ask)
    assert "thinking" in body([Message.user("Go"), *turn(1)], profile(BUDGET), **ask)


# --- the prompt cache --------------------------------------------------------------------------------------------------


def find_markers(sent: Any) -> list[str]:
    """Return the paths of all objects with a cache marker."""
    found: list[str] = []

    def look(value: Any, path: str) -> None:
        if isinstance(value, dict):
            if "cache_control" in value:
                found.append(path)
            for name, inner in value.items():
                look(inner, f"{path}/{name}")
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                look(inner, f"{path}/{index}")

    look(sent, "")
    return found


@pytest.mark.covers("CAC-01", "CAC-02", "CAC-03", "CAC-04", "CAC-05")
def test_three_cache_breakpoints_are_set_by_default() -> None:
    request = ModelRequest(
        [Message.user("Hi"), *turn(1)], system="Be kind.", tools=[LOOK, NOW], scratch=EncodingCache()
    )

    sent = json.loads(encode_request(request, profile()))

    assert find_markers(sent) == ["/tools/1", "/system/0", "/messages/2/content/0"]
    assert sent["tools"][1]["cache_control"] == sent["system"][0]["cache_control"] == MARK
    assert sent["messages"][2]["content"][0]["cache_control"] == MARK


@pytest.mark.covers("CAC-01", "CAC-04")
@pytest.mark.parametrize(
    ("last", "where"),
    [
        (Message.user([TextBlock("a"), TextBlock("b")]), "/messages/2/content/1"),
        (Message.user([TextBlock("See"), PICTURE]), "/messages/2/content/1"),
        (Message.user(" "), "/messages/2/content/0"),
        (assistant(TextBlock("Once"), ThinkingBlock("Hm.", "SIG")), "/messages/1/content/1"),
        (assistant(TextBlock("Once upon")), "/messages/1/content/1"),
        (assistant(ToolUseBlock("c9", "now")), "/messages/2/content/0"),
        (assistant(TextBlock("cut"), stop_reason="error"), "/messages/2/content/0"),
    ],
)
def test_last_breakpoint_is_at_the_last_cacheable_block(last: Message, where: str) -> None:
    history = [Message.user("Hi"), assistant(TextBlock("Yes?")), last]

    assert find_markers(json.loads(encode_request(ModelRequest(history), profile()))) == [where]


@pytest.mark.covers("CAC-01", "CAC-05")
def test_breakpoints_can_be_disabled_or_extended() -> None:
    hi = [Message.user("Hi")]

    assert find_markers(body(hi, system="S", tools=[LOOK], cache=False)) == []
    assert (
        find_markers(body(hi, profile(AnthropicCapabilities(cache=False)), system="S", tools=[LOOK], cache=True)) == []
    )
    long = body(hi, profile(AnthropicCapabilities(cache_ttl="1h")), system="S", tools=[LOOK], cache=True)
    assert long["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert len(find_markers(long)) == 3


@pytest.mark.covers("CAC-04")
def test_cached_encoding_contains_no_markers() -> None:
    scratch = EncodingCache()
    history = [Message.user("Hi"), *turn(1)]
    request = ModelRequest(history, tools=[LOOK], system="S", scratch=scratch)

    encode_request(request, profile())

    stored, tail = scratch.entries["anthropic_messages"].encode(history, lambda _: b"?")
    assert b"y" * 20 in stored
    assert tail == b""
    assert b"cache_control" not in stored
    assert all(b"cache_control" not in data for item in (*history, LOOK) for data in item.__dict__.values())


def remove_markers(sent: bytes) -> bytes:
    return sent.replace(b',"cache_control":{"type":"ephemeral"}', b"")


@pytest.mark.covers("CAC-04")
def test_request_prefix_of_fifty_turns_is_stable() -> None:
    scratch, history = EncodingCache(), [Message.user("Go")]
    tools = [ToolDefinition(f"tool{n}", "Does it.", {"type": "object", "properties": {}}) for n in range(10)]
    before = b""
    for number in range(50):
        history += turn(number)
        request = ModelRequest(list(history), system="S", tools=tools, thinking="low", scratch=scratch)
        sent = remove_markers(encode_request(request, profile()))

        prefix = before.removesuffix(b"]}]}")
        assert sent.startswith(prefix)
        assert json.loads(sent) == body(history, system="S", tools=tools, thinking="low")
        before = sent
    assert len(json.loads(before)["messages"]) == 101


def test_long_conversation_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Message | ToolDefinition] = []

    def count_encode(message: Message, using: ModelProfile) -> bytes:
        encoded.append(message)
        return encode_message(message, using)

    monkeypatch.setattr(encode, "encode_message", count_encode)
    tools = [ToolDefinition(f"tool{n}", "Does it.", {"type": "object", "properties": {}}) for n in range(40)]
    history = [message for number in range(100) for message in turn(number)]
    scratch = EncodingCache()

    first = encode_request(ModelRequest(history, tools=tools, system="S", scratch=scratch), profile())
    assert len(encoded) == 200
    head = scratch.entries["anthropic_messages"].head
    longer = [*history, *turn(100)]
    second = encode_request(ModelRequest(longer, tools=tools, system="S", scratch=scratch), profile())

    assert encoded[200:] == longer[200:]
    assert scratch.entries["anthropic_messages"].head is head
    assert remove_markers(second).startswith(remove_markers(first).removesuffix(b"]}"))


def test_history_with_missing_results_is_not_cached_as_complete() -> None:
    scratch = EncodingCache()
    history = [Message.user("Go"), *turn(1), turn(2)[0]]

    first = body(history, scratch=scratch)["messages"][-1]["content"][0]
    second = body([*history, turn(2)[1]], scratch=scratch)["messages"][-1]["content"][0]

    assert first["content"].startswith("Tool execution was interrupted")
    assert first["is_error"] is True
    assert second == {"type": "tool_result", "tool_use_id": "c2", "content": "y" * 20}


def test_one_encoding_cache_works_for_several_models() -> None:
    scratch, history = EncodingCache(), [Message.user("Go"), *turn(1)]

    for using in (
        profile(),
        profile(model="m2"),
        profile(vision=False),
        profile(AnthropicCapabilities(reasoning=False)),
    ):
        assert body(history, using, scratch=scratch)["messages"] == body(history, using)["messages"]


# --- any history -------------------------------------------------------------------------------------------------------

WORDS = st.text(max_size=8) | st.sampled_from(
    ["", " ", "\n", ']},{"role": "user","content":[', "\ud800", "\N{GRINNING FACE}"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS | st.just("role"), inner, max_size=3),
    max_leaves=5,
)
IDS = st.sampled_from(["c1", "c2", "c 3", ""])
IMAGES = st.builds(ImageBlock, st.sampled_from(["image/png", "image/svg+xml"]), st.just("QUJD"))
TEXTS = st.builds(TextBlock, WORDS)
ASSISTANT = st.lists(
    TEXTS
    | st.builds(ThinkingBlock, WORDS, st.none() | WORDS)
    | st.builds(RedactedThinkingBlock, WORDS | st.sampled_from([json.dumps(SEARCHED), json.dumps(FOUND), "{"]))
    | st.builds(ToolUseBlock, IDS, WORDS, st.dictionaries(WORDS, JSON, max_size=2), st.none() | WORDS),
    max_size=4,
)
USER = st.lists(
    TEXTS
    | IMAGES
    | st.builds(
        ToolResultBlock, IDS, WORDS, WORDS | st.lists(TEXTS | IMAGES, max_size=2).map(tuple), is_error=st.booleans()
    ),
    max_size=4,
)
OWN = st.sampled_from([("host", "m1"), ("host", "m2")])
MESSAGES = (
    st.builds(lambda blocks: Message("user", tuple(blocks)), USER)
    | st.builds(Message.system, WORDS)
    | st.builds(
        lambda blocks, encoded_message, why: Message(
            "assistant", tuple(blocks), provider=encoded_message[0], model=encoded_message[1], stop_reason=why
        ),
        ASSISTANT,
        OWN,
        st.sampled_from([None, "end_turn", "error"]),
    )
)


@pytest.mark.covers("CAC-04")
@settings(max_examples=60)
@given(history=st.lists(MESSAGES, max_size=8), cut=st.integers(0, 8), system=WORDS)
def test_any_history_becomes_a_valid_request(history: list[Message], cut: int, system: str) -> None:
    scratch = EncodingCache()
    body(history[:cut], scratch=scratch, system=system)

    sent = body(history, scratch=scratch, system=system)

    assert sent == body(history, system=system)
    check_protocol_rules(sent)
    assert len(find_markers(body(history, system=system, tools=[LOOK], cache=True))) == 2 + ("system" in sent)


def check_protocol_rules(sent: dict[str, Any]) -> None:
    """Assert that a request follows the rules of the protocol."""
    items = sent["messages"]
    assert items[0]["role"] == "user"
    open_calls: list[str] = []
    for item, behind in zip(items, [*items[1:], None], strict=True):
        content = item["content"]
        assert content
        assert behind is None or behind["role"] != item["role"]
        for block in content:
            if block["type"] == "text":
                assert block["text"].strip()
        answered = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        assert answered == open_calls
        assert all(block["type"] == "tool_result" for block in content[: len(answered)])
        open_calls = [block["id"] for block in content if block["type"] == "tool_use"]
        assert len(set(open_calls)) == len(open_calls)
        if item["role"] == "assistant":
            assert content[-1]["type"] not in ("thinking", "redacted_thinking")
    assert open_calls == []


def test_text_and_results_keep_their_order() -> None:
    encoded_message = message(begin(), *text(0, "A"), *text(1, "B"), *ending())

    assert [
        b["text"] for b in body([Message.user("Hi"), encoded_message, Message.user("?")])["messages"][1]["content"]
    ] == [
        "A",
        "B",
    ]
