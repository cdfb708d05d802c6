"""The thinking level to send, for hosts that support only some."""

from __future__ import annotations

from mainspring.models.port import ThinkingLevel

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
"""Thinking levels of hosts, in ascending order."""


def nearest_effort(level: ThinkingLevel | None, accepted: tuple[str, ...], *, reasons: bool) -> str | None:
    """Return the thinking level to send: the nearest supported level; ``None`` sends none.

    Args:
        level: Requested level.
        accepted: Supported levels.
        reasons: Whether the model is known to reason, so that ``off`` must be sent.
    """
    if level is None or not accepted:
        return None
    if level == "off":
        return min(accepted, key=EFFORTS.index) if reasons else None
    requested = EFFORTS.index(level)
    return min([e for e in accepted if e != "none"], key=lambda e: abs(EFFORTS.index(e) - requested), default=None)
