"""Recorded Chat Completions exchanges of many hosts."""

import json
from collections.abc import Iterator
from typing import Any

from mainspring.messages import Message
from mainspring.models.wire.openai_chat import ChatDecoder
from tests.contract.traffic.reading import (
    Reading,
    decode_arguments,
    decoded_calls,
    frame_events,
    is_event_stream,
    unequal,
)


def parse_objects(body: str) -> list[dict[str, Any]]:
    if not body.lstrip().startswith(("data:", ":", "event:")):
        return [json.loads(body)]
    lines = [line[5:].strip() for line in body.replace("\r\n", "\n").split("\n") if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def pieces_of(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for value in objects:
        for choice in value.get("choices") or []:
            if choice.get("index", 0) == 0:
                places = ("delta", "message") if len(objects) > 1 else ("message", "delta")
                yield next((choice[place] for place in places if choice.get(place)), {})


def text_of(piece: dict[str, Any]) -> str:
    content = piece.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content if part.get("type") == "text")
    return content + (piece.get("refusal") or "")


def thinking_of(piece: dict[str, Any]) -> str:
    plain = piece.get("reasoning_content") or piece.get("reasoning")
    if plain:
        return plain
    if isinstance(piece.get("content"), list):
        parts = [part["thinking"] for part in piece["content"] if part.get("type") == "thinking"]
        return "".join(inner["text"] for part in parts for inner in part)
    return "".join(d.get("text") or d.get("summary") or "" for d in piece.get("reasoning_details") or [])


def calls_of(objects: list[dict[str, Any]]) -> list[tuple[str, str]]:
    calls: dict[Any, list[str]] = {}
    for piece in pieces_of(objects):
        for position, call in enumerate(piece.get("tool_calls") or []):
            key = call.get("index", position)
            if call.get("id") and calls.get(key, [call["id"]])[0] not in ("", call["id"]):
                key = call["id"]
            entry = calls.setdefault(key, [call.get("id") or "", "", ""])
            if "custom" in call:
                entry[1], entry[2] = call["custom"]["name"], json.dumps({"input": call["custom"]["input"]})
                continue
            entry[1] = entry[1] or call["function"].get("name") or ""
            entry[2] += call["function"].get("arguments") or ""
    return [(name, arguments) for _, name, arguments in calls.values()]


def usage_of(objects: list[dict[str, Any]]) -> dict[str, Any] | None:
    values = [u for o in objects for u in (o.get("usage"), (o.get("x_groq") or {}).get("usage")) if u]
    return next((u for u in reversed(values) if u.get("total_tokens")), None)


def finish_reasons(objects: list[dict[str, Any]]) -> list[str]:
    return [c["finish_reason"] for o in objects for c in o.get("choices") or [] if c.get("finish_reason")]


def expected_error(exchange: dict[str, Any]) -> str | None:
    objects = parse_objects(exchange["response"]["body_text"])
    return "" if any("error" in o for o in objects) or "content_filter" in finish_reasons(objects) else None


def find_differences(exchange: dict[str, Any], message: Message) -> list[str]:
    objects = parse_objects(exchange["response"]["body_text"])
    pieces = list(pieces_of(objects))
    found = unequal(
        (
            ("text", message.text, "".join(map(text_of, pieces))),
            ("thinking", message.thinking, "".join(map(thinking_of, pieces))),
            (
                "calls",
                [(name, arguments) for _, name, arguments in decoded_calls(message)],
                [(name, decode_arguments(arguments)) for name, arguments in calls_of(objects)],
            ),
            ("truncated", message.stop_reason == "max_tokens", "length" in finish_reasons(objects)),
        )
    )
    return found + find_usage_differences(message, usage_of(objects))


def find_usage_differences(message: Message, raw: dict[str, Any] | None) -> list[str]:
    usage = message.usage
    if raw is None:
        return [] if usage is None or usage.total_tokens == 0 else ["usage made up"]
    if usage is None:
        return ["usage lost"]
    audio = (raw.get("prompt_tokens_details") or {}).get("audio_tokens") or 0
    found: list[str] = []
    if usage.total_tokens != raw["total_tokens"]:
        found.append(f"total: {usage.total_tokens} is not {raw['total_tokens']}")
    if usage.prompt_tokens not in (raw["prompt_tokens"], raw["prompt_tokens"] + audio):
        found.append(f"prompt: {usage.prompt_tokens} is not {raw['prompt_tokens']}")
    details = raw.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens") or raw.get("cached_tokens") or raw.get("num_cached_tokens") or 0
    if usage.cache_read != min(cached, raw["prompt_tokens"]):
        found.append(f"cached: {usage.cache_read} is not {cached}")
    reasoning = (raw.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    if usage.reasoning_tokens < min(reasoning, usage.output_tokens):
        found.append(f"reasoning: {usage.reasoning_tokens} is not {reasoning}")
    return found


def complete_objects(part: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in part.split(b"\n"):
        try:
            value = json.loads(line.strip()[5:])
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def is_complete(part: bytes) -> bool:
    return b"[DONE]" in part or bool(finish_reasons(complete_objects(part)))


READING = Reading(
    name="chat_completions",
    apis=("chat_completions",),
    folder="traffic",
    decoder=ChatDecoder,
    covers=("MOD-29",),
    recorded=500,
    expected_error=expected_error,
    differences=find_differences,
    is_stream=is_event_stream,
    is_complete=is_complete,
    objects=parse_objects,
    frame=frame_events,
)
