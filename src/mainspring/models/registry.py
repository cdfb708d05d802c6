"""Provider registry, and functions that create models by name or by provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mainspring.errors import ErrorCode, ProviderConfigError
from mainspring.lazy import lazy_function
from mainspring.models.config import ProviderConfig, check_settings, reject_misspelled_settings, to_provider_config
from mainspring.models.langchain.detect import adapt_model
from mainspring.models.port import ModelProvider, with_transport
from mainspring.models.provider_table import PROVIDERS, ProviderProfile

if TYPE_CHECKING:
    from mainspring.models.transport.port import Transport

_Explain = Callable[[str, Sequence[str], str], str]
_explain_interpretation: _Explain = lazy_function("mainspring.models.provider_prefix", "explain_interpretation")
_explain_unknown_prefix: _Explain = lazy_function("mainspring.models.provider_prefix", "explain_unknown_prefix")

AsyncModelFactory = Callable[[Any], Awaitable[ModelProvider]]
"""Create a model from a `ProviderConfig` or a plain dict, asynchronously, for providers that need I/O.

May also return a LangChain chat model."""


ModelFactory = Callable[[ProviderConfig], ModelProvider]
"""Create a model synchronously and without I/O."""


DEFAULT_PROVIDER = "openai"
"""Provider of a model ID without a provider prefix."""


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
            ProviderConfigError: The text before the colon seems to be an unknown or misspelled provider, whose prompts would go to
                another one (code PROVIDER_NOT_SUPPORTED).
        """
        name, colon, model = spec.partition(":")
        if colon and name in self:
            return name, model or None
        if not colon and name in self:
            return name, None
        if colon and (text := _explain_unknown_prefix(spec, self.names(), self.default)):
            raise ProviderConfigError(
                text, code=ErrorCode.PROVIDER_NOT_SUPPORTED, reason="unknown_provider", provider=name
            )
        return self.default, spec

    def with_hint(self, error: ProviderConfigError, spec: str) -> ProviderConfigError:
        """Return the error with a hint about the provider that was used, if the spec has no provider prefix."""
        name, model = self.split(spec)
        if not model or model != spec:
            return error
        hint = _explain_interpretation(spec, self.names(), name)
        return ProviderConfigError(f"{hint}. {error}", code=error.code, reason=error.reason, provider=name)

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


def default_registry() -> ProviderRegistry:
    """Return a new registry of the built-in providers."""
    registry = ProviderRegistry()
    for profile in PROVIDERS.values():
        registry.register(profile.name, build=_lazy_builder(profile))
    return registry


def _lazy_builder(profile: ProviderProfile) -> ModelFactory:
    def build(config: ProviderConfig) -> ModelProvider:
        check_settings(config, profile.name)
        if profile.module:
            return import_module(profile.module).build(config)
        return import_module("mainspring.models.providers.http").build_hosted_model(config, profile)

    return build


def create_model(
    spec: str, *, registry: ProviderRegistry | None = None, transport: Transport | None = None, **settings: Any
) -> ModelProvider:
    """Create a model by name. Nothing is connected or loaded before the first request.

    Args:
        spec: ``provider:model``, or a model of the default provider. The prefix must be the name of a registered provider,
            so ``llama3.3:latest`` is a model.
        registry: Registry to use; the built-in providers by default.
        transport: Transport for its requests, for example one that records them (default: the one that all models share).
        settings: Fields of `ProviderConfig`, for example ``base_url``, ``api_key``, ``max_output_tokens``, and settings that
            only this provider supports.

    Raises:
        TypeError: A built-in provider does not support a setting, or a setting resembles a field; the text contains the setting
            that was meant. Pass such a setting of a custom provider in ``extra={...}``.
        ProviderConfigError: The provider is unknown, seems misspelled, lacks a setting, or takes no transport.
    """
    registry = registry or default_registry()
    reject_misspelled_settings(settings)
    name, model = registry.split(spec)
    config = to_provider_config({**settings, "provider": name, **({"model": model} if model else {})})
    try:
        built = registry.build(config)
        return built if transport is None else with_transport(built, transport)
    except ProviderConfigError as error:
        if error.reason == "unknown_setting":
            raise TypeError(str(error)) from None
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
