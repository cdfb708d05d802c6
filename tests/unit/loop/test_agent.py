"""The agent: its conversation, runs, subscribers, and aborts."""

import asyncio
import gc
import threading
from collections import Counter
from typing import Any

import pytest

from mainspring.cancellation import CancelToken
from mainspring.errors import (
    AgentAbortedError,
    AgentBusyError,
    AgentError,
    AgentProviderError,
    ConfigError,
    NetworkError,
)
from mainspring.events import AgentEnd, MessageUpdate, TextDelta
from mainspring.loop import CoreAgent, LoopOptions, RunResult
from mainspring.loop.hooks import ToolGate, TurnAfter
from mainspring.messages import CustomMessage, Message, TextBlock
from mainspring.tools import define_tool, tool
from tests.unit.loop.harness import (
    Script,
    as_message,
    assert_results_follow_calls,
    block_types,
    fail,
    make_agent,
    text_reply,
    tool_call_reply,
    tool_calls_reply,
)


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@pytest.mark.covers("AGT-01", "AGT-07", "AGT-35")
async def test_runs_continue_the_conversation_until_a_reset() -> None:
    model = Script(
        tool_call_reply("look", key="a"), text_reply("one", tokens=3), text_reply("two"), text_reply("three")
    )
    core_agent = make_agent(model, tools=[look])
    result = await core_agent.run("first")
    assert (result.text, result.output, result.status, result.stop_reason) == ("one", "one", "completed", "end_turn")
    assert (result.turns, result.usage.total_tokens, result.stats.tool_counts) == (2, 3, {"look": 1})
    await core_agent.prompt("second")
    assert model.requests[-1].messages[-1].text == "second"
    assert [len(r.messages) for r in model.requests] == [1, 3, 5]
    assert block_types(core_agent.messages) == ["user", "assistant", "user", "assistant", "user", "assistant"]
    core_agent.reset()
    await core_agent.run("third")
    assert [len(r.messages) for r in model.requests][-1] == 1
    assert len(core_agent.tools) == 1


@pytest.mark.covers("AGT-03", "AGT-04", "AGT-05", "AGT-06", "STR-04", "STR-08", "TST-09")
async def test_stream_publishes_every_event_in_order() -> None:
    model = Script(tool_call_reply("look", key="a"), text_reply("hi", size=1))
    async with make_agent(model, tools=[look]).stream("go") as run:
        events: list[Any] = [e async for e in run]
        result = await run.result()
    names = [e.type for e in events]
    assert names == [
        "agent_start", "message_start", "message_end",
        "turn_start", "message_start", "start", "toolcall_start", "toolcall_delta", "toolcall_end", "done", "message_end",
        "usage_update", "tool_execution_start", "tool_execution_end", "message_start", "message_end", "turn_end",
        "turn_start", "message_start", "start", "text_start", "text_delta", "text_delta", "text_end", "done", "message_end",
        "usage_update", "turn_end", "agent_end",
    ]  # fmt: skip
    assert events[-1].messages == result.messages
    assert tuple(e.message for e in events if e.type == "message_end") == result.messages
    assert [e.message for e in events if e.type == "turn_end"] == [result.messages[1], result.messages[3]]
    assert [e.message.role for e in events if e.type == "message_start"] == ["user", "assistant", "user", "assistant"]
    assert [r.text for r in events[16].tool_results] == ["value of a"]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "hi"


@pytest.mark.covers("AGT-07", "AGT-05")
async def test_subscribers_receive_message_updates() -> None:
    published: list[Any] = []
    core_agent = make_agent(Script(text_reply("hi"), text_reply("again")))
    remove = core_agent.subscribe(published.append)
    await core_agent.run("go")
    assert {"agent_start", "turn_start", "message_update", "agent_end"} <= {e.type for e in published}
    updates = [e for e in published if isinstance(e, MessageUpdate)]
    assert updates[-1].message.text == "hi"
    count = len(published)
    remove()
    await core_agent.run("go")
    assert len(published) == count


@pytest.mark.covers("HOK-14", "HOK-15", "HOK-16", "HOK-17", "HOK-13")
async def test_agent_run_and_added_hooks_are_called_in_order() -> None:
    published: list[str] = []
    core_agent = make_agent(
        Script(*[text_reply("x") for _ in range(4)]),
        hooks={"turn:before": [lambda c: published.append("life"), lambda c: published.append("time")]},
    )
    await core_agent.run("go", hooks={"turn:before": lambda c: published.append("run")})
    remove = core_agent.hooks.hook("turn:before", lambda c: published.append("hook"))
    await core_agent.run("go")
    remove()
    await core_agent.run("go")
    assert published == ["life", "time", "run", "life", "time", "hook", "life", "time"]
    with pytest.raises(ConfigError):
        make_agent(Script(), hooks={"turn:befor": lambda c: None})
    with pytest.raises(ConfigError):
        await core_agent.run("go", hooks={"nope": lambda c: None})
    assert not core_agent.running
    assert (await core_agent.run("go")).text == "x"


async def test_on_registers_a_handler_as_call_or_decorator_by_class_or_name() -> None:
    core_agent = make_agent(Script(tool_call_reply("look", key="a"), text_reply("ok")), tools=[look])
    seen: list[str] = []

    @core_agent.on(ToolGate)
    async def gate(ctx: ToolGate) -> None:
        seen.append(ctx.name)
        if ctx.name == "look":
            ctx.block = "not today"

    core_agent.on("tool:gate", lambda ctx: seen.append("never"), order=1)
    await core_agent.run("go")
    assert seen == ["look"]
    assert as_message(core_agent.messages[2]).tool_results[0].text == "Blocked: not today"


@pytest.mark.covers("AGT-45")
async def test_second_run_is_rejected_while_a_run_is_active() -> None:
    started = asyncio.Event()
    core_agent = make_agent(Script(text_reply("slow", hang_after=1, started=started)))
    async with core_agent.stream("go") as run:
        await started.wait()
        with pytest.raises(AgentBusyError, match="steer"):
            await core_agent.run("me too")
        with pytest.raises(AgentBusyError):
            core_agent.reset()
        assert core_agent.running
        core_agent.abort("enough")
        with pytest.raises(AgentAbortedError, match="enough"):
            await run.result()
    assert not core_agent.running


@pytest.mark.covers("AGT-25")
async def test_run_is_aborted_by_a_thread_a_signal_or_leaving_the_block() -> None:
    for way in ("thread", "signal", "leave"):
        started, signal = asyncio.Event(), CancelToken()
        core_agent = make_agent(Script(text_reply("slow", hang_after=1, started=started)))
        async with core_agent.stream("go", signal=signal) as run:
            await started.wait()
            if way == "thread":
                threading.Thread(target=core_agent.abort).start()
            elif way == "signal":
                signal.cancel()
            if way != "leave":
                with pytest.raises(AgentAbortedError):
                    await run.result()
        assert not core_agent.running
        with pytest.raises(AgentAbortedError):
            await run.result()
        assert block_types(core_agent.messages) == ["user", "assistant"]
    make_agent(Script()).abort()


async def test_error_in_the_stream_block_is_raised_unchanged() -> None:
    started = asyncio.Event()
    core_agent = make_agent(Script(text_reply("slow", hang_after=1, started=started)))

    async def leave() -> None:
        async with core_agent.stream("go"):
            await started.wait()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await leave()
    assert not core_agent.running


@pytest.mark.covers("AGT-20", "AGT-22")
async def test_steer_and_follow_up_reach_the_active_or_the_next_run() -> None:
    core_agent = make_agent(
        Script(
            tool_call_reply("look", key="a"),
            text_reply("done"),
            text_reply("more"),
            text_reply("next"),
            text_reply("last"),
        ),
        tools=[look],
    )

    def steer(ctx: Any) -> None:
        if ctx.turn == 1:
            core_agent.steer("use Celsius")
            core_agent.follow_up("now Bergen")

    await core_agent.run("Oslo", hooks={"turn:after": steer})
    texts = [m.text for m in core_agent.messages if isinstance(m, Message) and m.role == "user"]
    assert texts == ["Oslo", "", "use Celsius", "now Bergen"]
    core_agent.steer("later")
    await core_agent.run("hello")
    assert block_types(core_agent.messages)[-1] == "assistant"
    assert_results_follow_calls(core_agent.messages)


async def test_steering_messages_are_sent_one_at_a_time_or_all_together() -> None:
    modes: list[tuple[Any, int]] = [("one", 3), ("all", 2)]
    for mode, expected in modes:
        model = Script(*[text_reply("x") for _ in range(4)])
        core_agent = make_agent(model, behavior=LoopOptions(steering=mode))
        core_agent.steer("a")
        core_agent.steer("b")
        result = await core_agent.run("go")
        assert result.turns == expected


@pytest.mark.covers("AGT-27", "AGT-28")
async def test_run_options_are_merged_field_by_field() -> None:
    merged = LoopOptions(max_turns=3).merged_with(LoopOptions(max_turns=9, temperature=0.5))
    assert (merged.max_turns, merged.temperature, merged.max_output_tokens) == (3, 0.5, 16384)
    assert LoopOptions(max_turns=None).merged_with(LoopOptions(max_turns=9)).max_turns is None
    assert LoopOptions().max_turns is None
    model = Script(text_reply("a"), text_reply("b"))
    core_agent = make_agent(model, behavior=LoopOptions(temperature=0.5, max_output_tokens=10))
    await core_agent.run("go", behavior=LoopOptions(max_output_tokens=20))
    await core_agent.run("go")
    assert [(r.temperature, r.max_output_tokens) for r in model.requests] == [(0.5, 20), (0.5, 10)]


async def test_options_of_one_run_do_not_affect_the_next() -> None:
    first, second = Script(text_reply("a"), text_reply("c")), Script(text_reply("b"))
    core_agent = make_agent(first, system="S", tools=[look])
    await core_agent.run("1")
    await core_agent.run("2", model=second, system="T", tools=[])
    await core_agent.run("3")
    assert (second.requests[0].system, second.requests[0].tools) == ("T", ())
    assert (first.requests[1].system, len(first.requests[1].tools), len(first.requests[1].messages)) == ("S", 1, 5)


@pytest.mark.covers("AGT-14", "AGT-13", "SES-16")
async def test_prompt_is_required_without_a_history() -> None:
    with pytest.raises(AgentError, match="Nothing to run"):
        await make_agent(Script()).run()
    started: list[Any] = []
    for prompt in ([Message.user([])], " "):
        with pytest.raises(AgentError, match="empty"):
            await make_agent(Script(), hooks={"session:start": started.append}).run(prompt)
    assert started == [], "the prompt is checked before the run starts"
    core_agent = make_agent(Script(text_reply("ok")), messages=[Message.user("from before")])
    assert (await core_agent.run()).text == "ok"


@pytest.mark.covers("MSG-25")
async def test_prompt_can_be_text_blocks_or_messages() -> None:
    model = Script(text_reply("a"), text_reply("b"), text_reply("c"))
    core_agent = make_agent(model)
    await core_agent.run([TextBlock("see this")])
    await core_agent.run(Message.user("and this"))
    await core_agent.run([CustomMessage("note"), Message.user("both")])
    assert [m.text for m in model.requests[-1].messages if m.role == "user"] == ["see this", "and this", "both"]


async def test_failure_is_raised_or_returned_as_a_result() -> None:
    core_agent = make_agent(
        Script(
            fail(NetworkError("down", retryable=False)), fail(NetworkError("down", retryable=False)), text_reply("ok")
        )
    )
    with pytest.raises(AgentProviderError, match="down"):
        await core_agent.run("go")
    result = await core_agent.run("go", raise_errors=False)
    assert (result.status, str(result.error)) == ("error", "down")
    async with core_agent.stream("again") as run:
        assert [e async for e in run][-1].type == "agent_end"
        assert (await run.result()).text == "ok"


async def test_iterating_a_stream_never_raises() -> None:
    core_agent = make_agent(Script(fail(NetworkError("down", retryable=False))))
    async with core_agent.stream("go") as run:
        names = [e.type async for e in run]
        with pytest.raises(AgentProviderError):
            await run.result()
    assert names.count("error") == 1
    assert names[-1] == "agent_end"


@pytest.mark.covers("TDF-02")
async def test_tool_definition_is_built_once_on_first_use() -> None:
    built: list[int] = []

    async def definition() -> dict[str, Any]:
        built.append(1)

        async def execute(args: Any, ctx: Any) -> str:
            return f"looked {args['q']}"

        return {
            "description": "Search.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
            "execute": execute,
        }

    core_agent = make_agent(
        Script(tool_call_reply("search", q="x"), text_reply("a"), text_reply("b")),
        tools=[define_tool("search", definition)],
    )
    await core_agent.run("go")
    await core_agent.run("go")
    assert built == [1]
    assert as_message(core_agent.messages[2]).tool_results[0].text == "looked x"


class RunCounter:
    """A plugin that counts runs."""

    def __init__(self) -> None:
        self.runs = 0

    def install(self, agent: CoreAgent) -> None:
        agent.on("session:start", self.count)

    def count(self, ctx: Any) -> None:
        self.runs += 1

    def for_child(self) -> "RunCounter":
        return self


@pytest.mark.covers("PKG-10")
async def test_plugin_can_work_with_the_hook_bus_alone() -> None:
    plugin = RunCounter()
    core_agent = make_agent(Script(text_reply("a"), text_reply("b")), plugs=[plugin])
    await core_agent.run("go")
    await core_agent.run("go")
    assert plugin.runs == 2


async def test_fifty_concurrent_agents_share_no_state() -> None:
    async def run_one(n: int) -> RunResult:
        return await make_agent(
            Script(tool_calls_reply(tool_call_reply("look", key=str(n))), text_reply(f"answer {n}")), tools=[look]
        ).run(f"go {n}")

    async with asyncio.TaskGroup() as tasks:
        runs = [tasks.create_task(run_one(n)) for n in range(50)]
    for n, run in enumerate(runs):
        result = run.result()
        assert result.text == f"answer {n}"
        assert as_message(result.messages[2]).tool_results[0].text == f"value of {n}"


def count_run_objects() -> dict[str, int]:
    """Count the objects of runs in this process."""
    gc.collect()
    found = Counter(type(o).__name__ for o in gc.get_objects())
    return {
        name: found[name]
        for name in ("CoreAgent", "RunHandle", "RunState", "ToolCallBatch", "HookBus", "TaskGroup", "Task")
    }


async def test_thousand_runs_leave_no_objects_in_memory() -> None:
    signal, before = CancelToken(), count_run_objects()
    for _ in range(1000):
        core_agent = make_agent(Script(tool_call_reply("look", key="a"), text_reply("ok")), tools=[look])
        async with core_agent.stream("go", signal=signal, hooks={"turn:after": lambda ctx: None}) as run:
            async for _event in run:
                pass
        assert not core_agent.bus.is_heard(AgentEnd)
        assert not core_agent.bus.has(TurnAfter)
        del core_agent, run

    assert {name: count for name, count in count_run_objects().items() if count > before[name]} == {}


def test_async_subscriber_is_rejected() -> None:
    async def observe(event: Any) -> None: ...

    core_agent = make_agent(Script())
    for register in (core_agent.subscribe, core_agent.bus.subscribe):
        with pytest.raises(TypeError, match="plain function"):
            register(observe)  # pyright: ignore[reportArgumentType]


async def test_reasoning_effort_set_between_runs_applies_to_the_next_request() -> None:
    model = Script(text_reply("one"), text_reply("two"))
    agent = make_agent(model)
    await agent.run("go")

    agent.thinking = "low"
    await agent.run("go on")

    assert agent.thinking == "low"
    assert [request.thinking for request in model.requests] == [None, "low"]
