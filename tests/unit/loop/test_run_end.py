"""The end of a run at its time limit or after a late abort, and the reports to callers and listeners."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mainspring.cancellation import CancelToken
from mainspring.errors import AgentAbortedError, AgentProviderError
from mainspring.events import StreamEvent
from mainspring.loop import HookBus, LoopContext, LoopOptions, agent_loop
from mainspring.loop.hooks import SessionEnd, TurnAfter
from mainspring.models import ModelRequest
from mainspring.tools import ToolContext, ToolRegistry, tool
from tests.unit.loop.harness import (
    Script,
    as_message,
    assert_results_follow_calls,
    make_agent,
    make_config,
    text_reply,
    tool_call_reply,
)


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


def make_slow_handler(hook: Any, seconds: float) -> dict[Any, Any]:
    """Return a handler that runs longer than the time limit."""

    async def sleep(ctx: Any) -> None:
        expired = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, expired.set)
        await expired.wait()

    return {hook: sleep}


async def test_error_after_the_time_limit_is_raised() -> None:
    agent = make_agent(Script(text_reply("")), hooks=make_slow_handler(TurnAfter, 1.2))
    ended: list[Any] = []
    agent.on(SessionEnd, ended.append)
    with pytest.raises(AgentProviderError, match="neither text nor a tool call") as caught:
        await agent.run("go", behavior=LoopOptions(max_seconds=1, max_repairs=0))
    assert caught.value.outcome is not None
    assert caught.value.outcome.status == ended[0].status == "error"
    assert ended[0].error is caught.value


async def test_cancellation_after_the_time_limit_is_raised() -> None:
    expired, release = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn(ctx: ToolContext) -> str:
        """Ignore the first cancellation."""
        try:
            await release.wait()
        except asyncio.CancelledError:
            expired.set()
            await release.wait()
        return "late"

    agent = make_agent(Script(tool_call_reply("stubborn")), tools=[stubborn])
    run = asyncio.ensure_future(agent.run("go", behavior=LoopOptions(max_seconds=1, abort_grace=5)))
    await expired.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert_results_follow_calls(agent.messages)


async def test_abort_before_the_time_limit_is_an_abort() -> None:
    started = asyncio.Event()
    agent = make_agent(
        Script(text_reply("slow", hang_after=1, started=started)), hooks=make_slow_handler(TurnAfter, 1.2)
    )
    run = asyncio.ensure_future(agent.run("go", behavior=LoopOptions(max_seconds=1, abort_grace=60)))
    await started.wait()
    agent.abort("by hand")
    with pytest.raises(AgentAbortedError, match="by hand"):
        await run


class AbortOnCloseModel(Script):
    """A model whose caller aborts while the finished stream is closed."""

    def __init__(self, signal: CancelToken, *answers: Any) -> None:
        super().__init__(*answers)
        self.signal = signal

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        try:
            async for event in super().stream(request):
                yield event
        finally:
            self.signal.cancel("by hand")
            await asyncio.Event().wait()


@pytest.mark.parametrize("retry", [True, False])
async def test_complete_response_stays_complete_if_the_abort_arrives_after_it(retry: bool) -> None:
    signal, events = CancelToken(), list[Any]()
    after: list[TurnAfter] = []
    bus = HookBus({TurnAfter: after.append})
    bus.subscribe(events.append)
    ctx = LoopContext()
    behavior = LoopOptions() if retry else LoopOptions(retry=None)
    model = AbortOnCloseModel(signal, text_reply("whole", tokens=7))
    with pytest.raises(AgentAbortedError, match="by hand") as caught:
        await agent_loop("go", ctx, make_config(model, bus=bus, behavior=behavior), signal)
    message = as_message(ctx.messages[-1])
    assert (message.text, message.stop_reason, message.error) == ("whole", "end_turn", None)
    assert "error" not in [e.type for e in events]
    assert [(a.usage.total_tokens, a.error) for a in after] == [(7, None)]
    assert caught.value.outcome is not None
    assert caught.value.outcome.text == "whole"


async def test_abandoned_tool_publishes_no_more_events() -> None:
    signal, release, finished = CancelToken(), asyncio.Event(), asyncio.Event()
    events: list[Any] = []

    @tool
    async def stubborn(ctx: ToolContext) -> str:
        """Report before and after the abort."""
        ctx.update("before")
        signal.cancel("enough")
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ctx.update("after")
        ctx.metadata(title="after")
        finished.set()
        return "late"

    bus = HookBus()
    bus.subscribe(events.append)
    ctx = LoopContext(tools=ToolRegistry([stubborn]))
    with pytest.raises(AgentAbortedError):
        await agent_loop(
            "go",
            ctx,
            make_config(Script(tool_call_reply("stubborn")), bus=bus, behavior=LoopOptions(abort_grace=0.01)),
            signal,
        )
    release.set()
    await finished.wait()
    assert [e.output for e in events if e.type == "tool_execution_update"] == ["before"]
    assert events[-1].type == "agent_end"


@pytest.mark.parametrize("by", ["abort", "cancel"])
async def test_end_hooks_contain_how_the_run_ended(by: str) -> None:
    started = asyncio.Event()
    agent = make_agent(Script(tool_call_reply("look", key="a", tokens=5), text_reply("slow", hang_after=1, started=started)), tools=[look])  # fmt: skip
    ends: list[tuple[str, Any]] = []
    events: list[Any] = []
    for name in ("agent:done", "session:end", "agent:abort"):
        agent.on(name, lambda ctx, name=name: ends.append((name, ctx)))
    agent.subscribe(events.append)
    run = asyncio.ensure_future(agent.run("go"))
    await started.wait()
    if by == "abort":
        agent.abort("enough")
    else:
        run.cancel()
    with pytest.raises(AgentAbortedError if by == "abort" else asyncio.CancelledError) as caught:
        await run
    assert [name for name, _ in ends] == ["agent:abort", "session:end", "agent:done"]
    abort, end, done = [ctx for _, ctx in ends]
    reason = "enough" if by == "abort" else "cancelled"
    assert (type(abort), abort.reason, abort.run_id) == (SessionEnd, reason, events[0].run_id)
    for hook in (end, done):
        assert (hook.status, hook.turns, hook.usage.estimated_calls) == ("aborted", 2, 1)
        assert hook.usage.total_tokens > 5
        assert (type(hook.error), hook.run_id) == (type(caught.value), events[0].run_id)
    last = events[-1]
    assert (last.type, last.status, last.run_id) == ("agent_end", "aborted", events[0].run_id)
    assert list(last.messages) == list(agent.messages)
    if by == "abort":
        assert last.exception is end.error is done.error is caught.value
    else:
        assert last.exception is None


@pytest.mark.covers("AGT-15", "AGT-34")
async def test_done_has_the_output_and_the_figures_of_the_run() -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    agent = make_agent(Script(tool_call_reply("look"), text_reply("the answer")), tools=[look])
    done: list[SessionEnd] = []
    agent.on("agent:done", done.append)

    result = await agent.run("go")

    [hook] = done
    assert hook.output == result.output == "the answer"
    assert (hook.stats.turns, hook.stats.tool_counts) == (2, {"look": 1})
    assert (hook.stats.usage, hook.stats.turn_usage) == (result.usage, result.stats.turn_usage)
    assert 0 < hook.stats.seconds <= result.stats.seconds


@pytest.mark.covers("AGT-34", "SES-17")
async def test_end_has_the_range_of_turns_that_the_run_added() -> None:
    agent = make_agent(Script(text_reply("one"), text_reply("two"), text_reply("three")))
    ranges: list[Any] = []
    agent.on("session:end", lambda ctx: ranges.append(ctx.turn_range))

    await agent.run("first")
    agent.follow_up("more")
    await agent.run("second")
    await agent.run(behavior=LoopOptions(max_turns=0))

    assert ranges == [(0, 1), (2, 5), None]
