"""Models: the `ModelProvider` interface, its implementations, and the factories. Importing this loads no HTTP library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.errors import ModelError as ModelError
    from mainspring.messages import (
        ContentBlock as ContentBlock,
        ImageBlock as ImageBlock,
        Message as Message,
        RedactedThinkingBlock as RedactedThinkingBlock,
        StopReason as StopReason,
        TextBlock as TextBlock,
        ThinkingBlock as ThinkingBlock,
        ToolDefinition as ToolDefinition,
        ToolResultBlock as ToolResultBlock,
        ToolUseBlock as ToolUseBlock,
        Usage as Usage,
    )
    from mainspring.models.catalog import find_entry as find_entry, find_model_info as find_model_info
    from mainspring.models.client import (
        LLMClient as LLMClient,
        ModelCallbacks as ModelCallbacks,
        ResultStream as ResultStream,
        StructuredResponse as StructuredResponse,
        complete as complete,
        parse_structured as parse_structured,
    )
    from mainspring.models.codec.text import extract_text as extract_text
    from mainspring.models.config import ModelFacts as ModelFacts, ProviderConfig as ProviderConfig
    from mainspring.models.embedded import create_embedded_model as create_embedded_model
    from mainspring.models.errors import (
        ErrorKind as ErrorKind,
        agent_error_kind as agent_error_kind,
        classify_error as classify_error,
        classify_exception as classify_exception,
        extract_retry_after as extract_retry_after,
        map_error_to_code as map_error_to_code,
    )
    from mainspring.models.factories import (
        PROVIDER_REGISTRY as PROVIDER_REGISTRY,
        create_anthropic_adapter as create_anthropic_adapter,
        create_anthropic_client as create_anthropic_client,
        create_azure_client as create_azure_client,
        create_cerebras_client as create_cerebras_client,
        create_codex_client as create_codex_client,
        create_compatible_client as create_compatible_client,
        create_embedded_client as create_embedded_client,
        create_foundry_client as create_foundry_client,
        create_gemini_client as create_gemini_client,
        create_github_client as create_github_client,
        create_groq_client as create_groq_client,
        create_langchain_client as create_langchain_client,
        create_local_client as create_local_client,
        create_ollama_client as create_ollama_client,
        create_openai_client as create_openai_client,
        create_openai_compat_adapter as create_openai_compat_adapter,
        create_openrouter_client as create_openrouter_client,
        get_provider_factory as get_provider_factory,
        get_supported_providers as get_supported_providers,
        is_provider_supported as is_provider_supported,
    )
    from mainspring.models.http_model import HttpModel as HttpModel
    from mainspring.models.langchain import LangChainModel as LangChainModel, from_langchain as from_langchain
    from mainspring.models.message_builder import MessageBuilder as MessageBuilder
    from mainspring.models.port import (
        EncodingCache as EncodingCache,
        ModelBase as ModelBase,
        ModelInfo as ModelInfo,
        ModelProvider as ModelProvider,
        ModelRequest as ModelRequest,
        ModelResponse as ModelResponse,
        ModelWrapper as ModelWrapper,
        PriceTier as PriceTier,
        Sampling as Sampling,
        ThinkingLevel as ThinkingLevel,
        ToolChoice as ToolChoice,
        collect as collect,
    )
    from mainspring.models.profile import (
        ChatCapabilities as ChatCapabilities,
        GeminiDialect as GeminiDialect,
        ModelProfile as ModelProfile,
        OllamaCapabilities as OllamaCapabilities,
    )
    from mainspring.models.providers.compatible import openai_compatible as openai_compatible
    from mainspring.models.providers.local_servers import (
        LocalServer as LocalServer,
        detect_local_servers as detect_local_servers,
    )
    from mainspring.models.registry import (
        AsyncModelFactory as AsyncModelFactory,
        ModelFactory as ModelFactory,
        ProviderRegistry as ProviderRegistry,
        create_model as create_model,
        create_model_provider as create_model_provider,
        default_registry as default_registry,
    )
    from mainspring.models.replay import decode_exchange_to_dict as decode_exchange_to_dict
    from mainspring.models.response import (
        Failure as Failure,
        InvokeResult as InvokeResult,
        ModelErrorCode as ModelErrorCode,
        ModelResult as ModelResult,
        Success as Success,
        error_response as error_response,
        is_model_error as is_model_error,
        is_model_success as is_model_success,
        success_response as success_response,
    )
    from mainspring.models.retry import (
        RetryConfig as RetryConfig,
        RetryContext as RetryContext,
        RetryInfo as RetryInfo,
        RetryOptions as RetryOptions,
        calculate_delay as calculate_delay,
        is_retryable_error as is_retryable_error,
        retry_stream as retry_stream,
        with_retry as with_retry,
    )
    from mainspring.models.transport.default import default_transport as default_transport
    from mainspring.models.transport.port import (
        Timeouts as Timeouts,
        Transport as Transport,
        TransportResponse as TransportResponse,
    )
    from mainspring.models.transport.recording import (
        MemoryResponse as MemoryResponse,
        MemoryTransport as MemoryTransport,
        RecordingTransport as RecordingTransport,
        ReplayTransport as ReplayTransport,
    )
    from mainspring.models.usage import (
        TokenUsage as TokenUsage,
        extract_token_usage as extract_token_usage,
        with_cost as with_cost,
    )
    from mainspring.models.wire.anthropic import (
        build_anthropic_system_param as build_anthropic_system_param,
        normalize_message as normalize_message,
    )
    from mainspring.models.wrappers.fallback import FallbackEvent as FallbackEvent, FallbackModel as FallbackModel
    from mainspring.models.wrappers.rate_limit import RateLimitedModel as RateLimitedModel, TokenBucket as TokenBucket
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
