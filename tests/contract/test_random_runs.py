"""Random scripts through the loop keep the guarantees of a run.

Each run has its own script (batches of calls that work, fail, hang, pause, are denied, or are invalid; responses that are cut off
or empty), options, handlers that are slow or fail, and an input during the run: steering, an abort, a cancellation, twice, or
both. The seed is the number of the run, so a failure can be repeated.
"""

import asyncio
import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentAbortedError, AgentError, ModelNotFoundError, RateLimitedError
from mainspring.events import Event
from mainspring.loop import Approve, CoreAgent, Deny
from mainspring.loop.hooks import (
    HOOK_NAMES,
    BeforeToolRun,
    Hook,
    PermissionCheck,
    ToolCallsReceived,
    ToolGate,
    ToolResultsAfter,
    resolve,
)
from mainspring.messages import Message, Usage, encode_message
from mainspring.models import RetryConfig
from mainspring.run_options import RunOptions
from mainspring.sessions import Session, SessionOptions, SessionPlug
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import Tool, ToolContext, tool

RUNS, ALL_RUNS = 600, 2000
PARTS = 4  # each test must finish in seconds
QUICK = SessionOptions(fsync="never", retry_after=0.0, redact_line=None)
NO_WAIT = RetryConfig(max_retries=1, base_delay_seconds=0, max_delay_seconds=0, jitter=0)
FIRED = [name for name in HOOK_NAMES if not name.startswith(("child:", "mcp:", "skills:", "spawn:", "oauth:"))]
PER_CALL = ("tool:gate", "tool:before", "tool:permit", "tool:start", "tool:error", "tool:transform", "tool:after")
STOPS = ("abort", "abort", "cancel", "cancel twice", "both", "abort twice", "deadline")


class RunSimulator:
    """One run: its script, the inputs during the run, and the recorded events."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = rng = random.Random(seed)
        self.ids = 0
        self.ran: Counter[str] = Counter()
        self.hooks: list[tuple[str, Hook | Event]] = []
        self.events: list[str] = []
        self.ticks = 0
        self.inputs = {
            rng.randrange(1, 60): rng.choice(("steer", "follow_up")) for _ in range(rng.choice((0, 0, 1, 3)))
        }
        if rng.random() < 0.6:
            self.inputs[rng.randrange(1, 80)] = rng.choice(STOPS)
        self.task: asyncio.Task[Any] | None = None
        self.session = Session.create(folder, home=folder, id=f"s{seed}", options=QUICK)
        script = [self._answer() for _ in range(rng.randrange(1, 7))]
        self.agent = CoreAgent(
            ScriptedModel(*script, *["the end"] * 20),
            env=MemoryEnv(),
            tools=self._tools(),
            plugs=[SessionPlug(self.session)],
            behavior=self._behavior(),
        )
        for name in FIRED:
            self.agent.on(name, self._handler(resolve(name).kind), order=rng.choice((-5, 0, 5)))
            self.agent.on(name, partial(self._record_hook, name), order=99)
        self.agent.on(ToolGate, self._gate)
        self.agent.on(PermissionCheck, self._permit)
        self.agent.subscribe(lambda event: self._tick(event.type))

    # --- script -----------------------------------------------------------------------------------------------------

    def _behavior(self) -> RunOptions:
        rng = self.random
        return RunOptions(
            tool_execution=rng.choice(("parallel", "sequential")),
            tool_concurrency=rng.choice((1, 2, 16)),
            steering=rng.choice(("one", "all")),
            max_turns=rng.choice((None, None, 1, 3)),
            max_total_tokens=rng.choice((None, None, None, 25)),
            abort_grace=0.002,
            retry=rng.choice((None, NO_WAIT)),
        )

    def _answer(self) -> Any:
        rng = self.random
        dice = rng.random()
        if dice < 0.75:
            calls = [self._call() for _ in range(rng.choice((1, 2, 3, 5)))]
            cut = rng.choice((None,) * 8 + (1,))
            stop = rng.choice((None,) * 8 + ("max_tokens",))
            return Reply(
                rng.choice(("", "let me see")),
                calls=calls,
                usage=Usage(output_tokens=5),
                chunk_count=2,
                stop_reason=stop,
                truncate_after=cut,
            )
        if dice < 0.84:
            return Reply(
                rng.choice(("", "  ", "an answer")), usage=Usage(output_tokens=5), thinking=rng.choice(("", "hm"))
            )
        if dice < 0.90:
            return rng.choice((RateLimitedError("slow down"), ModelNotFoundError("no such model")))
        return Reply("an answer that takes its time", usage=Usage(output_tokens=5), chunk_count=4, delta_delay=0.0001)

    def _call(self) -> ScriptedCall:
        self.ids += 1
        name = self.random.choice(
            ("work",) * 6 + ("fail", "alone", "alone", "stubborn", "ghost", "wrong", "pause", "refuse", "given")
        )
        id = f"c{self.ids}"
        match name:
            case "wrong":
                return ScriptedCall("work", raw=self.random.choice(('{"n": ', '{"n": [1]}', "[]")), id=id)
            case "pause" | "refuse" | "given":
                return ScriptedCall("work", {"n": name}, id=id)
            case _:
                return ScriptedCall(name, {"n": id}, id=id)

    def _tools(self) -> list[Tool]:
        async def record_run(ctx: ToolContext) -> str:
            self.ran[ctx.call_id] += 1
            for _ in range(self.random.randrange(3)):
                self._tick()
                ctx.update("working")
                await asyncio.sleep(0)
            return f"did {ctx.call_id}"

        @tool
        async def work(n: str, ctx: ToolContext) -> str:
            """Work."""
            return await record_run(ctx)

        @tool(concurrency_safe=False)
        async def alone(n: str, ctx: ToolContext) -> str:
            """Work alone."""
            return await record_run(ctx)

        @tool
        async def fail(n: str, ctx: ToolContext) -> str:
            """Fail."""
            await record_run(ctx)
            raise self.random.choice((ValueError("broken"), asyncio.CancelledError(), SystemExit(3), TimeoutError()))

        @tool
        async def stubborn(n: str, ctx: ToolContext) -> str:
            """Continue despite a cancellation."""
            for _ in range(3):
                try:
                    await asyncio.sleep(0.001)
                except asyncio.CancelledError:
                    continue
            return await record_run(ctx)

        return [work, alone, fail, stubborn]

    def _gate(self, ctx: ToolGate) -> None:
        match ctx.input.get("n"):
            case "pause":
                ctx.pause = "somebody must answer"
            case "refuse":
                ctx.block = "not today"
            case "given":
                ctx.result = "given"
            case _:
                pass

    def _permit(self, ctx: PermissionCheck) -> None:
        if self.random.random() < 0.05:
            ctx.deny("no", stop=self.random.random() < 0.3)
        elif self.random.random() < 0.05:
            ctx.pause("may it?")

    def _handler(self, kind: type[Hook] | type[Event]) -> Any:
        """Create a handler that is fast, slow, or sometimes fails."""
        mood = self.random.random()

        async def slow(ctx: Hook | Event) -> None:
            self._tick()
            await asyncio.sleep(0)
            self._tick()

        def failing(ctx: Hook | Event) -> None:
            self._tick()
            if not issubclass(kind, Hook) or not kind.gate or self.random.random() < 0.2:
                raise ValueError("a handler failed")

        return slow if mood < 0.3 else failing if mood < 0.35 else lambda ctx: self._tick()

    # --- inputs during the run --------------------------------------------------------------------------------------

    def _tick(self, event: str = "") -> None:
        if event:
            self.events.append(event)
        self.ticks += 1
        action, task = self.inputs.pop(self.ticks, None), self.task
        if action is None or task is None:
            return
        loop = asyncio.get_running_loop()
        match action:
            case "steer":
                self.agent.steer("steered")
            case "follow_up":
                self.agent.follow_up("and then")
            case "abort":
                self.agent.abort("enough")
            case "abort twice":
                self.agent.abort("enough")
                loop.call_soon(self.agent.abort, "more than enough")
            case "cancel":
                loop.call_soon(task.cancel)
            case "cancel twice":
                loop.call_soon(task.cancel)
                loop.call_soon(lambda: loop.call_soon(lambda: loop.call_soon(task.cancel)))
            case "both":
                self.agent.abort("enough")
                loop.call_soon(lambda: loop.call_soon(task.cancel))
            case _:
                self.agent.abort("late")

    def _record_hook(self, name: str, ctx: Hook | Event) -> None:
        self.hooks.append((name, ctx))

    # --- run --------------------------------------------------------------------------------------------------------

    async def run(self) -> str:
        """Run, answer pending calls, run again; check after each."""
        status = ""
        for prompt in ("go", "", "go on"):
            pending = self.agent.pending
            if pending is not None and not prompt:
                self.agent.answer({c.id: self.random.choice((Approve(), Deny())) for c in pending.calls})
            elif not prompt:
                continue
            self.hooks.clear()
            self.events.clear()
            status = await self._once(prompt)
            self._check(status)
        return status

    async def _once(self, prompt: str) -> str:
        self.task = asyncio.ensure_future(self.agent.run(prompt))
        try:
            return (await self.task).status
        except (AgentAbortedError, asyncio.CancelledError):
            return "aborted"
        except AgentError:
            return "error"
        finally:
            self.task = None

    # --- guarantees -------------------------------------------------------------------------------------------------

    def _check(self, status: str) -> None:
        messages = [m for m in self.agent.messages if isinstance(m, Message)]
        check_pairs(messages)
        assert max(self.ran.values(), default=0) <= 1, "a call ran twice"
        assert (self.agent.pending is not None) == (status == "paused") or status in ("aborted", "error")
        self.session.save()
        with Session.open(
            self.session.location, home=Path(self.session.location).parent, write=False, options=QUICK
        ) as read:
            assert [encode_message(m) for m in read.messages] == [encode_message(m) for m in self.agent.messages]
            assert read.problems == []
            ours, theirs = self.agent.pending, read.pending
            assert (ours and (ours.message.id, set(ours.results), ours.reasons)) == (
                theirs and (theirs.message.id, set(theirs.results), theirs.reasons)
            )
        check_hooks(self.hooks)
        assert (self.events.count("agent_start"), self.events.count("agent_end")) == (1, 1)
        assert self.events[-1] == "agent_end", "no event follows agent_end"


def check_pairs(messages: list[Message]) -> None:
    """Check that every call has exactly one result, right after it and in order, and no result lacks its call."""
    for i, message in enumerate(messages):
        calls = [c.id for c in message.tool_uses] if message.role == "assistant" else []
        after = [r.tool_use_id for r in messages[i + 1].tool_results] if i + 1 < len(messages) else []
        assert after == calls, f"message {i}: calls {calls}, results {after}"
    assert not messages[0].tool_results


def check_hooks(hooks: list[tuple[str, Hook | Event]]) -> None:
    """Check that the hooks of one run fired in a documented order."""
    names = [name for name, _ in hooks]
    assert names[0] == "session:start"
    assert names[-2:] == ["session:end", "agent:done"]
    assert all(names.count(n) == 1 for n in ("session:start", "session:end", "agent:done"))
    if "turn:before" in names and "session:turns" in names[: names.index("turn:before")]:
        first = hooks[names.index("session:turns")][1]
        assert getattr(first, "source", "") in ("prompt", "synthetic", "steer", "assistant", "follow_up")
    state, place, turn = "", dict[str, int](), 0
    for name, hook in hooks:
        if name == "turn:before":
            assert state == ""
            turn = getattr(hook, "turn", 0)
        elif name == "turn:after":
            assert getattr(hook, "turn", 0) == turn
        elif isinstance(hook, ToolCallsReceived):
            assert state == ""
            state, place = "calls", {}
        elif isinstance(hook, ToolResultsAfter):
            state = ""
        elif name == "run:pause":
            state = ""
        elif name in PER_CALL:
            call = getattr(hook, "call_id", "")
            step = PER_CALL.index(name)
            assert step > place.get(call, -1), f"{name} of {call} came after {PER_CALL[place.get(call, 0)]}"
            place[call] = step
            if isinstance(hook, BeforeToolRun):
                assert "tool:permit" in names
    assert state == "", "calls without results"


async def simulate_runs(seeds: range, folder: Path) -> None:
    """Simulate the runs of some seeds, which end in every way."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        simulator = RunSimulator(seed, folder)
        try:
            seen[await simulator.run()] += 1
        except AssertionError as error:
            raise AssertionError(f"run {seed}: {error}") from error
        finally:
            simulator.session.close()
    assert seen.keys() >= {"completed", "aborted", "error", "paused", "max_turns"}, seen


@pytest.mark.covers("TST-07", "TEX-23", "HOK-28", "TEX-28")
@pytest.mark.parametrize("part", range(PARTS))
async def test_random_runs_keep_the_guarantees(part: int, tmp_path: Path) -> None:
    await simulate_runs(range(part, RUNS, PARTS), tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_more_random_runs_keep_the_guarantees(tmp_path: Path) -> None:
    await simulate_runs(range(RUNS, ALL_RUNS), tmp_path)
