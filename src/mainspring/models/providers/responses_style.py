"""What providers that speak OpenAI Responses have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from mainspring.errors import ProviderConfigError
from mainspring.lazy import later, lazy_re
from mainspring.models.config import ProviderConfig
from mainspring.models.dialect_responses import ResponsesDialect
from mainspring.models.http_model import Credential, HttpModel
from mainspring.models.providers.http import http_profile, never_reasons, own_setting, timeouts

if TYPE_CHECKING:
    from mainspring.models.wire.openai_responses import Responses
else:
    Responses = later("mainspring.models.wire.openai_responses", "Responses")

Api = Literal["chat", "responses"]
"""Which of OpenAI's two protocols a model is asked over."""

OPENAI = ResponsesDialect(prompt_cache_key=True, strict_tools=False)
"""What OpenAI's own servers accept, also behind Azure."""

_ONLY_RESPONSES = lazy_re(r"codex|computer-use|deep-research|(^|[^a-z0-9])(o\d|gpt-\d[\d.]*)-pro([^a-z0-9]|$)")


def only_responses(model: str) -> bool:
    """Whether a model, by its name, can be asked over Responses alone, as OpenAI's list of models says (November 2026)."""
    return _ONLY_RESPONSES.search(model.lower()) is not None


def chosen_api(config: ProviderConfig, default: Api) -> Api:
    """The setting ``api``: ``chat``, ``responses``, or what the provider takes to be right (``auto``).

    Raises:
        ProviderConfigError: If it is something else.
    """
    wanted = (own_setting(config, "api") or "auto").lower()
    match wanted:
        case "auto":
            return default
        case "chat" | "chat_completions":
            return "chat"
        case "responses":
            return "responses"
        case _:
            raise ProviderConfigError(
                f"Setting `api` of {config.provider} must be chat, responses or auto, not {wanted!r}",
                provider=config.provider,
            )


def responses_model(
    config: ProviderConfig,
    *,
    provider: str,
    model: str,
    base_url: str,
    credential: Credential | None,
    accepts: ResponsesDialect,
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
        accepts=accepts,
        headers=headers,
        key_header=key_header,
    )
    if never_reasons(provider, config.known_as or model):
        profile = replace(profile, responses=replace(profile.responses, efforts=()))
    return HttpModel(profile, Responses(), credential, timeouts=timeouts(config))
