"""What all providers behind HTTP have in common, whatever protocol they speak."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ProviderConfigError
from mainspring.models.auth.credentials import check_address
from mainspring.models.catalog import configured_info, find_entry
from mainspring.models.config import ProviderConfig
from mainspring.models.dialect_gemini import GeminiDialect
from mainspring.models.dialect_messages import MessagesDialect
from mainspring.models.dialect_ollama import OllamaDialect
from mainspring.models.dialect_responses import ResponsesDialect
from mainspring.models.http_model import Credential
from mainspring.models.profile import Dialect, Profile
from mainspring.models.transport.port import Timeouts

AnyDialect = Dialect | MessagesDialect | ResponsesDialect | GeminiDialect | OllamaDialect
_D = TypeVar("_D", bound=Struct)

_FIELDS: dict[type[Struct], str] = {
    Dialect: "dialect",
    MessagesDialect: "messages",
    ResponsesDialect: "responses",
    GeminiDialect: "gemini",
    OllamaDialect: "ollama",
}
"""Where a profile keeps each kind of dialect."""


def timeouts(config: ProviderConfig, defaults: Timeouts = Timeouts()) -> Timeouts:
    """The limits of the configuration; 0 waits for ever."""

    def limit(value: float | None, default: float | None) -> float | None:
        return default if value is None else value or None

    return Timeouts(
        limit(config.connect_timeout, defaults.connect),
        limit(config.first_byte_timeout, defaults.first_byte),
        limit(config.idle_timeout, defaults.idle),
    )


def checked_dialect(config: ProviderConfig, defaults: _D) -> _D:
    """What the host accepts, of any kind of dialect, with the changes of the configuration.

    Raises:
        ProviderConfigError: If a change names something unknown, or has the wrong type.
    """
    if not config.dialect:
        return defaults
    kind = type(defaults)
    try:
        known: Mapping[str, object] = {**msgspec.to_builtins(defaults), **config.dialect}
        if extra := set(config.dialect) - set(kind.__struct_fields__):
            raise msgspec.ValidationError(f"unknown: {', '.join(sorted(extra))}")
        return msgspec.convert(known, kind)
    except msgspec.ValidationError as error:
        raise ProviderConfigError(
            f"Setting `dialect` of {config.provider}: {error}", provider=config.provider
        ) from error


def http_profile(
    config: ProviderConfig,
    *,
    provider: str,
    model: str,
    base_url: str,
    path: str,
    accepts: AnyDialect,
    key_header: str = "authorization",
    headers: Mapping[str, str] | None = None,
) -> Profile:
    """The profile of a model at a host.

    Args:
        config: The settings; their headers, reply cap and dialect changes are taken over.
        provider: Name of the provider.
        model: Id of the model.
        base_url: Where requests go; a query string in it goes with each request.
        path: The protocol's own path, which people may have left at the end of the base URL.
        accepts: What the host accepts, in the dialect of the protocol that it speaks.
        key_header: Header that carries the key.
        headers: Headers that the protocol needs; those of the configuration win, in whatever case they are written.

    Raises:
        ProviderConfigError: If the base URL is no HTTP address, or the dialect's changes are wrong.
    """
    check_address(provider, base_url)
    url, _, query = base_url.partition("?")
    given = {name.lower() for name in config.headers}
    own = {name: value for name, value in (headers or {}).items() if name.lower() not in given}
    profile = Profile(
        info=configured_info(config, provider, model, base_url),
        base_url=url.rstrip("/").removesuffix(path),
        headers={**own, **config.headers},
        key_header=key_header,
        query=query,
        max_output_tokens=config.max_output_tokens,
    )
    return replace(profile, **{_FIELDS[type(accepts)]: checked_dialect(config, accepts)})


def own_setting(config: ProviderConfig, name: str, kind: Any = str) -> Any:
    """A setting that only this provider knows; ``None`` if it is not given, which an empty text counts as.

    Args:
        config: The settings.
        name: Its name with underscores; it may also be written in camel case.
        kind: What it must be.

    Raises:
        ProviderConfigError: If it is something else.
    """
    head, *tail = name.split("_")
    camel = head + "".join([word.title() for word in tail])
    value = config.extra.get(name, config.extra.get(camel))
    if value is None or value == "":
        return None
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ProviderConfigError(
            f"Setting `{name}` of {config.provider}: {error}", provider=config.provider
        ) from error


def never_reasons(provider: str, model: str) -> bool:
    """Whether a model is known not to reason; OpenAI's models are the same everywhere."""
    entry = find_entry(provider, model) or find_entry("openai", model)
    return entry is not None and entry.reasoning is False


def given_key(config: ProviderConfig) -> str | None:
    """The key of the configuration, if it is a text; a function is asked at each request."""
    if callable(config.api_key):
        return "asked at each request"
    return config.api_key if isinstance(config.api_key, str) else None


def credential(config: ProviderConfig, key: str) -> Credential:
    """What gives the key for a request: the configuration's function, or the key that was found."""
    source = config.api_key
    return cast("Callable[[], str | Awaitable[str]]", source) if callable(source) else lambda: key
