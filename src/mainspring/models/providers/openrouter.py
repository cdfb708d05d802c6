"""OpenRouter: one key for the models of many vendors."""

from __future__ import annotations

from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import ChatCapabilities
from mainspring.models.providers.http import build_hosted_model

_NAME = "openrouter"
_BASE_URL = "https://openrouter.ai/api/v1"
_MODEL = "openrouter/auto"

_DIALECT = ChatCapabilities(
    efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
    effort_field="reasoning",
    cache_breakpoints=True,
)
"""It forwards cache breakpoints to the vendors that support them and removes them for others, like thinking."""


def build(config: ProviderConfig) -> HttpModel:
    """Create a model of OpenRouter, by its name there, for example ``anthropic/claude-sonnet-4.5``.

    Raises:
        ProviderConfigError: The key is missing.
    """
    return build_hosted_model(config, provider=_NAME, model=_MODEL, home=_BASE_URL, accepts=_DIALECT)
