"""Recorded Anthropic Messages exchanges."""

import json
from collections.abc import Iterator
from typing import Any

from mainspring.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.anthropic import AnthropicDecoder, encode_request
from tests.contract.traffic.reading import Reading, decode_arguments, decoded_calls, frame_events, unequal


def events_of(body: str) -> list[dict[str, Any]]:
    """Return the events of the last response, from the last start that a gateway sent up to the end."""
    lines = [line[5:] for line in body.replace("\r\n", "\n").split("\n") if line.startswith("data:")]
    events = [json.loads(line) for line in lines]
    types = [event["type"] for event in events]
    events = events[: types.index("message_stop") + 1] if "message_stop" in types else events
    starts = [i for i, event in enumerate(events) if event["type"] == "message_start"]
    return events[starts[-1] :]


def answer_of(body: str) -> dict[str, Any]:
    """Return the message as the host would send it without streaming."""
    if body.lstrip().startswith("{"):
        return json.loads(body)
    events = events_of(body)
    message: dict[str, Any] = {**events[0]["message"], "usage": dict(events[0]["message"]["usage"])}
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for event in events[1:]:
        kind = event["type"]
        if kind == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            for name in ("text", "thinking", "signature", "content"):
                if name in delta:
                    block[name] = (block.get(name) or "") + delta[name]
            inputs[event["index"]] = inputs.get(event["index"], "") + delta.get("partial_json", "")
        elif kind == "message_delta":
            message["stop_reason"] = event["delta"]["stop_reason"]
            message["usage"].update({k: v for k, v in event["usage"].items() if v})
    for index, text in inputs.items():
        if text:
            blocks[index]["input"] = text
    message["content"] = [blocks[index] for index in sorted(blocks)]
    return message


def expected_error(exchange: dict[str, Any]) -> str | None:
    return "content_filter" if answer_of(exchange["response"]["body_text"])["stop_reason"] == "refusal" else None


def find_differences(exchange: dict[str, Any], message: Message) -> list[str]:
    answer = answer_of(exchange["response"]["body_text"])
    content, values, usage = answer["content"], answer["usage"], message.usage
    assert usage is not None
    calls = [(b["id"], b["name"], decode_arguments(b["input"])) for b in content if b["type"] == "tool_use"]
    stops = {"compaction": "pause_turn", "refusal": None}
    details = values.get("output_tokens_details") or {}
    return unequal(
        (
            ("text", message.text, "".join(b["text"] for b in content if b["type"] == "text")),
            ("thinking", message.thinking, "".join(b["thinking"] for b in content if b["type"] == "thinking")),
            (
                "signed",
                thinking_signatures(message),
                [b.get("signature") or None for b in content if b["type"] == "thinking"],
            ),
            ("redacted", redacted_data(message), [b["data"] for b in content if b["type"] == "redacted_thinking"]),
            ("calls", decoded_calls(message), calls),
            ("stop", message.stop_reason, stops.get(answer["stop_reason"], answer["stop_reason"])),
            ("input", usage.input_tokens, values["input_tokens"]),
            ("output", usage.output_tokens, values["output_tokens"]),
            ("read", usage.cache_read, values.get("cache_read_input_tokens") or 0),
            ("written", usage.cache_write, values.get("cache_creation_input_tokens") or 0),
            ("reasoning", usage.reasoning_tokens, details.get("thinking_tokens") or 0),
        )
    )


def thinking_signatures(message: Message) -> list[str | None]:
    return [block.signature for block in message.content if isinstance(block, ThinkingBlock)]


def redacted_data(message: Message) -> list[str]:
    blocks = [block.data for block in message.content if isinstance(block, RedactedThinkingBlock)]
    return [data for data in blocks if not data.startswith("{")]


# --- requests ----------------------------------------------------------------------------------------------------------


def find_unsupported_part(body: Any) -> str:
    """Return what messages cannot express in a recorded request; empty if nothing."""
    if not isinstance(body, dict) or not all(isinstance(m, dict) for m in body["messages"]):
        return "no readable body"
    called: set[str] = set()
    for message in body["messages"]:
        called |= {block["id"] for block in blocks_of(message) if block["type"] == "tool_use"}
        if any(b["type"] == "tool_result" and b["tool_use_id"] not in called for b in blocks_of(message)):
            return "result of a call that nobody made"
        if message["role"] == "system":
            return "system message inside the conversation"
        for block in blocks_of(message):
            inner = block.get("content") if block["type"] == "tool_result" else None
            for one in (block, *(inner if isinstance(inner, list) else ())):
                if one["type"] in ("document", "container_upload", "tool_reference"):
                    return one["type"]
                if one["type"] == "image" and one["source"]["type"] != "base64":
                    return "image by reference"
    return ""


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def to_message(recorded_exchanges: dict[str, Any], names: dict[str, str], model: str) -> Message:
    found: list[ContentBlock] = []
    for block in blocks_of(recorded_exchanges):
        kind = block["type"]
        if kind == "text":
            found.append(TextBlock(block["text"]))
        elif kind == "image":
            found.append(ImageBlock(block["source"]["media_type"], block["source"]["data"]))
        elif kind == "thinking":
            found.append(ThinkingBlock(block["thinking"], block["signature"]))
        elif kind == "redacted_thinking":
            found.append(RedactedThinkingBlock(block["data"]))
        elif kind == "tool_use":
            names[block["id"]] = block["name"]
            caller = block.get("caller", {"type": "direct"})
            mark = None if caller["type"] == "direct" else json.dumps(caller)
            found.append(ToolUseBlock(block["id"], block["name"], block["input"], signature=mark))
        elif kind == "tool_result":
            inner = block.get("content") or ""
            if not isinstance(inner, str):
                inner = to_message({"role": "user", "content": inner}, names, model).content
            found.append(
                ToolResultBlock(
                    block["tool_use_id"],
                    names.get(block["tool_use_id"], ""),
                    inner,  # pyright: ignore[reportArgumentType] - results hold text and images only
                    is_error=block.get("is_error") is True,
                )
            )
        else:
            found.append(RedactedThinkingBlock(json.dumps(block)))
    if recorded_exchanges["role"] == "user":
        return Message("user", tuple(found))
    return Message("assistant", tuple(found), provider="anthropic", model=model)


def summarize(messages: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Return roles, blocks, IDs, names, arguments, and images; adjacent messages of one role are joined."""
    found: list[tuple[str, list[Any]]] = []
    for message in messages:
        blocks = [summarize_block(block) for block in blocks_of(message)]
        blocks = [block for block in blocks if block is not None]
        if found and found[-1][0] == message["role"]:
            found[-1][1].extend(blocks)
        elif blocks:
            found.append((message["role"], blocks))
    return found


def summarize_block(block: dict[str, Any]) -> Any:
    kind = block["type"]
    if kind == "text":
        return (kind, block["text"]) if block["text"].strip() else None
    if kind == "image":
        return kind, block["source"]["media_type"], block["source"]["data"]
    if kind == "tool_use":
        caller = block.get("caller", {"type": "direct"})
        return kind, block["id"], block["name"], block["input"], None if caller["type"] == "direct" else caller
    if kind == "tool_result":
        content = block.get("content") or "(no output)"
        inner = content if isinstance(content, str) else [summarize_block(one) for one in content]
        return kind, block["tool_use_id"], inner, block.get("is_error") is True
    return block


def kind_of(seen: Any) -> str:
    return seen["type"] if isinstance(seen, dict) else seen[0]


def encode(body: dict[str, Any]) -> dict[str, Any]:
    """Encode the conversation of a recorded request."""
    names: dict[str, str] = {}
    system = body.get("system") or ""
    text = system if isinstance(system, str) else "\n\n".join(block["text"] for block in system)
    tools = [t for t in body.get("tools") or [] if "input_schema" in t]
    model = body.get("model") or "claude"
    request = ModelRequest(
        [to_message(message, names, model) for message in body["messages"]],
        system=text,
        tools=[ToolDefinition(t["name"], t.get("description") or "", t["input_schema"]) for t in tools],
        max_output_tokens=body["max_tokens"],
    )
    return json.loads(encode_request(request, ModelProfile(ModelInfo(model, "anthropic"), "recorded")))


def compare_request(exchange: dict[str, Any]) -> Iterator[str]:
    body = (exchange.get("request") or {}).get("body")
    if body is None or find_unsupported_part(body):
        return
    ours, theirs = encode(body), summarize(body["messages"])
    yield "same"
    yield from [kind_of(block) for _, blocks in theirs for block in blocks]
    if summarize(ours["messages"]) != theirs:
        yield f"unlike messages: {theirs}"
    if [t["name"] for t in ours.get("tools", [])] != [
        t["name"] for t in body.get("tools") or [] if "input_schema" in t
    ]:
        yield "unlike tools"
    if any(a["role"] == b["role"] for a, b in zip(ours["messages"], ours["messages"][1:], strict=False)):
        yield "unlike roles: two messages of one role in a row"


def complete_events(part: bytes) -> Iterator[str]:
    for line in part.decode("utf-8", "ignore").split("\n"):
        try:
            yield json.loads(line.removeprefix("data:"))["type"]
        except (ValueError, TypeError):
            continue


def is_complete(part: bytes) -> bool:
    return any("message_delta" in event or "message_stop" in event for event in complete_events(part))


def split_events(body: str) -> list[dict[str, Any]]:
    return [json.loads(body)] if body.lstrip().startswith("{") else events_of(body)


READING = Reading(
    name="messages",
    apis=("messages",),
    folder="messages",
    decoder=AnthropicDecoder,
    covers=("MOD-30", "CAC-08", "STR-12"),
    recorded=300,
    expected_error=expected_error,
    differences=find_differences,
    is_stream=lambda exchange: not exchange["response"]["body_text"].lstrip().startswith("{"),
    is_complete=is_complete,
    objects=split_events,
    frame=frame_events,
    compares_partial=True,
    ends_calls_early=True,
    compare_request=compare_request,
    request_minimums={"same": 200, "tool_use": 50, "tool_result": 50, "image": 3, "thinking": 3},
)
