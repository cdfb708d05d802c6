"""An agent before, during, and between runs: warm-up, changes of tools and thinking, answers to a paused run, and concurrency."""

import asyncio
import gc
import warnings
from typing import Any

import pytest

from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError, AgentError, ConfigError
from mainspring.events import AgentStart, Event, ToolsChange, TurnStart
from mainspring.loop import Approve, CoreAgent, Deny, LoopOptions, RunResult
from mainspring.loop.hooks import BeforeToolRun, PermissionCheck, ToolFinished, ToolGate, TurnAfter
from mainspring.tools import define_tool, tool
from tests.unit.loop.harness import (
    Script,
    as_message,
    assert_results_follow_calls,
    make_agent,
    text_reply,
    tool_call_reply,
    tool_calls_reply,
)


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


class SlowPlugin:
    """A plugin whose preparation waits for an event."""

    def __init__(self, failures: int = 0) -> None:
        self.begun = self.ready = self.resets = 0
        self.failures = failures
        self.go_on = asyncio.Event()

    def install(self, agent: CoreAgent) -> None:
        pass

    def for_child(self) -> None:
        return None

    async def prepare(self) -> None:
        self.begun += 1
        await self.go_on.wait()
        if self.failures:
            self.failures -= 1
            raise ConfigError("not reachable")
        self.ready += 1

    def reset(self) -> None:
        self.resets += 1


class StartableEnv(MemoryEnv):
    """An environment that counts its starts."""

    started = 0

    async def prepare(self) -> None:
        self.started += 1


@pytest.mark.covers("AGT-10")
async def test_plugins_are_prepared_concurrently_and_once() -> None:
    first, other = SlowPlugin(), SlowPlugin()
    core_agent = make_agent(Script(text_reply("a"), text_reply("b")), plugs=[first, other])
    run = asyncio.ensure_future(core_agent.run("go"))
    warm = [asyncio.ensure_future(core_agent.warmup()) for _ in range(3)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert (first.begun, other.begun) == (1, 1), "concurrently"
    first.go_on.set()
    other.go_on.set()
    await asyncio.gather(run, *warm)
    await core_agent.run("again")
    await core_agent.warmup()
    assert (first.begun, other.begun) == (1, 1)


@pytest.mark.covers("AGT-10")
async def test_failed_preparation_is_retried_and_survives_a_cancelled_waiter() -> None:
    plugin = SlowPlugin(failures=1)
    core_agent = make_agent(Script(text_reply("a")), plugs=[plugin])
    cancelled, waiting = asyncio.ensure_future(core_agent.warmup()), asyncio.ensure_future(core_agent.warmup())
    await asyncio.sleep(0)
    cancelled.cancel()
    plugin.go_on.set()
    with pytest.raises(ConfigError, match="not reachable"):
        await waiting
    assert (await core_agent.run("go")).text == "a"
    assert (plugin.begun, plugin.ready) == (2, 1)


async def test_failing_plugin_lets_the_others_finish_their_preparation() -> None:
    failing, slow = SlowPlugin(failures=1), SlowPlugin()
    core_agent = make_agent(Script(text_reply("a")), plugs=[failing, slow])
    warmup = asyncio.ensure_future(core_agent.warmup())
    failing.go_on.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not warmup.done()
    slow.go_on.set()
    with pytest.raises(ConfigError, match="not reachable"):
        await warmup
    assert slow.ready == 1


@pytest.mark.covers("AGT-12")
async def test_environment_is_prepared_by_the_first_run() -> None:
    env = StartableEnv({})
    core_agent = CoreAgent(Script(text_reply("a"), text_reply("b")), env=env)
    assert env.started == 0
    await core_agent.run("go")
    await core_agent.run("go")
    assert env.started == 1


@pytest.mark.covers("AGT-09")
async def test_eager_agent_prepares_in_the_background() -> None:
    built: list[str] = []

    async def definition() -> dict[str, Any]:
        built.append("made")
        return {"description": "Late.", "parameters": {"type": "object"}, "execute": lambda args, ctx: "late"}

    lazy = make_agent(Script(), tools=[define_tool("late", definition)])
    eager = make_agent(
        Script(tool_call_reply("late"), text_reply("ok")), tools=[define_tool("late", definition)], eager=True
    )
    for _ in range(4):
        await asyncio.sleep(0)
    assert built == ["made"], "built by the eager agent"
    assert "late" in eager.tools
    assert "late" not in lazy.tools
    assert (await eager.run("go")).text == "ok"


def test_eager_agent_created_without_an_event_loop_prepares_on_its_first_run() -> None:
    plugin = SlowPlugin()
    plugin.go_on.set()
    core_agent = make_agent(Script(text_reply("a")), plugs=[plugin], eager=True)
    assert asyncio.run(core_agent.run("go")).text == "a"
    assert plugin.ready == 1


async def test_abort_ends_the_wait_for_a_warmup() -> None:
    core_agent = make_agent(Script(text_reply("a")), plugs=[SlowPlugin()])
    run = asyncio.ensure_future(core_agent.run("go"))
    await asyncio.sleep(0)
    core_agent.abort()
    with pytest.raises(AgentAbortedError):
        await run


@pytest.mark.covers("AGT-26")
async def test_reset_resets_the_plugins() -> None:
    plugin = SlowPlugin()
    plugin.go_on.set()
    core_agent = make_agent(Script(text_reply("a"), text_reply("b")), plugs=[plugin])
    await core_agent.run("go")
    core_agent.steer("left over")
    core_agent.reset()
    assert (core_agent.messages, plugin.resets, core_agent.pending) == ((), 1, None)
    await core_agent.run("anew")
    assert [as_message(m).text for m in core_agent.messages] == ["anew", "b"]


@pytest.mark.covers("AGT-41", "TDF-14")
async def test_thinking_and_active_tools_can_change_during_a_run() -> None:
    @tool
    async def other() -> str:
        """Do something else."""
        return "other"

    def change(ctx: TurnAfter) -> None:
        if ctx.turn == 1:
            core_agent.thinking = "high"
            core_agent.active_tools = ["other"]

    model = Script(
        tool_call_reply("look", key="a"), tool_call_reply("look", key="b"), text_reply("ok"), text_reply("again")
    )
    core_agent = make_agent(model, tools=[look, other], behavior=LoopOptions(thinking="low"), hooks={TurnAfter: change})
    assert (core_agent.thinking, core_agent.active_tools) == ("low", ("look", "other"))
    result = await core_agent.run("go")
    assert [r.thinking for r in model.requests] == ["low", "high", "high"]
    assert [[t.name for t in r.tools] for r in model.requests] == [["look", "other"], ["other"], ["other"]]
    texts = [as_message(m).tool_results[0].text for m in result.messages if as_message(m).tool_results]
    assert texts == ["Unknown tool: look. Did you mean other?"] * 2 or texts[1].startswith("Unknown tool: look")
    assert (core_agent.thinking, core_agent.active_tools) == ("high", ("other",))
    with pytest.raises(ConfigError, match="Unknown tool: ghost"):
        core_agent.active_tools = ["ghost"]
    core_agent.active_tools = None
    await core_agent.run("go on")
    assert [t.name for t in model.requests[-1].tools] == ["look", "other"]


async def test_a_change_of_the_offered_tools_is_published_once_before_the_request() -> None:
    @tool
    async def other() -> str:
        """Do something else."""
        return "other"

    def change(ctx: TurnAfter) -> None:
        if ctx.turn == 1:
            core_agent.active_tools = ["other"]
        elif ctx.turn == 2:
            core_agent.active_tools = ["other"]  # the same tools in a new tuple

    model = Script(tool_call_reply("look", key="a"), tool_call_reply("other"), text_reply("ok"), text_reply("again"))
    core_agent = make_agent(model, tools=[look, other], hooks={TurnAfter: change})
    events: list[Event] = []
    core_agent.subscribe(events.append)
    await core_agent.run("go")

    shown = [e for e in events if isinstance(e, ToolsChange | TurnStart)]
    assert [type(e) for e in shown] == [TurnStart, ToolsChange, TurnStart, TurnStart]
    change_event = next(e for e in shown if isinstance(e, ToolsChange))
    assert (change_event.added, change_event.removed) == ((), ("look",))
    assert next(e for e in events if isinstance(e, AgentStart)).tools == ("look", "other")

    events.clear()
    core_agent.active_tools = None
    await core_agent.run("go on")
    assert not [e for e in events if isinstance(e, ToolsChange)]  # `AgentStart` has them


async def test_tools_and_system_prompt_of_one_run_keep_the_encoding_cache() -> None:
    model = Script(text_reply("a"), text_reply("b"))
    core_agent = make_agent(model, tools=[look])
    await core_agent.run("go")
    await core_agent.run("go", tools=[], system="Other.")
    assert model.requests[0].scratch is model.requests[1].scratch


# --- answers to a paused run ------------------------------------------------------------------------------------------


def pause_for_keys(*names: str) -> dict[Any, Any]:
    """Return handlers that pause the run for these keys."""

    def check_permission(ctx: PermissionCheck) -> None:
        if ctx.input["key"] in names:
            ctx.pause(f"may {ctx.input['key']} be looked up?")

    return {PermissionCheck: check_permission}


def pending_ids_by_key(core_agent: CoreAgent) -> dict[str, str]:
    """Return the IDs of the pending calls by their key."""
    assert core_agent.pending is not None
    return {c.input["key"]: c.id for c in core_agent.pending.calls}


@pytest.mark.covers("BYD-29", "HOK-45")
@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_each_paused_call_is_answered_and_runs_once(mode: Any) -> None:
    ran: list[str] = []
    script = tool_calls_reply(*(tool_call_reply("look", key=k) for k in "abcd"))
    core_agent = make_agent(
        Script(script, text_reply("done")),
        tools=[look],
        behavior=LoopOptions(tool_execution=mode),
        hooks=pause_for_keys(*"bcd"),
    )
    core_agent.on(ToolFinished, lambda ctx: ran.append(ctx.result.text))
    result = await core_agent.run("go")
    assert result.status == "paused"
    assert core_agent.pending is not None
    while core_agent.pending is not None:
        for key, id in pending_ids_by_key(core_agent).items():
            answer = {"b": Approve(), "c": Deny("not that"), "d": Approve({"key": "D"})}[key]
            assert core_agent.pending.reasons[id] == f"may {key} be looked up?"
            core_agent.answer({id: answer})
        result = await core_agent.run()
    assert (result.status, result.text) == ("completed", "done")
    assert sorted(ran) == ["value of D", "value of a", "value of b"]
    [results] = [as_message(m) for m in core_agent.messages if as_message(m).tool_results]
    assert [r.text for r in results.tool_results] == [
        "value of a",
        "value of b",
        "Permission denied: not that",
        "value of D",
    ]
    assert_results_follow_calls(core_agent.messages)


@pytest.mark.covers("BYD-29")
async def test_approval_overrides_a_pause_but_not_a_denial() -> None:
    def gate(ctx: ToolGate) -> None:
        ctx.pause = "sure?"
        assert ctx.approved == is_approved

    def refuse(ctx: PermissionCheck) -> None:
        assert ctx.approved
        ctx.deny("the rules have changed")

    is_approved = False
    model = Script(tool_call_reply("look", key="a"), text_reply("done"))
    core_agent = make_agent(model, tools=[look], hooks={ToolGate: gate})
    await core_agent.run("go")
    assert len(model.requests) == 1
    is_approved = True
    core_agent.on(PermissionCheck, refuse)
    core_agent.answer(Approve())
    await core_agent.run()
    assert as_message(core_agent.messages[2]).tool_results[0].text == "Permission denied: the rules have changed"


async def test_denial_can_end_the_run_without_another_request() -> None:
    model = Script(tool_call_reply("look", key="a"), text_reply("never"))
    core_agent = make_agent(model, tools=[look], hooks=pause_for_keys("a"))
    await core_agent.run("go")
    core_agent.answer(Deny("stop", stop=True))
    assert (await core_agent.run()).status == "denied"
    assert len(model.requests) == 1
    assert_results_follow_calls(core_agent.messages)


async def test_edited_arguments_are_validated() -> None:
    core_agent = make_agent(
        Script(tool_call_reply("look", key="a"), text_reply("done")), tools=[look], hooks=pause_for_keys("a")
    )
    await core_agent.run("go")
    core_agent.answer(Approve({"key": ["no", "text"]}))
    await core_agent.run()
    assert as_message(core_agent.messages[2]).tool_results[0].text.startswith("Validation error")


async def test_answer_requires_a_paused_call() -> None:
    core_agent = make_agent(
        Script(tool_call_reply("look", key="a"), text_reply("done")), tools=[look], hooks=pause_for_keys("a")
    )
    with pytest.raises(AgentError, match="No tool call is waiting"):
        core_agent.answer(Approve())
    await core_agent.run("go")
    with pytest.raises(AgentError, match="Unknown tool call: ghost. Waiting calls: "):
        core_agent.answer({"ghost": Approve()})


# --- concurrency and event loops --------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-16")
def test_agent_can_run_in_several_event_loops_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    core_agent = make_agent(Script(*[text_reply("ok")] * 3), tools=[look])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert asyncio.run(core_agent.run("go"), debug=True).text == "ok"
        gc.collect()
    assert capsys.readouterr() == ("", "")


@pytest.mark.covers("OPT-12", "TEX-20")
@pytest.mark.parametrize("cap", [1, 3])
async def test_concurrency_safe_calls_run_together_up_to_the_limit(cap: int) -> None:
    running: list[str] = []
    limit: dict[str, int] = {"safe": 0, "alone": 0}

    async def work(kind: str) -> str:
        running.append(kind)
        limit[kind] = max(limit[kind], len(running))
        for _ in range(3):
            await asyncio.sleep(0)
        running.remove(kind)
        return kind

    @tool
    async def safe() -> str:
        """Run together with other calls."""
        return await work("safe")

    @tool(concurrency_safe=False)
    async def alone() -> str:
        """Run alone."""
        return await work("alone")

    script = tool_calls_reply(*(tool_call_reply(n) for n in ("safe", "safe", "safe", "safe", "alone", "alone", "safe")))
    core_agent = make_agent(
        Script(script, text_reply("ok")), tools=[safe, alone], behavior=LoopOptions(tool_concurrency=cap)
    )
    await core_agent.run("go")
    assert limit == {"safe": cap, "alone": 1}


@pytest.mark.covers("AGT-42")
async def test_result_has_the_statistics_of_the_run() -> None:
    core_agent = make_agent(
        Script(tool_call_reply("look", key="a", tokens=3), text_reply("ok", tokens=4)), tools=[look]
    )
    result: RunResult = await core_agent.run("go")
    stats = result.stats
    assert (stats.turns, stats.usage.total_tokens, stats.tool_counts) == (2, 7, {"look": 1})
    assert [u.total_tokens for u in stats.turn_usage] == [3, 4]
    assert stats.seconds > 0
    assert (stats.output, stats.children, stats.side_usage) == (None, (), {})
    assert result.run_id


async def test_abort_does_not_wait_for_a_tool_start_handler() -> None:
    called = asyncio.Event()

    async def wait(ctx: BeforeToolRun) -> None:
        called.set()
        await asyncio.Event().wait()

    core_agent = make_agent(
        Script(
            tool_calls_reply(tool_call_reply("look", key="a"), tool_call_reply("look", key="b")), text_reply("never")
        ),
        tools=[look],
    )
    core_agent.on(BeforeToolRun, wait)
    run = asyncio.ensure_future(core_agent.run("go"))
    await called.wait()
    core_agent.abort()
    with pytest.raises(AgentAbortedError):
        await run
    assert [r.text.split(":")[0] for r in as_message(core_agent.messages[2]).tool_results] == ["Aborted", "Aborted"]
