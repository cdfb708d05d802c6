"""Any other host of Chat Completions."""

from __future__ import annotations

from mainspring.errors import ProviderConfigError
from mainspring.models.auth.credentials import get_setting, require_key
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import ChatCapabilities
from mainspring.models.providers.http import build_chat_model, static_api_key
from mainspring.models.registry import ModelFactory

_NAME = "compatible"
_URL_VARIABLE = "OPENAI_COMPATIBLE_BASE_URL"


def build(config: ProviderConfig) -> HttpModel:
    """Create a model of any host; nothing is assumed about its capabilities.

    Raises:
        ProviderConfigError: The base URL, the model, or the key is missing.
    """
    home = get_setting(None, _URL_VARIABLE) or ""
    base_url = get_setting(config.base_url) or home
    if not base_url:
        raise ProviderConfigError(
            f"Missing base URL of provider {_NAME}. Set {_URL_VARIABLE}, or the setting providers.{_NAME}.baseUrl.",
            reason="missing_base_url",
            provider=_NAME,
        )
    key = require_key(_NAME, static_api_key(config), base_url=base_url, home=home)
    return build_chat_model(
        config, provider=_NAME, model=_model(config, _NAME), base_url=base_url, key=key, capabilities=ChatCapabilities()
    )


def openai_compatible(
    name: str,
    base_url: str,
    *,
    key_variables: tuple[str, ...] = (),
    model: str = "",
    accepts: ChatCapabilities = ChatCapabilities(),
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

    def create_model(config: ProviderConfig) -> HttpModel:
        at = get_setting(config.base_url) or base_url
        key = "not-needed"
        if key_variables or config.api_key:
            key = require_key(name, static_api_key(config), base_url=at, home=base_url, variables=key_variables)
        return build_chat_model(
            config,
            provider=name,
            model=_model(config, name, model),
            base_url=at,
            key=key,
            capabilities=accepts,
        )

    return create_model


def _model(config: ProviderConfig, name: str, default: str = "") -> str:
    if config.model or default:
        return config.model or default
    raise ProviderConfigError(
        f"Missing model of provider {name}. Use {name}:MODEL, or the setting providers.{name}.model.",
        reason="missing_model",
        provider=name,
    )
