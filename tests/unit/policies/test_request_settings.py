"""Reasoning: levels, exact budgets, and decay over the turns of a run."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring import Agent, RunOptions
from mainspring.env import MemoryEnv
from mainspring.events import Notice
from mainspring.loop.hooks import TurnBefore
from mainspring.models import HttpModel, MemoryResponse, MemoryTransport, ModelRequest, Sampling, create_model
from mainspring.policies.request_settings import LEVEL_TOKENS, ThinkingDecay, ThinkingDecayPolicy, sampling_handlers
from mainspring.testing import ScriptedCall
from tests.unit.models.wire import chunk, sse
from tests.unit.policies.harness import make_agent, project, read, requests


def script_of(turns: int) -> list[Any]:
    return [*[read(f"f{i}.txt") for i in range(turns - 1)], "done"]


async def sent_thinking(turns: int, **behavior: Any) -> list[tuple[Any, Any]]:
    agent = make_agent(*script_of(turns), env=project(), **behavior)
    await agent.run("go")
    return [(r.thinking, r.thinking_budget) for r in requests(agent)]


@pytest.mark.covers("AGT-30")
async def test_thinking_level_or_budget_is_sent_with_each_request() -> None:
    assert await sent_thinking(1) == [(None, None)]
    assert await sent_thinking(1, thinking="high") == [("high", None)]
    assert await sent_thinking(2, thinking_budget=3000) == [(None, 3000), (None, 3000)]


@pytest.mark.covers("AGT-31", "AGT-43")
async def test_thinking_budget_decays_to_a_floor() -> None:
    decay = ThinkingDecay(after_turn=2, factor=0.5, floor=300)

    assert [b for _, b in await sent_thinking(6, thinking_budget=1000, thinking_decay=decay)] == [
        1000,
        1000,
        500,
        300,
        300,
        300,
    ]


@pytest.mark.covers("AGT-31")
async def test_decay_function_sets_the_budget() -> None:
    seen: list[tuple[int, int]] = []

    def decay(turn: int, base: int) -> float:
        seen.append((turn, base))
        return base / turn

    assert [b for _, b in await sent_thinking(3, thinking_budget=900, thinking_decay=decay)] == [900, 450, 300]
    assert seen == [(1, 900), (2, 900), (3, 900)]


@pytest.mark.covers("AGT-43")
async def test_decay_counts_turns_of_each_run() -> None:
    decay = ThinkingDecay(after_turn=1, factor=0.1)
    agent = make_agent(read("a"), "done", "again", env=project(), thinking_budget=1000, thinking_decay=decay)

    await agent.run("go")
    await agent.run("go")

    assert [r.thinking_budget for r in requests(agent)] == [1000, 100, 1000]


async def test_thinking_level_decays_step_by_step() -> None:
    levels = [level for level, _ in await sent_thinking(7, thinking="high", thinking_decay=ThinkingDecay(after_turn=1))]

    assert levels == ["high", "medium", "low", "minimal", "minimal", "off", "off"]
    assert await sent_thinking(2, thinking_decay=ThinkingDecay(after_turn=0)) == [(None, None)] * 2


@given(
    base=st.integers(0, 10**6),
    turn=st.integers(1, 10**4),
    after=st.integers(0, 100),
    factor=st.floats(0, 3),
    floor=st.integers(-10, 10**7),
)
@pytest.mark.covers("AGT-32")
def test_decayed_budget_is_between_zero_and_the_base(
    base: int, turn: int, after: int, factor: float, floor: int
) -> None:
    try:
        decay = ThinkingDecay(after, factor, floor)
        request = ModelRequest([], thinking_budget=base)
        ThinkingDecayPolicy(decay).before(TurnBefore(turn, "", request, {}))
    except OverflowError:
        return  # a factor above 1 overflows after thousands of turns
    assert request.thinking_budget is not None
    assert 0 <= request.thinking_budget <= base
    if turn <= after:
        assert request.thinking_budget == base


@pytest.mark.covers("AGT-32")
@pytest.mark.parametrize(("answer", "expected"), [(-5, 0), (10**9, 800), (12.9, 12)])
async def test_budget_of_a_decay_function_is_clamped(answer: float, expected: int) -> None:
    assert await sent_thinking(1, thinking_budget=800, thinking_decay=lambda turn, base: answer) == [(None, expected)]


@pytest.mark.covers("AGT-16", "AGT-31")
async def test_handler_of_the_application_can_override_the_budget() -> None:
    agent = make_agent(read("a"), "done", env=project(), thinking_budget=1000, thinking_decay=ThinkingDecay(0))
    seen: list[Any] = []

    def set_budget(hook: TurnBefore) -> None:
        seen.append(hook.request.thinking_budget)
        hook.request.thinking_budget = 77

    agent.on(TurnBefore, set_budget)
    await agent.run("go")

    assert seen == [500, 250]
    assert {r.thinking_budget for r in requests(agent)} == {77}


@pytest.mark.covers("AGT-27", "AGT-31")
async def test_decay_is_off_by_default_and_can_be_set_for_a_run() -> None:
    agent = make_agent("a", "b", env=project(), thinking_budget=1000)

    await agent.run("go")
    await agent.run("go", behavior=RunOptions(thinking_decay=ThinkingDecay(0, 0.25)))

    assert [r.thinking_budget for r in requests(agent)] == [1000, 250]


def test_thinking_levels_are_in_ascending_order() -> None:
    assert list(LEVEL_TOKENS.values()) == sorted(LEVEL_TOKENS.values())


@pytest.mark.covers("CAC-01")
async def test_prompt_cache_can_be_turned_off() -> None:
    agent = make_agent(ScriptedCall("read_file", {"path": "a"}), "done", "again", env=project())

    await agent.run("go", behavior=RunOptions(cache=False))
    await agent.run("go")

    assert [r.cache for r in requests(agent)] == [False, False, True]


async def sent_requests(*script: Any, **behavior: Any) -> list[ModelRequest]:
    agent = make_agent(*script, env=project(f1__txt="x"), **behavior)
    await agent.run("go")
    return requests(agent)


async def test_sampling_options_are_sent_with_each_request() -> None:
    options = {"top_p": 0.5, "top_k": 3, "seed": 1, "presence_penalty": 0.1, "frequency_penalty": 0.2}
    sent = await sent_requests(
        read("f1.txt"), "done", **options, parallel_tool_calls=False, stop=["#"], extra_body={"user": "u"}
    )

    assert len(sent) == 2
    for request in sent:
        assert request.sampling == Sampling(**options, parallel_tool_calls=False)
        assert (request.stop, request.extra) == (("#",), {"user": "u"})


async def test_run_options_override_those_of_the_agent() -> None:
    agent = make_agent("a", "b", top_p=0.5, seed=1)
    await agent.run("go", behavior=RunOptions(top_p=0.7))
    await agent.run("go")

    assert [r.sampling for r in requests(agent)] == [Sampling(top_p=0.7, seed=1), Sampling(top_p=0.5, seed=1)]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", ["auto", "auto"]),
        ("required", ["required", "auto"]),
        ("read_file", ["read_file", "auto"]),
        ("none", ["none", "none"]),
    ],
)
async def test_tool_call_is_forced_in_the_first_turn_only(choice: str, sent: list[str]) -> None:
    assert [r.tool_choice for r in await sent_requests(read("f1.txt"), "done", tool_choice=choice)] == sent


async def test_unknown_tool_choice_is_reported() -> None:
    agent = make_agent("done", tool_choice="raed_file")
    notices: list[str] = []
    agent.subscribe(lambda event: notices.append(event.text) if isinstance(event, Notice) else None)
    await agent.run("go")

    assert requests(agent)[0].tool_choice == "auto"
    assert notices == ["tool_choice names the unknown tool 'raed_file', and is not sent."]


async def test_option_that_the_model_does_not_support_is_reported_once_per_conversation() -> None:
    response = MemoryResponse(sse(chunk({"content": "hi"}, "stop")), 200)
    model = create_model("openai:gpt-4o", api_key="k")
    assert isinstance(model, HttpModel)
    transport = MemoryTransport(response, response)
    agent = Agent(model.with_transport(transport), execution=MemoryEnv({}), behavior=RunOptions(top_k=3, seed=1))
    notices: list[Notice] = []
    agent.subscribe(lambda event: notices.append(event) if isinstance(event, Notice) else None)
    await agent.run("go")
    await agent.run("go")

    assert [json.loads(sent.body)["seed"] for sent in transport.requests] == [1, 1]
    text = "top_k: not sent, because openai:gpt-4o does not support this option in this request."
    assert [(notice.text, notice.level) for notice in notices] == [(text, "warn")]


async def test_unset_options_cost_nothing_per_turn() -> None:
    """No handler is added, and the request has no further object; see `test_sampling` for its encoding."""
    context: Any = None
    [request] = await sent_requests("done", max_output_tokens=5, thinking="low")

    assert list(sampling_handlers(RunOptions(thinking="low"), context)) == []
    assert (request.sampling, request.notify, request.extra, request.stop) == (None, None, {}, ())


def test_invalid_sampling_options_are_rejected() -> None:
    options: Any = {"top_p": 2, "stop": "x", "tool_choice": "", "parallel_tool_calls": 1, "extra_body": []}
    problems = RunOptions(**options).find_problems()

    assert [problem.partition(" ")[0] for problem in problems] == list(options)
