"""What providers that speak Chat Completions have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.lazy import later
from mainspring.models.auth.credentials import require_key, setting
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import Credential, HttpModel
from mainspring.models.profile import Dialect
from mainspring.models.providers.http import credential, given_key, http_profile, never_reasons, timeouts
from mainspring.models.transport.port import Timeouts

if TYPE_CHECKING:
    from mainspring.models.wire.openai_chat import ChatCompletions
else:
    ChatCompletions = later("mainspring.models.wire.openai_chat", "ChatCompletions")


def chat_model(
    config: ProviderConfig,
    *,
    provider: str,
    model: str,
    base_url: str,
    key: str | Credential,
    accepts: Dialect,
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
        accepts: What the host accepts.
        limits: Limits of requests where the settings name none.
        headers: Headers that the host wants.

    Raises:
        ProviderConfigError: If a setting is wrong.
    """
    if never_reasons(provider, model):
        accepts = replace(accepts, efforts=())
    profile = http_profile(
        config,
        provider=provider,
        model=model,
        base_url=base_url,
        path="/chat/completions",
        accepts=accepts,
        headers=headers,
    )
    opens = credential(config, key) if isinstance(key, str) else key
    return HttpModel(profile, ChatCompletions(), opens, timeouts=timeouts(config, limits))


def hosted_model(
    config: ProviderConfig,
    *,
    provider: str,
    model: str,
    home: str,
    accepts: Dialect,
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
    home = setting(None, f"{provider.upper()}_BASE_URL") or home
    base_url = setting(config.base_url) or home
    return chat_model(
        config,
        provider=provider,
        model=config.model or model,
        base_url=base_url,
        key=require_key(provider, given_key(config), base_url=base_url, home=home),
        accepts=accepts,
        headers=headers,
    )
