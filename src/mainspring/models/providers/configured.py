"""The providers of an application's configuration, for clients without an agent."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import msgspec
from msgspec import Struct

from mainspring.errors import ProviderConfigError
from mainspring.models.auth.key_sources import LazyApiKey, resolve_api_key
from mainspring.models.config import ProviderConfig, to_provider_config
from mainspring.models.provider_table import ProviderProfile
from mainspring.models.providers.http import build_hosted_model
from mainspring.models.registry import ProviderRegistry, default_registry
from mainspring.models.retry import RetryConfig


class _KeySources(Struct, frozen=True, rename="camel"):
    api_key: str | None = None
    api_key_command: str | None = None
    api_key_file: str | None = None
    api_key_keyring: str | None = None


class _RetrySettings(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    enabled: bool = True
    max_retries: int | None = None
    base_delay_ms: float | None = None
    max_delay_ms: float | None = None
    enable_jitter: bool | None = None
    mid_stream: bool | None = None


class ConfiguredProviders:
    """The providers of a configuration in the form of ``settings.json``: ``providers``, ``model``, and ``retry``.

    The configuration is read at each use, so that changes take effect.

    Args:
        config: The configuration: a dict, or the typed settings of the command.
        registry: Registry of providers; the built-in ones by default.

    Raises:
        ProviderConfigError: A part of the configuration is invalid.
    """

    def __init__(self, config: object, registry: ProviderRegistry | None = None) -> None:
        self._config = config
        self._keys: dict[tuple[str, _KeySources], LazyApiKey] = {}
        self.registry = registry or default_registry()
        for name, section in self._sections().items():
            if name not in self.registry and (url := _setting(section, "base_url")):
                host = ProviderProfile(name=name, base_url=url, key="no", quirks={"text_markup": True})
                self.registry.register(name, build=partial(build_hosted_model, host=host))

    @property
    def retry(self) -> RetryConfig:
        """The retry settings."""
        return RetryConfig.from_settings(_convert(_setting(self._config, "retry") or {}, _RetrySettings, "retry"))

    def select(self) -> ProviderConfig:
        """Return the settings of the selected provider: of ``model``, else of ``providers.default``.

        Raises:
            ProviderConfigError: The provider is unknown, or a setting is invalid.
        """
        default = _setting(_setting(self._config, "providers"), "default") or self.registry.default
        spec = _setting(self._config, "model")
        name, model = self.registry.split(spec) if spec else (default, None)
        if model == spec:  # A model without a provider.
            name = default
        section = dict(self._sections().get(name) or {})
        key = self._find_key(name, section)
        for setting in _KeySources.__struct_fields__ + _KeySources.__struct_encode_fields__:
            section.pop(setting, None)
        for setting in ("system_prompt", "systemPrompt"):
            section.pop(setting, None)
        return to_provider_config({**section, **({"model": model} if model else {}), "api_key": key, "provider": name})

    def _find_key(self, name: str, section: Mapping[str, Any]) -> Any:
        if callable(given := _setting(section, "api_key")):
            return given
        sources = _convert(
            {k: _setting(section, k) for k in _KeySources.__struct_fields__}, _KeySources, f"providers.{name}"
        )
        key = resolve_api_key(name, sources)
        return self._keys.setdefault((name, sources), key) if isinstance(key, LazyApiKey) else key

    def _sections(self) -> dict[str, Mapping[str, Any]]:
        providers: Any = _setting(self._config, "providers")
        sections: Any = getattr(providers, "sections", providers) or {}
        if not isinstance(sections, Mapping):
            raise ProviderConfigError(
                f"Invalid setting `providers`: expected an object, not {type(sections).__name__}."
            )
        named = cast("Mapping[str, Any]", sections)
        return {name: _fields(section) for name, section in named.items() if name != "default" and section is not None}


def _fields(section: Any) -> Mapping[str, Any]:
    if isinstance(section, Mapping):
        return cast("Mapping[str, Any]", section)
    return {name: getattr(section, name) for name in section.__struct_fields__}


def _setting(source: object, name: str) -> Any:
    """Return a setting of a dict, in camelCase or snake_case, or of an object."""
    if isinstance(source, Mapping):
        named = cast("Mapping[str, Any]", source)
        return named.get(_camel_case(name), named.get(name))
    return getattr(source, name, None)


def _camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join([part.capitalize() for part in rest])


def _convert(value: object, kind: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        value = {_camel_case(name): each for name, each in named.items() if each is not None and each != ""}
    try:
        return msgspec.convert(value, kind, from_attributes=True)
    except msgspec.ValidationError as error:
        raise ProviderConfigError(f"Invalid setting in `{place}`: {error}") from error
