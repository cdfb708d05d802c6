"""The contexts of hooks: allowed, converted, and rejected values."""

from collections.abc import Sequence
from typing import Any

import pytest

from mainspring.errors import NetworkError
from mainspring.loop.hooks import (
    BeforeInject,
    ContextTransform,
    ModelErrorHook,
    SessionEnd,
    SessionStart,
    SystemTransform,
    ToolGate,
    ToolResultsAfter,
    TurnAfter,
    TurnBefore,
)
from mainspring.messages import AgentMessage, CustomMessage, Message, ToolUseBlock, Usage
from mainspring.models import ModelRequest
from tests.unit.loop.harness import Script, as_message, make_agent, text_reply

CALL = ToolUseBlock("c1", "look")


def texts(messages: Any) -> list[str]:
    return [m.custom_type if isinstance(m, CustomMessage) else m.text for m in messages]


@pytest.mark.covers("HOK-44")
def test_messages_field_accepts_text_one_message_or_several() -> None:
    error: Any = ModelErrorHook(1, "t", NetworkError("down"), (), 1)
    injected: Any = BeforeInject("steer", [])
    results: Any = ToolResultsAfter("r", Message.user("x"), Message.user("y"))
    for value, expected in (
        ("text", ["text"]),
        (Message.user("one"), ["one"]),
        (CustomMessage("note"), ["note"]),
        ([Message.user("a"), CustomMessage("b")], ["a", "b"]),
        ((Message.user("a"),), ["a"]),
        ((m for m in [Message.user("a")]), ["a"]),
    ):
        assigned = list(value) if not isinstance(value, str | Message | CustomMessage) else value
        injected.messages = results.follow = error.messages = assigned
        assert texts(injected.messages) == texts(results.follow) == texts(error.messages) == expected
        assert isinstance(injected.messages, list)
        assert isinstance(error.messages, tuple)


@pytest.mark.covers("HOK-44")
def test_invalid_field_value_raises_and_keeps_the_old_value() -> None:
    context: Any = ContextTransform([Message.user("a")], 1, "t")
    with pytest.raises(TypeError, match=r"^This field must contain messages, not int, str\.$"):
        context.messages = [1, "x", 2, Message.user("b")]
    assert texts(context.messages) == ["a"]
    system: Any = SystemTransform("S", 1, "t")
    with pytest.raises(TypeError, match=r"^This field must be text, not int\.$"):
        system.system = 3
    assert system.system == "S"
    after: Any = TurnAfter(1, "t", Message.user("m"), Usage(), {})
    assert after.continue_with == ()
    after.continue_with = "go on"
    assert after.continue_with == "go on"
    after.continue_with = (Message.user("go on"),)
    assert texts(after.continue_with) == ["go on"]
    before: Any = TurnBefore(1, "t", ModelRequest(messages=[]), {})
    with pytest.raises(TypeError, match=r"^Invalid status: 'tired'\. Use one of completed, .*"):
        before.stop = "tired"
    with pytest.raises(TypeError, match=r"^A request must be a ModelRequest, not int\.$"):
        before.request = 3
    before.stop = "max_cost"
    before.stop = None
    assert before.stop is None


def test_gate_is_decided_by_a_block_or_an_unapproved_pause() -> None:
    for approved, block, pause, is_decided in (
        (False, False, "", False),
        (False, "no", "", True),
        (True, True, "", True),
        (False, False, "sure?", True),
        (True, False, "sure?", False),
    ):
        gate = ToolGate(CALL, "t", {}, approved=approved)
        gate.block, gate.pause = block, pause
        assert gate.is_decided is is_decided
        assert (gate.reason, gate.result) == ("", None)


def test_retry_keeps_the_messages_unless_new_ones_are_provided() -> None:
    messages = (Message.user("a"),)
    hook = ModelErrorHook(2, "t", NetworkError("down"), messages, 3)
    assert (hook.should_retry, hook.is_decided, hook.attempt, hook.turn) == (False, False, 3, 2)
    hook.retry()
    assert hook.is_decided
    assert hook.messages is messages
    hook.retry("shorter")
    assert texts(hook.messages) == ["shorter"]
    hook.retry([])
    assert hook.messages == ()


def test_small_contexts_store_their_arguments() -> None:
    start = SessionStart("r", "main", True, "S", has_own_system=True)
    assert (start.run_id, start.agent, start.resumed, start.system, start.has_own_system) == (
        "r",
        "main",
        True,
        "S",
        True,
    )
    end = SessionEnd("r", "aborted", 2, Usage(), None, "enough")
    assert (end.run_id, end.status, end.turns, end.error, end.reason) == ("r", "aborted", 2, None, "enough")


@pytest.mark.covers("HOK-20")
async def test_handler_can_compact_the_history_before_a_request() -> None:
    compacted: list[Any] = []
    replaced: list[Sequence[AgentMessage]] = []

    async def shorten(ctx: ContextTransform) -> None:
        if ctx.turn_id and len(ctx.messages) > 2:
            await ctx.compact(ctx.messages[-1:], "length")
            replaced.append(ctx.messages)

    model = Script(text_reply("a"), text_reply("b"))
    agent = make_agent(model, hooks={ContextTransform: shorten, "context:compacted": compacted.append})
    await agent.run("one")
    await agent.run("two")
    assert [texts(r.messages) for r in model.requests] == [["one"], ["two"]]
    assert texts(agent.messages) == ["two", "b"]
    assert [texts(m) for m in replaced] == [["two"]]
    [hook] = compacted
    assert (texts(hook.replaced), texts(hook.messages), hook.reason) == (["one", "a", "two"], ["two"], "length")
    assert (hook.before, hook.after, hook.summary) == (3, 1, "")
    alone = ContextTransform([Message.user("a"), Message.user("b")], 1, "t")
    await alone.compact(alone.messages[1:], "length")
    assert [as_message(m).text for m in alone.messages] == ["b"]
