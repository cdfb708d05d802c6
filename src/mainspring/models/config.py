"""Provider configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from mainspring.errors import ProviderConfigError
from mainspring.lazy import lazy_function
from mainspring.models.provider_table import PROVIDERS
from mainspring.redaction import redacted_repr
from mainspring.text import to_camel_case, to_snake_case

if TYPE_CHECKING:
    from mainspring.models.unknown_settings import explain_unknown_setting as explain_unknown_setting
else:
    explain_unknown_setting = lazy_function("mainspring.models.unknown_settings", "explain_unknown_setting")


class ModelFacts(Struct, kw_only=True, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """Facts about one model that override the catalog. ``None`` keeps the catalog's value.

    Attributes:
        context_window: Maximum number of prompt and output tokens together.
        max_output_tokens: Maximum number of output tokens.
        vision: Whether the model supports images.
        tools: Whether the model can call tools.
        reasoning: Whether the model reasons.
        prices: US dollars per million tokens: input, output, and optionally cache read, cache write, one-hour cache write.
        label: Display name.
    """

    context_window: int | None = None
    max_output_tokens: int | None = None
    vision: bool | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    prices: tuple[float, ...] | None = None
    label: str | None = None


class ProviderConfig(Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """Settings of one provider. An empty string is the same as an omitted value.

    Attributes:
        provider: Name of the provider.
        model: Model ID; each provider has a default.
        api_key: API key, or a function that returns it (may be async).
        base_url: Base URL of requests.
        headers: Additional request headers.
        context_window: Maximum number of prompt and output tokens together, if the catalog does not contain it.
        max_output_tokens: Maximum number of output tokens per response.
        vision: Whether the model supports images, if the catalog does not contain it.
        prices: Token prices, if the catalog's are missing or wrong; see `ModelFacts`.
        known_as: Name of the model in the catalog, if ``model`` is a deployment or an alias.
        models: Facts about individual models, by model ID.
        connect_timeout: Seconds to wait for a connection.
        first_byte_timeout: Seconds to wait for the start of a response; 0 waits forever.
        idle_timeout: Seconds between two chunks of a response; 0 waits forever.
        dialect: Overrides of the capabilities of the provider; see `ChatCapabilities`.
        extra: Settings that only this provider supports.
    """

    provider: str = ""
    model: str | None = None
    api_key: Any = None
    base_url: str | None = None
    headers: dict[str, str] = {}
    context_window: int | None = None
    max_output_tokens: int | None = None
    vision: bool | None = None
    prices: tuple[float, ...] | None = None
    known_as: str | None = None
    models: dict[str, ModelFacts] = {}
    connect_timeout: float | None = None
    first_byte_timeout: float | None = None
    idle_timeout: float | None = None
    dialect: dict[str, Any] = {}
    extra: dict[str, Any] = {}

    def __repr__(self) -> str:
        return redacted_repr(self, "api_key", "headers", "extra")


_FIELDS = {**{name: name for name in ProviderConfig.__struct_fields__}}
_FIELDS.update(zip(ProviderConfig.__struct_encode_fields__, ProviderConfig.__struct_fields__, strict=True))


PROVIDER_SPECIFIC_SETTINGS = frozenset(name for profile in PROVIDERS.values() for name in profile.settings)
"""Settings that only one or two providers support, of all providers; `known_settings` returns those of one."""


_COMMON_SETTINGS = {
    field: name
    for field, name in zip(ProviderConfig.__struct_fields__, ProviderConfig.__struct_encode_fields__, strict=True)
    if field not in ("provider", "extra")
}


def known_settings(provider: str) -> tuple[str, ...]:
    """Return all settings that a provider supports, in camelCase; of another OpenAI-compatible host if it is not built in."""
    profile = PROVIDERS.get(provider) or PROVIDERS["compatible"]
    return (*[name for name in _COMMON_SETTINGS.values() if name not in profile.unsupported], *profile.settings)


def check_settings(config: ProviderConfig, provider: str) -> None:
    """Reject settings that a built-in provider does not support: they would have no effect.

    Args:
        config: The settings.
        provider: Name of the built-in provider that receives them.

    Raises:
        ProviderConfigError: A setting is unknown (reason ``unknown_setting``); the text contains the setting that was meant.
    """
    known = known_settings(provider)
    given = {name: to_camel_case(name) for name, value in config.extra.items() if not _is_unset(value)}
    given |= {f: n for f, n in _COMMON_SETTINGS.items() if n not in known and not _is_unset(getattr(config, f))}
    for written, name in given.items():
        if name not in known:
            spell = str if written == name and "_" not in name and name.lower() != name else to_snake_case
            raise ProviderConfigError(
                explain_unknown_setting(provider, name, known, spell=spell),
                reason="unknown_setting",
                provider=config.provider,
            )


def _is_unset(value: Any) -> bool:
    return value is None or value == "" or value == {}


def reject_misspelled_settings(settings: Iterable[str]) -> None:
    """Reject an unknown setting that resembles a field of `ProviderConfig`.

    Other names pass: a custom provider may support them. A built-in provider rejects them later (`check_settings`).

    Raises:
        TypeError: A setting seems misspelled; the text contains the suggestion.
    """
    for name in settings:
        if name in _FIELDS or to_camel_case(name) in PROVIDER_SPECIFIC_SETTINGS:
            continue
        import difflib

        near = difflib.get_close_matches(name, ProviderConfig.__struct_fields__, 1, 0.7)
        if near:
            raise TypeError(
                f"Unknown model setting {name!r}. Did you mean {near[0]!r}? Put settings of a custom provider into extra={{...}}."
            )


def to_provider_config(config: ProviderConfig | Mapping[str, Any], provider: str = "") -> ProviderConfig:
    """Return a `ProviderConfig` from a configuration or a dict in camelCase or snake_case; unknown names go to ``extra``.

    Raises:
        ProviderConfigError: A value has the wrong type, or a name seems misspelled.
    """
    if isinstance(config, ProviderConfig):
        named = config if config.provider or not provider else msgspec.structs.replace(config, provider=provider)
        return _check_key(named)
    try:
        reject_misspelled_settings(config)
    except TypeError as error:
        raise ProviderConfigError(str(error), provider=str(config.get("provider") or provider)) from None
    known: dict[str, Any] = {}
    extra: dict[str, Any] = dict(config.get("extra") or {})
    for name, value in config.items():
        if name == "extra":
            continue
        if name in _FIELDS:
            known[_FIELDS[name]] = value
        else:
            extra[name] = value
    key = known.pop("api_key", None)
    try:
        plain = {k: v for k, v in known.items() if v is not None and v != ""}
        names = dict(zip(ProviderConfig.__struct_fields__, ProviderConfig.__struct_encode_fields__, strict=True))
        result = msgspec.convert({names[k]: v for k, v in plain.items()}, ProviderConfig)
    except msgspec.ValidationError as error:
        name = known.get("provider") or provider
        raise ProviderConfigError(f"Invalid configuration of provider {name!r}: {error}", provider=str(name)) from error
    result.api_key = key
    result.extra = extra
    result.provider = result.provider or provider
    return _check_key(result)


def _check_key(config: ProviderConfig) -> ProviderConfig:
    """Return the configuration, unless its key has a type that would be ignored.

    Raises:
        ProviderConfigError: The key is neither text nor a function.
    """
    key = config.api_key
    if (
        key is None or isinstance(key, str) or callable(key) or config.provider == "langchain"
    ):  # LangChain has its own types
        return config
    getters = ("get_api_key", "get_access_token", "get_token")
    getter = next((name for name in getters if callable(getattr(key, name, None))), "")
    raise ProviderConfigError(
        f"Invalid api_key of provider {config.provider!r}: it must be a text, or a function that returns one (may be async), not "
        f"{type(key).__name__}.{f' Pass its method: api_key=resolver.{getter}.' if getter else ''}",
        provider=config.provider,
    )


_SAME_SETTINGS = {
    "base_url": ("endpoint", "projectEndpoint", "resourceName"),
    "api_key": ("token",),
    "model": ("deployment", "modelAlias", "modelDeployment"),
}
"""Settings of some providers that win over a common one, by its name."""


def override_settings(config: ProviderConfig, settings: Mapping[str, Any]) -> ProviderConfig:
    """Return a configuration with other settings. They also replace settings of the provider with the same meaning.

    Raises:
        ProviderConfigError: A value has the wrong type.
    """
    if not settings:
        return config
    fields = {name: getattr(config, name) for name in ProviderConfig.__struct_fields__}
    replaced = {other for name in settings for other in _SAME_SETTINGS.get(name, ())}
    fields["extra"] = {name: value for name, value in config.extra.items() if to_camel_case(name) not in replaced}
    return to_provider_config({**fields, **settings})
