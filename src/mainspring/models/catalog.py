"""Catalog of facts about models. Unknown facts stay unknown.

The data (`catalog.json`) is written by ``scripts/make_model_catalog.py`` and read at the first lookup.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from pkgutil import get_data
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ProviderConfigError
from mainspring.lazy import lazy_re
from mainspring.models.config import ModelFacts, ProviderConfig
from mainspring.models.port import ZERO_PRICES, ModelInfo, PriceTier, TokenPrices
from mainspring.models.provider_table import PROVIDERS

_PRICE_ALIASES = {name: profile.prices_of for name, profile in PROVIDERS.items() if profile.prices_of}
"""Providers that sell the models of another provider at its prices."""

_LOCAL_PROVIDERS = frozenset(name for name, profile in PROVIDERS.items() if profile.local)
"""Providers that are free. The context size of their servers is not in the catalog."""

_VENDORS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google": "gemini",
    "x-ai": "xai",
    "xai": "xai",
    "mistralai": "mistral",
    "mistral-ai": "mistral",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "deepseek-ai": "deepseek",
    "moonshotai": "moonshotai",
    "qwen": "alibaba",
    "z-ai": "zai",
    "zai-org": "zai",
}
"""Vendor prefixes of gateways, and the providers they mean."""

_MODEL_MAKERS = ("openai", "anthropic", "gemini", "xai", "mistral", "deepseek")
_DATE = lazy_re(r"-(\d{8}|\d{4}-\d\d-\d\d|(0\d|1[0-2])([0-2]\d|3[01])|latest)$")
_BEDROCK = lazy_re(r"^(?:[a-z]+\.)?([a-z0-9]+)\.(.+?)(?:-v\d+(?::\d+)?)?$")
_VARIANT = lazy_re(r":(nitro|floor|exacto|thinking|extended|beta|online)$")


class CatalogEntry(Struct, frozen=True):
    """One model of the catalog; ``None`` is unknown.

    Attributes:
        provider: Provider that offers the model at these prices.
        id: Model ID of the provider.
        context_window: Maximum number of prompt and output tokens together.
        max_output_tokens: Maximum number of output tokens.
        vision: Whether the model supports images.
        tools: Whether the model can call tools.
        reasoning: Whether the model reasons.
        prices: See `ModelInfo`.
        cache_write_1h: See `ModelInfo`.
        tiers: See `ModelInfo`.
        label: Display name.
    """

    provider: str
    id: str
    context_window: int | None = None
    max_output_tokens: int | None = None
    vision: bool | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    prices: TokenPrices | None = None
    cache_write_1h: float | None = None
    tiers: tuple[PriceTier, ...] = ()
    label: str = ""


class _Row(Struct, array_like=True, frozen=True):
    id: str
    context_window: int | None
    max_output_tokens: int | None
    abilities: str | None
    prices: tuple[float | None, ...] | None
    tiers: tuple[tuple[int, tuple[float | None, ...]], ...]
    label: str


class Catalog(Struct, frozen=True, dict=True):
    """The catalog with its date and sources.

    Attributes:
        date: Date of the data, for example ``2026-11-28``.
        sources: Packages from which the data comes.
        hosts: Provider of each known host.
        providers: Models of each provider, not decoded yet.
    """

    date: str
    sources: str
    hosts: dict[str, str]
    providers: dict[str, msgspec.Raw]

    @cached_property
    def models(self) -> tuple[CatalogEntry, ...]:
        """All entries."""
        return tuple([entry for name in self.providers for entry in self.entries(name)])

    def entries(self, provider: str) -> list[CatalogEntry]:
        """Return the entries of a provider."""
        return [_entry(provider, row) for row in self._rows(provider).values()]

    def find(self, provider: str, model: str) -> CatalogEntry | None:
        """Return the entry of a model of a provider, by any of its names."""
        rows = self._rows(provider)
        for name in _candidate_names(model) if rows else ():
            row = rows.get(_key(name))
            if row is not None:
                return _entry(provider, row)
        return None

    def _rows(self, provider: str) -> dict[str, _Row]:
        """Return the models of a provider by name, decoded at first use."""
        rows = self._cache.get(provider)
        if rows is None:
            data = self.providers.get(provider)
            found = msgspec.json.decode(data, type=list[_Row]) if data is not None else []
            rows = self._cache[provider] = {_key(row.id): row for row in found}
        return rows

    @cached_property
    def _cache(self) -> dict[str, dict[str, _Row]]:
        return {}


@lru_cache(maxsize=1)
def load_catalog() -> Catalog:
    """Return the built-in catalog."""
    data = get_data("mainspring.models", "catalog.json")  # `importlib.resources` takes longer to load than all of this.
    if data is None:
        raise FileNotFoundError("mainspring/models/catalog.json")
    return msgspec.json.decode(data, type=Catalog)


def find_entry(provider: str, model: str) -> CatalogEntry | None:
    """Return the entry of a model of a provider, by its name with or without date."""
    return load_catalog().find(provider, model)


def find_model_info(provider: str, model: str, *, base_url: str = "", known_as: str = "") -> ModelInfo:
    """Return the known facts about a model.

    A dated name (``gpt-5-mini-2025-08-07``) is the model without its date, unless it has its own entry. A model that is
    found only under its vendor (``anthropic/claude-sonnet-4.5``, ``us.anthropic.claude-sonnet-4-5-20250929-v1:0`` of a
    gateway) has the vendor's window and capabilities, but no price because the price of the host is unknown. A local model is
    free. Of an unknown model nothing is known; it is assumed to support images until its host rejects them.

    Args:
        provider: Name of the provider.
        model: Model ID of the provider.
        base_url: Base URL of the model; a known host determines the provider.
        known_as: Name of the model in the catalog, if ``model`` is a deployment or an alias.
    """
    name = known_as or model
    known = load_catalog()
    if provider in _LOCAL_PROVIDERS and not name.endswith(
        "cloud"
    ):  # Ollama uses such names for models that it only forwards to a cloud host.
        return ModelInfo(model, provider, prices=ZERO_PRICES)
    host = known.hosts.get(urlsplit(base_url).hostname or "", provider) if base_url else provider
    entry = known.find(host, name) or (known.find(_PRICE_ALIASES[host], name) if host in _PRICE_ALIASES else None)
    priced = entry is not None and not _VARIANT.search(name)
    if entry is None and provider not in _LOCAL_PROVIDERS:
        entry = _find_original(name)
    if entry is None:
        return ModelInfo(model, provider)
    return ModelInfo(
        id=model,
        provider=provider,
        context_window=entry.context_window,
        max_output_tokens=entry.max_output_tokens,
        vision=entry.vision is not False,
        reasoning=entry.reasoning is True,
        tools="none" if entry.tools is False else "native",
        prices=entry.prices if priced else None,
        cache_write_1h=entry.cache_write_1h if priced else None,
        tiers=entry.tiers if priced else (),
        label=entry.label,
    )


def model_info(config: ProviderConfig, provider: str, model: str, base_url: str = "") -> ModelInfo:
    """Return the facts of the catalog, overridden by the configuration of the provider and then of this model.

    Raises:
        ProviderConfigError: The prices are not two to five numbers.
    """
    info = find_model_info(provider, model, base_url=base_url, known_as=config.known_as or "")
    return with_configured_facts(info, config)


def with_configured_facts(info: ModelInfo, config: ProviderConfig) -> ModelInfo:
    """Return the facts about a model, overridden by the configuration of its provider and then of this model.

    Raises:
        ProviderConfigError: The prices are not two to five numbers.
    """
    general = ModelFacts(context_window=config.context_window, vision=config.vision, prices=config.prices)
    for facts in (general, config.models.get(info.id)):
        if facts is not None:
            info = _apply_overrides(info, facts)
    return info


def _apply_overrides(info: ModelInfo, facts: ModelFacts) -> ModelInfo:
    names = ("context_window", "max_output_tokens", "vision", "reasoning", "label")
    changes = {name: value for name in names if (value := getattr(facts, name)) is not None}
    if facts.prices is not None:
        given = facts.prices
        if not 2 <= len(given) <= 5 or min(given) < 0:
            raise ProviderConfigError(
                f"Prices of {info.provider} must be two to five numbers (input, output, cache read, cache write, one-hour "
                f"cache write; US dollars per million tokens), not {list(given)}.",
                provider=info.provider,
            )
        changes |= {"prices": _rates(given), "cache_write_1h": given[4] if len(given) > 4 else None, "tiers": ()}
    if facts.tools is not None:
        changes["tools"] = "native" if facts.tools else "none"
    return replace(info, **changes) if changes else info


def _find_original(model: str) -> CatalogEntry | None:
    """Return the entry of a model under its original vendor."""
    known = load_catalog()
    path, deep, name = model.lower().rpartition("/models/")  # The format of Vertex: publishers/google/models/NAME
    vendor, slash, name = (path, deep, name) if deep else name.rpartition("/")
    if slash:
        owner = _VENDORS.get(vendor.rpartition("/")[2])
        return known.find(owner, name) if owner else known.find("openrouter", model)
    return next((found for owner in _MODEL_MAKERS if (found := known.find(owner, model))), None)


def _candidate_names(model: str) -> Iterator[str]:
    """Yield the names under which the catalog may contain a model, the most exact first."""
    yield model
    name = model.rpartition("@")[0] or model  # The date format of Vertex.
    bare = name.removeprefix("models/")
    bare = _VARIANT.sub("", bare)
    yield bare
    bedrock = _BEDROCK.match(bare)
    if bedrock and bedrock[1] in _VENDORS:
        bare = bedrock[2]
        yield bare
    undated = _DATE.sub("", bare)
    if undated != bare:
        yield undated


def _key(id: str) -> str:
    return id.lower().replace(".", "-")


def _entry(provider: str, row: _Row) -> CatalogEntry:
    able = row.abilities
    return CatalogEntry(
        provider,
        row.id,
        row.context_window,
        row.max_output_tokens,
        None if able is None else "i" in able,
        None if able is None else "t" in able,
        None if able is None else "r" in able,
        _rates(row.prices),
        _cache_write_1h_rate(row.prices),
        tuple([PriceTier(above, rates, _cache_write_1h_rate(p)) for above, p in row.tiers if (rates := _rates(p))]),
        row.label,
    )


def _rates(values: tuple[float | None, ...] | None) -> TokenPrices | None:
    """Return all four prices; cache prices default to the input price."""
    if values is None or values[0] is None or values[1] is None:
        return None
    read, write = (values[at] if len(values) > at else None for at in (2, 3))
    return values[0], values[1], values[0] if read is None else read, values[0] if write is None else write


def _cache_write_1h_rate(prices: tuple[float | None, ...] | None) -> float | None:
    return prices[4] if prices and len(prices) > 4 else None
