"""What providers that speak Chat Completions have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from mainspring.errors import ProviderConfigError
from mainspring.models.catalog import find_entry, look_up
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import Credential, HttpModel
from mainspring.models.port import ModelInfo
from mainspring.models.profile import Dialect, Profile
from mainspring.models.transport import Timeouts
from mainspring.models.wire.openai_chat import ChatCompletions


def model_info(provider: str, model: str, config: ProviderConfig) -> ModelInfo:
    """Facts of the catalogue, overridden by the configuration."""
    info = look_up(provider, model)
    changes = {
        name: value
        for name, value in (
            ("context_window", config.context_window),
            ("vision", config.vision),
        )
        if value is not None
    }
    return replace(info, **changes) if changes else info


def timeouts(config: ProviderConfig, defaults: Timeouts = Timeouts()) -> Timeouts:  # noqa: B008 - frozen
    """The limits of the configuration; 0 waits for ever."""

    def limit(value: float | None, default: float | None) -> float | None:
        return default if value is None else value or None

    return Timeouts(
        limit(config.connect_timeout, defaults.connect),
        limit(config.first_byte_timeout, defaults.first_byte),
        limit(config.idle_timeout, defaults.idle),
    )


def dialect(config: ProviderConfig, defaults: Dialect) -> Dialect:
    """What the host accepts, with the changes of the configuration.

    Raises:
        ProviderConfigError: If a change names something unknown.
    """
    entry = find_entry(config.provider, config.model or "")
    if entry is not None and entry.reasoning is False:
        defaults = replace(defaults, efforts=())
    if not config.dialect:
        return defaults
    try:
        known: Mapping[str, object] = {**msgspec.to_builtins(defaults), **config.dialect}
        if extra := set(config.dialect) - set(Dialect.__struct_fields__):
            raise msgspec.ValidationError(f"unknown: {', '.join(sorted(extra))}")
        return msgspec.convert(known, Dialect)
    except msgspec.ValidationError as error:
        raise ProviderConfigError(
            f"Setting `dialect` of {config.provider}: {error}", provider=config.provider
        ) from error


def chat_model(
    config: ProviderConfig,
    *,
    provider: str,
    model: str,
    base_url: str,
    key: str,
    accepts: Dialect,
    limits: Timeouts = Timeouts(),  # noqa: B008 - frozen
) -> HttpModel:
    """A model at a host that speaks Chat Completions."""
    if not base_url.startswith(("http://", "https://")):
        raise ProviderConfigError(
            f"The base URL of {provider} must begin with http:// or https://, not {base_url!r}", provider=provider
        )
    url, _, query = base_url.partition("?")
    profile = Profile(
        info=model_info(provider, model, config),
        base_url=url.rstrip("/").removesuffix("/chat/completions"),
        dialect=dialect(config, accepts),
        headers=dict(config.headers),
        query=query,
        max_output_tokens=config.max_output_tokens,
    )
    return HttpModel(profile, ChatCompletions(), _credential(config.api_key, key), timeouts=timeouts(config, limits))


def given_key(config: ProviderConfig) -> str | None:
    """The key of the configuration, if it is a text; a function is asked at each request."""
    if callable(config.api_key):
        return "asked at each request"
    return config.api_key if isinstance(config.api_key, str) else None


def _credential(source: Any, key: str) -> Credential:
    return cast("Credential", source) if callable(source) else lambda: key
