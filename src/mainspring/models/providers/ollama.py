"""Ollama over its own protocol, which supports more than Chat Completions: context size, thinking, and keep-alive."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec.structs import replace

from mainspring.models.auth.credentials import get_setting, require_key
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import OllamaCapabilities
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.providers.http import (
    LOCAL_TIMEOUTS,
    http_profile,
    make_credential,
    provider_setting,
    static_api_key,
    timeouts_from,
)
from mainspring.models.wire.ollama import OllamaProtocol

_NAME = "ollama"
_HOST = PROVIDERS[_NAME]
_PORT = 11434


def build(config: ProviderConfig) -> HttpModel:
    """Create a model of an Ollama server; only Ollama's cloud requires a key.

    Own settings: ``num_ctx`` (context size in tokens with which the model is loaded; defaults to ``context_window``),
    ``keep_alive`` (``5m``, seconds, or -1).

    Raises:
        ProviderConfigError: A setting is wrong, or the key of the cloud is missing.
    """
    model = config.model or _HOST.model
    base_url = base_url_from_host(get_setting(config.base_url, *_HOST.url_variables) or _HOST.base_url)
    window = provider_setting(config, "num_ctx") or config.context_window
    profile = http_profile(
        config,
        provider=_NAME,
        model=model,
        base_url=base_url.rstrip("/").removesuffix("/v1"),
        path="/api/chat",
        capabilities=OllamaCapabilities(
            think="levels" if "gpt-oss" in model else "switch",
            num_ctx=window,
            keep_alive=provider_setting(config, "keep_alive"),
        ),
    )
    if window:
        profile = replace(profile, info=replace(profile.info, context_window=window))
    key = get_setting(static_api_key(config)) or ""
    if f".{urlsplit(base_url).hostname}".endswith(".ollama.com"):
        key = key or require_key(_NAME, None, base_url=base_url, home=base_url)
        profile = replace(profile, info=replace(profile.info, prices=None))  # Paid by subscription.
    return HttpModel(
        profile, OllamaProtocol(), make_credential(config, key), timeouts=timeouts_from(config, LOCAL_TIMEOUTS)
    )


def base_url_from_host(host: str) -> str:
    """Return the base URL for ``OLLAMA_HOST``: scheme and port are optional, and a wildcard address means this machine.

    An address with a scheme has the port of the scheme by default, like in Ollama.
    """
    parts = urlsplit(host if "://" in host else f"http://{host}")
    name = parts.hostname or "localhost"
    name = "localhost" if name in ("0.0.0.0", "::") else f"[{name}]" if ":" in name else name
    port = parts.port or (None if "://" in host else _PORT)
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
