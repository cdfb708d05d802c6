"""Recorded exchanges of the Responses protocol: what we decode is what a plain reading of the raw body says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.errors import ModelError
from mainspring.messages import Message
from mainspring.models.answer import AnswerReader
from mainspring.models.port import ModelInfo
from mainspring.models.profile import Profile
from mainspring.models.traffic import decode_exchange
from mainspring.models.wire.openai_responses import ResponsesDecoder

OWN = Path(__file__).parent / "fixtures" / "responses"
FAILED = ("error", "response.failed")


def own_exchanges() -> list[Path]:
    return sorted(OWN.glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


# --- the plain reading -------------------------------------------------------------------------------------------------


def objects_of(body: str) -> list[dict[str, Any]]:
    if not body.lstrip().startswith(("data:", ":", "event:")):
        return [json.loads(body)]
    lines = [line[5:].strip() for line in body.replace("\r\n", "\n").split("\n") if line.startswith("data:")]
    objects = [json.loads(line) for line in lines if line != "[DONE]"]
    ends = [at for at, value in enumerate(objects) if value.get("type", "").endswith((".completed", ".incomplete"))]
    ends = [at for at in ends if "response" in objects[at]]
    return objects[: ends[0] + 1] if ends else objects  # One file holds four answers in a row.


def items_of(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The finished items: as they were told one by one, or else as the finished answer tells them."""
    done = [value["item"] for value in objects if value.get("type") == "response.output_item.done"]
    last = objects[-1].get("response") or objects[-1]
    return done or last.get("output") or []


def texts(parts: Any) -> str:
    return "".join(part.get("text") or part.get("refusal") or "" for part in parts or [])


def text_of(items: list[dict[str, Any]]) -> str:
    return "".join(texts(item["content"]) for item in items if item.get("role") == "assistant")


def thinking_of(items: list[dict[str, Any]]) -> str:
    own = [item for item in items if item.get("type") == "reasoning"]
    return "".join(texts(item.get("summary")) + texts(item.get("content")) for item in own)


def calls_of(items: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    calls: list[tuple[str, str, Any]] = []
    for item in items:
        if item.get("type") == "function_call":
            calls.append((item["call_id"], item["name"], as_value(item["arguments"])))
        elif item.get("type") == "custom_tool_call":
            calls.append((item["call_id"], item["name"], {"input": item["input"]}))
    return calls


def as_value(arguments: str) -> Any:
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


# --- the comparison ----------------------------------------------------------------------------------------------------


def disagreements(exchange: dict[str, Any]) -> list[str]:
    """What we decode otherwise than a plain reading does."""
    message, error = decode_exchange(exchange)
    response = exchange["response"]
    if response["status"] != 200:
        return [] if error is not None and error.status == response["status"] else [f"error: {error}"]
    objects = objects_of(response["body_text"])
    last = objects[-1].get("response") or objects[-1]
    if any(o.get("type") in FAILED or (o.get("error") and "type" not in o) for o in objects):
        return [] if error is not None and message is None or error is not None else ["no error"]
    if "output" not in last or last.get("status") in ("queued", "in_progress"):
        return [] if error is not None else ["no error for what is no answer"]
    if error is not None or message is None:
        return [f"error: {error}"]
    items = items_of(objects)
    limited = (last.get("incomplete_details") or {}).get("reason") == "max_output_tokens"
    calls = calls_of(items)
    found = [
        f"{what}: {ours!r} is not {theirs!r}"
        for what, ours, theirs in (
            ("text", message.text, text_of(items)),
            ("thinking", message.thinking, thinking_of(items)),
            ("calls", calls_as_decoded(message), calls),
            ("stop", message.stop_reason, "max_tokens" if limited else "tool_use" if calls else "end_turn"),
        )
        if ours != theirs
    ]
    return found + usage_disagreements(message, last.get("usage"))


def usage_disagreements(message: Message, raw: dict[str, Any] | None) -> list[str]:
    usage = message.usage
    if raw is None or usage is None:
        return [] if raw is None and usage is None else ["usage lost or made up"]
    told = {
        "total": (usage.total_tokens, raw["total_tokens"]),
        "prompt": (usage.prompt_tokens, raw["input_tokens"]),
        "output": (usage.output_tokens, raw["output_tokens"]),
        "cached": (usage.cache_read, (raw.get("input_tokens_details") or {}).get("cached_tokens") or 0),
        "reasoning": (usage.reasoning_tokens, (raw.get("output_tokens_details") or {}).get("reasoning_tokens") or 0),
    }
    return [f"{what}: {ours} is not {theirs}" for what, (ours, theirs) in told.items() if ours != theirs]


def calls_as_decoded(message: Message) -> list[tuple[str, str, Any]]:
    return [(c.id, c.name, c.input if c.raw_input is None else c.raw_input) for c in message.tool_uses]


@pytest.mark.covers("MOD-29", "PRV-10")
def test_every_recorded_exchange_is_decoded_as_a_plain_reading_says(material: Path) -> None:
    index = json.loads((material / "traffic" / "INDEX.json").read_text(encoding="utf-8"))
    files = [entry["file"] for entry in index if entry["api"] == "responses"]
    wrong = {file: found for file in files if (found := disagreements(load(material / "traffic" / file)))}

    print(f"responses: {len(files)} exchanges, {len(files) - len(wrong)} agree")
    assert len(files) > 350
    assert wrong == {}
