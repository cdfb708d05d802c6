"""A response that is too long ends with an error, on every protocol and in every form, before it uses much memory or time."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mainspring import Agent, RunOptions, tool
from mainspring.errors import AgentProviderError
from mainspring.models.codec import response_reader
from mainspring.models.codec.protocol import WireDecoder
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import ModelProfile
from mainspring.models.transport.port import Transport
from mainspring.models.transport.recording import MemoryResponse, MemoryTransport
from mainspring.models.wire.anthropic.decode import AnthropicDecoder
from mainspring.models.wire.gemini.decode import GeminiDecoder
from mainspring.models.wire.ollama import OllamaDecoder
from mainspring.models.wire.openai_chat.decode import ChatDecoder
from mainspring.models.wire.openai_chat.protocol import ChatCompletionsProtocol
from mainspring.models.wire.openai_responses.decode import ResponsesDecoder
from tests.contract.wire_scenarios import added, chat, chat_call, item, named, parts, typed
from tests.unit.models.wire import profile

MB = 1 << 20


def chat_text(text: str) -> bytes:
    return chat({"content": text})


def ollama(**message: Any) -> bytes:
    return json.dumps({"model": "m", "message": {"role": "assistant", "content": "", **message}}).encode() + b"\n"


def responses(kind: str, text: str) -> bytes:
    return typed(f"response.{kind}.delta", output_index=0, item_id="item_0", content_index=0, delta=text)


def messages(kind: str, field: str, text: str) -> bytes:
    return named("content_block_delta", index=0, delta={"type": kind, field: text})


CALL = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
TEXTS: dict[str, tuple[Callable[[ModelProfile], WireDecoder], bytes, Callable[[str], bytes]]] = {
    "chat": (ChatDecoder, b"", chat_text),
    "chat, reasoning": (ChatDecoder, b"", lambda text: chat({"reasoning_content": text})),
    "responses": (
        ResponsesDecoder,
        added(0, item(0, "message", role="assistant", content=[])),
        lambda text: responses("output_text", text),
    ),
    "messages": (
        AnthropicDecoder,
        named("message_start", message={"id": "m", "content": []})
        + named("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        lambda text: messages("text_delta", "text", text),
    ),
    "gemini": (GeminiDecoder, b"", lambda text: parts({"text": text})),
    "ollama": (OllamaDecoder, b"", lambda text: ollama(content=text)),
    "ollama, call in the text": (
        OllamaDecoder,
        ollama(content='<tool_call>{"name": "look", "arguments": {"key": "'),
        lambda text: ollama(content=text),
    ),
}
ARGUMENTS: dict[str, tuple[Callable[[ModelProfile], WireDecoder], bytes, Callable[[str], bytes]]] = {
    "chat": (ChatDecoder, chat_call(0, '{"key":"', "c", "look"), lambda text: chat_call(0, text)),
    "responses": (
        ResponsesDecoder,
        added(0, item(0, "function_call", call_id="c", name="look", arguments="")),
        lambda text: responses("function_call_arguments", text),
    ),
    "messages": (
        AnthropicDecoder,
        named("message_start", message={"id": "m", "content": []})
        + named("content_block_start", index=0, content_block=CALL),
        lambda text: messages("input_json_delta", "partial_json", text),
    ),
}
WHOLE_CALLS = {
    "gemini": (
        GeminiDecoder,
        lambda text: parts({"functionCall": {"name": "look", "args": {"key": text}}}, finish="STOP"),
    ),
    "ollama": (
        OllamaDecoder,
        lambda text: (
            ollama(tool_calls=[{"function": {"name": "look", "arguments": {"key": text}}}]) + b'{"done":true}\n'
        ),
    ),
}


def feed_until_error(
    decoder: Callable[[ModelProfile], WireDecoder], chunks: Iterator[bytes]
) -> tuple[ResponseReader, int]:
    """Return the reader, and the number of bytes that it read."""
    reader, size = ResponseReader(decoder(profile())), 0
    for chunk in chunks:
        size += len(chunk)
        reader.feed(chunk)
        if reader.error is not None:
            break
    reader.finish()
    assert reader.error is not None
    return reader, size


def cut(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), 1 << 16):
        yield data[start : start + (1 << 16)]


def endless(begin: bytes, piece: bytes) -> Iterator[bytes]:
    yield begin
    for _ in range(200 * MB // len(piece)):
        yield piece


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("size", [16_384, 1 << 20])
def test_long_text_is_an_error_and_its_beginning_is_kept(name: str, size: int) -> None:
    decoder, begin, delta = TEXTS[name]
    reader, read = feed_until_error(decoder, endless(begin, delta("x" * size)))
    assert (str(reader.error), reader.error and reader.error.reason, reader.error and reader.error.retryable) == (
        "The response is longer than 32 MB and was stopped", "too_long", False,
    )  # fmt: skip
    assert read < 42 * MB
    partial = reader.error.partial if reader.error else None
    assert partial is not None
    assert 31 * MB < len(partial.text or partial.thinking) < 42 * MB


@pytest.mark.parametrize("name", ARGUMENTS)
def test_long_arguments_are_an_error(name: str) -> None:
    decoder, begin, delta = ARGUMENTS[name]
    reader, read = feed_until_error(decoder, endless(begin, delta("x" * 16_384)))
    assert str(reader.error) == "The arguments of a tool call are longer than 8 MB and were stopped"
    assert read < 11 * MB


@pytest.mark.parametrize("name", WHOLE_CALLS)
def test_long_arguments_in_one_event_are_an_error(name: str) -> None:
    decoder, event = WHOLE_CALLS[name]
    reader, _ = feed_until_error(decoder, cut(event("x" * 9 * MB)))
    assert str(reader.error) == "The arguments of a tool call are longer than 8 MB and were stopped"


@pytest.mark.parametrize("name", TEXTS)
def test_long_event_is_an_error_before_it_is_decoded(name: str) -> None:
    decoder, begin, delta = TEXTS[name]
    reader, read = feed_until_error(decoder, cut(begin + delta("x" * 40 * MB)))
    assert str(reader.error) == "The response is longer than 32 MB and was stopped"
    assert read < 34 * MB


@pytest.mark.parametrize(
    "begin", [b"{", b"[", b'{"choices": [{"message": {"content": "', b"<html>", b"data: ", b": ", b"event: "]
)
@pytest.mark.parametrize("name", TEXTS)
def test_endless_line_or_body_is_an_error(name: str, begin: bytes) -> None:
    reader, read = feed_until_error(TEXTS[name][0], endless(begin, b"x" * 65_536))
    assert str(reader.error) == "The response is longer than 32 MB and was stopped"
    assert read < 34 * MB


def test_endless_comments_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_reader, "MAX_RESPONSE_BYTES", 10 * MB)
    reader, read = feed_until_error(ChatDecoder, endless(b"", b": alive\n\n" * 10_000))
    assert str(reader.error) == "The response is longer than 10 MB and was stopped"
    assert read < 12 * MB


def test_many_small_deltas_are_measured_only_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes on the wire are 60 times the text, so that they reach the limit long before it."""
    monkeypatch.setattr(response_reader, "MAX_CONTENT_SIZE", 200_000)
    monkeypatch.setattr(response_reader, "MAX_ARGUMENTS_SIZE", 100_000)
    monkeypatch.setattr(response_reader, "_MIN_BYTES_TO_NEXT_CHECK", 10_000)
    reader = ResponseReader(ChatDecoder(profile()))
    checks: list[int] = []
    check = ResponseReader._is_too_long
    monkeypatch.setattr(ResponseReader, "_is_too_long", lambda self: checks.append(1) or check(self))
    for _ in range(40_000):
        reader.feed(chat_text("word"))
    assert reader.error is None
    assert len(checks) < 60


@pytest.mark.anyio
async def test_response_below_the_limits_is_complete() -> None:
    sizes: list[int] = []

    @tool
    async def look(key: str) -> str:
        """Look something up."""
        sizes.append(len(key))
        return "found"

    text = [chat_text("x" * MB)] * 31 + [chat({}, "stop")]
    call = [chat_call(0, '{"key":"', "c", "look"), *[chat_call(0, "x" * 65_536)] * 120, chat_call(0, '"}')]
    transport = MemoryTransport(MemoryResponse([*call, chat({}, "tool_calls")]), MemoryResponse(text))
    result = await Agent(create(transport), tools=[look]).run("hi")
    assert (len(result.text), sizes) == (31 * MB, [120 * 65_536])


@pytest.mark.anyio
async def test_run_ends_with_the_error_and_keeps_the_partial_text() -> None:
    transport = MemoryTransport(MemoryResponse([chat_text("x" * MB)] * 100))
    agent = Agent(create(transport), behavior=RunOptions(max_turns=3))
    with pytest.raises(AgentProviderError, match="longer than 32 MB"):
        await agent.run("hi")
    assert len(transport.requests) == 1
    kept = agent.messages[-1].text
    assert 0 < len(kept) < 300_000  # the next request must not carry it all
    assert kept.startswith("x" * 1_000)


def create(transport: Transport) -> HttpModel:
    return HttpModel(profile(), ChatCompletionsProtocol(), transport=transport)
