"""The Agent: one conversation, its runs, and who may listen and stop them."""

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
from mainspring.events import MessageUpdate, TextDelta
from mainspring.loop import CoreAgent, RunOptions, RunResult
from mainspring.loop.hooks import ToolGate, TurnAfter
from mainspring.messages import CustomMessage, Message, TextBlock
from mainspring.tools import define_tool, tool
from tests.unit.loop.harness import (
    Script,
    agent,
    assert_results_follow_calls,
    block_types,
    calls,
    fail,
    said,
    text_reply,
    tool_call_reply,
)


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@pytest.mark.covers("AGT-01", "AGT-07", "AGT-35")
async def test_runs_go_on_with_the_conversation_until_it_is_reset() -> None:
    model = Script(
        tool_call_reply("look", key="a"), text_reply("one", tokens=3), text_reply("two"), text_reply("three")
    )
    one = agent(model, tools=[look])
    result = await one.run("first")
    assert (result.text, result.output, result.status, result.stop_reason) == ("one", "one", "completed", "end_turn")
    assert (result.turns, result.usage.total_tokens, result.stats.tool_counts) == (2, 3, {"look": 1})
    await one.prompt("second")
    assert [len(r.messages) for r in model.requests] == [1, 3, 5]
    assert block_types(one.messages) == ["user", "assistant", "user", "assistant", "user", "assistant"]
    one.reset()
    await one.run("third")
    assert [len(r.messages) for r in model.requests][-1] == 1
    assert len(one.tools) == 1


@pytest.mark.covers("AGT-03", "AGT-04", "AGT-05", "AGT-06", "STR-04", "STR-08", "TST-09")
async def test_the_stream_of_a_run_tells_everything_in_order() -> None:
    model = Script(tool_call_reply("look", key="a"), text_reply("hi", size=1))
    async with agent(model, tools=[look]).stream("go") as run:
        events: list[Any] = [e async for e in run]
        result = await run.result()
    names = [e.type for e in events]
    assert names == [
        "agent_start", "message_start", "message_end",
        "turn_start", "message_start", "start", "toolcall_start", "toolcall_delta", "toolcall_end", "done", "message_end",
        "tool_execution_start", "tool_execution_end", "message_start", "message_end", "turn_end",
        "turn_start", "message_start", "start", "text_start", "text_delta", "text_delta", "text_end", "done", "message_end",
        "turn_end", "agent_end",
    ]  # fmt: skip
    assert events[-1].messages == result.messages
    assert [r.text for r in events[15].tool_results] == ["value of a"]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "hi"


@pytest.mark.covers("AGT-07", "AGT-05")
async def test_subscribers_get_message_updates() -> None:
    heard: list[Any] = []
    one = agent(Script(text_reply("hi"), text_reply("again")))
    remove = one.subscribe(heard.append)
    await one.run("go")
    assert {"agent_start", "turn_start", "message_update", "agent_end"} <= {e.type for e in heard}
    updates = [e for e in heard if isinstance(e, MessageUpdate)]
    assert updates[-1].message.text == "hi"
    count = len(heard)
    remove()
    await one.run("go")
    assert len(heard) == count


@pytest.mark.covers("HOK-14", "HOK-15", "HOK-16", "HOK-17", "HOK-13")
async def test_hooks_of_the_agent_of_a_run_and_by_hand() -> None:
    heard: list[str] = []
    one = agent(
        Script(*[text_reply("x") for _ in range(4)]),
        hooks={"turn:before": [lambda c: heard.append("life"), lambda c: heard.append("time")]},
    )
    await one.run("go", hooks={"turn:before": lambda c: heard.append("run")})
    remove = one.hooks.hook("turn:before", lambda c: heard.append("hook"))
    await one.run("go")
    remove()
    await one.run("go")
    assert heard == ["life", "time", "run", "life", "time", "hook", "life", "time"]
    with pytest.raises(ConfigError):
        agent(Script(), hooks={"turn:befor": lambda c: None})
    with pytest.raises(ConfigError):
        await one.run("go", hooks={"nope": lambda c: None})
    assert not one.running
    assert (await one.run("go")).text == "x"


async def test_on_works_as_call_and_as_decorator_by_class_and_by_name() -> None:
    one = agent(Script(tool_call_reply("look", key="a"), text_reply("ok")), tools=[look])
    seen: list[str] = []

    @one.on(ToolGate)
    async def gate(ctx: ToolGate) -> None:
        seen.append(ctx.name)
        if ctx.name == "look":
            ctx.block = "not today"

    one.on("tool:gate", lambda ctx: seen.append("never"), order=1)
    await one.run("go")
    assert seen == ["look"]
    assert said(one.messages[2]).tool_results[0].text == "Blocked: not today"


@pytest.mark.covers("AGT-45")
async def test_a_second_run_is_refused_while_one_goes_on() -> None:
    started = asyncio.Event()
    one = agent(Script(text_reply("slow", hang_after=1, started=started)))
    async with one.stream("go") as run:
        await started.wait()
        with pytest.raises(AgentBusyError, match="steer"):
            await one.run("me too")
        with pytest.raises(AgentBusyError):
            one.reset()
        assert one.running
        one.abort("enough")
        with pytest.raises(AgentAbortedError, match="enough"):
            await run.result()
    assert not one.running


@pytest.mark.covers("AGT-25")
async def test_abort_from_another_thread_a_signal_and_leaving_the_block() -> None:
    for way in ("thread", "signal", "leave"):
        started, signal = asyncio.Event(), CancelToken()
        one = agent(Script(text_reply("slow", hang_after=1, started=started)))
        async with one.stream("go", signal=signal) as run:
            await started.wait()
            if way == "thread":
                threading.Thread(target=one.abort).start()
            elif way == "signal":
                signal.cancel()
            if way != "leave":
                with pytest.raises(AgentAbortedError):
                    await run.result()
        assert not one.running
        with pytest.raises(AgentAbortedError):
            await run.result()
        assert block_types(one.messages) == ["user", "assistant"]
    agent(Script()).abort()


async def test_an_error_in_the_block_comes_out_as_it_is() -> None:
    started = asyncio.Event()
    one = agent(Script(text_reply("slow", hang_after=1, started=started)))

    async def leave() -> None:
        async with one.stream("go"):
            await started.wait()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await leave()
    assert not one.running


@pytest.mark.covers("AGT-20", "AGT-22")
async def test_steer_and_follow_up_reach_the_run_and_wait_where_there_is_none() -> None:
    one = agent(
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
            one.steer("use Celsius")
            one.follow_up("now Bergen")

    await one.run("Oslo", hooks={"turn:after": steer})
    texts = [m.text for m in one.messages if isinstance(m, Message) and m.role == "user"]
    assert texts == ["Oslo", "", "use Celsius", "now Bergen"]
    one.steer("later")
    await one.run("hello")
    assert block_types(one.messages)[-1] == "assistant"
    assert_results_follow_calls(one.messages)


async def test_steering_one_at_a_time_or_all_at_once() -> None:
    modes: list[tuple[Any, int]] = [("one", 3), ("all", 2)]
    for mode, expected in modes:
        model = Script(*[text_reply("x") for _ in range(4)])
        one = agent(model, behavior=RunOptions(steering=mode))
        one.steer("a")
        one.steer("b")
        result = await one.run("go")
        assert result.turns == expected


@pytest.mark.covers("AGT-27", "AGT-28")
async def test_behavior_is_merged_field_by_field() -> None:
    merged = RunOptions(max_turns=3).merged_with(RunOptions(max_turns=9, temperature=0.5)).resolve()
    assert (merged.max_turns, merged.temperature, merged.max_output_tokens) == (3, 0.5, 16384)
    assert RunOptions(max_turns=None).merged_with(RunOptions(max_turns=9)).resolve().max_turns is None
    assert RunOptions().resolve().max_turns is None
    model = Script(text_reply("a"), text_reply("b"))
    one = agent(model, behavior=RunOptions(temperature=0.5, max_output_tokens=10))
    await one.run("go", behavior=RunOptions(max_output_tokens=20))
    await one.run("go")
    assert [(r.temperature, r.max_output_tokens) for r in model.requests] == [(0.5, 20), (0.5, 10)]


async def test_options_of_one_run_do_not_stay() -> None:
    first, second = Script(text_reply("a"), text_reply("c")), Script(text_reply("b"))
    one = agent(first, system="S", tools=[look])
    await one.run("1")
    await one.run("2", model=second, system="T", tools=[])
    await one.run("3")
    assert (second.requests[0].system, second.requests[0].tools) == ("T", ())
    assert (first.requests[1].system, len(first.requests[1].tools), len(first.requests[1].messages)) == ("S", 1, 5)


@pytest.mark.covers("AGT-13", "SES-16")
async def test_a_prompt_is_needed_unless_there_is_a_history() -> None:
    with pytest.raises(AgentError, match="Nothing to run"):
        await agent(Script()).run()
    with pytest.raises(AgentError, match="empty"):
        await agent(Script()).run([Message.user([])])
    one = agent(Script(text_reply("ok")), messages=[Message.user("from before")])
    assert (await one.run()).text == "ok"


@pytest.mark.covers("MSG-25")
async def test_prompts_may_be_text_blocks_or_messages() -> None:
    model = Script(text_reply("a"), text_reply("b"), text_reply("c"))
    one = agent(model)
    await one.run([TextBlock("see this")])
    await one.run(Message.user("and this"))
    await one.run([CustomMessage("note"), Message.user("both")])
    assert [m.text for m in model.requests[-1].messages if m.role == "user"] == ["see this", "and this", "both"]


async def test_failures_raise_or_come_as_a_result() -> None:
    one = agent(
        Script(
            fail(NetworkError("down", retryable=False)), fail(NetworkError("down", retryable=False)), text_reply("ok")
        )
    )
    with pytest.raises(AgentProviderError, match="down"):
        await one.run("go")
    result = await one.run("go", raise_errors=False)
    assert (result.status, str(result.error)) == ("error", "down")
    async with one.stream("again") as run:
        assert [e async for e in run][-1].type == "agent_end"
        assert (await run.result()).text == "ok"


async def test_iterating_never_raises() -> None:
    one = agent(Script(fail(NetworkError("down", retryable=False))))
    async with one.stream("go") as run:
        names = [e.type async for e in run]
        with pytest.raises(AgentProviderError):
            await run.result()
    assert names.count("error") == 1
    assert names[-1] == "agent_end"


@pytest.mark.covers("TDF-02")
async def test_tools_may_be_defined_when_they_are_first_needed() -> None:
    made: list[int] = []

    async def definition() -> dict[str, Any]:
        made.append(1)

        async def execute(args: Any, ctx: Any) -> str:
            return f"looked {args['q']}"

        return {
            "description": "Search.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
            "execute": execute,
        }

    one = agent(
        Script(tool_call_reply("search", q="x"), text_reply("a"), text_reply("b")),
        tools=[define_tool("search", definition)],
    )
    await one.run("go")
    await one.run("go")
    assert made == [1]
    assert said(one.messages[2]).tool_results[0].text == "looked x"


class Counting:
    """A plug that counts runs."""

    def __init__(self) -> None:
        self.runs = 0

    def install(self, agent: CoreAgent) -> None:
        agent.on("session:start", self.count)

    def count(self, ctx: Any) -> None:
        self.runs += 1

    def for_child(self) -> "Counting":
        return self


@pytest.mark.covers("PKG-10")
async def test_a_plug_needs_nothing_but_the_bus() -> None:
    plug = Counting()
    one = agent(Script(text_reply("a"), text_reply("b")), plugs=[plug])
    await one.run("go")
    await one.run("go")
    assert plug.runs == 2


async def test_fifty_agents_at_once_share_nothing() -> None:
    async def one(n: int) -> RunResult:
        return await agent(
            Script(calls(tool_call_reply("look", key=str(n))), text_reply(f"answer {n}")), tools=[look]
        ).run(f"go {n}")

    async with asyncio.TaskGroup() as tasks:
        runs = [tasks.create_task(one(n)) for n in range(50)]
    for n, run in enumerate(runs):
        result = run.result()
        assert result.text == f"answer {n}"
        assert said(result.messages[2]).tool_results[0].text == f"value of {n}"


def alive() -> dict[str, int]:
    """How many objects of runs there are in this process."""
    gc.collect()
    found = Counter(type(o).__name__ for o in gc.get_objects())
    return {
        name: found[name]
        for name in ("CoreAgent", "RunHandle", "RunState", "ToolCallBatch", "HookBus", "TaskGroup", "Task")
    }


async def test_a_thousand_runs_leave_nothing_behind() -> None:
    signal, before = CancelToken(), alive()
    for _ in range(1000):
        one = agent(Script(tool_call_reply("look", key="a"), text_reply("ok")), tools=[look])
        async with one.stream("go", signal=signal, hooks={"turn:after": lambda ctx: None}) as run:
            async for _event in run:
                pass
        assert not one.bus.listeners
        assert not one.bus.has(TurnAfter)
        del one, run

    assert {name: count for name, count in alive().items() if count > before[name]} == {}


def test_an_async_subscriber_is_refused() -> None:
    async def observe(event: Any) -> None: ...

    one = agent(Script())
    for register in (one.subscribe, one.bus.subscribe):
        with pytest.raises(TypeError, match="plain function"):
            register(observe)  # pyright: ignore[reportArgumentType]
