"""Formatting of costs."""

import pytest

from mainspring.app.commands.cost import CostRow, format_cost_row


@pytest.mark.parametrize(
    ("cost", "unpriced", "text"),
    [
        (0.0, 0, "$0.0000"),
        (0.00001, 0, "< $0.0001"),
        (0.12345, 0, "$0.1235"),
        (0.0, 2, "unknown"),
        (0.00001, 2, "< $0.0001 + unknown"),
        (0.5, 2, "$0.5000 + unknown"),
    ],
)
def test_small_amounts_are_not_shown_as_zero(cost: float, unpriced: int, text: str) -> None:
    assert format_cost_row(CostRow(key="x", cost=cost, unpriced_calls=unpriced)) == text
