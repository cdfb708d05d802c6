"""The options of a request in the words of Chat Completions, and what to leave out when a host refuses one."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from mainspring.models.port import ModelRequest, ThinkingLevel
from mainspring.models.profile import Dialect, Profile

_LEAST_OUTPUT = 1024
_EFFORTS: dict[ThinkingLevel, str] = {
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
}


def options(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    """All fields of the body but the model, the tools and the messages. Nothing is sent as null."""
    dialect = profile.dialect
    fields: dict[str, Any] = {}
    if dialect.stream_usage:
        fields["stream_options"] = {"include_usage": True}
    limit = output_limit(request, profile)
    if limit is not None:
        fields[dialect.max_tokens_field] = limit
    if request.temperature is not None and dialect.temperature:
        fields["temperature"] = request.temperature
    if request.stop and dialect.stop:
        fields["stop"] = list(request.stop)
    if request.thinking is not None and dialect.reasoning_effort:
        effort = _EFFORTS.get(request.thinking)
        if effort is not None:
            fields["reasoning_effort"] = effort
    if request.session_id and dialect.prompt_cache_key:
        fields["prompt_cache_key"] = request.session_id
    if request.schema is not None and dialect.json_schema:
        schema: dict[str, Any] = {"name": "answer", "schema": request.schema}
        if dialect.strict_schema:
            schema["strict"] = True
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.tools and request.tool_choice != "auto":
        choice = request.tool_choice
        named = choice not in ("required", "none")
        fields["tool_choice"] = {"type": "function", "function": {"name": choice}} if named else choice
    fields.update(request.extra)
    return fields


def output_limit(request: ModelRequest, profile: Profile) -> int | None:
    """The reply cap: what was asked, at most what the model can."""
    limit = request.max_output_tokens or profile.max_output_tokens
    if limit is None:
        return None
    most = profile.info.max_output_tokens
    return min(limit, most) if most else limit


_REFUSABLE: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"stream_options|include_usage", {"stream_usage": False}),
    (r"reasoning_content|reasoning_details|\breasoning\b.*(message|property)|thinking", {"reasoning": "none"}),
    (r"reasoning_?effort|reasoning effort", {"reasoning_effort": False}),
    (r"developer", {"developer_role": False}),
    (r"prompt_cache_key", {"prompt_cache_key": False}),
    (r"temperature", {"temperature": False}),
    (r"\bstop\b", {"stop": False}),
    (r"\bstrict\b", {"strict_schema": False}),
    (r"response_format|json_schema", {"json_schema": False}),
)
"""Words of a refusal, and the change that answers it. Only a change that changes something is made."""


def without_refused(dialect: Dialect, refusal: str) -> Dialect | None:
    """The dialect that leaves out what a host says it does not take; ``None`` if the text names nothing that was sent."""
    text = refusal.lower()
    if "max_completion_tokens" in text and "max_tokens" in text:
        # Both names stand in the text; the one that was sent is the one refused.
        other = "max_completion_tokens" if dialect.max_tokens_field == "max_tokens" else "max_tokens"
        return replace(dialect, max_tokens_field=other)
    if "max_completion_tokens" in text and dialect.max_tokens_field == "max_completion_tokens":
        return replace(dialect, max_tokens_field="max_tokens")
    for pattern, change in _REFUSABLE:
        if re.search(pattern, text, re.DOTALL):
            changed = replace(dialect, **change)
            if changed != dialect:
                return changed
    return None
