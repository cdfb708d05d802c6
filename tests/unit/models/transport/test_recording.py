"""Recordings of real requests that are replayed in tests without a network."""

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.errors import ModelError, NetworkError
from mainspring.messages import Message
from mainspring.models import (
    HttpModel,
    MemoryResponse,
    MemoryTransport,
    ModelRequest,
    RecordingTransport,
    ReplayTransport,
    create_model,
    decode_exchange_to_dict,
)

KEY = "sk-abcdefghijklmnopqrstuvwxyz123456"
TEXT = "Gr\u00fc\u00dfe \U0001f30d"
BODY = (
    b": hello\n\n"
    b'data: {"choices":[{"index":0,"delta":{"content":"Gr\xc3\xbc"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"content":"\xc3\x9fe \xf0\x9f\x8c\x8d"},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\ndata: [DONE]\n\n'
)
HEADERS = {"content-type": "text/event-stream", "set-cookie": "secret=1", "x-request-id": "req_1", "retry-after": "2"}


def model(transport: Any) -> HttpModel:
    compatible_model = create_model("compatible:m", base_url="http://h/v1?key=very-secret", api_key=KEY)
    assert isinstance(compatible_model, HttpModel)
    return compatible_model.with_transport(transport)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def make_request(text: str = "Hi") -> ModelRequest:
    return ModelRequest([Message.user(text)])


@pytest.mark.covers("BYD-32", "TST-01")
@pytest.mark.parametrize("piece", [None, 1, 7])
async def test_recorded_exchange_is_replayed_without_a_network(tmp_path: Path, piece: int | None) -> None:
    real = MemoryTransport(MemoryResponse([BODY[:70], BODY[70:]], headers=HEADERS))
    recorded = await model(RecordingTransport(tmp_path, real)).complete(make_request())

    replay = ReplayTransport(tmp_path, chunk_size=piece)
    replayed = await model(replay).complete(make_request())

    assert recorded.text == replayed.text == TEXT
    assert replayed.message.content == recorded.message.content
    assert replayed.usage == recorded.usage
    assert replay.unused == []


@pytest.mark.covers("BYD-32")
async def test_recording_has_the_common_format_and_no_secrets(tmp_path: Path) -> None:
    echo = MemoryResponse(BODY.replace(b": hello", b": your key " + KEY.encode()), headers=HEADERS)
    await model(RecordingTransport(tmp_path, MemoryTransport(echo), provider="mine")).complete(
        make_request(f"I use {KEY}")
    )

    text = (tmp_path / "0000.json").read_text(encoding="utf-8")
    exchange = json.loads(text)
    assert KEY not in text
    assert "very-secret" not in text
    assert "secret=1" not in text
    assert (exchange["provider"], exchange["api"]) == ("mine", "chat_completions")
    assert (exchange["request"]["method"], exchange["request"]["host"]) == ("POST", "h")
    assert exchange["request"]["path"] == "/v1/chat/completions?key=removed"
    assert exchange["request"]["body"]["messages"][0]["content"].startswith("I use ")
    assert exchange["response"]["headers"] == {k: v for k, v in HEADERS.items() if k != "set-cookie"}
    result = decode_exchange_to_dict(exchange)
    assert (result["text"], result["usage"]["total_tokens"], result["error"]) == (TEXT, 5, None)
    # The same request, including the key, finds the recording.
    assert (await model(ReplayTransport([exchange])).complete(make_request(f"I use {KEY}"))).text == TEXT


async def test_errors_and_interrupted_responses_are_replayed(tmp_path: Path) -> None:
    limited = MemoryResponse(b'{"error":{"message":"Slow down"}}', 429, HEADERS)
    torn = MemoryResponse([BODY[:90], NetworkError("gone")], headers=HEADERS)
    recording = RecordingTransport(tmp_path, MemoryTransport(limited, torn))

    async def failures(transport: Any) -> list[tuple[str, float | None, str]]:
        replaying_model, found = model(transport), []
        for text in ("first", "second"):
            with pytest.raises(ModelError) as caught:
                await replaying_model.complete(make_request(text))
            partial = caught.value.partial
            found.append((str(caught.value.code), caught.value.retry_after, partial.text if partial else ""))
        return found

    assert await failures(recording) == await failures(ReplayTransport(tmp_path))
    assert [("RATE_LIMITED", 2.0, ""), ("NETWORK_ERROR", None, "Gr\u00fc")] == await failures(ReplayTransport(tmp_path))


@pytest.mark.covers("BYD-32")
async def test_unrecorded_request_fails_and_names_the_difference(tmp_path: Path) -> None:
    await model(RecordingTransport(tmp_path, MemoryTransport(MemoryResponse(BODY)))).complete(make_request("Hi"))
    replay = ReplayTransport(tmp_path / "0000.json")

    with pytest.raises(
        ModelError, match=r"body\.messages\[0\]\.content is 'Ho' instead of the recorded 'Hi'"
    ) as caught:
        await model(replay).complete(make_request("Ho"))
    assert (caught.value.reason, caught.value.retryable) == ("not_recorded", False)
    assert (await model(replay).complete(make_request("Hi"))).text == TEXT
    with pytest.raises(ModelError, match="all recordings were used"):
        await model(replay).complete(make_request("Hi"))


async def test_recordings_can_be_replayed_in_order_for_any_request(tmp_path: Path) -> None:
    await model(RecordingTransport(tmp_path, MemoryTransport(MemoryResponse(BODY)))).complete(make_request("Hi"))

    assert (await model(ReplayTransport(tmp_path, in_order=True)).complete(make_request("Whatever"))).text == TEXT


async def test_recordings_are_never_overwritten_and_failures_are_not_recorded(tmp_path: Path) -> None:
    for _ in range(2):
        await model(RecordingTransport(tmp_path, MemoryTransport(MemoryResponse(BODY)))).complete(make_request())
    with pytest.raises(NetworkError):
        await model(RecordingTransport(tmp_path, MemoryTransport(NetworkError("refused")))).complete(make_request())

    assert names(tmp_path) == ["0000.json", "0001.json"]


async def test_closed_stream_is_recorded_up_to_the_last_read(tmp_path: Path) -> None:
    stream = model(RecordingTransport(tmp_path, MemoryTransport(MemoryResponse([BODY[:90], BODY[90:]])))).stream(
        make_request()
    )
    await anext(stream)
    await stream.aclose()

    recorded_response = json.loads((tmp_path / "0000.json").read_text(encoding="utf-8"))["response"]
    assert recorded_response["body_text"].encode() == BODY[:90]
