"""Custom hosts of Chat Completions."""

from __future__ import annotations

from mainspring.models.config import ProviderConfig, check_settings
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import ChatCapabilities
from mainspring.models.provider_table import ProviderProfile
from mainspring.models.providers.http import build_hosted_model
from mainspring.models.registry import ModelFactory


def openai_compatible(
    name: str,
    base_url: str,
    *,
    key_variables: tuple[str, ...] = (),
    model: str = "",
    accepts: ChatCapabilities = ChatCapabilities(text_markup=True),
) -> ModelFactory:
    """Return a build function for a host of Chat Completions, for ``registry.register(name, build=...)``.

    Args:
        name: Name of the provider.
        base_url: Base URL of the host.
        key_variables: Environment variables that may contain its key, in order; if empty, no key is required.
        model: Default model.
        accepts: Capabilities of the host; as few as possible by default.

    Returns:
        A function from a `ProviderConfig` to a model. It raises `ProviderConfigError` if key or model is missing.
    """
    host = ProviderProfile(
        name=name, base_url=base_url, key_variables=key_variables, key="yes" if key_variables else "no", model=model
    )

    def create_model(config: ProviderConfig) -> HttpModel:
        check_settings(config, "compatible")
        return build_hosted_model(config, host, accepts=accepts)

    return create_model
