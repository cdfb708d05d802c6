"""What durable runs cost on PostgreSQL: `python -m benchmarks.durable [RUNS] [WORKERS...]`.

Queues runs of three answers and four tool calls each (a model and tools that take no time), starts workers, and prints how
long it took, what it cost the workers and the database in processor time and transactions, and how much memory they had.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from mainspring.durable import DurableRuns
from mainspring.durable.dbos import DbosEngine
from tests.e2e.durable_rig import Workers, nursery
from tests.needs import postgres_programs
from tests.postgres import Postgres

TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """What a process and the children it has waited for have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(f) for f in fields[11:15]) / TICKS


def family_seconds(pid: int) -> float:
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
            "select xact_commit, tup_inserted, tup_updated, pg_database_size(datname) from pg_stat_database "
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
        "connections": workers[0],
    }


async def measure(server: Postgres, runs: int, count: int) -> str:
    url = await asyncio.to_thread(server.database)
    folder = Path(tempfile.mkdtemp(prefix="durable"))
    engine = DbosEngine(url)
    client = DurableRuns(engine)
    with nursery() as forking:
        workers = Workers(forking, url, folder)
        try:
            began = time.monotonic()
            for first in range(0, runs, 50):
                names = [f"r{n}" for n in range(first, min(first + 50, runs))]
                await asyncio.gather(*(client.start("short", n, run_id=n) for n in names))
            queued = time.monotonic() - began
            await asyncio.sleep(1.5)  # the server's figures are written now and then
            before, database = database_facts(url), family_seconds(server.pid)
            began = time.monotonic()
            pids = [workers.start(f"w{n}", poll=0.2, heartbeat=2.0, dead_after=10.0, pause=0.0) for n in range(count)]
            for n in range(runs):
                await client.run(f"r{n}").result()
            seconds = time.monotonic() - began
            used = [processor_seconds(pid) for pid in pids]
            memory = [megabytes(pid) for pid in pids]
            database = family_seconds(server.pid) - database
            await asyncio.sleep(1.5)
            after = database_facts(url)
        finally:
            workers.close()
            await engine.aclose()
            shutil.rmtree(folder)
    each = {name: (after[name] - before[name]) / runs for name in before}
    return (
        f"{count} workers, {runs} runs: queued in {queued:.1f} s, done in {seconds:.1f} s ({runs / seconds:.1f} runs/s); "
        f"a run costs workers {1000 * sum(used) / runs:.0f} ms and the database {1000 * database / runs:.0f} ms of processor "
        f"time, {each['transactions']:.0f} transactions, {each['inserted']:.0f} rows inserted, {each['updated']:.0f} updated, "
        f"{each['bytes'] / 1024:.1f} KiB; {after['connections']:.0f} connections; memory of a worker "
        f"{', '.join(f'{m:.0f}' for m in memory)} MiB; load average {os.getloadavg()[0]:.0f}"
    )


def main() -> None:
    runs, *counts = [int(word) for word in sys.argv[1:]] or [2_000]
    programs = postgres_programs()
    assert programs is not None, "needs PostgreSQL"
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    server = Postgres(folder, programs)
    try:
        for count in counts or [1, 2]:
            sys.stdout.write(asyncio.run(measure(server, runs, count)) + "\n")
            sys.stdout.flush()
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
