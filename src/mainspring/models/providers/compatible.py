"""Any other host that speaks Chat Completions."""

from __future__ import annotations

from mainspring.errors import ProviderConfigError
from mainspring.models.config import ProviderConfig
from mainspring.models.credentials import require_key, setting
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import Dialect
from mainspring.models.providers.common import given_key
from mainspring.models.providers.openai_style import chat_model

NAME = "compatible"
URL_VARIABLE = "OPENAI_COMPATIBLE_BASE_URL"


def build(config: ProviderConfig) -> HttpModel:
    """A model of any host; nothing is assumed of what it accepts.

    Raises:
        ProviderConfigError: If base URL, model or key is missing.
    """
    home = setting(None, URL_VARIABLE) or ""
    base_url = setting(config.base_url) or home
    if not base_url:
        raise ProviderConfigError(
            f"Provider {NAME} needs a base URL: set {URL_VARIABLE}, or the setting providers.{NAME}.baseUrl",
            reason="missing_base_url",
            provider=NAME,
        )
    if not config.model:
        raise ProviderConfigError(
            f"Provider {NAME} needs a model: write {NAME}:MODEL, or the setting providers.{NAME}.model",
            reason="missing_model",
            provider=NAME,
        )
    key = require_key(NAME, given_key(config), base_url=base_url, home=home)
    return chat_model(config, provider=NAME, model=config.model, base_url=base_url, key=key, accepts=Dialect())
