"""A model call that fails or is aborted: the single error event, the partial message, the retries, and the usage."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mainspring.cancellation import CancelToken
from mainspring.errors import (
    AgentAbortedError,
    AgentContextExceededError,
    AgentError,
    AgentProviderError,
    ConfigError,
    ContextExceededError,
    ModelError,
    NetworkError,
    RateLimitedError,
)
from mainspring.events import ContextCompacted, MessageEnd, StreamEvent, TextDelta, UsageUpdate
from mainspring.loop import HookBus, LiveSteps, LoopContext, LoopOptions, RunResult, agent_loop
from mainspring.loop.hooks import (
    ContextTransform,
    ModelErrorHook,
    SystemTransform,
    TurnAfter,
    TurnBefore,
)
from mainspring.messages import Cost, CustomMessage, Message, TextBlock, ToolUseBlock, Usage
from mainspring.models import ModelRequest, RetryConfig
from mainspring.testing.scripted_model import Reply
from mainspring.tools import ToolRegistry, tool
from tests.unit.loop.harness import (
    Script,
    as_message,
    block_types,
    fail,
    make_agent,
    make_config,
    text_reply,
    tool_call_reply,
    tool_calls_reply,
    truncated_reply,
)

NO_RETRY = LoopOptions(retry=None)


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


def make_broken_reply(text: str = "half an answer", tokens: int = 7) -> Reply:
    """Return a reply that breaks off in the middle of its text."""
    usage = Usage(output_tokens=tokens, cost=Cost(output=0.25))
    return Reply(text, chunk_count=len(text), truncate_after=4, usage=usage)


async def run_until_failure(
    model: Script, ctx: LoopContext | None = None, **options: Any
) -> tuple[AgentError, list[Any]]:
    """Run until the failure and return the error with the events."""
    bus = options.pop("bus", None) or HookBus()
    events: list[Any] = []
    bus.subscribe(events.append)
    with pytest.raises(AgentError) as caught:
        await agent_loop("go", ctx or LoopContext(), make_config(model, bus=bus, behavior=NO_RETRY, **options))
    return caught.value, events


@pytest.mark.covers("STR-13", "ERR-10")
async def test_broken_stream_publishes_the_partial_message_once() -> None:
    ctx = LoopContext()
    error, events = await run_until_failure(Script(make_broken_reply()), ctx)
    names = [e.type for e in events]
    assert names[-4:] == ["error", "message_end", "turn_end", "agent_end"]
    [failure] = [e for e in events if e.type == "error"]
    partial = failure.message
    assert partial is events[-3].message is events[-2].message is ctx.messages[-1]
    assert (partial.text, partial.stop_reason, failure.reason) == ("half", "error", "error")
    assert (partial.provider, partial.model) == ("scripted", "scripted-1")
    assert partial.error == str(failure.exception) == str(error)
    assert partial.id
    assert partial.timestamp is not None
    assert isinstance(failure.exception, NetworkError)
    assert isinstance(error, AgentProviderError)
    assert error.cause is failure.exception
    assert events[-1].exception is error
    assert error.outcome is not None
    assert (error.outcome.text, error.outcome.status, error.outcome.turns) == ("half", "error", 1)


async def test_request_that_fails_before_any_output_adds_no_message() -> None:
    ctx = LoopContext()
    error, events = await run_until_failure(Script(fail(NetworkError("down"))), ctx)
    [failure] = [e for e in events if e.type == "error"]
    partial = failure.message
    assert (partial.role, partial.content, partial.stop_reason) == ("assistant", (), "error")
    assert (partial.provider, partial.model, partial.error) == ("scripted", "scripted-1", "down")
    assert block_types(ctx.messages) == ["user"]
    assert [e.type for e in events].count("turn_start") == [e.type for e in events].count("turn_end") == 1
    assert str(error) == "down"


async def test_stream_without_an_end_event_fails() -> None:
    class Endless(Script):
        async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
            async for event in super().stream(request):
                if event.type == "done":
                    return
                yield event

    error, _ = await run_until_failure(Endless(text_reply("whole")))
    assert isinstance(error, AgentProviderError)
    assert isinstance(error.cause, ModelError)
    assert str(error) == "The model's stream ended before its response was complete."
    assert (error.cause.reason, error.cause.provider) == ("stream_cut", "scripted")


async def test_provider_exception_is_classified_but_config_error_is_not() -> None:
    error, _ = await run_until_failure(Script(fail(ValueError("odd"))))
    assert isinstance(error, AgentProviderError)
    assert isinstance(error.cause, ModelError)
    with pytest.raises(ConfigError, match="^no key$"):
        await agent_loop("go", LoopContext(), make_config(Script(fail(ConfigError("no key"))), behavior=NO_RETRY))


async def test_context_exceeded_error_keeps_its_cause() -> None:
    original = ContextExceededError("too long")
    error, _ = await run_until_failure(Script(fail(original)))
    assert (type(error), str(error)) == (AgentContextExceededError, "too long")
    assert getattr(error, "cause", None) is original


async def test_usage_of_a_broken_stream_is_counted_once() -> None:
    after: list[TurnAfter] = []
    updates: list[UsageUpdate] = []
    bus = HookBus({TurnAfter: after.append, UsageUpdate: updates.append})
    error, events = await run_until_failure(Script(make_broken_reply()), bus=bus)
    partial = next(e.message for e in events if e.type == "error")
    outcome = error.outcome
    assert isinstance(outcome, RunResult)
    spent = partial.usage.total_tokens if partial.usage else 0
    assert outcome.usage.total_tokens == spent
    assert [u.total_tokens for u in outcome.stats.turn_usage] == ([spent] if partial.usage else [])
    assert updates == []
    [hook] = after
    assert (hook.turn, hook.usage, hook.message, hook.error) == (1, Usage(), partial, error)
    assert hook.turn_id == next(e.turn_id for e in events if e.type == "turn_start")
    assert hook.tool_counts == {}


class UsageThenError(Script):
    """A model that reports its usage and then fails, ``failures`` times."""

    def __init__(self, failures: int, *answers: Any) -> None:
        super().__init__(*answers)
        self.failures = failures

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        if self.failures:
            self.failures -= 1
            partial = Message(
                "assistant", (TextBlock("ha"),), usage=Usage(output_tokens=7, cost=Cost(output=0.25)), provider="other"
            )
            raise NetworkError("cut", partial=partial)
        async for event in super().stream(request):
            yield event


async def test_usage_of_the_partial_message_is_counted() -> None:
    error, events = await run_until_failure(UsageThenError(1))
    outcome = error.outcome
    assert isinstance(outcome, RunResult)
    assert outcome.usage.total_tokens == 7
    assert outcome.cost is not None
    assert outcome.cost.total == 0.25
    assert [u.total_tokens for u in outcome.stats.turn_usage] == [7]
    partial = next(e.message for e in events if e.type == "error")
    assert (partial.text, partial.provider, partial.stop_reason) == ("ha", "other", "error")


async def test_usage_of_retried_attempts_is_counted() -> None:
    bus = HookBus({ModelErrorHook: lambda ctx: ctx.retry()})
    model = UsageThenError(2, text_reply("whole", tokens=10))
    result = await agent_loop("go", LoopContext(), make_config(model, bus=bus, behavior=NO_RETRY))
    assert (result.text, result.turns, result.usage.total_tokens) == ("whole", 1, 24)
    assert [u.total_tokens for u in result.stats.turn_usage] == [10]


@pytest.mark.covers("HOK-45")
async def test_retry_by_a_handler_leaves_the_history_unchanged() -> None:
    seen: list[ModelErrorHook] = []
    compacted: list[Any] = []

    def retry(ctx: ModelErrorHook) -> None:
        seen.append(ctx)
        ctx.retry()

    bus = HookBus({ModelErrorHook: retry, ContextCompacted: compacted.append})
    starts: list[Any] = []
    bus.subscribe(lambda e: starts.append(e) if e.type == "turn_start" else None)
    ctx = LoopContext()
    model = Script(fail(NetworkError("one")), fail(NetworkError("two")), text_reply("ok"))
    await agent_loop("go", ctx, make_config(model, bus=bus, behavior=NO_RETRY))
    assert [(h.turn, h.attempt, str(h.error), h.turn_id) for h in seen] == [
        (1, 1, "one", starts[0].turn_id),
        (1, 2, "two", starts[0].turn_id),
    ]
    assert [as_message(m).text for m in seen[0].messages] == ["go"]
    assert compacted == []
    assert len(starts) == 1
    assert [as_message(m).text for m in ctx.messages] == ["go", "ok"]


async def test_handler_can_retry_three_times_per_turn() -> None:
    bus = HookBus({ModelErrorHook: lambda ctx: ctx.retry()})
    network_failures = [fail(NetworkError("down")) for _ in range(3)]
    model = Script(*network_failures, tool_call_reply("look", key="a"), *network_failures, text_reply("ok"))
    ctx = LoopContext(tools=ToolRegistry([look]))
    result = await agent_loop("go", ctx, make_config(model, bus=bus, behavior=NO_RETRY))
    assert (result.text, len(model.requests)) == ("ok", 8)


async def test_run_fails_if_no_handler_retries() -> None:
    seen: list[Any] = []
    model = Script(fail(NetworkError("down")), text_reply("never"))
    error, _ = await run_until_failure(model, bus=HookBus({ModelErrorHook: seen.append}))
    assert (str(error), len(seen), len(model.requests)) == ("down", 1, 1)


async def test_shortened_history_is_stored_with_the_reason_and_converted_again() -> None:
    compacted: list[ContextCompacted] = []

    def shorten(ctx: ModelErrorHook) -> None:
        ctx.retry([CustomMessage("note"), Message.user("short")])

    bus = HookBus({ModelErrorHook: shorten, ContextCompacted: compacted.append})
    ctx = LoopContext(messages=[Message.user("old")])
    model = Script(fail(ContextExceededError("too long")), text_reply("ok"))
    await agent_loop("go", ctx, make_config(model, bus=bus))
    assert [m.text for m in model.requests[1].messages] == ["short"]
    assert block_types(ctx.messages) == ["custom:note", "user", "assistant"]
    [hook] = compacted
    assert (hook.reason, len(hook.replaced), len(hook.messages)) == ("CONTEXT_LENGTH_EXCEEDED", 2, 2)


async def test_run_stopped_before_the_retry_fails() -> None:
    requests: list[int] = []

    def before(ctx: Any) -> None:
        requests.append(ctx.turn)
        if len(requests) == 2:
            ctx.stop = "max_cost"

    bus = HookBus({ModelErrorHook: lambda ctx: ctx.retry(), "turn:before": before})
    error, events = await run_until_failure(Script(fail(NetworkError("down")), text_reply("never")), bus=bus)
    assert str(error) == "down"
    assert events[-1].status == "error"


# --- retries of the client ---------------------------------------------------------------------------------------------


async def test_each_retry_is_published_before_its_wait() -> None:
    model = Script(fail(RateLimitedError("slow down")), fail(NetworkError("down")), text_reply("ok"))
    events: list[Any] = []
    bus = HookBus()
    bus.subscribe(events.append)
    behavior = LoopOptions(retry=RetryConfig(max_retries=5, base_delay_seconds=0.001, jitter=0))
    result = await agent_loop("go", LoopContext(), make_config(model, bus=bus, behavior=behavior))
    assert (result.text, result.turns) == ("ok", 1)
    retries = [e for e in events if e.type == "model_retry"]
    assert [(e.attempt, e.max_retries, e.delay, e.error.message) for e in retries] == [
        (1, 5, 0.001, "slow down"),
        (2, 5, 0.002, "down"),
    ]
    assert [e.type for e in events].count("error") == 0


async def test_first_failure_is_final_without_retries() -> None:
    error, events = await run_until_failure(Script(fail(RateLimitedError("slow down")), text_reply("never")))
    assert str(error) == "slow down"
    assert "model_retry" not in [e.type for e in events]


# --- aborts ------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("AGT-25", "STR-09", "STR-13")
@pytest.mark.parametrize("by", ["abort", "cancel"])
async def test_aborted_stream_keeps_its_partial_message(by: str) -> None:
    started = asyncio.Event()
    events: list[Any] = []
    after: list[TurnAfter] = []
    agent = make_agent(Script(text_reply("slow", hang_after=2, started=started)), hooks={TurnAfter: after.append})
    agent.subscribe(events.append)
    run = asyncio.ensure_future(agent.run("go"))
    await started.wait()
    if by == "abort":
        agent.abort("enough")
    else:
        run.cancel()
    with pytest.raises(AgentAbortedError if by == "abort" else asyncio.CancelledError) as caught:
        await run
    partial = as_message(agent.messages[-1])
    reason = "enough" if by == "abort" else "cancelled"
    assert (partial.text, partial.stop_reason, partial.error) == ("sl", "aborted", reason)
    assert partial.id
    assert partial.timestamp is not None
    [hook] = after
    assert (hook.message, type(hook.error)) == (partial, type(caught.value))
    updates = [e.event for e in events if e.type == "message_update"]
    assert [(e.type, getattr(e, "reason", "")) for e in updates][-1] == ("error", "aborted")
    assert updates[-1].message is partial
    assert updates[-1].error is None


async def test_tool_calls_of_a_broken_stream_never_run() -> None:
    ran: list[str] = []

    @tool
    async def act(key: str) -> str:
        """Act."""
        ran.append(key)
        return key

    ctx = LoopContext(tools=ToolRegistry([act]))
    events: list[Any] = []
    bus = HookBus()
    bus.subscribe(events.append)
    with pytest.raises(AgentProviderError):
        await agent_loop(
            "go",
            ctx,
            make_config(
                Script(truncated_reply("on my way", tool_call_reply("act", key="a"))), bus=bus, behavior=NO_RETRY
            ),
        )
    assert ran == []
    assert block_types(ctx.messages) == ["user", "assistant", "user"]
    [result] = as_message(ctx.messages[-1]).tool_results
    assert (result.text, result.is_error) == ("Not run: the response ended before it was complete.", True)
    ends = [e for e in events if e.type == "tool_execution_end"]
    assert [(e.call.name, e.result) for e in ends] == [("act", result)]
    assert [e.type for e in events][-4:] == ["message_start", "message_end", "turn_end", "agent_end"]


async def test_abort_while_the_request_is_built_sends_no_request() -> None:
    signal = CancelToken()
    model = Script(text_reply("never"))
    bus = HookBus({"context:transform": lambda ctx: signal.cancel("early")})
    events: list[Any] = []
    bus.subscribe(events.append)

    async def transform(messages: list[Any], given: CancelToken) -> list[Any]:
        assert given.cancelled
        await asyncio.Event().wait()
        return messages

    with pytest.raises(AgentAbortedError, match="early"):
        await agent_loop("go", LoopContext(), make_config(model, bus=bus, transform_context=transform), signal)
    assert model.requests == []
    assert "turn_start" not in [e.type for e in events]


# --- events of a successful stream ---------------------------------------------------------------------------------------


async def test_response_is_published_with_its_id_and_turn() -> None:
    events: list[Any] = []
    ended: list[MessageEnd] = []
    pieces: list[TextDelta] = []
    usage: list[UsageUpdate] = []
    after: list[TurnAfter] = []
    bus = HookBus(
        {"stream:end": ended.append, TextDelta: pieces.append, UsageUpdate: usage.append, TurnAfter: after.append}
    )
    bus.subscribe(events.append)
    ctx = LoopContext(tools=ToolRegistry([look]))
    model = Script(tool_call_reply("look", key="a", tokens=3), text_reply("ab", size=1, tokens=4))
    await agent_loop("go", ctx, make_config(model, bus=bus))
    message = as_message(ctx.messages[-1])
    starts = [e for e in events if e.type == "turn_start"]
    assert [e.turn for e in starts] == [1, 2]
    assert starts[0].turn_id != starts[1].turn_id
    assert [e.text for e in ended] == ["ab"]
    assert [e.text for e in pieces] == ["a", "b"]
    assert all(events.index(e) > events.index(starts[1]) for e in [*pieces, *ended])
    done = [e for e in events if e.type == "done"][-1]
    assert (done.reason, done.message) == ("end_turn", message)
    assert message.id
    assert message.timestamp is not None
    started_messages = [e.message for e in events if e.type == "message_start" and e.message.role == "assistant"]
    assert [(m.provider, m.model, m.content) for m in started_messages] == [("scripted", "scripted-1", ())] * 2
    assert [(u.turn, u.usage.total_tokens, u.total.total_tokens, u.purpose) for u in usage] == [
        (1, 3, 3, ""),
        (2, 4, 7, ""),
    ]
    assert [(a.turn, a.turn_id, a.usage.total_tokens, a.error) for a in after] == [
        (1, starts[0].turn_id, 3, None),
        (2, starts[1].turn_id, 4, None),
    ]
    assert after[1].tool_counts == {"look": 1}
    assert after[1].message.text == "ab"
    ends = [e for e in events if e.type == "turn_end"]
    assert [(e.turn, e.message.text, len(e.tool_results)) for e in ends] == [(1, "", 1), (2, "ab", 0)]


async def test_thinking_and_text_hooks_work_alone() -> None:
    for hook, expected in (("stream:text", ["a"]), ("stream:thinking", ["t"])):
        texts: list[str] = []
        bus = HookBus({hook: lambda event, h=texts: h.append(event.text)})
        await agent_loop("go", LoopContext(), make_config(Script(text_reply("a", thinking="t")), bus=bus))
        assert texts == expected


async def test_response_without_text_fires_no_stream_end() -> None:
    ended: list[Any] = []
    bus = HookBus({"stream:end": ended.append})
    ctx = LoopContext(tools=ToolRegistry([look]))
    await agent_loop(
        "go", ctx, make_config(Script(tool_calls_reply(tool_call_reply("look", key="a")), text_reply("ok")), bus=bus)
    )
    assert [e.text for e in ended] == ["ok"]


async def test_context_hooks_have_the_turn_id_and_the_transform_runs_last() -> None:
    hooks: list[Any] = []
    events: list[Any] = []

    def add(ctx: ContextTransform) -> None:
        hooks.append(ctx)
        ctx.messages = [*ctx.messages, Message.user("from the handler")]

    def select(messages: list[Any], signal: CancelToken) -> list[Any]:
        return [*messages, Message.user("from the application")]

    bus = HookBus({ContextTransform: add, SystemTransform: hooks.append, TurnBefore: hooks.append})
    bus.subscribe(events.append)
    model = Script(text_reply("ok"))
    await agent_loop("go", LoopContext(), make_config(model, bus=bus, transform_context=select))
    [turn_id] = [e.turn_id for e in events if e.type == "turn_start"]
    assert [(h.event, h.turn, h.turn_id) for h in hooks] == [
        ("context:transform", 1, turn_id),
        ("system:transform", 1, turn_id),
        ("turn:before", 1, turn_id),
    ]
    assert [m.text for m in model.requests[0].messages] == ["go", "from the handler", "from the application"]


async def test_turn_stopped_by_a_handler_is_not_counted() -> None:
    def stop(ctx: TurnBefore) -> None:
        ctx.stop = "max_cost" if ctx.turn == 3 else None

    calls_made = [tool_call_reply("look", key="a") for _ in range(3)]
    result = await make_agent(Script(*calls_made), tools=[look], hooks={TurnBefore: stop}).run("go")
    assert (result.status, result.turns) == ("max_cost", 2)


async def test_usage_without_a_price_does_not_count_toward_the_cost_limit() -> None:
    model = Script(tool_call_reply("look", key="a", tokens=5), text_reply("ok", tokens=5))
    result = await make_agent(model, tools=[look]).run("go", behavior=LoopOptions(max_cost=0.5))
    assert (result.status, result.usage.total_tokens) == ("completed", 10)


async def test_steps_receive_the_tool_call_they_run() -> None:
    recorded: list[ToolUseBlock] = []

    class CallRecorder(LiveSteps):
        async def tool(self, call: ToolUseBlock, run: Any) -> Any:
            recorded.append(call)
            return await run()

    block = ToolUseBlock("c1", "look", {"key": "a"})
    ctx = LoopContext(tools=ToolRegistry([look]))
    await agent_loop("go", ctx, make_config(Script(tool_calls_reply(block), text_reply("ok")), steps=CallRecorder()))
    assert recorded == [block]
