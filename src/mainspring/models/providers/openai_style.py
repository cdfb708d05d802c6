"""What providers that speak Chat Completions have in common."""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.models.catalog import find_entry
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import Dialect
from mainspring.models.providers.common import credential, http_profile, timeouts
from mainspring.models.transport import Timeouts
from mainspring.models.wire.openai_chat import ChatCompletions


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
    entry = find_entry(config.provider, config.model or "")
    if entry is not None and entry.reasoning is False:
        accepts = replace(accepts, efforts=())
    profile = http_profile(
        config, provider=provider, model=model, base_url=base_url, path="/chat/completions", accepts=accepts
    )
    return HttpModel(profile, ChatCompletions(), credential(config, key), timeouts=timeouts(config, limits))
