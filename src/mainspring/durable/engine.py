"""The seam to whatever keeps runs: a log of finished steps, an inbox, and somebody who takes a run up again.

Above: `DurableSteps` and `DurableAgents`. Below: an engine. `MemoryEngine` is one that lives and dies with the process (it can be
stopped in mid-run, for tests); `mainspring.durable.dbos.engine` has one on SQLite or PostgreSQL.

What an engine promises: a run that was started ends, as long as some worker lives; what a finished step gave is given again
and the step not repeated; a step that was begun and not finished may be begun again.

Deleting old runs now and then, beside other work.
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
"""What a step does; its bytes are kept."""


RunState = Literal["waiting", "running", "done", "failed", "cancelled"]
"""``waiting`` is for a worker. A run that is paused for an answer is ``running``."""


FINAL_STATES: tuple[RunState, ...] = ("done", "failed", "cancelled")
"""The states of runs that are over."""


class RunMessage(Struct, frozen=True):
    """Something sent to a run. ``number`` grows with each letter to that run."""

    number: int
    topic: str
    body: bytes


class RunInfo(Struct, frozen=True, kw_only=True):
    """A run as its engine knows it.

    Attributes:
        id: Its name.
        agent: The definition it follows.
        state: How far it is.
        version: The version of the code that it was started under.
        created: When it was started, in seconds since 1970.
        worker: Who has it, or had it last.
        parent: The run whose sub-agent it is; empty for none.
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
    """A worker that is alive."""

    name: str
    version: str
    agents: tuple[str, ...]


def waiting_reason(agent: str, version: str, alive: Sequence[Worker]) -> str:
    """Why none of these workers can take up a run; empty if one can."""
    know = [w for w in alive if agent in w.agents]
    if any(w.version == version for w in know):
        return ""
    if know:
        versions = ", ".join(sorted({w.version for w in know}))
        return f"it was started under version {version}, and no worker of that version is alive; alive: {versions}"
    agents = ", ".join(sorted({name for w in alive for name in w.agents})) or "none"
    return f"no worker that knows the agent {agent!r} is alive; known: {agents}"


def run_not_finished_error(run: RunInfo) -> DurableError:
    """Why a run is not deleted."""
    return DurableError(f"the run {run.id} is {run.state}, and only runs that are over are deleted; cancel it first")


def require_final_states(states: Sequence[RunState]) -> None:
    """Refuse to delete runs that are not over.

    Raises:
        DurableError: If one of the states is none of `OVER`.
    """
    going = [state for state in states if state not in FINAL_STATES]
    if going:
        raise DurableError(
            f"runs that are {going[0]} are never deleted; of those that are over there are {', '.join(FINAL_STATES)}"
        )


def require_retryable(run: RunInfo) -> None:
    """Refuse to have a run go on that does or came to its end.

    Raises:
        DurableError: If it is neither failed nor cancelled.
    """
    if run.state == "done":
        raise DurableError(f"the run {run.id} is done, whatever its result says; start another one with its messages")
    if run.state not in FINAL_STATES:
        raise DurableError(f"the run {run.id} is {run.state}; only one that failed or was cancelled is tried again")


class StepSlot(Protocol):
    """A place in the log of a run. Places are drawn in the same order whenever the run is played again."""

    @property
    def recorded(self) -> bool:
        """Whether what belongs here was finished by an earlier attempt."""
        ...

    @property
    def behind(self) -> bool:
        """Whether a later place was finished by an earlier attempt: what is empty here stays empty."""
        ...

    async def run(self, name: str, work: StepFunction) -> bytes:
        """What the step gave: from the log where it is recorded, else by doing the work and keeping its outcome.

        The work must not raise but to be cancelled; it is then not kept, and the step can be run again by a later attempt.
        """
        ...

    async def wait(self, name: str, work: StepFunction) -> bytes:
        """As `run`, for work that does nothing but wait: it is broken off where the process is to end."""
        ...

    async def child(self, run_id: str, agent: str, work: Callable[[RunLog], Awaitable[bytes]]) -> bytes:
        """Run something with a log of its own, that of the run ``run_id``; what it gave is kept here too."""
        ...


class RunLog(Protocol):
    """One run on its engine, as the code of the run sees it."""

    @property
    def run_id(self) -> str:
        """Its name."""
        ...

    @property
    def attempt(self) -> int:
        """1 for the first time, more where the run was taken up again."""
        ...

    def place(self) -> StepSlot:
        """Draw the next place."""
        ...

    async def letters(self, after: int) -> Sequence[RunMessage]:
        """The letters to this run with a higher number, in their order."""
        ...

    async def new_letter(self, after: int) -> None:
        """Wait until there is one with a higher number."""
        ...

    async def publish(self, name: str, value: bytes) -> None:
        """Let others read something of this run; a later value replaces the one before."""
        ...

    async def told(self, after: int) -> Sequence[FeedItem]:
        """What followers were told after a number, a part of it at a time."""
        ...

    async def emit(self, events: Sequence[FeedEvent]) -> None:
        """Tell followers. Not a part of the log; refused once another attempt has the run."""
        ...


RunFunction = Callable[[RunLog, str, bytes], Awaitable[bytes]]
"""The code of all runs: log, name of the agent, input; gives the outcome."""


class Engine(Protocol):
    """Keeps runs."""

    @property
    def feed(self) -> Feed:
        """What runs tell their followers."""
        ...

    async def work(self, main: RunFunction, agents: Sequence[str], *, concurrency: int = 8) -> None:
        """Be a worker from now on, until `aclose`: take up runs that wait, and those of workers that died.

        Args:
            main: The code of runs.
            agents: Names of the agents that it knows; runs of others are left alone.
            concurrency: How many runs of each agent at once.
        """
        ...

    async def drain(self, seconds: float) -> None:
        """Begin no step and no run any more, and let those steps that are under way come to their end, for so long at most."""
        ...

    async def start(self, run_id: str, agent: str, input: bytes) -> bool:
        """Have a run done by some worker; false if there is one of this name already, which is left as it is."""
        ...

    async def send(self, run_id: str, topic: str, body: bytes, *, key: str = "") -> bool:
        """Send a letter to a run; a second one with the same key is dropped: false.

        Raises:
            DurableError: If there is no such run.
        """
        ...

    async def info(self, run_id: str) -> RunInfo | None:
        """What is known of a run."""
        ...

    async def runs(self, *, state: RunState | None = None, limit: int = 100, prefix: str = "") -> Sequence[RunInfo]:
        """Runs whose name begins with ``prefix``, the newest first; sub-agents' runs are not among them."""
        ...

    async def read(self, run_id: str, name: str) -> bytes | None:
        """What a run has published under a name."""
        ...

    async def result(self, run_id: str, *, timeout: float | None = None) -> bytes:
        """What a run gave, once it is over.

        Raises:
            DurableError: If it failed or was cancelled, or there is none.
            TimeoutError: If it is not over in time.
        """
        ...

    async def ended(self, run_id: str) -> None:
        """Wait until a run is over, however it ended; returns at once for one that is unknown."""
        ...

    async def cancel(self, run_id: str) -> None:
        """Have a run never taken up again. One that is at work ends at its next step."""
        ...

    async def retry(self, run_id: str) -> None:
        """Have a run that failed or was cancelled taken up again, where it was.

        Raises:
            DurableError: If there is no such run, or it did neither.
        """
        ...

    async def delete(self, run_id: str) -> None:
        """Forget a run that is over, with all that is kept of it: its log, letters, feed and result, and the runs of its sub-agents.

        Raises:
            DurableError: If there is no such run, or it is not over.
        """
        ...

    async def prune(
        self, older_than: float, states: Sequence[RunState] = FINAL_STATES, *, dry_run: bool = False
    ) -> int:
        """Forget all runs that ended more than ``older_than`` seconds ago, as `delete` does; says how many.

        Each goes as a whole. Where it is broken off, some are gone, and another call goes on.

        Args:
            older_than: Seconds since the end; 0 for all.
            states: Those of runs to forget.
            dry_run: Only count them.

        Raises:
            DurableError: If one of the states is one of runs that are not over.
        """
        ...

    async def workers(self) -> Sequence[Worker]:
        """The workers that are alive."""
        ...

    async def aclose(self) -> None:
        """Stop working; runs that were under way are taken up by others, or when this one comes back."""
        ...


_log = logging.getLogger(__name__)
_HOUR = 3600.0


async def prune_periodically(engine: Engine, keep: float, *, every: float = _HOUR) -> None:
    """Delete runs that ended more than ``keep`` seconds ago: at once, and then every so many seconds until it is cancelled.

    Any number of workers may do so on one database. Where the database fails, the next time comes.
    """
    while True:
        try:
            count = await engine.prune(keep)
            _log.info("%d old runs were deleted", count)
        except Exception:
            _log.warning("old runs could not be deleted; that is tried again in %.0f seconds", every, exc_info=True)
        await asyncio.sleep(every)
