"""Any history becomes a valid request, and a cached encoding equals a fresh one."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

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
from mainspring.models.port import EncodingCache, ModelInfo, ModelRequest
from mainspring.models.profile import ChatCapabilities, ModelProfile
from mainspring.models.providers.gemini import gemini_capabilities
from mainspring.models.wire import gemini, ollama, openai_chat

PIXEL = ImageBlock("image/png", "iVBORw0KGgo=")
TOOLS = [ToolDefinition("look", "Looks.", {"type": "object"})]

texts = st.sampled_from(["", " ", "Hi", '"]},{"role": "model","parts":[', "\ud800"])
ids = st.sampled_from(["c1", "c2", "c|3"])
text_blocks = st.builds(TextBlock, texts, st.sampled_from([None, "sig"]))
results = st.builds(
    ToolResultBlock,
    ids,
    st.sampled_from(["", "look"]),
    texts | st.lists(st.builds(TextBlock, texts) | st.just(PIXEL), max_size=2).map(tuple),
    st.booleans(),
)
calls = st.builds(
    ToolUseBlock, ids, st.just("look"), st.sampled_from([{}, {"at": "x"}]), st.sampled_from([None, '{"at": '])
)
assistant_blocks = st.lists(
    text_blocks
    | calls
    | st.builds(ThinkingBlock, texts, st.sampled_from([None, "s", "content", "{}"]))
    | st.builds(RedactedThinkingBlock, st.sampled_from(["x", '{"data": "y"}']))
    | st.just(PIXEL),
    max_size=3,
)
histories = st.lists(
    st.builds(lambda blocks: Message.user(blocks), st.lists(text_blocks | results | st.just(PIXEL), max_size=3))
    | st.builds(Message.system, texts)
    | st.builds(
        lambda blocks, is_same_model, reason: Message.assistant(
            blocks, provider="p", model="m" if is_same_model else "n", stop_reason=reason
        ),
        assistant_blocks,
        st.booleans(),
        st.sampled_from(["end_turn", "aborted"]),
    ),
    max_size=8,
)

INFO = ModelInfo("m", "p")
WIRES: dict[str, tuple[Callable[[ModelRequest, ModelProfile], bytes], ModelProfile, str]] = {
    "chat": (openai_chat.encode_request, ModelProfile(INFO, "http://h"), "messages"),
    "marked": (
        openai_chat.encode_request,
        ModelProfile(INFO, "http://h", ChatCapabilities(cache_breakpoints=True)),
        "messages",
    ),
    "ollama": (ollama.encode_request, ModelProfile(INFO, "http://h"), "messages"),
    "gemini": (
        gemini.encode_request,
        ModelProfile(INFO, "http://h", gemini=gemini_capabilities("gemini-3-pro")),
        "contents",
    ),
}


@pytest.mark.covers("MSG-21", "CAC-10")
@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=60)
@given(history=histories, system=st.sampled_from(["", "Be kind."]))
def test_any_history_is_a_valid_request_with_and_without_cache(wire: str, history: list[Message], system: str) -> None:
    encode, profile, field = WIRES[wire]
    scratch = EncodingCache()
    for end in range(len(history) + 1):
        part = history[:end]
        cached = encode(ModelRequest(part, system=system, tools=TOOLS, scratch=scratch), profile)
        fresh = encode(ModelRequest(part, system=system, tools=TOOLS), profile)

        assert cached == fresh
        sent: Any = json.loads(cached)
        assert all(item["role"] in ("system", "user", "assistant", "model", "tool") for item in sent[field])
        request = [c["functionCall"]["id"] for m in sent[field] for c in m.get("parts", []) if "functionCall" in c]
        request += [c["id"] for m in sent[field] for c in m.get("tool_calls", [])]
        answered = [
            r["functionResponse"]["id"] for m in sent[field] for r in m.get("parts", []) if "functionResponse" in r
        ]
        answered += [m["tool_call_id"] for m in sent[field] if m["role"] == "tool"]
        assert request == answered
        assert len(set(request)) == len(request)


@pytest.mark.parametrize("name", ["chat", "gemini"])
def test_call_ids_of_a_request_are_unique(name: str) -> None:
    encode, profile, field = WIRES[name]
    turn = [
        Message.assistant([ToolUseBlock("look_0", "look", {})], provider="p", model="m"),
        Message.user([ToolResultBlock("look_0", "look", "seen")]),
    ]
    scratch = EncodingCache()
    history = [Message.user("go")]
    cached: list[Any] = []
    for _ in range(3):
        history += turn
        cached = json.loads(encode(ModelRequest(history, scratch=scratch), profile))[field]
        assert cached == json.loads(encode(ModelRequest(history), profile))[field]
    if name == "chat":
        sent = [c["id"] for m in cached for c in m.get("tool_calls", ())]
        assert sent == [m["tool_call_id"] for m in cached if m["role"] == "tool"] == ["look_0", "look_0_2", "look_0_3"]
