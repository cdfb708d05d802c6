"""The DBOS engine: runs are its workflows, model and tool calls its steps. On SQLite, or on PostgreSQL for many machines."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import secrets
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast
from urllib.parse import urlsplit

from mainspring.durable.attempt import RunAttempt, park_attempts
from mainspring.durable.dbos.log import DbosLog, Poller
from mainspring.durable.dbos.tables import RUN_WORKFLOW, FinishedRunFilter, Tables
from mainspring.durable.engine import (
    FINAL_STATES,
    RunFunction,
    RunInfo,
    RunState,
    Worker,
    require_final_states,
    require_retryable,
    run_not_finished_error,
    waiting_reason,
)
from mainspring.durable.feed import Feed, FeedEvent, FeedItem
from mainspring.errors import ConfigError, DurableError, describe_failure
from mainspring.events.codec import encode
from mainspring.extras import install_command
from mainspring.redaction import redact_environment

if TYPE_CHECKING:
    from dbos import DBOS, DBOSClient

_P = ParamSpec("_P")
_T = TypeVar("_T")

_log = logging.getLogger(__name__)
_THREADS = 4
"""Threads for database requests, each with a connection. DBOS has `_CONNECTIONS` in addition, and a few for its client."""

_CONNECTIONS = 6

_NAME = "mainspring"
_STATES: dict[str, RunState] = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "running",
    "SUCCESS": "done",
    "ERROR": "failed",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
    "CANCELLED": "cancelled",
}
_UNLIMITED_ATTEMPTS = 1_000_000
"""Maximum number of attempts at a run for DBOS. Unlimited: a crash of the worker does not mean that the run is at fault."""


class DbosEngine:
    """An `Engine` on DBOS (extra ``durable``).

    A process can have one worker, since DBOS has one instance per process. Any number of engines that only start and follow runs
    can exist in the same process.

    Args:
        url: ``sqlite:///PATH`` for one machine, ``postgresql://USER:PASSWORD@HOST/DATABASE`` for many. Tables are created.
        version: Version of the code that creates the agents. A run is executed by workers of the version it was started under.
            Change the version with each change that makes old runs impossible to replay.
        worker: Name of this worker. A worker that restarts under its name resumes its own runs immediately.
        heartbeat: Seconds between two heartbeats.
        dead_after: Seconds without a heartbeat after which another worker resumes the runs.
        poll: Seconds between two checks for messages and waiting runs.
        max_crashes: Maximum number of workers that may crash while they execute the run. After that, the run fails. 0 means no
            limit. A worker that leaves, is stopped, or loses its database has not crashed.

    Raises:
        ConfigError: If DBOS is not installed or the address is invalid.
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
        max_crashes: int = 20,
    ) -> None:
        self.url = url
        self.version = version
        self.worker = worker or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self.tables = _tables(url)
        self.message_poller = Poller(lambda runs: self.run_in_thread(self.tables.last_messages, runs), poll)
        self.feed_poller = Poller(lambda runs: self.run_in_thread(self.tables.last_events, runs), poll)
        self._ends = Poller(lambda runs: self.run_in_thread(self._ended, runs), poll)
        self._feed = DbosFeed(self)
        self._heartbeat = heartbeat
        self._dead_after = dead_after
        self._poll = poll
        self._max_crashes = max_crashes
        self._threads: ThreadPoolExecutor | None = None
        self._client: DBOSClient | None = None
        self._dbos: DBOS | None = None
        self._opening = asyncio.Lock()
        self._main: RunFunction | None = None
        self._active_runs: asyncio.Task[None] | None = None
        self._attempts: dict[asyncio.Task[Any], RunAttempt] = {}
        self._given_back: dict[str, str] = {}
        self._draining = False
        self._loops_own: Any = None

    @property
    def feed(self) -> Feed:
        return self._feed

    # --- as a worker ------------------------------------------------------------------------------------------------

    async def start_worker(self, main: RunFunction, agents: Sequence[str], *, concurrency: int = 8) -> None:
        from dbos import DBOS

        if _has_dbos_instance():
            raise DurableError(
                "This process already has a durable worker. DBOS supports one per process: close that worker, or start another process."
            )
        client = await self.open()
        self._main, self._draining = main, False
        me = Worker(self.worker, self.version, tuple(agents))
        queues = [_queue(agent) for agent in agents]
        self._loops_own = getattr(asyncio.get_running_loop(), "_default_executor", None)
        config: Any = {
            "name": _NAME,
            "system_database_url": self.url,
            "application_version": self.version,
            "executor_id": self.worker,
            "serializer": _serializer(),
            "log_level": "CRITICAL",
            "run_migrations": False,
            "notification_listener_polling_interval_sec": self._poll,
        }
        if not self.url.startswith("sqlite"):
            config["sys_db_pool_size"] = _CONNECTIONS
        self._dbos = DBOS(config=config)

        async def attempt(agent: str, input: str) -> str:  # DBOS requires a function.
            return await self._attempt(agent, input)

        DBOS.workflow(name=RUN_WORKFLOW, max_recovery_attempts=_UNLIMITED_ATTEMPTS)(attempt)
        DBOS.listen_queues(queues)
        for queue in queues:
            await self.run_in_thread(
                client.register_queue, queue, worker_concurrency=concurrency, polling_interval_sec=self._poll
            )
        await self.run_in_thread(self.tables.signs.heartbeat, me)
        DBOS.launch()
        self._active_runs = asyncio.ensure_future(self._heartbeat_loop(me))

    async def _attempt(self, agent: str, input: str) -> str:
        from dbos import DBOS

        task = asyncio.current_task()
        assert task is not None
        assert self._main is not None
        run_id = DBOS.workflow_id or ""
        client = await self.open()
        attempt = self._attempts[task] = RunAttempt(run_id, task)
        try:
            claim = await attempt.reach(lambda: self.run_in_thread(self.tables.claim, run_id))
            attempt.number = claim.attempt
            if self._draining:
                attempt.park()
            found = await attempt.reach(
                lambda: self.run_in_thread(client.list_workflow_steps, run_id, load_output=False)
            )
            if 0 < self._max_crashes <= claim.crashes:
                raise DurableError(
                    _too_many_crashes_message(run_id, claim.crashes, [step["function_name"] for step in found])
                )
            log = DbosLog(self, attempt, {step["function_id"] for step in found})
            return (await self._main(log, agent, input.encode())).decode()
        except asyncio.CancelledError:
            if attempt.failure:
                raise DurableError(attempt.failure) from None
            if attempt.broken:
                self._given_back[run_id] = _queue(agent)
            else:
                with suppress(Exception):  # Then it counts as a crash.
                    await self.run_in_thread(self.tables.release, run_id)
            raise
        finally:
            del self._attempts[task]

    @property
    def active_attempts(self) -> int:
        """The number of attempts that are running in this process."""
        return len(self._attempts)

    async def _heartbeat_loop(self, me: Worker) -> None:
        """Send heartbeats, and resume the runs of workers that send none."""
        steady, last = -math.inf, time.monotonic()
        while True:
            try:
                await self.run_in_thread(self.tables.signs.heartbeat, me)
                now = time.monotonic()
                if now - last > 2 * self._heartbeat + 1:
                    steady = now  # A worker that was away cannot know which other workers were.
                last = now
                await self._release_runs()
                if now - steady > self._dead_after:
                    await self._recover_dead_workers()
            except Exception:
                _log.warning("a durable worker cannot reach its database; retrying", exc_info=True)
            await asyncio.sleep(self._heartbeat)

    async def _release_runs(self) -> None:
        """Stop attempts whose run another worker has claimed, and release runs after a database failure."""
        mine = [a.run_id for a in self._attempts.values()]
        latest = await self.run_in_thread(self.tables.attempts, mine) if mine else {}
        for attempt in list(self._attempts.values()):
            if attempt.number and latest.get(attempt.run_id, attempt.number) > attempt.number:
                attempt.stop()
        client = await self.open()
        for run_id, queue in list(self._given_back.items()):
            # Released first: otherwise, the next attempt may start in between and count this one as a crash.
            await self.run_in_thread(self.tables.release, run_id)
            await self.run_in_thread(client.resume_workflow, run_id, queue_name=queue)
            del self._given_back[run_id]

    async def _recover_dead_workers(self) -> None:
        """Return the runs of dead workers of this version to their queues."""
        dead = await self.run_in_thread(self.tables.signs.dead, self._dead_after, self.version)
        dead = [name for name in dead if name != self.worker]
        if dead:
            await self.run_in_thread(_recover, self._dbos, dead)
        for name in dead:
            await self.run_in_thread(self.tables.signs.remove_dead, name, self._dead_after)

    async def drain(self, seconds: float) -> None:
        self._draining = True
        await park_attempts(list(self._attempts.values()), seconds)

    # --- from anywhere ----------------------------------------------------------------------------------------------

    async def start(self, run_id: str, agent: str, input: bytes) -> bool:
        client = await self.open()
        if await self.info(run_id) is not None:
            return False
        options: Any = {
            "workflow_name": RUN_WORKFLOW,
            "queue_name": _queue(agent),
            "workflow_id": run_id,
            "app_version": self.version,
            "attributes": {"agent": agent},
        }
        await self.run_in_thread(client.enqueue, options, agent, input.decode())
        return True

    async def send(self, run_id: str, topic: str, body: bytes, *, key: str = "") -> bool:
        info = await self._known(run_id)
        number = await self.run_in_thread(self.tables.send, run_id, topic, body, key)
        if info.state in FINAL_STATES and await self.info(run_id) is None:
            # The run was deleted just now. A leftover message would reach another run with the same name.
            await self.run_in_thread(self.tables.delete_messages, run_id)
            raise DurableError(f"Unknown run: {run_id}.")
        self.message_poller.notify(run_id, number)
        return number > 0

    async def info(self, run_id: str) -> RunInfo | None:
        client = await self.open()
        found = await self.run_in_thread(
            client.list_workflows, workflow_ids=[run_id], load_input=False, load_output=False
        )
        return (await self._infos(found))[0] if found else None

    async def _known(self, run_id: str) -> RunInfo:
        info = await self.info(run_id)
        if info is None:
            raise DurableError(f"Unknown run: {run_id}.")
        return info

    async def _infos(self, found: Sequence[Any]) -> list[RunInfo]:
        waits = any(_STATES.get(run.status) == "waiting" for run in found)
        workers = await self.workers() if waits else ()
        # DBOS stores the error in the result column, which may be large and was not loaded.
        failed = [run.workflow_id for run in found if _STATES.get(run.status) == "failed"]
        client = await self.open()
        failed_runs = (
            await self.run_in_thread(client.list_workflows, workflow_ids=failed, load_input=False) if failed else ()
        )
        errors = {run.workflow_id: describe_failure(run.error) if run.error else "" for run in failed_runs}
        return [_info(run, workers, errors.get(run.workflow_id, "")) for run in found]

    async def runs(self, *, state: RunState | None = None, limit: int = 100, prefix: str = "") -> Sequence[RunInfo]:
        client = await self.open()
        requested: Any = _statuses(state) if state else None
        found = await self.run_in_thread(
            client.list_workflows,
            name=RUN_WORKFLOW,
            status=requested,
            sort_desc=True,
            limit=limit,
            load_input=False,
            load_output=False,
            workflow_id_prefix=prefix or None,
        )
        return await self._infos(found)

    async def read(self, run_id: str, name: str) -> bytes | None:
        await self.open()
        return await self.run_in_thread(self.tables.read, run_id, name)

    def _ended(self, run_ids: Sequence[str]) -> dict[str, int]:
        """Return those of the runs that are finished or deleted. Blocks."""
        assert self._client is not None
        going = _statuses("waiting", "running")
        found = self._client.list_workflows(
            workflow_ids=list(run_ids), status=going, load_input=False, load_output=False
        )
        return dict.fromkeys(set(run_ids) - {run.workflow_id for run in found}, 1)

    async def result(self, run_id: str, *, timeout: float | None = None) -> bytes:
        client = await self.open()
        await self._known(run_id)
        async with asyncio.timeout(timeout):
            await self.wait_until_ended(run_id)
        found = await self.run_in_thread(client.list_workflows, workflow_ids=[run_id], load_input=False)
        if not found:
            raise DurableError(f"Run {run_id} was deleted.")
        if found[0].status != "SUCCESS":
            info = _info(found[0], (), str(found[0].error or ""))
            raise DurableError(f"Run {run_id} {info.state}{': ' + info.error if info.error else ''}")
        return str(found[0].output).encode()

    async def wait_until_ended(self, run_id: str) -> None:
        info = await self.info(run_id)
        if info is not None and info.state in ("waiting", "running"):
            await self._ends.wait(run_id, 0)

    async def cancel(self, run_id: str) -> None:
        await self._known(run_id)
        await self.run_in_thread((await self.open()).cancel_workflow, run_id)
        await self.run_in_thread(self.tables.claim, run_id)

    async def retry(self, run_id: str) -> None:
        client = await self.open()
        info = await self._known(run_id)
        require_retryable(info)
        steps = await self.run_in_thread(client.list_workflow_steps, run_id, load_output=False)
        await self.run_in_thread(self.tables.reset_crash_count, run_id)
        # Rewinding to a step that is not reached yet undoes nothing.
        next_step = max([step["function_id"] for step in steps], default=0) + 1
        await self.run_in_thread(client.rewind_workflow, run_id, start_step=next_step, queue_name=_queue(info.agent))

    async def delete(self, run_id: str) -> None:
        await self.open()
        if not await self.run_in_thread(self.tables.old.delete, run_id, FinishedRunFilter(_statuses(*FINAL_STATES))):
            raise run_not_finished_error(await self._known(run_id))

    async def prune(
        self, older_than: float, states: Sequence[RunState] = FINAL_STATES, *, dry_run: bool = False
    ) -> int:
        require_final_states(states)
        await self.open()
        old = FinishedRunFilter(_statuses(*states), older_than)
        if dry_run:
            return await self.run_in_thread(self.tables.old.count, old)
        total = 0
        while some := await self.run_in_thread(self.tables.old.delete_some, old):
            total += some
        return total

    async def workers(self) -> Sequence[Worker]:
        await self.open()
        return await self.run_in_thread(self.tables.signs.alive, self._dead_after)

    async def run_in_thread(self, call: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> _T:
        """Run a database request in a thread of this engine. Closing the engine waits for such threads."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, "mainspring-durable")
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(call, *given, **named))

    async def open(self) -> DBOSClient:
        """Return the client, once the tables exist."""
        async with self._opening:
            if self._client is None:
                try:
                    self._client = await self.run_in_thread(self._connect)
                except Exception as error:
                    raise DurableError(
                        f"Cannot use the database of durable runs: {self._safe_error_text(error)}"
                    ) from error
            return self._client

    def _safe_error_text(self, error: Exception) -> str:
        """Return the driver's message without SQLAlchemy's additions and without the password."""
        text = str(getattr(error, "orig", None) or error).strip()
        return redact_environment(text, urlsplit(self.url).password or "")

    def _connect(self) -> DBOSClient:
        from dbos import DBOS, DBOSClient

        DBOS.migrate(self.url)
        self.tables.make()
        pool = None if self.url.startswith("sqlite") else 2
        return DBOSClient(
            system_database_url=self.url,
            serializer=_serializer(),
            application_name=_NAME,
            system_database_pool_size=pool,
        )

    async def aclose(self) -> None:
        """Stop working. Active runs wait for another worker, or for this one to return."""
        living, self._active_runs = self._active_runs, None
        attempts = dict(self._attempts)
        for attempt in attempts.values():
            attempt.stop()
        if living is not None:
            living.cancel()
        await asyncio.gather(*attempts, *([living] if living else ()), return_exceptions=True)
        for watch in (self.message_poller, self.feed_poller, self._ends):
            await watch.aclose()
        client, self._client = self._client, None
        threads, self._threads = self._threads, None
        was_working, self._main, self._dbos = self._dbos is not None, None, None
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as closing:  # Not the event loop's own executor, which DBOS shuts down.
            await loop.run_in_executor(closing, self._close, client, threads, was_working)
        if was_working:
            loop.set_default_executor(self._loops_own or ThreadPoolExecutor())

    def _close(self, client: DBOSClient | None, threads: ThreadPoolExecutor | None, was_working: bool) -> None:
        from dbos import DBOS

        if was_working:
            DBOS.destroy(destroy_registry=True)
        if threads is not None:
            threads.shutdown()
        if was_working:
            with suppress(
                Exception
            ):  # If the database cannot be reached, it learns of the end from the missing heartbeat.
                self.tables.signs.mark_stopped(self.worker)
        if client is not None:
            client.destroy()
        self.tables.close()


class DbosFeed:
    """The `Feed` of a DBOS engine."""

    def __init__(self, engine: DbosEngine) -> None:
        self._engine = engine

    async def append(self, run_id: str, events: Sequence[FeedEvent]) -> int:
        """See `Feed.append`."""
        await self._engine.open()
        data = [encode(event) for event in events]
        number = await self._engine.run_in_thread(self._engine.tables.append, run_id, data)
        self._engine.feed_poller.notify(run_id, number)
        return number

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> Sequence[FeedItem]:
        """See `Feed.read`."""
        await self._engine.open()
        found = await self._engine.run_in_thread(self._engine.tables.events, run_id, after, limit)
        return [FeedItem(number, data=data) for number, data in found]

    async def wait(self, run_id: str, after: int = 0) -> None:
        """See `Feed.wait`."""
        await self._engine.open()
        await self._engine.feed_poller.wait(run_id, after)


def _tables(url: str) -> Tables:
    """Return the tables at an address.

    Raises:
        ConfigError: If DBOS is not installed, the address is invalid, or this Python's SQLite is too old.
    """
    kind = url.partition(":")[0].partition("+")[0]
    if kind not in ("sqlite", "postgresql", "postgres"):
        raise ConfigError(
            "Invalid address of durable runs. Use sqlite:///PATH or postgresql://USER:PASSWORD@HOST/DATABASE."
        )
    if kind == "sqlite" and sqlite3.sqlite_version_info < _min_sqlite_version():
        minimum = ".".join(map(str, _min_sqlite_version()))
        raise ConfigError(
            f"Durable runs on SQLite need SQLite {minimum} with this Python, which has {sqlite3.sqlite_version}. Use a Python with "
            "a newer SQLite (those of python.org and uv have one), Python 3.11, or PostgreSQL."
        )
    try:
        import_module("dbos")
        return Tables(url)
    except ImportError as error:
        raise ConfigError(f"Durable runs need the extra `durable`: {install_command('durable')} ({error})") from error


def _min_sqlite_version() -> tuple[int, ...]:
    """Return the SQLite version that DBOS needs. With Python 3.12 and later, it reads fractional seconds from the database."""
    return (3, 42) if sys.version_info >= (3, 12) else (3, 31)


def _queue(agent: str) -> str:
    """Return the queue of an agent. A worker takes only runs of agents that it knows."""
    return f"{_NAME}.{agent}"


def _statuses(*states: RunState) -> list[str]:
    """Return the DBOS statuses of some states."""
    return [name for name, state in _STATES.items() if state in states]


def _too_many_crashes_message(run_id: str, crashes: int, steps: Sequence[str]) -> str:
    """Return why a run is not resumed again."""
    last = f"the last finished step is {steps[-1]!r}" if steps else "no step finished"
    return (
        f"{'A worker' if crashes == 1 else f'{crashes} workers'} crashed with this run, so it is not resumed; {last}. Find the cause, for example a "
        f"tool that uses all memory. Then resume the run with `mainspring runs retry {run_id}`."
    )


def _info(run: Any, workers: Sequence[Worker], error: str) -> RunInfo:
    """Convert a DBOS workflow to a `RunInfo`."""
    state = _STATES.get(run.status, "failed")
    attributes: dict[str, Any] = run.attributes or {}
    agent, version = str(attributes.get("agent", "")), run.app_version or ""
    if state == "waiting":
        error = waiting_reason(agent, version, workers)
    return RunInfo(
        id=run.workflow_id,
        agent=agent,
        state=state,
        version=version,
        created=(run.created_at or 0) / 1000,
        worker=run.executor_id or "",
        error=error,
    )


def _has_dbos_instance() -> bool:
    """Return True if this process has a DBOS instance."""
    return vars(import_module("dbos._dbos"))["_dbos_global_instance"] is not None


def _recover(dbos: DBOS | None, workers: Sequence[str]) -> None:
    """Return the runs of these workers to their queues. Runs that another worker has claimed stay there."""
    # Not public, but what DBOS does for a restarted worker. Its public `resume` also takes runs from live workers.
    import_module("dbos._recovery").recover_pending_workflows(dbos, list(workers))


def _serializer() -> Any:
    """Return a JSON serializer in place of pickle: write access to the database must not allow running code here."""
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
