"""Find the field of Chat Completions that a host rejected; loaded only after a rejection."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mainspring.lazy import lazy_re
from mainspring.models.codec.unsupported import (
    is_unsupported_parameter,
    parse_supported_efforts,
    with_capabilities,
    without_named_fields,
)
from mainspring.models.profile import ModelProfile

_REFUSABLE: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"stream_options|include_usage", {"stream_usage": False}),
    (r"reasoning_content|reasoning_details|\breasoning\b.*(message|property)|thinking", {"reasoning": "none"}),
    (r"\bdeveloper\b", {"developer_role": False}),
    (r"'system'|\bsystem role\b|role.{0,20}\bsystem\b", {"developer_role": True}),
    (r"prompt_cache_key", {"prompt_cache_key": False}),
    (r"temperature", {"temperature": False}),
    (r"\bstop\b", {"stop": False}),
    (r"\bstrict\b", {"strict_schema": False}),
    (r"response_format|json_schema", {"json_schema": False}),
)
"""Patterns of rejected fields, and the change for each."""

_REASONING_MISSING = lazy_re(
    r"missing\W+(?:field\W+)?reasoning_content|reasoning_content\b.{0,60}(?:passed back|missing|required|must be (?:provided|included|present|returned))"
)
"""Matches a text about a message without its reasoning, which DeepSeek and Moonshot require."""


def profiles_without_rejected(profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
    """Return profiles without the rejected field, the most likely first; none if the text mentions no field."""
    text = refusal.lower()
    if re.search(r"tool.?call.?id|length of 9", text):
        yield with_capabilities(profile, "chat_completions", {"short_ids": True})
    if _REASONING_MISSING.search(text):
        yield with_capabilities(profile, "chat_completions", {"reasoning": "always"})
    if "signature" in text or "thinking block" in text:
        yield with_capabilities(profile, "chat_completions", {"reasoning": "none"})
    if not is_unsupported_parameter(text):
        return
    if "max_completion_tokens" in text or "max_tokens" in text:
        # If the text contains both names, the one that was sent is the rejected one.
        sent = profile.dialect.max_tokens_field
        yield with_capabilities(
            profile,
            "chat_completions",
            {"max_tokens_field": "max_tokens" if sent == "max_completion_tokens" else "max_completion_tokens"},
        )
    if "effort" in text:
        known = parse_supported_efforts(text)
        yield with_capabilities(
            profile, "chat_completions", {"efforts": known if known != profile.dialect.efforts else ()}
        )
    yield from without_named_fields(profile, "chat_completions", text, _REFUSABLE)
