"""Check request bodies by the rules of the hosts: roles, order, blocks, IDs, and images."""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

ID = re.compile(r"[a-zA-Z0-9_-]{1,64}$")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}$")


@dataclass
class RequestSummary:
    """The content of a body: names of calls and of their results, the number of images, and all text."""

    calls: list[str] = field(default_factory=list[str])
    results: list[str] = field(default_factory=list[str])
    images: int = 0
    text: str = ""

    def add_text(self, text: Any) -> None:
        assert isinstance(text, str), text
        assert text.strip(), "an empty text"
        self.text += text + "\n"

    def add_call(self, name: str) -> None:
        assert NAME.match(name), name
        self.calls.append(name)

    def add_image(self, data: str) -> None:
        assert base64.b64decode(data.rpartition(",")[2], validate=True)[:4] == b"\x89PNG"
        self.images += 1


def check_request(protocol: str, body: dict[str, Any]) -> RequestSummary:
    """Return the content of the body; fail if the host would reject it."""
    found = RequestSummary()
    CHECKS[protocol](body, found)
    return found


def chat(body: dict[str, Any], found: RequestSummary) -> None:
    waiting: dict[str, str] = {}
    assert body["messages"]
    for message in body["messages"]:
        role, content = message["role"], message.get("content")
        assert role in ("system", "developer", "user", "assistant", "tool")
        assert role == "tool" or not waiting, "a call without its result"
        if isinstance(content, str):
            found.add_text(content)
        for part in content if isinstance(content, list) else ():
            if part["type"] == "text":
                found.add_text(part["text"])
            else:
                assert (part["type"], role) == ("image_url", "user")
                found.add_image(part["image_url"]["url"])
        for add_call in message.get("tool_calls", ()):
            assert role == "assistant"
            assert ID.match(add_call["id"])
            assert add_call["type"] == "function"
            assert isinstance(json.loads(add_call["function"]["arguments"]), dict)
            waiting[add_call["id"]] = add_call["function"]["name"]
            found.add_call(add_call["function"]["name"])
        if role == "tool":
            found.results.append(waiting.pop(message["tool_call_id"]))
        elif role == "assistant":
            assert content or message.get("tool_calls")
    assert not waiting


def responses(body: dict[str, Any], found: RequestSummary) -> None:
    waiting: dict[str, str] = {}
    items = body["input"]
    assert items
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        assert kind in ("function_call", "function_call_output") or not waiting, "a call without its result"
        if kind == "message":
            for part in _parts(item["content"], "input_text"):
                _responses_part(part, item["role"], found)
        elif kind == "reasoning":
            assert items[at + 1].get("type", "message") in ("message", "function_call", "reasoning")
            assert item["encrypted_content"]
            assert isinstance(item["summary"], list)
        elif kind == "function_call":
            assert ID.match(item["call_id"])
            assert isinstance(json.loads(item["arguments"]), dict)
            waiting[item["call_id"]] = item["name"]
            found.add_call(item["name"])
        else:
            assert kind == "function_call_output"
            found.results.append(waiting.pop(item["call_id"]))
            for part in _parts(item["output"], "input_text"):
                _responses_part(part, "user", found)
    assert not waiting


def _responses_part(part: dict[str, Any], role: str, found: RequestSummary) -> None:
    if part["type"] == "input_image":
        assert role == "user"
        found.add_image(part["image_url"])
    else:
        assert part["type"] == (
            "output_text" if role == "assistant" and part["type"] == "output_text" else "input_text"
        )
        found.add_text(part["text"])


def messages(body: dict[str, Any], found: RequestSummary) -> None:
    assert body["max_tokens"] > 0
    before = "assistant"
    waiting: dict[str, str] = {}
    for message in body["messages"]:
        role = message["role"]
        assert role in ("user", "assistant")
        assert role != before, "two messages of one role"
        before = role
        parts = _parts(message["content"], "text")
        answered = [part for part in parts if part["type"] == "tool_result"]
        assert parts[: len(answered)] == answered, "results come first"
        assert {part["tool_use_id"] for part in answered} == set(waiting)
        found.results += [waiting.pop(part["tool_use_id"]) for part in answered]
        for part in parts:
            _messages_part(part, role, found, waiting)
    assert not waiting


def _messages_part(part: dict[str, Any], role: str, found: RequestSummary, waiting: dict[str, str]) -> None:
    match part["type"]:
        case "text":
            found.add_text(part["text"])
        case "image":
            assert (role, part["source"]["type"]) == ("user", "base64")
            found.add_image(part["source"]["data"])
        case "thinking":
            assert role == "assistant"
            assert part["signature"]
        case "tool_use":
            assert role == "assistant"
            assert ID.match(part["id"])
            assert isinstance(part["input"], dict)
            waiting[part["id"]] = part["name"]
            found.add_call(part["name"])
        case "tool_result":
            for inner in _parts(part.get("content", []), "text"):
                assert inner["type"] in ("text", "image")
                _messages_part(inner, "user", found, waiting)
        case other:
            raise AssertionError(f"a block of type {other}")


def gemini(body: dict[str, Any], found: RequestSummary) -> None:
    waiting: list[str] = []
    assert body["contents"][0]["role"] == "user"
    for content in body["contents"]:
        role = content["role"]
        assert role in ("user", "model")
        answered = [part["functionResponse"]["name"] for part in content["parts"] if "functionResponse" in part]
        assert answered == waiting, "the next content has the results, in order"
        found.results += answered
        waiting = []
        for part in content["parts"]:
            _gemini_part(part, role, found, waiting)
    assert not waiting


def _gemini_part(part: dict[str, Any], role: str, found: RequestSummary, waiting: list[str]) -> None:
    if "text" in part:
        found.add_text(part["text"])
    elif "inlineData" in part:
        found.add_image(part["inlineData"]["data"])  # Models can generate images too.
    elif "functionCall" in part:
        assert role == "model"
        assert isinstance(part["functionCall"]["args"], dict)
        waiting.append(part["functionCall"]["name"])
        found.add_call(part["functionCall"]["name"])
    else:
        response = part["functionResponse"]
        assert role == "user"
        assert NAME.match(response["name"])
        found.text += json.dumps(response["response"], ensure_ascii=False) + "\n"
        for inner in response.get("parts", ()):
            found.add_image(inner["inlineData"]["data"])


def _parts(content: Any, kind: str) -> list[dict[str, Any]]:
    return [{"type": kind, "text": content}] if isinstance(content, str) else content


CHECKS: dict[str, Callable[[dict[str, Any], RequestSummary], None]] = {
    "chat_completions": chat,
    "responses": responses,
    "messages": messages,
    "gemini": gemini,
}
