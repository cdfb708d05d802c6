"""Token counts as providers tell them, brought to one form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.messages import Cost, Usage
from mainspring.models.json_values import as_number, as_object
from mainspring.models.port import ModelInfo


def normalize_usage(raw: Mapping[str, Any]) -> Usage | None:
    """The counts of a ``usage`` object of an OpenAI-style host.

    Cached prompt tokens are part of the prompt there, so they are taken out of ``input_tokens`` and nothing is counted
    twice. Reasoning is part of the output; hosts that count it apart are found by their total, which always holds.

    Returns:
        The counts, or ``None`` if the object holds none (so that nothing already known is overwritten with zeros).
    """
    prompt = _count(raw, "prompt_tokens", "input_tokens", "promptTokens", "inputTokens")
    output = _count(raw, "completion_tokens", "output_tokens", "completionTokens", "outputTokens")
    total = _count(raw, "total_tokens", "totalTokens")
    if prompt is None and output is None and total is None:
        return None
    prompt_details = _details(raw, "prompt_tokens_details", "input_tokens_details")
    output_details = _details(raw, "completion_tokens_details", "output_tokens_details")
    read = _first(
        _count(prompt_details, "cached_tokens", "cache_read_tokens"),
        _count(raw, "cached_tokens", "num_cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"),
    )
    write = _first(
        _count(prompt_details, "cache_write_tokens", "cache_creation_tokens"),
        _count(raw, "cache_creation_input_tokens"),
    )
    reasoning = _first(_count(output_details, "reasoning_tokens"), _count(raw, "reasoning_tokens"))
    prompt, output = prompt or 0, output or 0
    gap = (total or 0) - prompt - output
    if gap > 0:
        if gap == (_count(prompt_details, "audio_tokens") or 0):
            prompt += gap
        else:  # Every other host whose parts do not make its total leaves the reasoning out of the output.
            output += gap
            reasoning = max(reasoning, gap)
    read = min(read, prompt)
    write = min(write, prompt - read)
    return Usage(prompt - read - write, output, read, write, min(reasoning, output))


def told_cost(raw: Mapping[str, Any]) -> Cost | None:
    """What the provider says the call cost in US dollars, where it says so."""
    parts = as_object(raw.get("cost"))
    if parts is not None:
        given, total = as_number(parts.get("input_tokens_cost")), as_number(parts.get("total_cost"))
    else:
        details = _details(raw, "cost_details")
        given, total = as_number(details.get("upstream_inference_prompt_cost")), as_number(raw.get("cost"))
    if total is None:
        return None
    given = min(given or 0.0, total)
    return Cost(input=given, output=total - given)


def priced(usage: Usage, info: ModelInfo, told: Cost | None = None) -> Usage:
    """The same counts with their cost.

    Args:
        usage: The counts.
        info: The model that answered; with unknown prices the cost stays unknown.
        told: What the provider itself says it cost; wins.
    """
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read, usage.cache_write)
    if told is None and info.prices is not None:
        told = Cost(*[count * rate / 1_000_000 for count, rate in zip(counts, info.prices, strict=True)])
    return Usage(*counts, usage.reasoning_tokens, told)


def _count(raw: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = as_number(raw.get(name))
        if value is not None and value >= 0:
            return int(value)
    return None


def _details(raw: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    nothing: dict[str, Any] = {}
    return next((found for name in names if (found := as_object(raw.get(name)))), nothing)


def _first(*values: int | None) -> int:
    return next((value for value in values if value), 0)
