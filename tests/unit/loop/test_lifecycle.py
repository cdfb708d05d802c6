"""An agent before, between and during runs: warm-up, tools and thinking at run time, answers to a paused run, several at once."""

import asyncio
import gc
import warnings
from typing import Any

import pytest

from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError, AgentError, ConfigError
from mainspring.loop import Approve, CoreAgent, Deny, RunOptions, RunResult
from mainspring.loop.hooks import BeforeToolRun, PermissionCheck, ToolFinished, ToolGate, TurnAfter
from mainspring.tools import define_tool, tool
from tests.unit.loop.harness import Script, agent, assert_results_follow_calls, calls, said, text_reply, tool_call_reply


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


class Slow:
    """A plug that takes its time to get ready."""

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


class Starting(MemoryEnv):
    """An environment that has to be started."""

    started = 0

    async def prepare(self) -> None:
        self.started += 1


@pytest.mark.covers("AGT-10")
async def test_plugs_get_ready_side_by_side_once_for_all_who_wait() -> None:
    one_plug, other = Slow(), Slow()
    one = agent(Script(text_reply("a"), text_reply("b")), plugs=[one_plug, other])
    run = asyncio.ensure_future(one.run("go"))
    warm = [asyncio.ensure_future(one.warmup()) for _ in range(3)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert (one_plug.begun, other.begun) == (1, 1), "side by side"
    one_plug.go_on.set()
    other.go_on.set()
    await asyncio.gather(run, *warm)
    await one.run("again")
    await one.warmup()
    assert (one_plug.begun, other.begun) == (1, 1)


@pytest.mark.covers("AGT-10")
async def test_what_failed_is_tried_again_and_a_waiter_that_leaves_takes_nobody_with_it() -> None:
    plug = Slow(failures=1)
    one = agent(Script(text_reply("a")), plugs=[plug])
    leaving, staying = asyncio.ensure_future(one.warmup()), asyncio.ensure_future(one.warmup())
    await asyncio.sleep(0)
    leaving.cancel()
    plug.go_on.set()
    with pytest.raises(ConfigError, match="not reachable"):
        await staying
    assert (await one.run("go")).text == "a"
    assert (plug.begun, plug.ready) == (2, 1)


async def test_a_plugin_that_fails_lets_the_others_finish_their_preparation() -> None:
    failing, slow = Slow(failures=1), Slow()
    one = agent(Script(text_reply("a")), plugs=[failing, slow])
    warmup = asyncio.ensure_future(one.warmup())
    failing.go_on.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not warmup.done()
    slow.go_on.set()
    with pytest.raises(ConfigError, match="not reachable"):
        await warmup
    assert slow.ready == 1


@pytest.mark.covers("AGT-12")
async def test_the_environment_is_started_by_the_first_run() -> None:
    env = Starting({})
    one = CoreAgent(Script(text_reply("a"), text_reply("b")), env=env)
    assert env.started == 0
    await one.run("go")
    await one.run("go")
    assert env.started == 1


@pytest.mark.covers("AGT-09")
async def test_an_eager_agent_gets_ready_in_the_background() -> None:
    made: list[str] = []

    async def definition() -> dict[str, Any]:
        made.append("made")
        return {"description": "Late.", "parameters": {"type": "object"}, "execute": lambda args, ctx: "late"}

    lazy = agent(Script(), tools=[define_tool("late", definition)])
    eager = agent(
        Script(tool_call_reply("late"), text_reply("ok")), tools=[define_tool("late", definition)], eager=True
    )
    for _ in range(4):
        await asyncio.sleep(0)
    assert made == ["made"], "by the eager one"
    assert "late" in eager.tools
    assert "late" not in lazy.tools
    assert (await eager.run("go")).text == "ok"


def test_an_eager_agent_that_is_made_without_a_loop_gets_ready_at_its_first_run() -> None:
    plug = Slow()
    plug.go_on.set()
    one = agent(Script(text_reply("a")), plugs=[plug], eager=True)
    assert asyncio.run(one.run("go")).text == "a"
    assert plug.ready == 1


async def test_an_abort_ends_the_wait_for_a_warm_up() -> None:
    one = agent(Script(text_reply("a")), plugs=[Slow()])
    run = asyncio.ensure_future(one.run("go"))
    await asyncio.sleep(0)
    one.abort()
    with pytest.raises(AgentAbortedError):
        await run


@pytest.mark.covers("AGT-26")
async def test_a_reset_reaches_the_plugs() -> None:
    plug = Slow()
    plug.go_on.set()
    one = agent(Script(text_reply("a"), text_reply("b")), plugs=[plug])
    await one.run("go")
    one.steer("left over")
    one.reset()
    assert (one.messages, plug.resets, one.pending) == ((), 1, None)
    await one.run("anew")
    assert [said(m).text for m in one.messages] == ["anew", "b"]


@pytest.mark.covers("AGT-41", "TDF-14")
async def test_thinking_and_active_tools_are_set_while_a_run_goes_on() -> None:
    @tool
    async def other() -> str:
        """Do something else."""
        return "other"

    def change(ctx: TurnAfter) -> None:
        if ctx.turn == 1:
            one.thinking = "high"
            one.active_tools = ["other"]

    model = Script(
        tool_call_reply("look", key="a"), tool_call_reply("look", key="b"), text_reply("ok"), text_reply("again")
    )
    one = agent(model, tools=[look, other], behavior=RunOptions(thinking="low"), hooks={TurnAfter: change})
    assert (one.thinking, one.active_tools) == ("low", ("look", "other"))
    result = await one.run("go")
    assert [r.thinking for r in model.requests] == ["low", "high", "high"]
    assert [[t.name for t in r.tools] for r in model.requests] == [["look", "other"], ["other"], ["other"]]
    texts = [said(m).tool_results[0].text for m in result.messages if said(m).tool_results]
    assert texts == ["Unknown tool: look. Did you mean other?"] * 2 or texts[1].startswith("Unknown tool: look")
    assert (one.thinking, one.active_tools) == ("high", ("other",))
    with pytest.raises(ConfigError, match="Unknown tool: ghost"):
        one.active_tools = ["ghost"]
    one.active_tools = None
    await one.run("go on")
    assert [t.name for t in model.requests[-1].tools] == ["look", "other"]


async def test_tools_and_system_of_one_run_keep_what_was_encoded() -> None:
    model = Script(text_reply("a"), text_reply("b"))
    one = agent(model, tools=[look])
    await one.run("go")
    await one.run("go", tools=[], system="Other.")
    assert model.requests[0].scratch is model.requests[1].scratch


# --- answers to a paused run ------------------------------------------------------------------------------------------


def asking(*names: str) -> dict[Any, Any]:
    """Handlers that have somebody answer for some keys."""

    def permit(ctx: PermissionCheck) -> None:
        if ctx.input["key"] in names:
            ctx.pause(f"may {ctx.input['key']} be looked up?")

    return {PermissionCheck: permit}


def keyed(one: CoreAgent) -> dict[str, str]:
    """The ids of waiting calls by what they look for."""
    assert one.pending is not None
    return {c.input["key"]: c.id for c in one.pending.calls}


@pytest.mark.covers("BYD-29", "HOK-45")
@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_each_waiting_call_is_answered_and_none_runs_twice(mode: Any) -> None:
    ran: list[str] = []
    script = calls(*(tool_call_reply("look", key=k) for k in "abcd"))
    one = agent(
        Script(script, text_reply("done")), tools=[look], behavior=RunOptions(tool_execution=mode), hooks=asking(*"bcd")
    )
    one.on(ToolFinished, lambda ctx: ran.append(ctx.result.text))
    result = await one.run("go")
    assert result.status == "paused"
    assert one.pending is not None
    while one.pending is not None:
        for key, id in keyed(one).items():
            answer = {"b": Approve(), "c": Deny("not that"), "d": Approve({"key": "D"})}[key]
            assert one.pending.reasons[id] == f"may {key} be looked up?"
            one.answer({id: answer})
        result = await one.run()
    assert (result.status, result.text) == ("completed", "done")
    assert sorted(ran) == ["value of D", "value of a", "value of b"]
    [results] = [said(m) for m in one.messages if said(m).tool_results]
    assert [r.text for r in results.tool_results] == [
        "value of a",
        "value of b",
        "Permission denied: not that",
        "value of D",
    ]
    assert_results_follow_calls(one.messages)


@pytest.mark.covers("BYD-29")
async def test_an_approval_passes_a_pause_over_and_no_refusal() -> None:
    def gate(ctx: ToolGate) -> None:
        ctx.pause = "sure?"
        assert ctx.approved == answered

    def refuse(ctx: PermissionCheck) -> None:
        assert ctx.approved
        ctx.deny("the rules have changed")

    answered = False
    model = Script(tool_call_reply("look", key="a"), text_reply("done"))
    one = agent(model, tools=[look], hooks={ToolGate: gate})
    await one.run("go")
    assert len(model.requests) == 1
    answered = True
    one.on(PermissionCheck, refuse)
    one.answer(Approve())
    await one.run()
    assert said(one.messages[2]).tool_results[0].text == "Permission denied: the rules have changed"


async def test_a_denial_may_end_the_run_and_nothing_is_asked_again() -> None:
    model = Script(tool_call_reply("look", key="a"), text_reply("never"))
    one = agent(model, tools=[look], hooks=asking("a"))
    await one.run("go")
    one.answer(Deny("stop", stop=True))
    assert (await one.run()).status == "denied"
    assert len(model.requests) == 1
    assert_results_follow_calls(one.messages)


async def test_edited_arguments_are_checked_like_any() -> None:
    one = agent(Script(tool_call_reply("look", key="a"), text_reply("done")), tools=[look], hooks=asking("a"))
    await one.run("go")
    one.answer(Approve({"key": ["no", "text"]}))
    await one.run()
    assert said(one.messages[2]).tool_results[0].text.startswith("Validation error")


async def test_an_answer_needs_a_call_that_waits() -> None:
    one = agent(Script(tool_call_reply("look", key="a"), text_reply("done")), tools=[look], hooks=asking("a"))
    with pytest.raises(AgentError, match="No tool call is waiting"):
        one.answer(Approve())
    await one.run("go")
    with pytest.raises(AgentError, match="Unknown tool call: ghost. Waiting calls: "):
        one.answer({"ghost": Approve()})


# --- several of them --------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-16")
def test_one_agent_works_in_one_event_loop_after_another(capsys: pytest.CaptureFixture[str]) -> None:
    one = agent(Script(*[text_reply("ok")] * 3), tools=[look])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert asyncio.run(one.run("go"), debug=True).text == "ok"
        gc.collect()
    assert capsys.readouterr() == ("", "")


@pytest.mark.covers("OPT-12", "TEX-20")
@pytest.mark.parametrize("cap", [1, 3])
async def test_calls_that_allow_it_run_together_up_to_the_cap_and_others_alone(cap: int) -> None:
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
        """May run beside others."""
        return await work("safe")

    @tool(concurrency_safe=False)
    async def alone() -> str:
        """Runs alone."""
        return await work("alone")

    script = calls(*(tool_call_reply(n) for n in ("safe", "safe", "safe", "safe", "alone", "alone", "safe")))
    one = agent(Script(script, text_reply("ok")), tools=[safe, alone], behavior=RunOptions(tool_concurrency=cap))
    await one.run("go")
    assert limit == {"safe": cap, "alone": 1}


@pytest.mark.covers("AGT-42")
async def test_the_figures_of_a_run() -> None:
    one = agent(Script(tool_call_reply("look", key="a", tokens=3), text_reply("ok", tokens=4)), tools=[look])
    result: RunResult = await one.run("go")
    stats = result.stats
    assert (stats.turns, stats.usage.total_tokens, stats.tool_counts) == (2, 7, {"look": 1})
    assert [u.total_tokens for u in stats.turn_usage] == [3, 4]
    assert stats.seconds > 0
    assert (stats.output, stats.children, stats.side_usage) == (None, (), {})
    assert result.run_id


async def test_a_tool_start_that_waits_does_not_hold_up_an_abort() -> None:
    told = asyncio.Event()

    async def wait(ctx: BeforeToolRun) -> None:
        told.set()
        await asyncio.Event().wait()

    one = agent(
        Script(calls(tool_call_reply("look", key="a"), tool_call_reply("look", key="b")), text_reply("never")),
        tools=[look],
    )
    one.on(BeforeToolRun, wait)
    run = asyncio.ensure_future(one.run("go"))
    await told.wait()
    one.abort()
    with pytest.raises(AgentAbortedError):
        await run
    assert [r.text.split(":")[0] for r in said(one.messages[2]).tool_results] == ["Aborted", "Aborted"]
