"""Every hook there is, by name. A module that declares hooks is imported here."""

from __future__ import annotations

from mainspring.loop.hooks import budget_hooks as _budget_hooks
from mainspring.loop.hooks import features as _feature_hooks
from mainspring.loop.hooks import oauth_hook as _oauth_hook
from mainspring.loop.hooks import output_hook as _output_hook
from mainspring.loop.hooks import session as _entry_hooks
from mainspring.loop.hooks import subagents as _child_hooks
from mainspring.loop.hooks.run import Hook


def _all() -> dict[str, type[Hook]]:
    found: dict[str, type[Hook]] = {}
    queue: list[type[Hook]] = [Hook]
    while queue:
        kind = queue.pop()
        queue.extend(kind.__subclasses__())
        if kind.event:
            found[kind.event] = kind
    return dict(sorted(found.items()))


__all__ = ["HOOKS", "_budget_hooks", "_child_hooks", "_entry_hooks", "_feature_hooks", "_oauth_hook", "_output_hook"]

HOOKS: dict[str, type[Hook]] = _all()
"""Every hook by its name."""
