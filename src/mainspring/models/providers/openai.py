"""OpenAI, over Chat Completions or Responses."""

from __future__ import annotations

from mainspring.models.auth.credentials import require_key, setting
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import Dialect, ResponsesDialect
from mainspring.models.providers.http import (
    OPENAI,
    chat_model,
    chosen_api,
    credential,
    given_key,
    only_responses,
    responses_model,
)

NAME = "openai"
BASE_URL = "https://api.openai.com/v1"
MODEL = "gpt-5-mini"
KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"

DIALECT = Dialect(
    max_tokens_field="max_completion_tokens",
    developer_role=False,
    prompt_cache_key=True,
    reasoning="none",
)
"""What OpenAI itself accepts."""


def build(config: ProviderConfig) -> HttpModel:
    """A model of OpenAI, or of a host that answers at ``base_url``.

    Setting of its own: ``api`` (``chat``, ``responses``, or ``auto``: Chat Completions unless the model takes only Responses).

    Raises:
        ProviderConfigError: If there is no key, or a setting is wrong.
    """
    home = setting(None, URL_VARIABLE) or BASE_URL
    base_url = setting(config.base_url) or home
    model = config.model or MODEL
    key = require_key(NAME, given_key(config), base_url=base_url, home=home)
    own = base_url.rstrip("/") == BASE_URL
    if chosen_api(config, "responses" if only_responses(model) else "chat") == "responses":
        return responses_model(
            config,
            provider=NAME,
            model=model,
            base_url=base_url,
            credential=credential(config, key),
            accepts=OPENAI if own else ResponsesDialect(),
        )
    return chat_model(
        config,
        provider=NAME,
        model=model,
        base_url=base_url,
        key=key,
        accepts=DIALECT if own else Dialect(),
    )
