"""`LLMClient`: a model with retry and callbacks that answers with a result and never raises."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import InvalidResponseError
from mainspring.events import CancelToken, Done, StreamError, StreamEvent
from mainspring.messages import AgentMessage, ContentBlock, Message, Usage, as_messages, convert_to_llm
from mainspring.models.classify import classify_exception
from mainspring.models.config import ProviderConfig, as_config
from mainspring.models.port import ModelProvider, ModelRequest, ModelResponse
from mainspring.models.registry import ProviderRegistry, create_model_provider
from mainspring.models.results import Failure, ModelResult, Success, failure_of
from mainspring.models.retry import RetryConfig, RetryInfo, retry_stream

Prompt = str | AgentMessage | Sequence[AgentMessage | ContentBlock]
Source = ModelProvider | ProviderConfig | Mapping[str, Any]

_log = logging.getLogger("mainspring.models")
_log.addHandler(logging.NullHandler())


class ModelCallbacks(Struct):
    """Functions to call on the way; each may be left out. One that fails is ignored.

    Attributes:
        on_stream_start: Once for each call, before the first try.
        on_retry: Before each wait for another try.
        on_stream_chunk: For each event of a stream, once content arrives.
        on_stream_end: Once, when the answer is complete, with its usage.
        on_error: Once, when no answer came and nothing will be tried any more.
    """

    on_stream_start: Callable[[], object] | None = None
    on_retry: Callable[[RetryInfo], object] | None = None
    on_stream_chunk: Callable[[StreamEvent], object] | None = None
    on_stream_end: Callable[[Usage], object] | None = None
    on_error: Callable[[Failure], object] | None = None


class ResultStream:
    """An answer as it is made. Iterating never raises: a failure is one last `StreamError`. Close it if you stop early."""

    def __init__(
        self, events: AsyncGenerator[StreamEvent, None], first: StreamEvent | None, callbacks: ModelCallbacks
    ) -> None:
        self._events = events
        self._first = first
        self._callbacks = callbacks
        self._over = False

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        if self._first is not None:
            event, self._first = self._first, None
            return await self._told(event)
        if self._over:
            raise StopAsyncIteration
        try:
            return await self._told(await anext(self._events))
        except StopAsyncIteration:
            self._over = True
            raise
        except Exception as error:  # noqa: BLE001 - the last event tells of it
            self._over = True
            failure = classify_exception(error)
            await _call(self._callbacks.on_error, failure_of(failure))
            partial = failure.partial or Message("assistant")
            message = replace(partial, stop_reason="error", error=failure.message)
            return StreamError("error", message, failure)

    async def aclose(self) -> None:
        """Stop; closes the connection."""
        self._over = True
        self._first = None
        await self._events.aclose()

    async def _told(self, event: StreamEvent) -> StreamEvent:
        await _call(self._callbacks.on_stream_chunk, event)
        if isinstance(event, Done):
            await _call(self._callbacks.on_stream_end, event.message.usage or Usage())
        return event


class LLMClient:
    """Asks a model; nothing it does raises at this boundary (but cancellation).

    The model is made on the first call and kept. It is made anew when the configuration has changed by the next call.

    Args:
        source: A model; or a provider's configuration, as `ProviderConfig` or dict; or a function that gives one of these
            (asked before each call, so that a changed default takes effect).
        retry_config: How to try again.
        callbacks: What to call on the way.
        registry: Where providers are looked up; the built-in ones by default.
    """

    def __init__(
        self,
        source: Source | Callable[[], Source],
        *,
        retry_config: RetryConfig | None = None,
        callbacks: ModelCallbacks | None = None,
        registry: ProviderRegistry | None = None,
    ) -> None:
        self._source = source
        self._retry = retry_config or RetryConfig()
        self._callbacks = callbacks or ModelCallbacks()
        self._registry = registry
        self._model: ModelProvider | None = None
        self._made_of: object = None

    def get_provider_name(self) -> str:
        """Name of the provider, as configured."""
        source = self._current()
        return source.provider

    def get_model_name(self) -> str:
        """Id of the model (of the deployment, where there are those); empty if it is the provider's default and no call
        has been made yet.
        """
        source = self._current()
        if not isinstance(source, ProviderConfig):
            return source.model
        if self._model is not None and source == self._made_of:
            return self._model.model
        return source.model or ""

    async def invoke(
        self, prompt: Prompt, *, signal: CancelToken | None = None, **options: Any
    ) -> ModelResult[ModelResponse]:
        """Ask, and get the whole answer: ``result.text``, ``result.message``, ``result.usage``.

        Args:
            prompt: Text or messages.
            signal: Stops waiting for another try.
            options: Fields of `ModelRequest`: ``system``, ``tools``, ``temperature``, ``max_output_tokens``, ...
        """
        try:
            async with aclosing(await self._open(prompt, signal, options)) as events:
                async for event in events:
                    if isinstance(event, Done):
                        return Success(ModelResponse(event.message))
            raise InvalidResponseError("the model gave no answer")
        except Exception as error:  # noqa: BLE001 - becomes the result
            return await self._failed(error)

    async def stream(
        self, prompt: Prompt, *, signal: CancelToken | None = None, **options: Any
    ) -> ModelResult[ResultStream]:
        """Ask, and get the answer while it is made: ``async for event in result``.

        Returns once the first content has arrived: up to there a failure is tried again and then comes as `Failure`;
        afterwards it comes as the last event.

        Args:
            prompt: Text or messages.
            signal: Stops waiting for another try.
            options: Fields of `ModelRequest`.
        """
        await _call(self._callbacks.on_stream_start)
        try:
            events = await self._open(prompt, signal, options)
            first = await anext(events, None)
            if first is None:
                raise InvalidResponseError("the model gave no answer")
            return Success(ResultStream(events, first, self._callbacks))
        except Exception as error:  # noqa: BLE001 - becomes the result
            return await self._failed(error)

    async def aclose(self) -> None:
        """Give back connections; it may be used again."""
        if self._model is not None:
            await self._model.aclose()

    async def _open(
        self, prompt: Prompt, signal: CancelToken | None, options: Mapping[str, Any]
    ) -> AsyncGenerator[StreamEvent, None]:
        model = await self._provider()
        request = ModelRequest(convert_to_llm(as_messages(prompt)), **options)
        return retry_stream(
            lambda: model.stream(request),
            self._retry,
            on_retry=lambda info: _call(self._callbacks.on_retry, info),
            signal=signal,
        )

    async def _failed(self, error: Exception) -> Failure:
        failure = failure_of(classify_exception(error))
        await _call(self._callbacks.on_error, failure)
        return failure

    async def _provider(self) -> ModelProvider:
        source = self._current()
        if not isinstance(source, ProviderConfig):
            return source
        if self._model is None or source != self._made_of:
            old, self._model = self._model, None
            if old is not None:
                await old.aclose()
            self._model = await create_model_provider(source, registry=self._registry)
            self._made_of = source
        return self._model

    def _current(self) -> ModelProvider | ProviderConfig:
        source = self._source
        if callable(source):
            source = source()
        return as_config(source) if isinstance(source, ProviderConfig | Mapping) else source


async def _call(function: Callable[..., Any] | None, *arguments: object) -> None:
    """Call a callback, which may be async; what it raises is its own affair and is logged."""
    if function is None:
        return
    try:
        told = function(*arguments)
        if isinstance(told, Awaitable):
            await told
    except Exception:  # noqa: BLE001 - logged
        _log.exception("a model callback failed")
