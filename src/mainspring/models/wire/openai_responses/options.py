"""The options of a request in the words of Responses, and what to leave out when a host refuses one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.models.codec.unsupported import (
    is_images_unsupported,
    is_unsupported_parameter,
    nearest_effort,
    parse_supported_efforts,
)
from mainspring.models.json_values import as_list
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.token_limits import output_limit

_ENCRYPTED = "reasoning.encrypted_content"


def request_options(request: ModelRequest, profile: ModelProfile) -> dict[str, Any]:
    """All fields of the body but the model, the instructions, the tools and the input. Nothing is sent as null.

    The protocol has no field for stop texts and none for an exact number of reasoning tokens; they are not sent.
    """
    dialect = profile.responses
    fields: dict[str, Any] = {}
    if dialect.store is not None:
        fields["store"] = dialect.store
    if dialect.encrypted and dialect.efforts and dialect.store is not True:
        fields["include"] = [_ENCRYPTED]
    limit = output_limit(request, profile)
    if limit is not None and dialect.max_output_tokens:
        fields["max_output_tokens"] = limit
    if request.temperature is not None and dialect.temperature:
        fields["temperature"] = request.temperature
    effort = nearest_effort(request.thinking, dialect.efforts, reasons=profile.info.reasoning)
    if effort is not None:
        fields["reasoning"] = {"effort": effort}
        if dialect.summary and request.thinking != "off":
            fields["reasoning"]["summary"] = dialect.summary
    if request.session_id and request.cache and dialect.prompt_cache_key:
        fields["prompt_cache_key"] = request.session_id
    if request.schema is not None and dialect.json_schema:
        schema: dict[str, Any] = {"type": "json_schema", "name": "answer", "schema": request.schema}
        if dialect.strict_schema:
            schema["strict"] = True
        fields["text"] = {"format": schema}
    if request.tools:
        _call_options(request, profile, fields)
    return _merge_extra(fields, request.extra)


def _call_options(request: ModelRequest, profile: ModelProfile, fields: dict[str, Any]) -> None:
    choice = request.tool_choice
    if choice != "auto":
        fields["tool_choice"] = choice if choice in ("required", "none") else {"type": "function", "name": choice}
    if profile.responses.parallel_calls is not None:
        fields["parallel_tool_calls"] = profile.responses.parallel_calls


def _merge_extra(fields: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """Fields of the caller's own win; what it wants included, or shaped in the text, is added."""
    include = [*as_list(fields.get("include")), *as_list(extra.get("include"))]
    merged = {**fields, **extra}
    if include:
        merged["include"] = list(dict.fromkeys(include))
    if "text" in fields and isinstance(extra.get("text"), dict):
        merged["text"] = {**fields["text"], **extra["text"]}
    return merged


_REFUSABLE: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"reasoning\.summary|reasoning summar|generate_summary", {"summary": ""}),
    (r"reasoning\.encrypted_content|encrypted content|\binclude\b", {"encrypted": False}),
    (r"reasoning\.effort|\breasoning\b|\beffort\b", {"efforts": ()}),
    (r"prompt_cache_key", {"prompt_cache_key": False}),
    (r"temperature", {"temperature": False}),
    (r"max_output_tokens", {"max_output_tokens": False}),
    (r"parallel_tool_calls", {"parallel_calls": None}),
    (r"\bstore\b", {"store": None}),
    (r"\bstrict\b", {"strict_schema": False, "strict_tools": None}),
    (r"text\.format|json_schema|response_format", {"json_schema": False}),
    (r"\bdeveloper\b", {"system_role": "system"}),
    (r"\binstructions\b|system messages?\b", {"system": "message"}),
    (r"output\b.{0,40}(string|array|list)|input_image|function_call_output", {"tool_images": False}),
)
"""Words of a refusal, and the change that answers it."""

_ITEM_NOT_FOUND = lazy_re(
    r"required (following|reasoning) item|without its required|item with id .{0,120}not found|items are not persisted"
)
_BAD_REASONING = lazy_re(r"encrypted_content|encrypted content|reasoning item|type 'reasoning'|invalid.{0,40}signature")


def profiles_without_rejected(profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
    """Profiles that leave out what a host says it does not take, the most likely first; none if the text names nothing."""
    text = refusal.lower()
    if _ITEM_NOT_FOUND.search(text):
        yield _changed(profile, {"item_ids": False})
        yield _changed(profile, {"item_ids": False, "reasoning": "none"})
    elif _BAD_REASONING.search(text) and not is_unsupported_parameter(text):
        yield _changed(profile, {"reasoning": "none"})
    if "verified" in text and "summar" in text:
        yield _changed(profile, {"summary": ""})
    if "instructions" in text and re.search(r"required|missing", text):
        yield _changed(profile, {"instructions": "You are a helpful assistant."})
    if profile.query and re.search(r"api.?version", text):
        kept = [part for part in profile.query.split("&") if not part.lower().startswith("api-version=")]
        yield replace(profile, query="&".join(kept))
    if re.search(r"store.{0,20}(must|should) be (set to )?false", text):
        yield _changed(profile, {"store": False})
    if not is_unsupported_parameter(text):
        return
    if "effort" in text and (known := parse_supported_efforts(text)):
        yield _changed(profile, {"efforts": known})
    for pattern, change in _REFUSABLE:
        if re.search(pattern, text, re.DOTALL):
            yield _changed(profile, change)
    if profile.info.vision and is_images_unsupported(text):
        yield replace(profile, info=replace(profile.info, vision=False))


def _changed(profile: ModelProfile, change: dict[str, Any]) -> ModelProfile:
    return replace(profile, responses=replace(profile.responses, **change))
