"""The options of a request in the words of Anthropic Messages."""

from __future__ import annotations

from typing import Any

from mainspring.models.port import ModelRequest
from mainspring.models.profile import Profile
from mainspring.models.token_limits import clamped
from mainspring.models.wire.anthropic.schema import answer_schema
from mainspring.models.wire.anthropic.thinking import LEAST_BUDGET, Thinking

MAX_TOKENS = 32_000
"""Reply cap where nobody names one, of a model that is known or new; it must be sent, and costs nothing by itself."""

UNKNOWN_MAX_TOKENS = 8_192
"""The same for a model that is not known: what nearly all of the older ones can."""

_LEAST_ANSWER = 1024


def options(request: ModelRequest, profile: Profile, asked: Thinking) -> dict[str, Any]:
    """All fields of the body but the tools, the system text and the messages. Nothing is sent as null.

    Args:
        request: The request.
        profile: The model.
        asked: How much it is asked to think.
    """
    dialect = profile.messages
    limit = request.max_output_tokens or profile.max_output_tokens
    known = profile.info.max_output_tokens or dialect.thinking in ("both", "adaptive")
    wanted = limit or (MAX_TOKENS if known else UNKNOWN_MAX_TOKENS)
    limit = clamped(wanted + asked.room, request, profile)
    fields: dict[str, Any] = {"max_tokens": limit, "stream": True}
    thinking = _fitting(asked.field, limit - min(_LEAST_ANSWER, wanted))
    if thinking is not None:
        fields["thinking"] = thinking
    if request.temperature is not None and dialect.temperature and not asked.is_on:
        fields["temperature"] = min(request.temperature, 1.0)
    stop = [text for text in request.stop if text.strip()] if dialect.stop else []
    if stop:
        fields["stop_sequences"] = stop
    choice = _tool_choice(request, forced=dialect.forced_tools)
    if choice is not None:
        fields["tool_choice"] = choice
    output: dict[str, Any] = {}
    if asked.effort is not None:
        output["effort"] = asked.effort
    if request.schema is not None and dialect.json_schema:
        output["format"] = {"type": "json_schema", "schema": answer_schema(request.schema)}
    if output:
        fields["output_config"] = output
    if dialect.context_management is not None:
        fields["context_management"] = dialect.context_management
    fields.update(request.extra)
    return fields


def _fitting(field: dict[str, Any] | None, most: int) -> dict[str, Any] | None:
    """The field ``thinking`` with a budget that leaves room for an answer, or without thinking if none fits."""
    if field is None or "budget_tokens" not in field:
        return field
    budget = min(field["budget_tokens"], most)
    return None if budget < LEAST_BUDGET else {**field, "budget_tokens": budget}


def _tool_choice(request: ModelRequest, *, forced: bool) -> dict[str, Any] | None:
    choice = request.tool_choice
    if not request.tools or choice == "auto":
        return None
    if choice == "none":
        return {"type": "none"}
    if not forced:
        return None
    return {"type": "any"} if choice == "required" else {"type": "tool", "name": choice}
