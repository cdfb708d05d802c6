"""The loop without an agent: requests, tool calls, history, and the end of a run."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.errors import (
    AgentAbortedError,
    AgentContextExceededError,
    AgentProviderError,
    ContextExceededError,
    NetworkError,
)
from mainspring.events import AgentEnd, AgentStart, Event, ToolExecutionStart, TurnEnd, TurnStart, UsageUpdate
from mainspring.loop import HookBus, LoopContext, LoopOptions, agent_loop
from mainspring.loop.hooks import ContextTransform, MessagesAdded, ModelErrorHook, TurnAfter, TurnBefore
from mainspring.messages import (
    CustomMessage,
    ImageBlock,
    Message,
    StopReason,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    convert_to_llm,
)
from mainspring.models import ModelInfo
from mainspring.testing import Reply
from mainspring.tools import ToolContext, ToolRegistry, tool
from mainspring.tools.execute import NOT_RUN_ABORTED
from tests.unit.loop.harness import (
    Script,
    as_message,
    assert_results_follow_calls,
    block_types,
    fail,
    make_config,
    text_reply,
    tool_call_reply,
    tool_calls_reply,
    truncated_reply,
)


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


def make_context(*tools: Any, system: str = "") -> LoopContext:
    return LoopContext(system=system, tools=ToolRegistry(tools or (look,)))


@pytest.mark.covers("AGT-01", "AGT-08", "AGT-35", "PKG-11", "TST-02", "TST-03")
async def test_loop_calls_the_model_runs_tools_and_returns_the_answer() -> None:
    model = Script(tool_call_reply("look", key="a"), text_reply("It is a."))
    ctx = make_context(system="Be brief.")
    result = await agent_loop("What is it?", ctx, make_config(model))
    assert result.status == "completed"
    assert [m.role for m in ctx.messages if isinstance(m, Message)] == ["user", "assistant", "user", "assistant"]
    assert tuple(ctx.messages) == result.messages
    assert [len(r.messages) for r in model.requests] == [1, 3]
    assert model.requests[1].messages[2].tool_results[0].content == "value of a"
    assert model.requests[0].system == "Be brief."
    assert [t.name for t in model.requests[0].tools] == ["look"]
    assert (result.turns, result.stats.tool_counts) == (2, {"look": 1})
    assert all(m.id for m in ctx.messages)
    assert_results_follow_calls(ctx.messages)


@pytest.mark.covers("PKG-11")
async def test_loop_keeps_nothing_between_runs_with_the_same_configuration() -> None:
    config = make_config(Script(text_reply("a"), text_reply("b")))
    first, second = make_context(), make_context()
    one, two = await agent_loop("one", first, config), await agent_loop("two", second, config)
    assert [as_message(m).text for m in one.messages] == ["one", "a"]
    assert [as_message(m).text for m in two.messages] == ["two", "b"]
    assert (tuple(first.messages), tuple(second.messages)) == (one.messages, two.messages)
    assert (one.turns, two.turns) == (1, 1)


@pytest.mark.covers("AGT-02", "AGT-22", "AGT-23", "AGT-24")
async def test_follow_ups_continue_a_run_that_would_stop() -> None:
    waiting = ["and b?", "and c?"]
    injected: list[tuple[str, str]] = []

    async def follow_up() -> list[Message]:
        return [Message.user(waiting.pop(0))] if waiting else []

    bus = HookBus({"steer:inject": lambda ctx: injected.append((ctx.kind, as_message(ctx.messages[0]).text))})
    model = Script(text_reply("a"), tool_call_reply("look", key="b"), text_reply("b"), text_reply("c"))
    ctx = make_context()
    result = await agent_loop("a?", ctx, make_config(model, bus=bus, get_follow_up=follow_up))
    texts = [m.text for m in ctx.messages if isinstance(m, Message)]
    assert texts == ["a?", "a", "and b?", "", "", "b", "and c?", "c"]
    assert injected == [("follow_up", "and b?"), ("follow_up", "and c?")]
    assert result.turns == 4


@pytest.mark.covers("AGT-20", "AGT-21", "AGT-23", "AGT-24", "TEX-22")
async def test_steering_message_skips_the_remaining_sequential_calls() -> None:
    ran: list[str] = []
    waiting: list[Message] = []

    @tool
    async def step(n: str) -> str:
        """Do a step."""
        ran.append(n)
        if n == "2":
            waiting.append(Message.user("use Celsius"))
        return n

    def steering() -> list[Message]:
        return [waiting.pop()] if waiting else []

    kinds_seen: list[str] = []
    bus = HookBus({"steer:inject": lambda ctx: kinds_seen.append(ctx.kind)})
    model = Script(tool_calls_reply(*(tool_call_reply("step", n=str(n)) for n in (1, 2, 3, 4))), text_reply("ok"))
    ctx = make_context(step)
    await agent_loop(
        "go", ctx, make_config(model, bus=bus, get_steering=steering, behavior=LoopOptions(tool_execution="sequential"))
    )
    assert ran == ["1", "2"]
    results = as_message(ctx.messages[2]).tool_results
    assert [r.is_error for r in results] == [False, False, True, True]
    assert all(r.text.startswith("Skipped: a new message from the user") for r in results[2:])
    assert as_message(ctx.messages[3]).text == "use Celsius"
    assert kinds_seen == ["steer"]
    assert_results_follow_calls(ctx.messages)


@pytest.mark.covers("TEX-22", "TEX-27", "TEX-31", "AGT-08", "AGT-18")
async def test_tool_sees_an_abort_and_the_remaining_calls_are_skipped() -> None:
    signal, ran = CancelToken(), list[str]()

    @tool
    async def step(n: str, ctx: ToolContext) -> str:
        """Do a step."""
        ran.append(n)
        if n == "2":
            signal.cancel("by hand")
            assert ctx.is_aborted
            assert ctx.signal.cancelled
        return n

    model = Script(tool_calls_reply(*(tool_call_reply("step", n=str(n)) for n in (1, 2, 3, 4))), text_reply("never"))
    ctx = make_context(step)
    with pytest.raises(AgentAbortedError, match="by hand"):
        await agent_loop("go", ctx, make_config(model, behavior=LoopOptions(tool_execution="sequential")), signal)

    results = as_message(ctx.messages[2]).tool_results
    assert ran == ["1", "2"]
    assert [r.is_error for r in results] == [False, False, True, True]
    assert {r.text for r in results[2:]} == {NOT_RUN_ABORTED}, "not reported as interrupted"
    assert len(model.requests) == 1


@pytest.mark.covers("AGT-20", "AGT-02")
async def test_steering_message_between_turns_continues_the_run() -> None:
    waiting = [Message.user("also Bergen")]
    model = Script(text_reply("Oslo"), text_reply("Bergen"))
    ctx = make_context()
    await agent_loop("Oslo?", ctx, make_config(model, get_steering=lambda: [waiting.pop()] if waiting else []))
    assert [m.text for m in ctx.messages if isinstance(m, Message)] == ["Oslo?", "Oslo", "also Bergen", "Bergen"]


@pytest.mark.covers("AGT-28")
async def test_turn_limit_ends_the_run_and_keeps_steering_messages_queued() -> None:
    queued = [Message.user("later")]
    removed: list[Message] = []

    def steering() -> list[Message]:
        removed.extend(queued)
        return [queued.pop()] if queued else []

    model = Script(*[tool_call_reply("look", key="x") for _ in range(9)])
    ctx = make_context()
    result = await agent_loop("go", ctx, make_config(model, get_steering=steering, behavior=LoopOptions(max_turns=1)))
    assert (result.status, result.turns, len(model.requests)) == ("max_turns", 1, 1)
    assert queued, "the message is still queued"
    assert not removed
    assert_results_follow_calls(ctx.messages)


@pytest.mark.covers("AGT-28")
async def test_turns_are_unlimited_by_default() -> None:
    model = Script(*[tool_call_reply("look", key="x") for _ in range(60)], text_reply("done"))
    result = await agent_loop("go", make_context(), make_config(model))
    assert (result.status, result.turns) == ("completed", 61)


@pytest.mark.covers("BYD-20")
async def test_token_time_and_cost_limits_stop_before_the_next_request() -> None:
    for limit, status in (
        (LoopOptions(max_total_tokens=10), "max_total_tokens"),
        (LoopOptions(max_seconds=0), "max_seconds"),
        (LoopOptions(max_cost=0.0), "max_cost"),
    ):
        model = Script(tool_call_reply("look", key="x", tokens=10), text_reply("never"))
        result = await agent_loop("go", make_context(), make_config(model, behavior=limit))
        assert result.status == status
        assert len(model.requests) <= 1


@pytest.mark.covers("AGT-29")
async def test_response_may_have_16384_tokens_by_default() -> None:
    model = Script(text_reply("a"), text_reply("b"))
    await agent_loop("go", make_context(), make_config(model))
    await agent_loop("go", make_context(), make_config(model, behavior=LoopOptions(max_output_tokens=7)))
    assert [r.max_output_tokens for r in model.requests] == [16384, 7]


@pytest.mark.covers("AGT-19", "HOK-21")
async def test_usage_adds_up_and_is_reported_to_turn_hooks() -> None:
    totals: list[int] = []
    record_messages: list[tuple[int, int, dict[str, int]]] = []

    def record_usage(ctx: UsageUpdate) -> None:
        totals.append(ctx.total.total_tokens)

    def after(ctx: TurnAfter) -> None:
        record_messages.append((ctx.turn, ctx.usage.total_tokens, dict(ctx.tool_counts)))

    bus = HookBus({UsageUpdate: record_usage, TurnAfter: after})
    model = Script(tool_call_reply("look", key="x", tokens=5), text_reply("done", tokens=7))
    result = await agent_loop("go", make_context(), make_config(model, bus=bus))
    assert totals == [5, 12]
    assert record_messages == [(1, 5, {}), (2, 7, {"look": 1})]
    assert result.usage.total_tokens == 12
    assert [u.total_tokens for u in result.stats.turn_usage] == [5, 7]


@pytest.mark.covers("HOK-45", "HOK-21")
async def test_turn_before_can_change_the_request_and_turn_after_can_continue_the_run() -> None:
    def before(ctx: TurnBefore) -> None:
        ctx.request.tools = ()
        ctx.request.tool_choice = "none"
        ctx.request = replace(ctx.request, max_output_tokens=3)

    def after(ctx: TurnAfter) -> None:
        if ctx.turn == 1:
            ctx.continue_with = [Message.user("go on")]

    model = Script(text_reply("one"), text_reply("two"))
    ctx = make_context()
    await agent_loop("go", ctx, make_config(model, bus=HookBus({TurnBefore: before, TurnAfter: after})))
    request = model.requests[0]
    assert (request.tools, request.tool_choice, request.max_output_tokens) == ((), "none", 3)
    assert [m.text for m in ctx.messages if isinstance(m, Message)] == ["go", "one", "go on", "two"]


@pytest.mark.covers("MSG-17")
async def test_transform_gets_the_token_of_the_run() -> None:
    signal, seen = CancelToken(), list[bool]()

    def transform(messages: list[Any], token: CancelToken) -> list[Any]:
        signal.cancel()
        seen.append(token.cancelled)
        return messages

    with pytest.raises(AgentAbortedError):
        await agent_loop("go", LoopContext(), make_config(Script(), transform_context=transform), signal)
    assert seen == [True]


@pytest.mark.covers("MSG-16", "MSG-17", "MSG-24")
async def test_request_is_built_by_hook_then_transform_then_conversion() -> None:
    order: list[str] = []

    async def transform(messages: list[Any], token: CancelToken) -> list[Any]:
        order.append("transform")
        assert isinstance(messages[0], CustomMessage)
        return [*messages, CustomMessage("hint", "H")]

    async def convert(messages: Any) -> list[Message]:
        order.append("convert")
        return [Message.user(f"<{m.custom_type}>") if isinstance(m, CustomMessage) else m for m in messages]

    bus = HookBus({"context:transform": lambda ctx: order.append("hook")})
    model = Script(text_reply("ok"))
    ctx = LoopContext(messages=[CustomMessage("note", 1)])
    await agent_loop("go", ctx, make_config(model, bus=bus, convert_to_llm=convert, transform_context=transform))
    assert order == ["hook", "transform", "convert"]
    assert [m.text for m in model.requests[0].messages] == ["<note>", "go", "<hint>"]
    assert block_types(ctx.messages) == ["custom:note", "user", "assistant"], "the history is unchanged"


@pytest.mark.covers("MSG-16")
async def test_conversion_may_be_synchronous() -> None:
    model = Script(text_reply("ok"))
    ctx = LoopContext(messages=[Message.user("old")])
    await agent_loop("go", ctx, make_config(model, convert_to_llm=lambda messages: convert_to_llm(messages)[-1:]))
    assert [m.text for m in model.requests[0].messages] == ["go"]


async def test_custom_messages_stay_out_of_requests_by_default() -> None:
    model = Script(tool_call_reply("look", key="a"), text_reply("ok"))
    ctx = LoopContext(messages=[CustomMessage("note", 1)], tools=ToolRegistry([look]))
    await agent_loop([Message.user("go"), CustomMessage("more")], ctx, make_config(model))
    assert [len(r.messages) for r in model.requests] == [1, 3]
    assert list(model.requests[1].messages) == convert_to_llm(ctx.messages)[:3]


@pytest.mark.covers("STR-09", "STR-13", "ERR-10", "AGT-17", "MSG-23")
async def test_broken_stream_keeps_its_partial_message_and_raises_after_one_error_event() -> None:
    events: list[Any] = []
    after: list[TurnAfter] = []
    bus = HookBus({TurnAfter: after.append})
    bus.subscribe(events.append)
    model = Script(truncated_reply("half an ans", tool_call_reply("look", key="a", tokens=3)))
    ctx = make_context()
    with pytest.raises(AgentProviderError) as caught:
        await agent_loop("go", ctx, make_config(model, bus=bus))
    assert isinstance(caught.value.cause, NetworkError)
    errors = [e for e in events if e.type == "error"]
    assert [e.reason for e in errors] == ["error"]
    assert errors[0].message.text == "half an ans"
    partial = ctx.messages[1]
    assert isinstance(partial, Message)
    assert (partial.stop_reason, partial.text) == ("error", "half an ans")
    assert "ended before it was complete" in as_message(ctx.messages[2]).tool_results[0].text
    assert_results_follow_calls(ctx.messages)
    assert partial.usage is not None
    assert (partial.usage.output_tokens, partial.usage.estimated_calls) == (4, 1)
    assert (after[0].usage, type(after[0].error)) == (Usage(), AgentProviderError)
    assert (events[-1].type, events[-1].status) == ("agent_end", "error")


async def test_context_overflow_has_its_own_error() -> None:
    model = Script(fail(ContextExceededError("too long")))
    with pytest.raises(AgentContextExceededError):
        await agent_loop("go", make_context(), make_config(model))


@pytest.mark.covers("HOK-45")
async def test_model_error_handler_can_retry_with_a_shorter_history() -> None:
    compacted: list[tuple[int, int]] = []
    tried: list[int] = []

    def shorten(ctx: ModelErrorHook) -> None:
        tried.append(ctx.attempt)
        if isinstance(ctx.error, ContextExceededError):
            ctx.retry(ctx.messages[-1:])

    bus = HookBus(
        {ModelErrorHook: shorten, "context:compacted": lambda c: compacted.append((len(c.replaced), len(c.messages)))}
    )
    model = Script(fail(ContextExceededError("too long")), text_reply("ok"))
    ctx = LoopContext(messages=[Message.user("old"), Message.assistant("older")])
    result = await agent_loop("new", ctx, make_config(model, bus=bus))
    assert result.status == "completed"
    assert (compacted, tried) == ([(3, 1)], [1])
    assert [m.text for m in ctx.messages if isinstance(m, Message)] == ["new", "ok"]
    endless = Script(*[fail(ContextExceededError("too long")) for _ in range(9)])
    with pytest.raises(AgentContextExceededError):
        await agent_loop("new", LoopContext(), make_config(endless, bus=bus))
    assert len(endless.requests) == 4, "the number of retries is limited"


@pytest.mark.covers("AGT-18", "AGT-25")
@pytest.mark.parametrize("when", ["before", "in the stream", "in a tool", "after the turn", "after the response"])
async def test_abort_ends_the_run_with_one_error_at_any_moment(when: str) -> None:
    signal = CancelToken()
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait forever."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    def after(ctx: TurnAfter) -> None:
        if when in {"after the turn", "after the response"}:
            signal.cancel("by hand")

    model = Script(
        text_reply("a long answer", hang_after=1, started=started)
        if when == "in the stream"
        else text_reply("the last response")
        if when == "after the response"
        else tool_calls_reply(tool_call_reply("wait"), tool_call_reply("wait"))
    )
    ctx = make_context(wait)
    if when == "before":
        signal.cancel("by hand")
        started.set()
    events: list[Any] = []
    bus = HookBus({TurnAfter: after})
    bus.subscribe(events.append)

    async def stop() -> None:
        await started.wait()
        signal.cancel("by hand")

    async with asyncio.TaskGroup() as tasks:
        if when in {"in the stream", "in a tool"}:
            tasks.create_task(stop())
        with pytest.raises(AgentAbortedError, match="by hand"):
            await agent_loop("go", ctx, make_config(model, bus=bus), signal)
    assert_results_follow_calls(ctx.messages)
    assert (events[-1].type, events[-1].status) == ("agent_end", "aborted")
    assert len(model.requests) == (when != "before")
    assert ("turn_start" in [e.type for e in events]) == (when != "before"), "no turn starts"
    if when == "in the stream":
        assert as_message(ctx.messages[-1]).stop_reason == "aborted"
        assert [e.reason for e in events if e.type == "error"] == ["aborted"]
    if when == "in a tool":
        assert all(r.is_error for r in as_message(ctx.messages[-1]).tool_results)


@pytest.mark.covers("AGT-25")
async def test_tool_that_ignores_an_abort_is_abandoned_and_has_a_result() -> None:
    signal, release = CancelToken(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Ignore everything."""
        signal.cancel("enough")
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    ctx = make_context(stubborn)
    with pytest.raises(AgentAbortedError):
        await agent_loop(
            "go", ctx, make_config(Script(tool_call_reply("stubborn")), behavior=LoopOptions(abort_grace=0.01)), signal
        )
    release.set()
    assert "unknown" in as_message(ctx.messages[-1]).tool_results[0].text
    assert_results_follow_calls(ctx.messages)


async def test_cancelling_the_task_completes_the_tool_results_and_propagates() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait forever."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    ctx = make_context(wait)
    added: list[Any] = []
    bus = HookBus({"tool-results:after": lambda c: added.append(c.results)})
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(
            agent_loop(
                "go",
                ctx,
                make_config(Script(tool_calls_reply(tool_call_reply("wait"), tool_call_reply("wait"))), bus=bus),
            )
        )
        await started.wait()
        running.cancel()
    assert running.cancelled()
    assert len(added) == 1
    assert_results_follow_calls(ctx.messages)


@pytest.mark.covers("ERR-10")
async def test_truncated_tool_call_is_not_run_and_retries_are_limited() -> None:
    ran: list[str] = []

    @tool
    async def write(text: str) -> str:
        """Write."""
        ran.append(text)
        return "ok"

    model = Script(*[tool_call_reply("write", text="pre", stop="max_tokens") for _ in range(9)])
    ctx = make_context(write)
    with pytest.raises(AgentProviderError, match="cut off at the output limit of 16384 tokens"):
        await agent_loop("go", ctx, make_config(model))
    assert not ran
    assert len(model.requests) == 4
    assert "output limit of 16384 tokens" in as_message(ctx.messages[2]).tool_results[0].text
    assert_results_follow_calls(ctx.messages)


async def test_empty_response_is_retried_a_limited_number_of_times() -> None:
    model = Script(text_reply("", thinking="hm"), text_reply("", thinking="hm"), text_reply("there"))
    result = await agent_loop("go", make_context(), make_config(model))
    assert (result.status, result.turns) == ("completed", 3)
    with pytest.raises(AgentProviderError, match="neither text nor a tool call"):
        await agent_loop("go", make_context(), make_config(Script(*[text_reply("") for _ in range(9)])))


async def test_reasoning_that_uses_the_output_limit_ends_the_run() -> None:
    model = Script(Reply(thinking="hm", stop_reason="max_tokens", usage=Usage(100, 16_384)), text_reply("never"))
    result = await agent_loop("go", make_context(), make_config(model))
    assert (result.status, result.stop_reason, result.text) == ("completed", "max_tokens", "")
    assert len(model.requests) == 1


async def test_paused_turn_is_continued_from_the_same_conversation() -> None:
    model = Script(
        Reply("Let me search.", stop_reason="pause_turn"), Reply("", stop_reason="pause_turn"), text_reply("42")
    )

    result = await agent_loop("go", make_context(), make_config(model))

    assert (result.status, result.text, result.turns) == ("completed", "42", 3)
    assert [message.role for message in model.requests[-1].messages] == ["user", "assistant", "assistant"]


@pytest.mark.parametrize("stop", ["end_turn", "max_tokens", "stop_sequence", None])
async def test_run_without_a_prompt_never_ends_its_request_with_the_assistant(stop: StopReason | None) -> None:
    model = Script(text_reply("two"))
    ctx = make_context()
    ctx.messages += [Message.user("hi"), Message("assistant", (TextBlock("one"),), stop_reason=stop)]

    result = await agent_loop((), ctx, make_config(model))

    assert result.text == "two"
    assert [message.role for message in model.requests[0].messages] == ["user", "assistant", "user"]
    assert model.requests[0].messages[-1].text == "Continue."


async def test_run_without_a_prompt_sends_the_queued_message_after_an_answer() -> None:
    model = Script(text_reply("two"))
    ctx = make_context()
    ctx.messages += [Message.user("hi"), Message("assistant", (TextBlock("one"),), stop_reason="end_turn")]
    queue = [Message.user("and now?")]

    config = make_config(model, get_follow_up=lambda: [queue.pop()] if queue else [])
    await agent_loop((), ctx, config)

    assert [message.text for message in model.requests[0].messages] == ["hi", "one", "and now?"]


async def test_run_without_a_prompt_continues_an_unanswered_prompt() -> None:
    model = Script(text_reply("one"))
    ctx = make_context()
    ctx.messages.append(Message.user("hi"))

    await agent_loop((), ctx, make_config(model))

    assert [message.text for message in model.requests[0].messages] == ["hi"]


@pytest.mark.covers("TEX-23")
async def test_calls_with_missing_or_duplicate_ids_get_unique_ids() -> None:
    model = Script(
        tool_calls_reply(
            ToolUseBlock("", "look", {"key": "a"}),
            ToolUseBlock("x", "look", {"key": "b"}),
            ToolUseBlock("x", "look", {"key": "c"}),
        ),
        text_reply("ok"),
    )
    ctx = make_context()
    await agent_loop("go", ctx, make_config(model))
    assert [r.content for r in as_message(ctx.messages[2]).tool_results] == ["value of a", "value of b", "value of c"]
    assert_results_follow_calls(ctx.messages)


@pytest.mark.covers("STR-11")
async def test_stream_hooks_receive_each_piece() -> None:
    pieces: list[str] = []
    bus = HookBus(
        {
            "stream:text": lambda c: pieces.append(c.text),
            "stream:thinking": lambda c: pieces.append(f"({c.text})"),
            "stream:end": lambda c: pieces.append(f"[{c.text}]"),
        }
    )
    model = Script(tool_call_reply("look", key="a"), text_reply("ab", thinking="t", size=1))
    await agent_loop("go", make_context(), make_config(model, bus=bus))
    assert pieces == ["(t)", "a", "b", "[ab]"], "a response without text has no stream:end"


async def test_messages_are_published_before_the_model_sees_them() -> None:
    order: list[str] = []

    def record_messages(ctx: MessagesAdded) -> None:
        order.append(f"{ctx.source}:{len(ctx.messages)}")

    bus = HookBus({MessagesAdded: record_messages, "turn:before": lambda c: order.append("request"), "tool:intent": lambda c: order.append("intent"),
                   "tool:start": lambda c: order.append("start"), "tool:after": lambda c: order.append("result"),
                   "tool-results:after": lambda c: order.append("pair")})  # fmt: skip
    await agent_loop(
        "go", make_context(), make_config(Script(tool_call_reply("look", key="x"), text_reply("ok")), bus=bus)
    )
    assert order == ["prompt:1", "request", "intent", "start", "result", "pair", "request", "assistant:1"]


@pytest.mark.covers("HOK-45")
async def test_paused_run_resumes_and_no_tool_runs_twice() -> None:
    ran: list[str] = []
    answers: dict[str, str] = {}

    @tool
    async def act(n: str) -> str:
        """Act."""
        ran.append(n)
        return f"did {n}"

    def permit(ctx: Any) -> None:
        assert ctx.turn_id
        if ctx.input["n"] == "2" and ctx.call_id not in answers:
            ctx.pause("may it?")

    paused: list[Any] = []
    bus = HookBus({"tool:permit": permit, "run:pause": paused.append})
    ctx = make_context(act)
    setup = make_config(Script(tool_calls_reply(tool_call_reply("act", n="1"), tool_call_reply("act", n="2"), tool_call_reply("act", n="3")), text_reply("done")), bus=bus,
                   behavior=LoopOptions(tool_execution="sequential"))  # fmt: skip
    first = await agent_loop("go", ctx, setup)
    assert (first.status, ran) == ("paused", ["1"])
    assert ctx.pending is not None
    assert list(paused[0].reasons.values()) == ["may it?"]
    assert block_types(ctx.messages) == ["user"], "calls and results are added together"
    answers[next(iter(paused[0].reasons))] = "yes"
    second = await agent_loop((), ctx, setup)
    assert (second.status, ran, ctx.pending) == ("completed", ["1", "2", "3"], None)
    assert [r.content for r in as_message(ctx.messages[2]).tool_results] == ["did 1", "did 2", "did 3"]
    assert_results_follow_calls(ctx.messages)


async def test_new_prompt_settles_the_calls_of_a_paused_run() -> None:
    bus = HookBus({"tool:permit": lambda ctx: ctx.pause("?")})
    ctx = make_context()
    await agent_loop("go", ctx, make_config(Script(tool_call_reply("look", key="a")), bus=bus))
    await agent_loop("never mind", ctx, make_config(Script(text_reply("fine"))))
    assert block_types(ctx.messages) == ["user", "assistant", "user", "user", "assistant"]
    assert "new message" in as_message(ctx.messages[2]).tool_results[0].text
    assert_results_follow_calls(ctx.messages)


async def test_text_response_keeps_its_blocks() -> None:
    ctx = make_context()
    await agent_loop("go", ctx, make_config(Script(text_reply("a"))))
    assert as_message(ctx.messages[1]).content == (TextBlock("a"),)


@pytest.mark.covers("AGT-08")
async def test_loop_can_be_iterated_for_its_events() -> None:
    run = agent_loop("go", make_context(), make_config(Script(tool_call_reply("look", key="a"), text_reply("done"))))

    events = [event async for event in run]

    assert isinstance(events[0], AgentStart)
    assert isinstance(events[-1], AgentEnd)
    assert [type(e) for e in events if isinstance(e, TurnStart | TurnEnd)] == [TurnStart, TurnEnd, TurnStart, TurnEnd]
    assert (await run).text == events[-1].text == "done"
    with pytest.raises(RuntimeError, match="already started"):
        await anext(aiter(run))


@pytest.mark.covers("AGT-08")
async def test_iteration_raises_the_failure_after_the_last_event() -> None:
    run = agent_loop("go", make_context(), make_config(Script(fail(NetworkError("down", retryable=False)))))
    events: list[Event] = []

    async def read() -> None:
        async for event in run:
            events.append(event)

    with pytest.raises(AgentProviderError, match="down"):
        await read()
    assert isinstance(events[-1], AgentEnd)
    assert events[-1].status == "error"


@pytest.mark.covers("AGT-08")
@pytest.mark.parametrize("leave_after", [AgentStart, ToolExecutionStart])
async def test_leaving_the_iteration_cancels_the_run(leave_after: type[Event]) -> None:
    ended: list[AgentEnd] = []

    @tool
    async def wait() -> str:
        """Wait forever."""
        await asyncio.Event().wait()
        return "never"

    ctx, config = make_context(wait), make_config(Script(tool_call_reply("wait")))
    config.bus.on(AgentEnd, ended.append)
    run = agent_loop("go", ctx, config)
    async with aclosing(aiter(run)) as events:
        async for event in events:
            if isinstance(event, leave_after):
                break

    with pytest.raises(AgentAbortedError, match="left the stream"):
        await run
    assert [end.status for end in ended] == ["aborted"]
    assert_results_follow_calls(ctx.messages)


@pytest.mark.covers("AGT-08")
async def test_two_runs_on_one_bus_can_be_iterated_one_after_the_other() -> None:
    bus, ctx = HookBus(), make_context()

    for text in ("first", "second"):
        run = agent_loop("go", ctx, make_config(Script(text_reply(text)), bus=bus))
        ends = [event.text async for event in run if isinstance(event, AgentEnd)]
        assert ends == [text]


@pytest.mark.parametrize("vision", [True, False])
async def test_messages_without_unseen_images_are_the_same_objects_in_each_request(vision: bool) -> None:
    picture = ToolResultBlock("1", "look", (ImageBlock("image/png", "A" * 8),))
    history = [Message.user("see"), Message.assistant([ToolUseBlock("1", "look")]), Message("user", (picture,))]
    model = Script(tool_call_reply("nope"), text_reply("done"))
    model.info = ModelInfo("scripted-1", "scripted", vision=vision)
    bus = HookBus({ContextTransform: lambda hook: None})
    context = make_context()
    context.messages.extend(history)
    await agent_loop("go", context, make_config(model, bus=bus))
    first, second = [request.messages[:3] for request in model.requests]
    assert [a is b for a, b in zip(first, second, strict=True)] == [True] * 3
    assert [a is b for a, b in zip(first, history, strict=True)] == [True, True, vision]
