"""What a caller, a handler or a tool gets wrong is told, stays where it is, and never passes for a yes."""

import asyncio
from typing import Any, cast

import pytest

from mainspring.errors import AgentError, ConfigError
from mainspring.loop import Approve, Deny, RunOptions
from mainspring.loop.hooks import (
    BeforeInject,
    ContextTransform,
    PermissionCheck,
    SystemTransform,
    ToolGate,
    ToolResultsAfter,
    TurnAfter,
    TurnBefore,
)
from mainspring.messages import TextBlock, ToolUseBlock
from mainspring.tools import tool
from tests.unit.loop.harness import Script, agent, assert_results_follow_calls, calls, said, text_reply, tool_call_reply

ran: list[str] = []


@tool
async def act(what: str = "") -> str:
    """Act."""
    ran.append(what)
    return "done"


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def asking(ctx: PermissionCheck) -> None:
    ctx.pause("may it?")


@pytest.mark.covers("BYD-29", "HOK-44")
@pytest.mark.parametrize(
    "answer", [False, True, None, "no", "yes", 0, {"a": False}, {"a": True}, {"a": "deny"}, {"a": Deny}, Approve]
)
async def test_nothing_but_an_approval_is_one(answer: Any) -> None:
    one = agent(
        Script(calls(ToolUseBlock("a", "act", {"what": "it"})), text_reply("ok")),
        tools=[act],
        hooks={PermissionCheck: asking},
    )
    assert (await one.run("go")).status == "paused"
    with pytest.raises(TypeError, match=r"Approve\(\) or Deny\(\)"):
        one.answer(answer)
    assert one.pending is not None
    one.pending.answers.update(answer if isinstance(answer, dict) else {"a": answer})  # by the back door
    assert (await one.run()).status == "paused"
    assert ran == []
    one.answer(Deny())
    await one.run()
    assert ran == []


async def test_the_last_answer_counts_and_one_for_a_call_that_is_gone_is_refused() -> None:
    one = agent(
        Script(calls(ToolUseBlock("a", "act", {"what": "it"})), text_reply("ok")),
        tools=[act],
        hooks={PermissionCheck: asking},
    )
    await one.run("go")
    one.answer(Approve())
    one.answer({"a": Deny("thought better of it")})
    await one.run()
    assert ran == []
    with pytest.raises(AgentError, match="No tool call is waiting"):
        one.answer(Approve())


@pytest.mark.parametrize("use", ["iterate", "result"])
async def test_a_stream_that_was_not_entered_says_so(use: str) -> None:
    run = agent(Script(text_reply("ok"))).stream("go")
    with pytest.raises(RuntimeError, match="async with agent.stream"):
        await (anext(aiter(run)) if use == "iterate" else run.result())
    async with run:
        assert (await run.result()).text == "ok"
    with pytest.raises(RuntimeError, match="already started"):
        async with run:
            pass


JUNK = [5, 1.5, object(), {"nope": 1}, b"x", [1], ["x"], True]


@pytest.mark.covers("HOK-44")
@pytest.mark.parametrize("way", ["set", "returned"])
@pytest.mark.parametrize(
    ("hook", "field"),
    [
        (ContextTransform, "messages"),
        (SystemTransform, "system"),
        (TurnBefore, "request"),
        (TurnBefore, "stop"),
        (TurnAfter, "continue_with"),
        (ToolResultsAfter, "follow"),
        (BeforeInject, "messages"),
    ],
)
async def test_what_a_field_cannot_hold_is_a_failure_of_the_handler(
    hook: type[Any], field: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    for junk in JUNK:

        def handler(ctx: Any, junk: Any = junk) -> Any:
            if way == "returned":
                return {field: junk}
            setattr(ctx, field, junk)
            return None

        one = agent(
            Script(calls(tool_call_reply("act")), text_reply("ok"), text_reply("ok")),
            tools=[act],
            system="S",
            hooks={hook: handler},
        )
        one.steer("and this")
        result = await one.run("go")
        assert (result.status, result.text) == ("completed", "ok"), junk
        assert_results_follow_calls(result.messages)
    assert "handler" in caplog.text


@pytest.mark.covers("HOK-44")
async def test_a_gate_that_sets_what_cannot_be_used_blocks() -> None:
    one = agent(
        Script(calls(tool_call_reply("act")), text_reply("ok")),
        tools=[act],
        hooks={ToolGate: lambda ctx: {"pause": True}},
    )
    await one.run("go")
    assert ran == []
    assert "must be text, not bool" in said(one.messages[2]).tool_results[0].text


def test_a_handler_is_a_function() -> None:
    with pytest.raises(ConfigError, match=r"A handler of tool:gate must be a function, not 3"):
        agent(Script(), hooks={ToolGate: cast("Any", 3)})
    one = agent(Script())
    with pytest.raises(ConfigError):
        one.bus.add({TurnBefore: lambda ctx: None, ToolGate: [cast("Any", None)]})
    assert not one.bus.has(TurnBefore), "none of them is registered"


@pytest.mark.covers("MSG-25")
async def test_a_prompt_that_is_none_is_told_what_one_is() -> None:
    for junk in (3, None, object(), {"a": 1}, ["a"], [[]]):
        with pytest.raises(TypeError, match="A prompt must be text"):
            await agent(Script()).run(cast("Any", junk))
    one = agent(Script(text_reply("ok")))
    await one.run(cast("Any", (TextBlock(text) for text in ("a", "b"))))
    assert said(one.messages[0]).text == "ab"


async def test_a_cap_below_one_is_one() -> None:
    one = agent(
        Script(calls(tool_call_reply("act"), tool_call_reply("act")), text_reply("ok")),
        tools=[act],
        behavior=RunOptions(tool_concurrency=0),
    )
    async with asyncio.timeout(5):
        assert (await one.run("go")).status == "completed"
    assert len(ran) == 2
