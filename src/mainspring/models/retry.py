"""Retries of model calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, Self, TypedDict, TypeVar, Unpack, cast

from msgspec import Meta, Struct
from msgspec.structs import replace

from mainspring.cancellation import CancelToken, sleep as cancellable_sleep
from mainspring.errors import RETRYABLE_CODES, ErrorCode, MainspringError, ModelError
from mainspring.events import StreamEvent, StreamStart
from mainspring.lazy import lazy_function

if TYPE_CHECKING:
    from random import random as _random

    from mainspring.models.errors import classify_exception
else:
    _random = lazy_function("random", "random")
    classify_exception = lazy_function("mainspring.models.errors", "classify_exception")

__all__ = [
    "RetryConfig",
    "RetryContext",
    "RetryInfo",
    "RetryOptions",
    "calculate_delay",
    "is_retryable_error",
    "read_until_content",
    "retry_stream",
    "with_retry",
]

_T = TypeVar("_T")


class RetryConfig(Struct, frozen=True):
    """Retry settings.

    Attributes:
        enabled: Whether to retry.
        max_retries: Maximum number of retries after the first attempt.
        base_delay_seconds: Delay before the first retry; doubles each time.
        max_delay_seconds: Maximum computed delay, jitter included.
        jitter: Fraction by which a delay is randomly increased or decreased; 0 turns it off.
        max_retry_after: Maximum delay, in seconds, that a server may request; if it requests more, the call fails instead.
        mid_stream: Whether to continue a response that was cut off after its first content, at most twice in a call.
    """

    enabled: bool = True
    max_retries: Annotated[int, Meta(ge=0)] = 3
    base_delay_seconds: Annotated[float, Meta(ge=0)] = 1.0
    max_delay_seconds: Annotated[float, Meta(ge=0)] = 10.0
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.25
    max_retry_after: Annotated[float, Meta(ge=0)] = 60.0
    mid_stream: bool = True

    @classmethod
    def from_settings(cls, settings: Any) -> Self:
        """Create the retry settings from the ``retry`` section of ``settings.json``, whose delays are in milliseconds.

        Args:
            settings: The section as an object; None keeps a default.
        """
        base, maximum = settings.base_delay_ms, settings.max_delay_ms
        given: dict[str, Any] = {
            "enabled": settings.enabled,
            "max_retries": settings.max_retries,
            "base_delay_seconds": None if base is None else base / 1000,
            "max_delay_seconds": None if maximum is None else maximum / 1000,
            "jitter": 0.0 if settings.enable_jitter is False else None,
            "mid_stream": settings.mid_stream,
        }
        return cls(**{name: value for name, value in given.items() if value is not None})


class RetryInfo(Struct, frozen=True):
    """An upcoming retry: ``attempt`` starts at 1, ``delay`` is in seconds.

    ``mid_stream`` is true if the response was cut off, and the next call continues it.
    """

    attempt: int
    max_retries: int
    delay: float
    error: ModelError
    mid_stream: bool = False

    @property
    def message(self) -> str:
        """Text of the error."""
        return self.error.message


RetryContext = RetryInfo
"""Alias of `RetryInfo`."""

SleepFunction = Callable[[float, CancelToken | None], Awaitable[bool]]
"""Function that sleeps for a number of seconds; returns False if it was interrupted."""

OnRetry = Callable[[RetryInfo], Any]
"""Function called before each delay; may be async."""

StreamContinuation = Callable[["ModelError", "StreamEvent | None", "RetryOptions"], AsyncGenerator[StreamEvent, None]]
"""Continues a response that was cut off: from the failure with its partial message, and the last event, if any."""


class RetryOptions(Struct, frozen=True):
    """All options of retries.

    Attributes:
        config: Retry settings.
        on_retry: Function called before each delay.
        signal: Signal that ends a delay early; the error is then raised.
        sleep: Function that sleeps.
        rng: Function that returns a number from 0 to 1, for the jitter.
    """

    config: RetryConfig = RetryConfig()
    on_retry: OnRetry | None = None
    signal: CancelToken | None = None
    sleep: SleepFunction = cancellable_sleep
    rng: Callable[[], float] = _random


class RetryFields(TypedDict, total=False):
    """Fields of `RetryOptions` as keyword arguments."""

    on_retry: OnRetry | None
    signal: CancelToken | None
    sleep: SleepFunction
    rng: Callable[[], float]


def is_retryable_error(error: BaseException | str) -> bool:
    """Return True if the same request may succeed later.

    Args:
        error: An exception, or an `ErrorCode`.
    """
    return error in RETRYABLE_CODES if isinstance(error, str) else classify_exception(error).retryable


def calculate_delay(attempt: int, config: RetryConfig | None = None, *, rng: Callable[[], float] = _random) -> float:
    """Return the seconds to wait before a retry.

    Args:
        attempt: Number of the retry, starting at 0.
        config: Retry settings; defaults to `RetryConfig()`.
        rng: Function that returns a number from 0 to 1.

    Returns:
        ``base * 2**attempt``, varied by the jitter, limited to the maximum.
    """
    config = config or RetryConfig()
    delay = min(config.base_delay_seconds * 2.0 ** min(attempt, 64), config.max_delay_seconds)
    if config.jitter:
        delay *= 1 + config.jitter * (2 * rng() - 1)
    return min(max(0.0, delay), config.max_delay_seconds)


def next_delay(
    error: ModelError, attempt: int, config: RetryConfig, rng: Callable[[], float] = _random
) -> float | None:
    """Return the seconds to wait before the next attempt, or ``None`` to stop.

    A delay requested by the server overrides the computed one; a delay that is too long stops the retries.
    """
    if not config.enabled or attempt >= config.max_retries or not error.retryable:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= config.max_retry_after else None
    return calculate_delay(attempt, config, rng=rng)


async def with_retry(
    call: Callable[[], Awaitable[_T]], options: RetryOptions | RetryConfig | None = None, **more: Unpack[RetryFields]
) -> _T:
    """Call a function until it succeeds or a retry is pointless.

    Args:
        call: Function to call. It may also return a `Failure`, which is retried like an exception and returned in the end.
        options: Retry options; a `RetryConfig` is used as their ``config``.
        more: Fields of `RetryOptions`: ``on_retry``, ``signal``, ``sleep``, ``rng``.

    Raises:
        ModelError: The last failure. Other exceptions are classified and raised as `ModelError` too.
    """
    chosen = _merge_options(options, more)
    attempt = 0
    while True:
        try:
            result = await call()
            failure = _failed_call(result)
            if failure is None or not await sleep_before_retry(failure, attempt, chosen):
                return result
        except Exception as error:  # Raised again as a ModelError.
            failure = as_provider_error(error)
            if not await sleep_before_retry(failure, attempt, chosen):
                raise failure from failure.__cause__
        attempt += 1


def _failed_call(result: Any) -> ModelError | None:
    """Return the error of a `Failure`."""
    if getattr(result, "success", True) or not isinstance(getattr(result, "error", None), ErrorCode):
        return None
    return result.cause or ModelError(result.message, code=result.error, retry_after=result.retry_after)


async def retry_stream(
    open: Callable[[], AsyncIterator[StreamEvent]],
    options: RetryOptions | RetryConfig | None = None,
    continue_response: StreamContinuation | None = None,
    **more: Unpack[RetryFields],
) -> AsyncGenerator[StreamEvent, None]:
    """Open a stream, and reopen it after failures before the first content.

    ``StreamStart`` is not content and is sent once, regardless of the number of attempts. After a failure that comes after the
    first content event, the response is continued, or the failure is raised with the content received before in ``partial``.

    Args:
        open: Function that opens the stream.
        options: Retry options; a `RetryConfig` is used as their ``config``.
        continue_response: Function that continues a response; see `continue_stream`. Without it, the failure is raised.
        more: Fields of `RetryOptions`.

    Raises:
        ModelError: The last failure.
    """
    chosen = _merge_options(options, more)
    attempt = 0
    while True:
        begun = False
        event: StreamEvent | None = None
        try:
            async with aclosing(cast("AsyncGenerator[StreamEvent, None]", open())) as stream:
                head = await read_until_content(stream)
                begun = True
                for event in head:
                    yield event
                async for event in stream:
                    yield event
            return
        except Exception as error:  # Raised again as a ModelError.
            failure = as_provider_error(error)
            if begun and failure.partial is None and event is not None:
                failure.partial = event.partial
            if failure.partial is not None and failure.partial.content:
                break  # Content, although a replayed failure has no events before it.
            if begun or not await sleep_before_retry(failure, attempt, chosen):
                raise failure from failure.__cause__
        attempt += 1
    if continue_response is None or not chosen.config.mid_stream:
        raise failure from failure.__cause__
    async with aclosing(continue_response(failure, event, chosen)) as rest:
        async for event in rest:
            yield event


async def read_until_content(stream: AsyncIterator[StreamEvent]) -> list[StreamEvent]:
    """Return the events of a stream up to the first with content: until then the stream can be replaced by another one."""
    head: list[StreamEvent] = []
    async for event in stream:
        head.append(event)
        if type(event) is not StreamStart:
            break
    return head


def _merge_options(options: RetryOptions | RetryConfig | None, more: RetryFields) -> RetryOptions:
    if not isinstance(options, RetryOptions):
        options = RetryOptions(options or RetryConfig())
    return replace(options, **more) if more else options


def as_provider_error(error: Exception) -> ModelError:
    """Return the error as a provider failure; raise other errors, for example a recording that does not match the run."""
    if isinstance(error, MainspringError) and not isinstance(error, ModelError):
        raise error
    return classify_exception(error)


async def sleep_before_retry(
    failure: ModelError, attempt: int, options: RetryOptions, *, max_continuations: int | None = None
) -> bool:
    """Wait for the next attempt; return False to stop.

    With ``max_continuations``, the next attempt continues a response that was cut off.
    """
    config, signal = options.config, options.signal
    if max_continuations is not None:
        config = replace(config, max_retries=min(config.max_retries, max_continuations))
    delay = next_delay(failure, attempt, config, options.rng)
    if delay is None or (signal is not None and signal.cancelled):
        return False
    if options.on_retry is not None:
        mid_stream = max_continuations is not None
        result = options.on_retry(RetryInfo(attempt + 1, config.max_retries, delay, failure, mid_stream))
        if isinstance(result, Awaitable):
            await result
    return await options.sleep(delay, signal)
