"""The embedded model as a provider: the output of small models becomes the usual events."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from mainspring.errors import InvalidResponseError, ModelNotFoundError, NetworkError, ProviderConfigError
from mainspring.events import (
    Done,
    StreamEvent,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from mainspring.messages import Cost, Message, ToolDefinition, ToolResultBlock, ToolUseBlock
from mainspring.models import ModelProvider, ModelRequest, create_model
from mainspring.models.embedded import EmbeddedModel, create_embedded_model
from mainspring.models.embedded.grammar import encode_answer, encode_call
from tests.helpers.processes import ended
from tests.unit.models.embedded.conftest import SetEngineOutput

pytestmark = pytest.mark.covers("PRV-38")

GREP = ToolDefinition(
    "grep",
    "Search.",
    {
        "type": "object",
        "properties": {"pattern": {"type": "string"}, "ignore_case": {"type": "boolean"}},
        "required": ["pattern"],
    },
)
LIST = ToolDefinition("list_files", "List.", {"type": "object", "properties": {"path": {"type": "string"}}})
TOOLS = (LIST, GREP)


@pytest.fixture
async def model(set_engine_output: SetEngineOutput, model_file: Path) -> AsyncGenerator[EmbeddedModel]:
    embedded = EmbeddedModel(model_file)
    yield embedded
    await embedded.aclose()


def make_request(*messages: Message | str, **fields: Any) -> ModelRequest:
    return ModelRequest([Message.user(m) if isinstance(m, str) else m for m in messages], **{"tools": TOOLS, **fields})


async def collect_events(model: EmbeddedModel, request: ModelRequest) -> list[StreamEvent]:
    return [event async for event in model.stream(request)]


def read_requests(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def make_grep_turn(pattern: str = "x") -> tuple[Message, Message]:
    given = {"pattern": pattern, "ignore_case": True}
    return Message.assistant([ToolUseBlock("c1", "grep", given)]), Message.user([ToolResultBlock("c1", "grep", "hit")])


async def test_answer_is_streamed_as_text(model: EmbeddedModel, set_engine_output: SetEngineOutput) -> None:
    set_engine_output(encode_answer('He said "hi"\nand left'))
    events = await collect_events(model, make_request("What did he say?"))
    assert [type(e) for e in events[:3]] == [StreamStart, TextStart, TextDelta]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == 'He said "hi"\nand left'
    assert sum(isinstance(e, TextDelta) for e in events) > 10
    assert isinstance(events[-2], TextEnd)
    done = events[-1]
    assert isinstance(done, Done)
    assert (done.reason, done.message.text) == ("end_turn", 'He said "hi"\nand left')
    assert (done.message.provider, done.message.model) == ("embedded", model.model)


async def test_call_is_streamed_as_a_tool_call(model: EmbeddedModel, set_engine_output: SetEngineOutput) -> None:
    set_engine_output(encode_call("grep", {"pattern": "tulips"}))
    events = await collect_events(model, make_request("Where are the tulips?"))
    start = events[1]
    assert isinstance(start, ToolCallStart)
    assert (start.name, start.id.startswith("call_")) == ("grep", True)
    assert json.loads("".join(e.text for e in events if isinstance(e, ToolCallDelta))) == {"pattern": "tulips"}
    end, done = events[-2:]
    assert isinstance(end, ToolCallEnd)
    assert end.call.input == {"pattern": "tulips", "ignore_case": True}
    assert isinstance(done, Done)
    assert done.reason == "tool_use"
    assert done.message.tool_uses == (end.call,)


async def test_usage_is_counted_and_free(model: EmbeddedModel, set_engine_output: SetEngineOutput) -> None:
    set_engine_output(encode_answer("x"))
    usage = (await model.complete(make_request("Hi"))).usage
    assert (usage.input_tokens, usage.cache_read, usage.output_tokens) == (10, 40, 7)
    assert usage.cost == Cost()
    assert (await model.complete(make_request("Hi", tools=()))).usage.cost == Cost()


async def test_request_to_the_engine(model: EmbeddedModel, set_engine_output: SetEngineOutput) -> None:
    log = set_engine_output(encode_answer("x"))
    await model.complete(make_request("Hi", system="Be kind.", session_id="s", thinking="high"))
    body = read_requests(log)[0]
    assert body["temperature"] == 0
    assert body["max_tokens"] == model.info.max_output_tokens
    assert "tools" not in body
    system, user = body["messages"]
    assert "grep(pattern)" in system["content"]
    assert system["content"].endswith("Be kind.")
    assert user == {"role": "user", "content": "Hi"}
    assert body["response_format"]["json_schema"]["schema"]["anyOf"][-1]["required"] == ["answer"]


async def test_request_without_tools_has_no_grammar(model: EmbeddedModel, set_engine_output: SetEngineOutput) -> None:
    log = set_engine_output("Bonjour")
    events = await collect_events(model, make_request("Hi", tools=(), system="In French."))
    assert isinstance(events[-1], Done)
    assert events[-1].message.text == "Bonjour"
    body = read_requests(log)[0]
    assert body["messages"][0] == {"role": "system", "content": "In French."}
    assert "response_format" not in body


async def test_repeated_call_is_replaced_by_an_answer(model: EmbeddedModel, set_engine_output: SetEngineOutput) -> None:
    log = set_engine_output(encode_call("grep", {"pattern": "x"}), encode_answer("Found it."))
    events = await collect_events(model, make_request("Find x", *make_grep_turn()))
    assert not any(isinstance(e, ToolCallStart) for e in events)
    assert isinstance(events[-1], Done)
    assert events[-1].message.text == "Found it."
    assert events[-1].message.usage is not None
    assert events[-1].message.usage.output_tokens == 14
    assert read_requests(log)[1]["response_format"]["json_schema"]["schema"]["required"] == ["answer"]
    assert read_requests(log)[1]["messages"] == read_requests(log)[0]["messages"]


async def test_different_call_of_the_same_tool_is_made(
    model: EmbeddedModel, set_engine_output: SetEngineOutput
) -> None:
    set_engine_output(encode_call("grep", {"pattern": "y"}))
    message = (await model.complete(make_request("Find x", *make_grep_turn()))).message
    assert message.tool_uses[0].input == {"pattern": "y", "ignore_case": True}


async def test_truncated_call_keeps_its_text(model: EmbeddedModel, set_engine_output: SetEngineOutput) -> None:
    set_engine_output('{"tool": "grep", "args": {"pattern": "tul')
    message = (await model.complete(make_request("Where?"))).message
    assert message.tool_uses[0].raw_input == '{"pattern": "tul'


async def test_repetitive_output_is_stopped(model: EmbeddedModel, set_engine_output: SetEngineOutput) -> None:
    set_engine_output('{"answer": "' + "I am a user. " * 400 + '"}')
    done = (await collect_events(model, make_request("Who are you?")))[-1]
    assert isinstance(done, Done)
    assert done.reason == "max_tokens"
    assert len(done.message.text) < 1000
    assert done.message.usage is not None
    assert done.message.usage.output_tokens > 100


async def test_repetition_is_penalized_unless_the_request_decides(
    model: EmbeddedModel, set_engine_output: SetEngineOutput
) -> None:
    log = set_engine_output(encode_answer("a.txt, b.txt"), encode_answer("a.txt, b.txt"))
    request = make_request("Which files are here?")
    await model.complete(request)
    request.extra = {"repeat_penalty": 1.0}
    await model.complete(request)
    assert [sent["repeat_penalty"] for sent in read_requests(log)] == [1.1, 1.0]


async def test_empty_response_is_an_error(model: EmbeddedModel, set_engine_output: SetEngineOutput) -> None:
    set_engine_output("   ")
    with pytest.raises(InvalidResponseError, match="empty response"):
        await model.complete(make_request("Hi"))


async def test_structured_answer_follows_its_schema(model: EmbeddedModel, set_engine_output: SetEngineOutput) -> None:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    log = set_engine_output('{"answer": {"n": 3}}')
    assert json.loads((await model.complete(make_request("Count", schema=form))).text) == {"n": 3}
    assert (
        read_requests(log)[0]["response_format"]["json_schema"]["schema"]["anyOf"][-1]["properties"]["answer"] == form
    )
    log = set_engine_output('{"n": 4}')
    await model.aclose()
    assert json.loads((await model.complete(make_request("Count", schema=form, tools=()))).text) == {"n": 4}
    assert read_requests(log)[-1]["response_format"]["json_schema"]["schema"] == form


async def test_engine_crash_is_retryable_and_the_next_request_works(
    model: EmbeddedModel, set_engine_output: SetEngineOutput
) -> None:
    set_engine_output('{"answer": "Half an ans!die')
    with pytest.raises(NetworkError, match=r"exit code 3.*the floor gave way.*starts it again") as caught:
        await collect_events(model, make_request("Hi"))
    assert caught.value.retryable
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Half an ans"
    set_engine_output(encode_answer("Back"))
    assert (await model.complete(make_request("Hi"))).text == "Back"


async def test_engine_killed_between_requests_is_restarted(
    model: EmbeddedModel, set_engine_output: SetEngineOutput
) -> None:
    set_engine_output(encode_answer("one"))
    await model.complete(make_request("Hi"))
    first = model.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert await asyncio.to_thread(ended, first)
    assert (await model.complete(make_request("Hi"))).text == "one"
    assert model.pid != first


async def test_stream_can_be_closed_early(model: EmbeddedModel, set_engine_output: SetEngineOutput) -> None:
    set_engine_output(encode_answer("a long story " * 50))
    stream = model.stream(make_request("Hi"))
    async for event in stream:
        if isinstance(event, TextDelta):
            break
    await stream.aclose()
    set_engine_output(encode_answer("x"))
    assert (await model.complete(make_request("Hi"))).text


async def test_closed_model_ends_its_process_and_can_be_used_again(
    model: EmbeddedModel, set_engine_output: SetEngineOutput
) -> None:
    set_engine_output(encode_answer("x"))
    await model.complete(make_request("Hi"))
    assert model.pid
    await model.aclose()
    assert model.pid is None
    assert (await model.complete(make_request("Hi"))).text == "x"


def test_model_works_in_several_event_loops(set_engine_output: SetEngineOutput, model_file: Path) -> None:
    set_engine_output(encode_answer("x"))
    embedded = EmbeddedModel(model_file)
    first = asyncio.run(embedded.complete(make_request("Hi")))
    pid = embedded.pid
    assert asyncio.run(embedded.complete(make_request("Hi"))).text == first.text
    assert embedded.pid == pid
    asyncio.run(embedded.aclose())


async def test_missing_weights_error_names_the_download_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSPRING_MODELS_DIR", str(tmp_path))
    embedded = create_embedded_model({"model": "smollm2-135m"})
    assert not await embedded.is_ready()
    with pytest.raises(ProviderConfigError, match="mainspring models get smollm2-135m"):
        await embedded.complete(make_request("Hi"))
    with pytest.raises(ProviderConfigError, match="File not found"):
        await create_embedded_model({"model": str(tmp_path / "none.gguf")}).complete(make_request("Hi"))
    with pytest.raises(ProviderConfigError, match="turned off"):
        await embedded.download(offline=True)


def test_model_info_of_an_embedded_model() -> None:
    embedded = create_model("embedded:")
    assert isinstance(embedded, ModelProvider)
    info = embedded.info
    assert (embedded.provider, embedded.model) == ("embedded", "qwen-coder-0.5b")
    assert info.label == "Qwen2.5-Coder-0.5B-Instruct (embedded, no key)"
    assert (info.tools, info.max_tools, info.vision) == ("union", 5, False)
    assert "Expect mistakes" in info.notice
    assert info.prices == (0.0, 0.0, 0.0, 0.0)


def test_models_are_found_by_name_and_path(tmp_path: Path) -> None:
    assert create_model("embedded:qwen-coder-1.5b").info.label.startswith("Qwen2.5-Coder-1.5B")
    local_model = create_embedded_model(
        {"model": str(tmp_path / "own.gguf"), "contextWindow": 2048, "maxOutputTokens": 99}
    )
    assert (local_model.file, local_model.weights) == (tmp_path / "own.gguf", None)
    assert (local_model.info.context_window, local_model.info.max_output_tokens) == (2048, 99)
    assert local_model.info.label == "own.gguf (embedded, no key)"
    with pytest.raises(ModelNotFoundError, match="Available: qwen-coder"):
        create_embedded_model({"model": "gpt-9"})
