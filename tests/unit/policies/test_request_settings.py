"""Reasoning: levels, exact budgets, and less of it as a run goes on."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import RunOptions
from mainspring.loop.hooks import TurnBefore
from mainspring.loop.option_types import ThinkingDecay
from mainspring.models import ModelRequest
from mainspring.policies.request_settings import LEVEL_TOKENS, ThinkingDecayPolicy
from mainspring.testing import ScriptedCall
from tests.unit.policies.harness import agent, project, read, requests


def loop_of(turns: int) -> list[Any]:
    return [*[read(f"f{i}.txt") for i in range(turns - 1)], "done"]


async def sent(turns: int, **behavior: Any) -> list[tuple[Any, Any]]:
    made = agent(*loop_of(turns), env=project(), **behavior)
    await made.run("go")
    return [(r.thinking, r.thinking_budget) for r in requests(made)]


@pytest.mark.covers("AGT-30")
async def test_a_level_or_an_exact_budget_goes_with_each_request() -> None:
    assert await sent(1) == [(None, None)]
    assert await sent(1, thinking="high") == [("high", None)]
    assert await sent(2, thinking_budget=3000) == [(None, 3000), (None, 3000)]


@pytest.mark.covers("AGT-31", "AGT-43")
async def test_a_budget_shrinks_after_a_turn_down_to_a_floor() -> None:
    decay = ThinkingDecay(after_turn=2, factor=0.5, floor=300)

    assert [b for _, b in await sent(6, thinking_budget=1000, thinking_decay=decay)] == [1000, 1000, 500, 300, 300, 300]


@pytest.mark.covers("AGT-31")
async def test_a_function_says_what_is_left() -> None:
    seen: list[tuple[int, int]] = []

    def decay(turn: int, base: int) -> float:
        seen.append((turn, base))
        return base / turn

    assert [b for _, b in await sent(3, thinking_budget=900, thinking_decay=decay)] == [900, 450, 300]
    assert seen == [(1, 900), (2, 900), (3, 900)]


@pytest.mark.covers("AGT-43")
async def test_turns_count_from_the_start_of_each_run() -> None:
    decay = ThinkingDecay(after_turn=1, factor=0.1)
    made = agent(read("a"), "done", "again", env=project(), thinking_budget=1000, thinking_decay=decay)

    await made.run("go")
    await made.run("go")

    assert [r.thinking_budget for r in requests(made)] == [1000, 100, 1000]


async def test_a_level_falls_to_the_next_that_fits() -> None:
    levels = [level for level, _ in await sent(7, thinking="high", thinking_decay=ThinkingDecay(after_turn=1))]

    assert levels == ["high", "medium", "low", "minimal", "minimal", "off", "off"]
    assert await sent(2, thinking_decay=ThinkingDecay(after_turn=0)) == [(None, None)] * 2


@given(
    base=st.integers(0, 10**6),
    turn=st.integers(1, 10**4),
    after=st.integers(0, 100),
    factor=st.floats(0, 3),
    floor=st.integers(-10, 10**7),
)
@pytest.mark.covers("AGT-32")
def test_what_is_left_lies_between_nothing_and_the_whole(
    base: int, turn: int, after: int, factor: float, floor: int
) -> None:
    try:
        decay = ThinkingDecay(after, factor, floor)
        request = ModelRequest([], thinking_budget=base)
        ThinkingDecayPolicy(decay).before(TurnBefore(turn, "", request, {}))
    except OverflowError:
        return  # a factor above 1 for thousands of turns is no number any more
    assert request.thinking_budget is not None
    assert 0 <= request.thinking_budget <= base
    if turn <= after:
        assert request.thinking_budget == base


@pytest.mark.covers("AGT-32")
@pytest.mark.parametrize(("answer", "left"), [(-5, 0), (10**9, 800), (12.9, 12)])
async def test_a_function_is_held_to_the_same(answer: float, left: int) -> None:
    assert await sent(1, thinking_budget=800, thinking_decay=lambda turn, base: answer) == [(None, left)]


@pytest.mark.covers("AGT-16", "AGT-31")
async def test_an_applications_own_handler_sees_what_is_left_and_has_the_last_word() -> None:
    made = agent(read("a"), "done", env=project(), thinking_budget=1000, thinking_decay=ThinkingDecay(0))
    seen: list[Any] = []

    def more(hook: TurnBefore) -> None:
        seen.append(hook.request.thinking_budget)
        hook.request.thinking_budget = 77

    made.on(TurnBefore, more)
    await made.run("go")

    assert seen == [500, 250]
    assert {r.thinking_budget for r in requests(made)} == {77}


@pytest.mark.covers("AGT-27", "AGT-31")
async def test_it_is_unset_by_default_and_a_run_may_set_it() -> None:
    made = agent("a", "b", env=project(), thinking_budget=1000)

    await made.run("go")
    await made.run("go", behavior=RunOptions(thinking_decay=ThinkingDecay(0, 0.25)))

    assert [r.thinking_budget for r in requests(made)] == [1000, 250]


def test_levels_stand_in_order() -> None:
    assert list(LEVEL_TOKENS.values()) == sorted(LEVEL_TOKENS.values())


async def test_the_cache_is_steered_unless_it_is_not_to_be() -> None:
    made = agent(ScriptedCall("read_file", {"path": "a"}), "done", "again", env=project())

    await made.run("go", behavior=RunOptions(cache=False))
    await made.run("go")

    assert [r.cache for r in requests(made)] == [False, False, True]
