"""Common parts of all HTTP providers: profiles, settings, credentials, and API versions.

The API versions are pinned so that a change at a host does not change the requests; a setting overrides each of them. A field
that a host no longer accepts, including an unknown version, is omitted after its rejection (`WireProtocol.without_rejected`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ProviderConfigError
from mainspring.lazy import lazy_function, lazy_re
from mainspring.models.auth.credentials import check_base_url, get_setting, require_key
from mainspring.models.catalog import find_entry, model_info
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import CredentialCallback, HttpModel
from mainspring.models.profile import (
    AnthropicCapabilities,
    ChatCapabilities,
    GeminiDialect,
    ModelProfile,
    OllamaCapabilities,
    ResponsesCapabilities,
)
from mainspring.models.provider_table import OWN_SETTING_TYPES, PROVIDERS, ProviderProfile
from mainspring.models.transport.port import Timeouts

if TYPE_CHECKING:
    from mainspring.models.wire.openai_chat import ChatCompletionsProtocol
    from mainspring.models.wire.openai_responses import ResponsesProtocol
else:
    ChatCompletionsProtocol = lazy_function("mainspring.models.wire.openai_chat", "ChatCompletionsProtocol")
    ResponsesProtocol = lazy_function("mainspring.models.wire.openai_responses", "ResponsesProtocol")


AnyCapabilities = ChatCapabilities | AnthropicCapabilities | ResponsesCapabilities | GeminiDialect | OllamaCapabilities
_D = TypeVar("_D", bound=Struct)


_PROFILE_FIELDS: dict[type[Struct], str] = {
    ChatCapabilities: "dialect",
    AnthropicCapabilities: "messages",
    ResponsesCapabilities: "responses",
    GeminiDialect: "gemini",
    OllamaCapabilities: "ollama",
}
"""Profile field of each kind of capabilities."""


def timeouts_from(config: ProviderConfig, defaults: Timeouts = Timeouts()) -> Timeouts:
    """Return the time limits of the configuration; 0 waits forever."""

    def limit(value: float | None, default: float | None) -> float | None:
        return default if value is None else value or None

    return Timeouts(
        limit(config.connect_timeout, defaults.connect),
        limit(config.first_byte_timeout, defaults.first_byte),
        limit(config.idle_timeout, defaults.idle),
    )


def apply_dialect_settings(config: ProviderConfig, defaults: _D) -> _D:
    """Return the capabilities with the overrides of the configuration.

    Raises:
        ProviderConfigError: An override has an unknown name or the wrong type.
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
            f"Invalid `dialect` of {config.provider}: {error}", provider=config.provider
        ) from error


def http_profile(
    config: ProviderConfig,
    *,
    provider: str,
    model: str,
    base_url: str,
    path: str,
    capabilities: AnyCapabilities,
    key_header: str = "authorization",
    headers: Mapping[str, str] | None = None,
) -> ModelProfile:
    """Return the profile of a model at a host.

    Args:
        config: Provider settings; headers, output limit, and capability overrides are used.
        provider: Name of the provider.
        model: Model ID.
        base_url: Base URL of requests; its query string is added to each request.
        path: Path of the protocol, which users may have left at the end of the base URL.
        capabilities: Capabilities of the host for its protocol.
        key_header: Header for the key.
        headers: Headers required by the protocol; those of the configuration win, regardless of case.

    Raises:
        ProviderConfigError: The base URL is not an HTTP address, or an override is wrong.
    """
    check_base_url(provider, base_url)
    url, _, query = base_url.partition("?")
    given = {name.lower() for name in config.headers}
    own = {name: value for name, value in (headers or {}).items() if name.lower() not in given}
    profile = ModelProfile(
        info=model_info(config, provider, model, base_url),
        base_url=url.rstrip("/").removesuffix(path),
        headers={**own, **config.headers},
        key_header=key_header,
        query=query,
        max_output_tokens=config.max_output_tokens,
        asks_limits=(provider in _SELF_HOSTED or provider not in PROVIDERS) and is_local_address(url),
    )
    return replace(profile, **{_PROFILE_FIELDS[type(capabilities)]: apply_dialect_settings(config, capabilities)})


_PRIVATE = lazy_re(r"(127|10)\.[\d.]+$|192\.168\.[\d.]+$|172\.(1[6-9]|2\d|3[01])\.[\d.]+$")
_SELF_HOSTED = ("compatible", "local", "ollama", "openai")
"""Built-in providers whose address may be that of a server that the user runs."""


def is_local_address(url: str) -> bool:
    """Return True if an address is on this machine or in a private network."""
    host = (urlsplit(url).hostname or "").lower()
    if host in ("localhost", "::1") or "." not in host or host.endswith((".local", ".internal", ".lan", ".localhost")):
        return True
    return _PRIVATE.match(host) is not None


def provider_setting(config: ProviderConfig, name: str, kind: Any = None) -> Any:
    """Return a setting that only this provider supports; ``None`` if it is missing or empty.

    Args:
        config: Provider settings.
        name: Name in snake_case; camelCase is accepted too.
        kind: Type of the value; by default that of `OWN_SETTING_TYPES`, else text.

    Raises:
        ProviderConfigError: The value has another type.
    """
    head, *tail = name.split("_")
    camel = head + "".join([word.title() for word in tail])
    value = config.extra.get(name, config.extra.get(camel))
    if value is None or value == "":
        return None
    try:
        return msgspec.convert(value, kind or OWN_SETTING_TYPES.get(camel, str))
    except msgspec.ValidationError as error:
        raise ProviderConfigError(
            f"Invalid setting `{name}` of {config.provider}: {error}", provider=config.provider
        ) from error


def is_non_reasoning(provider: str, model: str) -> bool:
    """Return True if a model is known not to reason; OpenAI's models are the same at every host."""
    entry = find_entry(provider, model) or find_entry("openai", model)
    return entry is not None and entry.reasoning is False


def static_api_key(config: ProviderConfig) -> str | None:
    """Return the key of the configuration if it is a text; a function is called at each request."""
    if callable(config.api_key):
        return "called at each request"
    return config.api_key if isinstance(config.api_key, str) else None


def make_credential(config: ProviderConfig, key: str) -> CredentialCallback:
    """Return the source of the key for a request: the function of the configuration, or the key that was found."""
    source = config.api_key
    return cast("Callable[[], str | Awaitable[str]]", source) if callable(source) else lambda: key


ANTHROPIC = "2023-06-01"
"""Header ``anthropic-version``."""


AZURE_CHAT = "2024-06-01"
"""Query ``api-version`` of a deployment's Chat Completions."""


AZURE_RESPONSES = "2024-12-01-preview"
"""Query ``api-version`` of Azure's Responses. ``v1`` hosts that reject it get no version afterward."""


GEMINI = "v1beta"
"""In the path: ``v1`` does not support thinking, tools in JSON Schema, and previews."""


GITHUB = "2022-11-28"
"""Header ``x-github-api-version``."""


def build_chat_model(
    config: ProviderConfig,
    *,
    provider: str,
    model: str,
    base_url: str,
    key: str | CredentialCallback,
    capabilities: ChatCapabilities,
    limits: Timeouts = Timeouts(),
    headers: Mapping[str, str] | None = None,
) -> HttpModel:
    """Create a model at a host of Chat Completions.

    Args:
        config: Provider settings.
        provider: Name of the provider.
        model: Model ID.
        base_url: Base URL of requests, without the path of the protocol.
        key: The key, or a function that returns a key for each request.
        capabilities: Capabilities of the host.
        limits: Default time limits of requests.
        headers: Headers required by the host.

    Raises:
        ProviderConfigError: A setting is wrong.
    """
    if is_non_reasoning(provider, model):
        capabilities = replace(capabilities, efforts=())
    profile = http_profile(
        config,
        provider=provider,
        model=model,
        base_url=base_url,
        path="/chat/completions",
        capabilities=capabilities,
        headers=headers,
    )
    opens = make_credential(config, key) if isinstance(key, str) else key
    return HttpModel(profile, ChatCompletionsProtocol(), opens, timeouts=timeouts_from(config, limits))


LOCAL_TIMEOUTS = Timeouts(connect=10.0, first_byte=None, idle=None)
"""Time limits without a limit for the first byte: a local model may think for a long time."""


PLACEHOLDER_API_KEY = "not-needed"
"""Key for hosts that need none, since some of their servers expect the header."""


def build_hosted_model(
    config: ProviderConfig, host: ProviderProfile, *, accepts: ChatCapabilities | None = None
) -> HttpModel:
    """Create a model at a host of Chat Completions.

    Args:
        config: Provider settings; ``base_url`` or an environment variable may contain another address of the host. With the
            variable, the key of the environment is sent to that address too.
        host: Profile of the provider.
        accepts: Capabilities of the host; by default those of the profile.

    Raises:
        ProviderConfigError: The key, the base URL, or the model is missing, or a setting is wrong.
    """
    name = host.name
    home = get_setting(None, *host.url_variables) or host.base_url
    base_url = get_setting(config.base_url) or home
    if not base_url and host.url_variables:
        raise ProviderConfigError(
            f"Missing base URL of provider {name}. Set {host.url_variables[0]}, or the setting providers.{name}.baseUrl.",
            reason="missing_base_url",
            provider=name,
        )
    key = static_api_key(config)
    if host.key == "no":
        key = get_setting(key) or PLACEHOLDER_API_KEY
    else:
        key = require_key(name, key, base_url=base_url, home=home, variables=host.key_variables)
    model = config.model or host.model
    if not model:
        raise ProviderConfigError(
            f"Missing model of provider {name}. Use {name}:MODEL, or the setting providers.{name}.model.",
            reason="missing_model",
            provider=name,
        )
    return build_chat_model(
        config,
        provider=name,
        model=model,
        base_url=base_url,
        key=key,
        capabilities=accepts or ChatCapabilities(**host.quirks),
        limits=LOCAL_TIMEOUTS if host.local else Timeouts(),
    )


OpenAIApi = Literal["chat", "responses"]
"""The two protocols of OpenAI."""


OPENAI_RESPONSES = ResponsesCapabilities(prompt_cache_key=True, strict_tools=False)
"""Capabilities of OpenAI's own servers, also through Azure."""


_ONLY_RESPONSES = lazy_re(r"codex|computer-use|deep-research|(^|[^a-z0-9])(o\d|gpt-\d[\d.]*)-pro([^a-z0-9]|$)")


def requires_responses_api(model: str) -> bool:
    """Return True if a model supports only Responses, by its name, per OpenAI's list of models (November 2026)."""
    return _ONLY_RESPONSES.search(model.lower()) is not None


def select_api(config: ProviderConfig, default: OpenAIApi) -> OpenAIApi:
    """Return the setting ``api``: ``chat``, ``responses``, or the default of the provider (``auto``).

    Raises:
        ProviderConfigError: The value is unknown.
    """
    requested = (provider_setting(config, "api") or "auto").lower()
    match requested:
        case "auto":
            return default
        case "chat" | "chat_completions":
            return "chat"
        case "responses":
            return "responses"
        case _:
            raise ProviderConfigError(
                f"Invalid `api` of {config.provider}: {requested!r}. Use chat, responses, or auto.",
                provider=config.provider,
            )


def build_responses_model(
    config: ProviderConfig,
    *,
    provider: str,
    model: str,
    base_url: str,
    credential: CredentialCallback | None,
    accepts: ResponsesCapabilities,
    headers: Mapping[str, str] | None = None,
    key_header: str = "authorization",
) -> HttpModel:
    """Create a model at a host of Responses.

    Raises:
        ProviderConfigError: A setting is wrong.
    """
    profile = http_profile(
        config,
        provider=provider,
        model=model,
        base_url=base_url,
        path="/responses",
        capabilities=accepts,
        headers=headers,
        key_header=key_header,
    )
    if is_non_reasoning(provider, config.known_as or model):
        profile = replace(profile, responses=replace(profile.responses, efforts=()))
    return HttpModel(profile, ResponsesProtocol(), credential, timeouts=timeouts_from(config))
