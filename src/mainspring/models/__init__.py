"""Models: the `ModelProvider` interface, its implementations, and the factories. Importing this loads no HTTP library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.errors import ModelError as ModelError
    from mainspring.messages import ContentBlock as ContentBlock
    from mainspring.messages import ImageBlock as ImageBlock
    from mainspring.messages import Message as Message
    from mainspring.messages import RedactedThinkingBlock as RedactedThinkingBlock
    from mainspring.messages import StopReason as StopReason
    from mainspring.messages import TextBlock as TextBlock
    from mainspring.messages import ThinkingBlock as ThinkingBlock
    from mainspring.messages import ToolDefinition as ToolDefinition
    from mainspring.messages import ToolResultBlock as ToolResultBlock
    from mainspring.messages import ToolUseBlock as ToolUseBlock
    from mainspring.messages import Usage as Usage
    from mainspring.models.catalog import find_entry as find_entry
    from mainspring.models.catalog import find_model_info as find_model_info
    from mainspring.models.client import LLMClient as LLMClient
    from mainspring.models.client import ModelCallbacks as ModelCallbacks
    from mainspring.models.client import ResultStream as ResultStream
    from mainspring.models.client import StructuredResponse as StructuredResponse
    from mainspring.models.client import complete as complete
    from mainspring.models.client import parse_structured as parse_structured
    from mainspring.models.codec.text import extract_text as extract_text
    from mainspring.models.config import ModelFacts as ModelFacts
    from mainspring.models.config import ProviderConfig as ProviderConfig
    from mainspring.models.embedded import create_embedded_model as create_embedded_model
    from mainspring.models.errors import ErrorKind as ErrorKind
    from mainspring.models.errors import agent_error_kind as agent_error_kind
    from mainspring.models.errors import classify_error as classify_error
    from mainspring.models.errors import classify_exception as classify_exception
    from mainspring.models.errors import extract_retry_after as extract_retry_after
    from mainspring.models.errors import map_error_to_code as map_error_to_code
    from mainspring.models.factories import PROVIDER_REGISTRY as PROVIDER_REGISTRY
    from mainspring.models.factories import create_anthropic_adapter as create_anthropic_adapter
    from mainspring.models.factories import create_anthropic_client as create_anthropic_client
    from mainspring.models.factories import create_azure_client as create_azure_client
    from mainspring.models.factories import create_cerebras_client as create_cerebras_client
    from mainspring.models.factories import create_codex_client as create_codex_client
    from mainspring.models.factories import create_compatible_client as create_compatible_client
    from mainspring.models.factories import create_embedded_client as create_embedded_client
    from mainspring.models.factories import create_foundry_client as create_foundry_client
    from mainspring.models.factories import create_gemini_client as create_gemini_client
    from mainspring.models.factories import create_github_client as create_github_client
    from mainspring.models.factories import create_groq_client as create_groq_client
    from mainspring.models.factories import create_langchain_client as create_langchain_client
    from mainspring.models.factories import create_local_client as create_local_client
    from mainspring.models.factories import create_ollama_client as create_ollama_client
    from mainspring.models.factories import create_openai_client as create_openai_client
    from mainspring.models.factories import create_openai_compat_adapter as create_openai_compat_adapter
    from mainspring.models.factories import create_openrouter_client as create_openrouter_client
    from mainspring.models.factories import get_provider_factory as get_provider_factory
    from mainspring.models.factories import get_supported_providers as get_supported_providers
    from mainspring.models.factories import is_provider_supported as is_provider_supported
    from mainspring.models.http_model import HttpModel as HttpModel
    from mainspring.models.langchain import LangChainModel as LangChainModel
    from mainspring.models.langchain import from_langchain as from_langchain
    from mainspring.models.message_builder import MessageBuilder as MessageBuilder
    from mainspring.models.port import EncodingCache as EncodingCache
    from mainspring.models.port import ModelBase as ModelBase
    from mainspring.models.port import ModelInfo as ModelInfo
    from mainspring.models.port import ModelProvider as ModelProvider
    from mainspring.models.port import ModelRequest as ModelRequest
    from mainspring.models.port import ModelResponse as ModelResponse
    from mainspring.models.port import ModelWrapper as ModelWrapper
    from mainspring.models.port import PriceTier as PriceTier
    from mainspring.models.port import Sampling as Sampling
    from mainspring.models.port import ThinkingLevel as ThinkingLevel
    from mainspring.models.port import ToolChoice as ToolChoice
    from mainspring.models.port import collect as collect
    from mainspring.models.profile import ChatCapabilities as ChatCapabilities
    from mainspring.models.profile import GeminiDialect as GeminiDialect
    from mainspring.models.profile import ModelProfile as ModelProfile
    from mainspring.models.profile import OllamaCapabilities as OllamaCapabilities
    from mainspring.models.providers.compatible import openai_compatible as openai_compatible
    from mainspring.models.providers.local_servers import LocalServer as LocalServer
    from mainspring.models.providers.local_servers import detect_local_servers as detect_local_servers
    from mainspring.models.registry import AsyncModelFactory as AsyncModelFactory
    from mainspring.models.registry import ModelFactory as ModelFactory
    from mainspring.models.registry import ProviderRegistry as ProviderRegistry
    from mainspring.models.registry import create_model as create_model
    from mainspring.models.registry import create_model_provider as create_model_provider
    from mainspring.models.registry import default_registry as default_registry
    from mainspring.models.replay import decode_exchange_to_dict as decode_exchange_to_dict
    from mainspring.models.response import Failure as Failure
    from mainspring.models.response import InvokeResult as InvokeResult
    from mainspring.models.response import ModelErrorCode as ModelErrorCode
    from mainspring.models.response import ModelResult as ModelResult
    from mainspring.models.response import Success as Success
    from mainspring.models.response import error_response as error_response
    from mainspring.models.response import is_model_error as is_model_error
    from mainspring.models.response import is_model_success as is_model_success
    from mainspring.models.response import success_response as success_response
    from mainspring.models.retry import RetryConfig as RetryConfig
    from mainspring.models.retry import RetryContext as RetryContext
    from mainspring.models.retry import RetryInfo as RetryInfo
    from mainspring.models.retry import RetryOptions as RetryOptions
    from mainspring.models.retry import calculate_delay as calculate_delay
    from mainspring.models.retry import is_retryable_error as is_retryable_error
    from mainspring.models.retry import retry_stream as retry_stream
    from mainspring.models.retry import with_retry as with_retry
    from mainspring.models.transport.default import default_transport as default_transport
    from mainspring.models.transport.port import Timeouts as Timeouts
    from mainspring.models.transport.port import Transport as Transport
    from mainspring.models.transport.port import TransportResponse as TransportResponse
    from mainspring.models.transport.recording import MemoryResponse as MemoryResponse
    from mainspring.models.transport.recording import MemoryTransport as MemoryTransport
    from mainspring.models.transport.recording import RecordingTransport as RecordingTransport
    from mainspring.models.transport.recording import ReplayTransport as ReplayTransport
    from mainspring.models.usage import TokenUsage as TokenUsage
    from mainspring.models.usage import extract_token_usage as extract_token_usage
    from mainspring.models.usage import with_cost as with_cost
    from mainspring.models.wire.anthropic import build_anthropic_system_param as build_anthropic_system_param
    from mainspring.models.wire.anthropic import normalize_message as normalize_message
    from mainspring.models.wrappers.fallback import FallbackEvent as FallbackEvent
    from mainspring.models.wrappers.fallback import FallbackModel as FallbackModel
    from mainspring.models.wrappers.rate_limit import RateLimitedModel as RateLimitedModel
    from mainspring.models.wrappers.rate_limit import TokenBucket as TokenBucket
    from mainspring.models.wrappers.tool_aliases import ToolAliasModel as ToolAliasModel

lazy_exports(
    __name__,
    {
        "transport.default": "default_transport",
        "embedded": "create_embedded_model",
        "message_builder": "MessageBuilder",
        "mainspring.errors": "ModelError",
        "mainspring.messages": "ContentBlock ImageBlock Message RedactedThinkingBlock StopReason TextBlock ThinkingBlock ToolDefinition ToolResultBlock ToolUseBlock Usage",
        "wrappers.tool_aliases": "ToolAliasModel",
        "catalog": "find_entry find_model_info",
        "errors": "ErrorKind classify_error classify_exception agent_error_kind map_error_to_code extract_retry_after",
        "response": "Failure InvokeResult ModelErrorCode ModelResult Success error_response is_model_error is_model_success success_response",
        "client": "LLMClient ModelCallbacks ResultStream complete StructuredResponse parse_structured",
        "config": "ModelFacts ProviderConfig",
        "codec.text": "extract_text",
        "factories": "PROVIDER_REGISTRY create_anthropic_adapter create_anthropic_client create_azure_client create_cerebras_client create_codex_client create_compatible_client create_embedded_client create_foundry_client create_gemini_client create_github_client create_groq_client create_langchain_client create_local_client create_ollama_client create_openai_client create_openai_compat_adapter create_openrouter_client get_provider_factory get_supported_providers is_provider_supported",
        "registry": "AsyncModelFactory ModelFactory ProviderRegistry create_model create_model_provider default_registry",
        "wrappers.fallback": "FallbackEvent FallbackModel",
        "http_model": "HttpModel",
        "port": "ModelInfo ModelProvider ModelRequest ModelResponse PriceTier EncodingCache Sampling ThinkingLevel ToolChoice ModelBase ModelWrapper collect",
        "profile": "ChatCapabilities ModelProfile GeminiDialect OllamaCapabilities",
        "langchain": "LangChainModel from_langchain",
        "providers.compatible": "openai_compatible",
        "providers.local_servers": "LocalServer detect_local_servers",
        "wrappers.rate_limit": "RateLimitedModel TokenBucket",
        "retry": "RetryConfig RetryContext RetryInfo RetryOptions calculate_delay is_retryable_error retry_stream with_retry",
        "replay": "decode_exchange_to_dict",
        "transport.port": "Timeouts Transport TransportResponse",
        "transport.recording": "MemoryResponse MemoryTransport RecordingTransport ReplayTransport",
        "usage": "TokenUsage extract_token_usage with_cost",
        "wire.anthropic": "build_anthropic_system_param normalize_message",
    },
)
