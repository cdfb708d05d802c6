"""From what a run tells to the events of AG-UI 1.0 (https://docs.ag-ui.com), and from its input to a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mainspring.durable.feed import (
    Asked,
    Attempt,
    CallBegan,
    CallDone,
    CallProgress,
    FeedEvent,
    MessageDone,
    Retry,
    RunEnded,
    Text,
    Thinking,
    TurnBegan,
    WaitingCall,
)
from mainspring.messages import Message

PROTOCOL = "1.0"

Event = dict[str, Any]


class AgUi:
    """Translates the events of one run, in their order.

    A run that pauses is, for AG-UI, finished with an interrupt; where it goes on, a further run of the same thread begins.

    Args:
        run_id: The run; its thread has the same name.
        prompts: Whether what users said is told as well.
    """

    def __init__(self, run_id: str, *, prompts: bool = True) -> None:
        self._run_id = run_id
        self._prompts = prompts
        self._part = 0
        self._attempt = 1
        self._turn = 0
        self._open = ""
        self._reasoning = ""
        self._said = False
        self._running = False

    @property
    def _run(self) -> str:
        return self._run_id if self._part <= 1 else f"{self._run_id}/{self._part}"

    def of(self, event: FeedEvent) -> Sequence[Event]:
        """The events that this one becomes; often none."""
        made: list[Event] = []
        match event:
            case Attempt(number=number):
                self._taken_up(made, number)
            case Asked(calls=calls):
                self._asked(made, calls)
            case RunEnded():
                self._ended(made, event)
            case _:
                self._begin(made)
                self._told(made, event)
        return made

    def _told(self, made: list[Event], event: FeedEvent) -> None:
        match event:
            case TurnBegan(turn=turn):
                self._close(made)
                self._step(made, turn)
            case Text(text=text) if text:
                self._text(made, text)
            case Thinking(text=text) if text:
                self._thinking(made, text)
            case MessageDone(number=number, message=Message() as message):
                self._message(made, number, message)
            case CallDone(call=call, result=result):
                made.append(
                    {
                        "type": "TOOL_CALL_RESULT",
                        "messageId": f"{self._run_id}/result/{call.id}",
                        "toolCallId": call.id,
                        "content": result.text,
                        "role": "tool",
                    }
                )
            case CallBegan(call=call):
                made.append(_custom("tool_start", {"toolCallId": call.id, "toolCallName": call.name}))
            case CallProgress(call_id=id):
                made.append(_custom("tool_update", {"toolCallId": id, "output": event.output, "title": event.title}))
            case Retry():
                made.append(_custom("retry", msgspec.to_builtins(event)))
            case _:
                pass

    def _begin(self, made: list[Event]) -> None:
        if self._running:
            return
        self._running = True
        self._part += 1
        made.append({"type": "RUN_STARTED", "threadId": self._run_id, "runId": self._run, "protocolVersion": PROTOCOL})

    def _taken_up(self, made: list[Event], number: int) -> None:
        self._attempt = number
        if number == 1:
            self._begin(made)
            return
        void = self._open or self._reasoning
        self._close(made)
        if void and not self._said:
            made.append(_custom("retracted", {"messageId": void}))

    def _step(self, made: list[Event], turn: int) -> None:
        self._end_step(made)
        self._turn = turn
        made.append({"type": "STEP_STARTED", "stepName": f"turn {turn}"})

    def _end_step(self, made: list[Event]) -> None:
        if self._turn:
            made.append({"type": "STEP_FINISHED", "stepName": f"turn {self._turn}"})
            self._turn = 0

    def _name(self, kind: str) -> str:
        return f"{self._run_id}/{kind}/{self._turn}.{self._attempt}"

    def _text(self, made: list[Event], text: str) -> None:
        self._close_reasoning(made)
        if not self._open:
            self._open = self._name("text")
            made.append({"type": "TEXT_MESSAGE_START", "messageId": self._open, "role": "assistant"})
        self._said = False
        made.append({"type": "TEXT_MESSAGE_CONTENT", "messageId": self._open, "delta": text})

    def _thinking(self, made: list[Event], text: str) -> None:
        if not self._reasoning:
            self._reasoning = self._name("reasoning")
            made.append({"type": "REASONING_START", "messageId": self._reasoning})
            made.append({"type": "REASONING_MESSAGE_START", "messageId": self._reasoning, "role": "reasoning"})
        made.append({"type": "REASONING_MESSAGE_CONTENT", "messageId": self._reasoning, "delta": text})

    def _close_reasoning(self, made: list[Event]) -> None:
        if self._reasoning:
            made.append({"type": "REASONING_MESSAGE_END", "messageId": self._reasoning})
            made.append({"type": "REASONING_END", "messageId": self._reasoning})
            self._reasoning = ""

    def _close(self, made: list[Event]) -> None:
        self._close_reasoning(made)
        if self._open:
            made.append({"type": "TEXT_MESSAGE_END", "messageId": self._open})
            self._open = ""

    def _message(self, made: list[Event], number: int, message: Message) -> None:
        name, text = self._open, message.text
        if message.role == "assistant":
            self._close_reasoning(made)
            if not name and text:  # a message that was not streamed
                name = f"{self._run_id}/message/{number}"
                _whole(made, name, "assistant", text)
            self._close(made)
            self._said = True
            for call in message.tool_uses:
                started = {"type": "TOOL_CALL_START", "toolCallId": call.id, "toolCallName": call.name}
                made.append({**started, "parentMessageId": name} if name else started)
                arguments = call.raw_input or msgspec.json.encode(call.input, enc_hook=str).decode()
                made.append({"type": "TOOL_CALL_ARGS", "toolCallId": call.id, "delta": arguments})
                made.append({"type": "TOOL_CALL_END", "toolCallId": call.id})
        elif message.role == "user" and self._prompts and text:
            _whole(made, f"{self._run_id}/message/{number}", "user", text)

    def _asked(self, made: list[Event], calls: Sequence[WaitingCall]) -> None:
        if not calls or not self._running:
            return  # an answer came; the run goes on with its next event
        self._close(made)
        self._end_step(made)
        asked = [
            {
                "id": f"{self._run_id}/{w.call.id}",
                "reason": "tool_call",
                "message": w.reason,
                "toolCallId": w.call.id,
                "responseSchema": _ANSWER,
            }
            for w in calls
        ]
        made.append(
            {
                "type": "RUN_FINISHED",
                "threadId": self._run_id,
                "runId": self._run,
                "outcome": {"type": "interrupt", "interrupts": asked},
            }
        )
        self._running = False

    def _ended(self, made: list[Event], event: RunEnded) -> None:
        self._begin(made)
        self._close(made)
        self._end_step(made)
        if event.status == "error":
            made.append({"type": "RUN_ERROR", "message": event.error or "the run failed", "code": event.status})
            return
        kind = "cancelled" if event.status == "aborted" else "success"
        made.append(
            {
                "type": "RUN_FINISHED",
                "threadId": self._run_id,
                "runId": self._run,
                "outcome": {"type": kind},
                "result": {"status": event.status, "text": event.text},
            }
        )


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


def _whole(made: list[Event], name: str, role: str, text: str) -> None:
    made.append({"type": "TEXT_MESSAGE_START", "messageId": name, "role": role})
    made.append({"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": text})
    made.append({"type": "TEXT_MESSAGE_END", "messageId": name})
