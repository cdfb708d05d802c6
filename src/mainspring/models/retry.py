"""The one place where model calls are tried again."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, cast

from msgspec import Struct
from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.cancellation import sleep as cancellable_sleep
from mainspring.errors import MainspringError, ModelError
from mainspring.events import StreamEvent, StreamStart
from mainspring.lazy import lazy_function
from mainspring.models.errors import extract_retry_after

if TYPE_CHECKING:
    from mainspring.models.errors import classify_exception
else:
    classify_exception = lazy_function("mainspring.models.errors", "classify_exception")

__all__ = [
    "RetryConfig",
    "RetryContext",
    "RetryInfo",
    "RetryOptions",
    "calculate_delay",
    "extract_retry_after",
    "is_retryable_error",
    "read_until_content",
    "retry_stream",
    "with_retry",
]

_T = TypeVar("_T")


class RetryConfig(Struct, frozen=True):
    """How often and how patiently to try again.

    Attributes:
        enabled: Whether to try again at all.
        max_retries: How many times after the first try.
        base_delay_ms: Wait before the first retry, in milliseconds; doubles each time.
        max_delay_ms: Longest computed wait, in milliseconds.
        jitter: Part by which a wait is varied up or down at random; 0 turns it off.
        max_retry_after: Longest wait, in seconds, that a server may ask for; asked for more, the call fails instead.
    """

    enabled: bool = True
    max_retries: int = 3
    base_delay_ms: float = 1000
    max_delay_ms: float = 10000
    jitter: float = 0.25
    max_retry_after: float = 60.0


class RetryInfo(Struct, frozen=True):
    """A retry about to be made: ``attempt`` counts from 1, ``delay`` is in seconds."""

    attempt: int
    max_retries: int
    delay: float
    error: ModelError

    @property
    def message(self) -> str:
        """The error's text."""
        return self.error.message

    @property
    def delay_ms(self) -> float:
        """The wait in milliseconds."""
        return self.delay * 1000


RetryContext = RetryInfo
"""The same under its other name."""

SleepFunction = Callable[[float, CancelToken | None], Awaitable[bool]]
"""Sleeps for seconds; false if it was cut short."""

OnRetry = Callable[[RetryInfo], Any]
"""Called before each wait; may be async."""


class RetryOptions(Struct, frozen=True):
    """Everything about trying again, in one value.

    Attributes:
        config: How often and how patiently.
        on_retry: Told before each wait.
        signal: Cuts a wait short; the error is then raised.
        sleep: How to wait.
        rng: Source of the jitter: gives a number from 0 to 1.
    """

    config: RetryConfig = RetryConfig()
    on_retry: OnRetry | None = None
    signal: CancelToken | None = None
    sleep: SleepFunction = cancellable_sleep
    rng: Callable[[], float] = random.random


class RetryFields(TypedDict, total=False):
    """Single fields of `RetryOptions`, as arguments."""

    on_retry: OnRetry | None
    signal: CancelToken | None
    sleep: SleepFunction
    rng: Callable[[], float]


def is_retryable_error(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    return classify_exception(error).retryable


def calculate_delay(
    attempt: int, config: RetryConfig | None = None, *, rng: Callable[[], float] = random.random
) -> float:
    """Seconds to wait before a retry.

    Args:
        attempt: Number of the retry, from 0.
        config: The settings; the defaults if left out.
        rng: Gives a number from 0 to 1.

    Returns:
        ``base * 2**attempt``, at most the maximum, varied by the jitter.
    """
    config = config or RetryConfig()
    delay = min(config.base_delay_ms * 2.0 ** min(attempt, 64), config.max_delay_ms)
    if config.jitter:
        delay *= 1 + config.jitter * (2 * rng() - 1)
    return max(0.0, delay) / 1000


def next_delay(
    error: ModelError, attempt: int, config: RetryConfig, rng: Callable[[], float] = random.random
) -> float | None:
    """Seconds to wait before the next try, or ``None`` if there is to be none.

    A wait that the server asks for wins over the computed one; one that is too long ends it.
    """
    if not config.enabled or attempt >= config.max_retries or not error.retryable:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= config.max_retry_after else None
    return calculate_delay(attempt, config, rng=rng)


async def with_retry(
    call: Callable[[], Awaitable[_T]], options: RetryOptions | RetryConfig | None = None, **more: Unpack[RetryFields]
) -> _T:
    """Call until it succeeds, or until trying again makes no sense.

    Args:
        call: What to call.
        options: How; a `RetryConfig` stands for the options that hold it.
        more: Single fields of `RetryOptions`: ``on_retry``, ``signal``, ``sleep``, ``rng``.

    Raises:
        ModelError: The last failure. Other exceptions are classified, and raised as `ModelError` too.
    """
    chosen = _merge_options(options, more)
    attempt = 0
    while True:
        try:
            return await call()
        except Exception as error:  # raised again, classified
            failure = as_provider_error(error)
            if not await _sleep_before_retry(failure, attempt, chosen):
                raise failure from failure.__cause__
        attempt += 1


async def retry_stream(
    open: Callable[[], AsyncIterator[StreamEvent]],
    options: RetryOptions | RetryConfig | None = None,
    **more: Unpack[RetryFields],
) -> AsyncGenerator[StreamEvent, None]:
    """A stream that is opened again as long as nothing of its content was seen.

    ``StreamStart`` is no content and comes once, however many tries there are. After the first content event a failure is
    raised, with what had arrived in ``partial``.

    Args:
        open: Opens the stream.
        options: How; a `RetryConfig` stands for the options that hold it.
        more: Single fields of `RetryOptions`.

    Raises:
        ModelError: The last failure.
    """
    chosen = _merge_options(options, more)
    attempt = 0
    while True:
        begun = False
        try:
            async with aclosing(cast("AsyncGenerator[StreamEvent, None]", open())) as stream:
                head = await read_until_content(stream)
                begun = True
                for event in head:
                    yield event
                async for event in stream:
                    yield event
            return
        except Exception as error:  # raised again, classified
            failure = as_provider_error(error)
            if begun or not await _sleep_before_retry(failure, attempt, chosen):
                raise failure from failure.__cause__
        attempt += 1


async def read_until_content(stream: AsyncIterator[StreamEvent]) -> list[StreamEvent]:
    """The events of a stream up to the first that carries content: until then it can be given up for another one."""
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
    """What failed, as the provider's failure; what is none of it is raised: a record that does not fit the run, say."""
    if isinstance(error, MainspringError) and not isinstance(error, ModelError):
        raise error
    return classify_exception(error)


async def _sleep_before_retry(failure: ModelError, attempt: int, options: RetryOptions) -> bool:
    """Wait for the next try; false if there is to be none."""
    config, signal = options.config, options.signal
    delay = next_delay(failure, attempt, config, options.rng)
    if delay is None or (signal is not None and signal.cancelled):
        return False
    if options.on_retry is not None:
        told = options.on_retry(RetryInfo(attempt + 1, config.max_retries, delay, failure))
        if isinstance(told, Awaitable):
            await told
    return await options.sleep(delay, signal)
