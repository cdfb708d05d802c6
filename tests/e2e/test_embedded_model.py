"""The embedded model with the real engine and the smallest real weights. Tests check the structure, not the text."""

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mainspring import Agent
from mainspring.errors import ContextExceededError
from mainspring.events import Done, TextDelta, ToolCallDelta
from mainspring.messages import Cost, Message, ToolUseBlock
from mainspring.models import ModelRequest
from mainspring.models.embedded import EmbeddedModel, create_embedded_model
from mainspring.models.embedded.server import LlamaServer
from mainspring.tools.builtin import builtin_tools, grep, list_files, read_file
from tests.helpers.processes import alive, ended
from tests.requires import require_module

pytestmark = pytest.mark.slow

SMALLEST = "smollm2-135m"
TOOLS = tuple(tool.spec for tool in builtin_tools())


@pytest.fixture(scope="module")
async def model() -> AsyncGenerator[EmbeddedModel]:
    """Yield the model, loaded once; download its weights if needed."""
    require_module("xllamacpp", "the extra `local`")
    embedded = create_embedded_model({"model": SMALLEST, "maxOutputTokens": 48})
    await embedded.download()
    yield embedded
    await embedded.aclose()


def make_request(text: str, **fields: object) -> ModelRequest:
    return ModelRequest([Message.user(text)], **fields)  # pyright: ignore[reportArgumentType]


async def test_model_streams_with_usage_and_caches_the_prompt(model: EmbeddedModel) -> None:
    events = [event async for event in model.stream(make_request("Write a sentence about the sea."))]
    done = events[-1]
    assert isinstance(done, Done)
    assert sum(isinstance(event, TextDelta) for event in events) > 3
    usage = done.message.usage
    assert usage is not None
    assert usage.input_tokens > 10
    assert 3 < usage.output_tokens <= 48
    assert usage.cost == Cost()
    again = await model.complete(make_request("Write a sentence about the sea."))
    assert again.usage.cache_read > 10
    assert again.usage.prompt_tokens == usage.prompt_tokens


async def test_model_returns_a_tool_call_or_text(model: EmbeddedModel) -> None:
    call = await model.complete(make_request("What is in the file config.ini?", tools=TOOLS))
    (use,) = call.message.tool_uses
    assert (use.name, use.input) == ("read_file", {"path": "config.ini"})
    answer = await model.complete(make_request("Say hello.", tools=TOOLS, tool_choice="none"))
    assert answer.text
    assert not answer.message.tool_uses
    assert answer.usage.cache_read > 300  # both have the same prompt prefix
    required = [event async for event in model.stream(make_request("Find tulips", tools=TOOLS, tool_choice="grep"))]
    assert any(isinstance(event, ToolCallDelta) for event in required)
    assert isinstance(required[-1], Done)
    assert required[-1].reason in {"tool_use", "max_tokens"}


async def test_agent_reads_a_file_with_the_embedded_model(model: EmbeddedModel, tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "notes.txt").write_text, "The meeting is on Tuesday.\n")
    agent = Agent(model, tools=[read_file, list_files, grep], execution=str(tmp_path))
    result = await agent.run("When is the meeting in notes.txt?")
    calls = [b for m in result.messages if isinstance(m, Message) for b in m.content if isinstance(b, ToolUseBlock)]
    results = [r for m in result.messages if isinstance(m, Message) for r in m.tool_results]
    assert calls[0].input == {"path": "notes.txt"}
    assert "Tuesday" in results[0].text
    assert len(calls) == len(results)
    assert result.usage.cost == Cost()


async def test_too_long_conversation_raises_context_exceeded() -> None:
    require_module("xllamacpp", "the extra `local`")
    small = create_embedded_model({"model": SMALLEST, "contextWindow": 512})
    await small.download()
    try:
        with pytest.raises(ContextExceededError):
            await small.complete(make_request("word " * 2000))
    finally:
        await small.aclose()


def get_status(url: str, key: str | None) -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


async def test_server_rejects_requests_without_the_key(model: EmbeddedModel) -> None:
    server = LlamaServer(model.file, context=512)
    endpoint = await server.endpoint()
    url = f"{endpoint.base_url}/v1/models"
    try:
        assert await asyncio.to_thread(get_status, url, None) == 401
        assert await asyncio.to_thread(get_status, url, "guessed") == 401
        assert await asyncio.to_thread(get_status, url, endpoint.key) == 200
    finally:
        await asyncio.to_thread(server.stop)


async def test_invalid_model_file_is_reported(model: EmbeddedModel, tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "fake.gguf").write_bytes, b"GGUF nothing")
    broken = create_embedded_model({"model": str(tmp_path / "fake.gguf")})
    with pytest.raises(Exception, match=r"Cannot load the embedded model fake\.gguf: \S"):
        await broken.complete(make_request("Hi"))
    await broken.aclose()


PARENT = """
import asyncio, json, sys
from mainspring.messages import Message
from mainspring.models import ModelRequest
from mainspring.models.embedded import create_embedded_model as create_embedded
async def main():
    model = create_embedded({"model": sys.argv[1]})
    request = ModelRequest([Message.user("Count from one to a thousand in words.")])
    async for event in model.stream(request):
        if event.type == "text_delta":
            print(json.dumps(model.pid), flush=True)
asyncio.run(main())
"""


async def test_engine_exits_when_the_parent_process_is_killed(model: EmbeddedModel) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, SMALLEST, stdout=subprocess.PIPE, start_new_session=True
    )
    assert parent.stdout is not None
    child = json.loads(await parent.stdout.readline())
    assert alive(child)
    parent.kill()
    await parent.wait()
    assert await asyncio.to_thread(ended, child, 30)
