"""The state of an agent between runs and the options of one run: queues, options, the abort signal, and the reset."""

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
    LoopOptions,
    MessageQueue,
    PendingCalls,
    RunResult,
    agent_loop,
)
from mainspring.loop.hooks import PermissionCheck, SessionEnd, SessionStart, ToolGate, TurnBefore
from mainspring.messages import CustomMessage, ImageBlock, Message, TextBlock, ToolUseBlock
from mainspring.models import ModelInfo, ModelRequest
from mainspring.tools import ToolContext, ToolRegistry, tool
from tests.unit.loop.harness import (
    Script,
    as_message,
    assert_results_follow_calls,
    fail,
    make_agent,
    make_config,
    text_reply,
    tool_call_reply,
    tool_calls_reply,
)


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


# --- the queue ---------------------------------------------------------------------------------------------------------


def texts(messages: Any) -> list[str]:
    return [as_message(m).text for m in messages]


def test_queue_returns_one_message_or_all_in_order() -> None:
    queue = MessageQueue()
    assert (queue.mode, len(queue), tuple(queue.take())) == ("one", 0, ())
    queue.put(Message.user("a"), Message.user("b"))
    queue.put(Message.user("c"))
    assert len(queue) == 3
    assert texts(queue.take()) == ["a"]
    queue.mode = "all"
    assert texts(queue.take()) == ["b", "c"]
    assert (len(queue), tuple(queue.take())) == (0, ())


def test_clear_returns_the_queued_messages() -> None:
    queue = MessageQueue("all")
    queue.put(Message.user("a"), Message.user("b"))
    assert texts(queue.clear()) == ["a", "b"]
    assert (len(queue), queue.clear()) == (0, ())


async def test_queue_mode_is_that_of_the_run() -> None:
    core_agent = make_agent(Script(*[text_reply("x") for _ in range(9)]), behavior=LoopOptions(steering="all"))
    for text in ("a", "b"):
        core_agent.follow_up(text)
    assert (await core_agent.run("go")).turns == 2
    for text in ("a", "b"):
        core_agent.follow_up(text)
    assert (await core_agent.run("go", behavior=LoopOptions(steering="one"))).turns == 3


async def test_messages_of_any_kind_can_be_queued() -> None:
    core_agent = make_agent(Script(text_reply("a"), text_reply("b"), text_reply("c")))
    core_agent.steer(Message.user("steered"))
    core_agent.follow_up(CustomMessage("note"))
    await core_agent.run("go")
    named = [m.custom_type if isinstance(m, CustomMessage) else m.text for m in core_agent.messages]
    assert named == ["go", "a", "steered", "b", "note", "c"]


# --- the reset ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("AGT-26")
async def test_reset_clears_the_conversation_and_queues_but_not_the_settings() -> None:
    model = Script(text_reply("a"), text_reply("b"))
    core_agent = make_agent(model, system="Be brief.", tools=[look])
    await core_agent.run("first")
    core_agent.steer("steered")
    core_agent.follow_up("later")
    core_agent.reset()
    assert (core_agent.messages, core_agent.running, core_agent.pending) == ((), False, None)
    result = await core_agent.run("second")
    assert (result.turns, texts(core_agent.messages)) == (1, ["second", "b"])
    assert model.requests[1].system == "Be brief."
    assert [t.name for t in model.requests[1].tools] == ["look"]
    assert model.requests[0].scratch is not model.requests[1].scratch


async def test_reset_drops_the_tool_calls_of_a_paused_run() -> None:
    hooks: Any = {PermissionCheck: lambda ctx: ctx.pause("sure?")}
    core_agent = make_agent(Script(tool_call_reply("look", key="a"), text_reply("b")), tools=[look], hooks=hooks)
    await core_agent.run("go")
    assert core_agent.pending is not None
    core_agent.reset()
    assert core_agent.pending is None
    with pytest.raises(AgentError, match="No tool call is waiting"):
        core_agent.answer(Approve())
    await core_agent.run("again")
    assert texts(core_agent.messages) == ["again", "b"]


class Plug:
    """A plugin without a state, so it has no reset."""

    def install(self, agent: CoreAgent) -> None:
        self.agent = agent

    def for_child(self) -> None:
        return None


async def test_plugins_are_installed_in_order() -> None:
    first, second = Plug(), Plug()
    core_agent = make_agent(Script(), plugs=[first, second])
    assert (first.agent, second.agent, core_agent.plugs) == (core_agent, core_agent, (first, second))
    core_agent.reset()


class Guard(Plug):
    """A plugin that rejects runs."""

    is_closed = False

    def check_run(self) -> None:
        if self.is_closed:
            raise ConfigError("closed")


async def test_plugin_can_reject_a_run_before_it_starts() -> None:
    guard, events = Guard(), list[Any]()
    model = Script(text_reply("a"))
    core_agent = make_agent(model, plugs=[Plug(), guard])
    core_agent.subscribe(events.append)
    guard.is_closed = True
    for raise_errors in (True, False):
        with pytest.raises(ConfigError, match="^closed$"):
            await core_agent.run("go", raise_errors=raise_errors)
    assert (core_agent.messages, core_agent.running, events, model.requests) == ((), False, [], [])
    guard.is_closed = False
    assert (await core_agent.run("go")).text == "a"


async def test_reset_during_a_run_is_rejected_and_changes_nothing() -> None:
    started = asyncio.Event()
    core_agent = make_agent(Script(text_reply("slow", hang_after=1, started=started)))
    run = asyncio.ensure_future(core_agent.run("go"))
    await started.wait()
    with pytest.raises(AgentBusyError, match=r"^This agent is running\. Call abort\(\) first\.$"):
        core_agent.reset()
    assert texts(core_agent.messages) == ["go"]
    core_agent.abort()
    with pytest.raises(AgentAbortedError, match=r"^The run was aborted\. "):
        await run


# --- options -----------------------------------------------------------------------------------------------------------


async def test_agent_has_plain_defaults() -> None:
    core_agent = CoreAgent(Script(), env=MemoryEnv({}))
    assert (core_agent.name, core_agent.context.system) == ("agent", "")
    assert (core_agent.session_id, dict(core_agent.extra), dict(core_agent.tool_aliases), core_agent.plugs) == (
        "",
        {},
        {},
        (),
    )
    assert (core_agent.behavior, core_agent.messages, core_agent.running, core_agent.pending) == (
        LoopOptions(),
        (),
        False,
        None,
    )
    assert core_agent.thinking is None
    assert isinstance(core_agent.steps, LiveSteps)


@pytest.mark.covers("CAC-09")
async def test_request_contains_every_option_of_the_run() -> None:
    core_agent = make_agent(Script(text_reply("a"), text_reply("b")), system="S", tools=[look])
    core_agent.session_id = "s1"
    behavior = LoopOptions(
        max_output_tokens=7, temperature=0.5, thinking="low", thinking_budget=9, timeout=3.0, retry=None
    )
    await core_agent.run("go", behavior=behavior)
    model: Any = core_agent.model
    request = model.requests[0]
    assert (request.system, [t.name for t in request.tools], request.session_id) == ("S", ["look"], "s1")
    assert (request.max_output_tokens, request.temperature, request.timeout) == (7, 0.5, 3.0)
    assert (request.thinking, request.thinking_budget) == ("low", 9)
    assert request.scratch is core_agent.context.scratch
    core_agent.session_id = ""
    await core_agent.run("again")
    request = model.requests[1]
    assert (request.session_id, request.temperature, request.timeout, request.thinking) == (None, None, None, None)


async def test_tools_receive_the_extra_data_of_the_agent() -> None:
    got: list[ToolContext] = []

    @tool
    async def work(ctx: ToolContext) -> str:
        """Work."""
        got.append(ctx)
        return "x"

    env = MemoryEnv({})
    core_agent = CoreAgent(
        Script(tool_call_reply("work"), text_reply("a")), env=env, name="tester", tools=[work], extra={"db": 1}
    )
    core_agent.session_id = "s1"
    await core_agent.run("go")
    [ctx] = got
    assert (ctx.env, ctx.agent, ctx.session_id, ctx.extra) == (env, "tester", "s1", {"db": 1})


async def test_system_prompt_of_a_run_can_be_empty() -> None:
    published: list[str] = []
    model = Script(text_reply("a"), text_reply("b"))
    core_agent = make_agent(model, system="Be kind.", hooks={"system:before": lambda ctx: published.append(ctx.system)})
    await core_agent.run("go", system="")
    await core_agent.run("go")
    assert published == [""]
    assert [r.system for r in model.requests] == ["", "Be kind."]


async def test_tools_of_one_run_are_called_and_the_system_prompt_stays() -> None:
    @tool
    async def other() -> str:
        """Do something else."""
        return "other"

    model = Script(tool_call_reply("other"), text_reply("a"))
    core_agent = make_agent(model, system="Be kind.", tools=[look])
    starts: list[Any] = []
    core_agent.on("system:before", starts.append)
    await core_agent.run("go", tools=[other])
    assert as_message(core_agent.messages[2]).tool_results[0].text == "other"
    assert model.requests[0].system == "Be kind."
    assert starts == []
    assert core_agent.active_tools == ("look",)


async def test_run_with_its_own_tools_resumes_a_paused_call() -> None:
    hooks: Any = {PermissionCheck: lambda ctx: ctx.pause("sure?")}
    core_agent = make_agent(Script(tool_call_reply("look", key="a"), text_reply("b")), hooks=hooks)
    await core_agent.run("go", tools=[look])
    assert core_agent.pending is not None
    core_agent.answer(Approve())
    result = await core_agent.run(tools=[look])
    assert (result.text, core_agent.pending) == ("b", None)
    assert as_message(core_agent.messages[2]).tool_results[0].text == "value of a"


async def test_session_start_reports_if_the_conversation_is_resumed() -> None:
    starts: list[SessionStart] = []
    events: list[Any] = []
    core_agent = make_agent(
        Script(text_reply("a"), text_reply("b")), name="tester", hooks={SessionStart: starts.append}
    )
    core_agent.subscribe(events.append)
    await core_agent.run("go")
    await core_agent.run("again")
    assert [(s.agent, s.resumed) for s in starts] == [("tester", False), ("tester", True)]
    ids = [e.run_id for e in events if e.type == "agent_start"]
    assert [s.run_id for s in starts] == ids
    assert len(set(ids)) == 2


async def test_thinking_level_of_the_run_applies_during_the_run() -> None:
    levels: list[Any] = []
    core_agent = make_agent(Script(text_reply("a")), behavior=LoopOptions(thinking="low"))
    core_agent.on(TurnBefore, lambda ctx: levels.append(core_agent.thinking))
    await core_agent.run("go", behavior=LoopOptions(thinking="high"))
    assert (levels, core_agent.thinking) == (["high"], "low")


async def test_tool_aliases_reach_the_model_and_the_hooks() -> None:
    names: list[str] = []
    model = Script(tool_call_reply("search", key="a"), text_reply("b"))
    core_agent = make_agent(model, tools=[look], tool_aliases={"look": "search"})
    core_agent.on(ToolGate, lambda ctx: names.append(f"{ctx.name} {ctx.display_name}"))
    await core_agent.run("go")
    assert [t.name for t in model.requests[0].tools] == ["search"]
    assert names == ["look search"]
    assert as_message(core_agent.messages[1]).tool_uses[0].name == "look"


# --- prompts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [" \n", [TextBlock("")], [Message.user("ok"), Message.user(" ")]])
async def test_blank_prompt_is_rejected(prompt: Any) -> None:
    core_agent = make_agent(Script(text_reply("never")))
    with pytest.raises(AgentError, match=r"^The prompt is empty\.$"):
        await core_agent.run(prompt)
    assert core_agent.messages == ()
    assert not core_agent.running


async def test_image_alone_is_a_valid_prompt() -> None:
    core_agent = make_agent(Script(text_reply("a cat")))
    assert (await core_agent.run([ImageBlock("image/png", "AAAA")])).text == "a cat"


async def test_run_without_a_prompt_needs_a_history_or_a_pause() -> None:
    with pytest.raises(
        AgentError,
        match=r"^Nothing to run: the conversation is empty\. Pass a prompt, or open a session with messages\.$",
    ):
        await make_agent(Script()).run()
    core_agent = make_agent(Script(text_reply("ok")), tools=[look])
    call = ToolUseBlock("c1", "look", {"key": "a"})
    core_agent.context.pending = PendingCalls(Message("assistant", (call,)))
    result = await core_agent.run()
    assert (result.text, len(core_agent.messages)) == ("ok", 3)


async def test_initial_messages_can_be_text() -> None:
    core_agent = make_agent(Script(text_reply("ok")), messages="from before")
    assert texts(core_agent.messages) == ["from before"]
    assert (await core_agent.run()).text == "ok"


# --- results -----------------------------------------------------------------------------------------------------------


async def test_failed_result_has_the_error_and_its_status() -> None:
    core_agent = make_agent(Script(fail(NetworkError("down", retryable=False))))
    result = await core_agent.run("go", raise_errors=False)
    assert isinstance(result.error, AgentProviderError)
    assert (result.status, result.turns, texts(result.messages)) == ("error", 1, ["go"])
    started = asyncio.Event()
    core_agent = make_agent(Script(text_reply("slow", hang_after=2, started=started)))
    run = asyncio.ensure_future(core_agent.run("go", raise_errors=False))
    await started.wait()
    core_agent.abort("enough")
    result = await run
    assert isinstance(result.error, AgentAbortedError)
    assert (result.status, result.text, str(result.error)[:27]) == ("aborted", "sl", "The run was aborted: enough")


async def test_error_before_the_run_is_always_raised() -> None:
    core_agent = make_agent(Script(text_reply("a")))
    await core_agent.run("go")
    with pytest.raises(AgentError, match="empty"):
        await core_agent.run(" ", raise_errors=False)
    started = asyncio.Event()
    core_agent = make_agent(Script(text_reply("slow", hang_after=1, started=started)))
    run = asyncio.ensure_future(core_agent.run("go"))
    await started.wait()
    with pytest.raises(AgentBusyError) as caught:
        await core_agent.run("me too", raise_errors=False)
    text = str(caught.value)
    assert text.startswith("This agent is already running.")
    for way in ("Wait for", "agent.steer(...)", "agent.follow_up(...)", "agent.conversation()"):
        assert way in text
    assert core_agent.running
    core_agent.abort()
    with pytest.raises(AgentAbortedError):
        await run


def test_result_from_messages_uses_the_last_response() -> None:
    first = Message("assistant", (TextBlock("one"),), stop_reason="end_turn")
    last = Message("assistant", (TextBlock("two"),), stop_reason="max_tokens")
    result = RunResult.from_messages([first, last, Message.user("after"), CustomMessage("x")], run_id="r")
    assert (result.text, result.output, result.stop_reason, result.run_id) == ("two", "two", "max_tokens", "r")
    assert (result.status, len(result.messages)) == ("error", 4)
    empty = RunResult.from_messages([Message.user("only")], status="completed")
    assert (empty.text, empty.output, empty.stop_reason, empty.status) == ("", "", None, "completed")


def test_output_as_checks_the_type() -> None:
    assert RunResult(status="completed", output_or_none=5).output_as(int) == 5
    with pytest.raises(AgentError, match=r"^The output, of type str, does not fit <class 'int'>: "):
        RunResult(status="completed", output_or_none="5").output_as(int)
    with pytest.raises(AgentError, match="^no JSON[.] Check result.status"):
        RunResult(status="completed", output_or_none=5, output_error="no JSON").output_as(int)


@pytest.mark.covers("BYD-20")
@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ({"max_turns": 2}, "max_turns"),
        ({"max_turns": 3}, "completed"),
        ({"max_total_tokens": 20}, "max_total_tokens"),
        ({"max_total_tokens": 21}, "completed"),
        ({"max_turns": 0}, "max_turns"),
    ],
)
async def test_limit_is_reached_at_its_value(limits: dict[str, Any], status: str) -> None:
    model = Script(
        tool_call_reply("look", key="a", tokens=10), tool_call_reply("look", key="a", tokens=10), text_reply("ok")
    )
    result = await make_agent(model, tools=[look]).run("go", behavior=LoopOptions(**limits))
    assert result.status == status


# --- approvals ---------------------------------------------------------------------------------------------------------


async def test_approval_needs_a_call_without_a_result() -> None:
    hooks: Any = {PermissionCheck: lambda ctx: ctx.pause("sure?") if ctx.input["key"] == "b" else None}
    block = [ToolUseBlock("c1", "look", {"key": "a"}), ToolUseBlock("c2", "look", {"key": "b"}), ToolUseBlock("c3", "look", {"key": "b"})]  # fmt: skip
    core_agent = make_agent(
        Script(tool_calls_reply(*block), text_reply("done")),
        tools=[look],
        hooks=hooks,
        behavior=LoopOptions(tool_execution="sequential"),
    )
    await core_agent.run("go")
    with pytest.raises(AgentError, match=r"^Unknown tool call: c1, ghost\. Waiting calls: c2, c3\.$"):
        core_agent.answer({"ghost": Approve(), "c1": Approve(), "c2": Approve()})
    assert core_agent.pending is not None
    assert core_agent.pending.answers == {}, "nothing is stored if one answer is invalid"
    core_agent.answer({"c3": Deny("not that")})
    assert [c.id for c in core_agent.pending.calls] == ["c2"]
    core_agent.answer(Approve())
    result = await core_agent.run()
    assert [r.text for r in as_message(core_agent.messages[2]).tool_results] == [
        "value of a",
        "value of b",
        "Permission denied: not that",
    ]
    assert result.status == "completed"


async def test_approval_during_a_run_is_rejected() -> None:
    rejected: list[str] = []
    hooks: Any = {PermissionCheck: lambda ctx: ctx.pause("sure?")}
    core_agent = make_agent(Script(tool_call_reply("look", key="a"), text_reply("b")), tools=[look], hooks=hooks)

    def late(ctx: SessionEnd) -> None:
        with pytest.raises(AgentError) as caught:
            core_agent.answer(Approve())
        rejected.append(str(caught.value))

    core_agent.on(SessionEnd, late)
    await core_agent.run("go")
    assert rejected == ["No tool call is waiting for approval."]


# --- streams and signals -----------------------------------------------------------------------------------------------


async def test_run_follows_the_cancel_token_of_the_caller_only_while_it_runs() -> None:
    signal = CancelToken()
    core_agent = make_agent(Script(text_reply("a"), text_reply("b")))
    await core_agent.run("go", signal=signal)
    core_agent.abort()
    assert not signal.cancelled, "the run has ended"
    signal.cancel("stopped before")
    with pytest.raises(AgentAbortedError, match=r"^The run was aborted: stopped before\. "):
        await core_agent.run("again", signal=signal)
    assert (await core_agent.run("once more")).text == "b"


async def test_stream_is_aborted_with_the_reason() -> None:
    started = asyncio.Event()
    core_agent = make_agent(Script(text_reply("slow", hang_after=1, started=started)))
    async with core_agent.stream("go") as run:
        await started.wait()
        run.abort("by hand")
        with pytest.raises(AgentAbortedError, match=r"^The run was aborted: by hand\. "):
            await run.result()
        assert run.signal.reason == "by hand"
    started = asyncio.Event()
    core_agent = make_agent(Script(text_reply("slow", hang_after=1, started=started)))
    async with core_agent.stream("go") as run:
        await started.wait()
        run.abort()
        with pytest.raises(AgentAbortedError, match=r"^The run was aborted\. "):
            await run.result()


async def test_leaving_the_stream_block_aborts_the_run_with_a_reason() -> None:
    started = asyncio.Event()
    core_agent = make_agent(Script(text_reply("slow", hang_after=1, started=started)))
    async with core_agent.stream("go") as run:
        await started.wait()
    with pytest.raises(AgentAbortedError, match=r"^The run was aborted: The caller left the stream\. "):
        await run.result()


async def test_stream_ends_when_its_task_is_cancelled() -> None:
    started = asyncio.Event()
    core_agent = make_agent(Script(text_reply("slow", hang_after=1, started=started)))
    handle = core_agent.stream("go")

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
    assert not core_agent.running
    assert not core_agent.bus.is_heard(AgentEnd)
    assert [e.type async for e in handle][-1] == "agent_end"
    with pytest.raises(AgentAbortedError):
        await handle.result()


async def test_stream_cancelled_during_shutdown_ends_with_an_abort() -> None:
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

    core_agent = make_agent(Script(tool_call_reply("stubborn")), tools=[stubborn], behavior=LoopOptions(abort_grace=30))
    handle = core_agent.stream("go")
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
    with pytest.raises(AgentAbortedError, match=r"^The run was aborted: its task was cancelled\. "):
        await handle.result()
    assert not core_agent.running
    assert_results_follow_calls(core_agent.messages)


async def test_stream_without_a_prompt_continues_the_history() -> None:
    core_agent = make_agent(Script(text_reply("ok")), messages="from before")
    async with core_agent.stream() as run:
        assert (await run.result()).text == "ok"
    assert texts(core_agent.messages) == ["from before", "ok"]


async def test_stream_not_entered_or_entered_twice_raises_a_helpful_error() -> None:
    handle = make_agent(Script(text_reply("ok"))).stream("go")
    text = "The run has not started. Use `async with agent.stream(...) as run:`, then `async for event in run:`."
    with pytest.raises(RuntimeError) as caught:
        await handle.result()
    assert str(caught.value) == text
    async with handle:
        await handle.result()
    with pytest.raises(
        RuntimeError,
        match=r"^This run has already started\. Start a new one with agent\.stream\(\.\.\.\) or agent_loop",
    ):
        await handle.__aenter__()


async def test_agent_can_make_a_side_call_during_a_run() -> None:
    other = Script(text_reply("from the other"))
    answers: list[str] = []

    async def ask(ctx: TurnBefore) -> None:
        request = ModelRequest(messages=[Message.user("which?")])
        answers.append((await core_agent.side_call("select", request, model=other)).text)

    core_agent = make_agent(Script(text_reply("ok")), hooks={TurnBefore: ask})
    await core_agent.run("go")
    assert answers == ["from the other"]


async def test_handlers_of_the_decorator_have_an_order() -> None:
    called: list[str] = []
    core_agent = make_agent(Script(text_reply("ok")))

    @core_agent.on(TurnBefore, order=2)
    def last(ctx: TurnBefore) -> None:
        called.append("last")

    @core_agent.on("turn:before", order=1)
    def first(ctx: TurnBefore) -> None:
        called.append("first")

    core_agent.on(TurnBefore, lambda ctx: called.append("before"), order=0)
    await core_agent.run("go")
    assert called == ["before", "first", "last"]


async def test_custom_message_conversion_is_used() -> None:
    def shout(messages: Any) -> list[Message]:
        return [Message.user(as_message(m).text.upper()) for m in messages]

    model = Script(text_reply("ok"))
    await CoreAgent(model, env=MemoryEnv({}), convert=shout).run("go")
    assert texts(model.requests[0].messages) == ["GO"]


async def test_stream_accepts_the_options_of_a_run() -> None:
    model = Script(text_reply("a"))
    core_agent = make_agent(Script())
    async with core_agent.stream("go", model=model, system="S", behavior=LoopOptions(temperature=0.5)) as run:
        assert (await run.result()).text == "a"
    assert (model.requests[0].system, model.requests[0].temperature) == ("S", 0.5)


async def test_subscribers_receive_the_events_of_the_loop_unchanged() -> None:
    published: list[Any] = []
    core_agent = make_agent(Script(text_reply("a")))
    core_agent.subscribe(published.append)
    await core_agent.run("go")
    assert isinstance(published[-1], AgentEnd)
    assert {type(e) for e in published if getattr(e, "type", "") == "message_update"} == {MessageUpdate}
    assert [e.event.type for e in published if isinstance(e, MessageUpdate)] == [
        "start",
        "text_start",
        "text_delta",
        "text_end",
        "done",
    ]


# --- the loop alone ----------------------------------------------------------------------------------------------------


async def test_loop_config_has_plain_defaults() -> None:
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


async def test_live_steps_create_ids_and_read_the_clock() -> None:
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


async def test_messages_with_an_id_keep_it() -> None:
    ctx = LoopContext()
    await agent_loop([Message.user("go", id="mine"), Message.user("more")], ctx, make_config(Script(text_reply("a"))))
    assert ctx.messages[0].id == "mine"
    assert ctx.messages[1].id not in ("", "mine", None)
    assert len({m.id for m in ctx.messages}) == 3


async def test_output_limit_of_the_run_is_used_if_the_model_has_none() -> None:
    model = Script(text_reply("a"))
    model.info = ModelInfo("scripted-1", "scripted", max_output_tokens=None)
    await agent_loop("go", LoopContext(tools=ToolRegistry([look])), make_config(model))
    assert model.requests[0].max_output_tokens == 16384
