"""What was interrupted stays: the text in the model's context, the output of commands, and the cost."""

import asyncio
from typing import Any

import pytest

from mainspring.errors import AgentAbortedError, AgentProviderError, ModelError
from mainspring.loop import LoopOptions, RunResult
from mainspring.loop.hooks import TurnAfter
from mainspring.loop.partial_response import MAX_PARTIAL_CHARS
from mainspring.messages import Cost, Message, Usage
from mainspring.models import ModelInfo, ModelRequest
from mainspring.models.codec.normalize import iter_complete_turns
from mainspring.testing import Reply
from tests.unit.loop.harness import Script, make_agent, text_reply

PRICED = ModelInfo("scripted-1", "scripted", prices=(1.0, 10.0, 0.0, 0.0))


def sent(request: ModelRequest) -> list[tuple[str, str]]:
    """Return the roles and texts that a host gets."""
    return [(m.role, m.text) for unit, _ in iter_complete_turns(request.messages) for m in unit]


async def aborted_agent(*replies: Any, info: ModelInfo | None = None, **options: Any) -> Any:
    """Return an agent whose first response was stopped after its first delta."""
    started = asyncio.Event()
    model = Script(text_reply("a long answer", hang_after=1, started=started), *replies)
    model.info = info or model.info
    agent = make_agent(model)
    run = asyncio.ensure_future(agent.run("go", behavior=LoopOptions(**options)))
    await started.wait()
    if not options:
        agent.abort("Stopped by the user")
    try:
        await run
    except AgentAbortedError:
        pass
    return agent


@pytest.mark.parametrize("options", [{}, {"max_seconds": 2}])
async def test_interrupted_text_stays_in_the_context_with_a_note(options: dict[str, Any]) -> None:
    agent = await aborted_agent(Reply("ok"), **options)
    await agent.run("and now?")

    cause = "The time limit of 2 seconds was reached." if options else "Stopped by the user"
    first, partial, note, prompt = sent(agent.model.requests[1])
    assert (first, prompt) == (("user", "go"), ("user", "and now?"))
    assert partial[0] == "assistant"
    assert "a long answer".startswith(partial[1])
    assert partial[1]
    assert note == (
        "user",
        f"[Your response above was interrupted ({cause}) before it was complete; the user saw it up to there.]",
    )


async def test_very_long_text_of_a_failed_response_is_stored_in_part() -> None:
    text = "first" + "x" * 3 * MAX_PARTIAL_CHARS + "last"
    model = Script(Reply(text, error=ModelError("The response is too long.", reason="too_large")), Reply("ok"))
    agent = make_agent(model)
    with pytest.raises(AgentProviderError):
        await agent.run("go")

    stored = agent.messages[-1].text
    assert (stored[:6], stored[-5:]) == ("firstx", "xlast")
    assert "characters left out" in stored
    assert len(stored) < MAX_PARTIAL_CHARS + 100


async def test_text_that_a_content_filter_stopped_is_not_sent_again() -> None:
    error = ModelError("The content filter of x stopped the response (refusal).", reason="content_filter")
    model = Script(Reply("something", error=error), Reply("ok"))
    agent = make_agent(model)
    with pytest.raises(AgentProviderError):
        await agent.run("go")
    await agent.run("and now?")
    assert sent(model.requests[1]) == [("user", "go"), ("user", "and now?")]


async def test_cost_of_a_stopped_call_is_an_estimate_and_never_0() -> None:
    agent = await aborted_agent(info=PRICED)
    partial = agent.messages[-1]
    assert isinstance(partial, Message)
    assert partial.usage is not None
    assert partial.usage.cost is not None
    assert partial.usage.cost.total == pytest.approx(
        (partial.usage.input_tokens + 10 * partial.usage.output_tokens) / 1e6
    )
    assert (partial.usage.input_tokens > 0, partial.usage.estimated_calls) == (True, 1)

    unpriced = (await aborted_agent()).messages[-1].usage
    assert (unpriced.cost, unpriced.count_unpriced(), unpriced.estimated_calls) == (None, 1, 1)


async def test_reported_usage_of_a_stopped_call_is_kept() -> None:
    reported = Usage(500, 40, cache_read=7, cost=Cost(input=0.25))
    agent = make_agent(Script(Reply("half", usage=reported, truncate_after=1, chunk_count=2)))
    with pytest.raises(AgentProviderError) as caught:
        await agent.run("go", behavior=LoopOptions(retry=None))
    assert caught.value.outcome is not None
    usage = caught.value.outcome.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read, usage.cost) == (500, 40, 7, Cost(input=0.25))


async def test_stopped_side_call_is_counted() -> None:
    agent = make_agent(Script(Reply("first"), text_reply("a summary", hang_after=1)))

    async def ask(hook: TurnAfter) -> None:
        assert hook.side_call is not None
        asyncio.get_running_loop().call_later(0.05, agent.abort)
        await hook.side_call("summary", ModelRequest([Message.user("x" * 400)]))

    agent.on(TurnAfter, ask)
    with pytest.raises(AgentAbortedError) as caught:
        await agent.run("go")
    assert isinstance(caught.value.outcome, RunResult)
    stats = caught.value.outcome.stats
    assert stats.side_usage["summary"].input_tokens >= 100
    assert stats.side_usage["summary"].estimated_calls == 1


async def test_call_of_unknown_price_does_not_wipe_the_known_sum() -> None:
    agent = make_agent(
        Script(Reply("one", usage=Usage(10, 1, cost=Cost(output=0.5))), Reply("two", usage=Usage(20, 2)))
    )
    agent.on(TurnAfter, lambda hook: setattr(hook, "continue_with", "more") if hook.turn == 1 else None)
    result = await agent.run("go")
    assert result.cost == Cost(output=0.5)
    assert (result.usage.unpriced_calls, result.usage.total_tokens) == (1, 33)
