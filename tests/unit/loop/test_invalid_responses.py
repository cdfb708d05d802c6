"""Invalid responses: how many in a row a run accepts, what resets the count, and how the run fails."""

from typing import Any

import pytest

from mainspring.errors import AgentProviderError, InvalidResponseError
from mainspring.loop import HookBus, LoopContext, LoopOptions, agent_loop
from mainspring.loop.hooks import MessagesAdded
from mainspring.messages import Message
from mainspring.models import ModelInfo
from mainspring.testing.scripted_model import Reply
from mainspring.tools import ToolRegistry, tool
from mainspring.tools.execute import EMPTY_RESPONSE_PROMPT, MISSING_CALL_PROMPT
from tests.unit.loop.harness import (
    Script,
    as_message,
    block_types,
    make_agent,
    make_config,
    text_reply,
    tool_call_reply,
    tool_calls_reply,
)

ONE = LoopOptions(max_repairs=1)


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


def make_valid_call() -> Reply:
    return tool_call_reply("look", key="a")


def make_invalid_replies() -> dict[str, Reply]:
    """Return invalid replies by the reason in the error."""
    return {
        "empty": text_reply(" \n", thinking="hm"),
        "bad_tool_calls": tool_call_reply("look"),
        "output_limit": tool_call_reply("look", key="a", stop="max_tokens"),
    }


TEXTS = {
    "empty": "The model sent neither text nor a tool call",
    "bad_tool_calls": "The model sent no valid tool call",
    "output_limit": "The response was cut off at the output limit of 16384 tokens",
}


@pytest.mark.parametrize("reason", TEXTS)
async def test_too_many_invalid_responses_fail_the_run_with_the_reason(reason: str) -> None:
    model = Script(*[make_invalid_replies()[reason] for _ in range(9)])
    agent = make_agent(model, tools=[look])
    with pytest.raises(AgentProviderError) as caught:
        await agent.run("go", behavior=LoopOptions(max_repairs=2))
    text = f"{TEXTS[reason]} 3 times in a row (scripted:scripted-1). Try another model or a simpler task."
    cause = caught.value.cause
    assert isinstance(cause, InvalidResponseError)
    assert str(caught.value) == str(cause) == text
    assert (cause.reason, cause.provider, cause.model) == (reason, "scripted", "scripted-1")
    assert len(model.requests) == 3


async def test_calls_of_unknown_tools_are_invalid() -> None:
    model = Script(*[tool_call_reply("nope") for _ in range(9)])
    with pytest.raises(AgentProviderError, match="The model sent no valid tool call 2 times in a row"):
        await make_agent(model, tools=[look], behavior=ONE).run("go")


@pytest.mark.parametrize("reason", TEXTS)
async def test_valid_call_resets_the_count(reason: str) -> None:
    model = Script(
        make_valid_call(),
        *[r for _ in range(4) for r in (make_invalid_replies()[reason], make_valid_call())],
        text_reply("ok"),
    )
    assert (await make_agent(model, tools=[look], behavior=ONE).run("go")).text == "ok"


async def test_text_response_resets_the_count() -> None:
    agent = make_agent(Script(text_reply(""), text_reply("a"), text_reply(""), text_reply("b")), behavior=ONE)
    agent.follow_up("and b?")
    assert (await agent.run("a?")).text == "b"


async def test_one_valid_call_among_invalid_ones_is_enough() -> None:
    turns = [tool_calls_reply(tool_call_reply("nope"), make_valid_call(), tool_call_reply("look")) for _ in range(5)]
    result = await make_agent(Script(*turns, text_reply("ok")), tools=[look], behavior=ONE).run("go")
    assert (result.text, result.turns) == ("ok", 6)


@pytest.mark.parametrize("hook", ["tool:gate", "tool:permit"])
async def test_blocked_or_denied_call_is_valid(hook: str) -> None:
    def refuse(ctx: Any) -> None:
        if hook == "tool:gate":
            ctx.block = True
        else:
            ctx.deny("no")

    model = Script(*[make_valid_call() for _ in range(5)], text_reply("ok"))
    assert (await make_agent(model, tools=[look], behavior=ONE, hooks={hook: refuse}).run("go")).text == "ok"


async def test_invalid_calls_with_a_steering_message_are_not_counted() -> None:
    agent = make_agent(Script(*[tool_call_reply("nope") for _ in range(3)], text_reply("ok")), tools=[look])

    async def steer(ctx: Any) -> None:
        agent.steer("hurry")

    model = Script(
        *[tool_calls_reply(tool_call_reply("nope"), tool_call_reply("nope")) for _ in range(3)], text_reply("ok")
    )
    behavior = LoopOptions(max_repairs=1, tool_execution="sequential")
    result = await agent.run("go", model=model, behavior=behavior, hooks={"tool:unknown": steer})
    assert (result.status, result.text) == ("completed", "ok")


async def test_empty_response_is_followed_by_a_prompt() -> None:
    ctx, sources = LoopContext(), list[str]()
    bus = HookBus({MessagesAdded: lambda hook: sources.append(hook.source)})
    await agent_loop("go", ctx, make_config(Script(text_reply(""), text_reply("there")), bus=bus))
    assert block_types(ctx.messages) == ["user", "assistant", "user", "assistant"]
    assert sources == ["prompt", "assistant", "synthetic", "assistant"]
    prompt = as_message(ctx.messages[2])
    assert prompt.text == EMPTY_RESPONSE_PROMPT
    assert prompt.timestamp is not None


@pytest.mark.parametrize(
    ("replies", "expected"), [(["I read it.", "done"], "done"), (["I read it."] * 2, "I read it.")]
)
async def test_missing_call_is_asked_for_once(replies: list[str], expected: str) -> None:
    ctx = LoopContext()
    model = Script(*[Reply(text, stop_reason="tool_use") for text in replies])

    await agent_loop("go", ctx, make_config(model))

    prompt, last = as_message(ctx.messages[2]), as_message(ctx.messages[3])
    assert (prompt.text, last.text, len(ctx.messages)) == (MISSING_CALL_PROMPT, expected, 4)


@pytest.mark.parametrize(
    ("behavior", "info", "limit"),
    [
        (LoopOptions(max_output_tokens=50), None, " of 50 tokens"),
        (LoopOptions(max_output_tokens=50), 20, " of 20 tokens"),
        (LoopOptions(max_output_tokens=50), 90, " of 50 tokens"),
        (LoopOptions(max_output_tokens=None), 90, " of 90 tokens"),
        (LoopOptions(max_output_tokens=None), None, ""),
    ],
)
async def test_truncated_response_names_the_smaller_limit(behavior: LoopOptions, info: int | None, limit: str) -> None:
    model = Script(tool_call_reply("look", key="a", stop="max_tokens"), text_reply("ok"))
    model.info = ModelInfo("scripted-1", "scripted", max_output_tokens=info)
    ctx = LoopContext(tools=ToolRegistry([look]))
    await agent_loop("go", ctx, make_config(model, behavior=behavior))
    [result] = as_message(ctx.messages[2]).tool_results
    assert result.text.startswith(f"Not run: the answer reached its output limit{limit} before it was complete")
    assert result.is_error
    never = Script(tool_call_reply("look", key="a", stop="max_tokens"))
    never.info = model.info
    with pytest.raises(AgentProviderError, match=f"cut off at the output limit{limit} 1 times"):
        await agent_loop(
            [Message.user("go")],
            LoopContext(),
            make_config(never, behavior=LoopOptions(max_repairs=0, max_output_tokens=behavior.max_output_tokens)),
        )
