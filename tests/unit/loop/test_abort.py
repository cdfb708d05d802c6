"""Stopping a run: an abort, a cancellation, and the time limit end it quickly, and every call has its result."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from mainspring.errors import AgentAbortedError, AgentError, ModelError, NetworkError
from mainspring.events import UsageUpdate
from mainspring.loop import CoreAgent, LoopOptions
from mainspring.loop.hooks import (
    ContextTransform,
    MessagesAdded,
    ModelErrorHook,
    PermissionCheck,
    SessionEnd,
    ToolCallsReceived,
    ToolFinished,
    ToolGate,
    ToolResultsAfter,
    ToolTransform,
    TurnBefore,
)
from mainspring.messages import Cost, Message, Usage
from mainspring.models import ModelRequest, RetryConfig
from mainspring.testing.scripted_model import Reply, ScriptedModel
from mainspring.tools import Tool, tool
from tests.unit.loop.harness import (
    Script,
    as_message,
    assert_results_follow_calls,
    fail,
    make_agent,
    text_reply,
    tool_call_reply,
    tool_calls_reply,
)

QUICK = LoopOptions(abort_grace=0.01)


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@pytest.fixture
async def stubborn() -> AsyncGenerator[Tool]:
    """Yield a tool that continues after a cancellation, until the test has ended."""
    test_ended = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Continue after a cancellation."""
        while not test_ended.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await test_ended.wait()
        return "done after all"

    yield stubborn
    test_ended.set()


def make_blocking_handler(called: asyncio.Event) -> Callable[[Any], Any]:
    """Return a handler that never returns."""

    async def wait(ctx: Any) -> None:
        called.set()
        await asyncio.Event().wait()

    return wait


async def stop_run(agent: CoreAgent, when: asyncio.Event, *, by: str = "abort") -> None:
    """Stop a run once ``when`` is set, and wait for its end."""
    run = asyncio.ensure_future(agent.run("go"))
    await when.wait()
    if by == "abort":
        agent.abort("enough")
        agent.abort("more than enough")
        with pytest.raises(AgentAbortedError, match=r"^The run was aborted: enough\. "):
            await run
    else:
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert not agent.running


@pytest.mark.covers("AGT-25")
@pytest.mark.parametrize("hook", [ToolGate, PermissionCheck, ContextTransform, TurnBefore, ToolTransform, ToolFinished, MessagesAdded, ToolResultsAfter, UsageUpdate])  # fmt: skip
@pytest.mark.parametrize("by", ["abort", "cancel"])
async def test_stopped_run_ends_although_a_handler_never_returns(hook: Any, by: str) -> None:
    called = asyncio.Event()
    agent = make_agent(Script(tool_call_reply("look", key="a"), text_reply("never")), tools=[look], behavior=QUICK)
    agent.on(hook, make_blocking_handler(called))
    ended: list[str] = []
    agent.on(SessionEnd, lambda ctx: ended.append(ctx.status))
    await stop_run(agent, called, by=by)
    assert ended == ["aborted"]
    assert_results_follow_calls(agent.messages)


@pytest.mark.covers("AGT-25", "TEX-31")
async def test_tool_that_ignores_an_abort_is_abandoned(stubborn: Tool) -> None:
    started = asyncio.Event()
    agent = make_agent(Script(tool_call_reply("stubborn"), text_reply("never")), tools=[stubborn], behavior=QUICK)
    agent.subscribe(lambda e: started.set() if e.type == "tool_execution_start" else None)
    await stop_run(agent, started)
    assert_results_follow_calls(agent.messages)
    assert "Aborted" in as_message(agent.messages[-1]).tool_results[0].text


@pytest.mark.parametrize("hook", [ToolCallsReceived, ToolFinished, ToolResultsAfter, MessagesAdded, UsageUpdate])
async def test_cancellation_in_a_hook_keeps_results_and_calls_later_handlers(hook: Any) -> None:
    agent = make_agent(Script(tool_call_reply("look", key="a"), text_reply("never")), tools=[look])
    called: list[Any] = []

    async def cancel_run(ctx: Any) -> None:
        task.cancel()
        await asyncio.sleep(0)

    agent.on(hook, cancel_run)
    agent.on(hook, cancel_run)
    agent.on(hook, called.append)
    task = asyncio.ensure_future(agent.run("go"))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert called, "later handlers are still called"
    assert_results_follow_calls(agent.messages)
    if hook is not MessagesAdded:
        assert len(agent.messages) == 3, "the received response is kept"


async def test_cancellation_during_an_abort_raises_cancelled_error(stubborn: Tool) -> None:
    started = asyncio.Event()
    agent = make_agent(Script(tool_call_reply("stubborn"), text_reply("never")), tools=[stubborn], behavior=QUICK)
    agent.on(ToolCallsReceived, lambda ctx: started.set())
    run = asyncio.ensure_future(agent.run("go"))
    await started.wait()
    agent.abort()
    await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not agent.running
    assert_results_follow_calls(agent.messages)


async def test_timeout_around_a_run_raises_timeout_error() -> None:
    agent = make_agent(Script(text_reply("slow", hang_after=2)), behavior=QUICK)

    async def run_with_timeout() -> None:
        async with asyncio.timeout(None) as limit:
            agent.subscribe(lambda e: limit.reschedule(0) if e.type == "message_update" else None)
            await agent.run("go")

    with pytest.raises(TimeoutError):
        await run_with_timeout()
    assert as_message(agent.messages[-1]).stop_reason == "aborted"


async def test_abort_keeps_a_dequeued_steering_message() -> None:
    agent = make_agent(Script(tool_call_reply("look", key="a"), text_reply("never")), tools=[look], behavior=QUICK)
    called = asyncio.Event()
    agent.on("steer:inject", make_blocking_handler(called))
    agent.on(ToolFinished, lambda ctx: agent.steer("look elsewhere"))
    await stop_run(agent, called)
    assert as_message(agent.messages[-1]).text == "look elsewhere"


# --- the time limit ---------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-20")
@pytest.mark.parametrize("where", ["model", "tool", "gate", "retry"])
async def test_time_limit_applies_to_every_kind_of_wait(stubborn: Tool, where: str) -> None:
    script: dict[str, Any] = {
        "model": [text_reply("so slow", hang_after=3)],
        "tool": [tool_call_reply("stubborn")],
        "gate": [tool_call_reply("look", key="a")],
        "retry": [fail(NetworkError("down"))],
    }
    agent = make_agent(Script(*script[where]), tools=[look, stubborn])
    if where == "gate":
        agent.on(ToolGate, make_blocking_handler(asyncio.Event()))
    ended: list[Any] = []
    agent.on(SessionEnd, lambda ctx: ended.append((ctx.status, ctx.error)))
    behavior = LoopOptions(
        max_seconds=1, abort_grace=0.01, retry=RetryConfig(base_delay_seconds=600, max_delay_seconds=600, jitter=0)
    )
    result = await agent.run("go", behavior=behavior)
    assert (result.status, result.error, ended) == ("max_seconds", None, [("max_seconds", None)])
    assert_results_follow_calls(agent.messages)
    if where == "model":
        assert result.text == "so "


async def test_time_limit_timer_stops_when_the_run_ends() -> None:
    agent = make_agent(Script(text_reply("a"), tool_call_reply("look", key="a"), text_reply("b")), tools=[look])
    await agent.run("go", behavior=LoopOptions(max_seconds=1))
    agent.on(ToolGate, lambda ctx: asyncio.sleep(1.2))
    assert (await agent.run("go")).status == "completed"


# --- side calls -------------------------------------------------------------------------------------------------------


def make_priced_reply(text: str, tokens: int = 10, dollars: float = 0.01) -> Reply:
    return Reply(text, usage=Usage(output_tokens=tokens, cost=Cost(output=dollars)))


def make_request(text: str) -> ModelRequest:
    return ModelRequest(messages=[Message.user(text)])


async def test_side_call_is_counted_but_not_added_to_the_history() -> None:
    updates: list[tuple[str, int]] = []
    titles: list[str] = []

    async def title(ctx: SessionEnd) -> None:
        titles.append(
            (
                await ctx.side_call("title", make_request("name it"), model=ScriptedModel(make_priced_reply("A title")))
            ).text
        )

    agent = make_agent(Script(make_priced_reply("an answer")), hooks={SessionEnd: title})
    agent.on(UsageUpdate, lambda ctx: updates.append((ctx.purpose, ctx.total.total_tokens)))
    result = await agent.run("go")
    assert titles == ["A title"]
    assert updates == [("", 10), ("title", 20)]
    assert result.usage.total_tokens == 20
    assert result.cost.total == pytest.approx(0.02)
    assert result.stats.side_usage["title"].total_tokens == 10
    assert [u.total_tokens for u in result.stats.turn_usage] == [10]
    assert [as_message(m).text for m in agent.messages] == ["go", "an answer"]


async def test_tool_can_make_a_side_call_with_the_model_of_the_run() -> None:
    @tool
    async def sample() -> str:
        """Call the model for a server."""
        return (await agent.side_call("sampling", make_request("sample"))).text

    agent = make_agent(
        Script(tool_call_reply("sample"), make_priced_reply("sampled"), make_priced_reply("done")), tools=[sample]
    )
    result = await agent.run("go")
    assert as_message(result.messages[2]).tool_results[0].text == "sampled"
    assert result.stats.side_usage["sampling"].total_tokens == 10
    with pytest.raises(AgentError, match="no run is active"):
        await agent.side_call("sampling", make_request("sample"))


async def test_side_call_obeys_the_limits_of_the_run() -> None:
    rejected: list[str] = []

    async def select(ctx: ContextTransform) -> None:
        for _ in range(3):
            try:
                await ctx.side_call("select", make_request("which"))
            except AgentError as error:
                rejected.append(str(error))

    agent = make_agent(
        Script(make_priced_reply("a", dollars=0.5), make_priced_reply("b", dollars=0.6), text_reply("never")),
        hooks={ContextTransform: select},
    )
    result = await agent.run("go", behavior=LoopOptions(max_cost=1.0))
    assert rejected == ["Cannot call a model for 'select': the run has reached its limit (max_cost)."]
    assert result.stats.side_usage["select"].total_tokens == 20


async def test_side_call_ends_with_the_run_and_raises_its_error_to_the_caller() -> None:
    failures: list[type[BaseException]] = []
    side_call_failed = asyncio.Event()

    async def select(ctx: ContextTransform) -> None:
        try:
            await ctx.side_call("select", make_request("which"), model=ScriptedModel(NetworkError("down")))
        except ModelError as error:
            failures.append(type(error))
        side_call_failed.set()
        await ctx.side_call("select", make_request("which"))

    model = Script(text_reply("slow", hang_after=1))
    agent = make_agent(model, hooks={ContextTransform: select}, behavior=LoopOptions(retry=None))
    await stop_run(agent, side_call_failed)
    assert failures == [NetworkError]


async def test_usage_of_failed_responses_is_counted() -> None:
    def retry(ctx: ModelErrorHook) -> None:
        ctx.retry()

    broken = Reply("half an ans", chunk_count=5, truncate_after=2, usage=Usage(output_tokens=7))
    agent = make_agent(
        Script(broken, make_priced_reply("whole")), hooks={ModelErrorHook: retry}, behavior=LoopOptions(retry=None)
    )
    result = await agent.run("go")
    assert result.text == "whole"
    assert result.usage.total_tokens >= 10


async def test_tool_can_add_usage_that_counts_toward_the_cost_limit() -> None:
    @tool
    async def spawn() -> str:
        """Report the usage of a subagent."""
        agent.add_usage(Usage(input_tokens=40, cost=Cost(input=2.0)), "child")
        return "done"

    agent = make_agent(Script(tool_calls_reply(tool_call_reply("spawn")), text_reply("never")), tools=[spawn])
    result = await agent.run("go", behavior=LoopOptions(max_cost=1.0))
    assert (result.status, result.stats.side_usage["child"].total_tokens) == ("max_cost", 40)
