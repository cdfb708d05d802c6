"""Convert the events of a run to events of AG-UI 1.0 (https://docs.ag-ui.com)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from mainspring.durable.client_tools import client_call_state
from mainspring.durable.feed import FeedEvent
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    ApprovalResult,
    AttemptStart,
    MessageEnd,
    ModelCallRetry,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from mainspring.messages import Message, ToolResultBlock, ToolUseBlock

_PROTOCOL = "1.0"

Event = dict[str, Any]


class ClientRunIds(Struct, frozen=True, kw_only=True):
    """IDs of an AG-UI client for the run that it started.

    Attributes:
        thread: ID of the thread.
        run: ID of the run.
        known: Number of messages at the beginning of the run that the client already has and that are not sent again.
        answered: Calls that the client has just answered: subagent, number of the pause, call.
    """

    thread: str
    run: str
    known: int = 0
    answered: frozenset[tuple[str, int, str]] = frozenset()


class ClientCallIds:
    """The tool call IDs that a client gets: some models reuse an ID, and a client would take both calls for the same one."""

    def __init__(self) -> None:
        self._sent: set[str] = set()
        self._known: dict[str, str] = {}

    def skip(self, call_id: str) -> None:
        """Reserve the ID of a call that the client already has."""
        self._sent.add(call_id)

    def add(self, call_id: str) -> str:
        """Return the ID for a new call."""
        known, count = call_id, 1
        while known in self._sent:
            count += 1
            known = f"{call_id}~{count}"
        self._sent.add(known)
        self._known[call_id] = known
        return known

    def get(self, call_id: str) -> str:
        """Return the client's ID of the last call with an ID."""
        return self._known.get(call_id, call_id)


def encode_arguments(call: ToolUseBlock) -> str:
    """Return the arguments of a call as JSON, or the model's text if it is not valid."""
    return call.raw_input or msgspec.json.encode(call.input, enc_hook=str).decode()


class AgUiEncoder:
    """Encodes the events of one run, in order.

    For AG-UI, a paused run is finished with an interrupt, and resuming it starts another run of the same thread. Events that arrive
    while the run is paused (for example, when one subagent is paused and another one continues) are delayed until that next run.

    Args:
        run_id: ID of the run; without client IDs, also the ID of its thread.
        names: IDs of the client.
    """

    def __init__(self, run_id: str, names: ClientRunIds | None = None) -> None:
        self._run_id = run_id
        self._names = names
        self._thread = names.thread if names else run_id
        self._known_messages = names.known if names else 0
        self._answered: frozenset[tuple[str, int, str]] = frozenset()
        self._part = 0
        self._attempt = 1
        self._turn = 0
        self._open = ""
        self._reasoning = ""
        self._message_finished = False
        self._run_started = False
        self._waiting: dict[str, ApprovalRequest] = {}
        self._announced_questions: set[tuple[str, int, str]] = set()
        self._held_events: list[FeedEvent] = []
        self._calls = ClientCallIds()
        self._unanswered: dict[str, None] = {}
        self.last_calls: dict[str, str] = {}
        """Tool calls of the last model response, by the IDs that the client uses."""

    @property
    def _client_run_id(self) -> str:
        if self._names:
            return self._names.run
        return self._run_id if self._part <= 1 else f"{self._run_id}/{self._part}"

    def encode(self, event: FeedEvent) -> Sequence[Event]:
        """Return the AG-UI events for an event; often none."""
        events: list[Event] = []
        match event:
            case AttemptStart(number=number):
                self._on_attempt(events, number)
            case ApprovalRequest(id=id, more=more):
                self._waiting[id] = event
                if not more:
                    self._on_approvals_changed(events)
            case ApprovalResult(id=id):
                self._waiting.pop(id, None)
                self._on_approvals_changed(events)
            case AgentEnd():
                self._waiting.clear()
                self._flush_held(events)
                self._on_run_ended(events, event)
            case _ if self._unanswered_calls():
                self._held_events.append(event)
            case _:
                self._begin(events)
                self._encode_event(events, event)
        return events

    def begin(self) -> Sequence[Event]:
        """Return the first event, for a client that does not wait until a worker starts the run."""
        events: list[Event] = []
        self._begin(events)
        return events

    def resume(self) -> Sequence[Event]:
        """Return the first events of a resumed run. Calls that the client did not answer are requested again."""
        events: list[Event] = []
        self._answered = self._names.answered if self._names else frozenset()
        self._announced_questions.clear()
        self._flush_held(events)
        if self._unanswered_calls():
            self._interrupt(events)
        return events

    def failed(self, why: str) -> Sequence[Event]:
        """Return the final event of a run that reported no end."""
        events: list[Event] = []
        self._begin(events)
        events.append({"type": "RUN_ERROR", "message": why, "code": "error"})
        return events

    def _encode_event(self, out: list[Event], event: FeedEvent) -> None:
        match event:
            case TurnStart(turn=turn):
                self._close(out)
                self._step(out, turn)
            case TextDelta(text=text) if text:
                self._text(out, text)
            case ThinkingDelta(text=text) if text:
                self._thinking(out, text)
            case MessageEnd(number=number, message=Message() as message):
                self._message(out, number, message)
            case ToolExecutionEnd(call=call, result=result):
                self._result(out, self._calls.get(call.id), result)
            case ToolExecutionStart(call=call):
                out.append(_custom("tool_start", {"toolCallId": self._calls.get(call.id), "toolCallName": call.name}))
            case ToolExecutionUpdate(call_id=id):
                update = {"toolCallId": self._calls.get(id), "output": event.output, "title": event.title}
                out.append(_custom("tool_update", update))
            case ModelCallRetry(attempt=attempt, max_retries=limit, delay=delay, error=error):
                retry = {
                    "attempt": attempt,
                    "max_retries": limit,
                    "delay": delay,
                    "error": error.message,
                    **({"continues": True} if event.continues else {}),
                }
                out.append(_custom("retry", {"type": "retry", **retry}))
            case _:
                pass

    def _begin(self, out: list[Event]) -> None:
        if self._run_started:
            return
        self._run_started = True
        self._part += 1
        self._unanswered.clear()
        out.append(
            {
                "type": "RUN_STARTED",
                "threadId": self._thread,
                "runId": self._client_run_id,
                "protocolVersion": _PROTOCOL,
            }
        )

    def _flush_held(self, out: list[Event]) -> None:
        """Return the delayed events, after a start event if one is needed."""
        self._begin(out)
        held_events, self._held_events = self._held_events, []
        for event in held_events:
            self._encode_event(out, event)

    def _on_attempt(self, out: list[Event], number: int) -> None:
        self._attempt = number
        if number == 1:
            self._begin(out)
            return
        void = self._open or self._reasoning
        self._close(out)
        if void and not self._message_finished:
            out.append(_custom("retracted", {"messageId": void}))

    def _step(self, out: list[Event], turn: int) -> None:
        self._end_step(out)
        self._turn = turn
        out.append({"type": "STEP_STARTED", "stepName": f"turn {turn}"})

    def _end_step(self, out: list[Event]) -> None:
        if self._turn:
            out.append({"type": "STEP_FINISHED", "stepName": f"turn {self._turn}"})
            self._turn = 0

    def _message_id(self, kind: str) -> str:
        return f"{self._run_id}/{kind}/{self._turn}.{self._attempt}"

    def _text(self, out: list[Event], text: str) -> None:
        self._close_reasoning(out)
        if not self._open:
            self._open = self._message_id("text")
            out.append({"type": "TEXT_MESSAGE_START", "messageId": self._open, "role": "assistant"})
        self._message_finished = False
        out.append({"type": "TEXT_MESSAGE_CONTENT", "messageId": self._open, "delta": text})

    def _thinking(self, out: list[Event], text: str) -> None:
        if not self._reasoning:
            self._reasoning = self._message_id("reasoning")
            out.append({"type": "REASONING_START", "messageId": self._reasoning})
            out.append({"type": "REASONING_MESSAGE_START", "messageId": self._reasoning, "role": "reasoning"})
        out.append({"type": "REASONING_MESSAGE_CONTENT", "messageId": self._reasoning, "delta": text})

    def _close_reasoning(self, out: list[Event]) -> None:
        if self._reasoning:
            out.append({"type": "REASONING_MESSAGE_END", "messageId": self._reasoning})
            out.append({"type": "REASONING_END", "messageId": self._reasoning})
            self._reasoning = ""

    def _close(self, out: list[Event]) -> None:
        self._close_reasoning(out)
        if self._open:
            out.append({"type": "TEXT_MESSAGE_END", "messageId": self._open})
            self._open = ""

    def _message(self, out: list[Event], number: int, message: Message) -> None:
        name, text = self._open, message.text
        if number <= self._known_messages:
            for call in message.tool_uses:
                self._calls.skip(call.id)
        elif message.role == "assistant":
            self._close_reasoning(out)
            if not name:  # a message that was not streamed, or that contains only tool calls
                name = f"{self._run_id}/message/{number}"
                if text:
                    _encode_message(out, name, "assistant", text)
            self._close(out)
            self._message_finished = True
            self.last_calls = {}
            for call in message.tool_uses:
                self._call(out, call, name)
        elif message.role == "user" and text:
            _encode_message(out, f"{self._run_id}/message/{number}", "user", text)

    def _call(self, out: list[Event], call: ToolUseBlock, parent: str) -> None:
        known = self._calls.add(call.id)
        self.last_calls[known] = call.id
        self._unanswered[known] = None
        started = {"type": "TOOL_CALL_START", "toolCallId": known, "toolCallName": call.name, "parentMessageId": parent}
        out.append(started)
        out.append({"type": "TOOL_CALL_ARGS", "toolCallId": known, "delta": encode_arguments(call)})
        out.append({"type": "TOOL_CALL_END", "toolCallId": known})

    def _result(self, out: list[Event], known: str, result: ToolResultBlock) -> None:
        if client_call_state(result):
            return  # the client must answer it
        self._unanswered.pop(known, None)
        name = f"{self._run_id}/result/{known}"
        content = {"messageId": name, "toolCallId": known, "content": result.text, "role": "tool"}
        out.append({"type": "TOOL_CALL_RESULT", **content})

    def _unanswered_calls(self) -> list[ApprovalRequest]:
        """Return the paused calls that this client did not answer."""
        return [request for request in self._waiting.values() if question_key(request) not in self._answered]

    def _on_approvals_changed(self, out: list[Event]) -> None:
        asks = {question_key(call) for call in self._unanswered_calls()}
        if asks - self._announced_questions:
            self._interrupt(out)
        elif not asks:
            self._announced_questions.clear()
            self._flush_held(out)

    def _interrupt(self, out: list[Event]) -> None:
        self._begin(out)
        self._close(out)
        self._end_step(out)
        asks = self._unanswered_calls()
        self._announced_questions = {question_key(call) for call in asks}
        outcome = {"type": "interrupt", "interrupts": [self._interrupt_of(call) for call in asks]}
        out.append({"type": "RUN_FINISHED", "threadId": self._thread, "runId": self._client_run_id, "outcome": outcome})
        self._run_started = False

    def _interrupt_of(self, waiting: ApprovalRequest) -> Event:
        call = waiting.call
        request = {
            "id": f"{self._run_id}/{call.id}",
            "reason": "tool_call",
            "message": f"{waiting.agent}: {waiting.reason}" if waiting.agent else waiting.reason,
            "responseSchema": _ANSWER,
            "metadata": {"tool": call.name, "input": call.input},
        }
        if waiting.agent:  # this stream does not contain its tool call
            return {**request, "subagentRunId": f"{self._run_id}.{waiting.agent}"}
        return {**request, "toolCallId": self._calls.get(call.id)}

    def _on_run_ended(self, out: list[Event], event: AgentEnd) -> None:
        self._close(out)
        self._end_step(out)
        reason = event.error.message if event.error else ""
        if event.status in ("error", "no_output"):
            out.append({"type": "RUN_ERROR", "message": reason or "The run failed.", "code": event.status})
            return
        ended = {"type": "RUN_FINISHED", "threadId": self._thread, "runId": self._client_run_id}
        if event.status == "completed":
            outcome: Event = {"type": "success"}
            if self._unanswered:
                outcome["pendingToolCallIds"] = [*self._unanswered]
            out.append({**ended, "outcome": outcome, "result": {"status": event.status, "text": event.text}})
        else:
            out.append(_custom("stopped", {"status": event.status, "reason": reason}))
            out.append({**ended, "outcome": {"type": "cancelled"}})


def question_key(waiting: ApprovalRequest) -> tuple[str, int, str]:
    """Return the key that identifies a paused call within its run."""
    return waiting.agent, waiting.number, waiting.call.id


_ANSWER = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "input": {"type": "object"},
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}


def _custom(name: str, value: Any) -> Event:
    return {"type": "CUSTOM", "name": f"mainspring.{name}", "value": value}


def warning(text: str) -> Event:
    """Return a warning about input that was not used."""
    return _custom("warning", {"message": text})


def _encode_message(out: list[Event], name: str, role: str, text: str) -> None:
    out.append({"type": "TEXT_MESSAGE_START", "messageId": name, "role": role})
    out.append({"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": text})
    out.append({"type": "TEXT_MESSAGE_END", "messageId": name})
