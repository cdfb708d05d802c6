"""The token cost of tools."""

import pytest

from mainspring.mcp.tool_search import ServerTokenCost, estimate_cost, estimate_search_cost
from mainspring.messages import ToolDefinition


@pytest.mark.covers("BYD-11")
def test_eager_server_costs_its_schemas_and_lazy_server_its_names() -> None:
    schema = {"type": "object", "properties": {"query": {"type": "string", "description": "x" * 400}}}
    cost = estimate_cost([ToolDefinition(f"mcp__docs__tool_{n}", "y" * 400, schema) for n in range(10)])

    assert cost.tools == 10
    assert 2000 <= cost.eager <= 2500  # about 900 characters each, four per token
    assert 40 <= cost.lazy <= 60
    assert 100 < estimate_search_cost() < 400


def test_server_without_tools_costs_no_tokens() -> None:
    assert estimate_cost([]) == ServerTokenCost(tools=0, eager=0, lazy=0)
