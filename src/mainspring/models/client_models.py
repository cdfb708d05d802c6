"""The models of a client: made when needed, kept, and the options of a call that belong to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from mainspring.errors import ProviderConfigError
from mainspring.models.config import ProviderConfig, as_config
from mainspring.models.port import ModelProvider, ModelRequest
from mainspring.models.registry import ProviderRegistry, create_model_provider, default_registry

KeyFinder = Callable[[str], "str | Awaitable[str]"]
"""Gives the key of a provider, by its name; may be async."""

_KEPT = 4
_ALIASES = {"max_tokens": "max_output_tokens", "reasoning_effort": "thinking"}
_ASKED = frozenset(ModelRequest.__struct_fields__) - {"messages"}
_SETTINGS = (frozenset(ProviderConfig.__struct_fields__) | {"api_version", "deployment"}) - _ASKED


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a call: those of the request, and those of the provider.

    Raises:
        TypeError: If there is no such option.
    """
    asked: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for given, value in options.items():
        name = _ALIASES.get(given, given)
        if name in _ASKED:
            asked[name] = value
        elif name in _SETTINGS:
            settings[name] = value
        else:
            raise TypeError(
                f"there is no option {given!r} of a call; there are {', '.join(sorted(_ASKED | _SETTINGS))}"
            )
    return asked, settings


class ModelCache:
    """Models by their configuration; the last few are kept.

    Args:
        registry: Where providers are looked up; the built-in ones by default.
        get_api_key: Gives keys that no configuration has.
    """

    def __init__(self, registry: ProviderRegistry | None, get_api_key: KeyFinder | None) -> None:
        self._registry = registry
        self._get_api_key = get_api_key
        self._keys: dict[str, Callable[[], str | Awaitable[str]]] = {}
        self._kept: list[tuple[ProviderConfig, ModelProvider]] = []

    def named(self, spec: str) -> ProviderConfig:
        """The configuration that ``provider:model`` means."""
        name, model = (self._registry or default_registry()).split(spec)
        return ProviderConfig(provider=name, model=model)

    def made(self, config: ProviderConfig) -> ModelProvider | None:
        """The model of a configuration, if it has been made."""
        wanted = self._with_key(config)
        return next((model for known, model in self._kept if known == wanted), None)

    async def get(self, source: ModelProvider | ProviderConfig, settings: Mapping[str, Any]) -> ModelProvider:
        """The model for a call.

        Args:
            source: A model, or what it is made of.
            settings: What is different for this call.

        Raises:
            ProviderConfigError: If it cannot be made.
        """
        if not isinstance(source, ProviderConfig):
            if settings:
                raise ProviderConfigError(
                    f"{', '.join(sorted(settings))} cannot be chosen for a call: this client was given a ready model; give "
                    "it the provider's configuration instead",
                    provider=source.provider,
                    model=source.model,
                )
            return source
        config = self._with_key(_changed(source, settings))
        model = self.made(config)
        if model is None:
            model = await create_model_provider(config, registry=self._registry)
            self._kept.append((config, model))
            while len(self._kept) > _KEPT:
                await self._kept.pop(0)[1].aclose()
        return model

    async def aclose(self) -> None:
        """Close all of them; they may be used again."""
        for _, model in self._kept:
            await model.aclose()

    def _with_key(self, config: ProviderConfig) -> ProviderConfig:
        if self._get_api_key is None or config.api_key:
            return config
        name = config.provider
        find = self._keys.setdefault(name, partial(self._get_api_key, name))
        return replace(config, api_key=find)


def _changed(config: ProviderConfig, settings: Mapping[str, Any]) -> ProviderConfig:
    if not settings:
        return config
    fields = {name: getattr(config, name) for name in ProviderConfig.__struct_fields__}
    return as_config({**fields, **settings})
