"""Histories that no host would produce, but that happen: each encodes to a valid request on every protocol."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models.port import EncodingCache, ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.providers.gemini import gemini_capabilities
from mainspring.models.wire import anthropic as anthropic_messages, gemini, ollama, openai_chat, openai_responses
from tests.contract import request_rules as shapes
from tests.rows import each_row

INFO = ModelInfo("m", "p")
WIRES: dict[str, tuple[Callable[[ModelRequest, ModelProfile], bytes], ModelProfile]] = {
    "chat_completions": (openai_chat.encode_request, ModelProfile(INFO, "http://h")),
    "responses": (openai_responses.encode_request, ModelProfile(INFO, "http://h")),
    "messages": (anthropic_messages.encode_request, ModelProfile(INFO, "http://h")),
    "gemini": (gemini.encode_request, ModelProfile(INFO, "http://h", gemini=gemini_capabilities("gemini-3-pro"))),
    "ollama": (ollama.encode_request, ModelProfile(INFO, "http://h")),
}
IMAGE = ImageBlock("image/png", "iVBORw0KGgo=")


def user(*blocks: ContentBlock | str) -> Message:
    return Message.user([TextBlock(b) if isinstance(b, str) else b for b in blocks])


def assistant(*blocks: ContentBlock, same_model: bool = True) -> Message:
    return Message.assistant(list(blocks), provider="p", model="m" if same_model else "n", stop_reason="end_turn")


def call_and_result(name: str, content: Any, *, is_error: bool = False) -> list[Message]:
    """Return a tool call and its result."""
    call = ToolUseBlock("c1", name, {})
    return [user("Go"), assistant(call), user(ToolResultBlock("c1", name, content, is_error))]


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


HISTORIES: dict[str, list[Message]] = {
    "nothing": [],
    "nothing said": [user("")],
    "blanks": [user(" \n")],
    "an orphan result": [user(ToolResultBlock("c9", "look", "x"))],
    "an empty answer": [assistant()],
    "only images": [user(IMAGE, IMAGE)],
    "the assistant begins": [assistant(TextBlock("Hi")), user("Yes?")],
    "the assistant ends": [user("Go"), assistant(TextBlock("Hi "))],
    "an empty answer between": [user("a"), assistant(), user("b")],
    "thinking alone": [user("a"), assistant(ThinkingBlock("t", "s")), user("b")],
    "an image made": [user("Draw"), assistant(IMAGE), user("More")],
    "an image made by another": [user("Draw"), assistant(TextBlock("Here."), IMAGE, same_model=False), user("More")],
    "an image without data": [user(ImageBlock("image/png", ""))],
    "one id twice": [
        user("a"),
        assistant(ToolUseBlock("c1", "look", {}), ToolUseBlock("c1", "see", {})),
        user(ToolResultBlock("c1", "look", "x")),
        assistant(ToolUseBlock("c1", "look", {})),
        user(ToolResultBlock("c1", "look", "y")),
    ],
    "names with dots": call_and_result("mcp.server/look up", "x"),
    "names of other letters": call_and_result("gr\u00f6\u00dfe", "x"),
    "no name": call_and_result("", "x"),
    "an endless name": call_and_result("n" * 500, "x"),
    "half characters": [
        user("a\ud800b"),
        assistant(TextBlock("\udfff"), ToolUseBlock("c\ud800", "lo\ud800", {"k\ud800": "\ud801"})),
        user(ToolResultBlock("c\ud800", "lo\ud800", "\ud800")),
    ],
    "a long id": [
        user("a"),
        assistant(ToolUseBlock("c|" + "1" * 500, "look", {})),
        user(ToolResultBlock("c|" + "1" * 500, "look", "x")),
    ],
    "a megabyte": [
        user("a"),
        assistant(ToolUseBlock("c1", "write", {"text": "x" * 1_000_000})),
        user(ToolResultBlock("c1", "write", "y" * 1_000_000)),
    ],
    "arguments that are no JSON": [user("a"), assistant(ToolUseBlock("c1", "look", {}, '{"a": ')), user("b")],
    "arguments that are no numbers": [
        user("a"),
        assistant(ToolUseBlock("c1", "look", {"x": float("nan"), "y": 10**40})),
        user(ToolResultBlock("c1", "look", "x")),
    ],
    "deep arguments": [user("a"), assistant(ToolUseBlock("c1", "look", nested(300))), user("b")],
    "an empty result": call_and_result("look", ""),
    "a blank result": call_and_result("look", " \n"),
    "a result of nothing": call_and_result("look", ()),
    "a result of blanks": call_and_result("look", (TextBlock(" "), TextBlock(""))),
    "an image and blanks": call_and_result("look", (IMAGE, TextBlock(" "))),
    "an error with an image": call_and_result("look", (IMAGE,), is_error=True),
    "the call is last": [user("a"), assistant(ToolUseBlock("c1", "look", {}))],
    "the result is first": [user(ToolResultBlock("c1", "look", "x")), assistant(ToolUseBlock("c1", "look", {}))],
    "only a system message": [Message.system("Be kind.")],
    "a system message in the middle": [user("a"), Message.system("Be kind."), user("b")],
}


def encode_body(wire: str, request: ModelRequest) -> dict[str, Any]:
    encode, profile = WIRES[wire]
    return json.loads(encode(request, profile).decode())


def check_ollama(body: dict[str, Any]) -> None:
    """Check an Ollama body: Ollama has no IDs, so results follow the calls."""
    assert body["messages"]
    for message in body["messages"]:
        assert message["role"] in ("system", "user", "assistant", "tool")
        assert message["content"] or message.get("tool_calls") or message.get("images")
        for call in message.get("tool_calls", ()):
            assert shapes.NAME.match(call["function"]["name"])
            assert isinstance(call["function"]["arguments"], dict)
        assert message["role"] != "tool" or shapes.NAME.match(message["tool_name"])


@pytest.mark.covers("MSG-21", "MOD-07")
@each_row("wire", WIRES)
@each_row("history", HISTORIES)
def test_odd_history_encodes_to_a_valid_request(wire: str, history: str) -> None:
    for system in ("", "Be kind."):
        body = encode_body(wire, ModelRequest(HISTORIES[history], system=system, cache=True))
        if wire == "ollama":
            check_ollama(body)
        else:
            shapes.check_request(wire, body)


@pytest.mark.covers("BYD-09")
@pytest.mark.parametrize("wire", ["chat_completions", "responses", "messages", "ollama"])
def test_generated_image_becomes_a_note_if_unsupported(wire: str) -> None:
    body = encode_body(wire, ModelRequest([user("Draw"), assistant(IMAGE), user("More")]))

    assert "image that was made here" in json.dumps(body)


@pytest.mark.parametrize("wire", WIRES)
def test_blank_result_is_sent_as_no_output(wire: str) -> None:
    assert "(no output)" in json.dumps(encode_body(wire, ModelRequest(call_and_result("look", " \n"))))


@pytest.mark.parametrize("wire", WIRES)
def test_real_tool_schemas_are_sent_as_objects(wire: str, material: Path) -> None:
    tools = list(real_tools(material))
    assert len(tools) > 100
    body = encode_body(wire, ModelRequest([user("Hi")], tools=tools))

    schemas = [schema_of(wire, tool) for tool in tools_of(wire, body)]
    assert len(schemas) == len(tools)
    for schema in schemas:
        assert schema is None or schema["type"] == "object"
        if wire == "messages":  # the host rejects these at the top level of a schema
            assert schema is not None
            assert not schema.keys() & {"oneOf", "anyOf", "allOf"}


@pytest.mark.covers("CAC-10")
@pytest.mark.parametrize("wire", WIRES)
def test_encoding_cache_matches_a_fresh_encoding(wire: str) -> None:
    """A conversation continues, is rewound, is compacted, or is replaced: cached and fresh encodings are equal."""
    encode, profile = WIRES[wire]
    scratch = EncodingCache()
    turns = [message for text in "abcd" for message in (user(text), assistant(TextBlock(text.upper())))]
    histories = [
        turns,
        turns[:3],
        [*turns[:2], user("another")],
        [user("Summary"), *turns[6:]],
        [],
        call_and_result("look", "x"),
    ]
    for history in [*histories, *HISTORIES.values(), turns]:
        cached = encode(ModelRequest(list(history), system="Be kind.", scratch=scratch), profile)

        assert cached == encode(ModelRequest(list(history), system="Be kind."), profile)


def real_tools(material: Path) -> list[ToolDefinition]:
    found: dict[str, ToolDefinition] = {}
    for path in sorted((material / "mcp" / "tools").rglob("*.json")):
        listing = json.loads(path.read_text(encoding="utf-8"))
        for tool in listing.get("tools", ()) if isinstance(listing, dict) else listing:
            name = tool.get("name")
            if isinstance(name, str) and shapes.NAME.match(name):
                found.setdefault(
                    name, ToolDefinition(name, tool.get("description") or "", tool.get("inputSchema") or {})
                )
    return list(found.values())


def tools_of(wire: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    return body["tools"][0]["functionDeclarations"] if wire == "gemini" else body["tools"]


def schema_of(wire: str, tool: dict[str, Any]) -> dict[str, Any] | None:
    if wire == "messages":
        return tool["input_schema"]
    if wire == "gemini":
        return tool.get("parametersJsonSchema", tool.get("parameters"))
    return tool["parameters"] if wire == "responses" else tool["function"]["parameters"]
