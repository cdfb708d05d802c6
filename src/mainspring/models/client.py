"""`LLMClient`: requests to a model without an agent, with results as values and structured output."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeGuard, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.errors import ErrorCode, InvalidResponseError, ModelError, ProviderConfigError
from mainspring.events import Done, StreamError, StreamEvent
from mainspring.lazy import lazy_re
from mainspring.messages import AgentMessage, ContentBlock, Message, Usage, convert_to_llm, to_messages
from mainspring.models.config import ProviderConfig, to_provider_config
from mainspring.models.errors import classify_exception
from mainspring.models.langchain.detect import adapt_model, adapt_prompt
from mainspring.models.port import ModelProvider, ModelRequest, ModelResponse, collect
from mainspring.models.registry import ProviderRegistry, create_model_provider, default_registry
from mainspring.models.retry import RetryConfig, RetryInfo, retry_stream

_T = TypeVar("_T")


ModelErrorCode = ErrorCode
"""The same under its other name."""


class Success(Struct, Generic[_T], frozen=True, eq=False):
    """It worked; ``result`` is what was asked for."""

    result: _T
    message: str = ""

    @property
    def is_success(self) -> bool:
        """True."""
        return True


class Failure(Struct, frozen=True, eq=False):
    """It did not work.

    Attributes:
        error: The code.
        message: What happened, why, what to do.
        retry_after: Seconds the server asked to wait, if it did.
        cause: The error itself, with everything known about it.
    """

    error: ErrorCode
    message: str
    retry_after: float | None = None
    cause: ModelError | None = None

    @property
    def success(self) -> bool:
        """False."""
        return False


ModelResult = Success[_T] | Failure
"""Either; ``match`` on the class, or use the guards."""


def is_model_success(result: Success[_T] | Failure) -> TypeGuard[Success[_T]]:
    """Whether it worked."""
    return isinstance(result, Success)


def is_model_error(result: Success[_T] | Failure) -> TypeGuard[Failure]:
    """Whether it did not."""
    return isinstance(result, Failure)


def success_response(result: _T, message: str = "") -> Success[_T]:
    """A success."""
    return Success(result, message)


def error_response(error: ErrorCode | str, message: str, retry_after_ms: float | None = None) -> Failure:
    """A failure.

    Args:
        error: The code, or its name.
        message: What happened.
        retry_after_ms: Milliseconds to wait before another try, if that is known.
    """
    return Failure(ErrorCode(error), message, None if retry_after_ms is None else retry_after_ms / 1000)


def failure_from_error(error: ModelError) -> Failure:
    """The failure that a `ModelError` means."""
    return Failure(error.code, error.message, error.retry_after, error)


Schema = Mapping[str, Any] | type
"""A JSON Schema, a type that msgspec knows (struct, dataclass, TypedDict), or a pydantic model."""


_FENCE = lazy_re(r"\A```[a-zA-Z]*\s*\n(.*?)\n?```\Z", re.DOTALL)


class StructuredResponse(Struct, frozen=True, eq=False):
    """An answer that was to follow a schema.

    Attributes:
        response: The answer itself.
        value: What was read out of it: of the type that was asked for, or plain JSON values for a JSON Schema; ``None``
            where the answer does not fit.
        problems: Why it does not fit; empty if it does.
    """

    response: ModelResponse
    value: Any = None
    problems: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The answer's text, which is what is left where it does not fit."""
        return self.response.text


def output_json_schema(schema: Schema) -> dict[str, Any]:
    """The JSON Schema that a schema stands for."""
    if isinstance(schema, Mapping):
        return dict(schema)
    if callable(of_pydantic := getattr(schema, "model_json_schema", None)):
        return cast("dict[str, Any]", of_pydantic())
    return msgspec.json.schema(schema)


def parse_structured(response: ModelResponse, schema: Schema) -> StructuredResponse:
    """Read an answer by a schema. A fence of Markdown around it is no obstacle. Never raises for what a model wrote."""
    text = response.text.strip()
    fenced = _FENCE.match(text)
    try:
        return StructuredResponse(response, _parser(schema)(fenced[1] if fenced else text))
    except _SchemaMismatchError as error:
        return StructuredResponse(response, problems=error.problems)
    except (ValueError, RecursionError) as error:  # what msgspec and pydantic raise
        return StructuredResponse(response, problems=(str(error),))


class _SchemaMismatchError(Exception):
    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _parser(schema: Schema) -> Callable[[str], Any]:
    if isinstance(schema, Mapping):
        return lambda text: _validate(msgspec.json.decode(text), schema)
    of_pydantic = getattr(schema, "model_validate_json", None)
    return of_pydantic if callable(of_pydantic) else msgspec.json.Decoder(schema).decode


def _validate(value: Any, schema: Mapping[str, Any]) -> Any:
    from jsonschema.validators import validator_for  # 100 ms to load
    from referencing import Registry

    validator = validator_for(schema)(schema, registry=Registry())  # the empty registry fetches nothing
    problems = tuple([f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)])
    if problems:
        raise _SchemaMismatchError(problems)
    return value


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
    request: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for given, value in options.items():
        name = _ALIASES.get(given, given)
        if name in _REQUEST_OPTIONS:
            request[name] = value
        elif name in _PROVIDER_OPTIONS:
            settings[name] = value
        else:
            raise TypeError(
                f"there is no option {given!r} of a call; there are {', '.join(sorted(_REQUEST_OPTIONS | _PROVIDER_OPTIONS))}"
            )
    return request, settings


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

    def config_for(self, spec: str) -> ProviderConfig:
        """The configuration that ``provider:model`` means."""
        name, model = (self._registry or default_registry()).split(spec)
        return ProviderConfig(provider=name, model=model)

    def cached(self, config: ProviderConfig) -> ModelProvider | None:
        """The model of a configuration, if it has been made."""
        requested = self._with_key(config)
        return next((model for known, model in self._kept if known == requested), None)

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
        model = self.cached(config)
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
        except Exception as error:  # the last event tells of it
            self._is_finished = True
            failure = classify_exception(error)
            await _run_callback(self._callbacks.on_error, failure_from_error(failure))
            partial = failure.partial or Message("assistant")
            message = replace(partial, stop_reason="error", error=failure.message)
            return StreamError("error", message, failure)

    async def aclose(self) -> None:
        """Stop; closes the connection."""
        self._is_finished = True
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
        made = self._models.cached(source)
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

    async def invoke_structured(
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
            requested = output_json_schema(schema)
        except (TypeError, RuntimeError) as error:
            return await self._to_failure(error)
        result = await self.invoke(prompt, signal=signal, schema=requested, **options)
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
            return self._models.config_for(source)
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
