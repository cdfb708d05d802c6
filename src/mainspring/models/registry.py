"""Provider registry, and functions that create models by name or by provider."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from mainspring.errors import ErrorCode, ProviderConfigError
from mainspring.lazy import lazy_re
from mainspring.models.config import ProviderConfig, reject_misspelled_settings, to_provider_config
from mainspring.models.langchain.detect import adapt_model
from mainspring.models.port import ModelProvider
from mainspring.models.provider_table import PROVIDERS, ProviderProfile

AsyncModelFactory = Callable[[Any], Awaitable[ModelProvider]]
"""Create a model from a `ProviderConfig` or a plain dict, asynchronously, for providers that need I/O.

May also return a LangChain chat model."""


ModelFactory = Callable[[ProviderConfig], ModelProvider]
"""Create a model synchronously and without I/O."""


DEFAULT_PROVIDER = "openai"
"""Provider of a model ID without a provider prefix."""


_WORDS = lazy_re(r"[a-z]+")


_SIMILARITY = 0.75
"""Similarity from which a prefix is a misspelled provider: one swapped pair of letters in a name of four."""


_MAX_LENGTH_GAP = 2
"""Largest difference in length between a provider and its misspelling, so that ``codellama`` does not mean ``ollama``."""


class ProviderRegistry:
    """Registry of providers by name.

    Args:
        default: Provider of model IDs without a provider prefix.
    """

    def __init__(self, default: str = DEFAULT_PROVIDER) -> None:
        self.default = default
        self._builders: dict[str, ModelFactory] = {}
        self._factories: dict[str, AsyncModelFactory] = {}

    def register(
        self, name: str, factory: AsyncModelFactory | None = None, *, build: ModelFactory | None = None
    ) -> None:
        """Add or replace a provider.

        Args:
            name: Name of the provider, for example ``name`` in ``name:model``.
            factory: Function that creates a model asynchronously. The default calls ``build``.
            build: Function that creates a model synchronously; required by `create_model`.
        """
        if factory is None and build is None:
            raise ValueError("A provider requires a factory or a build function.")
        self._builders.pop(name, None)
        self._factories.pop(name, None)
        if build is not None:
            self._builders[name] = build
        if factory is not None:
            self._factories[name] = factory

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted({*self._builders, *self._factories})

    def __contains__(self, name: object) -> bool:
        return name in self._builders or name in self._factories

    def factory(self, name: str) -> AsyncModelFactory:
        """Return the async factory of a provider.

        Raises:
            ProviderConfigError: Unknown provider (code PROVIDER_NOT_SUPPORTED).
        """
        found = self._factories.get(name)
        if found is not None:
            return found
        build = self._builder(name)

        async def factory(config: Any) -> ModelProvider:
            return build(to_provider_config(config, name))

        return factory

    def build(self, config: ProviderConfig) -> ModelProvider:
        """Create a model synchronously.

        Raises:
            ProviderConfigError: The provider is unknown, only supports async creation, or lacks a setting.
        """
        return adapt_model(self._builder(config.provider)(config))

    def model_name(self, config: ProviderConfig) -> str:
        """Return the model ID, or the deployment, that a configuration selects, without creating the model.

        Raises:
            ProviderConfigError: A setting is invalid.
        """
        profile = PROVIDERS.get(config.provider)
        if profile is None or config.provider not in self:
            return config.model or ""
        if profile.model_function:
            return getattr(import_module(profile.module), profile.model_function)(config)
        return config.model or profile.model

    def split(self, spec: str) -> tuple[str, str | None]:
        """Split a spec into provider and model; the text before the first colon is a provider only if it is registered.

        The name of a provider alone selects its default model.

        Raises:
            ProviderConfigError: The provider seems misspelled (code PROVIDER_NOT_SUPPORTED): its prompts would go to another one.
        """
        name, colon, model = spec.partition(":")
        if colon and name in self:
            return name, model or None
        if not colon and name in self:
            return name, None
        if colon and (meant := self._find_similar(name)):
            raise ProviderConfigError(
                f"Unknown provider: {name!r}. Did you mean {meant}:{model}? For a model of {self.default} with this name, write "
                f"{self.default}:{spec}.",
                code=ErrorCode.PROVIDER_NOT_SUPPORTED,
                reason="unknown_provider",
                provider=name,
            )
        return self.default, spec

    def with_hint(self, error: ProviderConfigError, spec: str) -> ProviderConfigError:
        """Return the error with a hint about the provider that was used, if the spec has no provider prefix."""
        name, model = self.split(spec)
        if not model or model != spec:
            return error
        return ProviderConfigError(
            f"{self._interpretation_hint(spec, name)}. {error}", code=error.code, reason=error.reason, provider=name
        )

    def _interpretation_hint(self, spec: str, name: str) -> str:
        prefix, colon, _ = spec.partition(":")
        if not colon:
            return f"{spec!r} has no provider prefix, so {name} was used. To choose another provider, write PROVIDER:{spec}"
        available = ", ".join(self.names())
        return f"Unknown provider: {prefix!r}. Available: {available}. {spec!r} was used as a model of {name}"

    def _find_similar(self, prefix: str) -> str:
        """Return the provider that a misspelled prefix means; empty if the prefix may be the name of a model."""
        compact = _compact(prefix)
        names = {_compact(name): name for name in self.names()}
        for near in difflib.get_close_matches(compact, names, 1, _SIMILARITY):
            if near == compact or (abs(len(near) - len(compact)) <= _MAX_LENGTH_GAP and not _is_model_name(prefix)):
                return names[near]
        return ""

    def _builder(self, name: str) -> ModelFactory:
        found = self._builders.get(name)
        if found is not None:
            return found
        if name in self._factories:
            raise ProviderConfigError(
                f"Provider {name!r} does not support synchronous creation. Use `await create_model_provider(...)`.",
                provider=name,
            )
        raise ProviderConfigError(
            f"Unknown provider: {name!r}. Available: {', '.join(self.names())}.",
            code=ErrorCode.PROVIDER_NOT_SUPPORTED,
            reason="unknown_provider",
            provider=name,
        )


def _compact(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "")


def _is_model_name(prefix: str) -> bool:
    """Return True if the text is a path (``org/model``) or names a family of the catalog, for example ``llama`` in ``llama3``."""
    from mainspring.models.catalog import load_catalog

    family = prefix.lower()
    if "/" in family:
        return True
    if digits := [at for at, char in enumerate(family) if char.isdigit()]:
        family = family[: digits[0]].split("-")[0]
    if family in PROVIDERS:
        return False
    return any(family in _WORDS.findall(entry.id.lower()) for entry in load_catalog().models)


def default_registry() -> ProviderRegistry:
    """Return a new registry of the built-in providers."""
    registry = ProviderRegistry()
    for profile in PROVIDERS.values():
        registry.register(profile.name, build=_lazy_builder(profile))
    return registry


def _lazy_builder(profile: ProviderProfile) -> ModelFactory:
    def build(config: ProviderConfig) -> ModelProvider:
        if profile.module:
            return import_module(profile.module).build(config)
        return import_module("mainspring.models.providers.http").build_hosted_model(config, profile)

    return build


def create_model(spec: str, *, registry: ProviderRegistry | None = None, **settings: Any) -> ModelProvider:
    """Create a model by name. Nothing is connected or loaded before the first request.

    Args:
        spec: ``provider:model``, or a model of the default provider. The prefix must be the name of a registered provider,
            so ``llama3.3:latest`` is a model.
        registry: Registry to use; the built-in providers by default.
        settings: Fields of `ProviderConfig`, for example ``base_url``, ``api_key``, ``max_output_tokens``, and settings that
            only this provider supports.

    Raises:
        TypeError: A setting resembles a field. Pass such a setting of a custom provider in ``extra={...}``.
        ProviderConfigError: The provider is unknown, seems misspelled, or lacks a setting.
    """
    registry = registry or default_registry()
    reject_misspelled_settings(settings)
    name, model = registry.split(spec)
    config = to_provider_config({**settings, "provider": name, **({"model": model} if model else {})})
    try:
        return registry.build(config)
    except ProviderConfigError as error:
        raise registry.with_hint(error, spec) from error


async def create_model_provider(
    config: ProviderConfig | Mapping[str, Any], *, registry: ProviderRegistry | None = None
) -> ModelProvider:
    """Create a model from a configuration. The provider is chosen by name, never guessed from the model.

    Raises:
        ProviderConfigError: The provider is unknown (PROVIDER_NOT_SUPPORTED) or lacks a setting (PROVIDER_NOT_CONFIGURED).
    """
    settings = to_provider_config(config)
    if not settings.provider:
        raise ProviderConfigError("The configuration contains no provider. Set `provider`.", reason="missing_provider")
    return adapt_model(await (registry or default_registry()).factory(settings.provider)(settings))


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
