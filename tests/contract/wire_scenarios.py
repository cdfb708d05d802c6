"""The four wire protocols from the side of their hosts: one scripted scenario in the bytes of each, and its failures."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mainspring.models import HttpModel, create_model

THINKING, TEXT = "Two pictures are better than one.", "Looking at both: \u00fc\u00df \U0001f30d."
CALLS = (("call_a1", "look", {"at": "a.png"}), ("call_b2", "look", {"at": "b.png", "zoom": 2}))
SIGNATURE = "c2lnbmF0dXJl"


def event(data: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


@dataclass(frozen=True)
class Speaker:
    """A protocol from the side of the host.

    Attributes:
        name: The name of the protocol.
        spec: A model that uses the protocol.
        settings: Settings of the model in addition to a key and a URL.
        scenario: A response with reasoning, text, and two parallel calls, one event per piece. The first content is in piece
            ``content_at``.
        content_at: The index of the first piece with content.
        plain: A response of one word.
        overloaded: The event that turns a successful response into an error.
    """

    name: str
    spec: str
    settings: dict[str, Any]
    scenario: Sequence[bytes]
    content_at: int
    plain: Sequence[bytes]
    overloaded: bytes

    def model(self, url: str, **more: Any) -> HttpModel:
        model = create_model(self.spec, base_url=url, api_key="k", **{**self.settings, **more})
        assert isinstance(model, HttpModel)
        return model


# --- Chat Completions --------------------------------------------------------------------------------------------------


def chat(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return event({"id": "r1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def chat_call(at: int, arguments: str, id: str | None = None, name: str | None = None) -> bytes:
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return chat({"tool_calls": [{"index": at, "function": function, **({"id": id, "type": "function"} if id else {})}]})


def chat_usage(prompt: int, cached: int, output: int, reasoning: int) -> bytes:
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    return event({"id": "r1", "choices": [], "usage": usage})


CHAT = Speaker(
    "chat_completions",
    "compatible:m",
    {},
    (
        chat({"role": "assistant", "content": ""}),
        chat({"reasoning_content": THINKING[:10]}),
        chat({"reasoning_content": THINKING[10:]}),
        chat({"content": TEXT[:7]}),
        chat({"content": TEXT[7:]}),
        chat_call(0, '{"at": ', *CALLS[0][:2]),
        chat_call(0, '"a.png"}'),
        chat_call(1, "", *CALLS[1][:2]),
        chat_call(1, '{"at":"b.png","zoom":2}'),
        chat({}, "tool_calls"),
        chat_usage(100, 40, 20, 5),
        event("[DONE]"),
    ),
    1,
    (chat({"content": "Hello"}), chat({}, "stop"), chat_usage(3, 0, 2, 0), event("[DONE]")),
    event({"error": {"type": "overloaded_error", "message": "Overloaded"}}),
)

# --- Responses ---------------------------------------------------------------------------------------------------------


def item(at: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": f"item_{at}", **fields}


def added(at: int, value: dict[str, Any]) -> bytes:
    return typed("response.output_item.added", output_index=at, item=value)


def finished(at: int, value: dict[str, Any]) -> bytes:
    return typed("response.output_item.done", output_index=at, item=value)


def typed(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def responses_calls() -> list[bytes]:
    pieces: list[bytes] = []
    for at, (id, name, arguments) in enumerate(CALLS, 2):
        text = json.dumps(arguments)
        pieces += [
            added(at, item(at, "function_call", call_id=id, name=name, arguments="")),
            typed("response.function_call_arguments.delta", output_index=at, item_id=f"item_{at}", delta=text[:6]),
            typed("response.function_call_arguments.delta", output_index=at, item_id=f"item_{at}", delta=text[6:]),
            typed("response.function_call_arguments.done", output_index=at, item_id=f"item_{at}", arguments=text),
            finished(at, item(at, "function_call", call_id=id, name=name, arguments=text, status="completed")),
        ]
    return pieces


def completed(prompt: int, cached: int, output: int, reasoning: int) -> bytes:
    usage = {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": prompt + output,
    }
    return typed("response.completed", response={"id": "resp_1", "status": "completed", "usage": usage})


def response_text(at: int, text: str) -> list[bytes]:
    place = {"output_index": at, "item_id": f"item_{at}", "content_index": 0}
    whole = item(at, "message", role="assistant", content=[{"type": "output_text", "text": text}], status="completed")
    return [
        added(at, item(at, "message", role="assistant", content=[])),
        typed("response.content_part.added", **place, part={"type": "output_text", "text": ""}),
        typed("response.output_text.delta", **place, delta=text[:4]),
        typed("response.output_text.delta", **place, delta=text[4:]),
        typed("response.output_text.done", **place, text=text),
        finished(at, whole),
    ]


REASONING = {"output_index": 0, "item_id": "item_0", "summary_index": 0}
SUMMARY = [{"type": "summary_text", "text": THINKING}]

RESPONSES = Speaker(
    "responses",
    "openai:gpt-5",
    {"api": "responses"},
    (
        typed("response.created", response={"id": "resp_1", "status": "in_progress"}),
        added(0, item(0, "reasoning", summary=[])),
        typed("response.reasoning_summary_part.added", **REASONING, part={"type": "summary_text", "text": ""}),
        typed("response.reasoning_summary_text.delta", **REASONING, delta=THINKING[:10]),
        typed("response.reasoning_summary_text.delta", **REASONING, delta=THINKING[10:]),
        typed("response.reasoning_summary_text.done", **REASONING, text=THINKING),
        finished(0, item(0, "reasoning", summary=SUMMARY, encrypted_content=SIGNATURE)),
        *response_text(1, TEXT),
        *responses_calls(),
        completed(100, 40, 20, 5),
    ),
    3,
    (
        typed("response.created", response={"id": "resp_1", "status": "in_progress"}),
        *response_text(0, "Hello"),
        completed(3, 0, 2, 0),
    ),
    typed("error", code="server_is_overloaded", message="Overloaded", param=None),
)

# --- Messages ----------------------------------------------------------------------------------------------------------


def named(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def block(at: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[bytes]:
    pieces = [named("content_block_start", index=at, content_block=start)]
    pieces += [named("content_block_delta", index=at, delta=delta) for delta in deltas]
    return [*pieces, named("content_block_stop", index=at)]


def text_block(at: int, text: str) -> list[bytes]:
    deltas = [{"type": "text_delta", "text": part} for part in (text[:3], text[3:])]
    return block(at, {"type": "text", "text": ""}, *deltas)


def call_block(at: int, id: str, name: str, arguments: dict[str, Any]) -> list[bytes]:
    text = json.dumps(arguments)
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in ("", text[:5], text[5:])]
    return block(at, {"type": "tool_use", "id": id, "name": name, "input": {}}, *deltas)


def message_start(uncached: int, read: int) -> bytes:
    usage = {"input_tokens": uncached, "cache_read_input_tokens": read, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
    return named("message_start", message=message)


def message_end(reason: str, output: int, reasoning: int) -> list[bytes]:
    usage = {"output_tokens": output, "output_tokens_details": {"thinking_tokens": reasoning}}
    return [named("message_delta", delta={"stop_reason": reason}, usage=usage), named("message_stop")]


MESSAGES = Speaker(
    "messages",
    "anthropic:claude-sonnet-4-5",
    {},
    (
        message_start(60, 40),
        event({"type": "ping"}, "ping"),
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": THINKING[:10]},
            {"type": "thinking_delta", "thinking": THINKING[10:]},
            {"type": "signature_delta", "signature": SIGNATURE},
        ),
        *text_block(1, TEXT),
        *call_block(2, *CALLS[0]),
        *call_block(3, *CALLS[1]),
        *message_end("tool_use", 20, 5),
    ),
    3,
    (message_start(3, 0), *text_block(0, "Hello"), *message_end("end_turn", 2, 0)),
    named("error", error={"type": "overloaded_error", "message": "Overloaded"}),
)

# --- Gemini ------------------------------------------------------------------------------------------------------------


def parts(*values: dict[str, Any], finish: str = "", usage: dict[str, int] | None = None) -> bytes:
    candidate = {"index": 0, "content": {"role": "model", "parts": list(values)}}
    if finish:
        candidate["finishReason"] = finish
    return event({"candidates": [candidate], **({"usageMetadata": usage} if usage else {}), "responseId": "r1"})


GEMINI = Speaker(
    "gemini",
    "gemini:gemini-2.5-pro",
    {},
    (
        parts({"text": THINKING[:10], "thought": True}),
        parts({"text": THINKING[10:], "thought": True}),
        parts({"text": TEXT[:7]}),
        parts({"text": TEXT[7:]}),
        parts(
            {"functionCall": {"id": CALLS[0][0], "name": "look", "args": CALLS[0][2]}, "thoughtSignature": SIGNATURE}
        ),
        parts(
            {"functionCall": {"id": CALLS[1][0], "name": "look", "args": CALLS[1][2]}},
            finish="STOP",
            usage={
                "promptTokenCount": 100,
                "cachedContentTokenCount": 40,
                "candidatesTokenCount": 15,
                "thoughtsTokenCount": 5,
                "totalTokenCount": 120,
            },
        ),
    ),
    0,
    (
        parts({"text": "Hel"}),
        parts(
            {"text": "lo"},
            finish="STOP",
            usage={"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
        ),
    ),
    event({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}),
)

SPEAKERS = (CHAT, RESPONSES, MESSAGES, GEMINI)

Make = Callable[..., HttpModel]
