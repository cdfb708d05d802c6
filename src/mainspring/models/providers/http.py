"""What all providers behind HTTP have in common, whatever protocol they speak.

The versions of interfaces that requests are written for, in one place. A setting overrides each.

They are pinned so that a change at a host does not change what is sent. What a host does not take any more in one of them is
left out after its refusal (`WireProtocol.without`), a version it does not know included.

What providers that speak Chat Completions have in common.

What providers that speak OpenAI Responses have in common.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

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
"""Where a profile keeps each kind of dialect."""


def timeouts_from(config: ProviderConfig, defaults: Timeouts = Timeouts()) -> Timeouts:
    """The limits of the configuration; 0 waits for ever."""

    def limit(value: float | None, default: float | None) -> float | None:
        return default if value is None else value or None

    return Timeouts(
        limit(config.connect_timeout, defaults.connect),
        limit(config.first_byte_timeout, defaults.first_byte),
        limit(config.idle_timeout, defaults.idle),
    )


def apply_dialect_settings(config: ProviderConfig, defaults: _D) -> _D:
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
    capabilities: AnyCapabilities,
    key_header: str = "authorization",
    headers: Mapping[str, str] | None = None,
) -> ModelProfile:
    """The profile of a model at a host.

    Args:
        config: The settings; their headers, reply cap and dialect changes are taken over.
        provider: Name of the provider.
        model: Id of the model.
        base_url: Where requests go; a query string in it goes with each request.
        path: The protocol's own path, which people may have left at the end of the base URL.
        capabilities: What the host accepts, in the dialect of the protocol that it speaks.
        key_header: Header that carries the key.
        headers: Headers that the protocol needs; those of the configuration win, in whatever case they are written.

    Raises:
        ProviderConfigError: If the base URL is no HTTP address, or the dialect's changes are wrong.
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
    )
    return replace(profile, **{_PROFILE_FIELDS[type(capabilities)]: apply_dialect_settings(config, capabilities)})


def provider_setting(config: ProviderConfig, name: str, kind: Any = str) -> Any:
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


def is_non_reasoning(provider: str, model: str) -> bool:
    """Whether a model is known not to reason; OpenAI's models are the same everywhere."""
    entry = find_entry(provider, model) or find_entry("openai", model)
    return entry is not None and entry.reasoning is False


def static_api_key(config: ProviderConfig) -> str | None:
    """The key of the configuration, if it is a text; a function is asked at each request."""
    if callable(config.api_key):
        return "asked at each request"
    return config.api_key if isinstance(config.api_key, str) else None


def make_credential(config: ProviderConfig, key: str) -> CredentialCallback:
    """What gives the key for a request: the configuration's function, or the key that was found."""
    source = config.api_key
    return cast("Callable[[], str | Awaitable[str]]", source) if callable(source) else lambda: key


ANTHROPIC = "2023-06-01"
"""Header ``anthropic-version``."""


AZURE_CHAT = "2024-06-01"
"""Query ``api-version`` of a deployment's Chat Completions."""


AZURE_RESPONSES = "2024-12-01-preview"
"""Query ``api-version`` of Azure's Responses. Hosts of the ``v1`` interface that want none get none after their refusal."""


GEMINI = "v1beta"
"""In the path: ``v1`` lacks thinking, tools in JSON Schema and the previews."""


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
    """A model at a host that speaks Chat Completions.

    Args:
        config: The settings.
        provider: Name of the provider.
        model: Id of the model.
        base_url: Where requests go, without the protocol's path.
        key: The key that was found, or what gives one for each request.
        capabilities: What the host accepts.
        limits: Limits of requests where the settings name none.
        headers: Headers that the host wants.

    Raises:
        ProviderConfigError: If a setting is wrong.
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


def build_hosted_model(
    config: ProviderConfig,
    *,
    provider: str,
    model: str,
    home: str,
    accepts: ChatCapabilities,
    headers: Mapping[str, str] | None = None,
) -> HttpModel:
    """A model at one host that wants a key: of the settings, or of the environment.

    Args:
        config: The settings; ``base_url`` may name another address of the host, and so may the environment variable
            ``<PROVIDER>_BASE_URL``, where the key of the environment goes to as well.
        provider: Name of the provider.
        model: The model where the settings name none.
        home: The host's own base URL.
        accepts: What the host accepts.
        headers: Headers that the host wants.

    Raises:
        ProviderConfigError: If there is no key, or a setting is wrong.
    """
    home = get_setting(None, f"{provider.upper()}_BASE_URL") or home
    base_url = get_setting(config.base_url) or home
    return build_chat_model(
        config,
        provider=provider,
        model=config.model or model,
        base_url=base_url,
        key=require_key(provider, static_api_key(config), base_url=base_url, home=home),
        capabilities=accepts,
        headers=headers,
    )


OpenAIApi = Literal["chat", "responses"]
"""Which of OpenAI's two protocols a model is asked over."""


OPENAI_RESPONSES = ResponsesCapabilities(prompt_cache_key=True, strict_tools=False)
"""What OpenAI's own servers accept, also behind Azure."""


_ONLY_RESPONSES = lazy_re(r"codex|computer-use|deep-research|(^|[^a-z0-9])(o\d|gpt-\d[\d.]*)-pro([^a-z0-9]|$)")


def requires_responses_api(model: str) -> bool:
    """Whether a model, by its name, can be asked over Responses alone, as OpenAI's list of models says (November 2026)."""
    return _ONLY_RESPONSES.search(model.lower()) is not None


def select_api(config: ProviderConfig, default: OpenAIApi) -> OpenAIApi:
    """The setting ``api``: ``chat``, ``responses``, or what the provider takes to be right (``auto``).

    Raises:
        ProviderConfigError: If it is something else.
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
                f"Setting `api` of {config.provider} must be chat, responses or auto, not {requested!r}",
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
    """A model at a host that speaks Responses.

    Raises:
        ProviderConfigError: If a setting is wrong.
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
