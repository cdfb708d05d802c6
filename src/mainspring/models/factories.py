"""The functions that create a model of one built-in provider, and the table of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mainspring.models.config import ProviderConfig, to_provider_config
from mainspring.models.port import ModelProvider
from mainspring.models.registry import AsyncModelFactory, ProviderRegistry, default_registry


def get_provider_factory(name: str, registry: ProviderRegistry | None = None) -> AsyncModelFactory | None:
    """Return the async factory of a built-in provider; ``None`` if the provider is unknown."""
    registry = registry or default_registry()
    return registry.factory(name) if name in registry else None


def is_provider_supported(name: str, registry: ProviderRegistry | None = None) -> bool:
    """Return True if the provider is built in."""
    return name in (registry or default_registry())


def get_supported_providers(registry: ProviderRegistry | None = None) -> list[str]:
    """Return the names of all built-in providers, sorted."""
    return (registry or default_registry()).names()


def _factory(name: str) -> AsyncModelFactory:
    async def create(config: ProviderConfig | Mapping[str, Any]) -> ModelProvider:
        return await default_registry().factory(name)(config)

    create.__name__ = create.__qualname__ = f"create_{name}_client"
    create.__doc__ = f"""Create a model of the provider ``{name}``.

    Args:
        config: Settings of the provider, as `ProviderConfig` or a plain dict in camelCase or snake_case.

    Raises:
        ProviderConfigError: A setting is missing (PROVIDER_NOT_CONFIGURED).
    """
    return create


PROVIDER_REGISTRY: Mapping[str, AsyncModelFactory] = MappingProxyType(
    {name: _factory(name) for name in default_registry().names()}
)
"""Async factories of the built-in providers, by name. Read-only; add custom providers to a `ProviderRegistry`."""


create_anthropic_client = _factory("anthropic")
create_azure_client = _factory("azure")
create_cerebras_client = _factory("cerebras")
create_codex_client = _factory("codex")
create_compatible_client = _factory("compatible")
create_embedded_client = _factory("embedded")
create_foundry_client = _factory("foundry")
create_gemini_client = _factory("gemini")
create_github_client = _factory("github")
create_groq_client = _factory("groq")
create_langchain_client = _factory("langchain")
create_local_client = _factory("local")
create_ollama_client = _factory("ollama")
create_openai_client = _factory("openai")
create_openrouter_client = _factory("openrouter")


def create_anthropic_adapter(config: ProviderConfig | Mapping[str, Any]) -> ModelProvider:
    """Create a model that uses Anthropic Messages, synchronously.

    Args:
        config: Settings, for example ``api_key``, ``model``, and ``base_url``.

    Raises:
        ProviderConfigError: A setting is missing.
    """
    return default_registry().build(to_provider_config({**_fields(config), "provider": "anthropic"}))


def create_openai_compat_adapter(config: ProviderConfig | Mapping[str, Any]) -> ModelProvider:
    """Create a model of an OpenAI-compatible host that uses Chat Completions, synchronously.

    Args:
        config: Settings, for example ``base_url``, ``model``, ``api_key``, and ``vision``.

    Raises:
        ProviderConfigError: A setting is missing.
    """
    return default_registry().build(to_provider_config({**_fields(config), "provider": "compatible"}))


def _fields(config: ProviderConfig | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(config, ProviderConfig):
        return {name: getattr(config, name) for name in ProviderConfig.__struct_fields__}
    return dict(config)
