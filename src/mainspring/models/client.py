"""The models of a client: made when needed, kept, and the options of a call that belong to them.

`LLMClient`: a model with retry and callbacks that answers with a result and never raises.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.errors import InvalidResponseError, ModelError, ProviderConfigError
from mainspring.events import Done, StreamError, StreamEvent
from mainspring.messages import AgentMessage, ContentBlock, Message, Usage, convert_to_llm, to_messages
from mainspring.models.config import ProviderConfig, to_provider_config
from mainspring.models.errors import classify_exception
from mainspring.models.langchain.detect import adapt_model, adapt_prompt
from mainspring.models.port import ModelProvider, ModelRequest, ModelResponse, collect
from mainspring.models.registry import ProviderRegistry, create_model_provider, default_registry
from mainspring.models.results import Failure, ModelResult, Success, failure_from_error
from mainspring.models.retry import RetryConfig, RetryInfo, retry_stream
from mainspring.models.structured import Schema, StructuredResponse, json_schema, parse_structured

ApiKeyProvider = Callable[[str], "str | Awaitable[str]"]
"""Gives the key of a provider, by its name; may be async."""


_CACHE_SIZE = 4
_ALIASES = {"max_tokens": "max_output_tokens", "reasoning_effort": "thinking"}
_REQUEST_OPTIONS = frozenset(ModelRequest.__struct_fields__) - {"messages"}
_PROVIDER_OPTIONS = (frozenset(ProviderConfig.__struct_fields__) | {"api_version", "deployment"}) - _REQUEST_OPTIONS


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a call: those of the request, and those of the provider.

    Raises:
        TypeError: If there is no such option.
    """
    asked: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for given, value in options.items():
        name = _ALIASES.get(given, given)
        if name in _REQUEST_OPTIONS:
            asked[name] = value
        elif name in _PROVIDER_OPTIONS:
            settings[name] = value
        else:
            raise TypeError(
                f"there is no option {given!r} of a call; there are {', '.join(sorted(_REQUEST_OPTIONS | _PROVIDER_OPTIONS))}"
            )
    return asked, settings


class ModelCache:
    """Models by their configuration; the last few are kept.

    Args:
        registry: Where providers are looked up; the built-in ones by default.
        get_api_key: Gives keys that no configuration has.
    """

    def __init__(self, registry: ProviderRegistry | None, get_api_key: ApiKeyProvider | None) -> None:
        self._registry = registry
        self._get_api_key = get_api_key
        self._keys: dict[str, Callable[[], str | Awaitable[str]]] = {}
        self._kept: list[tuple[ProviderConfig, ModelProvider]] = []

    def named(self, spec: str) -> ProviderConfig:
        """The configuration that ``provider:model`` means."""
        name, model = (self._registry or default_registry()).split(spec)
        return ProviderConfig(provider=name, model=model)

    def made(self, config: ProviderConfig) -> ModelProvider | None:
        """The model of a configuration, if it has been made."""
        wanted = self._with_key(config)
        return next((model for known, model in self._kept if known == wanted), None)

    async def get(self, source: ModelProvider | ProviderConfig, settings: Mapping[str, Any]) -> ModelProvider:
        """The model for a call.

        Args:
            source: A model, or what it is made of.
            settings: What is different for this call.

        Raises:
            ProviderConfigError: If it cannot be made.
        """
        if not isinstance(source, ProviderConfig):
            if settings:
                raise ProviderConfigError(
                    f"{', '.join(sorted(settings))} cannot be chosen for a call: this client was given a ready model; give "
                    "it the provider's configuration instead",
                    provider=source.provider,
                    model=source.model,
                )
            return source
        config = self._with_key(_apply_settings(source, settings))
        model = self.made(config)
        if model is None:
            model = await create_model_provider(config, registry=self._registry)
            self._kept.append((config, model))
            while len(self._kept) > _CACHE_SIZE:
                await self._kept.pop(0)[1].aclose()
        return model

    async def aclose(self) -> None:
        """Close all of them; they may be used again."""
        for _, model in self._kept:
            await model.aclose()

    def _with_key(self, config: ProviderConfig) -> ProviderConfig:
        if self._get_api_key is None or config.api_key:
            return config
        name = config.provider
        find = self._keys.setdefault(name, partial(self._get_api_key, name))
        return replace(config, api_key=find)


def _apply_settings(config: ProviderConfig, settings: Mapping[str, Any]) -> ProviderConfig:
    if not settings:
        return config
    fields = {name: getattr(config, name) for name in ProviderConfig.__struct_fields__}
    return to_provider_config({**fields, **settings})


Prompt = str | AgentMessage | Sequence[AgentMessage | ContentBlock]
ModelSource = ModelProvider | ProviderConfig | Mapping[str, Any] | str


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
            return await self._run_callbacks(event)
        if self._over:
            raise StopAsyncIteration
        try:
            return await self._run_callbacks(await anext(self._events))
        except StopAsyncIteration:
            self._over = True
            raise
        except Exception as error:  # the last event tells of it
            self._over = True
            failure = classify_exception(error)
            await _run_callback(self._callbacks.on_error, failure_from_error(failure))
            partial = failure.partial or Message("assistant")
            message = replace(partial, stop_reason="error", error=failure.message)
            return StreamError("error", message, failure)

    async def aclose(self) -> None:
        """Stop; closes the connection."""
        self._over = True
        self._first = None
        await self._events.aclose()

    async def _run_callbacks(self, event: StreamEvent) -> StreamEvent:
        await _run_callback(self._callbacks.on_stream_chunk, event)
        if isinstance(event, Done):
            await _run_callback(self._callbacks.on_stream_end, event.message.usage or Usage())
        return event


class LLMClient:
    """Asks a model; nothing it does raises at this boundary (but cancellation).

    The model is made on the first call and kept. It is made anew when the configuration has changed by the next call.

    Args:
        source: A model, also a chat model of LangChain; its name, as ``provider:model``; or a provider's configuration, as
            `ProviderConfig` or dict; or a function that gives one of these (asked before each call, so that a changed default
            takes effect).
        retry_config: How to try again.
        callbacks: What to call on the way.
        registry: Where providers are looked up; the built-in ones by default.
        get_api_key: Gives the key of a provider, by its name; asked before each request, where the configuration has none.
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
        self._source = adapt_model(source)
        self._retry = retry_config or RetryConfig()
        self._callbacks = callbacks or ModelCallbacks()
        self._models = ModelCache(registry, get_api_key)

    def get_provider_name(self) -> str:
        """Name of the provider, as configured."""
        return self._current().provider

    def get_model_name(self) -> str:
        """Id of the model (of the deployment, where there are those); empty if it is the provider's default and no call
        has been made yet.
        """
        source = self._current()
        if not isinstance(source, ProviderConfig):
            return source.model
        made = self._models.made(source)
        return made.model if made is not None else source.model or ""

    async def invoke(
        self, prompt: Prompt, *, signal: CancelToken | None = None, **options: Any
    ) -> ModelResult[ModelResponse]:
        """Ask, and get the whole answer: ``result.text``, ``result.message``, ``result.usage``.

        Args:
            prompt: Text or messages, also those of LangChain.
            signal: Stops waiting for another try.
            options: Fields of `ModelRequest`: ``system``, ``tools``, ``temperature``, ``max_output_tokens`` (or
                ``max_tokens``), ``thinking`` (or ``reasoning_effort``), ``session_id``, ``timeout``, ...; and, where the
                client was made of a configuration, settings of the provider for this call alone: ``api_key``,
                ``base_url``, ``model``, ``deployment``, ``api_version``, ``headers``, ...
        """
        try:
            events, name, model = await self._open(prompt, signal, options)
            return Success(await collect(events, name, model))
        except Exception as error:  # becomes the result
            return await self._to_failure(error)

    async def structured(
        self, prompt: Prompt, schema: Schema, *, signal: CancelToken | None = None, **options: Any
    ) -> ModelResult[StructuredResponse]:
        """Ask for an answer that follows a schema: ``result.value``, or ``result.text`` where it does not follow.

        Args:
            prompt: Text or messages.
            schema: A JSON Schema, a type, or a pydantic model.
            signal: Stops waiting for another try.
            options: As for `invoke`.
        """
        try:
            wanted = json_schema(schema)
        except (TypeError, RuntimeError) as error:
            return await self._to_failure(error)
        result = await self.invoke(prompt, signal=signal, schema=wanted, **options)
        return result if isinstance(result, Failure) else Success(parse_structured(result.result, schema))

    async def stream(
        self, prompt: Prompt, *, signal: CancelToken | None = None, **options: Any
    ) -> ModelResult[ResultStream]:
        """Ask, and get the answer while it is made: ``async for event in result``.

        Returns once the first content has arrived: up to there a failure is tried again and then comes as `Failure`;
        afterwards it comes as the last event.

        Args:
            prompt: Text or messages.
            signal: Stops waiting for another try.
            options: As for `invoke`.
        """
        await _run_callback(self._callbacks.on_stream_start)
        try:
            events, name, _ = await self._open(prompt, signal, options)
            first = await anext(events, None)
            if first is None:
                raise InvalidResponseError(f"{name} gave no answer", reason="empty", provider=name)
            return Success(ResultStream(events, first, self._callbacks))
        except Exception as error:  # becomes the result
            return await self._to_failure(error)

    async def aclose(self) -> None:
        """Give back connections; it may be used again."""
        await self._models.aclose()

    async def _open(
        self, prompt: Prompt, signal: CancelToken | None, options: Mapping[str, Any]
    ) -> tuple[AsyncGenerator[StreamEvent, None], str, str]:
        """The stream of a call, the provider's name and the model's."""
        asked, settings = split_options(options)
        model = await self._models.get(self._current(), settings)
        request = ModelRequest(convert_to_llm(to_messages(adapt_prompt(prompt))), **asked)
        events = retry_stream(
            lambda: model.stream(request),
            self._retry,
            on_retry=lambda info: _run_callback(self._callbacks.on_retry, info),
            signal=signal,
        )
        return events, model.provider, model.model

    async def _to_failure(self, error: Exception) -> Failure:
        failure = failure_from_error(classify_exception(error))
        await _run_callback(self._callbacks.on_error, failure)
        return failure

    def _current(self) -> ModelProvider | ProviderConfig:
        source = self._source
        if callable(source):
            source = source()
        if isinstance(source, str):
            return self._models.named(source)
        return to_provider_config(source) if isinstance(source, ProviderConfig | Mapping) else adapt_model(source)


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
    """One answer of a model, as a message.

    Args:
        model: A model, its name (``provider:model``), or a provider's configuration.
        prompt: Text or messages.
        retry_config: How to try again.
        registry: Where providers are looked up; the built-in ones by default.
        get_api_key: Gives the key of a provider, by its name.
        signal: Stops waiting for another try.
        options: As for `LLMClient.invoke`.

    Raises:
        ModelError: If there is no answer; ``partial`` is what had arrived.
    """
    client = LLMClient(model, retry_config=retry_config, registry=registry, get_api_key=get_api_key)
    result = await client.invoke(prompt, signal=signal, **options)
    if isinstance(result, Failure):
        raise result.cause or ModelError(result.message, code=result.error)
    return result.result.message


async def _run_callback(function: Callable[..., Any] | None, *arguments: object) -> None:
    """Call a callback, which may be async; what it raises is its own affair and is logged."""
    if function is None:
        return
    try:
        told = function(*arguments)
        if isinstance(told, Awaitable):
            await told
    except Exception:  # logged
        _log.exception("a model callback failed")
