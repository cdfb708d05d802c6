"""Responses that are cut off after their first content: every wire protocol, against a server that cuts the connection."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mainspring import Agent, RunOptions, tool
from mainspring.errors import AgentProviderError, NetworkError
from mainspring.events import Event, MessageUpdate, ModelCallRetry, Notice, TextDelta, TextEnd, TextStart, UsageUpdate
from mainspring.messages import Message, Usage
from mainspring.models import (
    Failure,
    LLMClient,
    ModelInfo,
    ModelProvider,
    ModelRequest,
    RetryConfig,
    Success,
    create_model,
    retry_stream,
)
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from tests.unit.models.server import Answer, Received, Server, chunked, plain, serve

FAST = RetryConfig(base_delay_seconds=0.001, jitter=0)


def sse(*events: dict[str, Any], name: bool = False) -> list[bytes]:
    return [
        (f"event: {event['type']}\n" if name else "").encode() + b"data: " + json.dumps(event).encode() + b"\n\n"
        for event in events
    ]


def chat(text: str, *, cut: bool) -> list[bytes]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    begun = sse(chunk({"role": "assistant", "content": ""}), chunk({"content": text}))
    return begun if cut else [*begun, *sse(chunk({}, "stop")), b"data: [DONE]\n\n"]


def anthropic(text: str, *, cut: bool) -> list[bytes]:
    start = {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 50, "output_tokens": 1}}
    begun = sse(
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        name=True,
    )
    ended = sse(
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
        name=True,
    )
    return begun if cut else begun + ended


def responses(text: str, *, cut: bool) -> list[bytes]:
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    begun = sse(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **at, "part": {"type": "output_text", "text": ""}},
        {"type": "response.output_text.delta", **at, "delta": text},
    )
    part = {"type": "output_text", "text": text}
    done = {**item, "content": [part]}
    ended = sse(
        {"type": "response.output_text.done", **at, "text": text},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [done]}},
    )
    return begun if cut else begun + ended


def gemini(text: str, *, cut: bool) -> list[bytes]:
    content = {"role": "model", "parts": [{"text": text}]}
    begun = sse({"candidates": [{"content": content}]})
    return begun if cut else begun + sse({"candidates": [{"finishReason": "STOP"}]})


def ollama(text: str, *, cut: bool) -> list[bytes]:
    lines = [json.dumps({"message": {"role": "assistant", "content": text}, "done": False}).encode() + b"\n"]
    end = json.dumps({"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"})
    return lines if cut else [*lines, end.encode() + b"\n"]


Script = Callable[..., list[bytes]]
PROTOCOLS: list[tuple[str, Script]] = [
    ("compatible:m", chat),
    ("anthropic:claude-haiku-4-5", anthropic),
    ("anthropic:claude-opus-4-6", anthropic),
    ("openai:gpt-5-mini", responses),
    ("gemini:gemini-2.5-flash", gemini),
    ("ollama:llama3.2", ollama),
]


def answer(script: Script, text: str, *, cut: bool = False) -> Answer:
    pieces = script(text, cut=cut)
    return chunked(*pieces, "close", end=False) if cut else chunked(*pieces)


@asynccontextmanager
async def serve_posts(*answers: Answer) -> AsyncGenerator[Server]:
    """Serve the responses in order; questions about the limits of the model are not answered."""
    remaining = list(answers)

    def next_answer(received: Received) -> Answer:
        if received.method == "GET":
            server.requests.remove(received)
            return plain(status="404 Not Found")
        return remaining.pop(0)

    async with serve(next_answer) as server:
        yield server


def model_at(name: str, url: str) -> ModelProvider:
    settings: dict[str, Any] = {"api": "responses"} if name.startswith("openai:") else {}
    return create_model(name, base_url=url, api_key="k", **settings)


def sent_texts(received: Received) -> list[tuple[str, str]]:
    """Return the roles and texts of a request, whatever its protocol."""
    body = json.loads(received.body)
    messages = body.get("messages") or body.get("input") or body["contents"]
    found: list[tuple[str, str]] = []
    for message in messages:
        content = message.get("content") or message.get("parts")
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        found.append(("assistant" if message["role"] == "model" else message["role"], text))
    return [each for each in found if each[0] != "system"]


@pytest.mark.parametrize(("name", "script"), PROTOCOLS)
@pytest.mark.parametrize("cuts", [1, 2])
async def test_cut_response_is_continued_in_one_message(name: str, script: Script, cuts: int) -> None:
    parts = ["The quick brown", " fox jumps", " over the dog."]
    answers = [answer(script, part, cut=True) for part in parts[:cuts]]
    async with serve_posts(*answers, answer(script, "".join(parts[cuts:]))) as server:
        agent = Agent(model_at(name, server.url))
        events: list[Event] = []
        agent.subscribe(lambda event: events.append(event.event if isinstance(event, MessageUpdate) else event))
        result = await agent.run("Tell me.", behavior=RunOptions(retry=FAST))

    whole = "".join(parts)
    assert (result.text, result.messages[-1].text, result.turns) == (whole, whole, 1)
    assert len(agent.messages) == 2, "the note to the model is not stored"
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == whole
    assert [type(e) for e in events if isinstance(e, TextStart | TextEnd)] == [TextStart, TextEnd]
    retries = [event for event in events if isinstance(event, ModelCallRetry)]
    assert [(retry.attempt, retry.max_retries, retry.continues) for retry in retries] == [(1, 2, True), (2, 2, True)][
        :cuts
    ]
    assert result.usage.estimated_calls == cuts, "a cut call is counted"
    assert len(server.requests) == cuts + 1
    first, *later = [sent_texts(request) for request in server.requests]
    assert first[-1][0] == "user"
    for number, sent in enumerate(later):
        kept = "".join(parts[: number + 1])
        if name == "anthropic:claude-haiku-4-5":
            assert sent[len(first) :] == [("assistant", kept)], "the host continues a trailing response itself"
        else:
            (role, text), (noter, note) = sent[len(first) :]
            assert ((role, text), noter) == (("assistant", kept), "user")
            assert kept[-10:] in note
            assert "cut off after" in note


@pytest.mark.parametrize(("name", "script"), PROTOCOLS)
@pytest.mark.parametrize("again", ["The very quick brown fox jumps.", "very quick brown fox jumps."])
async def test_first_part_that_the_model_repeats_appears_once(name: str, script: Script, again: str) -> None:
    async with serve_posts(answer(script, "The very quick brown fo", cut=True), answer(script, again)) as server:
        agent = Agent(model_at(name, server.url))
        events: list[Event] = []
        agent.subscribe(lambda event: events.append(event.event if isinstance(event, MessageUpdate) else event))
        result = await agent.run("Tell me.", behavior=RunOptions(retry=FAST))

    whole = "The very quick brown fox jumps."
    assert (result.text, "".join(event.text for event in events if isinstance(event, TextDelta))) == (whole, whole)
    assert [event.text for event in events if isinstance(event, TextEnd)] == [whole]


async def test_first_part_that_the_model_repeats_in_pieces_appears_once() -> None:
    whole = "The quick brown fox jumps over the lazy dog."
    model = ScriptedModel(Reply(whole, truncate_after=5, chunk_count=10), Reply(whole, chunk_count=15))
    agent = Agent(model)
    partials: list[str] = []
    texts: list[str] = []

    def add(event: Event) -> None:
        if isinstance(event, MessageUpdate) and isinstance(event.event, TextDelta):
            texts.append(event.event.text)
            partials.append(event.event.partial.text)

    agent.subscribe(add)
    result = await agent.run("go", behavior=RunOptions(retry=FAST))

    assert (result.text, "".join(texts), partials[-1]) == (whole, whole, whole)
    assert all(whole.startswith(partial) for partial in partials)


@pytest.mark.parametrize(("name", "script"), PROTOCOLS)
async def test_response_that_is_cut_again_and_again_fails_with_everything_received(name: str, script: Script) -> None:
    answers = [answer(script, part, cut=True) for part in ("a1 ", "b2 ", "c3 ", "never")]
    async with serve_posts(*answers) as server:
        agent = Agent(model_at(name, server.url))
        with pytest.raises(AgentProviderError):
            await agent.run("go", behavior=RunOptions(retry=FAST))

    assert len(server.requests) == 3
    last = agent.messages[-1]
    assert isinstance(last, Message)
    assert (last.text, last.stop_reason) == ("a1 b2 c3 ", "error")


@pytest.mark.parametrize(
    "options", [RetryConfig(mid_stream=False, base_delay_seconds=0.001), RetryConfig(max_retries=0), None]
)
async def test_continuation_can_be_switched_off(options: RetryConfig | None) -> None:
    async with serve_posts(answer(chat, "half", cut=True), answer(chat, "whole")) as server:
        agent = Agent(model_at("compatible:m", server.url))
        with pytest.raises(AgentProviderError):
            await agent.run("go", behavior=RunOptions(retry=options))
    assert len(server.requests) == 1


async def test_cut_before_the_first_content_is_retried_with_the_same_request() -> None:
    async with serve_posts(answer(chat, "", cut=True), answer(chat, "whole")) as server:
        result = await Agent(model_at("compatible:m", server.url)).run("go", behavior=RunOptions(retry=FAST))
    assert result.text == "whole"
    assert server.requests[0].body == server.requests[1].body


@pytest.mark.parametrize("cut_after", [2, 3, 4])
async def test_call_of_a_cut_response_never_runs_and_is_made_again(cut_after: int) -> None:
    ran: list[str] = []

    @tool
    def save(name: str) -> str:
        """Save.

        Args:
            name: A name.
        """
        ran.append(name)
        return "saved"

    calls = (ScriptedCall("save", {"name": "one"}), ScriptedCall("save", {"name": "two"}))
    cut = Reply("Saving. ", calls=calls, truncate_after=cut_after, chunk_count=1)
    model = ScriptedModel(cut, Reply(calls=(ScriptedCall("save", {"name": "one"}),)), "Done.")
    agent = Agent(model, tools=[save])
    result = await agent.run("go", behavior=RunOptions(retry=FAST))

    assert (result.text, ran) == ("Done.", ["one"])
    sent = model.requests[1].messages
    assert [(m.role, len(m.tool_uses)) for m in sent] == [("user", 0), ("assistant", 0), ("user", 0)]
    assert "were not run" in sent[-1].text
    stored = agent.messages[1]
    assert isinstance(stored, Message)
    assert (stored.text, len(stored.tool_uses)) == ("Saving. ", 1)


async def test_reasoning_alone_is_not_continued_but_asked_again() -> None:
    model = ScriptedModel(Reply("x", thinking="hmm", truncate_after=1), Reply("Answer.", thinking="well"))
    agent = Agent(model)
    result = await agent.run("go", behavior=RunOptions(retry=FAST))
    assert (result.text, len(model.requests[1].messages)) == ("Answer.", 1)


async def test_cause_is_reported_if_the_response_cannot_be_continued() -> None:
    model = ScriptedModel(Reply("half an answer", truncate_after=1, chunk_count=2), ValueError("roles must alternate"))
    agent = Agent(model)
    with pytest.raises(AgentProviderError) as caught:
        await agent.run("go", behavior=RunOptions(retry=FAST))
    assert isinstance(caught.value.cause, NetworkError)
    last = agent.messages[-1]
    assert isinstance(last, Message)
    assert last.text == "half an"


async def test_each_cut_call_is_reported_as_usage_and_the_message_has_that_of_its_last_call() -> None:
    model = ScriptedModel(
        Reply("half an answer", truncate_after=1, chunk_count=2), Reply(" answer", usage=Usage(30, 2))
    )
    agent = Agent(model)
    updates: list[UsageUpdate] = []
    agent.on(UsageUpdate, updates.append)
    result = await agent.run("go", behavior=RunOptions(retry=FAST))
    assert [update.purpose for update in updates] == ["interrupted", ""]
    assert result.usage.total_tokens == 32 + result.stats.side_usage["interrupted"].total_tokens > 32
    stored = agent.messages[-1]
    assert isinstance(stored, Message)
    assert stored.usage == Usage(30, 2)


@pytest.mark.parametrize("limit", [{"max_total_tokens": 5}, {"max_cost": 0.000001}])
async def test_response_is_not_continued_beyond_a_limit_of_the_run(limit: dict[str, Any]) -> None:
    info = ModelInfo("scripted-1", "scripted", prices=(1.0, 10.0, 0.0, 0.0))
    model = ScriptedModel(Reply("half an answer", truncate_after=1, chunk_count=2), Reply(" answer"), info=info)
    agent = Agent(model)
    notices: list[Notice] = []
    agent.on(Notice, notices.append)

    with pytest.raises(AgentProviderError):
        await agent.run("a prompt that is long enough for the limit", behavior=RunOptions(retry=FAST, **limit))

    assert len(model.requests) == 1
    assert f"the run has reached its limit ({next(iter(limit))})" in notices[-1].text


async def test_client_continues_and_adds_the_usage_of_the_cut_call() -> None:
    model = ScriptedModel(
        Reply("half an answer", truncate_after=1, chunk_count=2), Reply(" answer", usage=Usage(30, 2))
    )
    result = await LLMClient(model, retry_config=FAST).invoke("go")
    assert isinstance(result, Success)
    assert result.result.content == "half an answer"
    assert (result.result.usage.output_tokens, result.result.usage.estimated_calls) == (2 + len("half an") // 4, 1)

    model = ScriptedModel(Reply("half an answer", truncate_after=1, chunk_count=2))
    result = await LLMClient(model, retry_config=RetryConfig(mid_stream=False)).invoke("go")
    assert isinstance(result, Failure)
    assert len(model.requests) == 1


async def test_stream_without_a_continuation_raises_the_failure_with_its_partial_message() -> None:
    model = ScriptedModel(Reply("half an answer", truncate_after=1, chunk_count=2))

    def open_stream() -> AsyncGenerator[Any, None]:
        return model.stream(ModelRequest([Message.user("go")]))

    with pytest.raises(NetworkError) as caught:
        async for _ in retry_stream(open_stream, FAST):
            pass
    assert caught.value.partial is not None
    assert caught.value.partial.text == "half an"
