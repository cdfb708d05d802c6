"""Cerebras."""

from __future__ import annotations

from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import ChatCapabilities
from mainspring.models.providers.http import build_hosted_model

_NAME = "cerebras"
_BASE_URL = "https://api.cerebras.ai/v1"
_MODEL = "gpt-oss-120b"

_DIALECT = ChatCapabilities(
    max_tokens_field="max_completion_tokens",
    efforts=("low", "medium", "high"),
    cache_breakpoints=False,  # It caches prefixes by itself and refuses fields that it does not know.
    tool_images=False,
)
"""What Cerebras accepts."""


def build(config: ProviderConfig) -> HttpModel:
    """A model of Cerebras.

    Raises:
        ProviderConfigError: If there is no key.
    """
    return build_hosted_model(config, provider=_NAME, model=_MODEL, home=_BASE_URL, accepts=_DIALECT)
