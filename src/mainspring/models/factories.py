"""A function for each provider that makes a model of it, for those who do not want to name it in a text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mainspring.models.config import ProviderConfig, as_config
from mainspring.models.port import ModelProvider
from mainspring.models.registry import ProviderFactory, default_registry


def _factory(name: str) -> ProviderFactory:
    async def create(config: ProviderConfig | Mapping[str, Any]) -> ModelProvider:
        return await default_registry().factory(name)(config)

    create.__name__ = create.__qualname__ = f"create_{name}_client"
    create.__doc__ = f"""A model of the provider ``{name}``.

    Args:
        config: Its settings, as `ProviderConfig` or a plain dict with names in either case.

    Raises:
        ProviderConfigError: If a setting is missing (PROVIDER_NOT_CONFIGURED).
    """
    return create


PROVIDER_REGISTRY: Mapping[str, ProviderFactory] = MappingProxyType(
    {name: _factory(name) for name in default_registry().names()}
)
"""The async factory of each provider that comes with the program, by name. Read only; add your own to a `ProviderRegistry`."""

create_anthropic_client = _factory("anthropic")
create_azure_client = _factory("azure")
create_cerebras_client = _factory("cerebras")
create_codex_client = _factory("codex")
create_compatible_client = _factory("compatible")
create_embedded_client = _factory("embedded")
create_foundry_client = _factory("foundry")
create_gemini_client = _factory("gemini")
create_github_client = _factory("github")
create_langchain_client = _factory("langchain")
create_local_client = _factory("local")
create_ollama_client = _factory("ollama")
create_openai_client = _factory("openai")
create_openrouter_client = _factory("openrouter")


def create_anthropic_adapter(config: ProviderConfig | Mapping[str, Any]) -> ModelProvider:
    """A model that is spoken to by Anthropic Messages, at once.

    Args:
        config: Its settings: ``api_key``, ``model``, ``base_url``, ...

    Raises:
        ProviderConfigError: If a setting is missing.
    """
    return default_registry().build(as_config({**_fields(config), "provider": "anthropic"}))


def create_openai_compat_adapter(config: ProviderConfig | Mapping[str, Any]) -> ModelProvider:
    """A model of any host that is spoken to by OpenAI Chat Completions, at once.

    Args:
        config: Its settings: ``base_url``, ``model``, ``api_key``, ``vision``, ...

    Raises:
        ProviderConfigError: If a setting is missing.
    """
    return default_registry().build(as_config({**_fields(config), "provider": "compatible"}))


def _fields(config: ProviderConfig | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(config, ProviderConfig):
        return {name: getattr(config, name) for name in ProviderConfig.__struct_fields__}
    return dict(config)
