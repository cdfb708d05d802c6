"""Runs that AG-UI clients start: each request contains the whole conversation; answers to interrupts resume the paused run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec import Struct

from mainspring.app.run_service.schemas import Approve, Deny
from mainspring.app.run_service.service import ConflictError, InvalidError, RunService, ServiceError
from mainspring.app.servers.ag_ui.encoder import AgUiEncoder, ClientRunIds, question_key
from mainspring.app.servers.ag_ui.input import (
    AgUiConversation,
    Cancelled,
    Resolved,
    ResumeEntry,
    RunAgentInput,
    Verdict,
    client_context,
)
from mainspring.durable import DurableRun
from mainspring.durable.client_tools import answer_topic
from mainspring.durable.records import encode
from mainspring.events import ApprovalRequest


class AgUiRun(Struct, frozen=True, kw_only=True):
    """An AG-UI run that has started.

    Attributes:
        id: ID of the run in the service.
        names: IDs of the client.
        after: Number of the last earlier event of the run; 0 for a new run.
        warnings: Warnings about input that was not used.
    """

    id: str
    names: ClientRunIds
    after: int = 0
    warnings: Sequence[str] = ()


class AgUiRunStarter:
    """Starts and resumes AG-UI runs.

    Args:
        service: Service that executes the runs.
    """

    def __init__(self, service: RunService) -> None:
        self._service = service

    async def begin(self, tenant: str, given: RunAgentInput, agent: str = "") -> AgUiRun:
        """Start a run, or resume the paused run that the answers belong to.

        Raises:
            InvalidError: If the input cannot be used.
            ConflictError: If the run was started before, no call is paused, or an answer is missing.
            ServiceError: As for `RunService.start`.
        """
        conversation, context = AgUiConversation(given), client_context(given)
        thread = f"ag-{_hash_id(given.threadId)}-"
        verdicts = _parse_answers(given.resume or ())
        waiting = await self._pending_calls(tenant, thread)
        answers = {(run, call): v for (run, call), v in verdicts.items() if call in waiting.get(run, {})}
        conversation.warnings += [
            f"No paused call matches the answer {run}/{call}." for run, call in verdicts.keys() - answers.keys()
        ]
        if answers:
            return await self._resume(tenant, given, conversation, answers, waiting)
        if waiting:
            names = [f"{run}/{call}" for run, calls in waiting.items() for call in calls]
            raise ConflictError("interrupted", f"Answer the interrupts of this thread in `resume`: {', '.join(names)}.")
        if not conversation.can_run:
            reason = (
                "The answered call is no longer paused."
                if verdicts
                else "it must end with a message of the user or a tool"
            )
            raise ConflictError("nothing_to_answer", f"The run cannot start from this conversation: {reason}.")
        key = f"{thread}{_hash_id(given.runId)}"
        run_id = await self._service.start_with_messages(tenant, agent, conversation.messages, key, context)
        names = ClientRunIds(thread=given.threadId, run=given.runId, known=len(conversation.messages))
        return AgUiRun(id=run_id, names=names, warnings=conversation.warnings)

    async def _pending_calls(self, tenant: str, thread: str) -> dict[str, dict[str, ApprovalRequest]]:
        """Return the paused calls of a thread, by run and call ID."""
        engine = self._service.engine
        going = await engine.runs(state="running", limit=1_000, prefix=f"{tenant}.{thread}")
        found = {info.id: await DurableRun(engine, info.id).pending() for info in going}
        return {run: {w.call.id: w for w in calls} for run, calls in found.items() if calls}

    async def _resume(
        self,
        tenant: str,
        run_input: RunAgentInput,
        conversation: AgUiConversation,
        answers: dict[tuple[str, str], Verdict],
        waiting: dict[str, dict[str, ApprovalRequest]],
    ) -> AgUiRun:
        runs = {run for run, _ in answers}
        if len(runs) > 1:
            raise InvalidError("The answers belong to interrupts of more than one run. Answer those of one run only.")
        run_id = runs.pop()
        translator, after = AgUiEncoder(run_id), 0
        while items := await self._service.engine.feed.read(run_id, after):
            after = items[-1].number
            for item in items:
                translator.encode(item.event)
        # The client must also return the results of the client's tools, in addition to approvals.
        for known, own in translator.last_calls.items():
            if (result := conversation.answers.get(known)) is not None:
                await self._service.engine.send(run_id, answer_topic(own), encode(result))
        answered: set[tuple[str, int, str]] = set()
        for (_, call_id), verdict in answers.items():
            answered.add(question_key(waiting[run_id][call_id]))
            if verdict.approved:
                await self._service.approve(tenant, run_id, Approve(call_id=call_id, input=verdict.input))
            else:
                reason = verdict.reason or "the user denied it"
                await self._service.deny(tenant, run_id, Deny(call_id=call_id, reason=reason))
        names = ClientRunIds(thread=run_input.threadId, run=run_input.runId, answered=frozenset(answered))
        return AgUiRun(id=run_id, names=names, after=after, warnings=conversation.warnings)

    async def describe_end(self, tenant: str, run_id: str) -> str:
        """Return the end of a run that reported no end."""
        try:
            view = await self._service.view(tenant, run_id)
        except ServiceError as error:
            return str(error)
        return view.error or f"The run is {view.state}."


def _hash_id(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _parse_answers(entries: Sequence[ResumeEntry]) -> dict[tuple[str, str], Verdict]:
    """Return the answers, by run and call."""
    found: dict[tuple[str, str], Verdict] = {}
    for entry in entries:
        run, _, call = entry.interruptId.partition("/")
        if (run, call) in found:
            raise InvalidError(f"Interrupt {entry.interruptId} has two answers.")
        found[run, call] = _verdict(entry)
    return found


def _verdict(entry: ResumeEntry) -> Verdict:
    match entry:
        case Resolved(payload=payload):
            return payload
        case Cancelled():
            return Verdict(approved=False, reason="the question was left unanswered")
