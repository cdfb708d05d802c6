"""Convert the events of a run to the UI message stream of the Vercel AI SDK (https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mainspring.app.servers.ag_ui.encoder import ClientCallIds, encode_arguments
from mainspring.durable.feed import FeedEvent
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    AttemptStart,
    MessageEnd,
    ModelCallRetry,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionUpdate,
    TurnStart,
)
from mainspring.messages import Message, ToolResultBlock, ToolUseBlock

Chunk = dict[str, Any]

UI_MESSAGE_HEADERS: Mapping[str, str] = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}
"""Headers of a response with this stream."""

DONE = "[DONE]"
"""The data of the last event of the stream, after all chunks."""


class UiMessageEncoder:
    """Encodes the events of one run, in order, as chunks of one assistant message; works with `useChat` from version 5 on.

    Parts that the protocol does not know are data parts of the types ``data-retry``, ``data-retracted`` (a crash made a text void),
    and ``data-approval`` (a call of a subagent waits for approval).

    Args:
        message_id: ID of the message; the run's ID, for example.
    """

    def __init__(self, message_id: str) -> None:
        self._message_id = message_id
        self._calls = ClientCallIds()
        self._part: tuple[Literal["text", "reasoning"], str] | None = None
        self._parts = 0
        self._is_started = self._is_in_step = self._has_text = False

    def encode(self, event: FeedEvent) -> Sequence[Chunk]:
        """Return the chunks for an event; often none."""
        out: list[Chunk] = []
        if not self._is_started:
            self._is_started = True
            out.append({"type": "start", "messageId": self._message_id})
        match event:
            case AttemptStart(number=number) if number > 1:
                void = self._part
                self._close_part(out)
                if void is not None:
                    out.append(_data("retracted", {"id": void[1]}))
            case TurnStart():
                self._close_step(out)
                self._is_in_step, self._has_text = True, False
                out.append({"type": "start-step"})
            case TextDelta(text=text) if text:
                self._delta(out, "text", text)
            case ThinkingDelta(text=text) if text:
                self._delta(out, "reasoning", text)
            case MessageEnd(message=Message(role="assistant") as message):
                self._end_message(out, message)
            case AgentEnd():
                self._end_run(out, event)
            case _:
                self._encode_tool_event(out, event)
        return out

    def _encode_tool_event(self, out: list[Chunk], event: FeedEvent) -> None:
        match event:
            case ToolExecutionUpdate(call_id=id, output=output):
                known = self._calls.get(id)
                out.append({**_output(known, output), "preliminary": True})
            case ToolExecutionEnd(call=call, result=result):
                out.append(_result(self._calls.get(call.id), result))
            case ApprovalRequest(agent=""):
                known = self._calls.get(event.call.id)
                out.append({"type": "tool-approval-request", "approvalId": event.id, "toolCallId": known})
            case ApprovalRequest():
                facts = {"id": event.id, "agent": event.agent, "tool": event.call.name, "input": event.call.input}
                out.append(_data("approval", {**facts, "reason": event.reason}))
            case ModelCallRetry(attempt=attempt, delay=delay, error=error):
                out.append(_data("retry", {"attempt": attempt, "delay": delay, "error": error.message}))
            case _:
                pass

    def _delta(self, out: list[Chunk], kind: Literal["text", "reasoning"], text: str) -> None:
        if self._part is None or self._part[0] != kind:
            self._close_part(out)
            self._parts += 1
            self._part = (kind, f"{kind}-{self._parts}")
            out.append({"type": f"{kind}-start", "id": self._part[1]})
        self._has_text = self._has_text or kind == "text"
        out.append({"type": f"{kind}-delta", "id": self._part[1], "delta": text})

    def _close_part(self, out: list[Chunk]) -> None:
        if self._part is not None:
            out.append({"type": f"{self._part[0]}-end", "id": self._part[1]})
            self._part = None

    def _close_step(self, out: list[Chunk]) -> None:
        self._close_part(out)
        if self._is_in_step:
            self._is_in_step = False
            out.append({"type": "finish-step"})

    def _end_message(self, out: list[Chunk], message: Message) -> None:
        if message.text and not self._has_text:  # it was not streamed
            self._delta(out, "text", message.text)
        self._close_part(out)
        for call in message.tool_uses:
            self._call(out, call)

    def _call(self, out: list[Chunk], call: ToolUseBlock) -> None:
        known = self._calls.add(call.id)
        ids = {"toolCallId": known, "toolName": call.name, "dynamic": True}
        out.append({"type": "tool-input-start", **ids})
        out.append({"type": "tool-input-delta", "toolCallId": known, "inputTextDelta": encode_arguments(call)})
        out.append({"type": "tool-input-available", **ids, "input": call.input})

    def _end_run(self, out: list[Chunk], event: AgentEnd) -> None:
        self._close_step(out)
        reason = event.error.message if event.error else ""
        match event.status:
            case "error" | "no_output":
                out.append({"type": "error", "errorText": reason or "The run failed."})
            case "aborted":
                out.append({"type": "abort"})
            case _:
                pass
        out.append({"type": "finish", "messageMetadata": {"status": event.status}})


def _result(known: str, result: ToolResultBlock) -> Chunk:
    if result.is_error:
        return {"type": "tool-output-error", "toolCallId": known, "errorText": result.text, "dynamic": True}
    return _output(known, result.text)


def _output(known: str, output: str) -> Chunk:
    return {"type": "tool-output-available", "toolCallId": known, "output": output, "dynamic": True}


def _data(name: str, value: Any) -> Chunk:
    return {"type": f"data-{name}", "data": value, "transient": True}
