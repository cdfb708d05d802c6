"""Whether the provider's prompt cache is steered."""

from __future__ import annotations

from mainspring.loop.hooks import TurnBefore


def leave_cache_alone(hook: TurnBefore) -> None:
    """Send neither breakpoints nor cache keys. A handler of `turn:before`."""
    hook.request.cache = False
