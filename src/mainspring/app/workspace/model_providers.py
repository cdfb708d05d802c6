"""Build the registry of model providers from the settings."""

from __future__ import annotations

import difflib

from mainspring.app.workspace.settings import AppConfig
from mainspring.errors import ConfigError, ProviderConfigError
from mainspring.models import ProviderRegistry, default_registry
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import ChatCapabilities
from mainspring.models.providers.http import build_chat_model, static_api_key


def registry_of(config: AppConfig) -> ProviderRegistry:
    """The providers, with those that the settings add."""
    registry = default_registry()
    for name, section in config.providers.sections.items():
        if name not in registry and section.base_url:
            registry.register(name, build=_create_openai_compatible)
    default = config.providers.default
    if default is not None:
        if default not in registry:
            near = difflib.get_close_matches(default, registry.names(), 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(registry.names())}."
            raise ConfigError(
                f"there is no provider {default!r} (--provider, or providers.default); {hint} A section providers.{default} "
                "with a baseUrl makes one of any OpenAI-compatible server"
            )
        registry.default = default
    return registry


def _create_openai_compatible(config: ProviderConfig) -> HttpModel:
    """A provider that exists only in the settings."""
    if not config.model:
        raise ProviderConfigError(
            f"Provider {config.provider} needs a model: write {config.provider}:MODEL, or the setting "
            f"providers.{config.provider}.model",
            reason="missing_model",
            provider=config.provider,
        )
    return build_chat_model(
        config,
        provider=config.provider,
        model=config.model,
        base_url=config.base_url or "",
        key=static_api_key(config) or "",
        capabilities=ChatCapabilities(),
    )
