"""The options of a request in the words of Gemini, and what to leave out when a host refuses one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from mainspring.models.codec.unsupported import is_images_unsupported, is_unsupported_parameter, nearest_effort
from mainspring.models.json_values import as_dict
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.token_limits import output_limit
from mainspring.models.wire.gemini.schema import json_schema

_BUDGETS = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 65536}
"""Tokens of thinking for each level, where a model takes tokens; clamped to what it takes."""

_MOST_STOPS = 5  # documented
_ANSWER = 1024  # tokens that must be left for an answer behind the thinking


def request_options(request: ModelRequest, profile: ModelProfile) -> dict[str, Any]:
    """All fields of the body but tools, system instruction and contents. Nothing is sent as null."""
    dialect = profile.gemini
    settings: dict[str, Any] = {}
    thinking = _thinking(request, profile)
    limit = output_limit(request, profile)
    if limit is not None:
        # Thinking counts as output: a cap below it would leave nothing for the answer.
        settings["maxOutputTokens"] = max(limit, thinking.get("thinkingBudget", 0) + min(limit, _ANSWER))
    if request.temperature is not None and dialect.temperature:
        settings["temperature"] = request.temperature
    if request.stop and dialect.stop:
        settings["stopSequences"] = list(request.stop)[:_MOST_STOPS]
    if thinking:
        settings["thinkingConfig"] = thinking
    if request.schema is not None and dialect.json_schema and (dialect.schema_with_tools or not request.tools):
        settings["responseMimeType"] = "application/json"
        settings["responseJsonSchema"] = json_schema(request.schema)
    extra = dict(request.extra)
    settings.update(as_dict(extra.pop("generationConfig", None)) or {})
    fields: dict[str, Any] = {"generationConfig": settings} if settings else {}
    if request.tools and request.tool_choice != "auto":
        fields["toolConfig"] = {"functionCallingConfig": _choice(request.tool_choice)}
    return {**fields, **extra}


def _choice(choice: str) -> dict[str, Any]:
    if choice == "none":
        return {"mode": "NONE"}
    return {"mode": "ANY"} if choice == "required" else {"mode": "ANY", "allowedFunctionNames": [choice]}


def _thinking(request: ModelRequest, profile: ModelProfile) -> dict[str, Any]:
    dialect, level, budget = profile.gemini, request.thinking, request.thinking_budget
    if dialect.thinking == "none" or (level is None and budget is None):
        return {}
    if budget is None and dialect.thinking == "level":
        word = nearest_effort(level, dialect.levels, reasons=True)
        return {"thinkingLevel": word, **({} if level == "off" else {"includeThoughts": True})}
    tokens = budget if budget is not None else _BUDGETS.get(level or "", 0)
    if tokens <= 0:
        return {"thinkingBudget": 0 if dialect.can_rest else dialect.least_budget}
    tokens = min(max(tokens, dialect.least_budget), dialect.most_budget)
    most = profile.info.max_output_tokens
    return {"thinkingBudget": min(tokens, most - _ANSWER) if most else tokens, "includeThoughts": True}


_REFUSABLE: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"parameters_?json_?schema", {"tool_schema": "openapi"}),
    (r"response_?(json_?)?schema|response mime ?type|response_?mime_?type|json mode", {"json_schema": False}),
    (r"thinking.?level", {"thinking": "budget"}),
    (r"thinking.?budget", {"thinking": "level"}),
    (r"thinking|thought", {"thinking": "none"}),
    (r"""unknown name ['"\\]+id\b|function.?(call|response)\S*\.id\b""", {"call_ids": False}),
    (r"function_?response\S*parts|multimodal function|unknown name ['\"\\]+parts\b", {"result_images": "behind"}),
    (r"temperature", {"temperature": False}),
    (r"stop.?sequence", {"stop": False}),
)
"""Words of a refusal, and the change that answers it."""


def profiles_without_rejected(profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
    """Profiles that leave out what a host says it does not take, the most likely first; none if the text names nothing."""
    text = refusal.lower()
    if re.search(r"thought.?signature", text):
        if "missing" not in text:
            yield _changed(profile, {"echo": False, "sign_calls": True})
        yield _changed(profile, {"sign_calls": True})
        yield _changed(profile, {"echo": False, "sign_calls": False})
    # Hosts name the field by its path, and often without saying that it is the field that they refuse.
    if not is_unsupported_parameter(text) and "cannot find field" not in text:
        return
    for pattern, change in _REFUSABLE:
        if re.search(pattern, text, re.DOTALL):
            yield _changed(profile, change)
    if profile.info.vision and is_images_unsupported(text):
        yield replace(profile, info=replace(profile.info, vision=False))


def _changed(profile: ModelProfile, change: dict[str, Any]) -> ModelProfile:
    return replace(profile, gemini=replace(profile.gemini, **change))
