"""What ends a run from outside: an abort, a cancellation, the clock; always in time, and never with half a pair."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from mainspring.errors import AgentAbortedError, AgentError, ModelError, NetworkError
from mainspring.loop import CoreAgent, RunOptions
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
    UsageUpdate,
)
from mainspring.messages import Cost, Message, Usage
from mainspring.models import ModelRequest, RetryConfig
from mainspring.testing.scripted_model import Reply, ScriptedModel
from mainspring.tools import tool
from tests.unit.loop.harness import (
    Script,
    agent,
    assert_results_follow_calls,
    calls,
    fail,
    said,
    text_reply,
    tool_call_reply,
)

QUICK = RunOptions(abort_grace=0.01)


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@tool
async def stubborn() -> str:
    """Go on in spite of a cancellation."""
    for _ in range(6):
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue
    return "done after all"


def waiting(told: asyncio.Event) -> Callable[[Any], Any]:
    """A handler that never comes back by itself."""

    async def wait(ctx: Any) -> None:
        told.set()
        await asyncio.Event().wait()

    return wait


async def stopped(one: CoreAgent, when: asyncio.Event, *, by: str = "abort") -> float:
    """Stop a run once ``when`` is set; the seconds until it was over."""
    run = asyncio.ensure_future(one.run("go"))
    await when.wait()
    started = time.monotonic()
    if by == "abort":
        one.abort("enough")
        one.abort("more than enough")
        with pytest.raises(AgentAbortedError, match="^enough$"):
            await run
    else:
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert not one.running
    return time.monotonic() - started


@pytest.mark.covers("AGT-25")
@pytest.mark.parametrize("hook", [ToolGate, PermissionCheck, ContextTransform, TurnBefore, ToolTransform, ToolFinished, MessagesAdded, ToolResultsAfter, UsageUpdate])  # fmt: skip
@pytest.mark.parametrize("by", ["abort", "cancel"])
async def test_a_run_ends_in_time_even_where_a_handler_waits_for_ever(hook: Any, by: str) -> None:
    told = asyncio.Event()
    one = agent(Script(tool_call_reply("look", key="a"), text_reply("never")), tools=[look], behavior=QUICK)
    one.on(hook, waiting(told))
    ended: list[str] = []
    one.on(SessionEnd, lambda ctx: ended.append(ctx.status))
    assert await stopped(one, told, by=by) < 1
    assert ended == ["aborted"]
    assert_results_follow_calls(one.messages)


@pytest.mark.covers("AGT-25", "TEX-31")
async def test_a_tool_that_ignores_the_abort_is_abandoned() -> None:
    started = asyncio.Event()
    one = agent(Script(tool_call_reply("stubborn"), text_reply("never")), tools=[stubborn], behavior=QUICK)
    one.subscribe(lambda e: started.set() if e.type == "tool_execution_start" else None)
    assert await stopped(one, started) < 0.25
    assert_results_follow_calls(one.messages)
    assert "Aborted" in said(one.messages[-1]).tool_results[0].text


@pytest.mark.parametrize("hook", [ToolCallsReceived, ToolFinished, ToolResultsAfter, MessagesAdded, UsageUpdate])
async def test_a_cancellation_in_a_hook_loses_no_pair_and_the_rest_are_told(hook: Any) -> None:
    one = agent(Script(tool_call_reply("look", key="a"), text_reply("never")), tools=[look])
    told: list[Any] = []

    async def cut(ctx: Any) -> None:
        task.cancel()
        await asyncio.sleep(0)

    one.on(hook, cut)
    one.on(hook, cut)
    one.on(hook, told.append)
    task = asyncio.ensure_future(one.run("go"))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told, "who stores things hears of it all the same"
    assert_results_follow_calls(one.messages)
    if hook is not MessagesAdded:
        assert len(one.messages) == 3, "the answer that was received stays"


async def test_an_abort_and_a_cancellation_at_once_are_a_cancellation() -> None:
    started = asyncio.Event()
    one = agent(Script(tool_call_reply("stubborn"), text_reply("never")), tools=[stubborn], behavior=QUICK)
    one.on(ToolCallsReceived, lambda ctx: started.set())
    run = asyncio.ensure_future(one.run("go"))
    await started.wait()
    one.abort()
    await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not one.running
    assert_results_follow_calls(one.messages)


async def test_a_timeout_around_a_run_is_a_timeout() -> None:
    one = agent(Script(text_reply("slow", hang_after=2)), behavior=QUICK)

    async def run_with_timeout() -> None:
        async with asyncio.timeout(None) as limit:
            one.subscribe(lambda e: limit.reschedule(0) if e.type == "message_update" else None)
            await one.run("go")

    with pytest.raises(TimeoutError):
        await run_with_timeout()
    assert said(one.messages[-1]).stop_reason == "aborted"


async def test_what_was_taken_to_steer_is_not_lost_by_an_abort() -> None:
    one = agent(Script(tool_call_reply("look", key="a"), text_reply("never")), tools=[look], behavior=QUICK)
    told = asyncio.Event()
    one.on("steer:inject", waiting(told))
    one.on(ToolFinished, lambda ctx: one.steer("look elsewhere"))
    await stopped(one, told)
    assert said(one.messages[-1]).text == "look elsewhere"


# --- the clock --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-20")
@pytest.mark.parametrize("where", ["model", "tool", "gate", "retry"])
async def test_the_limit_of_seconds_holds_whatever_the_run_waits_for(where: str) -> None:
    script: dict[str, Any] = {
        "model": [text_reply("so slow", hang_after=3)],
        "tool": [tool_call_reply("stubborn")],
        "gate": [tool_call_reply("look", key="a")],
        "retry": [fail(NetworkError("down"))],
    }
    one = agent(Script(*script[where]), tools=[look, stubborn])
    if where == "gate":
        one.on(ToolGate, waiting(asyncio.Event()))
    ended: list[Any] = []
    one.on(SessionEnd, lambda ctx: ended.append((ctx.status, ctx.error)))
    started = time.monotonic()
    behavior = RunOptions(max_seconds=0.05, abort_grace=0.01, retry=RetryConfig(base_delay_ms=9000, jitter=0))
    result = await one.run("go", behavior=behavior)
    assert time.monotonic() - started < 0.25
    assert (result.status, result.error, ended) == ("max_seconds", None, [("max_seconds", None)])
    assert_results_follow_calls(one.messages)
    if where == "model":
        assert result.text == "so "


async def test_the_clock_of_a_run_that_ended_stops() -> None:
    one = agent(Script(text_reply("a"), tool_call_reply("look", key="a"), text_reply("b")), tools=[look])
    await one.run("go", behavior=RunOptions(max_seconds=0.02))
    one.on(ToolGate, lambda ctx: asyncio.sleep(0.04))
    assert (await one.run("go")).status == "completed"


# --- side calls -------------------------------------------------------------------------------------------------------


def priced(text: str, tokens: int = 10, dollars: float = 0.01) -> Reply:
    return Reply(text, usage=Usage(output_tokens=tokens, cost=Cost(output=dollars)))


def ask(text: str) -> ModelRequest:
    return ModelRequest(messages=[Message.user(text)])


async def test_a_side_call_is_counted_and_stands_in_no_history() -> None:
    updates: list[tuple[str, int]] = []
    titles: list[str] = []

    async def title(ctx: SessionEnd) -> None:
        titles.append((await ctx.side_call("title", ask("name it"), model=ScriptedModel(priced("A title")))).text)

    one = agent(Script(priced("an answer")), hooks={SessionEnd: title})
    one.on(UsageUpdate, lambda ctx: updates.append((ctx.purpose, ctx.total.total_tokens)))
    result = await one.run("go")
    assert titles == ["A title"]
    assert updates == [("", 10), ("title", 20)]
    assert result.usage.total_tokens == 20
    assert result.cost is not None
    assert result.cost.total == pytest.approx(0.02)
    assert result.stats.side_usage["title"].total_tokens == 10
    assert [u.total_tokens for u in result.stats.turn_usage] == [10]
    assert [said(m).text for m in one.messages] == ["go", "an answer"]


async def test_a_side_call_reaches_the_model_of_the_run_from_a_tool_through_the_agent() -> None:
    @tool
    async def sample() -> str:
        """Have a server sample."""
        return (await one.side_call("sampling", ask("sample"))).text

    one = agent(Script(tool_call_reply("sample"), priced("sampled"), priced("done")), tools=[sample])
    result = await one.run("go")
    assert said(result.messages[2]).tool_results[0].text == "sampled"
    assert result.stats.side_usage["sampling"].total_tokens == 10
    with pytest.raises(AgentError, match="no run is active"):
        await one.side_call("sampling", ask("sample"))


async def test_a_side_call_obeys_the_limits_of_the_run() -> None:
    rejected: list[str] = []

    async def select(ctx: ContextTransform) -> None:
        for _ in range(3):
            try:
                await ctx.side_call("select", ask("which"))
            except AgentError as error:
                rejected.append(str(error))

    one = agent(
        Script(priced("a", dollars=0.5), priced("b", dollars=0.6), text_reply("never")),
        hooks={ContextTransform: select},
    )
    result = await one.run("go", behavior=RunOptions(max_cost=1.0))
    assert rejected == ["Cannot call a model for 'select': the run has reached its limit (max_cost)."]
    assert result.stats.side_usage["select"].total_tokens == 20


async def test_a_side_call_ends_with_the_run_and_its_failure_is_the_callers() -> None:
    failures: list[type[BaseException]] = []
    begun = asyncio.Event()

    async def select(ctx: ContextTransform) -> None:
        try:
            await ctx.side_call("select", ask("which"), model=ScriptedModel(NetworkError("down")))
        except ModelError as error:
            failures.append(type(error))
        begun.set()
        await ctx.side_call("select", ask("which"))

    model = Script(text_reply("slow", hang_after=1))
    one = agent(model, hooks={ContextTransform: select}, behavior=RunOptions(retry=None))
    await stopped(one, begun)
    assert failures == [NetworkError]


async def test_what_failed_answers_cost_is_counted() -> None:
    def retry(ctx: ModelErrorHook) -> None:
        ctx.retry()

    broken = Reply("half an ans", chunk_count=5, truncate_after=2, usage=Usage(output_tokens=7))
    one = agent(Script(broken, priced("whole")), hooks={ModelErrorHook: retry}, behavior=RunOptions(retry=None))
    result = await one.run("go")
    assert result.text == "whole"
    assert result.usage.total_tokens >= 10


async def test_calls_spend_for_others() -> None:
    @tool
    async def spawn() -> str:
        """Have somebody else work."""
        one.add_usage(Usage(input_tokens=40, cost=Cost(input=2.0)), "child")
        return "done"

    one = agent(Script(calls(tool_call_reply("spawn")), text_reply("never")), tools=[spawn])
    result = await one.run("go", behavior=RunOptions(max_cost=1.0))
    assert (result.status, result.stats.side_usage["child"].total_tokens) == ("max_cost", 40)
