"""The interface of a durable engine: a log of finished steps, an inbox, and workers that resume runs.

Above: `DurableSteps` and `DurableWorker`. Below: an engine. `MemoryEngine` lives as long as the process (tests can stop it in the
middle of a run); `mainspring.durable.dbos.engine` has one on SQLite or PostgreSQL.

An engine guarantees: a started run ends as long as some worker lives; the result of a finished step is returned again and the
step is not repeated; a step that was started and not finished may be started again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from mainspring.durable.feed import Feed, FeedEvent, FeedItem
from mainspring.errors import DurableError

StepFunction = Callable[[], Awaitable[bytes]]
"""The work of a step. Returns the bytes to store."""


RunState = Literal["waiting", "running", "paused", "done", "failed", "cancelled"]
"""``waiting`` means waiting for a worker, ``paused`` waiting for an approval. Engines do not know approvals: they return ``running`` for
a paused run; `DurableRun` and `DurableClient` distinguish the two."""


FINAL_STATES: tuple[RunState, ...] = ("done", "failed", "cancelled")
"""The states of finished runs."""


class RunMessage(Struct, frozen=True):
    """A message to a run. ``number`` increases with each message to that run."""

    number: int
    topic: str
    body: bytes


class RunInfo(Struct, frozen=True, kw_only=True):
    """A run as its engine knows it.

    Attributes:
        id: The ID.
        agent: The name of its agent definition.
        state: The state.
        version: The version of the code that it was started under.
        created: Start time in seconds since 1970.
        worker: The current or last worker.
        parent: The run that started this subagent run. Empty for none.
        error: Why it failed.
    """

    id: str
    agent: str
    state: RunState
    version: str
    created: float
    worker: str = ""
    parent: str = ""
    error: str = ""


class Worker(Struct, frozen=True):
    """A live worker."""

    name: str
    version: str
    agents: tuple[str, ...]


def waiting_reason(agent: str, version: str, workers: Sequence[Worker]) -> str:
    """Return why none of these workers can execute a run. Empty if one can."""
    know = [w for w in workers if agent in w.agents]
    if any(w.version == version for w in know):
        return ""
    if know:
        versions = ", ".join(sorted({w.version for w in know}))
        return f"it was started under version {version}, and no worker of that version is alive (alive: {versions})"
    agents = ", ".join(sorted({name for w in workers for name in w.agents})) or "none"
    return f"no worker that knows the agent {agent!r} is alive (known agents: {agents})"


def run_not_finished_error(run: RunInfo) -> DurableError:
    """Return why a run is not deleted."""
    return DurableError(f"Run {run.id} is {run.state}. Only finished runs can be deleted: cancel it first.")


def require_final_states(states: Sequence[RunState]) -> None:
    """Refuse to delete unfinished runs.

    Raises:
        DurableError: If a state is not one of `FINAL_STATES`.
    """
    going = [state for state in states if state not in FINAL_STATES]
    if going:
        raise DurableError(f"Runs that are {going[0]} cannot be deleted. States that can: {', '.join(FINAL_STATES)}.")


def require_retryable(run: RunInfo) -> None:
    """Refuse to retry a run that is active or done.

    Raises:
        DurableError: If it is neither failed nor cancelled.
    """
    if run.state == "done":
        raise DurableError(f"Run {run.id} is done, regardless of its result. Start another run with its messages.")
    if run.state not in FINAL_STATES:
        raise DurableError(f"Run {run.id} is {run.state}. Only failed and cancelled runs can be retried.")


class StepSlot(Protocol):
    """A slot in the log of a run. Slots are reserved in the same order each time the run is replayed."""

    @property
    def is_recorded(self) -> bool:
        """Whether an earlier attempt finished the step of this slot."""
        ...

    @property
    def is_before_recorded(self) -> bool:
        """Whether an earlier attempt finished a later slot: an empty slot before it stays empty."""
        ...

    async def run(self, name: str, work: StepFunction) -> bytes:
        """Return the result of the step: from the log if recorded; otherwise, do the work and store its result.

        The work must not raise except when it is cancelled. Then nothing is stored, and a later attempt can run the step again.
        """
        ...

    async def wait(self, name: str, work: StepFunction) -> bytes:
        """Like `run`, for work that only waits: it is cancelled when the process exits."""
        ...

    async def child(self, run_id: str, agent: str, work: Callable[[RunLog], Awaitable[bytes]]) -> bytes:
        """Run work with a separate log, that of the run ``run_id``. The result is stored here too."""
        ...


class RunLog(Protocol):
    """One run on its engine, as seen by the code of the run."""

    @property
    def run_id(self) -> str:
        """The run's ID."""
        ...

    @property
    def attempt(self) -> int:
        """1 for the first attempt, more after the run was resumed."""
        ...

    def next_step(self) -> StepSlot:
        """Reserve the next slot."""
        ...

    async def messages(self, after: int) -> Sequence[RunMessage]:
        """Return the messages to this run with a higher number, in order."""
        ...

    async def wait_for_message(self, after: int) -> None:
        """Wait until there is a message with a higher number."""
        ...

    async def publish(self, name: str, value: bytes) -> None:
        """Publish a value of this run. A later value replaces it."""
        ...

    async def read_feed(self, after: int) -> Sequence[FeedItem]:
        """Iterate over the events that followers received after a number, in batches."""
        ...

    async def emit(self, events: Sequence[FeedEvent]) -> None:
        """Send events to followers. Not part of the log. Refused once another attempt has the run."""
        ...


RunFunction = Callable[[RunLog, str, bytes], Awaitable[bytes]]
"""Executes any run: takes its log, the name of the agent, and the input; returns the outcome."""


class Engine(Protocol):
    """Stores and schedules runs."""

    @property
    def feed(self) -> Feed:
        """The events of runs for followers."""
        ...

    async def start_worker(self, main: RunFunction, agents: Sequence[str], *, concurrency: int = 8) -> None:
        """Be a worker until `aclose`: execute waiting runs, and resume those of crashed workers.

        Args:
            main: The function that executes runs.
            agents: Names of the agents that it knows. Runs of other agents are ignored.
            concurrency: Maximum number of concurrent runs of each agent.
        """
        ...

    async def drain(self, seconds: float) -> None:
        """Start no further step or run, and wait for running steps to finish, at most this long."""
        ...

    async def start(self, run_id: str, agent: str, input: bytes) -> bool:
        """Queue a run for a worker. Returns False if a run with this ID exists, which is unchanged."""
        ...

    async def send(self, run_id: str, topic: str, body: bytes, *, key: str = "") -> bool:
        """Send a message to a run. A second message with the same key is dropped and returns False.

        Raises:
            DurableError: If the run is unknown.
        """
        ...

    async def info(self, run_id: str) -> RunInfo | None:
        """Return what is known of a run."""
        ...

    async def runs(self, *, state: RunState | None = None, limit: int = 100, prefix: str = "") -> Sequence[RunInfo]:
        """List the runs whose ID starts with ``prefix``, newest first, without the runs of subagents."""
        ...

    async def read(self, run_id: str, name: str) -> bytes | None:
        """Return the value that a run has published under a name."""
        ...

    async def result(self, run_id: str, *, timeout: float | None = None) -> bytes:
        """Return the result of a run, once it is finished.

        Raises:
            DurableError: If the run failed, was cancelled, or is unknown.
            TimeoutError: If it is not finished in time.
        """
        ...

    async def wait_until_ended(self, run_id: str) -> None:
        """Wait until a run is finished, in any state. Returns immediately for an unknown run."""
        ...

    async def cancel(self, run_id: str) -> None:
        """Prevent a run from being resumed. An active run ends at its next step."""
        ...

    async def retry(self, run_id: str) -> None:
        """Resume a failed or cancelled run where it stopped.

        Raises:
            DurableError: If the run is unknown or in another state.
        """
        ...

    async def delete(self, run_id: str) -> None:
        """Delete a finished run with its data: log, messages, feed, result, and the runs of its subagents.

        Raises:
            DurableError: If the run is unknown or not finished.
        """
        ...

    async def prune(
        self, older_than: float, states: Sequence[RunState] = FINAL_STATES, *, dry_run: bool = False
    ) -> int:
        """Delete all runs that ended more than ``older_than`` seconds ago, like `delete`. Returns their number.

        Each run is deleted as a whole. If interrupted, some are deleted, and another call deletes the rest.

        Args:
            older_than: Seconds since the end; 0 for all.
            states: States of the runs to delete.
            dry_run: Only count the runs.

        Raises:
            DurableError: If one of the states is not final.
        """
        ...

    async def workers(self) -> Sequence[Worker]:
        """List the live workers."""
        ...

    async def aclose(self) -> None:
        """Stop working. Other workers resume the active runs, or this one does when it returns."""
        ...


_log = logging.getLogger(__name__)
_HOUR = 3600.0


async def prune_periodically(engine: Engine, keep: float, *, interval_seconds: float = _HOUR) -> None:
    """Delete runs that ended more than ``keep`` seconds ago: immediately, and then at an interval until cancelled.

    Any number of workers can do this on one database. A database failure is retried at the next interval.
    """
    while True:
        try:
            count = await engine.prune(keep)
            _log.info("deleted %d old runs", count)
        except Exception:
            _log.warning("could not delete old runs; retrying in %.0f seconds", interval_seconds, exc_info=True)
        await asyncio.sleep(interval_seconds)
