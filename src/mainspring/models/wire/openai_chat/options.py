"""The options of a request in the words of Chat Completions, and what to leave out when a host refuses one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from mainspring.models.codec.unsupported import (
    is_images_unsupported,
    is_unsupported_parameter,
    nearest_effort,
    parse_supported_efforts,
)
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.token_limits import output_limit


def request_options(request: ModelRequest, profile: ModelProfile) -> dict[str, Any]:
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
    fields.update(_effort(request, profile))
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


def _effort(request: ModelRequest, profile: ModelProfile) -> dict[str, Any]:
    dialect = profile.dialect
    if dialect.effort_field == "reasoning" and request.thinking_budget and dialect.efforts:
        return {"reasoning": {"max_tokens": request.thinking_budget}}
    effort = nearest_effort(request.thinking, dialect.efforts, reasons=profile.info.reasoning)
    if effort is None:
        return {}
    return {"reasoning": {"effort": effort}} if dialect.effort_field == "reasoning" else {"reasoning_effort": effort}


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
"""Words of a refusal, and the change that answers it."""


def profiles_without_rejected(profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
    """Profiles that leave out what a host says it does not take, the most likely first; none if the text names nothing."""
    text = refusal.lower()
    if re.search(r"tool.?call.?id|length of 9", text):
        yield _changed(profile, {"short_ids": True})
    if "signature" in text or "thinking block" in text:
        yield _changed(profile, {"reasoning": "none"})
    if not is_unsupported_parameter(text):
        return
    if "max_completion_tokens" in text or "max_tokens" in text:
        # Where both names stand in the text, the one that was sent is the one refused.
        sent = profile.dialect.max_tokens_field
        yield _changed(
            profile, {"max_tokens_field": "max_tokens" if sent == "max_completion_tokens" else "max_completion_tokens"}
        )
    if "effort" in text:
        known = parse_supported_efforts(text)
        yield _changed(profile, {"efforts": known if known != profile.dialect.efforts else ()})
    for pattern, change in _REFUSABLE:
        if re.search(pattern, text, re.DOTALL):
            yield _changed(profile, change)
    if profile.info.vision and is_images_unsupported(text):
        yield replace(profile, info=replace(profile.info, vision=False))


def _changed(profile: ModelProfile, change: dict[str, Any]) -> ModelProfile:
    return replace(profile, dialect=replace(profile.dialect, **change))
