"""Build the registry of model providers from the settings."""

from __future__ import annotations

from mainspring.app.workspace.settings import AppConfig
from mainspring.errors import ErrorCode, ProviderConfigError
from mainspring.models import ProviderRegistry, default_registry
from mainspring.models.config import ProviderConfig, check_settings
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import ChatCapabilities
from mainspring.models.providers.http import build_chat_model, static_api_key
from mainspring.text import suggest_name


def registry_of(config: AppConfig) -> ProviderRegistry:
    """Return the built-in providers, and those that the settings add."""
    registry = default_registry()
    for name, section in config.providers.sections.items():
        if name not in registry and section.base_url:
            registry.register(name, build=_create_openai_compatible)
    default = config.providers.default
    if default is not None:
        if default not in registry:
            available = f"Available providers: {', '.join(registry.names())}."
            hint = suggest_name(default, registry.names(), available, cutoff=0.7)
            raise ProviderConfigError(
                f"Unknown provider: {default!r} (--provider, or providers.default). {hint} To add an OpenAI-compatible server, set baseUrl in "
                f"the section providers.{default}.",
                code=ErrorCode.PROVIDER_NOT_SUPPORTED,
                reason="unknown_provider",
                provider=default,
            )
        registry.default = default
    return registry


def _create_openai_compatible(config: ProviderConfig) -> HttpModel:
    """Create a model of a provider that is defined only in the settings."""
    check_settings(config, "compatible")
    if not config.model:
        raise ProviderConfigError(
            f"Provider {config.provider} requires a model. Use {config.provider}:MODEL, or set "
            f"providers.{config.provider}.model.",
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
