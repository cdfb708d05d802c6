"""Recorded exchanges of the native Ollama protocol."""

import json
from collections.abc import Iterator
from typing import Any

from mainspring.messages import Message, ToolResultBlock, ToolUseBlock
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.ollama import OllamaDecoder, encode_request
from tests.contract.traffic.reading import Reading, unequal


def parse_objects(body: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.split("\n") if line.strip()]


def find_differences(exchange: dict[str, Any], message: Message) -> list[str]:
    lines = parse_objects(exchange["response"]["body_text"])
    last, said = lines[-1], [line["message"] for line in lines]
    assert message.usage is not None
    return unequal(
        (
            ("text", message.text, "".join(m.get("content") or "" for m in said)),
            ("thinking", message.thinking, "".join(m.get("thinking") or "" for m in said)),
            (
                "calls",
                [(c.name, c.input) for c in message.tool_uses],
                [(c["function"]["name"], c["function"]["arguments"]) for m in said for c in m.get("tool_calls") or []],
            ),
            ("prompt", message.usage.prompt_tokens, last.get("prompt_eval_count", 0)),
            ("output", message.usage.output_tokens, last.get("eval_count", 0)),
            ("truncated", message.stop_reason == "max_tokens", last.get("done_reason") == "length"),
        )
    )


def compare_request(exchange: dict[str, Any]) -> Iterator[str]:
    recorded = exchange["request"]["body"]["messages"]
    messages: list[Message] = []
    for item in recorded:
        blocks = [
            ToolUseBlock("c1", c["function"]["name"], c["function"]["arguments"]) for c in item.get("tool_calls", [])
        ]
        yield from ["call"] * len(blocks)
        if item["role"] == "tool":
            messages.append(Message.user([ToolResultBlock("c1", "", item["content"])]))
        elif blocks:
            messages.append(Message.assistant(blocks))
        else:
            messages.append(Message.user(item["content"]))
    profile = ModelProfile(ModelInfo("m", "ollama"), "http://host")
    encoded = json.loads(encode_request(ModelRequest(messages), profile))["messages"]
    for ours, theirs in zip(encoded, recorded, strict=True):
        calls = [[c["function"] for c in item.get("tool_calls", [])] for item in (ours, theirs)]
        same = all(ours[k] == theirs[k] for k in ("role", "content")) and calls[0] == calls[1]
        yield "same" if same else f"unlike: {ours} is not {theirs}"


def is_complete(part: bytes) -> bool:
    for line in part.split(b"\n"):
        try:
            if json.loads(line)["done"]:
                return True
        except ValueError:
            continue
    return False


READING = Reading(
    name="ollama",
    apis=("native_chat",),
    folder="ollama",
    decoder=OllamaDecoder,
    covers=("OPT-11",),
    recorded=6,
    expected_error=lambda exchange: None,
    differences=find_differences,
    is_stream=lambda exchange: exchange["response"]["status"] == 200,
    is_complete=is_complete,
    objects=parse_objects,
    frame=lambda objects: "".join(f"{json.dumps(line)}\n" for line in objects).encode(),
    compare_request=compare_request,
    request_minimums={"call": 0},
    request_maximums={"call": 1},
)
