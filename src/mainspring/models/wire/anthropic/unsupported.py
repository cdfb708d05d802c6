"""What to leave out when a host of Anthropic Messages refuses something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.models.codec.unsupported import refuses_field, refuses_images
from mainspring.models.profile import Profile
from mainspring.models.wire.anthropic.options import listed_efforts

_MAX_TOKENS = lazy_re(r"max_tokens: \d+ > (\d+)")
_PREFILL = lazy_re(r"prefill|must end with a user message")
_SIGNED = lazy_re(r"signature|thinking.{0,40}\bblocks?\b|\bblocks?\b.{0,40}thinking", re.DOTALL)
_UNSIGNED = lazy_re(r"thinking.{0,60}must be passed back", re.DOTALL)
_HOSTED = lazy_re(r"server_tool_use|mcp_tool_|srvtoolu|compaction|caller|(search|fetch|execution|advisor)_tool_result")
_NO_ADAPTIVE = lazy_re(r"adaptive.{0,40}not (be )?support|not support.{0,40}adaptive")
_NO_THINKING = lazy_re(
    r"thinking.{0,60}not (be )?support|not support.{0,40}thinking|\bthinking: extra inputs", re.DOTALL
)

_REFUSABLE: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"block_binding", {"drop_unbound": False}),
    (r"\bdisplay\b", {"display": ""}),
    (r"context_management|context-management", {"context_management": None}),
    (r"\bttl\b", {"cache_ttl": "5m"}),
    (r"cache_control", {"cache": False}),
    (r"temperature", {"temperature": False}),
    (r"stop_sequences", {"stop": False}),
    (r"tool_choice|forced tool|forces tool", {"forced_tools": False}),
    (r"output_config\.format|output_format|json_schema|structured output", {"json_schema": False}),
    (r"output_config", {"efforts": (), "json_schema": False}),
    (r"tool_result.{0,40}image", {"tool_images": False}),
)
"""Words of a refusal of a field, and the change that answers it."""


def without_refused(profile: Profile, refusal: str) -> Iterator[Profile]:
    """Profiles that leave out what a host says it does not take, the most likely first; none if the text names nothing."""
    text = refusal.lower()
    told = _MAX_TOKENS.search(text)
    if told:
        yield replace(profile, info=replace(profile.info, max_output_tokens=int(told[1])))
    if _PREFILL.search(text):
        yield _changed(profile, prefill=False)
    if "prefix_mismatch_behavior" in text and not profile.messages.drop_unbound:
        yield _changed(profile, drop_unbound=True)
    if _UNSIGNED.search(text):
        yield _changed(profile, unsigned=True)
    if "max_tokens" not in text and _SIGNED.search(text):
        yield _changed(profile, reasoning=False)
    if _HOSTED.search(text):
        yield _changed(profile, hosted=False)
    yield from _without_thinking(profile, text)
    if "effort" in text and "thinking.type" not in text:
        known = listed_efforts(text.partition("supported levels")[2])
        yield _changed(profile, efforts=known if known != profile.messages.efforts else ())
    if not refuses_field(text):
        return
    for pattern, change in _REFUSABLE:
        if re.search(pattern, text, re.DOTALL):
            yield _changed(profile, **change)
    if profile.info.vision and refuses_images(text):
        yield replace(profile, info=replace(profile.info, vision=False))


def _without_thinking(profile: Profile, text: str) -> Iterator[Profile]:
    """Another way to say how much to think, then none."""
    style = profile.messages.thinking
    if "thinking.type.disabled" in text:
        off = "between_tools" if "between_tools" in text and profile.messages.thinking_off == "disabled" else "never"
        yield _changed(profile, thinking_off=off)
    elif "thinking.type.enabled" in text or "budget_tokens" in text:
        if style in ("budget", "both"):
            efforts = profile.messages.efforts or ("low", "medium", "high")
            yield _changed(profile, thinking="adaptive", efforts=efforts)
    elif _NO_ADAPTIVE.search(text) and style in ("both", "adaptive"):
        yield _changed(profile, thinking="budget", drop_unbound=False)
    if _NO_THINKING.search(text):
        yield _changed(profile, thinking="none", thinking_off="omit", drop_unbound=False)


def _changed(profile: Profile, **change: Any) -> Profile:
    return replace(profile, messages=replace(profile.messages, **change))
