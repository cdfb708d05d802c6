"""Token counts of providers in one common form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from mainspring.messages import Cost, Usage
from mainspring.models.json_values import as_dict, as_number
from mainspring.models.port import ModelInfo

TokenUsage = Usage
"""Alias of `Usage`."""


def normalize_usage(raw: Mapping[str, Any]) -> Usage | None:
    """Return the counts of a ``usage`` object of an OpenAI-compatible host.

    There, cached prompt tokens are part of the prompt, so they are subtracted from ``input_tokens`` and not counted
    twice. Reasoning is part of the output; hosts that count it separately are detected by their total, which is always right.

    Returns:
        The counts, or ``None`` if the object contains none (so that known counts are not overwritten with zeros).
    """
    prompt = _count(raw, "prompt_tokens", "input_tokens", "promptTokens", "inputTokens")
    output = _count(raw, "completion_tokens", "output_tokens", "completionTokens", "outputTokens")
    total = _count(raw, "total_tokens", "totalTokens")
    if prompt is None and output is None and total is None:
        return None
    prompt_details = _details(raw, "prompt_tokens_details", "input_tokens_details", "input_token_details")
    output_details = _details(raw, "completion_tokens_details", "output_tokens_details", "output_token_details")
    read = _first(
        _count(prompt_details, "cached_tokens", "cache_read_tokens", "cache_read"),
        _count(raw, "cached_tokens", "num_cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"),
    )
    write = _first(
        _count(prompt_details, "cache_write_tokens", "cache_creation_tokens", "cache_creation"),
        _count(raw, "cache_creation_input_tokens"),
    )
    reasoning = _first(_count(output_details, "reasoning_tokens", "reasoning"), _count(raw, "reasoning_tokens"))
    prompt, output = prompt or 0, output or 0
    gap = (total or 0) - prompt - output
    if gap > 0:
        if gap == (_count(prompt_details, "audio_tokens") or 0):
            prompt += gap
        else:  # Every other host whose parts do not add up to its total leaves the reasoning out of the output.
            output += gap
            reasoning = max(reasoning, gap)
    read = min(read, prompt)
    write = min(write, prompt - read)
    return Usage(prompt - read - write, output, read, write, min(reasoning, output))


def extract_token_usage(source: object) -> Usage | None:
    """Extract the counts from a response, its ``usage``, or an object that contains one, of any provider or library.

    Checked in this order: ``usage``, ``token_usage``, ``usage_metadata``, ``usageMetadata``, the same inside
    ``response_metadata``, ``llm_output``, and ``message``, and the object itself. Names may be in camelCase or snake_case. Cache
    reads that are separate from the input (Anthropic) are added to the prompt; cache reads that are part of it are not counted
    again.

    Returns:
        The counts, or ``None`` if none are found.
    """
    holder = as_dict(source) or _attributes(source)
    for name in _USAGE_KEYS:
        inner = holder.get(name)
        found = extract_token_usage(inner) if inner is not None and inner is not source else None
        if found is not None:
            return found
    if any(name in holder for name in ("cache_read_input_tokens", "cache_creation_input_tokens")):
        return _anthropic_usage(holder)
    if "promptTokenCount" in holder or "candidatesTokenCount" in holder:
        return _gemini_usage(holder)
    return normalize_usage(holder)


_USAGE_KEYS = (
    "usage",
    "token_usage",
    "tokenUsage",
    "usage_metadata",
    "usageMetadata",
    "response_metadata",
    "llm_output",
    "llmOutput",
    "message",
)


def _attributes(source: object) -> Mapping[str, Any]:
    """Return the attributes of a library object."""
    return vars(source) if hasattr(source, "__dict__") else {}


def _anthropic_usage(raw: Mapping[str, Any]) -> Usage:
    """Return counts that separate the input from the cache reads and writes."""
    read, write = (_count(raw, f"cache_{kind}_input_tokens") or 0 for kind in ("read", "creation"))
    prompt, output = (
        _count(raw, "input_tokens", "prompt_tokens") or 0,
        _count(raw, "output_tokens", "completion_tokens") or 0,
    )
    if (_count(raw, "total_tokens") or 0) == prompt + output:  # An OpenAI-compatible host that also reports these.
        prompt = max(0, prompt - read - write)
    return Usage(prompt, output, read, write)


def _gemini_usage(raw: Mapping[str, Any]) -> Usage:
    prompt, read = _count(raw, "promptTokenCount") or 0, _count(raw, "cachedContentTokenCount") or 0
    thoughts = _count(raw, "thoughtsTokenCount") or 0
    return Usage(max(0, prompt - read), (_count(raw, "candidatesTokenCount") or 0) + thoughts, read, 0, thoughts)


def reported_cost(raw: Mapping[str, Any]) -> Cost | None:
    """Return the cost of the call in US dollars that the provider reported, if any."""
    parts = as_dict(raw.get("cost"))
    if parts is not None:
        given, total = as_number(parts.get("input_tokens_cost")), as_number(parts.get("total_cost"))
    else:
        details = _details(raw, "cost_details")
        given, total = as_number(details.get("upstream_inference_prompt_cost")), as_number(raw.get("cost"))
    if total is None:
        return None
    given = min(given or 0.0, total)
    return Cost(input=given, output=total - given)


def with_cost(
    usage: Usage, info: ModelInfo, reported_cost: Cost | None = None, *, cache_write_1h_tokens: int = 0
) -> Usage:
    """Return the same counts with their cost.

    Args:
        usage: Token counts.
        info: Model that responded; without known prices the cost stays unknown.
        reported_cost: Cost that the provider reported; takes precedence.
        cache_write_1h_tokens: Number of ``usage.cache_write`` tokens written to a one-hour instead of a five-minute cache.
    """
    return replace(usage, cost=reported_cost or _cost(usage, info, cache_write_1h_tokens))


def _cost(usage: Usage, info: ModelInfo, long_writes: int) -> Cost | None:
    rates, long_rate = info.prices, info.cache_write_1h
    if rates is None:
        return None
    for tier in info.tiers:
        if usage.prompt_tokens > tier.above:
            rates, long_rate = tier.prices, tier.cache_write_1h
    long_rate = 2 * rates[0] if long_rate is None else long_rate
    long_writes = min(long_writes, usage.cache_write)
    written = (usage.cache_write - long_writes) * rates[3] + long_writes * long_rate
    return Cost(
        usage.input_tokens * rates[0] / 1_000_000,
        usage.output_tokens * rates[1] / 1_000_000,
        usage.cache_read * rates[2] / 1_000_000,
        written / 1_000_000,
    )


def _count(raw: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        given = raw.get(name)
        value = None if given is None else as_number(given)
        if value is not None and value >= 0:
            return int(value)
    return None


def _details(raw: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        found = as_dict(raw.get(name))
        if found:
            return found
    return {}


def _first(*values: int | None) -> int:
    return next((value for value in values if value), 0)
