"""The log of a run on DBOS. Its steps are DBOS steps; the steps of its subagents are in a table of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from mainspring.durable.attempt import Attempt, LeaseLostError, NonDeterminismError
from mainspring.durable.dbos.polling import Poller
from mainspring.durable.dbos.tables import Tables
from mainspring.durable.engine import RunLog, RunMessage, StepFunction
from mainspring.durable.feed import FeedEvent, FeedItem, decode_event, encode_event
from mainspring.errors import DurableError

if TYPE_CHECKING:
    from dbos import StepReservation

P = ParamSpec("P")
T = TypeVar("T")


class LogBackend(Protocol):
    """What a log needs of its engine."""

    tables: Tables
    letters: Poller
    feeds: Poller

    async def ask(self, call: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Run blocking work in a thread."""
        ...


class _Log:
    """Common base of the logs of runs and subagents."""

    def __init__(self, desk: LogBackend, attempt: Attempt, run_id: str) -> None:
        self.desk = desk
        self.of = attempt
        self.run_id = run_id

    @property
    def attempt(self) -> int:
        return self.of.number

    async def publish(self, name: str, value: bytes) -> None:
        async def write() -> bytes:
            of = self.of
            await self.desk.ask(self.desk.tables.publish, self.run_id, of.number, name, value, of.run_id)
            return b""

        await self.of.keep(write)

    async def child(self, run_id: str, work: Callable[[RunLog], Awaitable[bytes]]) -> bytes:
        """Run a subagent, given its stored steps."""
        of = self.of

        async def adopt() -> bytes:
            await self.desk.ask(self.desk.tables.link_subagent_run, run_id, root=of.run_id, attempt=of.number)
            return b""

        await of.keep(adopt)
        steps = await self.of.reach(lambda: self.desk.ask(self.desk.tables.steps, run_id))
        return await work(ChildLog(self.desk, of, run_id, steps))


class DbosLog(_Log):
    """One attempt at a run.

    Args:
        desk: The engine.
        attempt: The attempt.
        known: Numbers of the DBOS steps that were finished before.
    """

    def __init__(self, desk: LogBackend, attempt: Attempt, known: set[int]) -> None:
        super().__init__(desk, attempt, attempt.run_id)
        self.known = known
        self.last = max(known, default=-1)

    def place(self) -> _DbosStepSlot:
        from dbos import DBOS

        return _DbosStepSlot(self, DBOS.reserve_step())

    async def letters(self, after: int) -> Sequence[RunMessage]:
        return await self.of.reach(lambda: self.desk.ask(self.desk.tables.letters, self.run_id, after))

    async def new_letter(self, after: int) -> None:
        await self.desk.letters.wait(self.run_id, after)

    async def told(self, after: int) -> Sequence[FeedItem]:
        found = await self.of.reach(lambda: self.desk.ask(self.desk.tables.events, self.run_id, after, 1000))
        return [FeedItem(number, decode_event(data)) for number, data in found]

    async def emit(self, events: Sequence[FeedEvent]) -> None:
        data = [encode_event(event) for event in events]

        async def write() -> bytes:
            number = await self.desk.ask(self.desk.tables.append, self.run_id, data, self.of.number)
            self.desk.feeds.tell(self.run_id, number)
            return b""

        await self.of.keep(write)


class _DbosStepSlot:
    """A DBOS step with its number."""

    def __init__(self, log: DbosLog, reserved: StepReservation) -> None:
        self._log = log
        self._reserved_commands = reserved
        self.recorded = reserved.step_id in log.known
        self.behind = reserved.step_id < log.last

    async def run(self, name: str, work: StepFunction) -> bytes:
        async def step() -> str:
            return (await work()).decode()

        async def write() -> bytes:
            from dbos import error as failures

            try:
                return (await self._reserved_commands.run_async({"name": name}, step)).encode()
            except (failures.DBOSWorkflowConflictIDError, failures.DBOSWorkflowCancelledError):
                raise LeaseLostError(self._log.run_id) from None
            except failures.DBOSUnexpectedStepError as error:
                raise NonDeterminismError(error.inputs[3], error.inputs[2]) from None

        return await self._log.of.keep(write)

    async def wait(self, name: str, work: StepFunction) -> bytes:
        if not self.recorded:
            value = await work()
            return await self.run(name, lambda: _return_value(value))
        return await self.run(name, _raise_lost_step)

    async def child(self, run_id: str, agent: str, work: Callable[[RunLog], Awaitable[bytes]]) -> bytes:
        if self.recorded:
            return await self.run(f"agent {agent}", _raise_lost_step)
        value = await self._log.child(run_id, work)
        return await self.run(f"agent {agent}", lambda: _return_value(value))


async def _return_value(value: bytes) -> bytes:
    return value


async def _raise_lost_step() -> bytes:
    raise DurableError("The log of this run is missing a step.")


class ChildLog(_Log):
    """The log of a subagent, which is always in the same place as its parent's."""

    def __init__(self, desk: LogBackend, attempt: Attempt, run_id: str, steps: dict[int, tuple[str, bytes]]) -> None:
        super().__init__(desk, attempt, run_id)
        self.steps = steps
        self.last = max(steps, default=0)
        self._drawn = 0

    def place(self) -> _ChildPlace:
        self._drawn += 1
        return _ChildPlace(self, self._drawn)

    async def letters(self, after: int) -> Sequence[RunMessage]:
        return ()

    async def new_letter(self, after: int) -> None:
        await asyncio.get_running_loop().create_future()

    async def told(self, after: int) -> Sequence[FeedItem]:
        return ()

    async def emit(self, events: Sequence[FeedEvent]) -> None:
        """Do nothing: a subagent has no followers."""


class _ChildPlace:
    def __init__(self, log: ChildLog, number: int) -> None:
        self._log = log
        self._number = number
        self.recorded = number in log.steps
        self.behind = number < log.last

    async def run(self, name: str, work: StepFunction) -> bytes:
        log, number = self._log, self._number

        async def write() -> bytes:
            if self.recorded:
                then, value = log.steps[number]
                if then != name:
                    raise NonDeterminismError(then, name)
                return value
            value = await work()
            root, attempt = log.of.run_id, log.of.number
            await log.desk.ask(log.desk.tables.keep_step, log.run_id, number, name, value, root=root, attempt=attempt)
            return value

        return await log.of.keep(write)

    async def wait(self, name: str, work: StepFunction) -> bytes:
        value = b"" if self.recorded else await work()
        return await self.run(name, lambda: _return_value(value))

    async def child(self, run_id: str, agent: str, work: Callable[[RunLog], Awaitable[bytes]]) -> bytes:
        value = b"" if self.recorded else await self._log.child(run_id, work)
        return await self.run(f"agent {agent}", lambda: _return_value(value))
