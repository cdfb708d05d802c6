"""Runs that wait for a person: they ask, wherever the answer comes from, and go on. Sub-agents do too, in the name of the run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.durable.engine import RunLog
from mainspring.durable.feed import Asked, WaitingCall
from mainspring.durable.records import decode, encode
from mainspring.errors import AgentAbortedError
from mainspring.loop import AgentStats, Approve, CoreAgent, Deny, RunResult
from mainspring.messages import ToolUseBlock, Usage

ANSWER = "answer"
"""The topic of answers to the run's own calls; those to a sub-agent's have its name behind it."""


class Answer(Struct, frozen=True, kw_only=True):
    """An answer to a call that waits; ``number`` tells which question it answers, since some models use the same ids again."""

    number: int
    call_id: str
    allow: bool
    input: dict[str, object] | None = None
    reason: str = ""
    stop: bool = False
    abort: bool = False
    """Whether it is none, but the end of a run that waits for one."""


def approval_topic(agent: str) -> str:
    """Under which topic answers go to a sub-agent, or to the run itself."""
    return f"{ANSWER} {agent}" if agent else ANSWER


class MailboxReader(Protocol):
    """Where letters arrive: the steps of a run or of a sub-agent."""

    async def wait(self, topic: str) -> bytes:
        """The next letter under a topic."""
        ...


class PendingApprovals:
    """What a run and its sub-agents ask at a time: published for those who look, told to those who follow.

    Args:
        log: The run at the top; answers arrive there.
        tell: Tells followers.
    """

    def __init__(self, log: RunLog, tell: Callable[[Asked], object] | None = None) -> None:
        self.log = log
        self._tell = tell
        self._open: dict[str, Asked] = {}
        self._publishing = asyncio.Lock()

    async def ask(self, asked: Asked) -> None:
        """Say what a sub-agent, or the run itself, waits for now; with no calls it goes on."""
        self._open[asked.agent] = asked
        async with self._publishing:  # what two publish at once would arrive in any order
            calls = [call for each in self._open.values() for call in each.calls]
            own = self._open.get("")
            await self.log.publish("pending", encode(Asked(own.number if own else 0, tuple(calls))))
        if self._tell is not None:
            self._tell(asked)


class ApprovalLoop:
    """Takes a run to its end: as often as it pauses, it asks, waits for the answers and goes on.

    Args:
        agent: Whose run it is.
        questions: Where it asks.
        steps: Where answers arrive.
        name: The sub-agent's name in the run's tree; empty for the run itself.
        signal: Ends the waiting of a sub-agent that is stopped. That of the run itself is ended by a letter, which is kept.
    """

    def __init__(
        self,
        agent: CoreAgent,
        questions: PendingApprovals,
        steps: MailboxReader,
        name: str = "",
        signal: CancelToken | None = None,
    ) -> None:
        self._agent = agent
        self._questions = questions
        self._steps = steps
        self._name = name
        self._signal = signal
        self._number = 0

    async def run_to_completion(self, run: Callable[[], Awaitable[RunResult]]) -> RunResult:
        """The result of the whole run.

        Args:
            run: Begins it, or takes it up again where it paused.
        """
        result = await run()
        while result.status == "paused" and self._agent.pending is not None:
            self._number += 1
            await self._ask()
            while asked := {self._known(call.id): call.id for call in self._calls()}:
                answer = await self._next()
                if answer.abort:
                    return await self._stopped(result, answer.reason)
                if answer.number != self._number or answer.call_id not in asked:
                    continue
                given = Approve(answer.input) if answer.allow else Deny(answer.reason, answer.stop)
                self._agent.answer({asked[answer.call_id]: given})
                await self._ask()
            result = _merge_results(result, await run())
        return result

    async def _next(self) -> Answer:
        """The next answer; none but the end of the waiting where the sub-agent is stopped."""
        waiting = asyncio.ensure_future(self._steps.wait(approval_topic(self._name)))
        if self._signal is None:
            return decode(await waiting, Answer)
        stopped = asyncio.ensure_future(self._signal.wait())
        try:
            await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return decode(waiting.result(), Answer)
            reason = self._signal.reason or "aborted"
            return Answer(number=0, call_id="", allow=False, reason=reason, abort=True)
        finally:
            waiting.cancel()
            stopped.cancel()
            await asyncio.wait((waiting, stopped))

    async def _stopped(self, result: RunResult, reason: str) -> RunResult:
        """End a run that waits for answers; its calls get results that say so."""
        agent = self._agent
        agent.answer({call.id: Deny(reason, stop=True) for call in self._calls()})
        await self._ask()
        result = _merge_results(result, await agent.run(raise_errors=False))
        return replace(result, status="aborted", error=result.error or AgentAbortedError(reason))

    async def _ask(self) -> None:
        pending = self._agent.pending
        reasons = pending.reasons if pending is not None else dict[str, str]()
        calls = [
            WaitingCall(replace(call, id=self._known(call.id)), reasons.get(call.id, ""), self._name, self._number)
            for call in self._calls()
        ]
        await self._questions.ask(Asked(self._number, tuple(calls), self._name))

    def _calls(self) -> Sequence[ToolUseBlock]:
        return self._agent.pending.calls if self._agent.pending is not None else ()

    def _known(self, call_id: str) -> str:
        """By which name a call is answered: two sub-agents may have calls of the same id."""
        return f"{self._name}/{call_id}" if self._name else call_id


def _merge_results(first: RunResult, second: RunResult) -> RunResult:
    """A run that was paused and went on is one run."""
    one, two = first.stats, second.stats
    counts = Counter(one.tool_counts) + Counter(two.tool_counts)
    side = dict(one.side_usage)
    for purpose, usage in two.side_usage.items():
        side[purpose] = side.get(purpose, Usage.zero()) + usage
    stats = AgentStats(
        turns=one.turns + two.turns,
        usage=one.usage + two.usage,
        turn_usage=one.turn_usage + two.turn_usage,
        tool_counts=dict(sorted(counts.items())),
        seconds=one.seconds + two.seconds,
        side_usage=side,
        output=two.output,
        children=one.children + two.children,
    )
    return RunResult(
        status=second.status,
        text=second.text or first.text,
        output=second.output,
        output_error=second.output_error,
        messages=first.messages + second.messages,
        stop_reason=second.stop_reason,
        stats=stats,
        error=second.error,
        run_id=first.run_id,
    )
