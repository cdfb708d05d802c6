"""What an agent keeps between runs and what one run may override: queues, options, the abort signal, and the reset."""

import asyncio
from typing import Any

import pytest

from mainspring.cancellation import CancelToken
from mainspring.env import MemoryEnv
from mainspring.errors import (
    AgentAbortedError,
    AgentBusyError,
    AgentError,
    AgentProviderError,
    ConfigError,
    NetworkError,
)
from mainspring.events import AgentEnd, MessageUpdate
from mainspring.loop import (
    Approve,
    CoreAgent,
    Deny,
    LiveSteps,
    LoopConfig,
    LoopContext,
    MessageQueue,
    PendingCalls,
    RunOptions,
    RunResult,
    agent_loop,
)
from mainspring.loop.hooks import PermissionCheck, SessionEnd, SessionStart, SystemBefore, ToolGate, TurnBefore
from mainspring.messages import CustomMessage, ImageBlock, Message, TextBlock, ToolUseBlock
from mainspring.models import ModelInfo, ModelRequest
from mainspring.tools import ToolContext, ToolRegistry, tool
from tests.unit.loop.harness import (
    Script,
    agent,
    assert_results_follow_calls,
    calls,
    config,
    fail,
    said,
    text_reply,
    tool_call_reply,
)


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


# --- the queue ---------------------------------------------------------------------------------------------------------


def texts(messages: Any) -> list[str]:
    return [said(m).text for m in messages]


def test_a_queue_hands_out_one_message_or_all_in_order() -> None:
    queue = MessageQueue()
    assert (queue.mode, len(queue), tuple(queue.take())) == ("one", 0, ())
    queue.put(Message.user("a"), Message.user("b"))
    queue.put(Message.user("c"))
    assert len(queue) == 3
    assert texts(queue.take()) == ["a"]
    queue.mode = "all"
    assert texts(queue.take()) == ["b", "c"]
    assert (len(queue), tuple(queue.take())) == (0, ())


def test_a_cleared_queue_returns_what_it_held() -> None:
    queue = MessageQueue("all")
    queue.put(Message.user("a"), Message.user("b"))
    assert texts(queue.clear()) == ["a", "b"]
    assert (len(queue), queue.clear()) == (0, ())


async def test_the_mode_of_the_queues_is_that_of_the_run() -> None:
    one = agent(Script(*[text_reply("x") for _ in range(9)]), behavior=RunOptions(steering="all"))
    for text in ("a", "b"):
        one.follow_up(text)
    assert (await one.run("go")).turns == 2
    for text in ("a", "b"):
        one.follow_up(text)
    assert (await one.run("go", behavior=RunOptions(steering="one"))).turns == 3


async def test_messages_of_any_kind_may_be_queued() -> None:
    one = agent(Script(text_reply("a"), text_reply("b"), text_reply("c")))
    one.steer(Message.user("steered"))
    one.follow_up(CustomMessage("note"))
    await one.run("go")
    named = [m.custom_type if isinstance(m, CustomMessage) else m.text for m in one.messages]
    assert named == ["go", "a", "steered", "b", "note", "c"]


# --- the reset ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("AGT-26")
async def test_a_reset_empties_the_conversation_and_both_queues_and_keeps_the_rest() -> None:
    model = Script(text_reply("a"), text_reply("b"))
    one = agent(model, system="Be brief.", tools=[look])
    await one.run("first")
    one.steer("steered")
    one.follow_up("later")
    one.reset()
    assert (one.messages, one.running, one.pending) == ((), False, None)
    result = await one.run("second")
    assert (result.turns, texts(one.messages)) == (1, ["second", "b"])
    assert model.requests[1].system == "Be brief."
    assert [t.name for t in model.requests[1].tools] == ["look"]
    assert model.requests[0].scratch is not model.requests[1].scratch


async def test_a_reset_drops_the_calls_of_a_pause() -> None:
    hooks: Any = {PermissionCheck: lambda ctx: ctx.pause("sure?")}
    one = agent(Script(tool_call_reply("look", key="a"), text_reply("b")), tools=[look], hooks=hooks)
    await one.run("go")
    assert one.pending is not None
    one.reset()
    assert one.pending is None
    with pytest.raises(AgentError, match="No tool call is waiting"):
        one.answer(Approve())
    await one.run("again")
    assert texts(one.messages) == ["again", "b"]


class Plug:
    """A plugin without a state: it cannot be reset."""

    def install(self, agent: CoreAgent) -> None:
        self.agent = agent

    def for_child(self) -> None:
        return None


async def test_plugins_are_installed_with_the_agent_in_order() -> None:
    first, second = Plug(), Plug()
    one = agent(Script(), plugs=[first, second])
    assert (first.agent, second.agent, one.plugs) == (one, one, (first, second))
    one.reset()


class Guard(Plug):
    """A plugin that rejects runs."""

    is_closed = False

    def check_run(self) -> None:
        if self.is_closed:
            raise ConfigError("closed")


async def test_a_plugin_may_reject_a_run_before_anything_of_it_happens() -> None:
    guard, events = Guard(), list[Any]()
    model = Script(text_reply("a"))
    one = agent(model, plugs=[Plug(), guard])
    one.subscribe(events.append)
    guard.is_closed = True
    for raise_errors in (True, False):
        with pytest.raises(ConfigError, match="^closed$"):
            await one.run("go", raise_errors=raise_errors)
    assert (one.messages, one.running, events, model.requests) == ((), False, [], [])
    guard.is_closed = False
    assert (await one.run("go")).text == "a"


async def test_a_reset_during_a_run_is_rejected_and_changes_nothing() -> None:
    started = asyncio.Event()
    one = agent(Script(text_reply("slow", hang_after=1, started=started)))
    run = asyncio.ensure_future(one.run("go"))
    await started.wait()
    with pytest.raises(AgentBusyError, match=r"^This agent is running\. Call abort\(\) first\.$"):
        one.reset()
    assert texts(one.messages) == ["go"]
    one.abort()
    with pytest.raises(AgentAbortedError, match="^aborted$"):
        await run


# --- options -----------------------------------------------------------------------------------------------------------


async def test_an_agent_has_plain_defaults() -> None:
    one = CoreAgent(Script(), env=MemoryEnv({}))
    assert (one.name, one.context.system) == ("agent", "")
    assert (one.session_id, dict(one.extra), dict(one.tool_aliases), one.plugs) == ("", {}, {}, ())
    assert (one.behavior, one.messages, one.running, one.pending) == (RunOptions(), (), False, None)
    assert one.thinking is None
    assert isinstance(one.steps, LiveSteps)


async def test_the_request_of_a_run_carries_every_option() -> None:
    one = agent(Script(text_reply("a"), text_reply("b")), system="S", tools=[look])
    one.session_id = "s1"
    behavior = RunOptions(
        max_output_tokens=7, temperature=0.5, thinking="low", thinking_budget=9, timeout=3.0, retry=None
    )
    await one.run("go", behavior=behavior)
    model: Any = one.model
    request = model.requests[0]
    assert (request.system, [t.name for t in request.tools], request.session_id) == ("S", ["look"], "s1")
    assert (request.max_output_tokens, request.temperature, request.timeout) == (7, 0.5, 3.0)
    assert (request.thinking, request.thinking_budget) == ("low", 9)
    assert request.scratch is one.context.scratch
    one.session_id = ""
    await one.run("again")
    request = model.requests[1]
    assert (request.session_id, request.temperature, request.timeout, request.thinking) == (None, None, None, None)


async def test_tools_get_what_the_application_gave_the_agent() -> None:
    got: list[ToolContext] = []

    @tool
    async def work(ctx: ToolContext) -> str:
        """Work."""
        got.append(ctx)
        return "x"

    env = MemoryEnv({})
    one = CoreAgent(
        Script(tool_call_reply("work"), text_reply("a")), env=env, name="tester", tools=[work], extra={"db": 1}
    )
    one.session_id = "s1"
    await one.run("go")
    [ctx] = got
    assert (ctx.env, ctx.agent, ctx.session_id, ctx.extra) == (env, "tester", "s1", {"db": 1})


async def test_a_system_prompt_of_a_run_may_be_empty() -> None:
    told: list[str] = []
    model = Script(text_reply("a"), text_reply("b"))
    one = agent(model, system="Be kind.", hooks={SystemBefore: lambda ctx: told.append(ctx.system)})
    await one.run("go", system="")
    await one.run("go")
    assert told == [""]
    assert [r.system for r in model.requests] == ["", "Be kind."]


async def test_tools_of_one_run_are_called_and_the_system_prompt_stays() -> None:
    @tool
    async def other() -> str:
        """Do something else."""
        return "other"

    model = Script(tool_call_reply("other"), text_reply("a"))
    one = agent(model, system="Be kind.", tools=[look])
    starts: list[Any] = []
    one.on(SystemBefore, starts.append)
    await one.run("go", tools=[other])
    assert said(one.messages[2]).tool_results[0].text == "other"
    assert model.requests[0].system == "Be kind."
    assert starts == []
    assert one.active_tools == ("look",)


async def test_a_run_with_its_own_tools_resumes_a_paused_call() -> None:
    hooks: Any = {PermissionCheck: lambda ctx: ctx.pause("sure?")}
    one = agent(Script(tool_call_reply("look", key="a"), text_reply("b")), hooks=hooks)
    await one.run("go", tools=[look])
    assert one.pending is not None
    one.answer(Approve())
    result = await one.run(tools=[look])
    assert (result.text, one.pending) == ("b", None)
    assert said(one.messages[2]).tool_results[0].text == "value of a"


async def test_the_start_of_a_run_says_whether_it_continues_a_conversation() -> None:
    starts: list[SessionStart] = []
    events: list[Any] = []
    one = agent(Script(text_reply("a"), text_reply("b")), name="tester", hooks={SessionStart: starts.append})
    one.subscribe(events.append)
    await one.run("go")
    await one.run("again")
    assert [(s.agent, s.resumed) for s in starts] == [("tester", False), ("tester", True)]
    ids = [e.run_id for e in events if e.type == "agent_start"]
    assert [s.run_id for s in starts] == ids
    assert len(set(ids)) == 2


async def test_thinking_is_that_of_the_run_while_it_runs() -> None:
    levels: list[Any] = []
    one = agent(Script(text_reply("a")), behavior=RunOptions(thinking="low"))
    one.on(TurnBefore, lambda ctx: levels.append(one.thinking))
    await one.run("go", behavior=RunOptions(thinking="high"))
    assert (levels, one.thinking) == (["high"], "low")


async def test_aliases_reach_the_model_and_the_hooks() -> None:
    names: list[str] = []
    model = Script(tool_call_reply("search", key="a"), text_reply("b"))
    one = agent(model, tools=[look], tool_aliases={"look": "search"})
    one.on(ToolGate, lambda ctx: names.append(f"{ctx.name} {ctx.display_name}"))
    await one.run("go")
    assert [t.name for t in model.requests[0].tools] == ["search"]
    assert names == ["look search"]
    assert said(one.messages[1]).tool_uses[0].name == "look"


# --- prompts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [" \n", [TextBlock("")], [Message.user("ok"), Message.user(" ")]])
async def test_a_blank_prompt_is_rejected(prompt: Any) -> None:
    one = agent(Script(text_reply("never")))
    with pytest.raises(AgentError, match=r"^The prompt is empty\.$"):
        await one.run(prompt)
    assert one.messages == ()
    assert not one.running


async def test_an_image_alone_is_a_prompt() -> None:
    one = agent(Script(text_reply("a cat")))
    assert (await one.run([ImageBlock("image/png", "AAAA")])).text == "a cat"


async def test_without_a_prompt_a_history_or_a_pause_is_needed() -> None:
    with pytest.raises(
        AgentError,
        match=r"^Nothing to run: the conversation is empty\. Pass a prompt, or open a session with messages\.$",
    ):
        await agent(Script()).run()
    one = agent(Script(text_reply("ok")), tools=[look])
    call = ToolUseBlock("c1", "look", {"key": "a"})
    one.context.pending = PendingCalls(Message("assistant", (call,)))
    result = await one.run()
    assert (result.text, len(one.messages)) == ("ok", 3)


async def test_initial_messages_may_be_text() -> None:
    one = agent(Script(text_reply("ok")), messages="from before")
    assert texts(one.messages) == ["from before"]
    assert (await one.run()).text == "ok"


# --- results -----------------------------------------------------------------------------------------------------------


async def test_a_failure_as_a_result_has_the_error_and_its_status() -> None:
    one = agent(Script(fail(NetworkError("down", retryable=False))))
    result = await one.run("go", raise_errors=False)
    assert isinstance(result.error, AgentProviderError)
    assert (result.status, result.turns, texts(result.messages)) == ("error", 1, ["go"])
    started = asyncio.Event()
    one = agent(Script(text_reply("slow", hang_after=2, started=started)))
    run = asyncio.ensure_future(one.run("go", raise_errors=False))
    await started.wait()
    one.abort("enough")
    result = await run
    assert isinstance(result.error, AgentAbortedError)
    assert (result.status, result.text, str(result.error)) == ("aborted", "sl", "enough")


async def test_an_error_before_the_run_is_always_raised() -> None:
    one = agent(Script(text_reply("a")))
    await one.run("go")
    with pytest.raises(AgentError, match="empty"):
        await one.run(" ", raise_errors=False)
    started = asyncio.Event()
    one = agent(Script(text_reply("slow", hang_after=1, started=started)))
    run = asyncio.ensure_future(one.run("go"))
    await started.wait()
    with pytest.raises(AgentBusyError) as caught:
        await one.run("me too", raise_errors=False)
    assert str(caught.value) == (
        "This agent is already running. Use steer() or follow_up() to reach the run, or start another agent."
    )
    assert one.running
    one.abort()
    with pytest.raises(AgentAbortedError):
        await run


def test_a_result_is_made_of_the_last_response() -> None:
    first = Message("assistant", (TextBlock("one"),), stop_reason="end_turn")
    last = Message("assistant", (TextBlock("two"),), stop_reason="max_tokens")
    result = RunResult.from_messages([first, last, Message.user("after"), CustomMessage("x")], run_id="r")
    assert (result.text, result.output, result.stop_reason, result.run_id) == ("two", "two", "max_tokens", "r")
    assert (result.status, len(result.messages)) == ("error", 4)
    empty = RunResult.from_messages([Message.user("only")], status="completed")
    assert (empty.text, empty.output, empty.stop_reason, empty.status) == ("", "", None, "completed")


def test_a_typed_output_is_checked() -> None:
    assert RunResult(status="completed", output=5).output_as(int) == 5
    with pytest.raises(AgentError, match=r"^The output is of type str, not <class 'int'>\.$"):
        RunResult(status="completed", output="5").output_as(int)
    with pytest.raises(AgentError, match="^no JSON$"):
        RunResult(status="completed", output=5, output_error="no JSON").output_as(int)


@pytest.mark.covers("BYD-20")
@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ({"max_turns": 2}, "max_turns"),
        ({"max_turns": 3}, "completed"),
        ({"max_total_tokens": 20}, "max_tokens"),
        ({"max_total_tokens": 21}, "completed"),
        ({"max_turns": 0}, "max_turns"),
    ],
)
async def test_a_limit_is_reached_at_its_value(limits: dict[str, Any], status: str) -> None:
    model = Script(
        tool_call_reply("look", key="a", tokens=10), tool_call_reply("look", key="a", tokens=10), text_reply("ok")
    )
    result = await agent(model, tools=[look]).run("go", behavior=RunOptions(**limits))
    assert result.status == status


# --- approvals ---------------------------------------------------------------------------------------------------------


async def test_an_approval_needs_a_call_without_a_result() -> None:
    hooks: Any = {PermissionCheck: lambda ctx: ctx.pause("sure?") if ctx.input["key"] == "b" else None}
    block = [ToolUseBlock("c1", "look", {"key": "a"}), ToolUseBlock("c2", "look", {"key": "b"}), ToolUseBlock("c3", "look", {"key": "b"})]  # fmt: skip
    one = agent(
        Script(calls(*block), text_reply("done")),
        tools=[look],
        hooks=hooks,
        behavior=RunOptions(tool_execution="sequential"),
    )
    await one.run("go")
    with pytest.raises(AgentError, match=r"^Unknown tool call: c1, ghost\. Waiting calls: c2, c3\.$"):
        one.answer({"ghost": Approve(), "c1": Approve(), "c2": Approve()})
    assert one.pending is not None
    assert one.pending.answers == {}, "nothing is stored if one of them is wrong"
    one.answer({"c3": Deny("not that")})
    assert [c.id for c in one.pending.calls] == ["c2"]
    one.answer(Approve())
    result = await one.run()
    assert [r.text for r in said(one.messages[2]).tool_results] == [
        "value of a",
        "value of b",
        "Permission denied: not that",
    ]
    assert result.status == "completed"


async def test_an_approval_during_a_run_is_rejected() -> None:
    rejected: list[str] = []
    hooks: Any = {PermissionCheck: lambda ctx: ctx.pause("sure?")}
    one = agent(Script(tool_call_reply("look", key="a"), text_reply("b")), tools=[look], hooks=hooks)

    def late(ctx: SessionEnd) -> None:
        with pytest.raises(AgentError) as caught:
            one.answer(Approve())
        rejected.append(str(caught.value))

    one.on(SessionEnd, late)
    await one.run("go")
    assert rejected == ["No tool call is waiting for approval."]


# --- streams and signals -----------------------------------------------------------------------------------------------


async def test_a_run_follows_the_signal_of_the_caller_and_lets_go_of_it() -> None:
    signal = CancelToken()
    one = agent(Script(text_reply("a"), text_reply("b")))
    await one.run("go", signal=signal)
    one.abort()
    assert not signal.cancelled, "the run is over"
    signal.cancel("stopped before")
    with pytest.raises(AgentAbortedError, match="^stopped before$"):
        await one.run("again", signal=signal)
    assert (await one.run("once more")).text == "b"


async def test_a_stream_is_aborted_with_the_reason() -> None:
    started = asyncio.Event()
    one = agent(Script(text_reply("slow", hang_after=1, started=started)))
    async with one.stream("go") as run:
        await started.wait()
        run.abort("by hand")
        with pytest.raises(AgentAbortedError, match="^by hand$"):
            await run.result()
        assert run.signal.reason == "by hand"
    started = asyncio.Event()
    one = agent(Script(text_reply("slow", hang_after=1, started=started)))
    async with one.stream("go") as run:
        await started.wait()
        run.abort()
        with pytest.raises(AgentAbortedError, match="^aborted$"):
            await run.result()


async def test_leaving_the_block_of_a_stream_aborts_its_run_with_a_reason() -> None:
    started = asyncio.Event()
    one = agent(Script(text_reply("slow", hang_after=1, started=started)))
    async with one.stream("go") as run:
        await started.wait()
    with pytest.raises(AgentAbortedError, match=r"^The caller left the stream\.$"):
        await run.result()


async def test_a_stream_whose_task_is_cancelled_ends() -> None:
    started = asyncio.Event()
    one = agent(Script(text_reply("slow", hang_after=1, started=started)))
    handle = one.stream("go")

    async def work() -> None:
        async with handle:
            await started.wait()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(work())
    await started.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not one.running
    assert not one.bus.listeners
    assert [e.type async for e in handle][-1] == "agent_end"
    with pytest.raises(AgentAbortedError):
        await handle.result()


async def test_a_stream_that_is_cancelled_while_it_winds_up_ends_with_an_abort() -> None:
    cancelled, release = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Ignore the first cancellation."""
        try:
            await release.wait()
        except asyncio.CancelledError:
            cancelled.set()
            await release.wait()
        return "late"

    one = agent(Script(tool_call_reply("stubborn")), tools=[stubborn], behavior=RunOptions(abort_grace=30))
    handle = one.stream("go")
    running = asyncio.Event()

    async def leave_early() -> None:
        async with handle:
            async for event in handle:
                if event.type == "tool_execution_start":
                    running.set()
                    break

    task = asyncio.ensure_future(leave_early())
    await running.wait()
    await cancelled.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(AgentAbortedError, match=r"^The run was cancelled\.$"):
        await handle.result()
    assert not one.running
    assert_results_follow_calls(one.messages)


async def test_a_stream_without_a_prompt_continues_the_history() -> None:
    one = agent(Script(text_reply("ok")), messages="from before")
    async with one.stream() as run:
        assert (await run.result()).text == "ok"
    assert texts(one.messages) == ["from before", "ok"]


async def test_a_stream_that_was_not_entered_or_was_entered_twice_says_what_to_do() -> None:
    handle = agent(Script(text_reply("ok"))).stream("go")
    text = "The run has not started. Use `async with agent.stream(...) as run:`, then `async for event in run:`."
    with pytest.raises(RuntimeError) as caught:
        await handle.result()
    assert str(caught.value) == text
    async with handle:
        await handle.result()
    with pytest.raises(
        RuntimeError, match=r"^This run has already started\. Call agent\.stream\(\.\.\.\) for a new one\.$"
    ):
        await handle.__aenter__()


async def test_an_agent_may_ask_another_model_during_a_run() -> None:
    other = Script(text_reply("from the other"))
    answers: list[str] = []

    async def ask(ctx: TurnBefore) -> None:
        request = ModelRequest(messages=[Message.user("which?")])
        answers.append((await one.side_call("select", request, model=other)).text)

    one = agent(Script(text_reply("ok")), hooks={TurnBefore: ask})
    await one.run("go")
    assert answers == ["from the other"]


async def test_handlers_that_a_decorator_registers_have_an_order() -> None:
    called: list[str] = []
    one = agent(Script(text_reply("ok")))

    @one.on(TurnBefore, order=2)
    def last(ctx: TurnBefore) -> None:
        called.append("last")

    @one.on("turn:before", order=1)
    def first(ctx: TurnBefore) -> None:
        called.append("first")

    one.on(TurnBefore, lambda ctx: called.append("before"), order=0)
    await one.run("go")
    assert called == ["before", "first", "last"]


async def test_the_conversion_of_the_application_is_used() -> None:
    def shout(messages: Any) -> list[Message]:
        return [Message.user(said(m).text.upper()) for m in messages]

    model = Script(text_reply("ok"))
    await CoreAgent(model, env=MemoryEnv({}), convert=shout).run("go")
    assert texts(model.requests[0].messages) == ["GO"]


async def test_a_stream_takes_the_options_of_a_run() -> None:
    model = Script(text_reply("a"))
    one = agent(Script())
    async with one.stream("go", model=model, system="S", behavior=RunOptions(temperature=0.5)) as run:
        assert (await run.result()).text == "a"
    assert (model.requests[0].system, model.requests[0].temperature) == ("S", 0.5)


async def test_subscribers_get_the_events_of_the_loop_unchanged() -> None:
    heard: list[Any] = []
    one = agent(Script(text_reply("a")))
    one.subscribe(heard.append)
    await one.run("go")
    assert isinstance(heard[-1], AgentEnd)
    assert {type(e) for e in heard if getattr(e, "type", "") == "message_update"} == {MessageUpdate}
    assert [e.event.type for e in heard if isinstance(e, MessageUpdate)] == [
        "start",
        "text_start",
        "text_delta",
        "text_end",
        "done",
    ]


# --- the loop alone ----------------------------------------------------------------------------------------------------


async def test_a_loop_configuration_has_plain_defaults() -> None:
    setup = LoopConfig(model=Script(text_reply("a")), env=MemoryEnv({}))
    assert (setup.agent, setup.session_id, setup.has_custom_system_prompt, dict(setup.extra), dict(setup.aliases)) == (
        "",
        "",
        False,
        {},
        {},
    )
    result = await agent_loop("go", LoopContext(), setup)
    assert (result.text, result.status) == ("a", "completed")


async def test_the_steps_name_messages_and_runs_and_read_the_clock() -> None:
    steps = LiveSteps()
    ids = [steps.new_id() for _ in range(300)]
    assert len(set(ids)) == 300
    assert sorted(ids) == ids
    assert len({len(i) for i in ids}) == 1
    assert ids[0] not in {LiveSteps().new_id() for _ in range(3)}
    assert steps.now().tzinfo is not None
    first = steps.elapsed()
    assert steps.elapsed() >= first
    fired = asyncio.Event()
    steps.call_later(0, fired.set)
    await fired.wait()
    never: list[int] = []
    steps.call_later(0, lambda: never.append(1))()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert never == []
    signal = CancelToken()
    assert await steps.sleep(0, None) is True
    signal.cancel()
    assert await steps.sleep(60, signal) is False


async def test_messages_that_come_with_an_id_keep_it() -> None:
    ctx = LoopContext()
    await agent_loop([Message.user("go", id="mine"), Message.user("more")], ctx, config(Script(text_reply("a"))))
    assert ctx.messages[0].id == "mine"
    assert ctx.messages[1].id not in ("", "mine", None)
    assert len({m.id for m in ctx.messages}) == 3


async def test_a_model_without_an_output_limit_is_asked_with_that_of_the_run() -> None:
    model = Script(text_reply("a"))
    model.info = ModelInfo("scripted-1", "scripted", max_output_tokens=None)
    await agent_loop("go", LoopContext(tools=ToolRegistry([look])), config(model))
    assert model.requests[0].max_output_tokens == 16384
