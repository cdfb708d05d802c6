"""Chat models and messages of LangChain, recognised where ours are expected.

Whoever has one has imported LangChain already: it is looked for among the loaded modules, and nothing is imported to find out.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, TypeVar, cast

_T = TypeVar("_T")
_ADAPTER_MODULE = "mainspring.models.langchain"


def unwrap_chat_model(value: object) -> Any:
    """The chat model of LangChain that this is, or that it has bound options to; ``None`` if it is neither."""
    module = sys.modules.get("langchain_core.language_models.chat_models")
    if module is not None:
        for candidate in (value, getattr(value, "bound", None)):
            if isinstance(candidate, module.BaseChatModel):
                return candidate
    return None


def is_langchain_chat_model(value: object) -> bool:
    """Whether this is a chat model of LangChain, with or without options bound to it."""
    return unwrap_chat_model(value) is not None


def is_langchain_message(value: object) -> bool:
    """Whether this is a message of LangChain."""
    module = sys.modules.get("langchain_core.messages")
    return module is not None and isinstance(value, module.BaseMessage)


def adapt_model(value: _T) -> _T:
    """A model of ours, also around a chat model of LangChain; anything else is returned as it is."""
    return import_module(_ADAPTER_MODULE).LangChainModel(value) if is_langchain_chat_model(value) else value


def adapt_prompt(prompt: Any) -> Any:
    """A prompt of ours, also out of one message of LangChain or a list of them; anything else is returned as it is.

    Raises:
        TypeError: If a list holds messages of both, or a message of a kind that has no meaning here.
    """
    given: Any = prompt
    parts = (
        [given] if is_langchain_message(given) else cast("list[Any]", given) if isinstance(prompt, list | tuple) else []
    )
    if not any(map(is_langchain_message, parts)):
        return given
    if not all(map(is_langchain_message, parts)):
        raise TypeError("a prompt holds messages of LangChain or ours, not both")
    return import_module(_ADAPTER_MODULE).from_langchain(parts)
