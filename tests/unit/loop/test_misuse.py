"""Mistakes of a caller, handler, or tool are reported, do no further harm, and are never an approval."""

from typing import Any, cast

import pytest

from mainspring.errors import AgentError, ConfigError
from mainspring.loop import Approve, Deny, LoopOptions
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
from tests.unit.loop.harness import (
    Script,
    as_message,
    assert_results_follow_calls,
    make_agent,
    text_reply,
    tool_call_reply,
    tool_calls_reply,
)

ran: list[str] = []


@tool
async def act(what: str = "") -> str:
    """Act."""
    ran.append(what)
    return "done"


@pytest.fixture(autouse=True)
def clear_ran() -> None:
    ran.clear()


def pause(ctx: PermissionCheck) -> None:
    ctx.pause("may it?")


@pytest.mark.covers("BYD-29", "HOK-44")
@pytest.mark.parametrize(
    "answer", [False, True, None, "no", "yes", 0, {"a": False}, {"a": True}, {"a": "deny"}, {"a": Deny}, Approve]
)
async def test_answer_accepts_only_approve_or_deny(answer: Any) -> None:
    agent = make_agent(
        Script(tool_calls_reply(ToolUseBlock("a", "act", {"what": "it"})), text_reply("ok")),
        tools=[act],
        hooks={PermissionCheck: pause},
    )
    assert (await agent.run("go")).status == "paused"
    with pytest.raises(TypeError, match=r"Approve\(\) or Deny\(\)"):
        agent.answer(answer)
    assert agent.pending is not None
    # This bypasses the check of answer().
    agent.pending.answers.update(answer if isinstance(answer, dict) else {"a": answer})
    assert (await agent.run()).status == "paused"
    assert ran == []
    agent.answer(Deny())
    await agent.run()
    assert ran == []


async def test_last_answer_wins_and_an_answer_to_a_finished_call_is_rejected() -> None:
    agent = make_agent(
        Script(tool_calls_reply(ToolUseBlock("a", "act", {"what": "it"})), text_reply("ok")),
        tools=[act],
        hooks={PermissionCheck: pause},
    )
    await agent.run("go")
    agent.answer(Approve())
    agent.answer({"a": Deny("thought better of it")})
    await agent.run()
    assert ran == []
    with pytest.raises(AgentError, match="No tool call is waiting"):
        agent.answer(Approve())


@pytest.mark.parametrize("use", ["iterate", "result"])
async def test_stream_that_was_not_entered_raises_a_helpful_error(use: str) -> None:
    run = make_agent(Script(text_reply("ok"))).stream("go")
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
async def test_invalid_value_in_a_hook_field_fails_the_handler(
    hook: type[Any], field: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    for junk in JUNK:

        def handler(ctx: Any, junk: Any = junk) -> Any:
            if way == "returned":
                return {field: junk}
            setattr(ctx, field, junk)
            return None

        agent = make_agent(
            Script(tool_calls_reply(tool_call_reply("act")), text_reply("ok"), text_reply("ok")),
            tools=[act],
            system="S",
            hooks={hook: handler},
        )
        agent.steer("and this")
        result = await agent.run("go")
        assert (result.status, result.text) == ("completed", "ok"), junk
        assert_results_follow_calls(result.messages)
    assert "handler" in caplog.text


@pytest.mark.covers("HOK-44")
async def test_gate_with_an_invalid_value_blocks() -> None:
    agent = make_agent(
        Script(tool_calls_reply(tool_call_reply("act")), text_reply("ok")),
        tools=[act],
        hooks={ToolGate: lambda ctx: {"pause": True}},
    )
    await agent.run("go")
    assert ran == []
    assert "must be text, not bool" in as_message(agent.messages[2]).tool_results[0].text


def test_handler_must_be_a_function() -> None:
    with pytest.raises(ConfigError, match=r"A handler of tool:gate must be a function, not 3"):
        make_agent(Script(), hooks={ToolGate: cast("Any", 3)})
    agent = make_agent(Script())
    with pytest.raises(ConfigError):
        agent.bus.add({TurnBefore: lambda ctx: None, ToolGate: [cast("Any", None)]})
    assert not agent.bus.has(TurnBefore), "no handler is registered"


@pytest.mark.covers("MSG-25")
async def test_invalid_prompt_type_is_rejected_with_the_valid_types() -> None:
    for junk in (3, object(), {"a": 1}, ["a"], [[]]):
        with pytest.raises(TypeError, match="A prompt must be text"):
            await make_agent(Script()).run(cast("Any", junk))
    agent = make_agent(Script(text_reply("ok")))
    await agent.run(cast("Any", (TextBlock(text) for text in ("a", "b"))))
    assert as_message(agent.messages[0]).text == "ab"


async def test_concurrency_limit_below_one_means_one() -> None:
    agent = make_agent(
        Script(tool_calls_reply(tool_call_reply("act"), tool_call_reply("act")), text_reply("ok")),
        tools=[act],
        behavior=LoopOptions(tool_concurrency=0),
    )
    assert (await agent.run("go")).status == "completed"
    assert len(ran) == 2
