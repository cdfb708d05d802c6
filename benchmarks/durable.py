"""What durable runs cost on PostgreSQL.

    python -m benchmarks.durable [RUNS] [WORKERS...]

queues runs of three answers and four tool calls each (a model and tools that take no time), starts workers, and prints how long it
took, what it cost the workers and the database in processor time and transactions, how often sessions were seen to wait for each
other, how much memory the workers had, and how long it takes to delete the runs.

    python -m benchmarks.durable idle [WORKERS...]

starts workers of one agent that have nothing to do, and prints what they ask of the database.

    python -m benchmarks.durable claims [CLAIMERS...]

has so many threads claim 3,000 runs that wait, eight at a time, as workers do, and prints how fast that goes and what goes wrong.
"""

import asyncio
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
from dbos import DBOS, DBOSClient

from mainspring.durable import DurableClient
from mainspring.durable.dbos.engine import DbosEngine
from tests.e2e.durable_harness import Workers, nursery
from tests.helpers.postgres import Postgres
from tests.requires import postgres_programs

USUAL: dict[str, Any] = {"poll": 0.2, "heartbeat": 2.0, "dead_after": 10.0}
"""What a worker does unless it is told otherwise."""

TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """What a process and the children it has waited for have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(f) for f in fields[11:15]) / TICKS


def process_tree_cpu_seconds(pid: int) -> float:
    """The same with the children that are there."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return processor_seconds(pid) + sum(processor_seconds(int(c)) for c in children if Path(f"/proc/{c}").exists())


def megabytes(pid: int) -> float:
    """What a process has had in memory at most that others do not share."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def database_facts(url: str) -> dict[str, float]:
    """Transactions and rows so far, and the size."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "select xact_commit, tup_inserted, tup_updated, pg_database_size(datname), deadlocks from pg_stat_database "
            "where datname = current_database()"
        ).fetchone()
        workers = connection.execute(
            "select count(*) from pg_stat_activity where datname = current_database()"
        ).fetchone()
    assert found is not None
    assert workers is not None
    return {
        "transactions": found[0],
        "inserted": found[1],
        "updated": found[2],
        "bytes": found[3],
        "deadlocks": found[4],
        "connections": workers[0],
    }


class LockWaitSampler:
    """Looks ten times a second which sessions wait for a lock of another one."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.looks = 0
        self.sessions = 0
        self.waiting = 0

    async def watch(self) -> None:
        """Look until cancelled."""
        connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
        async with connection:
            while True:
                found = await connection.execute(
                    "select count(*) filter (where state <> 'idle'), count(*) filter (where wait_event_type = 'Lock') "
                    "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
                )
                busy, waiting = await found.fetchone() or (0, 0)
                self.looks, self.sessions, self.waiting = self.looks + 1, self.sessions + busy, self.waiting + waiting
                await asyncio.sleep(0.1)

    def __str__(self) -> str:
        return f"{self.sessions / self.looks:.1f} sessions at work, {self.waiting / self.looks:.2f} of them waiting for another"


async def measure(server: Postgres, runs: int, count: int) -> str:
    url = await asyncio.to_thread(server.database)
    folder = Path(tempfile.mkdtemp(prefix="durable"))
    engine = DbosEngine(url)
    client = DurableClient(engine)
    with nursery() as forking:
        workers = Workers(forking, url, folder)
        try:
            began = time.monotonic()
            for first in range(0, runs, 50):
                names = [f"r{n}" for n in range(first, min(first + 50, runs))]
                await asyncio.gather(*(client.start("short", n, run_id=n) for n in names))
            queued = time.monotonic() - began
            await asyncio.sleep(1.5)  # the server's figures are written now and then
            before, database = database_facts(url), process_tree_cpu_seconds(server.pid)
            began = time.monotonic()
            pids = [workers.start(f"w{n}", **USUAL, pause=0.0) for n in range(count)]
            waits = LockWaitSampler(url)
            watching = asyncio.ensure_future(waits.watch())
            for n in range(runs):
                await client.run(f"r{n}").result()
            seconds = time.monotonic() - began
            watching.cancel()
            used = [processor_seconds(pid) for pid in pids]
            memory = [megabytes(pid) for pid in pids]
            database = process_tree_cpu_seconds(server.pid) - database
            await asyncio.sleep(1.5)
            after = database_facts(url)
            began = time.monotonic()
            deleted = await client.prune(0)
            deleting = time.monotonic() - began
        finally:
            workers.close()
            await engine.aclose()
            shutil.rmtree(folder)
    each = {name: (after[name] - before[name]) / runs for name in before}
    return (
        f"{count} workers, {runs} runs: queued in {queued:.1f} s, done in {seconds:.1f} s ({runs / seconds:.1f} runs/s); "
        f"a run costs workers {1000 * sum(used) / runs:.0f} ms and the database {1000 * database / runs:.0f} ms of processor "
        f"time, {each['transactions']:.0f} transactions, {each['inserted']:.0f} rows inserted, {each['updated']:.0f} updated, "
        f"{each['bytes'] / 1024:.1f} KiB; {waits}, {each['deadlocks'] * runs:.0f} deadlocks; {after['connections']:.0f} connections; memory of a worker "
        f"{', '.join(f'{m:.0f}' for m in memory)} MiB; {deleted} runs deleted in {deleting:.1f} s; load average {os.getloadavg()[0]:.0f}"
    )


async def idle(server: Postgres, count: int, poll: float) -> str:
    url = await asyncio.to_thread(server.database)
    folder = Path(tempfile.mkdtemp(prefix="durable"))
    with nursery() as forking:
        workers = Workers(forking, url, folder)
        try:
            pids: list[int] = []
            for n in range(count):
                pids.append(workers.start(f"w{n}", **{**USUAL, "poll": poll}, agents=["short"]))
                await workers.up()
            await asyncio.sleep(3)
            before, database, used = (
                database_facts(url),
                process_tree_cpu_seconds(server.pid),
                sum(map(processor_seconds, pids)),
            )
            began = time.monotonic()
            await asyncio.sleep(20)
            seconds = time.monotonic() - began
            database, used = process_tree_cpu_seconds(server.pid) - database, sum(map(processor_seconds, pids)) - used
            after = database_facts(url)
        finally:
            workers.close()
            shutil.rmtree(folder)
    share = 1 / seconds / count
    return (
        f"{count} idle workers, poll {poll}: each {(after['transactions'] - before['transactions']) * share:.1f} transactions a "
        f"second, {1000 * database * share:.1f} ms of the database and {1000 * used * share:.1f} ms of the worker a second, "
        f"{after['connections'] / count:.1f} connections; load average {os.getloadavg()[0]:.0f}"
    )


def claims(server: Postgres, count: int) -> str:
    url = server.database()
    DBOS.migrate(url)
    client = DBOSClient(system_database_url=url, application_name="mainspring", system_database_pool_size=20)
    queue = client.register_queue("mainspring.a", worker_concurrency=8, polling_interval_sec=0.2)
    system: Any = vars(client)["_sys_db"]  # whose claims are measured; nothing public does only that

    def wait(number: int) -> None:
        client.enqueue(
            {"workflow_name": "run", "queue_name": queue.name, "workflow_id": f"r{number}", "app_version": "1"}
        )

    def claim(name: int) -> tuple[list[str], int]:
        mine: list[str] = []
        for request in itertools.count(1):
            found, _ = system.start_queued_workflows(queue, f"w{name}", "1", None, 0, owner_xid=f"{name} {request}")
            if not found:
                return mine, request
            mine += found
        raise AssertionError

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(wait, range(3_000)))
        began = time.monotonic()
        done = list(threads.map(claim, range(count)))
        seconds = time.monotonic() - began
    client.destroy()
    runs, request = [run for mine, _ in done for run in mine], sum(request for _, request in done)
    return (
        f"{count} claimers: {len(runs)} runs in {request} claims and {seconds:.1f} s, {len(runs) / seconds:.0f} runs/s, "
        f"{request / seconds:.0f} claims/s; {len(runs) - len(set(runs))} claimed twice; load average {os.getloadavg()[0]:.0f}"
    )


async def measured(server: Postgres, words: list[str]) -> AsyncIterator[str]:
    if words[:1] == ["idle"]:
        for count in map(int, words[1:] or ["1", "8"]):
            for poll in (0.2, 1.0):
                yield await idle(server, count, poll)
        return
    if words[:1] == ["claims"]:
        for count in map(int, words[1:] or ["1", "4", "16"]):
            yield await asyncio.to_thread(claims, server, count)
        return
    runs, *counts = [int(word) for word in words] or [2_000]
    for count in counts or [1, 2]:
        yield await measure(server, runs, count)


async def show(server: Postgres) -> None:
    async for line in measured(server, sys.argv[1:]):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def main() -> None:
    programs = postgres_programs()
    assert programs is not None, "needs PostgreSQL"
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    server = Postgres(folder, programs)
    try:
        asyncio.run(show(server))
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
