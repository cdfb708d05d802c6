"""Ollama over its own protocol: requests, responses, and the configuration of the provider."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from mainspring.errors import ErrorCode, InvalidResponseError, ModelError, NetworkError, ProviderConfigError
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
from mainspring.models.codec.framing import NdjsonParser
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile, OllamaCapabilities
from mainspring.models.providers.ollama import base_url_from_host
from mainspring.models.transport.port import Timeouts
from mainspring.models.wire.ollama import OllamaDecoder, OllamaProtocol, encode_request
from tests.unit.models.server import chunked, plain, serve

PIXEL = ImageBlock("image/png", "iVBORw0KGgo=")
LOOK = ToolDefinition("look", "Looks.", {"type": "object"})


def profile(dialect: OllamaCapabilities = OllamaCapabilities(), **facts: Any) -> ModelProfile:
    return ModelProfile(ModelInfo("m1", "ollama", **facts), "http://host", ollama=dialect)


def body(messages: Sequence[Message], using: ModelProfile | None = None, **fields: Any) -> dict[str, Any]:
    return json.loads(encode_request(ModelRequest(messages, **fields), using or profile()))


def assistant(*blocks: Any) -> Message:
    return Message.assistant(blocks, provider="ollama", model="m1")


def line(message: dict[str, Any] | None = None, **fields: Any) -> bytes:
    response = {
        "created_at": "2026-01-01T00:00:00.5Z",
        "message": {"role": "assistant", **(message or {})},
        "done": False,
    }
    return json.dumps({**response, **fields}).encode() + b"\n"


def decode_events(data: bytes) -> list[StreamEvent]:
    reader = ResponseReader(OllamaDecoder(profile()))
    found = [*reader.feed(data), *reader.finish()]
    if reader.error is not None:
        raise reader.error
    return found


def message(*lines: bytes) -> Message:
    last = decode_events(b"".join(lines))[-1]
    assert isinstance(last, Done)
    return last.message


LAST = line(done=True, done_reason="stop", prompt_eval_count=7, eval_count=5)


# --- responses ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("OPT-11", "STR-12")
def test_response_has_thinking_text_and_calls() -> None:
    call = {"function": {"name": "look", "arguments": {"at": "x"}}}
    response = message(
        line({"thinking": "H"}),
        line({"thinking": "m"}),
        line({"content": "Look"}),
        line({"content": "ing"}),
        line({"tool_calls": [call, {**call, "id": "own1"}]}),
        line({"tool_calls": [{"function": {"name": "look", "arguments": '{"at": "y"}'}}]}),
        LAST,
    )

    assert response.content == (
        ThinkingBlock("Hm"),
        TextBlock("Looking"),
        ToolUseBlock("call_101T0000005Z_0", "look", {"at": "x"}),
        ToolUseBlock("own1", "look", {"at": "x"}),
        ToolUseBlock("call_101T0000005Z_2", "look", {"at": "y"}),
    )
    assert response.stop_reason == "tool_use"
    assert response.usage is not None
    assert (response.usage.prompt_tokens, response.usage.output_tokens) == (7, 5)


def test_stop_reason_is_read_and_an_empty_response_becomes_empty_text() -> None:
    assert message(LAST).content == (TextBlock(""),)
    assert message(line({"content": "Hi"}), line(done=True, done_reason="length")).stop_reason == "max_tokens"
    assert message(LAST.rstrip()).stop_reason == "end_turn"


def test_unknown_stop_reason_is_an_error() -> None:
    with pytest.raises(InvalidResponseError, match="unknown reason.*something_new"):
        message(line({"content": "Hi"}), line(done=True, done_reason="something_new"))


def test_invalid_json_text_is_repaired() -> None:
    assert (
        message(b'{"message": {"content": "a\tb \\ud83d"}, "eval_count": "3", "done": true}\r\n').text == "a\tb \ufffd"
    )


@pytest.mark.covers("RET-21")
def test_invalid_response_raises() -> None:
    for data, kind, text in (
        (b"", InvalidResponseError, "empty"),
        (line({"content": "Hi"}), NetworkError, "closed before"),
        (line({"content": "Hi"}) + b'{"mess', NetworkError, "closed before"),
        (line({"content": "Hi"}) + b"nonsense\n", InvalidResponseError, "not valid JSON"),
        (b"<html>\n</html>\n", InvalidResponseError, "web page"),
        (line({"content": "Hi"}) + b'{"error": "model runner has unexpectedly stopped"}\n', ModelError, "stopped"),
    ):
        with pytest.raises(kind, match=text) as caught:
            decode_events(data)
        if b"Hi" in data:
            assert caught.value.partial is not None
            assert caught.value.partial.text == "Hi"


def test_ndjson_lines_end_only_at_line_feeds() -> None:
    parser = NdjsonParser()

    assert parser.feed(b'{"a": "\xe2\x80\xa8"}\r\n\n{"b') == [("", b'{"a": "\xe2\x80\xa8"}\r')]
    assert parser.feed(b'": 1}') == []
    assert parser.finish() == [("", b'{"b": 1}')]
    assert parser.finish() == []


# --- requests ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("OPT-11")
def test_request_has_ollama_options() -> None:
    using = profile(OllamaCapabilities(num_ctx=8192, keep_alive="10m"))
    sent = body(
        [Message.user("Hi")],
        using,
        system="Be brief.",
        tools=[LOOK],
        max_output_tokens=100,
        temperature=0.5,
        stop=["x"],
        thinking="low",
        schema={"type": "object"},
        extra={"options": {"seed": 1}, "raw": False},
    )

    assert sent == {
        "model": "m1",
        "stream": True,
        "options": {"num_ctx": 8192, "num_predict": 100, "temperature": 0.5, "stop": ["x"], "seed": 1},
        "keep_alive": "10m",
        "think": True,
        "format": {"type": "object"},
        "raw": False,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Looks.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    }
    assert OllamaProtocol().url(using) == "http://host/api/chat"
    assert "tools" not in body([Message.user("Hi")], tools=[LOOK], tool_choice="none")


@pytest.mark.covers("MOD-36", "OPT-11")
@pytest.mark.parametrize(
    ("model", "level", "think"),
    [
        ("gpt-oss:20b", "xhigh", "high"),
        ("gpt-oss:20b", "off", "low"),
        ("qwen3", "medium", True),
        ("qwen3", "off", False),
        ("qwen3", None, None),
    ],
)
def test_thinking_is_a_level_or_a_switch(model: str, level: Any, think: Any) -> None:
    using = as_http_model(create_model(f"ollama:{model}")).profile

    assert body([Message.user("Hi")], using, thinking=level).get("think") == think


@pytest.mark.covers("PRV-28", "OPT-11")
def test_conversation_with_calls_and_images_is_encoded() -> None:
    request = assistant(ThinkingBlock("Hm"), TextBlock("Looking."), ToolUseBlock("c1", "look", {"at": "x"}))
    seen = Message.user([ToolResultBlock("c1", "look", (TextBlock("Here"), PIXEL)), TextBlock("And?")])
    sent = body([Message.user([TextBlock("Hi"), PIXEL]), request, seen])["messages"]

    assert sent == [
        {"role": "user", "content": "Hi", "images": [PIXEL.data]},
        {
            "role": "assistant",
            "content": "Looking.",
            "thinking": "Hm",
            "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": {"at": "x"}}}],
        },
        {
            "role": "tool",
            "tool_name": "look",
            "tool_call_id": "c1",
            "content": "Here\n[the image follows in the next user message]",
        },
        {"role": "user", "content": "Image from the result of look:\nAnd?", "images": [PIXEL.data]},
    ]
    assert PIXEL.data not in json.dumps(body([Message.user([PIXEL]), request, seen], profile(vision=False)))


def test_request_prefix_of_fifty_turns_is_stable() -> None:
    scratch = EncodingCache()
    history: list[Message] = []
    sent = before = b""
    for turn in range(50):
        history.append(Message.user(f"Question {turn}"))
        history.append(assistant(ToolUseBlock(f"c{turn}", "look", {"at": str(turn)})))
        history.append(Message.user([ToolResultBlock(f"c{turn}", "look", "Seen")]))
        sent = encode_request(ModelRequest(history, system="Be brief.", tools=[LOOK], scratch=scratch), profile())
        assert sent.startswith(before)
        before = sent[: -len(b"]}")]
        history.append(assistant(TextBlock(f"Answer {turn}")))
    assert sent == encode_request(ModelRequest(history[:-1], system="Be brief.", tools=[LOOK]), profile())


@pytest.mark.parametrize(
    ("refusal", "dialect"),
    [
        ('"llama3" does not support thinking', OllamaCapabilities(think="none", echo=False)),
        ("format is not supported by this model", OllamaCapabilities(json_schema=False)),
    ],
)
def test_rejected_feature_is_left_out(refusal: str, dialect: OllamaCapabilities) -> None:
    assert next(OllamaProtocol().without_rejected(profile(), refusal)).ollama == dialect
    levels = profile(OllamaCapabilities(think="levels"))
    found = [
        p.ollama.think
        for p in OllamaProtocol().without_rejected(levels, 'think value "low" is not supported for this model')
    ]
    assert found == ["switch", "none"]
    [blind] = OllamaProtocol().without_rejected(profile(), "this model does not support image input")
    assert not blind.info.vision


# --- the provider ------------------------------------------------------------------------------------------------------


def as_http_model(model: Any) -> HttpModel:
    assert isinstance(model, HttpModel)
    return model


@pytest.mark.covers("PRV-32", "PRV-36")
async def test_ollama_needs_no_settings_and_reads_its_address_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = as_http_model(create_model("ollama", base_url="", model="", num_ctx=16384, keepAlive=-1))

    assert (model.provider, model.model) == ("ollama", "llama3.3:latest")
    assert model.profile.base_url == "http://localhost:11434"
    assert (model.profile.ollama.num_ctx, model.info.context_window, model.profile.ollama.keep_alive) == (
        16384,
        16384,
        -1,
    )
    assert await model._get_credential() == ""
    assert model._timeouts == Timeouts(10.0, None, None)
    assert as_http_model(create_model("ollama:m", context_window=4096)).profile.ollama.num_ctx == 4096
    monkeypatch.setenv("OLLAMA_HOST", "0.0.0.0:9999")
    assert as_http_model(create_model("ollama")).profile.base_url == "http://localhost:9999"
    assert as_http_model(create_model("ollama", base_url="http://lan:1/v1")).profile.base_url == "http://lan:1"
    with pytest.raises(ProviderConfigError, match="num_ctx"):
        create_model("ollama", num_ctx="many")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("box", "http://box:11434"),
        ("box:1", "http://box:1"),
        ("http://box", "http://box"),
        ("https://box", "https://box"),
        ("https://box/ollama/", "https://box/ollama"),
        ("http://0.0.0.0:8080", "http://localhost:8080"),
        ("[::1]:5", "http://[::1]:5"),
        ("0.0.0.0", "http://localhost:11434"),
    ],
)
def test_address_can_be_abbreviated(host: str, url: str) -> None:
    assert base_url_from_host(host) == url


async def test_cloud_host_gets_a_key_and_other_hosts_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProviderConfigError, match="OLLAMA_API_KEY") as caught:
        create_model("ollama:m", base_url="https://ollama.com")
    assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED
    monkeypatch.setenv("OLLAMA_API_KEY", "secret")
    cloud = as_http_model(create_model("ollama:m", base_url="https://ollama.com"))
    assert await cloud._get_credential() == "secret"
    assert cloud.info.prices is None
    assert await as_http_model(create_model("ollama:m", base_url="https://notollama.com"))._get_credential() == ""
    assert (
        await as_http_model(create_model("ollama:m", base_url="https://notollama.com", api_key="own"))._get_credential()
        == "own"
    )


@pytest.mark.covers("OPT-11", "STR-12")
async def test_response_is_read_line_by_line_over_http() -> None:
    first, second = line({"content": "Hel"}), line({"content": "lo"})
    async with serve(chunked(first[:20], first[20:] + second[:5], second[5:] + LAST)) as server:
        model = create_model("ollama:m", base_url=server.url, context_window=8192)
        found = [e async for e in model.stream(ModelRequest([Message.user("Hi")]))]

    assert [e.type for e in found] == ["start", "text_start", "text_delta", "text_delta", "text_end", "done"]
    assert found[-1].partial.text == "Hello"
    assert server.requests[0].target == "/api/chat"
    assert json.loads(server.requests[0].body)["stream"] is True


@pytest.mark.covers("PRV-31")
async def test_missing_model_and_unreachable_server_are_reported() -> None:
    async with serve(plain(b'{"error":"model \'m\' not found"}', "404 Not Found")) as server:
        with pytest.raises(ModelError, match="not found") as caught:
            await create_model("ollama:m", base_url=server.url).complete(ModelRequest([Message.user("Hi")]))
    assert caught.value.code is ErrorCode.MODEL_NOT_FOUND
    with pytest.raises(NetworkError):
        await create_model("ollama:m", base_url="http://127.0.0.1:1").complete(ModelRequest([Message.user("Hi")]))
