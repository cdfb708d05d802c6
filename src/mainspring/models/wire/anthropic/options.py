"""Request options of Anthropic Messages: thinking, and JSON Schemas in the supported subset.

The caller still validates the parts of a schema that are omitted here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.messages import Message, RedactedThinkingBlock, ThinkingBlock
from mainspring.models.codec.sampling import sampling_fields
from mainspring.models.codec.unsupported import is_unsupported_parameter, with_capabilities, without_named_fields
from mainspring.models.json_values import as_dict, as_list, to_json
from mainspring.models.port import ModelRequest, ThinkingLevel
from mainspring.models.profile import AnthropicCapabilities, ModelProfile
from mainspring.models.token_limits import clamp_to_window

_NAME = lazy_re(r"[a-zA-Z0-9_.-]{1,64}")
_UNIONS = ("anyOf", "oneOf", "allOf")
_UNSUPPORTED_KEYWORDS = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "minProperties",
        "maxProperties",
        "patternProperties",
        "propertyNames",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedProperties",
        "unevaluatedItems",
        "not",
        "if",
        "then",
        "else",
    }
)
"""Constraints that are rejected in the schema of a response."""


_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})


def output_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a response: every object closed, rejected constraints removed."""
    result: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _UNSUPPORTED_KEYWORDS or (name == "format" and value not in _FORMATS):
            continue
        if name in ("properties", "$defs", "definitions"):
            result[name] = {key: _simplify(inner) for key, inner in (as_dict(value) or {}).items()}
        elif name in _UNIONS:
            result["anyOf" if name == "oneOf" else name] = [_simplify(inner) for inner in as_list(value)]
        elif name == "items":
            result[name] = _simplify(value)
        elif name == "minItems":
            result[name] = min(value, 1) if isinstance(value, int) else 1
        else:
            result[name] = value
    if "properties" in result or result.get("type") == "object":
        result["additionalProperties"] = False
    return result


def _simplify(schema: Any) -> Any:
    fields = as_dict(schema)
    return schema if fields is None else output_schema(fields)


def with_valid_property_names(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's input with only valid names of top-level properties (ASCII letters, digits, ``_.-``).

    The description lists the other properties under their real names: arguments may contain more than the properties.
    """
    properties: dict[str, Any] = schema["properties"]
    odd = {name: value for name, value in properties.items() if not _NAME.fullmatch(name)}
    if not odd:
        return schema
    required = as_list(schema.get("required"))
    lines = [
        f"{to_json(name).decode()}{' (required)' if name in required else ''}: {to_json(value).decode()}"
        for name, value in odd.items()
    ]
    about = "\n".join([*filter(None, [schema.get("description")]), "Further arguments, by their exact names:", *lines])
    rest = {name: value for name, value in schema.items() if name not in ("required", "additionalProperties")}
    still_required = [name for name in required if name not in odd]
    return {
        **rest,
        "properties": {name: value for name, value in properties.items() if name not in odd},
        **({"required": still_required} if still_required else {}),
        "description": about,
    }


BUDGETS: dict[ThinkingLevel, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768}
"""Thinking tokens of each level, for models with budgets; also the extra output tokens for other models."""


MIN_BUDGET = 1024
"""Minimum number of thinking tokens."""


_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_EFFORT_OF: dict[ThinkingLevel, str] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
}


class ThinkingOptions(NamedTuple):
    """Thinking options of a request.

    Attributes:
        field: The field ``thinking``; ``None`` omits it.
        effort: ``output_config.effort``; ``None`` omits it.
        extra_tokens: Tokens to add to the output limit so that the thinking fits.
    """

    field: dict[str, Any] | None = None
    effort: str | None = None
    room: int = 0

    @property
    def is_on(self) -> bool:
        """Return True if thinking is requested."""
        return self.field is not None and self.field["type"] in ("enabled", "adaptive")


def thinking_options(request: ModelRequest, profile: ModelProfile) -> ThinkingOptions:
    """Return the thinking options of a request that the model supports."""
    dialect = profile.messages
    budget = request.thinking_budget
    level = request.thinking if budget is None else _level(budget)
    if level == "off":
        return _disabled_thinking(dialect)
    if level is None:
        return ThinkingOptions(_adaptive(dialect)) if dialect.drop_unbound else ThinkingOptions()
    if dialect.thinking == "none":
        return ThinkingOptions()
    if dialect.thinking == "budget" or (dialect.thinking == "both" and budget is not None):
        if _is_forced(request, dialect) or _continues_without_thinking(request, profile):
            return ThinkingOptions()
        tokens = max(MIN_BUDGET, BUDGETS[level] if budget is None else budget)
        return ThinkingOptions(_with_display({"type": "enabled", "budget_tokens": tokens}, dialect), None, tokens)
    return ThinkingOptions(_adaptive(dialect), _nearest_effort(level, dialect.efforts), budget or BUDGETS[level])


def _nearest_effort(level: ThinkingLevel, accepted: tuple[str, ...]) -> str | None:
    """Return the effort nearest to a level, the higher of two."""
    requested = _EFFORTS.index(_EFFORT_OF[level])
    known = [_EFFORTS.index(effort) for effort in accepted if effort in _EFFORTS]
    return _EFFORTS[min(known, key=lambda at: (abs(at - requested), -at))] if known else None


def parse_efforts(text: str) -> tuple[str, ...]:
    """Return the efforts that a text mentions, in ascending order."""
    return tuple(effort for effort in _EFFORTS if effort in text)


def is_from_same_model(message: Message, profile: ModelProfile) -> bool:
    """Return True if a message was created by the model that receives it."""
    return message.provider == profile.provider and message.model == profile.model


def _level(budget: int) -> ThinkingLevel:
    for level, tokens in BUDGETS.items():
        if 0 < budget <= tokens:
            return level
    return "xhigh" if budget > 0 else "off"


def _disabled_thinking(dialect: AnthropicCapabilities) -> ThinkingOptions:
    if dialect.thinking_off == "never":
        return ThinkingOptions(
            _adaptive(dialect) if dialect.drop_unbound else None, _nearest_effort("minimal", dialect.efforts)
        )
    return ThinkingOptions(None if dialect.thinking_off == "omit" else {"type": dialect.thinking_off})


def _adaptive(dialect: AnthropicCapabilities) -> dict[str, Any]:
    field = _with_display({"type": "adaptive"}, dialect)
    if dialect.drop_unbound:
        field["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return field


def _with_display(field: dict[str, Any], dialect: AnthropicCapabilities) -> dict[str, Any]:
    return {**field, "display": dialect.display} if dialect.display else field


def _is_forced(request: ModelRequest, dialect: AnthropicCapabilities) -> bool:
    """Return True if a call is forced, which models with budgets reject together with thinking."""
    return bool(request.tools) and dialect.forced_tools and request.tool_choice not in ("auto", "none")


def _continues_without_thinking(request: ModelRequest, profile: ModelProfile) -> bool:
    """Return True if the model is in the middle of calls made without thinking: it cannot start to think there."""
    for message in reversed(request.messages):
        if message.role != "assistant":
            continue
        if not message.tool_uses:
            return False
        known = is_from_same_model(message, profile) and profile.messages.reasoning
        return not known or not any(
            isinstance(block, RedactedThinkingBlock)
            or (isinstance(block, ThinkingBlock) and (block.signature or profile.messages.unsigned))
            for block in message.content
        )
    return False


MAX_TOKENS = 32_000
"""Default output limit of a known or new model; the field is required, and the value itself costs nothing."""


DEFAULT_MAX_TOKENS_UNKNOWN_MODEL = 8_192
"""Default output limit of an unknown model: supported by nearly all older models."""


_MIN_ANSWER_TOKENS = 1024
_MIN_TOP_P_THINKING = 0.95
"""Minimum of ``top_p`` together with thinking, as documented."""


def request_options(request: ModelRequest, profile: ModelProfile, chosen: ThinkingOptions) -> dict[str, Any]:
    """Return all fields of the body but tools, system prompt, and messages. No field is null.

    Args:
        request: The request.
        profile: Model that receives it.
        chosen: Thinking options.
    """
    dialect = profile.messages
    limit = request.max_output_tokens or profile.max_output_tokens
    known = profile.info.max_output_tokens or dialect.thinking in ("both", "adaptive")
    requested = limit or (MAX_TOKENS if known else DEFAULT_MAX_TOKENS_UNKNOWN_MODEL)
    limit = clamp_to_window(requested + chosen.room, request, profile)
    fields: dict[str, Any] = {"max_tokens": limit, "stream": True}
    thinking = _fit_thinking_budget(chosen.field, limit - min(_MIN_ANSWER_TOKENS, requested))
    if thinking is not None:
        fields["thinking"] = thinking
    if request.temperature is not None and dialect.temperature and not chosen.is_on:
        fields["temperature"] = min(request.temperature, 1.0)
    if request.sampling is not None:
        fields.update(sampling_fields("messages", request, unsupported_options(request, dialect, chosen)))
        fields.pop("disable_parallel_tool_use", None)  # part of the tool choice
    stop = [text for text in request.stop if text.strip()] if dialect.stop else []
    if stop:
        fields["stop_sequences"] = stop
    choice = _tool_choice(request, dialect)
    if choice is not None:
        fields["tool_choice"] = choice
    output: dict[str, Any] = {}
    if chosen.effort is not None:
        output["effort"] = chosen.effort
    if request.schema is not None and dialect.json_schema:
        output["format"] = {"type": "json_schema", "schema": output_schema(request.schema)}
    if output:
        fields["output_config"] = output
    if dialect.context_management is not None:
        fields["context_management"] = dialect.context_management
    fields.update(request.extra)
    return fields


def _fit_thinking_budget(field: dict[str, Any] | None, limit: int) -> dict[str, Any] | None:
    """Return the field ``thinking`` with a budget that leaves tokens for the response, or without thinking if none fits."""
    if field is None or "budget_tokens" not in field:
        return field
    budget = min(field["budget_tokens"], limit)
    return None if budget < MIN_BUDGET else {**field, "budget_tokens": budget}


def unsupported_options(
    request: ModelRequest, dialect: AnthropicCapabilities, chosen: ThinkingOptions
) -> tuple[str, ...]:
    """Return the sampling options that may not be sent: with thinking, only a high ``top_p`` may be."""
    if not chosen.is_on:
        return dialect.unsupported
    top_p = request.sampling.top_p if request.sampling is not None else None
    low = ("top_p",) if top_p is not None and top_p < _MIN_TOP_P_THINKING else ()
    return (*dialect.unsupported, "temperature", "top_k", *low)


def _tool_choice(request: ModelRequest, dialect: AnthropicCapabilities) -> dict[str, Any] | None:
    choice = request.tool_choice
    if not request.tools:
        return None
    if choice == "none":
        return {"type": "none"}
    single: dict[str, Any] = {}
    if request.sampling is not None and "parallel_tool_calls" not in dialect.unsupported:
        single = {"disable_parallel_tool_use": True} if request.sampling.parallel_tool_calls is False else {}
    if choice == "auto" or not dialect.forced_tools:
        return {"type": "auto", **single} if single else None
    return {"type": "any", **single} if choice == "required" else {"type": "tool", "name": choice, **single}


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
"""Patterns of rejected fields, and the change for each."""


def profiles_without_rejected(profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
    """Return profiles without the rejected field, the most likely first; none if the text mentions no field."""
    text = refusal.lower()
    match = _MAX_TOKENS.search(text)
    if match:
        yield replace(profile, info=replace(profile.info, max_output_tokens=int(match[1])))
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
    if not is_unsupported_parameter(text) and "cannot both be specified" not in text:
        return
    yield from without_named_fields(profile, "messages", text, _REJECTION_RULES)


def _without_thinking(profile: ModelProfile, text: str) -> Iterator[ModelProfile]:
    """Return a profile with another form of thinking, then one without thinking."""
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
    return with_capabilities(profile, "messages", change)
