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
"""It hands cache breakpoints on to the vendors that want them, and leaves them out for the others; thinking likewise."""


def build(config: ProviderConfig) -> HttpModel:
    """A model behind OpenRouter, by its name there, as in ``anthropic/claude-sonnet-4.5``.

    Raises:
        ProviderConfigError: If there is no key.
    """
    return build_hosted_model(config, provider=_NAME, model=_MODEL, home=_BASE_URL, accepts=_DIALECT)
