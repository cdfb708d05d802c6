"""Token counts of many hosts in one format."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring.messages import Cost, Usage
from mainspring.models import ModelInfo
from mainspring.models.usage import normalize_usage, reported_cost, with_cost


@pytest.mark.covers("MOD-29", "MOD-30", "CAC-08", "CAC-11")
@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, Usage(10, 5)),
        ({"prompt_tokens": 10, "completion_tokens": 5}, Usage(10, 5)),
        ({"input_tokens": 10, "output_tokens": 5}, Usage(10, 5)),
        ({"promptTokens": 10, "completionTokens": 5, "totalTokens": 15}, Usage(10, 5)),
        ({"inputTokens": 10, "outputTokens": 5}, Usage(10, 5)),
        ({"prompt_tokens": 10.0, "completion_tokens": 5, "total_tokens": None}, Usage(10, 5)),
        # Cached tokens are part of the prompt and are counted once.
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(6, 5, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3}}, Usage(3, 5, 4, 3)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6}, Usage(6, 5, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 4}, Usage(6, 5, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "num_cached_tokens": 4}, Usage(6, 5, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "cache_creation_input_tokens": 4}, Usage(6, 5, 0, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 99}}, Usage(0, 5, 10)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": None}, Usage(10, 5)),
        # Reasoning is part of the output, even if the host counts it separately.
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "completion_tokens_details": {"reasoning_tokens": 4}}, Usage(10, 5, 0, 0, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 19, "completion_tokens_details": {"reasoning_tokens": 4}}, Usage(10, 9, 0, 0, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}, Usage(10, 30, 0, 0, 25)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115, "prompt_tokens_details": {"audio_tokens": 100}}, Usage(110, 5)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 3}, Usage(10, 5)),
        ({"total_tokens": 7}, Usage(0, 7, 0, 0, 7)),
    ],
)  # fmt: skip
def test_token_counts_of_all_formats_are_normalized(raw: dict[str, Any], usage: Usage) -> None:
    assert normalize_usage(raw) == usage


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"prompt_tokens": None},
        {"prompt_tokens": "10"},
        {"cost": 1},
        {"prompt_tokens": -1},
        {"prompt_tokens": float("inf")},
    ],
)
def test_missing_or_invalid_counts_return_none(raw: dict[str, Any]) -> None:
    assert normalize_usage(raw) is None


COUNTS = st.integers(0, 10_000)


@given(
    prompt=COUNTS, output=COUNTS, cached=COUNTS, written=COUNTS, reasoning=COUNTS, is_reasoning_separate=st.booleans()
)
def test_total_of_the_provider_is_preserved(
    prompt: int, output: int, cached: int, written: int, reasoning: int, is_reasoning_separate: bool
) -> None:
    total = prompt + output + (reasoning if is_reasoning_separate else 0)
    usage = normalize_usage(
        {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": total,
            "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }
    )

    assert usage is not None
    assert usage.total_tokens == total
    assert usage.prompt_tokens == prompt
    assert usage.reasoning_tokens <= usage.output_tokens


def test_cost_comes_from_the_provider_or_the_price() -> None:
    usage = Usage(1_000_000, 500_000, 100_000, 10_000)

    assert with_cost(usage, ModelInfo("m", "p")).cost is None
    assert with_cost(usage, ModelInfo("m", "p", prices=(1.0, 2.0, 0.1, 1.25))).cost == Cost(1.0, 1.0, 0.01, 0.0125)
    assert with_cost(usage, ModelInfo("m", "p", prices=(1.0, 2.0, 0.1, 1.25)), Cost(output=3.0)).cost == Cost(
        output=3.0
    )


@pytest.mark.parametrize(
    ("raw", "cost"),
    [
        ({"cost": 0.5}, Cost(0.0, 0.5)),
        ({"cost": 0.5, "cost_details": {"upstream_inference_prompt_cost": 0.2}}, Cost(0.2, 0.3)),
        ({"cost": 0, "cost_details": {"upstream_inference_prompt_cost": 0.2}}, Cost()),
        ({"cost": {"input_tokens_cost": 0.25, "output_tokens_cost": 0.25, "total_cost": 0.75}}, Cost(0.25, 0.5)),
        ({"cost": None}, None),
        ({"cost": True}, None),
        ({}, None),
    ],
)
def test_reported_cost_supports_several_formats(raw: dict[str, Any], cost: Cost | None) -> None:
    assert reported_cost(raw) == cost
