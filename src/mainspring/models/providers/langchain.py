"""Any LangChain chat model, created from its class (extra ``langchain``)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mainspring.errors import ProviderConfigError
from mainspring.models.catalog import with_configured_facts
from mainspring.models.config import ProviderConfig
from mainspring.models.langchain import LangChainModel
from mainspring.models.langchain.detect import is_langchain_chat_model
from mainspring.models.providers.http import provider_setting

_NAME = "langchain"
_SETUP_HINT = (
    "Set providers.langchain.class to module:Class, for example langchain_google_vertexai:ChatVertexAI, or pass the chat model "
    "to the agent."
)


def build(config: ProviderConfig) -> LangChainModel:
    """Create a chat model of an installed class.

    Own settings: ``class``, for example ``langchain_google_vertexai:ChatVertexAI``; ``options``, its constructor arguments.
    ``model`` is passed as ``model``. A key in the settings is passed as ``api_key``; without one the class finds its own. The
    module is imported here: configure only a class that you trust.

    Raises:
        ProviderConfigError: The class is missing, cannot be imported, or rejects the options.
    """
    place = provider_setting(config, "class") or ""
    module, _, name = place.partition(":")
    if not module or not name:
        raise ProviderConfigError(
            f"Missing class of provider {_NAME}. {_SETUP_HINT}", reason="missing_class", provider=_NAME
        )
    options: dict[str, Any] = dict(provider_setting(config, "options") or {})
    for argument, value in (("model", config.model), ("api_key", config.api_key), ("base_url", config.base_url)):
        if value:
            options.setdefault(argument, value)
    try:
        chat_model = getattr(import_module(module), name)(**options)
    except (ImportError, AttributeError) as error:
        raise ProviderConfigError(
            f"Provider {_NAME} cannot import {place}: {error}. Install the package of the class, and the extra langchain.",
            reason="missing_package",
            provider=_NAME,
        ) from error
    except Exception as error:
        raise ProviderConfigError(f"Cannot create {place}: {error}", reason="bad_options", provider=_NAME) from error
    if not is_langchain_chat_model(chat_model):
        raise ProviderConfigError(
            f"{place} is not a LangChain chat model. {_SETUP_HINT}", reason="no_model", provider=_NAME
        )
    model = LangChainModel(chat_model)
    return LangChainModel(chat_model, info=with_configured_facts(model.info, config))
