"""Recorded exchanges of the Responses protocol."""

import json
from collections.abc import Iterator
from typing import Any

from mainspring.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile, ResponsesCapabilities
from mainspring.models.wire.openai_responses import ResponsesDecoder, encode_request
from mainspring.models.wire.openai_responses.payloads import encode_item_metadata
from tests.contract.traffic.reading import (
    Reading,
    decode_arguments,
    decoded_calls,
    frame_events,
    is_event_stream,
    unequal,
)

FAILED = ("error", "response.failed")


def parse_objects(body: str) -> list[dict[str, Any]]:
    if not body.lstrip().startswith(("data:", ":", "event:")):
        return [json.loads(body)]
    lines = [line[5:].strip() for line in body.replace("\r\n", "\n").split("\n") if line.startswith("data:")]
    objects = [json.loads(line) for line in lines if line != "[DONE]"]
    ends = [at for at, value in enumerate(objects) if value.get("type", "").endswith((".completed", ".incomplete"))]
    ends = [at for at in ends if "response" in objects[at]]
    return objects[: ends[0] + 1] if ends else objects  # one file contains four responses in a row


def items_of(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the finished items, sent one by one or with the finished response."""
    done = [value["item"] for value in objects if value.get("type") == "response.output_item.done"]
    last = objects[-1].get("response") or objects[-1]
    return done or last.get("output") or []


def texts(parts: Any) -> str:
    return "".join(part.get("text") or part.get("refusal") or "" for part in parts or [])


def text_of(items: list[dict[str, Any]]) -> str:
    return "".join(texts(item["content"]) for item in items if item.get("role") == "assistant")


def thinking_of(items: list[dict[str, Any]]) -> str:
    reasoning = [item for item in items if item.get("type") == "reasoning"]
    return "".join(texts(item.get("summary")) + texts(item.get("content")) for item in reasoning)


def calls_of(items: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    calls: list[tuple[str, str, Any]] = []
    for item in items:
        if item.get("type") == "function_call":
            calls.append((item["call_id"], item["name"], decode_arguments(item["arguments"])))
        elif item.get("type") == "custom_tool_call":
            calls.append((item["call_id"], item["name"], {"input": item["input"]}))
    return calls


def expected_error(exchange: dict[str, Any]) -> str | None:
    objects = parse_objects(exchange["response"]["body_text"])
    last = objects[-1].get("response") or objects[-1]
    failed = any(o.get("type") in FAILED or (o.get("error") and "type" not in o) for o in objects)
    return "" if failed or "output" not in last or last.get("status") in ("queued", "in_progress") else None


def find_differences(exchange: dict[str, Any], message: Message) -> list[str]:
    objects = parse_objects(exchange["response"]["body_text"])
    last = objects[-1].get("response") or objects[-1]
    items = items_of(objects)
    limited = (last.get("incomplete_details") or {}).get("reason") == "max_output_tokens"
    calls = calls_of(items)
    found = unequal(
        (
            ("text", message.text, text_of(items)),
            ("thinking", message.thinking, thinking_of(items)),
            ("calls", decoded_calls(message), calls),
            ("stop", message.stop_reason, "max_tokens" if limited else "tool_use" if calls else "end_turn"),
        )
    )
    return found + find_usage_differences(message, last.get("usage"))


def find_usage_differences(message: Message, raw: dict[str, Any] | None) -> list[str]:
    usage = message.usage
    if raw is None or usage is None:
        return [] if raw is None and usage is None else ["usage lost or made up"]
    values = {
        "total": (usage.total_tokens, raw["total_tokens"]),
        "prompt": (usage.prompt_tokens, raw["input_tokens"]),
        "output": (usage.output_tokens, raw["output_tokens"]),
        "cached": (usage.cache_read, (raw.get("input_tokens_details") or {}).get("cached_tokens") or 0),
        "reasoning": (usage.reasoning_tokens, (raw.get("output_tokens_details") or {}).get("reasoning_tokens") or 0),
    }
    return [f"{what}: {ours} is not {theirs}" for what, (ours, theirs) in values.items() if ours != theirs]


# --- requests ----------------------------------------------------------------------------------------------------------


def blocks_of(content: Any) -> list[TextBlock | ImageBlock]:
    if isinstance(content, str):
        return [TextBlock(content)]
    blocks: list[TextBlock | ImageBlock] = []
    for part in content:
        if part["type"] in ("input_text", "output_text", "text"):
            blocks.append(TextBlock(part["text"]))
        elif part["type"] == "input_image" and part["image_url"].startswith("data:"):
            media, _, data = part["image_url"].removeprefix("data:").partition(";base64,")
            blocks.append(ImageBlock(media, data))
        else:
            raise LookupError(part["type"])
    return blocks


def to_messages(items: list[dict[str, Any]]) -> list[Message]:
    """Return a recorded conversation as messages; raise LookupError if messages cannot express it."""
    messages: list[Message] = []
    pending: list[ContentBlock] = []

    def flush_turn() -> None:
        if pending:
            messages.append(Message("assistant", tuple(pending), provider="host", model="m"))
            pending.clear()

    results: list[ContentBlock] = []
    for item in items:
        kind = item.get("type", "message")
        if kind != "function_call_output" and results:
            messages.append(Message("user", tuple(results)))
            results.clear()
        if kind == "reasoning":
            parts = [("summary", part["text"]) for part in item["summary"]]
            parts += [("raw", part["text"]) for part in item.get("content") or []]
            for at, (part, text) in enumerate(parts or [("summary", "")]):
                mark: dict[str, Any] = {"part": part}
                if at >= len(parts) - 1:
                    mark = {k: item[k] for k in ("type", "id", "encrypted_content") if item.get(k)}
                    mark["raw"] = part == "raw" or None
                pending.append(ThinkingBlock(text, encode_item_metadata(**mark)))
        elif kind == "function_call":
            metadata = encode_item_metadata(id=item.get("id"), namespace=item.get("namespace"))
            pending.append(
                ToolUseBlock(item["call_id"], item["name"], json.loads(item["arguments"] or "{}"), None, metadata)
            )
        elif kind == "function_call_output":
            flush_turn()
            output = item["output"]
            results.append(
                ToolResultBlock(
                    item["call_id"], content=output if isinstance(output, str) else tuple(blocks_of(output))
                )
            )
        elif kind == "message" and item["role"] == "assistant":
            pending += [
                TextBlock(b.text, encode_item_metadata(id=item.get("id"), phase=item.get("phase")))
                for b in blocks_of(item["content"])
                if isinstance(b, TextBlock)
            ]
        elif kind == "message":
            flush_turn()
            role = "system" if item["role"] in ("system", "developer") else "user"
            messages.append(Message(role, tuple(blocks_of(item["content"]))))
        else:
            raise LookupError(kind)
    flush_turn()
    return [*messages, Message("user", tuple(results))] if results else messages


def summarize(items: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return kind, role, call, and parts of each item, without the IDs and wording of the recorder."""
    found: list[tuple[Any, ...]] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            role = "system" if item["role"] == "developer" else item["role"]
            content = (
                item["content"] if not isinstance(item["content"], str) else [{"type": "text", "text": item["content"]}]
            )
            if all("text" in p for p in content):  # parts that are only text are one text
                content = [{"type": "text", "text": "\n".join(p["text"] or "" for p in content)}]
            parts = [(p["type"].rpartition("_")[2], p.get("text") or p.get("image_url")) for p in content]
            if role == "assistant" and parts == [("text", None)]:
                continue  # empty text is not sent
            found.append((kind, role, *parts))
        elif kind == "function_call":
            found.append((kind, item["call_id"], item["name"], json.loads(item["arguments"] or "{}")))
        elif kind == "function_call_output":
            output = item["output"]
            parts = (
                output
                if isinstance(output, str)
                else [(p["type"], p.get("text") or p.get("image_url")) for p in output]
            )
            found.append((kind, item["call_id"], parts or "(no output)"))
        else:
            found.append((kind, item.get("encrypted_content"), texts(item["summary"]), texts(item.get("content"))))
    return found


def encode(messages: list[Message]) -> list[dict[str, Any]]:
    dialect = ResponsesCapabilities(store=None)
    profile = ModelProfile(ModelInfo("m", "host"), "http://host/v1", responses=dialect)
    return json.loads(encode_request(ModelRequest(messages), profile))["input"]


def compare_request(exchange: dict[str, Any]) -> Iterator[str]:
    body = (exchange["request"] or {}).get("body") or {}
    if not isinstance(body, dict) or not isinstance(body.get("input"), list) or "previous_response_id" in body:
        return
    try:
        messages = to_messages(body["input"])
    except LookupError:
        yield "not expressible"
        return
    ours, theirs = summarize(encode(messages)), summarize(body["input"])
    if ours == theirs:
        yield "same"
    else:
        unequal_pairs = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]]
        yield f"unlike: {unequal_pairs[:1] or (len(ours), len(theirs))}"


# --- streams -----------------------------------------------------------------------------------------------------------


def is_complete(part: bytes) -> bool:
    at = max(part.rfind(b'"type":"response.completed"'), part.rfind(b'"type":"response.incomplete"'))
    return (at >= 0 and part.find(b"\n", at) >= 0) or b"[DONE]" in part or is_last_line_complete(part)


def is_last_line_complete(part: bytes) -> bool:
    """Return True if the last line is complete without its newline."""
    try:
        value = json.loads(part.rstrip().rpartition(b"\n")[2].removeprefix(b"data:"))
    except ValueError:
        return False
    return value.get("type") in ("response.completed", "response.incomplete")


READING = Reading(
    name="responses",
    apis=("responses",),
    folder="responses",
    decoder=ResponsesDecoder,
    covers=("MOD-29", "PRV-10"),
    recorded=350,
    expected_error=expected_error,
    differences=find_differences,
    is_stream=is_event_stream,
    is_complete=is_complete,
    objects=parse_objects,
    frame=frame_events,
    ends_calls_early=True,
    compare_request=compare_request,
    request_minimums={"same": 200},
)
