"""The same scenario yields the same messages on each protocol, and each protocol can continue the history of any other."""

import json
import os
from typing import Any

import pytest

from mainspring.errors import ErrorCode, ModelError, RateLimitedError
from mainspring.events import ContentEvent, Done, StreamEvent, TextDelta, ThinkingDelta, ToolCallEnd
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
from mainspring.models import EncodingCache, HttpModel, MemoryResponse, MemoryTransport, ModelRequest
from tests.contract.request_rules import check_request
from tests.contract.wire_scenarios import CALLS, SPEAKERS, TEXT, THINKING, Speaker

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LOOK = ToolDefinition(
    "look",
    "Look at a picture.",
    {
        "type": "object",
        "properties": {"at": {"type": "string"}, "zoom": {"type": "integer"}},
        "required": ["at"],
    },
)
QUESTION = Message.user([TextBlock("What is on the two?"), ImageBlock("image/png", PNG)])

each_protocol = pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda s: s.name)


def create_http_model(speaker: Speaker, *answers: MemoryResponse, **settings: Any) -> tuple[HttpModel, MemoryTransport]:
    transport = MemoryTransport(*(answers or (MemoryResponse(list(speaker.scenario)),)))
    return speaker.model("http://host.example/v1", **settings).with_transport(transport), transport


async def scenario(speaker: Speaker, *, piece: int | None = None) -> tuple[Message, list[StreamEvent]]:
    data = b"".join(speaker.scenario)
    pieces = [data[at : at + piece] for at in range(0, len(data), piece)] if piece else list(speaker.scenario)
    model, _ = create_http_model(speaker, MemoryResponse(pieces))
    events = [event async for event in model.stream(ModelRequest([QUESTION], tools=[LOOK], thinking="high"))]
    last = events[-1]
    assert isinstance(last, Done)
    return last.message, events


def normalize(message: Message) -> list[tuple[Any, ...]]:
    """Return the content of a message without what only its provider can read."""
    parts: list[tuple[Any, ...]] = []
    for block in message.content:
        match block:
            case TextBlock(text=text):
                parts.append(("text", text))
            case ThinkingBlock(thinking=text):
                parts.append(("thinking", text))
            case ToolUseBlock():
                parts.append(("call", block.id, block.name, block.input, block.raw_input))
            case RedactedThinkingBlock():
                pass
            case _:
                parts.append((type(block).__name__,))
    return parts


@pytest.mark.covers("TST-06", "MOD-03", "MOD-39", "MOD-04", "TST-01")
@each_protocol
@pytest.mark.parametrize("piece", [None, 1, 13])
async def test_every_protocol_yields_the_same_message(speaker: Speaker, piece: int | None) -> None:
    message, _ = await scenario(speaker, piece=piece)

    assert normalize(message) == [
        ("thinking", THINKING),
        ("text", TEXT),
        *(("call", id, name, arguments, None) for id, name, arguments in CALLS),
    ]
    assert (message.role, message.stop_reason, message.error) == ("assistant", "tool_use", None)
    assert message.usage is not None
    assert (message.usage.input_tokens, message.usage.cache_read, message.usage.cache_write) == (60, 40, 0)
    assert (message.usage.output_tokens, message.usage.reasoning_tokens, message.usage.total_tokens) == (20, 5, 120)
    assert message.provider == speaker.spec.partition(":")[0]


@pytest.mark.covers("MOD-39", "STR-04", "STR-05", "STR-06", "STR-07", "STR-08", "STR-12")
@each_protocol
async def test_every_protocol_yields_the_same_events_in_order(speaker: Speaker) -> None:
    message, events = await scenario(speaker)

    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("start", "done")
    starts = [kind for kind in kinds if kind.endswith("_start")]
    assert starts == ["thinking_start", "text_start", "toolcall_start", "toolcall_start"]
    for index, what in enumerate(("thinking", "text", "toolcall", "toolcall")):
        types = [e.type for e in events if isinstance(e, ContentEvent) and e.index == index]
        assert (types[0], types[-1]) == (f"{what}_start", f"{what}_end")
        assert types[1:-1] == [f"{what}_delta"] * (len(types) - 2)
        assert len(types) > 2
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == TEXT
    assert "".join(e.text for e in events if isinstance(e, ThinkingDelta)) == THINKING
    ended = [e.call for e in events if isinstance(e, ToolCallEnd)]
    assert [(c.id, c.name, c.input) for c in ended] == list(CALLS)
    assert message.tool_uses == tuple(ended)


@pytest.mark.covers("TST-06", "MOD-03")
@each_protocol
async def test_error_within_a_stream_is_the_same_on_every_protocol(speaker: Speaker) -> None:
    cut = [*speaker.scenario[: speaker.content_at + 1], speaker.overloaded]
    model, _ = create_http_model(speaker, MemoryResponse(cut))

    with pytest.raises(RateLimitedError) as caught:
        await model.complete(ModelRequest([QUESTION]))

    assert (caught.value.code, caught.value.reason, caught.value.retryable) == (
        ErrorCode.RATE_LIMITED,
        "overloaded",
        True,
    )
    assert caught.value.partial is not None
    assert THINKING.startswith(caught.value.partial.thinking) or caught.value.partial.text


REFUSALS: list[tuple[int, dict[str, Any], ErrorCode, str]] = [
    (401, {"error": {"message": "invalid key"}}, ErrorCode.AUTHENTICATION_ERROR, "unauthorized"),
    (404, {"error": {"message": "model x not found"}}, ErrorCode.MODEL_NOT_FOUND, "not_found"),
    (429, {"error": {"message": "slow down"}}, ErrorCode.RATE_LIMITED, "rate_limit"),
    (400, {"error": {"message": "prompt is too long: 9 tokens > 8"}}, ErrorCode.CONTEXT_LENGTH_EXCEEDED, "overflow"),
    (500, {"error": {"message": "oops"}}, ErrorCode.NETWORK_ERROR, "server_error"),
]


@pytest.mark.covers("TST-06", "MOD-03", "TST-05")
@each_protocol
@pytest.mark.parametrize(("status", "body", "code", "reason"), REFUSALS)
async def test_error_status_is_the_same_error_on_every_protocol(
    speaker: Speaker, status: int, body: dict[str, Any], code: ErrorCode, reason: str
) -> None:
    model, _ = create_http_model(speaker, MemoryResponse(json.dumps(body).encode(), status))

    with pytest.raises(ModelError) as caught:
        await model.complete(ModelRequest([QUESTION]))

    assert (caught.value.code, caught.value.reason, caught.value.status) == (code, reason, status)
    assert caught.value.provider == model.provider


THINKING_FIELDS = {
    "chat_completions": lambda body: body.get("reasoning_effort"),
    "responses": lambda body: (body.get("reasoning") or {}).get("effort"),
    "messages": lambda body: (body.get("thinking") or {}).get("budget_tokens"),
    "gemini": lambda body: body.get("generationConfig", {}).get("thinkingConfig", {}).get("thinkingBudget"),
}


@pytest.mark.covers("MOD-36")
@each_protocol
async def test_thinking_levels_map_to_each_protocol(speaker: Speaker) -> None:
    read = THINKING_FIELDS[speaker.name]

    sent_levels = [
        read(await send(speaker, [QUESTION], thinking=level)) for level in ("minimal", "low", "medium", "high", "xhigh")
    ]

    assert None not in sent_levels
    assert len({str(value) for value in sent_levels}) >= 4
    assert sent_levels == (sorted(sent_levels) if isinstance(sent_levels[0], int) else sent_levels)
    assert read(await send(speaker, [QUESTION])) is None
    assert read(await send(speaker, [QUESTION], thinking="off")) in (None, 0, "none", "minimal", 128)


# --- one model after another -------------------------------------------------------------------------------------------


def tool_results(message: Message) -> Message:
    picture = (TextBlock("A cat."), ImageBlock("image/png", PNG))
    first, second = message.tool_uses
    return Message.user(
        [
            ToolResultBlock(first.id, first.name, picture),
            ToolResultBlock(second.id, second.name, "no such file", is_error=True),
        ]
    )


async def build_history(*speakers: Speaker) -> list[Message]:
    """Return a conversation in which each model thought, responded, called tools, and saw an image."""
    messages: list[Message] = [QUESTION]
    for speaker in speakers:
        answer, _ = await scenario(speaker)
        messages += [answer, tool_results(answer), Message.user("And now?")]
    return messages


async def send(speaker: Speaker, messages: list[Message], **more: Any) -> dict[str, Any]:
    model, transport = create_http_model(speaker, MemoryResponse(list(speaker.plain)))
    answer = await model.complete(ModelRequest(messages, "Be brief.", [LOOK], **more))
    assert answer.text == "Hello"
    return json.loads(transport.requests[-1].body)


@pytest.mark.covers("BYD-09", "TST-06")
@each_protocol
@pytest.mark.parametrize("before", SPEAKERS, ids=lambda s: f"after-{s.name}")
async def test_any_model_continues_the_history_of_another(speaker: Speaker, before: Speaker) -> None:
    messages = await build_history(before)
    untouched = [(m.role, m.content) for m in messages]

    body = await send(speaker, messages, thinking="high")

    found = check_request(speaker.name, body)
    assert found.calls == found.results == ["look", "look"]
    assert found.images == 2
    assert TEXT in found.text
    assert "no such file" in found.text
    is_same = before is speaker
    assert (THINKING in json.dumps(body)) == (is_same and speaker.name != "gemini") or speaker.name in (
        "gemini",
        "responses",
    )
    if not is_same:
        assert "c2lnbmF0dXJl" not in json.dumps(body)
    assert [(m.role, m.content) for m in messages] == untouched


@pytest.mark.covers("BYD-09")
@each_protocol
async def test_history_of_all_protocols_continues_on_each(speaker: Speaker) -> None:
    messages = await build_history(*SPEAKERS)

    found = check_request(speaker.name, await send(speaker, messages))

    assert found.calls == found.results == ["look"] * 8
    assert found.images == 5


@pytest.mark.covers("BYD-09")
@each_protocol
async def test_model_without_vision_gets_a_note_for_each_image(speaker: Speaker) -> None:
    messages = await build_history(SPEAKERS[0])
    transport = MemoryTransport(MemoryResponse(list(speaker.plain)))
    model = speaker.model("http://host.example/v1", vision=False).with_transport(transport)

    await model.complete(ModelRequest(messages, tools=[LOOK]))

    found = check_request(speaker.name, json.loads(transport.requests[-1].body))
    assert found.images == 0
    assert found.text.count("image left out") == 2


# --- the prefix --------------------------------------------------------------------------------------------------------


def strip_cache_markers(value: Any) -> Any:
    """Return a body without cache markers, which move on purpose."""
    if isinstance(value, dict):
        return {k: strip_cache_markers(v) for k, v in value.items() if k != "cache_control"}
    return [strip_cache_markers(v) for v in value] if isinstance(value, list) else value


def get_messages(body: dict[str, Any]) -> list[Any]:
    return next(body[name] for name in ("messages", "input", "contents") if name in body)


@pytest.mark.covers("CAC-04", "CAC-10")
@each_protocol
async def test_fifty_turns_keep_the_request_prefix(speaker: Speaker) -> None:
    answer, _ = await scenario(speaker)
    model, transport = create_http_model(speaker, MemoryResponse(list(speaker.plain)))
    messages: list[Message] = [QUESTION]
    scratch = EncodingCache()
    for turn in range(50):
        await model.complete(ModelRequest(messages, "Be brief.", [LOOK], session_id="s", scratch=scratch))
        messages += [answer, tool_results(answer), Message.user(f"Turn {turn}")]

    raw = [sent_levels.body for sent_levels in transport.requests]
    bodies = [json.loads(body) for body in raw]
    heads = [
        {k: v for k, v in strip_cache_markers(b).items() if k not in ("messages", "input", "contents")} for b in bodies
    ]
    assert all(head == heads[0] for head in heads)
    for before, after in zip(bodies, bodies[1:], strict=False):
        old, new = strip_cache_markers(get_messages(before)), strip_cache_markers(get_messages(after))
        assert len(new) > len(old)
        assert new[: len(old)] == old
    plain = [body.replace(b',"cache_control":{"type":"ephemeral"}', b"") for body in raw]
    for turn, (before, after) in enumerate(zip(plain[1:], plain[2:], strict=False)):
        newest = f"Turn {turn}".encode()
        assert len(os.path.commonprefix([before, after])) > before.rindex(newest) + len(newest)
