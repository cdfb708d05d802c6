"""Detect LangChain chat models and messages in arguments.

A caller that has one has already imported LangChain: only loaded modules are checked, and nothing is imported.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, TypeVar, cast

_T = TypeVar("_T")
_ADAPTER_MODULE = "mainspring.models.langchain"


def unwrap_chat_model(value: object) -> Any:
    """Return the LangChain chat model, also from a model with bound options; ``None`` for other values."""
    module = sys.modules.get("langchain_core.language_models.chat_models")
    if module is not None:
        for candidate in (value, getattr(value, "bound", None)):
            if isinstance(candidate, module.BaseChatModel):
                return candidate
    return None


def is_langchain_chat_model(value: object) -> bool:
    """Return True for a LangChain chat model, with or without bound options."""
    return unwrap_chat_model(value) is not None


def is_langchain_message(value: object) -> bool:
    """Return True for a LangChain message."""
    module = sys.modules.get("langchain_core.messages")
    return module is not None and isinstance(value, module.BaseMessage)


def adapt_model(value: _T) -> _T:
    """Wrap a LangChain chat model in a `LangChainModel`; other values are returned unchanged."""
    return import_module(_ADAPTER_MODULE).LangChainModel(value) if is_langchain_chat_model(value) else value


def adapt_prompt(prompt: Any) -> Any:
    """Convert one or more LangChain messages to a prompt; other values are returned unchanged.

    Raises:
        TypeError: A list mixes both types of messages, or contains an unsupported message.
    """
    given: Any = prompt
    parts = (
        [given] if is_langchain_message(given) else cast("list[Any]", given) if isinstance(prompt, list | tuple) else []
    )
    if not any(map(is_langchain_message, parts)):
        return given
    if not all(map(is_langchain_message, parts)):
        raise TypeError("A prompt cannot mix LangChain and Mainspring messages.")
    return import_module(_ADAPTER_MODULE).from_langchain(parts)
