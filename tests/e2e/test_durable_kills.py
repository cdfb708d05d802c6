"""`kill -9` of a worker at random moments: no message is lost, no answer asked for again, nothing paid twice."""

import asyncio
import os
import random
import sys
from collections import Counter

import pytest

from mainspring.durable import DurableClient, DurableRun
from mainspring.durable.dbos.engine import DbosEngine
from mainspring.loop import RunResult
from mainspring.messages import Message
from tests.e2e.durable_harness import Workers, forking, workers
from tests.requires import on_posix

__all__ = ["forking", "workers"]
pytestmark = [on_posix, pytest.mark.timeout(90)]

AT_ONCE = 3
LETTERS = 3


class Watched:
    """A run under way, and what was sent to it."""

    def __init__(self, run: DurableRun) -> None:
        self.run = run
        self.sent: list[str] = []


class Trial:
    """Keeps runs going while their workers are killed, and checks what was done."""

    def __init__(self, workers: Workers, engine: DbosEngine) -> None:
        self.workers = workers
        self.runs = DurableClient(engine)
        self.engine = engine
        self.going: list[Watched] = []
        self.over: list[tuple[Watched, RunResult]] = []
        self.finished_calls: dict[str, int] = {}
        self.unknown = 0
        self.asked_before = 0

    async def fill(self) -> None:
        """Runs that are over give place to new ones."""
        for one in list(self.going):
            if (await one.run.info()).state not in ("waiting", "running"):
                await self.end(one)
        while len(self.going) < AT_ONCE:
            name = f"r{len(self.over) + len(self.going)}"
            self.going.append(Watched(await self.runs.start("told", name, run_id=name)))

    async def end(self, one: Watched) -> None:
        self.going.remove(one)
        self.over.append((one, await one.run.result(timeout=60)))

    async def tell(self) -> None:
        """A message to each run; the last one lets it come to its end."""
        for one in self.going:
            text = f"m{len(one.sent)}" if len(one.sent) < LETTERS else "finish"
            one.sent.append(text)
            await one.run.steer(text)

    def check_asked(self) -> None:
        """No answer that was kept before the last kill has been asked for since."""
        request = self.workers.lines("asked", self.asked_before)
        self.asked_before += len(request)
        for line in request:
            run, turn = line.split()
            assert int(turn) >= self.finished_calls.get(run, 0), f"{line} was asked for again"

    async def note_finished(self) -> None:
        """After a kill: how many answers of each run are kept."""
        client = await self.engine.open()
        for one in self.going:
            steps = await self.engine.run_in_thread(client.list_workflow_steps, one.run.id, load_output=False)
            self.finished_calls[one.run.id] = sum(s["function_name"].startswith("model ") for s in steps)

    def check(self, watched: Watched, result: RunResult) -> None:
        assert result.status == "completed", result.error
        users = [m for m in result.messages if isinstance(m, Message) and m.role == "user"]
        texts = [m.text for m in users if not m.tool_results][1:]
        told = [t for t in texts if t != "finish"]
        assert told == watched.sent[: len(told)], "each message joined, in its order"
        assert len(told) == min(len(watched.sent), LETTERS)
        paid = Counter(self.workers.lines("paid"))
        for message in users:
            for part in message.tool_results:
                if part.text.startswith("paid "):
                    assert paid[part.text.removeprefix("paid ")] == 1
                elif not part.text.startswith("saw "):
                    assert "Whether it did its work is unknown" in part.text
                    self.unknown += 1


async def trial(workers: Workers, kills: int, seed: int, most: float) -> Trial:
    moments = random.Random(seed)
    engine = DbosEngine(workers.url, poll=0.05)
    it = Trial(workers, engine)
    try:
        for kill in range(kills):
            await it.fill()
            # Now and then the worker does not come back, and one of another name takes its runs up.
            pid = await asyncio.to_thread(workers.start, f"w{kill // 4}")
            if kill % 8:
                await workers.up()
                await it.tell()
            await asyncio.sleep(moments.uniform(0.0, most))
            await asyncio.to_thread(workers.kill, pid)
            it.check_asked()
            await it.note_finished()
        await asyncio.to_thread(workers.start, "last")
        while it.going:
            await it.tell()
            await asyncio.sleep(0.1)
            for one in list(it.going):
                if "finish" in one.sent:
                    await it.end(one)
        it.check_asked()
    finally:
        await engine.aclose()
    for watched, result in it.over:
        it.check(watched, result)
    paid = Counter(workers.lines("paid"))
    assert not [key for key, times in paid.items() if times > 1], "nothing was paid twice"
    assert paid
    return it


@pytest.mark.covers("BYD-31")
async def test_a_worker_is_killed_at_random_moments(workers: Workers) -> None:
    await trial(workers, 8, seed=1, most=0.7)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_a_worker_is_killed_at_200_random_moments(workers: Workers) -> None:
    it = await trial(workers, 200, seed=int(os.environ.get("DURABLE_SEED", "2")), most=1.6)
    kinds = Counter(line.split()[0] for line in workers.lines("asked"))
    sys.stderr.write(
        f"{len(it.over)} runs, {sum(kinds.values())} answers asked for, {len(workers.lines('paid'))} payments, "
        f"{it.unknown} of unknown outcome\n"
    )
