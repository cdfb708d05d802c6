"""AG-UI events: each matches its schema, and a client that follows the protocol's rules accepts the stream."""

import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from mainspring.app.servers.ag_ui.encoder import AgUiEncoder
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    ApprovalResult,
    AttemptStart,
    ErrorInfo,
    MessageEnd,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    TurnStart,
)
from mainspring.messages import Message, ToolResultBlock, ToolUseBlock
from mainspring.testing.scripted_model import Reply, ScriptedCall
from tests.unit.app.servers.ag_ui.client import StreamRules
from tests.unit.app.servers.http.harness import run_server, script_agent

SCRIPT = [
    Reply(
        "let me see", thinking="hm", calls=[ScriptedCall("note", {"text": "x"}), ScriptedCall("note", {"text": "y"})]
    ),
    "over",
]


async def test_run_with_an_approval_is_a_valid_ag_ui_stream(material: Path):
    schema = Draft202012Validator(json.loads((material / "ag-ui" / "events.schema.json").read_text()))
    rules = StreamRules()
    async with run_server({"bot": script_agent(*SCRIPT)}) as server:
        run = await server.ann.start("hello")
        seen: list[Any] = []
        async with aclosing(server.ann.follow(run, "?format=ag-ui")) as events:
            async for event in events:
                seen.append(event)
                if event.name == "RUN_FINISHED":
                    break
        interrupts = seen[-1].data["outcome"]["interrupts"]
        assert len(interrupts) == 2
        for request in interrupts:
            await server.ann.post(f"v1/runs/{run}/approve", {"call_id": request["toolCallId"]})
        after = seen[-1].id
        seen += [e async for e in server.ann.follow(run, "?format=ag-ui", last_event_id=after)]
        assert [e.id for e in seen] == [
            e.id async for e in server.ann.follow(run, accept="text/event-stream; profile=ag-ui")
        ]
    for event in seen:
        schema.validate(event.data)
        assert event.name == event.data["type"]
        rules.check(event.data)
    assert not rules.running
    assert list(rules.texts.values()) == ["hello", "hm", "let me see", "over"]
    assert sorted(rules.calls.values()) == ['{"text":"x"}', '{"text":"y"}']
    results = [e.data["content"] for e in seen if e.name == "TOOL_CALL_RESULT"]
    assert len(results) == 2
    assert "noted x" in str(results)
    assert seen[-1].data["outcome"] == {"type": "success"}
    kinds = {e.name for e in seen}
    assert kinds >= {
        "STEP_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_CONTENT",
        "TOOL_CALL_START",
        "TEXT_MESSAGE_START",
    }


def test_output_of_a_crashed_attempt_is_voided(material: Path):
    schema = Draft202012Validator(json.loads((material / "ag-ui" / "events.schema.json").read_text()))
    call = ToolUseBlock("c1", "note", {"text": "x"})
    feed = [
        *(
            AttemptStart(1),
            TurnStart(1, ""),
            ThinkingDelta(0, "hm"),
            TextDelta(0, "I wi"),
            AttemptStart(2),
            TextDelta(0, "I will"),
            TextDelta(0, " look"),
        ),
        MessageEnd(Message.assistant("I will look"), number=2),
        *(
            ApprovalRequest("c1", call, reason="why", number=1),
            AttemptStart(3),
            ApprovalResult("c1", "once"),
            TurnStart(2, ""),
            TextDelta(0, "so"),
            AttemptStart(4),
        ),
        MessageEnd(Message.assistant("so it is"), number=4),
        AgentEnd("ann.x", (), "error", error=ErrorInfo(type="ModelError", message="no model")),
    ]
    translator, rules, encoded = AgUiEncoder("ann.x"), StreamRules(), list[dict[str, Any]]()
    for event in feed:
        encoded += translator.encode(event)
    for event in encoded:
        schema.validate(event)
        rules.check(event)
    void = [e["value"]["messageId"] for e in encoded if e["type"] == "CUSTOM"]
    remaining = [text for name, text in rules.texts.items() if name not in void]
    assert remaining[-1] == "so it is"
    assert "I will look" in remaining
    assert "I wi" not in remaining
    assert encoded[-1] == {"type": "RUN_ERROR", "message": "no model", "code": "error"}


def test_aborted_run_has_the_outcome_cancelled():
    translator = AgUiEncoder("ann.x")
    translator.encode(AttemptStart(1))
    assert translator.encode(AgentEnd("ann.x", (), "aborted"))[-1]["outcome"] == {"type": "cancelled"}


def test_events_are_held_back_while_a_subagent_waits_for_approval():
    """One subagent asks while another ends; a third request arrives while the first is pending."""
    spawns = [ToolUseBlock(name, "spawn", {"task": name}) for name in ("one", "two")]
    child_call = ToolUseBlock("one-1/c", "note", {"text": "x"})
    other = ToolUseBlock("two-1/c", "note", {"text": "y"})
    feed = [
        *(AttemptStart(1), TurnStart(1, ""), MessageEnd(Message.assistant(spawns), number=1)),
        ApprovalRequest(child_call.id, child_call, reason="why", number=1, agent="one-1"),
        ToolExecutionEnd(spawns[1], ToolResultBlock("two", "spawn", "two is done")),
        *(
            ApprovalRequest(other.id, other, reason="why", number=1, agent="two-1"),
            ApprovalResult(child_call.id, "once"),
            ApprovalResult(other.id, "once"),
        ),
        ToolExecutionEnd(spawns[0], ToolResultBlock("one", "spawn", "one is done")),
        AgentEnd("ann.x", (), "completed", "over"),
    ]
    translator, rules, encoded = AgUiEncoder("ann.x"), StreamRules(), list[list[dict[str, Any]]]()
    for event in feed:
        encoded.append(list(translator.encode(event)))
        for each in encoded[-1]:
            rules.check(each)
    kinds = [[e["type"] for e in each] for each in encoded]
    assert kinds[3] == ["STEP_FINISHED", "RUN_FINISHED"]
    assert kinds[4] == [], "no event is sent outside a run"
    assert kinds[5] == ["RUN_STARTED", "RUN_FINISHED"]
    assert [i["message"] for i in encoded[5][-1]["outcome"]["interrupts"]] == ["one-1: why", "two-1: why"]
    assert kinds[6:8] == [[], ["RUN_STARTED", "TOOL_CALL_RESULT"]]
    assert encoded[7][-1]["content"] == "two is done"
    assert kinds[8:] == [["TOOL_CALL_RESULT"], ["RUN_FINISHED"]]
