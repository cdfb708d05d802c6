"""Models: the port, what stands behind it, and how to get one. Importing this loads no HTTP library."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainspring.models.aliased import AliasedModel as AliasedModel
    from mainspring.models.catalog import look_up as look_up
    from mainspring.models.classify import classify_error as classify_error
    from mainspring.models.classify import classify_exception as classify_exception
    from mainspring.models.client import LLMClient as LLMClient
    from mainspring.models.client import ModelCallbacks as ModelCallbacks
    from mainspring.models.config import ProviderConfig as ProviderConfig
    from mainspring.models.http_model import HttpModel as HttpModel
    from mainspring.models.port import ModelInfo as ModelInfo
    from mainspring.models.port import ModelProvider as ModelProvider
    from mainspring.models.port import ModelRequest as ModelRequest
    from mainspring.models.port import ModelResponse as ModelResponse
    from mainspring.models.port import Scratch as Scratch
    from mainspring.models.port import ThinkingLevel as ThinkingLevel
    from mainspring.models.port import ToolChoice as ToolChoice
    from mainspring.models.profile import Dialect as Dialect
    from mainspring.models.profile import Profile as Profile
    from mainspring.models.providers.local import LocalServer as LocalServer
    from mainspring.models.providers.local import detect_local_servers as detect_local_servers
    from mainspring.models.registry import ProviderRegistry as ProviderRegistry
    from mainspring.models.registry import create_model as create_model
    from mainspring.models.registry import create_model_provider as create_model_provider
    from mainspring.models.registry import default_registry as default_registry
    from mainspring.models.registry import get_provider_factory as get_provider_factory
    from mainspring.models.registry import get_supported_providers as get_supported_providers
    from mainspring.models.registry import is_provider_supported as is_provider_supported
    from mainspring.models.results import Failure as Failure
    from mainspring.models.results import ModelResult as ModelResult
    from mainspring.models.results import Success as Success
    from mainspring.models.results import is_model_error as is_model_error
    from mainspring.models.results import is_model_success as is_model_success
    from mainspring.models.retry import RetryConfig as RetryConfig
    from mainspring.models.retry import RetryInfo as RetryInfo
    from mainspring.models.retry import calculate_delay as calculate_delay
    from mainspring.models.retry import is_retryable_error as is_retryable_error
    from mainspring.models.retry import retry_stream as retry_stream
    from mainspring.models.retry import with_retry as with_retry
    from mainspring.models.retry_after import extract_retry_after as extract_retry_after
    from mainspring.models.scripted import Call as Call
    from mainspring.models.scripted import Reply as Reply
    from mainspring.models.scripted import ScriptedModel as ScriptedModel
    from mainspring.models.traffic import replay_exchange as replay_exchange
    from mainspring.models.transport import Timeouts as Timeouts
    from mainspring.models.transport import Transport as Transport

_PLACES = {
    "aliased": ("AliasedModel",),
    "catalog": ("look_up",),
    "classify": ("classify_error", "classify_exception"),
    "client": ("LLMClient", "ModelCallbacks"),
    "config": ("ProviderConfig",),
    "http_model": ("HttpModel",),
    "port": ("ModelInfo", "ModelProvider", "ModelRequest", "ModelResponse", "Scratch", "ThinkingLevel", "ToolChoice"),
    "profile": ("Dialect", "Profile"),
    "providers.local": ("LocalServer", "detect_local_servers"),
    "registry": (
        "ProviderRegistry",
        "create_model",
        "create_model_provider",
        "default_registry",
        "get_provider_factory",
        "get_supported_providers",
        "is_provider_supported",
    ),
    "results": ("Failure", "ModelResult", "Success", "is_model_error", "is_model_success"),
    "retry": (
        "RetryConfig",
        "RetryInfo",
        "calculate_delay",
        "is_retryable_error",
        "retry_stream",
        "with_retry",
    ),
    "retry_after": ("extract_retry_after",),
    "scripted": ("Call", "Reply", "ScriptedModel"),
    "traffic": ("replay_exchange",),
    "transport": ("Timeouts", "Transport"),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = sorted(_MODULE_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
