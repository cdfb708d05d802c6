"""LangChain chat models as models of Mainspring, with the real LangChain classes."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from mainspring.env import MemoryEnv
from mainspring.errors import ErrorCode, ModelError, ModelTimeoutError, ProviderConfigError, RateLimitedError
from mainspring.events import Done, StreamEvent
from mainspring.loop import CoreAgent
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
from mainspring.models import LLMClient, ModelProvider, ProviderRegistry, create_model, create_model_provider
from mainspring.models.langchain import LangChainModel, from_langchain
from mainspring.models.langchain.detect import adapt_model, adapt_prompt, is_langchain_chat_model
from mainspring.models.port import ModelRequest, Sampling
from mainspring.tools import tool

PIXEL = ImageBlock("image/png", "iVBORw0KGgo=")
LOOK = ToolDefinition("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})


class StreamingChatModel(BaseChatModel):
    """A chat model that streams scripted chunks and records its requests."""

    model: str = "stand-in-1"
    temperature: float | None = None
    chunks: list[Any] = Field(default_factory=list[Any])
    turns: list[list[Any]] = Field(default_factory=list[list[Any]])
    received: list[Any] = Field(default_factory=list[Any])
    options: list[Any] = Field(default_factory=list[Any])

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def _next(self) -> list[Any]:
        return self.turns.pop(0) if self.turns else self.chunks

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise AssertionError("it streams")

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.received.append(messages)
        self.options.append({"stop": stop, **kwargs})
        for chunk in self._next():
            if isinstance(chunk, Exception):
                raise chunk
            if isinstance(chunk, float):
                await asyncio.sleep(chunk)
            else:
                yield ChatGenerationChunk(message=chunk)

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Any:
        return self.bind(tools=list(tools), **({"tool_choice": tool_choice} if tool_choice else {}))


class Whole(BaseChatModel):
    """A chat model that does not stream."""

    answer: Any = None

    @property
    def _llm_type(self) -> str:
        return "whole"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.answer)])


def usage(input: int, output: int, **details: Any) -> Any:
    return {"input_tokens": input, "output_tokens": output, "total_tokens": input + output, **details}


async def collect_events(model: ModelProvider, *messages: Message, **fields: Any) -> list[StreamEvent]:
    return [e async for e in model.stream(ModelRequest(messages or (Message.user("Hi"),), **fields))]


async def get_response(*chunks: Any, **fields: Any) -> Message:
    last = (await collect_events(LangChainModel(StreamingChatModel(chunks=list(chunks))), **fields))[-1]
    assert isinstance(last, Done)
    return last.message


# --- responses ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("PRV-37", "STR-12", "MOD-39")
async def test_streamed_chunks_become_the_usual_events() -> None:
    model = LangChainModel(
        StreamingChatModel(
            chunks=[
                AIMessageChunk(
                    content="Look", id="run-1", usage_metadata=usage(10, 0, input_token_details={"cache_read": 4})
                ),
                AIMessageChunk(content="ing."),
                AIMessageChunk(
                    content="", tool_call_chunks=[tool_call_chunk(name="look", args='{"at"', id="c1", index=0)]
                ),
                AIMessageChunk(
                    content="", tool_call_chunks=[tool_call_chunk(name=None, args=': "x"}', id=None, index=0)]
                ),
                AIMessageChunk(
                    content="",
                    tool_call_chunks=[tool_call_chunk(name="look", args="{}", id="c2", index=1)],
                ),
                AIMessageChunk(
                    content="",
                    response_metadata={"finish_reason": "tool_calls"},
                    usage_metadata=usage(0, 8, output_token_details={"reasoning": 3}),
                ),
            ]
        )
    )
    found = await collect_events(model)
    last = found[-1]
    assert isinstance(last, Done)

    assert [e.type for e in found] == (
        "start text_start text_delta text_delta text_end toolcall_start toolcall_delta toolcall_delta toolcall_start "
        "toolcall_delta toolcall_end toolcall_end done"
    ).split()
    assert last.message.content == (
        TextBlock("Looking."),
        ToolUseBlock("c1", "look", {"at": "x"}),
        ToolUseBlock("c2", "look", {}),
    )
    assert (last.reason, last.message.provider, last.message.model) == ("tool_use", "langchain", "stand-in-1")
    counts = last.message.usage
    assert counts is not None
    assert (counts.input_tokens, counts.cache_read, counts.output_tokens, counts.reasoning_tokens) == (6, 4, 8, 3)


@pytest.mark.covers("PRV-37")
async def test_model_without_streaming_is_supported() -> None:
    decoded = AIMessage(
        content="Looking.",
        tool_calls=[{"id": "c1", "name": "look", "args": {"at": "x"}, "type": "tool_call"}],
        invalid_tool_calls=[
            {"id": "c2", "name": "look", "args": '{"at": ', "error": "not valid JSON", "type": "invalid_tool_call"}
        ],
        response_metadata={"stop_reason": "max_tokens"},
        usage_metadata=usage(3, 2),
    )
    response = await LangChainModel(Whole(answer=decoded)).complete(ModelRequest([Message.user("Hi")]))

    assert [(c.id, c.input, c.raw_input) for c in response.message.tool_uses] == [
        ("c1", {"at": "x"}, None),
        ("c2", {}, '{"at": '),
    ]
    assert (response.text, response.stop_reason, response.usage.total_tokens) == ("Looking.", "max_tokens", 5)


@pytest.mark.covers("MOD-40", "PRV-37")
async def test_content_can_be_text_or_a_list_of_blocks() -> None:
    decoded = await get_response(
        AIMessageChunk(content=[{"type": "thinking", "thinking": "Hm", "index": 0}]),
        AIMessageChunk(content=[{"type": "thinking", "thinking": "m.", "index": 0}]),
        AIMessageChunk(content=[{"type": "thinking", "signature": "sig", "index": 0}]),
        AIMessageChunk(content=[{"type": "redacted_thinking", "data": "secret", "index": 1}]),
        AIMessageChunk(content=[{"type": "text", "text": "Hel", "index": 2}, "l"]),
        AIMessageChunk(
            content=[
                {"type": "text", "text": "o.", "index": 2},
                {"type": "tool_use", "id": "x", "name": "look", "input": {}},
            ]
        ),
        AIMessageChunk(content=[{"type": "image", "base64": PIXEL.data, "mime_type": "image/png"}]),
    )

    assert (decoded.text, decoded.thinking) == ("Hello.", "Hmm.")
    thinking, redacted, text, image = decoded.content
    assert isinstance(thinking, ThinkingBlock)
    assert isinstance(redacted, RedactedThinkingBlock)
    assert (type(text), image) == (TextBlock, PIXEL)
    model = LangChainModel(stand := StreamingChatModel(chunks=[AIMessageChunk(content="Done")]))
    await collect_events(model, Message.user("Hi"), decoded, Message.user("Go on"))
    assert stand.received[0][1].content == [
        {"type": "thinking", "thinking": "Hmm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "secret"},
        {"type": "text", "text": "Hello.\n[image/png image that was made here]"},
    ]


@pytest.mark.covers("MOD-40")
@pytest.mark.parametrize(
    "chunk",
    [
        AIMessageChunk(content="", additional_kwargs={"reasoning_content": "Hm"}),
        AIMessageChunk(content=[{"type": "reasoning", "reasoning": "Hm"}]),
        AIMessageChunk(content=[{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}]),
        AIMessageChunk(content=[{"type": "reasoning_content", "reasoning_content": {"text": "Hm", "signature": "s"}}]),
    ],
)
async def test_reasoning_is_read_from_every_format(chunk: AIMessageChunk) -> None:
    decoded = await get_response(chunk, AIMessageChunk(content="Hi"))

    assert (decoded.thinking, decoded.text) == ("Hm", "Hi")


@pytest.mark.covers("MOD-04", "PRV-37")
async def test_empty_response_becomes_empty_text_and_a_filtered_one_raises() -> None:
    assert (await get_response(AIMessageChunk(content=""))).content == (TextBlock(""),)
    for reason in ("content_filter", "SAFETY", "refusal"):
        with pytest.raises(ModelError, match="content filter") as caught:
            await get_response(AIMessageChunk(content="So", response_metadata={"finish_reason": reason}))
        assert caught.value.reason == "content_filter"
        assert caught.value.partial is not None
        assert caught.value.partial.text == "So"


class Limited(Exception):
    status_code = 429


@pytest.mark.covers("PRV-37", "MOD-38", "RET-16")
async def test_errors_are_classified_and_keep_the_partial_message() -> None:
    with pytest.raises(RateLimitedError) as caught:
        await get_response(AIMessageChunk(content="So"), Limited("Slow down"))
    error = caught.value
    assert (error.code, error.provider, error.model) == (ErrorCode.RATE_LIMITED, "langchain", "stand-in-1")
    assert error.partial is not None
    assert error.partial.text == "So"
    with pytest.raises(ModelError, match="Invalid api key") as rejected:
        await get_response(ValueError("Invalid api key"))
    assert rejected.value.code is ErrorCode.AUTHENTICATION_ERROR
    with pytest.raises(ModelError, match="does not support tool calls"):
        await collect_events(LangChainModel(Whole(answer=AIMessage(content="Hi"))), tools=[LOOK])


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (
            401,
            "Wrong key",
            "For the model stand-in-1 of langchain, set STAND_IN_KEY or the setting providers.langchain.apiKey",
        ),
        (
            403,
            "No access",
            "may lack access to the model stand-in-1. Choose one of `mainspring models`, or set STAND_IN_KEY or",
        ),
        (404, "The model does not exist", "does not offer the model stand-in-1 to you. `mainspring models` lists"),
        (404, "Not Found", "Not Found (HTTP 404, langchain)"),
    ],
)
async def test_rejections_name_what_to_set_and_to_run(
    status: int, text: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamingChatModel, "lc_secrets", {"key": "STAND_IN_KEY"})
    error = type("Rejected", (Exception,), {"status_code": status})(text)

    with pytest.raises(ModelError) as caught:
        await get_response(error)

    assert expected in caught.value.message
    assert "://" not in caught.value.message


@pytest.mark.covers("OPT-11", "PRV-37")
async def test_timeout_applies() -> None:
    with pytest.raises(ModelTimeoutError, match=r"within 1s") as caught:
        await get_response(AIMessageChunk(content="So"), 600.0, timeout=1)

    assert caught.value.partial is not None


# --- requests ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("PRV-37", "PRV-28")
async def test_conversation_is_converted_to_langchain_messages() -> None:
    stand = StreamingChatModel(chunks=[AIMessageChunk(content="Hi")])
    request = Message.assistant(
        [
            ThinkingBlock("Hm", "x"),
            TextBlock("Looking."),
            ToolUseBlock("c|1", "look", {"at": "x"}),
            ToolUseBlock("c2", "look"),
        ],
        provider="other",
        model="m",
    )
    seen = Message.user(
        [ToolResultBlock("c|1", "look", (TextBlock("Here"), PIXEL)), ToolResultBlock("c2", "look", "No", is_error=True)]
    )
    user = Message.user([TextBlock("Hi"), PIXEL])
    await collect_events(
        LangChainModel(stand), user, request, seen, Message.system("Be kind."), Message.user("And?"), system="Be brief."
    )
    system, first, assistant, one, two, images, kind, last = stand.received[0]

    assert [m.type for m in stand.received[0]] == "system human ai tool tool human system human".split()
    assert (system.content, kind.content, last.content) == ("Be brief.", "Be kind.", "And?")
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL.data}"}}
    assert first.content == [{"type": "text", "text": "Hi"}, image]
    assert assistant.content == "Looking."
    assert [c["args"] for c in assistant.tool_calls] == [{"at": "x"}, {}]
    assert [one.tool_call_id, two.tool_call_id] == [c["id"] for c in assistant.tool_calls]
    assert (one.content, one.status) == ("Here\n[the image follows in the next user message]", "success")
    assert (two.content, two.status, two.name) == ("No", "error", "look")
    assert images.content == [{"type": "text", "text": "Image from the result of look:"}, image]


@pytest.mark.covers("PRV-37")
async def test_common_options_are_passed() -> None:
    stand = StreamingChatModel(chunks=[AIMessageChunk(content="Hi")])
    model = LangChainModel(stand)
    await collect_events(model, tools=[LOOK], tool_choice="required", stop=["x"], temperature=0.5, extra={"seed": 1})
    await collect_events(model, tools=[LOOK], tool_choice="look")
    await collect_events(model, tools=[LOOK], tool_choice="none", max_output_tokens=5)

    first, second, third = stand.options
    assert first["stop"] == ["x"]
    assert (first["temperature"], first["seed"], first["tool_choice"]) == (0.5, 1, "any")
    assert first["tools"][0]["function"] == {"name": "look", "description": "Looks.", "parameters": LOOK.input_schema}
    assert second["tool_choice"] == "look"
    assert third == {"stop": None}


async def test_sampling_options_are_passed_if_the_chat_model_has_them() -> None:
    class Sampled(StreamingChatModel):
        top_p: float | None = None

        def bind_tools(self, tools: Any, *, parallel_tool_calls: bool | None = None, **kwargs: Any) -> Any:
            return self.bind(tools=list(tools), parallel_tool_calls=parallel_tool_calls)

    given: Any = {"tools": [LOOK], "sampling": Sampling(top_p=0.5, seed=1, parallel_tool_calls=False)}
    notes: list[str] = []
    sampled, plain = (kind(chunks=[AIMessageChunk(content="Hi")]) for kind in (Sampled, StreamingChatModel))
    for stand in (sampled, plain):
        await collect_events(LangChainModel(stand), **given, notify=notes.append)

    assert (sampled.options[0]["top_p"], sampled.options[0]["parallel_tool_calls"]) == (0.5, False)
    assert not {"seed", "top_p", "parallel_tool_calls"} & plain.options[0].keys()
    assert [note.partition(":")[0] for note in notes] == ["seed", "top_p, seed, parallel_tool_calls"]


def test_model_facts_come_from_langchain_and_the_catalog() -> None:
    described = StreamingChatModel(profile={"max_input_tokens": 1000, "image_inputs": False, "reasoning_output": True})
    info = LangChainModel(described).info
    assert (info.provider, info.id) == ("langchain", "stand-in-1")
    assert (info.context_window, info.vision, info.reasoning) == (1000, False, True)
    assert LangChainModel(Whole()).model == "Whole"
    bound = StreamingChatModel().bind(seed=1)
    assert (
        is_langchain_chat_model(bound),
        is_langchain_chat_model("x"),
        is_langchain_chat_model(adapt_model(bound)),
    ) == (True, False, False)
    assert LangChainModel(bound).model == "stand-in-1"
    assert isinstance(LangChainModel(StreamingChatModel()), ModelProvider)


# --- the loop, the client, factories -----------------------------------------------------------------------------------


@tool
async def look(at: str) -> str:
    """Looks.

    Args:
        at: Where.
    """
    return f"A {at}."


@pytest.mark.covers("PRV-37", "PRV-16")
async def test_agent_runs_with_a_langchain_model() -> None:
    stand = StreamingChatModel(
        turns=[
            [
                AIMessageChunk(
                    content="", tool_call_chunks=[tool_call_chunk(name="look", args='{"at": "cat"}', id="c1", index=0)]
                )
            ],
            [AIMessageChunk(content="I saw a cat.")],
        ]
    )
    agent = CoreAgent(LangChainModel(stand), env=MemoryEnv({}), tools=[look])
    result = await agent.run("What is there?")

    assert result.text == "I saw a cat."
    assert stand.received[1][-1].content == "A cat."


@pytest.mark.covers("MOD-41")
async def test_client_accepts_langchain_messages() -> None:
    stand = StreamingChatModel(chunks=[AIMessageChunk(content="Hi there")])
    client = LLMClient(cast("Any", stand))
    prompt: Any = [
        SystemMessage(content="Be brief."),
        HumanMessage(
            content=[
                {"type": "text", "text": "Hi"},
                {"type": "image_url", "image_url": f"data:image/png;base64,{PIXEL.data}"},
            ]
        ),
        AIMessage(
            content="Looking.", tool_calls=[{"id": "c1", "name": "look", "args": {"at": "x"}, "type": "tool_call"}]
        ),
        ToolMessage(content="Here", tool_call_id="c1", name="look"),
    ]
    result: Any = await client.invoke(prompt)

    assert result.success, result
    assert result.result.text == "Hi there"
    assert [m.type for m in stand.received[0]] == ["system", "human", "ai", "tool"]
    stream: Any = await client.stream(cast("Any", HumanMessage(content="Hi")))
    assert [e.type async for e in stream.result][-1] == "done"
    assert client.get_provider_name() == "langchain"


@pytest.mark.covers("MOD-41")
def test_langchain_messages_are_converted() -> None:
    converted = from_langchain(
        [
            SystemMessage(content=[{"type": "text", "text": "Be brief."}]),
            HumanMessage(content="Hi"),
            AIMessage(
                content=[{"type": "text", "text": "Looking."}],
                tool_calls=[{"id": None, "name": "look", "args": {}, "type": "tool_call"}],
            ),
            ToolMessage(content="A", tool_call_id="c1", status="error"),
            ToolMessage(
                content=[{"type": "image", "source_type": "base64", "data": PIXEL.data, "mime_type": "image/png"}],
                tool_call_id="c2",
            ),
        ]
    )

    assert [m.role for m in converted] == ["system", "user", "assistant", "user"]
    assert converted[2].text == "Looking."
    assert converted[2].tool_uses[0].id
    assert converted[3].content == (ToolResultBlock("c1", "", "A", is_error=True), ToolResultBlock("c2", "", (PIXEL,)))
    with pytest.raises(TypeError, match="Unsupported LangChain message type: 'chat'"):
        from_langchain([ChatMessage(content="Hi", role="critic")])
    with pytest.raises(TypeError, match="cannot mix"):
        adapt_prompt([HumanMessage(content="Hi"), Message.user("Hi")])
    assert adapt_prompt("Hi") == "Hi"


@pytest.mark.covers("MOD-41", "MOD-02")
async def test_factory_can_return_a_chat_model() -> None:
    registry = ProviderRegistry("mine")

    async def factory(_: Any) -> Any:
        return StreamingChatModel(chunks=[AIMessageChunk(content="Hi")])

    registry.register("mine", factory)
    registry.register("also", build=lambda config: cast("Any", StreamingChatModel(model=config.model or "?")))
    created = await create_model_provider({"provider": "mine"}, registry=registry)
    built = create_model("also:m2", registry=registry)

    assert isinstance(created, LangChainModel)
    assert (await created.complete(ModelRequest([Message.user("Hi")]))).text == "Hi"
    assert (built.provider, built.model) == ("langchain", "m2")
    result: Any = await LLMClient({"provider": "mine"}, registry=registry).invoke("Hi")
    assert result.result.text == "Hi"


@pytest.fixture
def vertex(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a fake integration package."""
    module = type(sys)("langchain_google_vertexai")
    module.ChatVertexAI = StreamingChatModel
    module.NotOne = dict
    monkeypatch.setitem(sys.modules, "langchain_google_vertexai", module)


@pytest.mark.covers("PRV-16", "PRV-37", "PRV-32")
@pytest.mark.usefixtures("vertex")
async def test_langchain_provider_works_as_the_error_hint_suggests() -> None:
    class_path = "langchain_google_vertexai:ChatVertexAI"
    with pytest.raises(ProviderConfigError, match=class_path):
        create_model("gemini", api_key="k", useVertexai=True)
    options = {"chunks": [AIMessageChunk(content="From Vertex")]}
    model = await create_model_provider(
        {"provider": "langchain", "class": class_path, "model": "gemini-2.5-pro", "options": options}
    )

    assert (model.provider, model.model) == ("langchain", "gemini-2.5-pro")
    assert (await model.complete(ModelRequest([Message.user("Hi")]))).text == "From Vertex"


@pytest.mark.covers("PRV-32", "PRV-04")
@pytest.mark.usefixtures("vertex")
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, r"Missing class.*langchain_google_vertexai:ChatVertexAI"),
        ({"class": ""}, "Missing class"),
        ({"class": "ChatVertexAI"}, "Missing class"),
        ({"class": "langchain_nowhere:Chat"}, "cannot import langchain_nowhere:Chat.*Install"),
        ({"class": "langchain_google_vertexai:Other"}, "cannot import"),
        ({"class": "langchain_google_vertexai:ChatVertexAI", "options": {"turns": 5}}, "Cannot create"),
        ({"class": "langchain_google_vertexai:NotOne"}, "is not a LangChain chat model"),
    ],
)
def test_missing_or_invalid_class_is_reported(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ProviderConfigError, match=text) as caught:
        create_model("langchain", **settings)
    assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED


def test_langchain_is_not_imported_for_other_models() -> None:
    script = (
        "import sys\nfrom mainspring.models import LLMClient, create_model\n"
        "LLMClient(create_model('local'))\nimport mainspring.models.langchain, mainspring.models.providers.langchain\n"
        "import json; print(json.dumps([m for m in sys.modules if m.startswith(('langchain', 'pydantic'))]))"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert json.loads(process.stdout) == []
