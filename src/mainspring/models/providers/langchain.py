"""Any LangChain chat model, made from its class (extra ``langchain``)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mainspring.errors import ProviderConfigError
from mainspring.models.config import ProviderConfig
from mainspring.models.langchain import LangChainModel
from mainspring.models.langchain.detect import is_langchain_chat_model
from mainspring.models.providers.http import provider_setting

_NAME = "langchain"
_SETUP_HINT = (
    "set providers.langchain.class to module:Class, as in langchain_google_vertexai:ChatVertexAI, or pass the chat model "
    "itself to the agent"
)


def build(config: ProviderConfig) -> LangChainModel:
    """A chat model of a class that is installed.

    Settings of its own: ``class``, as in ``langchain_google_vertexai:ChatVertexAI``; ``options``, the arguments to make one
    with. ``model`` is passed as ``model``. A key of the settings is passed as ``api_key``; without one the class looks for its
    own. The module is imported here: name only what you trust.

    Raises:
        ProviderConfigError: If there is no class, it cannot be imported, or it does not take the options.
    """
    place = provider_setting(config, "class") or ""
    module, _, name = place.partition(":")
    if not module or not name:
        raise ProviderConfigError(
            f"Provider {_NAME} needs a class: {_SETUP_HINT}", reason="missing_class", provider=_NAME
        )
    options: dict[str, Any] = dict(provider_setting(config, "options", dict[str, Any]) or {})
    for argument, value in (("model", config.model), ("api_key", config.api_key), ("base_url", config.base_url)):
        if value:
            options.setdefault(argument, value)
    try:
        made = getattr(import_module(module), name)(**options)
    except (ImportError, AttributeError) as error:
        raise ProviderConfigError(
            f"Provider {_NAME} cannot find {place}: {error}. Install the package of the class, and the extra langchain",
            reason="missing_package",
            provider=_NAME,
        ) from error
    except Exception as error:
        raise ProviderConfigError(f"{place} cannot be made: {error}", reason="bad_options", provider=_NAME) from error
    if not is_langchain_chat_model(made):
        raise ProviderConfigError(
            f"{place} is no chat model of LangChain: {_SETUP_HINT}", reason="no_model", provider=_NAME
        )
    return LangChainModel(made)
