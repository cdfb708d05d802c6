"""Every hook there is, by name. A module that declares hooks is imported here."""

from __future__ import annotations

from mainspring.events import feature_hooks as _feature_hooks
from mainspring.events.hooks import Hook


def _all() -> dict[str, type[Hook]]:
    found: dict[str, type[Hook]] = {}
    queue: list[type[Hook]] = [Hook]
    while queue:
        kind = queue.pop()
        queue.extend(kind.__subclasses__())
        if kind.event:
            found[kind.event] = kind
    return dict(sorted(found.items()))


__all__ = ["HOOKS", "_feature_hooks"]

HOOKS: dict[str, type[Hook]] = _all()
"""Every hook by its name."""
