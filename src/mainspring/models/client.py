"""`LLMClient`: requests to a model without an agent, with results as values and structured output."""

from __future__ import annotations

import logging
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload
from weakref import WeakSet

from msgspec import Struct
from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.errors import (
    ConfigError,
    ConfigWarning,
    ErrorCode,
    InvalidResponseError,
    ModelError,
    ProviderConfigError,
)
from mainspring.events import Done, ErrorInfo, StreamError, StreamEvent, TextDelta
from mainspring.lazy import lazy_function
from mainspring.locks import LoopLock
from mainspring.messages import AgentMessage, ContentBlock, Message, Usage, convert_to_llm, to_messages
from mainspring.models.auth.credentials import ApiKeyProvider, bind_provider
from mainspring.models.config import ProviderConfig, known_settings, override_settings, to_provider_config
from mainspring.models.errors import classify_exception
from mainspring.models.langchain.detect import adapt_model, adapt_prompt
from mainspring.models.port import ModelProvider, ModelRequest, ModelResponse, Sampling, collect
from mainspring.models.providers.configured import ConfiguredProviders
from mainspring.models.registry import ProviderRegistry, create_model_provider, default_registry
from mainspring.models.response import Failure, InvokeResult, ModelResult, Success, failure_from_error
from mainspring.models.retry import RetryConfig, RetryInfo, retry_stream
from mainspring.text import suggest_name
from mainspring.type_variables import ValueT

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from mainspring.models.continuation import continue_stream
    from mainspring.tools.schema.output import OutputSchema
else:
    continue_stream = lazy_function("mainspring.models.continuation", "continue_stream")
    OutputSchema = lazy_function("mainspring.tools.schema.output", "OutputSchema")

_T = TypeVar("_T")


class StructuredResponse(Struct, Generic[ValueT], frozen=True, eq=False):
    """A response that should match a schema.

    Attributes:
        response: The response.
        value: The parsed value: of the requested type, or plain JSON values for a JSON Schema; ``None`` if the response
            does not match.
        problems: Reasons why the response does not match; empty if it does.
    """

    response: ModelResponse
    value: ValueT | None = None
    problems: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Text of the response, for a response that does not match."""
        return self.response.text


@overload
def parse_structured(response: ModelResponse, schema: Mapping[str, Any]) -> StructuredResponse: ...
@overload
def parse_structured(response: ModelResponse, schema: TypeForm[_T]) -> StructuredResponse[_T]: ...
def parse_structured(response: ModelResponse, schema: Any) -> StructuredResponse[Any]:
    """Parse a response by a schema. A Markdown code fence around it is removed. Never raises for invalid model output."""
    return _parse_structured(response, OutputSchema(schema))


def _parse_structured(response: ModelResponse, target: OutputSchema) -> StructuredResponse[Any]:
    answer = target.parse_text(response.text)
    return StructuredResponse(response, answer.value, () if answer.error is None else (answer.error,))


_CACHE_SIZE = 4
_ALIASES = {
    "max_tokens": "max_output_tokens",
    "reasoning_effort": "thinking",
    "extra_body": "extra",
    "deployment_name": "deployment",
}
_SAMPLING_OPTIONS = frozenset(Sampling.__struct_fields__)
_NOTED_OPTIONS = frozenset({"temperature", "stop", "tool_choice", "sampling"})
"""Options with a warning if the model does not support them."""
_REQUEST_OPTIONS = frozenset(ModelRequest.__struct_fields__) - {"messages"}
_PROVIDER_OPTIONS = (frozenset(ProviderConfig.__struct_fields__) | {"api_version", "deployment"}) - _REQUEST_OPTIONS


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split call options into options of the request and options of the provider.

    Raises:
        TypeError: Unknown option.
    """
    request: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    sampling: dict[str, Any] = {}
    for given, value in options.items():
        name = _ALIASES.get(given, given)
        if name in _SAMPLING_OPTIONS:
            sampling[name] = value
        elif name in _REQUEST_OPTIONS:
            request[name] = value
        elif name in _PROVIDER_OPTIONS:
            settings[name] = value
        else:
            every = sorted({*_REQUEST_OPTIONS, *_SAMPLING_OPTIONS, *_PROVIDER_OPTIONS})
            hint = suggest_name(given, every, f"Valid options: {', '.join(every)}.")
            raise TypeError(f"Unknown call option {given!r}. {hint}")
    if sampling:
        request["sampling"] = replace(request.get("sampling") or Sampling(), **sampling)
    if sampling or request.keys() & _NOTED_OPTIONS:
        request.setdefault("notify", _warn)
    return request, settings


def _warn(note: str) -> None:
    warnings.warn(note, ConfigWarning, stacklevel=2)


class _CachedModel:
    """A model of the cache; ``None`` until its factory returns."""

    def __init__(self, config: ProviderConfig) -> None:
        self.config = config
        self.model: ModelProvider | None = None
        self.creation = LoopLock()
        self.waiting = 0
        self.streams: WeakSet[AsyncGenerator[StreamEvent, None]] = WeakSet()

    @property
    def is_in_use(self) -> bool:
        """Return True while a call waits for the model, or one of its streams is open."""
        return self.waiting > 0 or any(getattr(stream, "ag_frame", None) is not None for stream in self.streams)


class ModelCache:
    """Cache of the most recent models by configuration. Concurrent calls share one model; models in use are never closed.

    Args:
        registry: Registry of providers; the built-in ones by default.
        get_api_key: Function that returns API keys missing from configurations.
    """

    def __init__(self, registry: ProviderRegistry | None, get_api_key: ApiKeyProvider | None) -> None:
        self._registry = registry
        self._get_api_key = get_api_key
        self._keys: dict[str, Callable[[], Any]] = {}
        self._cached: list[_CachedModel] = []

    def config_for(self, spec: str) -> ProviderConfig:
        """Return the configuration for ``provider:model``."""
        name, model = (self._registry or default_registry()).split(spec)
        return ProviderConfig(provider=name, model=model)

    def cached(self, config: ProviderConfig) -> ModelProvider | None:
        """Return the cached model of a configuration, if any."""
        entry = self._entry(self._with_key(config))
        return None if entry is None else entry.model

    def model_name(self, config: ProviderConfig) -> str:
        """Return the model ID of a configuration; the model need not exist yet."""
        cached = self.cached(config)
        return cached.model if cached is not None else (self._registry or default_registry()).model_name(config)

    async def get(self, source: ModelProvider | ProviderConfig, settings: Mapping[str, Any]) -> ModelProvider:
        """Return the model for a call.

        Args:
            source: A model, or a name or configuration to create it from.
            settings: Overrides for this call.

        Raises:
            ProviderConfigError: The model cannot be created.
        """
        if not isinstance(source, ProviderConfig):
            if settings:
                raise ProviderConfigError(
                    f"Cannot set {', '.join(sorted(settings))} per call because this client wraps an existing model. Create "
                    "the client from a provider configuration instead.",
                    provider=source.provider,
                    model=source.model,
                )
            return source
        config = self._with_key(override_settings(source, settings))
        entry = self._entry(config)
        if entry is None:
            entry = _CachedModel(config)
            self._cached.append(entry)
        return await self._create(entry) if entry.model is None else entry.model

    def keep_open(self, model: ModelProvider, stream: AsyncGenerator[StreamEvent, None]) -> None:
        """Do not close a model before the end of a stream."""
        for entry in self._cached:
            if entry.model is model:
                entry.streams.add(stream)

    async def aclose(self) -> None:
        """Close all models; they can be used again."""
        for entry in [*self._cached]:
            if entry.model is not None:
                await entry.model.aclose()

    async def _create(self, entry: _CachedModel) -> ModelProvider:
        entry.waiting += 1
        try:
            async with entry.creation.current():
                if entry.model is None:
                    entry.model = await create_model_provider(entry.config, registry=self._registry)
                    await self._close_unused()
                return entry.model
        finally:
            entry.waiting -= 1
            if entry.model is None and not entry.waiting:
                self._cached.remove(entry)

    async def _close_unused(self) -> None:
        """Close the oldest models that are not in use until the cache has its size again."""
        while len(self._cached) > _CACHE_SIZE:
            unused = next((entry for entry in self._cached if not entry.is_in_use), None)
            if unused is None:
                return
            self._cached.remove(unused)
            if unused.model is not None:
                await unused.model.aclose()

    def _entry(self, config: ProviderConfig) -> _CachedModel | None:
        return next((entry for entry in self._cached if entry.config == config), None)

    def _with_key(self, config: ProviderConfig) -> ProviderConfig:
        if self._get_api_key is None or config.api_key or "apiKey" not in known_settings(config.provider):
            return config
        name = config.provider
        find = self._keys.setdefault(name, bind_provider(self._get_api_key, name))
        return replace(config, api_key=find)


Prompt = str | AgentMessage | Sequence[AgentMessage | ContentBlock]
ModelSource = ModelProvider | ProviderConfig | Mapping[str, Any] | str


_log = logging.getLogger("mainspring.models")
_log.addHandler(logging.NullHandler())


class ModelCallbacks(Struct):
    """Optional callbacks of a call. An exception in a callback is logged and ignored.

    Attributes:
        on_stream_start: Called once per call, before the first attempt.
        on_retry: Called before each wait for a retry.
        on_stream_chunk: Called with each piece of text of a stream.
        on_stream_end: Called once with the usage, when a stream is complete.
        on_error: Called once with the code and the message, when the call failed and is not retried.
    """

    on_stream_start: Callable[[], object] | None = None
    on_retry: Callable[[RetryInfo], object] | None = None
    on_stream_chunk: Callable[[str], object] | None = None
    on_stream_end: Callable[[Usage], object] | None = None
    on_error: Callable[[ErrorCode, str], object] | None = None


class ResultStream:
    """A response stream. Iteration never raises: a failure is a final `StreamError`. Close it if you stop early."""

    def __init__(
        self, events: AsyncGenerator[StreamEvent, None], first: StreamEvent | None, callbacks: ModelCallbacks
    ) -> None:
        self._events = events
        self._first = first
        self._callbacks = callbacks
        self._is_finished = False

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        if self._first is not None:
            event, self._first = self._first, None
            return await self._run_callbacks(event)
        if self._is_finished:
            raise StopAsyncIteration
        try:
            return await self._run_callbacks(await anext(self._events))
        except StopAsyncIteration:
            self._is_finished = True
            raise
        except Exception as error:  # The last event reports it.
            self._is_finished = True
            failure = classify_exception(error)
            await _run_callback(self._callbacks.on_error, failure.code, failure.message)
            partial = failure.partial or Message("assistant")
            message = replace(partial, stop_reason="error", error=failure.message)
            return StreamError("error", message, ErrorInfo.from_exception(failure), failure)

    async def aclose(self) -> None:
        """Stop the stream and close the connection."""
        self._is_finished = True
        self._first = None
        await self._events.aclose()

    async def _run_callbacks(self, event: StreamEvent) -> StreamEvent:
        if isinstance(event, TextDelta):
            await _run_callback(self._callbacks.on_stream_chunk, event.text)
        elif isinstance(event, Done):
            await _run_callback(self._callbacks.on_stream_end, event.message.usage or Usage())
        return event


class LLMClient:
    """Client of a model that returns failures as results; only cancellation raises.

    The model is created at the first call and reused until the configuration changes.

    Args:
        source: A model, also a LangChain chat model; a name such as ``provider:model``; a `ProviderConfig` or dict; a dict with
            ``providers``, see `from_config`; or a function that returns one of these (called before each call, so that a changed
            default takes effect).
        retry_config: Retry settings.
        callbacks: Callbacks of each call.
        registry: Registry of providers; the built-in ones by default.
        get_api_key: Function that returns the API key of a provider by name; called before each request if the
            configuration has no key.
    """

    def __init__(
        self,
        source: ModelSource | Callable[[], ModelSource],
        *,
        retry_config: RetryConfig | None = None,
        callbacks: ModelCallbacks | None = None,
        registry: ProviderRegistry | None = None,
        get_api_key: ApiKeyProvider | None = None,
    ) -> None:
        if _is_app_config(source):
            configured = ConfiguredProviders(source, registry)
            source, registry = configured.select, configured.registry
            retry_config = retry_config or configured.retry
        self._source = adapt_model(source)
        self._retry = retry_config or RetryConfig()
        self._callbacks = callbacks or ModelCallbacks()
        self._models = ModelCache(registry, get_api_key)

    @classmethod
    def from_config(
        cls,
        config: object,
        *,
        retry_config: RetryConfig | None = None,
        callbacks: ModelCallbacks | None = None,
        registry: ProviderRegistry | None = None,
        get_api_key: ApiKeyProvider | None = None,
    ) -> LLMClient:
        """Create a client of the provider that an application's configuration selects: ``model``, else ``providers.default``.

        Args:
            config: Configuration in the form of ``settings.json`` (``providers``, ``model``, ``retry``), as a dict or as the
                typed settings of the command. It is read before each call, so that a changed default takes effect.
            retry_config: Retry settings; by default those of the configuration.
            callbacks: Callbacks of each call.
            registry: Registry of providers; the built-in ones by default, and the ``providers`` of the configuration that have a
                ``baseUrl``.
            get_api_key: See `LLMClient`.

        Raises:
            ProviderConfigError: A part of the configuration is invalid.
        """
        providers = ConfiguredProviders(config, registry)
        return cls(
            providers.select,
            retry_config=retry_config or providers.retry,
            callbacks=callbacks,
            registry=providers.registry,
            get_api_key=get_api_key,
        )

    def get_provider_name(self) -> str:
        """Return the name of the configured provider."""
        return self._current().provider

    def get_model_name(self) -> str:
        """Return the model ID, or the deployment; empty if only a call determines it."""
        source = self._current()
        return self._models.model_name(source) if isinstance(source, ProviderConfig) else source.model

    async def invoke(
        self, prompt: Prompt, *, signal: CancelToken | None = None, **options: Any
    ) -> ModelResult[InvokeResult]:
        """Send a prompt and return the complete response: ``result.content``, ``result.message``, ``result.usage``.

        Args:
            prompt: Text or messages, also LangChain messages.
            signal: Signal that aborts a wait for a retry.
            options: Fields of `ModelRequest`: ``system``, ``tools``, ``temperature``, ``max_output_tokens`` (or
                ``max_tokens``), ``thinking`` (or ``reasoning_effort``), ``session_id``, ``timeout``, ..., also those of
                `Sampling` (``top_p``, ``seed``, ...), and ``extra_body``; if the client was created from a configuration, also settings of the provider for this call only: ``api_key``, ``base_url``,
                ``model``, ``deployment``, ``api_version``, ``headers``, ...
        """
        try:
            events, name, model = await self._open(prompt, signal, options)
            return Success(InvokeResult(await collect(events, name, model)), f"Response of {name}:{model}.")
        except Exception as error:  # Becomes the result.
            return await self._to_failure(error)

    @overload
    async def structured(
        self, prompt: Prompt, schema: Mapping[str, Any], *, signal: CancelToken | None = None, **options: Any
    ) -> ModelResult[StructuredResponse]: ...
    @overload
    async def structured(
        self, prompt: Prompt, schema: TypeForm[_T], *, signal: CancelToken | None = None, **options: Any
    ) -> ModelResult[StructuredResponse[_T]]: ...
    async def structured(
        self, prompt: Prompt, schema: Any, *, signal: CancelToken | None = None, **options: Any
    ) -> ModelResult[StructuredResponse[Any]]:
        """Request a response that matches a schema: ``result.value``, or ``result.text`` if it does not match.

        Args:
            prompt: Text or messages.
            schema: A JSON Schema, or any type that an agent takes as ``output_type``.
            signal: Signal that aborts a wait for a retry.
            options: See `invoke`.
        """
        try:
            target = OutputSchema(schema)
            if target.has_functions:
                raise TypeError(
                    "A request without an agent cannot call an output function. Pass the type of its arguments."
                )
        except (TypeError, ConfigError) as error:
            return await self._to_failure(error)
        result = await self.invoke(prompt, signal=signal, schema=target.arguments, **options)
        if isinstance(result, Failure):
            return result
        return Success(_parse_structured(result.result.response, target), result.message)

    async def stream(
        self, prompt: Prompt, *, signal: CancelToken | None = None, **options: Any
    ) -> ModelResult[ResultStream]:
        """Send a prompt and stream the response: ``async for event in result``.

        Returns when the first content arrives. A failure before that is retried and then returned as `Failure`; a later failure
        is the last event.

        Args:
            prompt: Text or messages.
            signal: Signal that aborts a wait for a retry.
            options: See `invoke`.
        """
        await _run_callback(self._callbacks.on_stream_start)
        try:
            events, name, model = await self._open(prompt, signal, options)
            first = await anext(events, None)
            if first is None:
                raise InvalidResponseError(f"The provider {name} returned no response.", reason="empty", provider=name)
            return Success(ResultStream(events, first, self._callbacks), f"Stream of {name}:{model}.")
        except Exception as error:  # Becomes the result.
            return await self._to_failure(error)

    async def aclose(self) -> None:
        """Release connections; the client can be used again."""
        await self._models.aclose()

    async def _open(
        self, prompt: Prompt, signal: CancelToken | None, options: Mapping[str, Any]
    ) -> tuple[AsyncGenerator[StreamEvent, None], str, str]:
        """Return the stream of a call, the name of the provider, and the model ID."""
        request_fields, settings = split_options(options)
        model = await self._models.get(self._current(), settings)
        request = ModelRequest(convert_to_llm(to_messages(adapt_prompt(prompt))), **request_fields)
        events = retry_stream(
            lambda: model.stream(request),
            self._retry,
            lambda failure, last, options: continue_stream(model.stream, request, model.info, failure, last, options),
            on_retry=lambda info: _run_callback(self._callbacks.on_retry, info),
            signal=signal,
        )
        self._models.keep_open(model, events)
        return events, model.provider, model.model

    async def _to_failure(self, error: Exception) -> Failure:
        failure = failure_from_error(classify_exception(error))
        await _run_callback(self._callbacks.on_error, failure.error, failure.message)
        return failure

    def _current(self) -> ModelProvider | ProviderConfig:
        source = self._source
        if callable(source):
            source = source()
        if isinstance(source, str):
            return self._models.config_for(source)
        return to_provider_config(source) if isinstance(source, ProviderConfig | Mapping) else adapt_model(source)


def _is_app_config(source: object) -> bool:
    return isinstance(source, Mapping) and "providers" in source


async def complete(
    model: ModelProvider | ProviderConfig | Mapping[str, Any] | str,
    prompt: Prompt,
    *,
    retry_config: RetryConfig | None = None,
    registry: ProviderRegistry | None = None,
    get_api_key: ApiKeyProvider | None = None,
    signal: CancelToken | None = None,
    **options: Any,
) -> Message:
    """Return one response of a model as a message.

    Args:
        model: A model, its name (``provider:model``), or a provider configuration.
        prompt: Text or messages.
        retry_config: Retry settings.
        registry: Registry of providers; the built-in ones by default.
        get_api_key: Function that returns the API key of a provider by name.
        signal: Signal that aborts a wait for a retry.
        options: See `LLMClient.invoke`.

    Raises:
        ModelError: The call failed; ``partial`` is the content received before.
    """
    client = LLMClient(model, retry_config=retry_config, registry=registry, get_api_key=get_api_key)
    result = await client.invoke(prompt, signal=signal, **options)
    if isinstance(result, Failure):
        raise result.cause or ModelError(result.message, code=result.error)
    return result.result.message


async def _run_callback(function: Callable[..., Any] | None, *arguments: object) -> None:
    """Call a callback, which may be async, and log its exceptions."""
    if function is None:
        return
    try:
        result = function(*arguments)
        if isinstance(result, Awaitable):
            await result
    except Exception:
        _log.exception("A model callback failed.")
