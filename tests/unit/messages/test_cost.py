"""Costs compare with numbers."""

import pytest

from mainspring import Agent, Cost, Usage
from mainspring.testing import MemoryEnv, Reply, ScriptedModel


@pytest.mark.parametrize("total", [0.5, Cost(input=0.25, output=0.25)])
def test_costs_compare_by_total(total: Cost | float) -> None:
    small, same, large = Cost(output=0.4), Cost(output=0.5), Cost(input=0.3, cache_read=0.3)
    assert [each < total for each in (small, same, large)] == [True, False, False]
    assert [each <= total for each in (small, same, large)] == [True, True, False]
    assert [each > total for each in (small, same, large)] == [False, False, True]
    assert [each >= total for each in (small, same, large)] == [False, True, True]
    assert 0.45 > small
    assert max(large, small, same) is large
    assert float(same) == 0.5


async def test_cost_of_a_run_compares_with_a_number() -> None:
    paid = Reply("Hi", usage=Usage(input_tokens=9, output_tokens=1, cost=Cost(output=0.04)))
    result = await Agent(ScriptedModel(paid), execution=MemoryEnv({})).run("Hello")
    assert result.cost < 0.5
    assert result.cost.is_known


async def test_unknown_cost_is_neither_below_nor_above_a_number() -> None:
    reply = Reply("Hi", usage=Usage(input_tokens=9, output_tokens=1))
    cost = (await Agent(ScriptedModel(reply), execution=MemoryEnv({})).run("Hello")).cost
    assert not cost.is_known
    assert not (cost < 0.5)
    assert not (cost > 0)
    assert not (cost >= 0)
    assert not (cost <= 0)
