"""The UI message stream of the Vercel AI SDK: each chunk has the fields of its type, and they come in an order that a client accepts."""

import json
from typing import Any

import pytest

from mainspring.app.servers.ag_ui.ui_messages import UiMessageEncoder
from mainspring.durable.feed import FeedEvent
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    AttemptStart,
    ErrorInfo,
    MessageEnd,
    ModelCallRetry,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionUpdate,
    TurnStart,
)
from mainspring.messages import Message, ToolResultBlock, ToolUseBlock
from mainspring.testing.scripted_model import Reply, ScriptedCall
from tests.unit.app.servers.http.harness import run_server, script_agent

FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "start": ({"messageId"}, set()),
    "start-step": (set(), set()),
    "finish-step": (set(), set()),
    "finish": ({"messageMetadata"}, set()),
    "abort": (set(), set()),
    "error": ({"errorText"}, set()),
    **{f"{kind}-{part}": ({"id"}, set()) for kind in ("text", "reasoning") for part in ("start", "end")},
    **{f"{kind}-delta": ({"id", "delta"}, set()) for kind in ("text", "reasoning")},
    "tool-input-start": ({"toolCallId", "toolName"}, {"dynamic"}),
    "tool-input-delta": ({"toolCallId", "inputTextDelta"}, set()),
    "tool-input-available": ({"toolCallId", "toolName", "input"}, {"dynamic"}),
    "tool-output-available": ({"toolCallId", "output"}, {"dynamic", "preliminary"}),
    "tool-output-error": ({"toolCallId", "errorText"}, {"dynamic"}),
    "tool-approval-request": ({"approvalId", "toolCallId"}, set()),
}
"""Required and optional fields by type. The client's schema rejects others."""


class Client:
    """Checks a stream as `useChat` does, and builds the message."""

    def __init__(self) -> None:
        self.open: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[str, str] = {}
        self.ended = False

    def read(self, chunk: dict[str, Any]) -> None:
        kind, fields = chunk["type"], chunk.keys() - {"type"}
        assert not self.ended, "nothing follows the end"
        if kind.startswith("data-"):
            assert {"data"} <= fields <= {"data", "id", "transient"}
            return
        required, optional = FIELDS[kind]
        assert required <= fields <= required | optional, chunk
        match kind.rsplit("-", 1):
            case ["text" | "reasoning" as part, "start"]:
                assert not self.open
                self.open[chunk["id"]] = part
                self.texts[chunk["id"]] = ""
            case ["text" | "reasoning" as part, "delta"]:
                assert self.open[chunk["id"]] == part
                self.texts[chunk["id"]] += chunk["delta"]
            case ["text" | "reasoning", "end"]:
                del self.open[chunk["id"]]
            case ["tool-input", "start"]:
                assert chunk["toolCallId"] not in self.inputs
                self.inputs[chunk["toolCallId"]] = ""
            case ["tool-input", "delta"]:
                self.inputs[chunk["toolCallId"]] += chunk["inputTextDelta"]
            case ["tool-input", "available"]:
                assert json.loads(self.inputs[chunk["toolCallId"]]) == chunk["input"]
            case ["tool-output", _]:
                assert chunk["toolCallId"] in self.inputs
                self.outputs[chunk["toolCallId"]] = chunk.get("output") or chunk["errorText"]
            case ["tool-approval", _]:
                assert chunk["toolCallId"] in self.inputs
            case ["finish"]:
                assert not self.open
                self.ended = True
            case _:
                pass


def encode(*events: FeedEvent) -> tuple[list[dict[str, Any]], Client]:
    encoder, client = UiMessageEncoder("m1"), Client()
    chunks = [chunk for event in events for chunk in encoder.encode(event)]
    for chunk in chunks:
        client.read(chunk)
    return chunks, client


def call(name: str, id: str = "c", **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(id, name, arguments)


def end(status: Any = "completed", error: ErrorInfo | None = None) -> AgentEnd:
    return AgentEnd("r", (), status, error=error)


def message(*calls: ToolUseBlock, text: str = "") -> MessageEnd:
    blocks = Message.assistant(text).content if text else ()
    return MessageEnd(Message("assistant", (*blocks, *calls)))


def test_text_reasoning_and_calls_become_parts():
    look = call("look", key="a")
    chunks, client = encode(
        AttemptStart(1, "bot"),
        MessageEnd(Message.user("Hi"), number=1),
        TurnStart(1, "t1"),
        ThinkingDelta(0, "Hm."),
        TextDelta(1, "Let me "),
        TextDelta(1, "look."),
        message(look, text="Let me look."),
        ToolExecutionUpdate("c", "look", "half"),
        ToolExecutionEnd(look, ToolResultBlock("c", "look", "all")),
        TurnStart(2, "t2"),
        message(text="Not streamed."),
        end(),
    )

    assert client.texts == {"reasoning-1": "Hm.", "text-2": "Let me look.", "text-3": "Not streamed."}
    assert client.outputs == {"c": "all"}
    assert [c["type"] for c in chunks if "step" in c["type"]] == ["start-step", "finish-step"] * 2
    assert chunks[0] == {"type": "start", "messageId": "m1"}
    assert chunks[-1] == {"type": "finish", "messageMetadata": {"status": "completed"}}


def test_repeated_call_id_gets_another_id():
    first, second = call("look", key="a"), call("look", key="b")
    _, client = encode(
        TurnStart(1, "t1"),
        message(first),
        ToolExecutionEnd(first, ToolResultBlock("c", "look", "one")),
        TurnStart(2, "t2"),
        message(second),
        ToolExecutionEnd(second, ToolResultBlock("c", "look", "two", is_error=True)),
        end(),
    )
    assert client.outputs == {"c": "one", "c~2": "two"}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            end("error", ErrorInfo(type="ModelError", message="The host is down.")),
            {"type": "error", "errorText": "The host is down."},
        ),
        (end("no_output"), {"type": "error", "errorText": "The run failed."}),
        (end("aborted"), {"type": "abort"}),
    ],
)
def test_failed_and_aborted_runs(event: AgentEnd, expected: dict[str, Any]):
    chunks, client = encode(TurnStart(1, "t1"), TextDelta(0, "Half"), event)
    assert chunks[-2] == expected
    assert client.ended


def test_crash_retry_and_approvals():
    shell = call("shell", command="ls")
    retry = ModelCallRetry(1, 3, 0.5, ErrorInfo(type="ModelError", message="busy"))
    chunks, _ = encode(
        TurnStart(1, "t1"),
        TextDelta(0, "Half"),
        AttemptStart(2, "bot"),
        retry,
        message(shell),
        ApprovalRequest("a1", shell, reason="ask"),
        ApprovalRequest("a2", call("shell", "other"), agent="helper", reason="ask"),
        end("max_turns"),
    )
    data = {c["type"]: c["data"] for c in chunks if c["type"].startswith("data-")}
    assert data["data-retracted"] == {"id": "text-1"}
    assert data["data-retry"]["error"] == "busy"
    assert data["data-approval"]["agent"] == "helper"
    assert {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c"} in chunks


async def test_service_sends_the_stream_and_resumes_it():
    script = [Reply("let me see", thinking="hm", calls=[ScriptedCall("note", {"text": "x"})]), "over"]
    async with run_server({"bot": script_agent(*script)}) as server:
        run = await server.ann.start("hello")
        seen: list[Any] = []
        client = Client()
        async for event in server.ann.follow(run, "?format=ui-messages"):
            seen.append(event)
            if event.name == "tool-approval-request":
                await server.ann.post(f"v1/runs/{run}/approve", {"call_id": event.data["approvalId"]})
            if event.data != "[DONE]":
                client.read(event.data)
        middle = len(seen) // 2
        again = server.ann.follow(run, "?format=ui-messages", last_event_id=seen[middle].id)
        rest = [event async for event in again]

    assert client.ended
    assert client.texts["text-3"] == "over"
    assert seen[-1].data == "[DONE]"
    assert [e.data for e in rest] == [e.data for e in seen[middle + 1 :]]
