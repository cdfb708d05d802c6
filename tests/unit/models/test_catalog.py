"""The model catalog and the cost of a call."""

import time
from importlib.resources import files

import pytest

from mainspring.errors import ProviderConfigError
from mainspring.messages import Cost, Usage
from mainspring.models import ModelInfo, find_model_info
from mainspring.models.catalog import load_catalog, model_info
from mainspring.models.config import ModelFacts, to_provider_config
from mainspring.models.port import ZERO_PRICES, PriceTier
from mainspring.models.usage import with_cost


@pytest.mark.covers("MOD-32", "MOD-31")
def test_facts_of_a_known_model() -> None:
    sonnet = find_model_info("anthropic", "claude-sonnet-4-5")

    assert (sonnet.id, sonnet.provider, sonnet.label) == ("claude-sonnet-4-5", "anthropic", "Claude Sonnet 4.5")
    assert sonnet.deployment == "claude-sonnet-4-5"
    assert (sonnet.context_window, sonnet.max_output_tokens) == (200_000, 64_000)
    assert (sonnet.reasoning, sonnet.vision, sonnet.tools) == (True, True, "native")
    assert (sonnet.prices, sonnet.cache_write_1h) == ((3.0, 15.0, 0.3, 3.75), 6.0)
    assert sonnet.tiers == (PriceTier(200_000, (6.0, 22.5, 0.6, 7.5), 12.0),)


@pytest.mark.parametrize(
    ("provider", "model", "window"),
    [
        ("openai", "gpt-5-mini", 400_000),
        ("openai", "gpt-5-mini-2025-08-07", 400_000),
        ("anthropic", "claude-sonnet-4-5-20250929", 200_000),
        ("anthropic", "claude-sonnet-4.5", 200_000),
        ("gemini", "models/gemini-2.5-pro", 1_048_576),
        ("openrouter", "anthropic/claude-sonnet-4.5", 1_000_000),
        ("azure", "gpt-4o", 128_000),
        ("cerebras", "gpt-oss-120b", 131_072),
    ],
)
def test_price_is_found_under_every_name_of_a_model(provider: str, model: str, window: int) -> None:
    found = find_model_info(provider, model)

    assert (found.id, found.provider, found.context_window) == (model, provider, window)
    assert found.prices is not None
    assert min(found.prices) > 0


@pytest.mark.parametrize(
    "model",
    [
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "claude-sonnet-4-5@20250929",
        "anthropic/claude-sonnet-4.5",
        "publishers/anthropic/models/claude-sonnet-4-5",
        "claude-sonnet-4-5",
    ],
)
@pytest.mark.parametrize("provider", ["compatible", "github", "my-gateway"])
def test_gateway_model_has_the_vendor_window_and_no_price(provider: str, model: str) -> None:
    found = find_model_info(provider, model)

    assert (found.context_window, found.reasoning) == (200_000, True)
    assert (found.prices, found.tiers, found.cache_write_1h) == (None, (), None)


def test_premium_variant_has_no_price() -> None:
    assert find_model_info("openrouter", "anthropic/claude-sonnet-4.5:nitro").context_window == 1_000_000
    assert find_model_info("openrouter", "anthropic/claude-sonnet-4.5:nitro").prices is None


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-99"),
        ("openai", "gpt-5-mini-turbo"),
        ("anthropic", "claude-sonnet-4-99"),
        ("compatible", "llama"),
        ("x", ""),
    ],
)
def test_unknown_model_has_no_facts(provider: str, model: str) -> None:
    assert find_model_info(provider, model) == ModelInfo(model, provider)


def test_known_host_identifies_its_provider() -> None:
    at_groq = find_model_info("compatible", "llama-3.3-70b-versatile", base_url="https://api.groq.com/openai/v1")

    assert at_groq.prices is not None
    assert find_model_info("compatible", "llama-3.3-70b-versatile", base_url="https://groq.example/v1").prices is None


def test_local_model_is_free_and_has_an_unknown_window() -> None:
    assert find_model_info("local", "gpt-oss:20b") == ModelInfo("gpt-oss:20b", "local", prices=ZERO_PRICES)
    assert find_model_info("local", "gpt-oss:120b-cloud").prices is None


def test_every_catalog_entry_is_valid() -> None:
    catalog = load_catalog()

    assert catalog.date.startswith("20")
    assert "genai-prices" in catalog.sources
    assert len({(e.provider, e.id) for e in catalog.models}) == len(catalog.models) > 500
    for entry in catalog.models:
        assert entry.context_window is None or entry.context_window > 1000, entry
        assert entry.prices is None or min(entry.prices[:2]) > 0 or entry.id.endswith((":free", "/free")), entry
        assert [t.above for t in entry.tiers] == sorted(t.above for t in entry.tiers), entry


def test_catalog_is_small_and_loads_quickly() -> None:
    data = files("mainspring.models").joinpath("catalog.json").read_bytes()
    assert len(data) < 80_000
    load_catalog.cache_clear()
    started = time.process_time()
    find_model_info("openai", "gpt-5-mini")
    assert time.process_time() - started < 0.3  # 2ms on the development machine


# --- configured facts --------------------------------------------------------------------------------------------------


@pytest.mark.covers("MOD-32", "PRV-27")
def test_model_settings_override_provider_settings_and_the_catalog() -> None:
    config = to_provider_config(
        {
            "provider": "compatible",
            "contextWindow": 1000,
            "vision": False,
            "prices": [1, 2],
            "models": {
                "m": {"contextWindow": 2000, "maxOutputTokens": 500, "reasoning": True, "prices": [1, 2, 0.1, 3, 4]}
            },
        }
    )

    m, other = model_info(config, "compatible", "m"), model_info(config, "compatible", "other")

    assert (other.context_window, other.vision, other.prices) == (1000, False, (1.0, 2.0, 1.0, 1.0))
    assert (m.context_window, m.max_output_tokens, m.vision, m.reasoning) == (2000, 500, False, True)
    assert (m.prices, m.cache_write_1h) == ((1.0, 2.0, 0.1, 3.0), 4.0)


def test_configured_prices_have_no_price_tiers() -> None:
    config = to_provider_config({"provider": "gemini", "models": {"gemini-2.5-pro": ModelFacts(prices=(1.0, 2.0))}})

    assert model_info(config, "gemini", "gemini-2.5-pro").tiers == ()
    assert model_info(config, "gemini", "gemini-2.5-flash") == find_model_info("gemini", "gemini-2.5-flash")


def test_deployment_uses_the_facts_of_its_known_as_model() -> None:
    info = model_info(to_provider_config({"provider": "azure", "knownAs": "gpt-4o"}), "azure", "our-chat")

    assert (info.id, info.context_window) == ("our-chat", 128_000)
    assert info.prices == find_model_info("azure", "gpt-4o").prices


@pytest.mark.parametrize("prices", [[1], [1, 2, 3, 4, 5, 6], [-1, 2]])
def test_invalid_prices_are_rejected(prices: list[float]) -> None:
    with pytest.raises(ProviderConfigError, match="two to five numbers"):
        model_info(to_provider_config({"provider": "p", "prices": prices}), "p", "m")


def test_unknown_fact_is_rejected() -> None:
    with pytest.raises(ProviderConfigError, match="windw"):
        to_provider_config({"provider": "p", "models": {"m": {"windw": 1}}})


# --- cost of a call -----------------------------------------------------------------------------------------------------

INFO = ModelInfo("m", "p", prices=(1.0, 10.0, 0.1, 1.25), tiers=(PriceTier(1000, (2.0, 20.0, 0.2, 2.5), 5.0),))


@pytest.mark.covers("MOD-31")
def test_each_part_of_the_usage_has_its_price() -> None:
    usage = Usage(input_tokens=100, output_tokens=50, cache_read=400, cache_write=200)

    cost = with_cost(usage, INFO).cost

    assert cost == Cost(100e-6, 500e-6, 40e-6, 250e-6)
    assert cost is not None
    assert cost.total == pytest.approx(890e-6)


def test_long_prompt_pays_the_higher_tier_for_all_tokens() -> None:
    at = with_cost(Usage(600, 1, cache_read=400), INFO).cost
    above = with_cost(Usage(601, 1, cache_read=400), INFO).cost

    assert at == Cost(600e-6, 10e-6, 40e-6)
    assert above is not None
    assert (above.input, above.output, above.cache_read) == pytest.approx((1202e-6, 20e-6, 80e-6))


def test_one_hour_cache_writes_cost_more() -> None:
    usage = Usage(0, 0, cache_write=100)

    def write_cost(info: ModelInfo, long_writes: int) -> float:
        cost = with_cost(usage, info, cache_write_1h_tokens=long_writes).cost
        assert cost is not None
        return round(cost.cache_write * 1e6, 6)

    assert write_cost(INFO, 0) == 125
    assert write_cost(INFO, 40) == 60 * 1.25 + 40 * 2  # twice the input price if the model has no rate
    assert write_cost(ModelInfo("m", "p", prices=INFO.prices, cache_write_1h=3.0), 100) == 300
    assert write_cost(INFO, 1000) == 200  # never more than the written tokens


def test_unknown_price_gives_no_cost_and_zero_price_gives_zero_cost() -> None:
    assert with_cost(Usage(10, 10), ModelInfo("m", "p")).cost is None
    assert with_cost(Usage(10, 10), ModelInfo("m", "local", prices=ZERO_PRICES)).cost == Cost()
    assert with_cost(Usage(10, 10), INFO, Cost(output=3.0)).cost == Cost(output=3.0)
