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
    cache_breakpoints=False,  # Cerebras caches prefixes automatically and rejects unknown fields.
    tool_images=False,
)
"""Capabilities of Cerebras."""


def build(config: ProviderConfig) -> HttpModel:
    """Create a model of Cerebras.

    Raises:
        ProviderConfigError: The key is missing.
    """
    return build_hosted_model(config, provider=_NAME, model=_MODEL, home=_BASE_URL, accepts=_DIALECT)
