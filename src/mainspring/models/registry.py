"""Providers by name, and models out of them.

A function for each provider that makes a model of it, for those who do not want to name it in a text.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from mainspring.errors import ErrorCode, ProviderConfigError
from mainspring.models.config import ProviderConfig, reject_misspelled_settings, to_provider_config
from mainspring.models.langchain.detect import adapt_model
from mainspring.models.port import ModelProvider

AsyncModelFactory = Callable[[Any], Awaitable[ModelProvider]]
"""Makes a model of a provider from a `ProviderConfig` or a plain dict; async, for providers that have to look around. It may
also give a chat model of LangChain."""


ModelFactory = Callable[[ProviderConfig], ModelProvider]
"""The same, at once: cheap, without I/O."""


DEFAULT_PROVIDER = "openai"
"""Provider of a model id that names none."""


_BUILTIN_PROVIDERS = {
    "anthropic": "mainspring.models.providers.anthropic",
    "azure": "mainspring.models.providers.azure",
    "codex": "mainspring.models.providers.codex",
    "foundry": "mainspring.models.providers.foundry",
    "openai": "mainspring.models.providers.openai",
    "compatible": "mainspring.models.providers.compatible",
    "cerebras": "mainspring.models.providers.cerebras",
    "gemini": "mainspring.models.providers.gemini",
    "github": "mainspring.models.providers.github",
    "openrouter": "mainspring.models.providers.openrouter",
    "langchain": "mainspring.models.providers.langchain",
    "local": "mainspring.models.providers.local_servers",
    "ollama": "mainspring.models.providers.ollama",
    "embedded": "mainspring.models.embedded.provider",
}
"""Each module has a function ``build(config) -> ModelProvider``; it is imported when the provider is used."""


class ProviderRegistry:
    """Knows providers by name.

    Args:
        default: The provider of model ids that name none.
    """

    def __init__(self, default: str = DEFAULT_PROVIDER) -> None:
        self.default = default
        self._builders: dict[str, ModelFactory] = {}
        self._factories: dict[str, AsyncModelFactory] = {}

    def register(
        self, name: str, factory: AsyncModelFactory | None = None, *, build: ModelFactory | None = None
    ) -> None:
        """Add a provider, or replace one.

        Args:
            name: Its name, as in ``name:model``.
            factory: Makes a model asynchronously. Without it ``build`` is used.
            build: Makes a model at once; needed for `create_model`.
        """
        if factory is None and build is None:
            raise ValueError("a provider needs a factory or a builder")
        self._builders.pop(name, None)
        self._factories.pop(name, None)
        if build is not None:
            self._builders[name] = build
        if factory is not None:
            self._factories[name] = factory

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted({*self._builders, *self._factories})

    def __contains__(self, name: object) -> bool:
        return name in self._builders or name in self._factories

    def factory(self, name: str) -> AsyncModelFactory:
        """The async factory of a provider.

        Raises:
            ProviderConfigError: With code PROVIDER_NOT_SUPPORTED if there is none of this name.
        """
        found = self._factories.get(name)
        if found is not None:
            return found
        build = self._builder(name)

        async def factory(config: Any) -> ModelProvider:
            return build(to_provider_config(config, name))

        return factory

    def build(self, config: ProviderConfig) -> ModelProvider:
        """A model, at once.

        Raises:
            ProviderConfigError: If the provider is unknown, can only be made asynchronously, or lacks a setting.
        """
        return adapt_model(self._builder(config.provider)(config))

    def split(self, spec: str) -> tuple[str, str | None]:
        """Provider and model of a spec: what stands before the first colon is a provider only if one has that name.

        The name of a provider alone is its default model.
        """
        name, colon, model = spec.partition(":")
        if colon and name in self:
            return name, model or None
        if not colon and name in self:
            return name, None
        return self.default, spec

    def suggest(self, spec: str) -> str:
        """The spec with the provider that it nearly names; empty if there is none (models have colons in their names too)."""
        prefix, colon, model = spec.partition(":")
        near = difflib.get_close_matches(prefix, self.names(), 1, 0.8) if colon and prefix not in self else []
        return f"{near[0]}:{model}" if near else ""

    def with_hint(self, error: ProviderConfigError, spec: str) -> ProviderConfigError:
        """The same error; where the spec names no provider it also says what was made of it, and what may have been meant."""
        name, model = self.split(spec)
        if not model or model != spec:
            return error
        return ProviderConfigError(
            f"{self._interpretation_hint(spec, name)}. {error}", code=error.code, reason=error.reason, provider=name
        )

    def _interpretation_hint(self, spec: str, name: str) -> str:
        prefix, colon, _ = spec.partition(":")
        if not colon:
            return (
                f"{spec!r} names no provider, so it was taken as a model of {name}; for another write PROVIDER:{spec}"
            )
        meant = self.suggest(spec)
        hint = f"did you mean {meant}?" if meant else f"there are {', '.join(self.names())}"
        return f"{prefix!r} is no provider ({hint}), so {spec!r} was taken as a model of {name}"

    def _builder(self, name: str) -> ModelFactory:
        found = self._builders.get(name)
        if found is not None:
            return found
        if name in self._factories:
            raise ProviderConfigError(
                f"Provider {name!r} can only be made with `await create_model_provider(...)`", provider=name
            )
        raise ProviderConfigError(
            f"There is no provider {name!r}; known are {', '.join(self.names())}",
            code=ErrorCode.PROVIDER_NOT_SUPPORTED,
            reason="unknown_provider",
            provider=name,
        )


def default_registry() -> ProviderRegistry:
    """A new registry of the providers that come with the program."""
    registry = ProviderRegistry()
    for name, module in _BUILTIN_PROVIDERS.items():
        registry.register(name, build=_lazy_builder(module))
    return registry


def _lazy_builder(module: str) -> ModelFactory:
    def build(config: ProviderConfig) -> ModelProvider:
        return import_module(module).build(config)

    return build


def create_model(spec: str, *, registry: ProviderRegistry | None = None, **settings: Any) -> ModelProvider:
    """A model by name. Cheap: nothing is connected or loaded before the first request.

    Args:
        spec: ``provider:model``, or a model of the default provider. Only the name of a registered provider counts as one,
            so ``llama3.3:latest`` is a model.
        registry: Where to look; the built-in providers by default.
        settings: Fields of `ProviderConfig`: ``base_url``, ``api_key``, ``max_output_tokens``, ...; and what only this provider
            knows.

    Raises:
        TypeError: If one looks like a misspelt field; what a provider of your own calls so goes in ``extra={...}``.
        ProviderConfigError: If the provider is unknown or lacks a setting.
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
    """A model from its configuration. The provider is chosen by its name, never guessed from the model's.

    Raises:
        ProviderConfigError: If the provider is unknown (PROVIDER_NOT_SUPPORTED) or lacks a setting (PROVIDER_NOT_CONFIGURED).
    """
    settings = to_provider_config(config)
    if not settings.provider:
        raise ProviderConfigError("The configuration names no provider (setting `provider`)", reason="missing_provider")
    return adapt_model(await (registry or default_registry()).factory(settings.provider)(settings))


def get_provider_factory(name: str, registry: ProviderRegistry | None = None) -> AsyncModelFactory:
    """The async factory of a provider.

    Raises:
        ProviderConfigError: With code PROVIDER_NOT_SUPPORTED if there is none of this name.
    """
    return (registry or default_registry()).factory(name)


def is_provider_supported(name: str, registry: ProviderRegistry | None = None) -> bool:
    """Whether there is a provider of this name."""
    return name in (registry or default_registry())


def get_supported_providers(registry: ProviderRegistry | None = None) -> list[str]:
    """The names of all providers, sorted."""
    return (registry or default_registry()).names()


def _factory(name: str) -> AsyncModelFactory:
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


PROVIDER_REGISTRY: Mapping[str, AsyncModelFactory] = MappingProxyType(
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


def create_anthropic_model(config: ProviderConfig | Mapping[str, Any]) -> ModelProvider:
    """A model that is spoken to by Anthropic Messages, at once.

    Args:
        config: Its settings: ``api_key``, ``model``, ``base_url``, ...

    Raises:
        ProviderConfigError: If a setting is missing.
    """
    return default_registry().build(to_provider_config({**_fields(config), "provider": "anthropic"}))


def create_openai_compatible_model(config: ProviderConfig | Mapping[str, Any]) -> ModelProvider:
    """A model of any host that is spoken to by OpenAI Chat Completions, at once.

    Args:
        config: Its settings: ``base_url``, ``model``, ``api_key``, ``vision``, ...

    Raises:
        ProviderConfigError: If a setting is missing.
    """
    return default_registry().build(to_provider_config({**_fields(config), "provider": "compatible"}))


def _fields(config: ProviderConfig | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(config, ProviderConfig):
        return {name: getattr(config, name) for name in ProviderConfig.__struct_fields__}
    return dict(config)
