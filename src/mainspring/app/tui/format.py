"""Formats numbers for the user."""

from __future__ import annotations

from mainspring.app.run.events import format_cost
from mainspring.messages import Usage

_DAY = 24 * 3600


def format_seconds(value: float) -> str:
    """Format a duration: ``0.4s``, ``12s``, ``3m 5s``, ``2h 10m``."""
    if value < 10:
        return f"{value:.1f}s"
    seconds = int(value)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60}s"
    return f"{seconds // 3600}h {seconds % 3600 // 60}m"


def format_tokens(value: int) -> str:
    """Format a number of tokens: ``950``, ``12.3k``, ``1.2M``."""
    if value < 1_000:
        return str(value)
    if value < 999_950:
        return f"{value / 1_000:.1f}k" if value < 100_000 else f"{value // 1_000}k"
    return f"{value / 1_000_000:.1f}M"


def format_usage(used: int, cost: float | None) -> str:
    """Format tokens and their cost, or tokens alone if the price is unknown."""
    return f"{format_tokens(used)} tokens" + (f", {format_dollars(cost)}" if cost is not None else "")


def format_total(usage: Usage) -> str:
    """Format the tokens and the cost of a run."""
    return format_usage(usage.total_tokens, None if usage.cost is None else usage.cost.total)


def format_dollars(value: float | None) -> str:
    """Format a cost: ``$0.0042``, ``$1.25``, ``price unknown``."""
    if value is None:
        return "price unknown"
    return f"${value:.2f}" if value >= 0.1 or not value else format_cost(value)
