"""Recorded Gemini exchanges."""

import json
from collections.abc import Iterator
from typing import Any

from mainspring.messages import ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import GeminiDialect, ModelProfile
from mainspring.models.wire.gemini import GeminiDecoder, encode_request
from tests.contract.traffic.reading import Reading, frame_events, unequal

FILTERED = {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"}
UNUSABLE = {"MALFORMED_FUNCTION_CALL", "OTHER"}
NUMBERS = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY"}


def parse_objects(body: str) -> list[dict[str, Any]]:
    if body.lstrip()[0] in "[{":
        value = json.loads(body)
        return value if isinstance(value, list) else [value]
    lines = body.replace("\r\n", "\n").split("\n")
    return [json.loads(line[5:]) for line in lines if line.startswith("data:")]


def parts_of(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    candidates = [c for o in objects for c in o.get("candidates") or [] if not c.get("index")]
    return [part for c in candidates for part in (c.get("content") or {}).get("parts") or []]


def texts_of(parts: list[dict[str, Any]], *, thought: bool) -> str:
    return "".join(part.get("text") or "" for part in parts if bool(part.get("thought")) is thought)


def calls_of(parts: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    calls: list[tuple[str, dict[str, Any], bool]] = []
    for call in [part["functionCall"] for part in parts if "functionCall" in part]:
        if "name" in call:
            calls.append((call["name"], dict(call.get("args") or {}), True))
        for piece in call.get("partialArgs") or []:
            set_path(calls[-1][1], piece)
    return [(name, args) for name, args, _ in calls]


def set_path(args: dict[str, Any], piece: dict[str, Any]) -> None:
    """Write a piece at its JSON path."""
    value = next((piece[k] for k in ("stringValue", "numberValue", "boolValue", "nullValue") if k in piece), None)
    holder: Any = args
    steps = piece["jsonPath"].removeprefix("$").replace("[", ".[").strip(".").split(".")
    for i, step in enumerate(steps):
        key: Any = int(step[1:-1]) if step.startswith("[") else step
        last = i == len(steps) - 1
        if isinstance(key, int):
            while len(holder) <= key:
                holder.append(None)
        current = holder[key] if isinstance(key, int) else holder.get(key)
        if last:
            holder[key] = current + value if isinstance(current, str) and isinstance(value, str) else value
        else:
            if current is None:
                holder[key] = [] if steps[i + 1].startswith("[") else {}
            holder = holder[key]


def finish_reason(objects: list[dict[str, Any]]) -> str:
    found = [c["finishReason"] for o in objects for c in o.get("candidates") or [] if c.get("finishReason")]
    return str(NUMBERS.get(found[-1], found[-1])) if found else ""


def usage_counts(objects: list[dict[str, Any]]) -> dict[str, int]:
    values = [o["usageMetadata"] for o in objects if (o.get("usageMetadata") or {}).get("totalTokenCount")]
    return values[-1] if values else {}


def expected_error(exchange: dict[str, Any]) -> str | None:
    objects = parse_objects(exchange["response"]["body_text"])
    finish = finish_reason(objects)
    if finish in FILTERED or any((o.get("promptFeedback") or {}).get("blockReason") for o in objects):
        return "content_filter"
    return "" if finish in UNUSABLE or any("error" in o for o in objects) else None


def find_differences(exchange: dict[str, Any], message: Message) -> list[str]:
    objects = parse_objects(exchange["response"]["body_text"])
    finish, parts = finish_reason(objects), parts_of(objects)
    calls = calls_of(parts)
    counts = usage_counts(objects)
    given = [p["functionCall"]["id"] for p in parts if "id" in p.get("functionCall", {})]
    usage = message.usage
    assert usage is not None
    return unequal(
        (
            ("text", message.text, texts_of(parts, thought=False)),
            ("thinking", message.thinking, texts_of(parts, thought=True)),
            ("calls", [(c.name, c.input) for c in message.tool_uses], calls),
            ("ids", [id for id in given if id not in [c.id for c in message.tool_uses]], []),
            (
                "signatures",
                [c.signature for c in message.tool_uses if c.signature],
                [p["thoughtSignature"] for p in parts if "functionCall" in p and "thoughtSignature" in p],
            ),
            (
                "images",
                [b.data for b in message.content if isinstance(b, ImageBlock)],
                [p["inlineData"]["data"] for p in parts if "inlineData" in p],
            ),
            (
                "stop",
                message.stop_reason,
                "max_tokens" if finish == "MAX_TOKENS" else "tool_use" if calls else "end_turn",
            ),
            ("total", usage.total_tokens, counts["totalTokenCount"]),
            ("cached", usage.cache_read, counts.get("cachedContentTokenCount", 0)),
            ("prompt", usage.prompt_tokens, counts["promptTokenCount"] + counts.get("toolUsePromptTokenCount", 0)),
            ("reasoning", usage.reasoning_tokens, counts.get("thoughtsTokenCount", 0)),
            ("output", usage.output_tokens - usage.reasoning_tokens, counts.get("candidatesTokenCount", 0)),
        )
    )


# --- requests ----------------------------------------------------------------------------------------------------------


def get_field(fields: dict[str, Any], name: str) -> Any:
    """Return a field in camel case or snake case."""
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    return fields.get(name, fields.get(snake))


def to_messages(contents: list[dict[str, Any]]) -> list[Message] | None:
    """Return the messages of a recorded request, or ``None`` if messages cannot express it."""
    messages: list[Message] = []
    number, open_ids = 0, dict[str, list[str]]()
    for content in contents:
        blocks: list[Any] = []
        for part in content["parts"]:
            call, result, blob = (get_field(part, n) for n in ("functionCall", "functionResponse", "inlineData"))
            signature = get_field(part, "thoughtSignature")
            if call is not None:
                number += 1
                id = call.get("id") or f"call_made_{number}"
                open_ids.setdefault(call["name"], []).append(id)
                blocks.append(ToolUseBlock(id, call["name"], call.get("args") or {}, None, signature))
            elif result is not None:
                waiting = open_ids.get(result["name"]) or [result.get("id") or ""]
                id = result.get("id") or waiting[0]
                if id in waiting:
                    waiting.remove(id)
                blocks.append(ToolResultBlock(id, result["name"], json.dumps(result["response"])))
            elif blob is not None:
                if not get_field(blob, "mimeType").startswith("image/"):
                    return None
                blocks.append(ImageBlock(get_field(blob, "mimeType"), blob["data"]))
            elif part.get("thought"):
                blocks.append(ThinkingBlock(part.get("text") or "", signature))
            elif (part.get("text") or "").strip():
                blocks.append(TextBlock(part["text"], signature))
            else:
                return None
        if content.get("role") == "model":
            messages.append(Message.assistant(blocks, provider="gemini", model="m"))
        else:
            messages.append(Message.user(blocks))
    return messages


def summarize(contents: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Return the role and the parts of each turn, without what may differ; adjacent turns of one role are joined."""
    turns: list[tuple[str, list[Any]]] = []
    for content in contents:
        role = content.get("role") or "user"
        if not turns or turns[-1][0] != role:
            turns.append((role, []))
        for part in content["parts"]:
            call, result, blob = (get_field(part, n) for n in ("functionCall", "functionResponse", "inlineData"))
            if call is not None:
                turns[-1][1].append(("call", call["name"], call.get("args") or {}, get_field(part, "thoughtSignature")))
            elif result is not None:
                turns[-1][1].append(("result", result["name"]))
            elif blob is not None:
                turns[-1][1].append(("image", get_field(blob, "mimeType"), blob["data"]))
            else:
                turns[-1][1].append(("text", part.get("text") or "", bool(part.get("thought"))))
    return turns


def compare_request(exchange: dict[str, Any]) -> Iterator[str]:
    body = (exchange.get("request") or {}).get("body") or {}
    contents = body.get("contents")
    if not contents or any(c.get("role") not in ("user", "model", None) for c in contents):
        return
    messages = to_messages(contents)
    if messages is None:
        yield "not expressible"
        return
    profile = ModelProfile(ModelInfo("m", "gemini"), "http://host", gemini=GeminiDialect(thinking="budget"))
    encoded = json.loads(encode_request(ModelRequest(messages), profile))["contents"]
    if summarize(encoded) != summarize(contents):
        # The only repair: results in the order of their calls, and only for existing calls.
        yield "repaired" if "result" in str(summarize(contents)) else "unlike contents"
        return
    yield "same"
    parts = [part for content in encoded for part in content["parts"]]
    calls = [part["functionCall"]["id"] for part in parts if "functionCall" in part]
    if [part["functionResponse"]["id"] for part in parts if "functionResponse" in part] != calls:
        yield "unlike IDs of results"


READING = Reading(
    name="gemini",
    apis=("generate_content", "stream_generate_content"),
    folder="gemini",
    decoder=GeminiDecoder,
    covers=("MOD-03", "MOD-29", "STR-12"),
    recorded=250,
    expected_error=expected_error,
    differences=find_differences,
    is_stream=lambda exchange: exchange["api"] == "stream_generate_content",
    is_complete=lambda part: b"finishReason" in part,
    objects=parse_objects,
    frame=frame_events,
    compare_request=compare_request,
    request_minimums={"same": 200},
    request_maximums={"repaired": 5},
)
