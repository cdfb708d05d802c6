"""Cache breakpoints over Chat Completions, and requests to hosts other than OpenAI."""

import json
from typing import Any

import pytest

from mainspring.errors import ModelTimeoutError
from mainspring.messages import (
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models import HttpModel, create_model
from mainspring.models.port import EncodingCache, ModelRequest
from mainspring.models.profile import ChatCapabilities
from mainspring.models.transport.port import Timeouts
from mainspring.models.wire.openai_chat import ChatCompletionsProtocol, encode_request
from tests.unit.models.server import serve
from tests.unit.models.wire import body, chunk, message, profile

PIXEL = ImageBlock("image/png", "iVBORw0KGgo=")
MARK = {"type": "ephemeral"}
MARKING = profile(ChatCapabilities(cache_breakpoints=True))
LOOK = ToolDefinition("look", "Looks.", {"type": "object"})
NOW = ToolDefinition("now", "Tells the time.", {"type": "object"})


def assistant(*blocks: Any) -> Message:
    return Message.assistant(blocks, provider="host", model="m1")


def count_breakpoints(value: Any) -> int:
    return json.dumps(value).count('"cache_control"')


@pytest.mark.covers("CAC-06", "CAC-01", "CAC-05")
def test_three_prefixes_end_with_a_cache_breakpoint() -> None:
    sent = body(
        [Message.user("Hi"), assistant(TextBlock("Yes?")), Message.user("Look")],
        MARKING,
        system="Be kind.",
        tools=[LOOK, NOW],
    )

    assert [t.get("cache_control") for t in sent["tools"]] == [None, MARK]
    system, *_, last = sent["messages"]
    assert system["content"] == [{"type": "text", "text": "Be kind.", "cache_control": MARK}]
    assert last["content"] == [{"type": "text", "text": "Look", "cache_control": MARK}]
    assert count_breakpoints(sent) == 3
    assert count_breakpoints(body([Message.user("Hi")], MARKING, system="Be kind.", tools=[LOOK], cache=False)) == 0
    assert count_breakpoints(body([], MARKING, system="Be kind.")) == 1
    assert count_breakpoints(body([Message.user("Hi")], MARKING)) == 1
    assert body([Message.user(" ")], MARKING)["messages"] == [{"role": "user", "content": "Begin."}]


@pytest.mark.covers("CAC-07")
def test_unknown_host_gets_no_breakpoints() -> None:
    assert count_breakpoints(body([Message.user("Hi")], system="Be kind.", tools=[LOOK])) == 0


@pytest.mark.covers("CAC-06", "CAC-04")
@pytest.mark.parametrize(
    "last",
    [
        [Message.user([TextBlock("Hi"), PIXEL])],
        [Message.user([ToolResultBlock("c1", "look", "A")])],
        [Message.user([ToolResultBlock("c1", "look", (PIXEL,))])],
        [Message.user([ToolResultBlock("c1", "look", "A")]), assistant(TextBlock("So"))],
        [Message.user([ToolResultBlock("c1", "look", "A")]), Message.user(" ")],
    ],
)
def test_last_breakpoint_is_on_the_last_item(last: list[Message]) -> None:
    request = assistant(ThinkingBlock("Hm", "reasoning"), ToolUseBlock("c1", "look", {}))
    sent = body([Message.user("Hi"), request, *last], MARKING)["messages"]

    assert count_breakpoints(sent) == count_breakpoints(sent[-1]) == 1
    assert sent[-1]["content"][-1]["cache_control"] == MARK


def test_call_without_a_result_gets_no_breakpoint() -> None:
    sent = body([Message.user("Hi"), assistant(ToolUseBlock("c1", "look", {}))], MARKING)["messages"]

    assert sent[-1]["role"] == "tool"
    assert count_breakpoints(sent) == 0


@pytest.mark.covers("CAC-06", "CAC-04", "CAC-10")
def test_cached_encoding_contains_no_breakpoints() -> None:
    scratch, plain = EncodingCache(), EncodingCache()
    history: list[Message] = []
    for turn in range(50):
        history.append(Message.user(f"Question {turn}"))
        history.append(assistant(TextBlock("Looking."), ToolUseBlock(f"c{turn}", "look", {"at": str(turn)})))
        history.append(Message.user([ToolResultBlock(f"c{turn}", "look", (TextBlock("Seen"), PIXEL))]))
        fields: dict[str, Any] = {"system": "Be kind.", "tools": [LOOK]}
        marked = encode_request(ModelRequest(history, scratch=scratch, **fields), MARKING)
        bare = encode_request(ModelRequest(history, scratch=plain, cache=False, **fields), MARKING)
        assert marked.count(b'"cache_control"') == 3
        assert remove_breakpoints(json.loads(marked)) == remove_breakpoints(json.loads(bare))
        history.append(assistant(TextBlock(f"Answer {turn}")))


def remove_breakpoints(sent: Any) -> Any:
    """Return a copy without breakpoints and with text parts joined to a string."""
    if isinstance(sent, list):
        return [remove_breakpoints(value) for value in sent]
    if not isinstance(sent, dict):
        return sent
    fields = {k: remove_breakpoints(v) for k, v in sent.items() if k != "cache_control"}
    content = fields.get("content")
    if isinstance(content, list) and [p.get("type") for p in content] == ["text"]:
        fields["content"] = content[0]["text"]
    return fields


@pytest.mark.covers("CAC-11", "CAC-08")
def test_usage_of_openrouter_is_read() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 5},
        "cost": 0.002,
    }
    counts = message(chunk({"content": "Hi"}, "stop"), chunk(usage=usage)).usage

    assert counts is not None
    assert (counts.input_tokens, counts.cache_read, counts.cache_write) == (10, 60, 30)
    assert (counts.output_tokens, counts.reasoning_tokens, counts.total_tokens) == (20, 5, 120)
    assert counts.cost is not None
    assert counts.cost.total == pytest.approx(0.002)


@pytest.mark.covers("PRV-27", "PRV-28")
def test_images_of_results_follow_in_a_user_message_or_become_text() -> None:
    request = assistant(ToolUseBlock("c1", "shot", {}))
    shot = Message.user([ToolResultBlock("c1", "shot", (TextBlock("Here"), PIXEL))])
    result, image_message = body([Message.user("Hi"), request, shot])["messages"][2:]

    assert result["content"] == "Here\n[the image follows in the next user message]"
    assert (image_message["role"], image_message["content"][0]["text"]) == ("user", "Image from the result of shot:")
    assert image_message["content"][1]["image_url"]["url"] == f"data:image/png;base64,{PIXEL.data}"
    [blind] = body([Message.user("Hi"), request, shot], profile(vision=False))["messages"][2:]
    assert blind["content"] == "Here\n[image/png image left out: this model takes no images]"
    [none] = body([Message.user("Hi"), request, shot], profile(ChatCapabilities(tool_images=False)))["messages"][2:]
    assert none["content"] == "Here\n[an image was left out: this host takes none here]"


@pytest.mark.covers("MOD-36", "PRV-24")
def test_openrouter_gets_the_thinking_level_in_an_object() -> None:
    using = profile(create_openrouter())
    for fields, sent in (
        ({"thinking": "high"}, {"effort": "high"}),
        ({"thinking": "high", "thinking_budget": 2000}, {"max_tokens": 2000}),
        ({}, None),
    ):
        assert body([Message.user("Hi")], using, **fields).get("reasoning") == sent
    thinker = profile(create_openrouter(), reasoning=True)
    assert body([Message.user("Hi")], thinker, thinking="off")["reasoning"] == {"effort": "none"}


def create_openrouter() -> ChatCapabilities:
    model = create_model("openrouter", api_key="k")
    assert isinstance(model, HttpModel)
    return model.profile.dialect


@pytest.mark.covers("OPT-11", "MOD-36")
def test_reasoning_content_is_returned_only_to_its_model() -> None:
    decoded = message(chunk({"reasoning_content": "Hm"}), chunk({"content": "Hi"}, "stop"))
    assert (decoded.thinking, decoded.text) == ("Hm", "Hi")
    [sent] = body([decoded])["messages"]
    [foreign] = body([decoded], profile(model="m2"))["messages"]

    assert sent == {"role": "assistant", "content": "Hi", "reasoning_content": "Hm"}
    assert foreign == {"role": "assistant", "content": "Hi"}


@pytest.mark.covers("OPT-11", "MOD-33")
async def test_request_has_its_own_timeout() -> None:
    async with serve([10.0]) as server:
        using = profile()
        model = HttpModel(
            using.__class__(using.info, server.url),
            ChatCompletionsProtocol(),
            timeouts=Timeouts(first_byte=None, idle=None),
        )
        with pytest.raises(ModelTimeoutError):
            await model.complete(ModelRequest([Message.user("Hi")], timeout=0.1))
