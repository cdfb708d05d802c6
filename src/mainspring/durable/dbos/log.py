"""The log of a run on DBOS. Its steps are DBOS steps; the steps of its subagents are in a table of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from mainspring.durable.attempt import LeaseLostError, NonDeterminismError, RunAttempt
from mainspring.durable.dbos.tables import Tables
from mainspring.durable.engine import RunLog, RunMessage, StepFunction
from mainspring.durable.feed import FeedEvent, FeedItem
from mainspring.errors import DurableError
from mainspring.events.codec import encode

if TYPE_CHECKING:
    from dbos import StepReservation


PollFunction = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]
"""Returns the current numbers of these keys. Keys without a number may be omitted."""


class Poller:
    """Polls while there are waiters.

    Args:
        poll: The query.
        interval_seconds: Seconds between two queries.
    """

    def __init__(self, poll: PollFunction, interval_seconds: float) -> None:
        self._poll = poll
        self._interval_seconds = interval_seconds
        self._waiting: dict[str, set[tuple[int, asyncio.Future[None]]]] = {}
        self._recursive_reads: asyncio.Task[None] | None = None

    async def wait(self, key: str, after: int) -> None:
        """Return once the key's number is higher than ``after``."""
        waiter = (after, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(key, set()).add(waiter)
        if self._recursive_reads is None or self._recursive_reads.done():
            self._recursive_reads = asyncio.ensure_future(self._poll_loop())
        try:
            await waiter[1]
        finally:
            waiters = self._waiting[key]
            waiters.discard(waiter)
            if not waiters:
                del self._waiting[key]

    def notify(self, key: str, number: int) -> None:
        """Report a number that is known before the next query."""
        for after, waiter in self._waiting.get(key, ()):
            if number > after and not waiter.done():
                waiter.set_result(None)

    async def _poll_loop(self) -> None:
        while self._waiting:
            with suppress(Exception):  # A database that is away for a while returns.
                for key, number in (await self._poll(list(self._waiting))).items():
                    self.notify(key, number)
            await asyncio.sleep(self._interval_seconds)

    async def aclose(self) -> None:
        """Stop polling. Current waiters are cancelled."""
        looking, self._recursive_reads = self._recursive_reads, None
        if looking is not None:
            looking.cancel()
            await asyncio.wait([looking])
        for waiters in self._waiting.values():
            for _, waiter in waiters:
                waiter.cancel()


_P = ParamSpec("_P")
_T = TypeVar("_T")


class LogBackend(Protocol):
    """What a log needs of its engine."""

    tables: Tables
    message_poller: Poller
    feed_poller: Poller

    async def run_in_thread(self, call: Callable[_P, _T], *given: _P.args, **named: _P.kwargs) -> _T:
        """Run blocking work in a thread."""
        ...


class _Log:
    """Common base of the logs of runs and subagents."""

    def __init__(self, backend: LogBackend, attempt: RunAttempt, run_id: str) -> None:
        self.backend = backend
        self.lease = attempt
        self.run_id = run_id

    @property
    def attempt(self) -> int:
        return self.lease.number

    async def publish(self, name: str, value: bytes) -> None:
        async def write() -> bytes:
            of = self.lease
            await self.backend.run_in_thread(
                self.backend.tables.publish, self.run_id, of.number, name, value, of.run_id
            )
            return b""

        await self.lease.keep(write)

    async def child(self, run_id: str, work: Callable[[RunLog], Awaitable[bytes]]) -> bytes:
        """Run a subagent, given its stored steps."""
        of = self.lease

        async def adopt() -> bytes:
            await self.backend.run_in_thread(
                self.backend.tables.link_subagent_run, run_id, root=of.run_id, attempt=of.number
            )
            return b""

        await of.keep(adopt)
        steps = await self.lease.reach(lambda: self.backend.run_in_thread(self.backend.tables.steps, run_id))
        return await work(ChildLog(self.backend, of, run_id, steps))


class DbosLog(_Log):
    """One attempt at a run.

    Args:
        backend: The engine.
        attempt: The attempt.
        known: Numbers of the DBOS steps that were finished before.
    """

    def __init__(self, backend: LogBackend, attempt: RunAttempt, known: set[int]) -> None:
        super().__init__(backend, attempt, attempt.run_id)
        self.known = known
        self.last = max(known, default=-1)

    def next_step(self) -> _DbosStepSlot:
        from dbos import DBOS

        return _DbosStepSlot(self, DBOS.reserve_step())

    async def messages(self, after: int) -> Sequence[RunMessage]:
        return await self.lease.reach(
            lambda: self.backend.run_in_thread(self.backend.tables.messages, self.run_id, after)
        )

    async def wait_for_message(self, after: int) -> None:
        await self.backend.message_poller.wait(self.run_id, after)

    async def read_feed(self, after: int) -> Sequence[FeedItem]:
        found = await self.lease.reach(
            lambda: self.backend.run_in_thread(self.backend.tables.events, self.run_id, after, 1000)
        )
        return [FeedItem(number, data=data) for number, data in found]

    async def emit(self, events: Sequence[FeedEvent]) -> None:
        data = [encode(event) for event in events]

        async def write() -> bytes:
            number = await self.backend.run_in_thread(self.backend.tables.append, self.run_id, data, self.lease.number)
            self.backend.feed_poller.notify(self.run_id, number)
            return b""

        await self.lease.keep(write)


class _DbosStepSlot:
    """A DBOS step with its number."""

    def __init__(self, log: DbosLog, reserved: StepReservation) -> None:
        self._log = log
        self._reserved = reserved
        self.is_recorded = reserved.step_id in log.known
        self.is_before_recorded = reserved.step_id < log.last

    async def run(self, name: str, work: StepFunction) -> bytes:
        async def step() -> str:
            return (await work()).decode()

        async def write() -> bytes:
            from dbos import error as failures

            try:
                return (await self._reserved.run_async({"name": name}, step)).encode()
            except (failures.DBOSWorkflowConflictIDError, failures.DBOSWorkflowCancelledError):
                raise LeaseLostError(self._log.run_id) from None
            except failures.DBOSUnexpectedStepError as error:
                raise NonDeterminismError(error.inputs[3], error.inputs[2]) from None

        return await self._log.lease.keep(write)

    async def wait(self, name: str, work: StepFunction) -> bytes:
        if not self.is_recorded:
            value = await work()
            return await self.run(name, lambda: _return_value(value))
        return await self.run(name, _raise_lost_step)

    async def child(self, run_id: str, agent: str, work: Callable[[RunLog], Awaitable[bytes]]) -> bytes:
        if self.is_recorded:
            return await self.run(f"agent {agent}", _raise_lost_step)
        value = await self._log.child(run_id, work)
        return await self.run(f"agent {agent}", lambda: _return_value(value))


async def _return_value(value: bytes) -> bytes:
    return value


async def _raise_lost_step() -> bytes:
    raise DurableError("The log of this run is missing a step.")


class ChildLog(_Log):
    """The log of a subagent, which is always in the same place as its parent's."""

    def __init__(
        self, backend: LogBackend, attempt: RunAttempt, run_id: str, steps: dict[int, tuple[str, bytes]]
    ) -> None:
        super().__init__(backend, attempt, run_id)
        self.steps = steps
        self.last = max(steps, default=0)
        self._drawn = 0

    def next_step(self) -> _ChildPlace:
        self._drawn += 1
        return _ChildPlace(self, self._drawn)

    async def messages(self, after: int) -> Sequence[RunMessage]:
        return ()

    async def wait_for_message(self, after: int) -> None:
        await asyncio.get_running_loop().create_future()

    async def read_feed(self, after: int) -> Sequence[FeedItem]:
        return ()

    async def emit(self, events: Sequence[FeedEvent]) -> None:
        """Do nothing: a subagent has no followers."""


class _ChildPlace:
    def __init__(self, log: ChildLog, number: int) -> None:
        self._log = log
        self._number = number
        self.is_recorded = number in log.steps
        self.is_before_recorded = number < log.last

    async def run(self, name: str, work: StepFunction) -> bytes:
        log, number = self._log, self._number

        async def write() -> bytes:
            if self.is_recorded:
                then, value = log.steps[number]
                if then != name:
                    raise NonDeterminismError(then, name)
                return value
            value = await work()
            root, attempt = log.lease.run_id, log.lease.number
            await log.backend.run_in_thread(
                log.backend.tables.keep_step, log.run_id, number, name, value, root=root, attempt=attempt
            )
            return value

        return await log.lease.keep(write)

    async def wait(self, name: str, work: StepFunction) -> bytes:
        value = b"" if self.is_recorded else await work()
        return await self.run(name, lambda: _return_value(value))

    async def child(self, run_id: str, agent: str, work: Callable[[RunLog], Awaitable[bytes]]) -> bytes:
        value = b"" if self.is_recorded else await self._log.child(run_id, work)
        return await self.run(f"agent {agent}", lambda: _return_value(value))
