"""Events as AG-UI has them: each fits its schema, and a client that keeps its rules can follow them."""

import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from mainspring.app.servers.ag_ui.encoder import AgUiEncoder
from mainspring.durable.feed import (
    Asked,
    Attempt,
    CallDone,
    MessageDone,
    RunEnded,
    Text,
    Thinking,
    TurnBegan,
    WaitingCall,
)
from mainspring.messages import Message, ToolResultBlock, ToolUseBlock
from mainspring.testing.scripted_model import Reply, ScriptedCall
from tests.unit.app.servers.ag_ui.client import Rules
from tests.unit.app.servers.http.harness import on_stage, scripted

SCRIPT = [
    Reply(
        "let me see", thinking="hm", calls=[ScriptedCall("note", {"text": "x"}), ScriptedCall("note", {"text": "y"})]
    ),
    "over",
]


async def test_a_run_with_an_approval_as_ag_ui(material: Path):
    schema = Draft202012Validator(json.loads((material / "ag-ui" / "events.schema.json").read_text()))
    rules = Rules()
    async with on_stage({"bot": scripted(*SCRIPT)}) as stage:
        run = await stage.ann.start("hello")
        seen: list[Any] = []
        async with aclosing(stage.ann.follow(run, "?format=ag-ui")) as events:
            async for event in events:
                seen.append(event)
                if event.name == "RUN_FINISHED":
                    break
        interrupts = seen[-1].data["outcome"]["interrupts"]
        assert len(interrupts) == 2
        for request in interrupts:
            await stage.ann.post(f"v1/runs/{run}/approve", {"call_id": request["toolCallId"]})
        after = seen[-1].id
        seen += [e async for e in stage.ann.follow(run, "?format=ag-ui", last_event_id=after)]
        assert [e.id for e in seen] == [
            e.id async for e in stage.ann.follow(run, accept="text/event-stream; profile=ag-ui")
        ]
    for event in seen:
        schema.validate(event.data)
        assert event.name == event.data["type"]
        rules.see(event.data)
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


def test_what_a_dead_worker_left_unfinished_is_taken_back(material: Path):
    schema = Draft202012Validator(json.loads((material / "ag-ui" / "events.schema.json").read_text()))
    call = ToolUseBlock("c1", "note", {"text": "x"})
    told = [
        *(Attempt(1), TurnBegan(1), Thinking("hm"), Text("I wi"), Attempt(2), Text("I will"), Text(" look")),
        MessageDone(2, Message.assistant("I will look")),
        *(Asked(1, (WaitingCall(call, "why"),)), Attempt(3), Asked(1, ()), TurnBegan(2), Text("so"), Attempt(4)),
        MessageDone(4, Message.assistant("so it is")),
        RunEnded("error", error="no model"),
    ]
    translator, rules, made = AgUiEncoder("ann.x"), Rules(), list[dict[str, Any]]()
    for event in told:
        made += translator.encode(event)
    for event in made:
        schema.validate(event)
        rules.see(event)
    void = [e["value"]["messageId"] for e in made if e["type"] == "CUSTOM"]
    left = [text for name, text in rules.texts.items() if name not in void]
    assert left[-1] == "so it is"
    assert "I will look" in left
    assert "I wi" not in left
    assert made[-1] == {"type": "RUN_ERROR", "message": "no model", "code": "error"}


def test_a_run_that_was_stopped_is_cancelled_and_not_a_success():
    translator = AgUiEncoder("ann.x")
    translator.encode(Attempt(1))
    assert translator.encode(RunEnded("aborted"))[-1]["outcome"] == {"type": "cancelled"}


def test_what_is_told_while_a_sub_agent_waits_is_held_back_for_the_run_that_goes_on():
    """Two sub-agents: one asks and the other ends meanwhile; then a third question comes while the first is open."""
    spawns = [ToolUseBlock(name, "spawn", {"task": name}) for name in ("one", "two")]
    below = WaitingCall(ToolUseBlock("one-1/c", "note", {"text": "x"}), "why", "one-1", 1)
    other = WaitingCall(ToolUseBlock("two-1/c", "note", {"text": "y"}), "why", "two-1", 1)
    told = [
        *(Attempt(1), TurnBegan(1), MessageDone(1, Message.assistant(spawns))),
        Asked(1, (below,), "one-1"),
        CallDone(spawns[1], ToolResultBlock("two", "spawn", "two is done")),
        *(Asked(1, (other,), "two-1"), Asked(1, (), "one-1"), Asked(1, (), "two-1")),
        CallDone(spawns[0], ToolResultBlock("one", "spawn", "one is done")),
        RunEnded("completed", "over"),
    ]
    translator, rules, made = AgUiEncoder("ann.x"), Rules(), list[list[dict[str, Any]]]()
    for event in told:
        made.append(list(translator.encode(event)))
        for each in made[-1]:
            rules.see(each)
    kinds = [[e["type"] for e in each] for each in made]
    assert kinds[3] == ["STEP_FINISHED", "RUN_FINISHED"]
    assert kinds[4] == [], "nothing comes outside of a run"
    assert kinds[5] == ["RUN_STARTED", "RUN_FINISHED"]
    assert [i["message"] for i in made[5][-1]["outcome"]["interrupts"]] == ["one-1: why", "two-1: why"]
    assert kinds[6:8] == [[], ["RUN_STARTED", "TOOL_CALL_RESULT"]]
    assert made[7][-1]["content"] == "two is done"
    assert kinds[8:] == [["TOOL_CALL_RESULT"], ["RUN_FINISHED"]]
