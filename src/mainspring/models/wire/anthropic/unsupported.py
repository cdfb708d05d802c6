"""What to leave out when a host of Anthropic Messages refuses something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.models.codec.unsupported import is_images_unsupported, is_unsupported_parameter
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.anthropic.options import parse_efforts

_MAX_TOKENS = lazy_re(r"max_tokens: \d+ > (\d+)")
_PREFILL = lazy_re(r"prefill|must end with a user message")
_SIGNATURE_ERROR = lazy_re(r"signature|thinking.{0,40}\bblocks?\b|\bblocks?\b.{0,40}thinking", re.DOTALL)
_MISSING_THINKING_ERROR = lazy_re(r"thinking.{0,60}must be passed back", re.DOTALL)
_SERVER_TOOL_ERROR = lazy_re(
    r"server_tool_use|mcp_tool_|srvtoolu|compaction|caller|(search|fetch|execution|advisor)_tool_result"
)
_NO_ADAPTIVE = lazy_re(r"adaptive.{0,40}not (be )?support|not support.{0,40}adaptive")
_NO_THINKING = lazy_re(
    r"thinking.{0,60}not (be )?support|not support.{0,40}thinking|\bthinking: extra inputs", re.DOTALL
)

_REJECTION_RULES: tuple[tuple[str, dict[str, Any]], ...] = (
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


def profiles_without_rejected(profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
    """Profiles that leave out what a host says it does not take, the most likely first; none if the text names nothing."""
    text = refusal.lower()
    told = _MAX_TOKENS.search(text)
    if told:
        yield replace(profile, info=replace(profile.info, max_output_tokens=int(told[1])))
    if _PREFILL.search(text):
        yield _with_capabilities(profile, prefill=False)
    if "prefix_mismatch_behavior" in text and not profile.messages.drop_unbound:
        yield _with_capabilities(profile, drop_unbound=True)
    if _MISSING_THINKING_ERROR.search(text):
        yield _with_capabilities(profile, unsigned=True)
    if "max_tokens" not in text and _SIGNATURE_ERROR.search(text):
        yield _with_capabilities(profile, reasoning=False)
    if _SERVER_TOOL_ERROR.search(text):
        yield _with_capabilities(profile, hosted=False)
    yield from _without_thinking(profile, text)
    if "effort" in text and "thinking.type" not in text:
        known = parse_efforts(text.partition("supported levels")[2])
        yield _with_capabilities(profile, efforts=known if known != profile.messages.efforts else ())
    if not is_unsupported_parameter(text):
        return
    for pattern, change in _REJECTION_RULES:
        if re.search(pattern, text, re.DOTALL):
            yield _with_capabilities(profile, **change)
    if profile.info.vision and is_images_unsupported(text):
        yield replace(profile, info=replace(profile.info, vision=False))


def _without_thinking(profile: ModelProfile, text: str) -> Iterator[ModelProfile]:
    """Another way to say how much to think, then none."""
    style = profile.messages.thinking
    if "thinking.type.disabled" in text:
        off = "between_tools" if "between_tools" in text and profile.messages.thinking_off == "disabled" else "never"
        yield _with_capabilities(profile, thinking_off=off)
    elif "thinking.type.enabled" in text or "budget_tokens" in text:
        if style in ("budget", "both"):
            efforts = profile.messages.efforts or ("low", "medium", "high")
            yield _with_capabilities(profile, thinking="adaptive", efforts=efforts)
    elif _NO_ADAPTIVE.search(text) and style in ("both", "adaptive"):
        yield _with_capabilities(profile, thinking="budget", drop_unbound=False)
    if _NO_THINKING.search(text):
        yield _with_capabilities(profile, thinking="none", thinking_off="omit", drop_unbound=False)


def _with_capabilities(profile: ModelProfile, **change: Any) -> ModelProfile:
    return replace(profile, messages=replace(profile.messages, **change))
