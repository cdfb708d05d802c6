"""Build the registry of model providers from the settings."""

from __future__ import annotations

from mainspring.app.workspace.settings import AppConfig
from mainspring.errors import ErrorCode, ProviderConfigError
from mainspring.models import ProviderRegistry, default_registry
from mainspring.models.catalog import load_catalog
from mainspring.models.config import ProviderConfig, check_settings, known_settings
from mainspring.models.embedded.weights import WEIGHTS
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import ChatCapabilities
from mainspring.models.provider_prefix import explain_interpretation
from mainspring.models.providers.http import build_chat_model, static_api_key
from mainspring.text import suggest_name

_MAX_LISTED = 12
"""Maximum number of models that an error lists."""


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


def find_model_problems(config: AppConfig) -> tuple[str, ...]:
    """Return likely mistakes in the models of the settings: an unknown provider, or a model that the catalog does not list.

    Raises:
        ProviderConfigError: If the default provider is unknown.
    """
    registry = registry_of(config)
    problems = [_find_model_problem(spec, registry) for spec in (config.model, config.compaction.model) if spec]
    problems += [
        find_model_id_problem(name, section.model)
        for name, section in config.providers.sections.items()
        if section.model
    ]
    return tuple([problem for problem in dict.fromkeys(problems) if problem])


def _find_model_problem(spec: str, registry: ProviderRegistry) -> str:
    try:
        name, model = registry.split(spec)
    except ProviderConfigError as error:
        return str(error)
    problem = find_model_id_problem(name, model) if model else ""
    if not problem or model != spec:
        return problem
    return f"{problem} {explain_interpretation(spec, registry.names(), name)}, for example, ollama:{spec}."


def find_model_id_problem(provider: str, model: str) -> str:
    """Return that the catalog does not list a model; empty if it does, or if the provider serves models under any name."""
    known = [entry.id for entry in load_catalog().entries(provider)]
    if provider == "embedded":
        known = list(WEIGHTS)
    if not known or model in known or "deployment" in known_settings(provider):  # a deployment can have any name
        return ""
    listed = f"Available: {', '.join(known)}." if len(known) <= _MAX_LISTED else ""
    return f"Unknown model of {provider}: {model}. {suggest_name(model, known, listed)}".rstrip()


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
