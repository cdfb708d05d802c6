"""`kill -9` of a worker at random moments: no message is lost, no request is repeated, and nothing is paid twice."""

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
from tests.e2e.durable_harness import Workers, fork_server, workers
from tests.requires import on_posix

__all__ = ["fork_server", "workers"]
pytestmark = [pytest.mark.slow, on_posix]

CONCURRENT_RUNS = 3
MESSAGES_PER_RUN = 3


class RunRecord:
    """An active run and the messages sent to it."""

    def __init__(self, run: DurableRun) -> None:
        self.run = run
        self.sent: list[str] = []


class KillTrial:
    """Keeps runs active while their workers are killed, and checks the results."""

    def __init__(self, workers: Workers, engine: DbosEngine) -> None:
        self.workers = workers
        self.runs = DurableClient(engine)
        self.engine = engine
        self.active: list[RunRecord] = []
        self.finished: list[tuple[RunRecord, RunResult]] = []
        self.finished_calls: dict[str, int] = {}
        self.unknown = 0
        self.checked_requests = 0

    async def start_runs(self) -> None:
        """Replace finished runs with new ones."""
        for record in list(self.active):
            if (await record.run.info()).state not in ("waiting", "running"):
                await self.finish(record)
        while len(self.active) < CONCURRENT_RUNS:
            name = f"r{len(self.finished) + len(self.active)}"
            self.active.append(RunRecord(await self.runs.start("steered", name, run_id=name)))

    async def finish(self, record: RunRecord) -> None:
        self.active.remove(record)
        self.finished.append((record, await record.run.result(timeout=120)))

    async def send_messages(self) -> None:
        """Send a message to each run; the last message lets the run finish."""
        for record in self.active:
            text = f"m{len(record.sent)}" if len(record.sent) < MESSAGES_PER_RUN else "finish"
            record.sent.append(text)
            await record.run.steer(text)

    def check_no_repeated_requests(self) -> None:
        """Check that no response stored before the last kill was requested again."""
        request = self.workers.lines("requested", self.checked_requests)
        self.checked_requests += len(request)
        for line in request:
            run, turn = line.split()
            assert int(turn) >= self.finished_calls.get(run, 0), f"{line} was requested again"

    async def record_finished_calls(self) -> None:
        """Record how many responses of each run are stored, after a kill."""
        client = await self.engine.open()
        for record in self.active:
            steps = await self.engine.run_in_thread(client.list_workflow_steps, record.run.id, load_output=False)
            self.finished_calls[record.run.id] = sum(s["function_name"].startswith("model ") for s in steps)

    def check(self, record: RunRecord, result: RunResult) -> None:
        assert result.status == "completed", result.error
        users = [m for m in result.messages if isinstance(m, Message) and m.role == "user"]
        texts = [m.text for m in users if not m.tool_results][1:]
        joined = [t for t in texts if t != "finish"]
        assert joined == record.sent[: len(joined)], "each message joined in order"
        assert len(joined) == min(len(record.sent), MESSAGES_PER_RUN)
        paid = Counter(self.workers.lines("paid"))
        for message in users:
            for part in message.tool_results:
                if part.text.startswith("paid "):
                    assert paid[part.text.removeprefix("paid ")] == 1
                elif not part.text.startswith("saw "):
                    assert "Whether it did its work is unknown" in part.text
                    self.unknown += 1


async def run_trial(workers: Workers, kills: int, seed: int, max_delay: float) -> KillTrial:
    moments = random.Random(seed)
    engine = DbosEngine(workers.url, poll=0.05)
    kill_trial = KillTrial(workers, engine)
    try:
        for kill in range(kills):
            await kill_trial.start_runs()
            # Sometimes the worker does not return, and a worker with another name resumes its runs.
            pid = await asyncio.to_thread(workers.start, f"w{kill // 4}")
            if kill % 8:
                await workers.wait_until_started()
                await kill_trial.send_messages()
            await asyncio.sleep(moments.uniform(0.0, max_delay))
            await asyncio.to_thread(workers.kill, pid)
            kill_trial.check_no_repeated_requests()
            await kill_trial.record_finished_calls()
        await asyncio.to_thread(workers.start, "last")
        while kill_trial.active:
            await kill_trial.send_messages()
            await asyncio.sleep(0.1)
            for record in list(kill_trial.active):
                if "finish" in record.sent:
                    await kill_trial.finish(record)
        kill_trial.check_no_repeated_requests()
    finally:
        await engine.aclose()
    for record, result in kill_trial.finished:
        kill_trial.check(record, result)
    paid = Counter(workers.lines("paid"))
    assert not [key for key, times in paid.items() if times > 1], "nothing was paid twice"
    assert paid
    return kill_trial


async def test_runs_survive_worker_kills(workers: Workers) -> None:
    await run_trial(workers, 8, seed=1, max_delay=0.7)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_runs_survive_200_worker_kills(workers: Workers) -> None:
    kill_trial = await run_trial(workers, 200, seed=int(os.environ.get("DURABLE_SEED", "2")), max_delay=1.6)
    kinds = Counter(line.split()[0] for line in workers.lines("requested"))
    sys.stderr.write(
        f"{len(kill_trial.finished)} runs, {sum(kinds.values())} answers asked for, {len(workers.lines('paid'))} payments, "
        f"{kill_trial.unknown} of unknown outcome\n"
    )
