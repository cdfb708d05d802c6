"""A real run becomes a test without a network."""

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
    made = create_model("compatible:m", base_url="http://h/v1?key=very-secret", api_key=KEY)
    assert isinstance(made, HttpModel)
    return made.with_transport(transport)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def asked(text: str = "Hi") -> ModelRequest:
    return ModelRequest([Message.user(text)])


@pytest.mark.covers("BYD-32", "TST-01")
@pytest.mark.parametrize("piece", [None, 1, 7])
async def test_a_recorded_run_is_replayed_without_a_network(tmp_path: Path, piece: int | None) -> None:
    real = MemoryTransport(MemoryResponse([BODY[:70], BODY[70:]], headers=HEADERS))
    recorded = await model(RecordingTransport(tmp_path, real)).complete(asked())

    replay = ReplayTransport(tmp_path, chunk_size=piece)
    replayed = await model(replay).complete(asked())

    assert recorded.text == replayed.text == TEXT
    assert replayed.message.content == recorded.message.content
    assert replayed.usage == recorded.usage
    assert replay.unused == []


@pytest.mark.covers("BYD-32")
async def test_a_recording_has_the_form_of_all_recordings_and_no_secrets(tmp_path: Path) -> None:
    echo = MemoryResponse(BODY.replace(b": hello", b": your key " + KEY.encode()), headers=HEADERS)
    await model(RecordingTransport(tmp_path, MemoryTransport(echo), provider="mine")).complete(asked(f"I use {KEY}"))

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
    # The same request, key and all, finds it again.
    assert (await model(ReplayTransport([exchange])).complete(asked(f"I use {KEY}"))).text == TEXT


async def test_refusals_and_torn_answers_are_replayed_too(tmp_path: Path) -> None:
    limited = MemoryResponse(b'{"error":{"message":"Slow down"}}', 429, HEADERS)
    torn = MemoryResponse([BODY[:90], NetworkError("gone")], headers=HEADERS)
    recording = RecordingTransport(tmp_path, MemoryTransport(limited, torn))

    async def failures(transport: Any) -> list[tuple[str, float | None, str]]:
        own, found = model(transport), []
        for text in ("first", "second"):
            with pytest.raises(ModelError) as caught:
                await own.complete(asked(text))
            partial = caught.value.partial
            found.append((str(caught.value.code), caught.value.retry_after, partial.text if partial else ""))
        return found

    assert await failures(recording) == await failures(ReplayTransport(tmp_path))
    assert [("RATE_LIMITED", 2.0, ""), ("NETWORK_ERROR", None, "Gr\u00fc")] == await failures(ReplayTransport(tmp_path))


@pytest.mark.covers("BYD-32")
async def test_what_was_never_recorded_fails_and_says_what_is_different(tmp_path: Path) -> None:
    await model(RecordingTransport(tmp_path, MemoryTransport(MemoryResponse(BODY)))).complete(asked("Hi"))
    replay = ReplayTransport(tmp_path / "0000.json")

    with pytest.raises(
        ModelError, match=r"body\.messages\[0\]\.content is 'Ho' instead of the recorded 'Hi'"
    ) as caught:
        await model(replay).complete(asked("Ho"))
    assert (caught.value.reason, caught.value.retryable) == ("not_recorded", False)
    assert (await model(replay).complete(asked("Hi"))).text == TEXT
    with pytest.raises(ModelError, match="all recordings were used"):
        await model(replay).complete(asked("Hi"))


async def test_recordings_may_be_given_out_in_order_whatever_is_asked(tmp_path: Path) -> None:
    await model(RecordingTransport(tmp_path, MemoryTransport(MemoryResponse(BODY)))).complete(asked("Hi"))

    assert (await model(ReplayTransport(tmp_path, in_order=True)).complete(asked("Whatever"))).text == TEXT


async def test_files_are_never_overwritten_and_no_answer_leaves_no_file(tmp_path: Path) -> None:
    for _ in range(2):
        await model(RecordingTransport(tmp_path, MemoryTransport(MemoryResponse(BODY)))).complete(asked())
    with pytest.raises(NetworkError):
        await model(RecordingTransport(tmp_path, MemoryTransport(NetworkError("refused")))).complete(asked())

    assert names(tmp_path) == ["0000.json", "0001.json"]


async def test_a_run_that_is_left_early_is_recorded_as_far_as_it_was_read(tmp_path: Path) -> None:
    stream = model(RecordingTransport(tmp_path, MemoryTransport(MemoryResponse([BODY[:90], BODY[90:]])))).stream(
        asked()
    )
    await anext(stream)
    await stream.aclose()

    told = json.loads((tmp_path / "0000.json").read_text(encoding="utf-8"))["response"]
    assert told["body_text"].encode() == BODY[:90]
