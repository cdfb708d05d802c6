"""An engine on DBOS: runs are its workflows, model and tool calls its steps; on SQLite, or on PostgreSQL for many machines."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from mainspring.durable.engine import Letter, Main, RunInfo, RunLog, RunState, Work
from mainspring.durable.errors import DurableError
from mainspring.durable.tables import Tables

if TYPE_CHECKING:
    from dbos import DBOSClient, StepReservation

RUN, QUEUE = "mainspring.run", "mainspring"
_STATES: dict[str, RunState] = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "running",
    "SUCCESS": "done",
    "CANCELLED": "cancelled",
}
_EVERLASTING = 1_000_000
"""Attempts at a run: how often its worker dies says nothing about the run."""


class DbosEngine:
    """An `Engine` on DBOS (extra ``durable``).

    One process has one worker at most, since DBOS has one instance a process; any number of engines that only start and follow
    runs may stand beside it.

    Args:
        url: ``sqlite:///PATH`` for one machine, ``postgresql://USER:PASSWORD@HOST/DATABASE`` for many. Tables are made.
        version: Of the code that makes the agents. A run is done by workers of the version it was started under; change it with
            every change after which an old run could not be played again.
        worker: Name of this worker; one that comes back under its name takes up its own runs at once.
        heartbeat: Seconds between two signs of life.
        dead_after: Seconds without one after which a worker's runs are taken up by another.
        poll: Seconds between two looks for letters and for runs that wait.

    Raises:
        ConfigError: If DBOS is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        version: str = "1",
        worker: str = "",
        heartbeat: float = 2.0,
        dead_after: float = 10.0,
        poll: float = 0.2,
    ) -> None:
        self.url = url
        self.version = version
        self.worker = worker or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._heartbeat = heartbeat
        self._dead_after = dead_after
        self._poll = poll
        self._tables = Tables(url)
        self._client: DBOSClient | None = None
        self._opening = asyncio.Lock()
        self._main: Main | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._runs: set[asyncio.Task[Any]] = set()
        self._bells: dict[str, asyncio.Event] = {}

    # --- as a worker ------------------------------------------------------------------------------------------------

    async def work(self, main: Main, *, concurrency: int = 8) -> None:
        from dbos import DBOS

        await self._open()
        self._main = main
        DBOS(
            config={
                "name": "mainspring",
                "system_database_url": self.url,
                "application_version": self.version,
                "executor_id": self.worker,
                "serializer": _serializer(),
                "log_level": "ERROR",
                "run_migrations": False,
                "notification_listener_polling_interval_sec": self._poll,
            }
        )

        async def attempt(agent: str, input: str) -> str:  # DBOS wants a function
            return await self._attempt(agent, input)

        DBOS.workflow(name=RUN, max_recovery_attempts=_EVERLASTING)(attempt)
        await asyncio.to_thread(self._tables.beat, self.worker, self.version)
        DBOS.launch()
        await DBOS.register_queue_async(QUEUE, worker_concurrency=concurrency, polling_interval_sec=self._poll)
        for job in (self._live(), self._listen()):
            self._tasks.add(asyncio.ensure_future(job))

    async def _attempt(self, agent: str, input: str) -> str:
        from dbos import DBOS

        task = asyncio.current_task()
        assert task is not None
        assert self._main is not None
        run_id = DBOS.workflow_id or ""
        self._runs.add(task)
        self._bells[run_id] = asyncio.Event()
        try:
            client = await self._open()
            found = await client.list_workflow_steps_async(run_id, load_output=False)
            log = _Log(self, run_id, {step["function_id"] for step in found})
            return (await self._main(log, agent, input.encode())).decode()
        finally:
            self._runs.discard(task)
            self._bells.pop(run_id, None)

    async def _live(self) -> None:
        """Give signs of life, and take up the runs of those that give none."""
        while True:
            with suppress(Exception):  # a database that is away for a while comes back
                await asyncio.to_thread(self._tables.beat, self.worker, self.version)
                await self._reap()
            await asyncio.sleep(self._heartbeat)

    async def _reap(self) -> None:
        """Give the runs of dead workers of this version back to the queue."""
        client = await self._open()
        alive = {name for name, _ in await asyncio.to_thread(self._tables.workers, time.time() - self._dead_after)}
        held = await client.list_workflows_async(
            status="PENDING", name=RUN, app_version=self.version, load_input=False, load_output=False
        )
        for run in held:
            if run.executor_id not in alive:
                await client.resume_workflow_async(run.workflow_id, queue_name=QUEUE)

    async def _listen(self) -> None:
        """Wake the runs that got letters."""
        last = 0
        while True:
            with suppress(Exception):
                last, runs = await asyncio.to_thread(self._tables.receivers, last)
                for bell in [self._bells[run] for run in runs if run in self._bells]:
                    bell.set()
            await asyncio.sleep(self._poll)

    # --- from anywhere ----------------------------------------------------------------------------------------------

    async def start(self, run_id: str, agent: str, input: bytes) -> bool:
        client = await self._open()
        if await self.info(run_id) is not None:
            return False
        options: Any = {
            "workflow_name": RUN,
            "queue_name": QUEUE,
            "workflow_id": run_id,
            "app_version": self.version,
            "attributes": {"agent": agent},
        }
        await client.enqueue_async(options, agent, input.decode())
        return True

    async def send(self, run_id: str, topic: str, body: bytes, *, key: str = "") -> None:
        if await self.info(run_id) is None:
            raise DurableError(f"there is no run {run_id}")
        await asyncio.to_thread(self._tables.send, run_id, topic, body, key)

    async def info(self, run_id: str) -> RunInfo | None:
        client = await self._open()
        found = await client.list_workflows_async(workflow_ids=[run_id], load_input=False, load_output=False)
        return await self._info(found[0]) if found else None

    async def _info(self, run: Any) -> RunInfo:
        state = _STATES.get(run.status, "failed")
        error = str(run.error) if run.error is not None else ""
        if state == "waiting" and run.app_version not in (versions := await self.workers()):
            alive = ", ".join(sorted(set(versions))) or "none"
            error = f"it was started under version {run.app_version}, and no worker of that version is alive (alive: {alive})"
        attributes: dict[str, Any] = run.attributes or {}
        return RunInfo(
            id=run.workflow_id,
            agent=str(attributes.get("agent", "")),
            state=state,
            version=run.app_version or "",
            created=(run.created_at or 0) / 1000,
            worker=run.executor_id or "",
            error=error,
        )

    async def runs(self, *, state: RunState | None = None, limit: int = 100) -> Sequence[RunInfo]:
        client = await self._open()
        wanted: Any = [name for name, known in _STATES.items() if known == state] or None
        if state == "failed":
            wanted = ["ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
        found = await client.list_workflows_async(
            name=RUN, status=wanted, sort_desc=True, limit=limit, load_input=False, load_output=False
        )
        return [await self._info(run) for run in found]

    async def read(self, run_id: str, name: str) -> bytes | None:
        await self._open()
        return await asyncio.to_thread(self._tables.read, run_id, name)

    async def result(self, run_id: str, *, timeout: float | None = None) -> bytes:
        client = await self._open()
        async with asyncio.timeout(timeout):
            while True:
                info = await self.info(run_id)
                if info is None:
                    raise DurableError(f"there is no run {run_id}")
                if info.state not in ("waiting", "running"):
                    break
                await asyncio.sleep(self._poll)
        found = await client.list_workflows_async(workflow_ids=[run_id], load_input=False)
        if info.state != "done":
            error = str(found[0].error or "")
            raise DurableError(f"the run {run_id} {info.state}{': ' + error if error else ''}")
        return str(found[0].output).encode()

    async def cancel(self, run_id: str) -> None:
        if await self.info(run_id) is None:
            raise DurableError(f"there is no run {run_id}")
        await (await self._open()).cancel_workflow_async(run_id)

    async def workers(self) -> Sequence[str]:
        await self._open()
        alive = await asyncio.to_thread(self._tables.workers, time.time() - self._dead_after)
        return [version for _, version in alive]

    async def _open(self) -> DBOSClient:
        """The client, once the tables are there."""
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._connect)
            return self._client

    def _connect(self) -> DBOSClient:
        from dbos import DBOS, DBOSClient

        DBOS.migrate(self.url)
        self._tables.make()
        return DBOSClient(system_database_url=self.url, serializer=_serializer(), application_name="mainspring")

    async def aclose(self) -> None:
        """Stop working; runs that were under way wait for another worker, or for this one to come back."""
        jobs, self._tasks = self._tasks, set()
        runs = list(self._runs)
        for task in (*jobs, *runs):
            task.cancel()
        await asyncio.gather(*jobs, *runs, return_exceptions=True)
        client, self._client = self._client, None
        was_working, self._main = self._main is not None, None
        if client is None:
            return
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as threads:  # not the loop's own, which goes with DBOS
            await loop.run_in_executor(threads, self._close, client, was_working)
        if was_working:
            loop.set_default_executor(ThreadPoolExecutor())

    def _close(self, client: DBOSClient, was_working: bool) -> None:
        from dbos import DBOS

        if was_working:
            self._tables.leave(self.worker)
            DBOS.destroy(destroy_registry=True)
        client.destroy()
        self._tables.close()

    # --- for logs ---------------------------------------------------------------------------------------------------

    async def letters(self, run_id: str, after: int) -> list[Letter]:
        """The letters to a run with a higher number."""
        return await asyncio.to_thread(self._tables.letters, run_id, after)

    async def rung(self, run_id: str) -> None:
        """Wait until a run may have got a letter."""
        bell = self._bells.get(run_id)
        if bell is None:
            await asyncio.sleep(self._poll)
            return
        bell.clear()
        await bell.wait()

    @property
    def tables(self) -> Tables:
        """What is kept beside DBOS's own tables."""
        return self._tables


class _Log:
    """One attempt at a run."""

    def __init__(self, engine: DbosEngine, run_id: str, known: set[int]) -> None:
        self.engine = engine
        self.run_id = run_id
        self.known = known
        self.last = max(known, default=-1)
        self.attempt = 2 if known else 1

    def place(self) -> _Place:
        from dbos import DBOS

        return _Place(self, DBOS.reserve_step())

    async def letters(self, after: int) -> Sequence[Letter]:
        return await self.engine.letters(self.run_id, after)

    async def new_letter(self, after: int) -> None:
        while not await self.letters(after):
            await self.engine.rung(self.run_id)

    async def publish(self, name: str, value: bytes) -> None:
        await asyncio.to_thread(self.engine.tables.publish, self.run_id, name, value)


class _Place:
    """A step of DBOS that has its number."""

    def __init__(self, log: _Log, reserved: StepReservation) -> None:
        self._log = log
        self._reserved = reserved
        self.recorded = reserved.step_id in log.known
        self.behind = reserved.step_id < log.last

    async def run(self, name: str, work: Work) -> bytes:
        async def step() -> str:
            return (await work()).decode()

        return (await self._reserved.run_async({"name": name}, step)).encode()

    async def child(self, run_id: str, agent: str, work: Callable[[RunLog], Awaitable[bytes]]) -> bytes:
        if self.recorded:
            return await self.run("child", _nothing)
        steps = await asyncio.to_thread(self._log.engine.tables.steps, run_id)
        value = await work(_ChildLog(self._log.engine, run_id, steps))

        async def give() -> bytes:
            return value

        return await self.run("child", give)


async def _nothing() -> bytes:
    raise DurableError("the log of this run has lost a step")


class _ChildLog:
    """The log of a sub-agent, which is always where its parent is."""

    def __init__(self, engine: DbosEngine, run_id: str, steps: dict[int, bytes]) -> None:
        self.engine = engine
        self.run_id = run_id
        self.steps = steps
        self.last = max(steps, default=0)
        self.attempt = 2 if steps else 1
        self._drawn = 0

    def place(self) -> _ChildPlace:
        self._drawn += 1
        return _ChildPlace(self, self._drawn)

    async def letters(self, after: int) -> Sequence[Letter]:
        return ()

    async def new_letter(self, after: int) -> None:
        await asyncio.get_running_loop().create_future()

    async def publish(self, name: str, value: bytes) -> None:
        await asyncio.to_thread(self.engine.tables.publish, self.run_id, name, value)


class _ChildPlace:
    def __init__(self, log: _ChildLog, number: int) -> None:
        self._log = log
        self._number = number
        self.recorded = number in log.steps
        self.behind = number < log.last

    async def run(self, name: str, work: Work) -> bytes:
        if self.recorded:
            return self._log.steps[self._number]
        value = await work()
        await asyncio.to_thread(self._log.engine.tables.keep_step, self._log.run_id, self._number, value)
        self._log.steps[self._number] = value
        return value

    async def child(self, run_id: str, agent: str, work: Callable[[RunLog], Awaitable[bytes]]) -> bytes:
        if self.recorded:
            return self._log.steps[self._number]
        steps = await asyncio.to_thread(self._log.engine.tables.steps, run_id)
        value = await work(_ChildLog(self._log.engine, run_id, steps))

        async def give() -> bytes:
            return value

        return await self.run("child", give)


def _serializer() -> Any:
    """JSON instead of pickle: who can write to the database must not be able to run code here."""
    from dbos import Serializer

    class Json(Serializer):
        def serialize(self, data: Any) -> str:
            return json.dumps(data, default=_plain)

        def deserialize(self, serialized_data: str) -> Any:
            value: Any = json.loads(serialized_data)
            if isinstance(value, dict):
                fields = cast("dict[str, Any]", value)
                if fields.keys() == {"exception", "text"}:
                    return DurableError(f"{fields['exception']}: {fields['text']}")
            return cast("object", value)

        def name(self) -> str:
            return "mainspring_json"

    return Json()


def _plain(value: Any) -> Any:
    if isinstance(value, BaseException):
        return {"exception": type(value).__name__, "text": str(value)}
    return str(value)
