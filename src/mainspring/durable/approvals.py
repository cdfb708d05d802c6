"""Waits for approvals in durable runs: publishes the question, waits for the answer, and resumes. Subagents ask through their parent run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.durable.engine import RunLog
from mainspring.durable.records import decode, encode
from mainspring.errors import AgentAbortedError
from mainspring.events import ApprovalRequest, ApprovalResult
from mainspring.loop import AgentStats, Approve, CoreAgent, Deny, RunResult
from mainspring.messages import ToolUseBlock, Usage

ANSWER = "answer"
"""Topic of answers to the run's own calls. Answers to a subagent's calls append the subagent's name."""


class Answer(Struct, frozen=True, kw_only=True):
    """An answer to a waiting call. ``number`` identifies the question, since some models reuse call IDs."""

    number: int
    call_id: str
    allow: bool
    input: dict[str, object] | None = None
    reason: str = ""
    stop: bool = False
    abort: bool = False
    """True if the message is not an answer but aborts a waiting run."""


def approval_topic(agent: str) -> str:
    """Return the topic for answers to a subagent, or to the run itself."""
    return f"{ANSWER} {agent}" if agent else ANSWER


class MailboxReader(Protocol):
    """Receives messages: implemented by the steps of a run or of a subagent."""

    async def wait(self, topic: str) -> bytes:
        """Wait for the next message under a topic."""
        ...


class PendingApprovals:
    """The calls of a run and its subagents that wait for approval: published for readers and reported to followers.

    Args:
        log: The log of the root run, which receives the answers.
        publish: Notifies followers.
    """

    def __init__(
        self, log: RunLog, publish: Callable[[ApprovalRequest | ApprovalResult], object] | None = None
    ) -> None:
        self.log = log
        self._publish = publish
        self._open: dict[str, Sequence[ApprovalRequest]] = {}
        self._publishing = asyncio.Lock()

    async def update(
        self,
        agent: str,
        requests: Sequence[ApprovalRequest],
        events: Sequence[ApprovalRequest | ApprovalResult],
    ) -> None:
        """Publish what a subagent, or the run itself, waits for now.

        Args:
            agent: The subagent; empty for the run itself.
            requests: Its calls that wait.
            events: What changed, for followers.
        """
        self._open[agent] = requests
        async with self._publishing:  # Concurrent publishers could otherwise write in any order.
            await self.log.publish("pending", encode([each for requests in self._open.values() for each in requests]))
        if self._publish is not None:
            for event in events:
                self._publish(event)


class ApprovalLoop:
    """Runs an agent to its end: publishes the questions at each pause, waits for the answers, and resumes.

    Args:
        agent: The agent that runs.
        questions: Where pending questions are published.
        steps: Where answers arrive.
        name: The subagent's name in the run's tree. Empty for the run itself.
        signal: Ends the wait of a subagent that is stopped. A message, which is stored, ends the wait of the run itself.
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
        """Return the result of the whole run.

        Args:
            run: Starts the run, or resumes it after a pause.
        """
        result = await run()
        while result.status == "paused" and self._agent.pending is not None:
            self._number += 1
            requests = self._requests()
            await self._questions.update(self._name, requests, requests)
            while request := {self._public_call_id(call.id): call.id for call in self._calls()}:
                answer = await self._next()
                if answer.abort:
                    return await self._stopped(result, answer.reason)
                if answer.number != self._number or answer.call_id not in request:
                    continue
                given = Approve(answer.input) if answer.allow else Deny(answer.reason, answer.stop)
                self._agent.answer({request[answer.call_id]: given})
                decided = ApprovalResult(answer.call_id, _decision(answer), answer.reason)
                await self._questions.update(self._name, self._requests(), (decided,))
            result = _merge_results(result, await run())
        return result

    async def _next(self) -> Answer:
        """Return the next answer, or an abort if the subagent is stopped."""
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
        """End a run that waits for answers. Its calls get results with the reason."""
        agent = self._agent
        aborted = [ApprovalResult(request.id, "aborted", reason) for request in self._requests()]
        agent.answer({call.id: Deny(reason, stop=True) for call in self._calls()})
        await self._questions.update(self._name, (), aborted)
        result = _merge_results(result, await agent.run(raise_errors=False))
        return replace(result, status="aborted", error=result.error or AgentAbortedError(reason))

    def _requests(self) -> Sequence[ApprovalRequest]:
        pending = self._agent.pending
        reasons = pending.reasons if pending is not None else dict[str, str]()
        return [
            ApprovalRequest(
                id=self._public_call_id(call.id),
                call=replace(call, id=self._public_call_id(call.id)),
                reason=reasons.get(call.id, ""),
                number=self._number,
                agent=self._name,
                more=more,
            )
            for more, call in reversed(list(enumerate(reversed(self._calls()))))
        ]

    def _calls(self) -> Sequence[ToolUseBlock]:
        return self._agent.pending.calls if self._agent.pending is not None else ()

    def _public_call_id(self, call_id: str) -> str:
        """Return the ID under which a call is answered: two subagents may have calls with the same ID."""
        return f"{self._name}/{call_id}" if self._name else call_id


def _decision(answer: Answer) -> Literal["once", "edit", "deny"]:
    if not answer.allow:
        return "deny"
    return "once" if answer.input is None else "edit"


def _merge_results(first: RunResult, second: RunResult) -> RunResult:
    """Combine the results before and after a pause into one."""
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
    return replace(
        second,
        text=second.text or first.text,
        messages=first.messages + second.messages,
        stats=stats,
        run_id=first.run_id,
    )
