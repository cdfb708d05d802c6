"""Model calls outside the conversation: their requests, usage, and rejections."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mainspring.errors import AgentError, ModelError, NetworkError
from mainspring.events import AgentEnd, Event, StreamEvent, UsageUpdate
from mainspring.loop import HookBus, LoopContext, LoopOptions, agent_loop
from mainspring.loop.hooks import ContextTransform, SessionEnd
from mainspring.messages import Cost, Message, Usage
from mainspring.models import ModelRequest, RetryConfig
from mainspring.testing.scripted_model import Reply
from tests.helpers.waiting_model import Gate, WaitingModel
from tests.unit.loop.harness import Script, fail, make_agent, make_config, text_reply, tool_call_reply


def make_request(text: str = "which?") -> ModelRequest:
    return ModelRequest(messages=[Message.user(text)])


def make_priced_reply(text: str, tokens: int = 10) -> Reply:
    return Reply(text, usage=Usage(output_tokens=tokens, cost=Cost(output=0.5)))


async def run_with_side_call(side: Any, model: Script, **behavior: Any) -> tuple[Any, list[UsageUpdate]]:
    """Run with one side call before the first request."""
    updates: list[UsageUpdate] = []
    bus = HookBus({ContextTransform: side, UsageUpdate: updates.append})
    options = LoopOptions(**{"retry": None, **behavior})
    return await agent_loop("go", LoopContext(), make_config(model, bus=bus, behavior=options)), updates


async def test_side_call_uses_the_model_of_the_run_by_default() -> None:
    answers: list[str] = []
    side_request = make_request()

    async def select(ctx: ContextTransform) -> None:
        answers.extend([(await ctx.side_call("select", side_request)).text])
        answers.extend([(await ctx.side_call("title", side_request, model=other)).text])

    model, other = Script(make_priced_reply("mine"), text_reply("ok")), Script(make_priced_reply("other", 5))
    result, updates = await run_with_side_call(select, model)
    assert answers == ["mine", "other"]
    assert model.requests[0] is other.requests[0] is side_request
    assert [(u.turn, u.usage.total_tokens, u.total.total_tokens, u.purpose) for u in updates] == [
        (1, 10, 10, "select"),
        (1, 5, 15, "title"),
        (1, 0, 15, ""),
    ]
    assert {k: v.total_tokens for k, v in result.stats.side_usage.items()} == {"select": 10, "title": 5}
    assert result.usage.total_tokens == 15


async def test_side_call_counts_without_a_handler_of_usage() -> None:
    async def select(ctx: ContextTransform) -> None:
        await ctx.side_call("select", make_request())

    config = make_config(Script(make_priced_reply("mine"), text_reply("ok")), bus=HookBus({ContextTransform: select}))

    result = await agent_loop("go", LoopContext(), config)

    assert {k: v.total_tokens for k, v in result.stats.side_usage.items()} == {"select": 10}


async def test_usage_of_side_calls_adds_up_by_purpose() -> None:
    async def select(ctx: ContextTransform) -> None:
        for _ in range(3):
            await ctx.side_call("select", make_request())

    result, _ = await run_with_side_call(
        select, Script(make_priced_reply("a"), make_priced_reply("b"), make_priced_reply("c"), text_reply("ok"))
    )
    assert result.stats.side_usage["select"].total_tokens == 30


async def test_side_call_is_retried_and_publishes_nothing() -> None:
    events: list[Any] = []

    async def select(ctx: ContextTransform) -> None:
        assert (await ctx.side_call("select", make_request(), model=other)).text == "found"

    other = Script(fail(NetworkError("down")), text_reply("found"))
    agent = make_agent(Script(text_reply("ok")), hooks={ContextTransform: select})
    agent.subscribe(events.append)
    await agent.run("go", behavior=LoopOptions(retry=RetryConfig(base_delay_seconds=0.001, jitter=0)))
    assert len(other.requests) == 2
    assert "model_retry" not in [e.type for e in events]


async def test_failed_side_call_counts_its_usage() -> None:
    errors: list[ModelError] = []

    async def select(ctx: ContextTransform) -> None:
        with pytest.raises(ModelError) as caught:
            await ctx.side_call("select", make_request(), model=Script(fail(NetworkError("down"))))
        errors.append(caught.value)

    result, updates = await run_with_side_call(select, Script(text_reply("ok", tokens=3)))
    assert [str(e) for e in errors] == ["down"]
    assert [(u.usage.total_tokens, u.purpose) for u in updates] == [(0, "select"), (3, "")]
    assert result.stats.side_usage["select"] == Usage.zero()


class EndlessModel(Script):
    """A model whose stream ends before its response is complete."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        async for event in super().stream(request):
            if event.type == "done":
                return
            yield event


async def test_side_call_without_a_complete_response_fails() -> None:
    errors: list[ModelError] = []

    async def select(ctx: ContextTransform) -> None:
        with pytest.raises(ModelError, match="ended before its response was complete") as caught:
            await ctx.side_call("select", make_request(), model=EndlessModel(make_priced_reply("half")))
        errors.append(caught.value)

    result, updates = await run_with_side_call(select, Script(text_reply("ok")))
    assert [(e.reason, e.provider) for e in errors] == [("stream_cut", "scripted")]
    assert updates[0].purpose == "select"
    assert "select" in result.stats.side_usage


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ({"max_total_tokens": 10}, "max_total_tokens"),
        ({"max_cost": 0.5}, "max_cost"),
        ({"max_seconds": 0}, "max_seconds"),
    ],
)
async def test_side_call_after_a_limit_is_rejected_with_the_limit(limit: dict[str, Any], status: str) -> None:
    rejected: list[str] = []

    async def title(ctx: SessionEnd) -> None:
        with pytest.raises(AgentError) as caught:
            await ctx.side_call("title", make_request(), model=other)
        rejected.append(str(caught.value))

    other = Script(text_reply("never"))
    agent = make_agent(Script(make_priced_reply("answer")), hooks={SessionEnd: title})
    await agent.run("go", behavior=LoopOptions(**limit))
    assert rejected == [f"Cannot call a model for 'title': the run has reached its limit ({status})."]
    assert other.requests == []


async def test_turn_limit_does_not_apply_to_side_calls() -> None:
    titles: list[str] = []

    async def title(ctx: SessionEnd) -> None:
        titles.append((await ctx.side_call("title", make_request(), model=Script(text_reply("A title")))).text)

    agent = make_agent(Script(text_reply("answer")), hooks={SessionEnd: title})
    await agent.run("go", behavior=LoopOptions(max_turns=1))
    assert titles == ["A title"]


async def test_side_call_after_the_run_is_rejected() -> None:
    tool_calls_reply: list[Any] = []
    agent = make_agent(Script(text_reply("answer")))
    agent.on(SessionEnd, lambda ctx: tool_calls_reply.append(ctx.side_call))

    async def late(ctx: SessionEnd) -> None:
        with pytest.raises(AgentError, match=r"^Cannot call a model for 'late': the run has ended\.$"):
            await ctx.side_call("late", make_request())
        with pytest.raises(AgentError, match="no run is active"):
            await agent.side_call("late", make_request())
        tool_calls_reply.append(ctx.side_call)

    agent.on("agent:done", late)
    await agent.run("go")
    assert len(tool_calls_reply) == 2
    with pytest.raises(AgentError, match=r"^Cannot call a model for 'later': the run has ended\.$"):
        await tool_calls_reply[0]("later", make_request())
    with pytest.raises(AgentError, match=r"^Cannot call a model for 'later': no run is active\.$"):
        await agent.side_call("later", make_request())
    agent.add_usage(Usage(output_tokens=5), "later")


async def test_side_call_that_outlives_its_run_publishes_nothing_after_its_end() -> None:
    gate = Gate()
    model = WaitingModel("late", gates={0: gate})
    late: list[asyncio.Task[Message]] = []
    events: list[Event] = []

    async def start(ctx: ContextTransform) -> None:
        assert ctx.side_call is not None
        late.append(asyncio.ensure_future(ctx.side_call("late", make_request(), model=model)))
        await gate.reached_limit.wait()

    agent = make_agent(Script(text_reply("answer")), hooks={ContextTransform: start})
    agent.subscribe(events.append)
    await agent.run("go")
    assert isinstance(events[-1], AgentEnd)
    gate.open.set()
    assert (await late[0]).text == "late"
    assert isinstance(events[-1], AgentEnd)


async def test_usage_added_by_a_caller_counts_toward_the_limits() -> None:
    agent = make_agent(Script(tool_call_reply("nope", tokens=1), text_reply("never")))
    agent.on(ContextTransform, lambda ctx: agent.add_usage(Usage(output_tokens=20), "child"))
    result = await agent.run("go", behavior=LoopOptions(max_total_tokens=21))
    assert (result.status, result.usage.total_tokens) == ("max_total_tokens", 21)
    assert result.stats.side_usage["child"].total_tokens == 20
    assert [u.total_tokens for u in result.stats.turn_usage] == [1]
