"""OpenAI, over Chat Completions."""

from __future__ import annotations

from mainspring.models.config import ProviderConfig
from mainspring.models.credentials import require_key, setting
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import Dialect
from mainspring.models.providers.common import given_key
from mainspring.models.providers.openai_style import chat_model

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

    Raises:
        ProviderConfigError: If there is no key.
    """
    home = setting(None, URL_VARIABLE) or BASE_URL
    base_url = setting(config.base_url) or home
    key = require_key(NAME, given_key(config), base_url=base_url, home=home)
    own = base_url.rstrip("/") == BASE_URL
    return chat_model(
        config,
        provider=NAME,
        model=config.model or MODEL,
        base_url=base_url,
        key=key,
        accepts=DIALECT if own else Dialect(),
    )
