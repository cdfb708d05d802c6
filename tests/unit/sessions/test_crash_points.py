"""A session file may end at any byte: the history is consistent, and nothing before the cut is lost."""

import asyncio
import itertools
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings, strategies as st
from msgspec import Struct, field

from mainspring.env.memory import MemoryEnv
from mainspring.errors import SessionError
from mainspring.events import ContextCompacted
from mainspring.loop import CoreAgent
from mainspring.loop.hooks import (
    BeforeToolRun,
    Hook,
    MessagesAdded,
    RunPaused,
    SessionEnd,
    SessionStart,
    ToolCallsReceived,
    ToolFinished,
    ToolResultsAfter,
)
from mainspring.messages import AgentMessage, Message, TextBlock, ToolResultBlock, ToolUseBlock, Usage
from mainspring.sessions import JsonlStore, Session, SessionPlug
from mainspring.sessions.history import INTERRUPTED_TEXT, NOT_STARTED
from mainspring.sessions.loader import apply_entries, history_at, read_from_end, read_path, read_tree
from mainspring.testing.scripted_model import ScriptedModel
from tests.unit.sessions.harness import QUICK, check_paired, encode_all

FATES = st.sampled_from(["blocked", "failed to start", "ran", "ran late", "hung", "never"])
STEPS = st.one_of(
    st.tuples(st.just("say"), st.integers(1, 3)),
    st.tuples(st.just("calls"), st.lists(FATES, min_size=1, max_size=4)),
    st.tuples(st.just("pause"), st.lists(FATES, min_size=1, max_size=3)),
    st.tuples(st.just("broken"), st.integers(1, 3)),
    st.tuples(st.just("compact"), st.integers(0, 6)),
    st.tuples(st.just("run"), st.none()),
    st.tuples(st.just("reset"), st.none()),
)


class ExpectedState(Struct):
    """The history that a reader must get if the file ends at this size."""

    size: int
    messages: list[bytes]
    calls: Message | None = None
    started: set[str] = field(default_factory=set[str])
    results: dict[str, ToolResultBlock] = field(default_factory=dict[str, ToolResultBlock])


class RunSimulator:
    """Fires the hooks and events of runs in the order of the agent loop, and records the stored state after each."""

    def __init__(self, folder: Path) -> None:
        self.session = Session.create("/", home=folder, options=QUICK)
        self.agent = CoreAgent(ScriptedModel(), env=MemoryEnv(), plugs=[SessionPlug(self.session)])
        self.moments: list[ExpectedState] = []
        self.now = ExpectedState(0, [])
        self.running = False
        self.ids = (f"{kind}{i}" for i in itertools.count() for kind in "m")

    async def fire(self, hook: Hook) -> None:
        await self.agent.bus.emit(hook)
        self.record()

    def record(self) -> None:
        path = Path(self.session.location)
        now = self.now
        size = path.stat().st_size if path.exists() else 0
        if not self.moments or size > self.moments[-1].size:
            state = ExpectedState(
                size, encode_all(self.agent.context.messages), now.calls, set(now.started), dict(now.results)
            )
            self.moments.append(state)

    def joins(self, *messages: AgentMessage) -> None:
        self.agent.context.messages.extend(messages)

    def message(self, role: Any, *blocks: Any) -> Message:
        return Message(role, blocks, id=next(self.ids))

    async def start(self) -> None:
        if not self.running:
            self.running = True
            await self.fire(SessionStart("r", "agent", bool(self.agent.context.messages)))

    async def stop(self, status: Any = "completed") -> None:
        if self.running:
            self.running = False
            await self.fire(SessionEnd("r", status, 1, Usage(), None))

    async def live(self, steps: list[tuple[str, Any]]) -> None:
        for name, value in steps:
            if name in {"run", "reset"}:
                await self.stop()
                if name == "reset":
                    self.agent.reset()
                continue
            await self.start()
            await getattr(self, f"_{name}")(value)
        await self.stop()

    async def _say(self, count: int) -> None:
        messages = tuple([self.message("user", TextBlock(f"text {i}\n")) for i in range(count)])
        self.joins(*messages)
        await self.fire(MessagesAdded("r", messages, "prompt"))

    async def _compact(self, kept: int) -> None:
        before = tuple(self.agent.context.messages)
        while 0 < kept < len(before) and before[-kept].tool_results:
            kept += 1
        after = (self.message("user", TextBlock("summary")), *(before[-kept:] if kept else ()))
        self.agent.context.messages[:] = after
        await self.agent.bus.notify(ContextCompacted.from_messages("overflow", before, after))
        self.record()

    async def _broken(self, count: int) -> None:
        message = self.message("assistant", *[ToolUseBlock(f"c{i}", "look") for i in range(count)])
        await self._pair(message, {})

    async def _calls(self, fates: list[str]) -> None:
        message, results = await self._attempt(fates)
        await self._pair(message, results)

    async def _pause(self, fates: list[str]) -> None:
        message, results = await self._attempt(fates)
        await self.fire(RunPaused("r", message, results, {"c0": "may I?"}))
        await self.stop("paused")
        await self.start()  # resumed immediately, in the same process
        await self._pair(message, results)

    async def _attempt(self, fates: list[str]) -> tuple[Message, dict[str, ToolResultBlock]]:
        calls = [ToolUseBlock(f"c{i}", "look", {"i": i}) for i in range(len(fates))]  # IDs are reused
        message = self.message("assistant", TextBlock("I look"), *calls)
        self.now = ExpectedState(0, [], message)
        await self.fire(ToolCallsReceived("r", message))
        results: dict[str, ToolResultBlock] = {}
        late: list[ToolUseBlock] = []
        for call, fate in zip(calls, fates, strict=True):
            if fate in {"ran", "ran late", "hung"}:
                self.now.started.add(call.id)
                await self.fire(BeforeToolRun(call, "t", call.input, False))
            if fate == "ran":
                await self._ran(call, results)
            elif fate == "ran late":
                late.append(call)
            elif fate == "blocked":
                results[call.id] = ToolResultBlock(call.id, "look", "no", True)
        for call in reversed(late):
            await self._ran(call, results)
        return message, results

    async def _ran(self, call: ToolUseBlock, results: dict[str, ToolResultBlock]) -> None:
        block = results[call.id] = ToolResultBlock(call.id, "look", f"{call.id} of {next(self.ids)}")
        self.now.results[call.id] = block
        await self.fire(ToolFinished(call, "t", block, output_bytes=1, seconds=0.1, metadata={}, tool_counts={}))

    async def _pair(self, message: Message, results: dict[str, ToolResultBlock]) -> None:
        blocks = [results.get(c.id) or ToolResultBlock(c.id, c.name, "settled", True) for c in message.tool_uses]
        joined = self.message("user", *blocks)
        self.joins(message, joined)
        self.now = ExpectedState(0, [])
        await self.fire(ToolResultsAfter("r", message, joined))


def matches_state(state: ExpectedState, loaded: list[bytes], messages: tuple[AgentMessage, ...]) -> bool:
    """Return True if a loaded history matches an expected state."""
    n = len(state.messages)
    if loaded[:n] != state.messages:
        return False
    if state.calls is None:
        return len(loaded) == n
    if len(loaded) != n + 2:
        return False
    pair = messages[n:]
    assert isinstance(pair[0], Message)
    assert isinstance(pair[1], Message)
    for call, block in zip(state.calls.tool_uses, pair[1].tool_results, strict=True):
        expected = state.results.get(call.id)
        if expected is not None:
            if block != expected:
                return False
        elif block.text not in {INTERRUPTED_TEXT if call.id in state.started else NOT_STARTED, "no", "settled"}:
            return False
    return pair[0].id == state.calls.id


def matches_partial_write(before: ExpectedState, after: ExpectedState, loaded: list[bytes]) -> bool:
    """Return True if a loaded history matches a write of which only the first lines were stored."""
    n = len(before.messages)
    if after.messages[:n] != before.messages:  # the history was replaced
        n = 0
    if loaded[:n] != after.messages[:n]:
        return False
    part = loaded[n:]
    if part == after.messages[n : len(loaded)]:
        return True
    # Calls without a pair entry: the message is loaded, and results are added.
    return len(part) == 2 and part[:1] == after.messages[n : n + 1]


@settings(max_examples=60)
@given(st.lists(STEPS, min_size=1, max_size=8), st.data())
def test_truncated_file_loads_a_consistent_history(steps: list[tuple[str, Any]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        simulator = RunSimulator(Path(folder))
        asyncio.run(simulator.live(steps))
        simulator.session.close()
        path = Path(simulator.session.location)
        if not path.exists():
            return
        whole = path.read_bytes()
        cut = data.draw(st.integers(0, len(whole)), "cut")
        path.write_bytes(whole[:cut])
        header = whole.index(b"\n")
        if cut < header:
            try:
                Session.open(path, options=QUICK)
                raise AssertionError("a truncated header was accepted")
            except SessionError:
                return
        session = Session.open(path, options=QUICK)
        loaded = encode_all(session.messages)
        check_paired(session.messages)
        if session.pending is None:
            before = next((m for m in reversed(simulator.moments) if m.size <= cut), ExpectedState(0, []))
            after = next((m for m in simulator.moments if m.size > cut), before)
            whole_write = any(matches_state(m, loaded, session.messages) for m in (before, after))
            assert whole_write or matches_partial_write(before, after, loaded)
        # The session can continue, and the stored history equals the history in memory.
        asyncio.run(_run_once_more(session))
        session.close()
        again = Session.open(path, options=QUICK)
        assert encode_all(again.messages) == encode_all(session.messages)
        check_paired(again.messages)
        assert path.read_bytes().startswith(whole[:cut])


async def _run_once_more(session: Session) -> None:
    agent = CoreAgent(ScriptedModel("fine"), env=MemoryEnv(), plugs=[SessionPlug(session)])
    result = await agent.run("and now?")
    assert result.status == "completed"


def check_partial_read(path: Path) -> None:
    """Assert that reading from the last compaction gives the same history as reading everything."""
    log = JsonlStore(path.parent).open(str(path), write=False)
    tree = read_tree(log)
    short = history_at(tree, log, tree.leaf)
    full = apply_entries(tree, read_path(log, tree.path(tree.leaf)))
    assert encode_all(short.messages) == encode_all(full.messages)
    assert (short.entry_ids, list(short.open), short.model) == (full.entry_ids, list(full.open), full.model)
    assert [r and r.id for r in (short.run, short.ended)] == [r and r.id for r in (full.run, full.ended)]
    recent = read_from_end(log)
    if recent is not None and not tree.problems:
        fast = recent.history
        assert encode_all(fast.messages) == encode_all(full.messages)
        assert (fast.entry_ids, list(fast.open), fast.model) == (full.entry_ids, list(full.open), full.model)
        assert [r and r.id for r in (fast.run, fast.ended)] == [r and r.id for r in (full.run, full.ended)]
        assert (recent.tree.leaf, recent.tree.labels) == (tree.leaf, tree.labels)
    log.close()


GARBAGE = st.one_of(
    st.binary(max_size=60).map(lambda b: b.replace(b"\n", b"")),
    st.sampled_from(
        [b"[" * 50_000, b'{"a":' * 20_000, b"\xff\xfe", b"\x00" * 4096, b"null", b"{}", b'{"type":"pair","id":"x","parent":null}',
         b'{"type":"pair","id":"y","parent":null,"timestamp":"2026-01-01T00:00:00Z","intent":"z","results":[]}', b'"', b"1e999",
         b'{"type":"message","id":"q","parent":"nobody","timestamp":"x","source":"prompt","message":{"kind":"message"}}'],
    ),
)  # fmt: skip


@settings(max_examples=50)
@given(
    st.lists(STEPS, min_size=2, max_size=6), st.lists(st.tuples(st.integers(0, 60), GARBAGE, st.booleans()), max_size=6)
)
def test_garbage_between_lines_does_not_break_loading(
    steps: list[tuple[str, Any]], garbage: list[tuple[int, bytes, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        simulator = RunSimulator(Path(folder))
        asyncio.run(simulator.live([("say", 1), *steps]))
        simulator.session.close()
        path = Path(simulator.session.location)
        lines = path.read_bytes().splitlines()
        for where, junk, instead in garbage:
            at = 1 + where % len(lines)
            lines[at : at + instead] = [junk]
        path.write_bytes(b"\n".join(lines) + b"\n")
        check_partial_read(path)
        session = Session.open(path, options=QUICK)
        check_paired(session.messages)
        asyncio.run(_run_once_more(session))
        session.close()
        again = Session.open(path, options=QUICK)
        check_paired(again.messages)
        assert encode_all(again.messages)[-2:] == encode_all(session.messages)[-2:]
