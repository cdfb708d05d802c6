"""What a host says that it does not take, and the nearest that it does: common to the protocols in OpenAI's style."""

from __future__ import annotations

import re

from mainspring.lazy import lazy_re
from mainspring.models.port import ThinkingLevel

_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh")

_REFUSES = lazy_re(
    r"unsupported|not supported|not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|forbidden|extra|"
    r"additional propert|invalid (field|param|argument|property)|not accept|deprecated|does not take|only supports?"
)
_NO_IMAGES = lazy_re(
    r"(not support|unsupported|not accept|cannot process|only supports?) .{0,60}(image|vision|multimodal)|"
    r"(image|vision)\w* .{0,60}(not supported|unsupported|not enabled|not available)"
)
_LISTED = lazy_re(r"\bsupported (?:levels?|values?|efforts?)(?: are| is)?:?(.*)", re.DOTALL)


def refuses_field(text: str) -> bool:
    """Whether a refusal, in lower case, is of a field as such; a value that is out of range is the caller's to mend."""
    return _REFUSES.search(text) is not None


def refuses_images(text: str) -> bool:
    """Whether a refusal, in lower case, is of images as such."""
    return _NO_IMAGES.search(text) is not None


def nearest_effort(level: ThinkingLevel | None, accepted: tuple[str, ...], *, reasons: bool) -> str | None:
    """The thinking level to send: the nearest that the host takes; ``None`` sends none.

    Args:
        level: The level that was asked for.
        accepted: What the host takes.
        reasons: Whether the model is known to reason, so that ``off`` has to be said.
    """
    if level is None or not accepted:
        return None
    if level == "off":
        return min(accepted, key=_LEVELS.index) if reasons else None
    wanted = _LEVELS.index(level)
    return min([e for e in accepted if e != "none"], key=lambda e: abs(_LEVELS.index(e) - wanted), default=None)


def listed_efforts(text: str) -> tuple[str, ...]:
    """The thinking levels that a refusal, in lower case, lists as those that the host takes."""
    listed = _LISTED.search(text)
    return tuple(level for level in _LEVELS if listed and re.search(rf"\b{level}\b", listed[1]))
