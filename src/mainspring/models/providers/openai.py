"""OpenAI, over Chat Completions or Responses."""

from __future__ import annotations

from mainspring.models.auth.credentials import get_setting, require_key
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import ChatCapabilities, ResponsesCapabilities
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.providers.http import (
    OPENAI_RESPONSES,
    build_chat_model,
    build_responses_model,
    make_credential,
    requires_responses_api,
    select_api,
    static_api_key,
)

_NAME = "openai"
_HOST = PROVIDERS[_NAME]

_DIALECT = ChatCapabilities(
    max_tokens_field="max_completion_tokens",
    developer_role=False,
    prompt_cache_key=True,
    reasoning="none",
    unsupported=("top_k",),
)
"""Capabilities of OpenAI's own servers."""


def build(config: ProviderConfig) -> HttpModel:
    """Create a model of OpenAI, or of a host at ``base_url``.

    Own setting: ``api`` (``chat``, ``responses``, or ``auto``: Chat Completions unless the model supports only Responses).

    Raises:
        ProviderConfigError: The key is missing, or a setting is wrong.
    """
    home = get_setting(None, *_HOST.url_variables) or _HOST.base_url
    base_url = get_setting(config.base_url) or home
    model = config.model or _HOST.model
    key = require_key(_NAME, static_api_key(config), base_url=base_url, home=home)
    own = base_url.rstrip("/") == _HOST.base_url
    if select_api(config, "responses" if requires_responses_api(model) else "chat") == "responses":
        return build_responses_model(
            config,
            provider=_NAME,
            model=model,
            base_url=base_url,
            credential=make_credential(config, key),
            accepts=OPENAI_RESPONSES if own else ResponsesCapabilities(),
        )
    return build_chat_model(
        config,
        provider=_NAME,
        model=model,
        base_url=base_url,
        key=key,
        capabilities=_DIALECT if own else ChatCapabilities(text_markup=True),
    )
