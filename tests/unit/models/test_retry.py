"""Retries: which errors are retried, and after which delay."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from mainspring.cancellation import CancelToken
from mainspring.errors import (
    AuthenticationError,
    ContextExceededError,
    InvalidResponseError,
    ModelError,
    ModelTimeoutError,
    NetworkError,
    RateLimitedError,
)
from mainspring.events import StreamEvent
from mainspring.messages import Message
from mainspring.models import (
    RetryConfig,
    RetryInfo,
    calculate_delay,
    extract_retry_after,
    is_retryable_error,
    retry_stream,
    with_retry,
)
from mainspring.models.port import ModelRequest
from mainspring.testing.scripted_model import Reply, ScriptedModel

HI = ModelRequest([Message.user("Hi")])


class Clock:
    """A sleep function that returns immediately and records the delays."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float, signal: CancelToken | None) -> bool:
        self.slept.append(seconds)
        return not (signal and signal.cancelled)


def make_failing_call(*errors: Exception, then: str = "done") -> tuple[Callable[[], Any], list[int]]:
    failures, request = list(errors), [0]

    async def call() -> str:
        request[0] += 1
        if failures:
            raise failures.pop(0)
        return then

    return call, request


@pytest.mark.covers("RET-01", "RET-02", "RET-03", "RET-06")
def test_delays_double_up_to_a_maximum() -> None:
    steady = RetryConfig(jitter=0)

    assert [calculate_delay(n, steady) for n in range(6)] == [1, 2, 4, 8, 10, 10]
    assert calculate_delay(5000, steady) == 10
    assert RetryConfig() == RetryConfig(True, 3, 1.0, 10.0, 0.25, 60)
    assert calculate_delay(2, rng=lambda: 0.0) == 3.0
    assert calculate_delay(2, rng=lambda: 1.0) == 5.0
    assert calculate_delay(2, rng=lambda: 0.5) == 4.0
    assert calculate_delay(9, RetryConfig(jitter=0, max_delay_seconds=60)) == 60
    assert calculate_delay(9, rng=lambda: 0.0) == 7.5
    assert calculate_delay(9, rng=lambda: 1.0) == 10
    assert all(7.5 <= calculate_delay(9) <= 10 for _ in range(50))
    assert calculate_delay(3, rng=lambda: 1.0) == 10  # 8 seconds and a quarter.


@pytest.mark.covers("RET-03", "RET-06", "MOD-11")
async def test_call_is_retried_three_times_by_default() -> None:
    clock = Clock()
    call, request = make_failing_call(*[NetworkError(f"{n}") for n in range(9)])

    with pytest.raises(NetworkError, match="3"):
        await with_retry(call, sleep=clock, rng=lambda: 0.5)

    assert (request[0], clock.slept) == (4, [1, 2, 4])


@pytest.mark.covers("RET-05")
async def test_retries_can_be_disabled() -> None:
    call, request = make_failing_call(NetworkError("no"))

    with pytest.raises(NetworkError):
        await with_retry(call, RetryConfig(enabled=False), sleep=Clock())

    assert request[0] == 1


@pytest.mark.covers("RET-06", "RET-14", "MOD-16", "RET-18", "RET-21")
@pytest.mark.parametrize(
    ("error", "is_retried"),
    [
        (RateLimitedError("x"), True),
        (NetworkError("x"), True),
        (ModelTimeoutError("x"), True),
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (RateLimitedError("x", reason="quota", retryable=False), False),
        (AuthenticationError("x"), False),
        (ContextExceededError("x"), False),
        (InvalidResponseError("x"), False),
        (ModelError("x"), False),
        (ValueError("x"), False),
    ],
)
async def test_only_retryable_errors_are_retried(error: Exception, is_retried: bool) -> None:
    call, request = make_failing_call(error)
    clock = Clock()

    if is_retried:
        assert await with_retry(call, sleep=clock) == "done"
    else:
        with pytest.raises(ModelError):
            await with_retry(call, sleep=clock)

    assert (request[0], len(clock.slept)) == ((2, 1) if is_retried else (1, 0))
    assert is_retryable_error(error) is is_retried


@pytest.mark.covers("RET-12", "TST-09")
async def test_retry_after_is_used_up_to_a_limit() -> None:
    clock = Clock()
    call, _ = make_failing_call(RateLimitedError("x", retry_after=33.0))
    assert await with_retry(call, sleep=clock) == "done"
    assert clock.slept == [33.0]

    call, request = make_failing_call(RateLimitedError("x", retry_after=61.0))
    with pytest.raises(RateLimitedError) as caught:
        await with_retry(call, sleep=clock)
    assert (request[0], caught.value.retry_after) == (1, 61.0)

    call, _ = make_failing_call(RateLimitedError("x", retry_after=61.0))
    assert await with_retry(call, RetryConfig(max_retry_after=90), sleep=clock) == "done"


async def test_each_wait_is_reported() -> None:
    retries: list[RetryInfo] = []

    async def record_retry(info: RetryInfo) -> None:
        retries.append(info)

    call, _ = make_failing_call(NetworkError("a"), NetworkError("b"))
    await with_retry(call, on_retry=record_retry, sleep=Clock(), rng=lambda: 0.5)

    assert [(i.attempt, i.max_retries, i.delay, i.message) for i in retries] == [(1, 3, 1.0, "a"), (2, 3, 2.0, "b")]


@pytest.mark.covers("RET-13")
async def test_cancel_token_ends_the_wait() -> None:
    signal = CancelToken()
    call, request = make_failing_call(NetworkError("a", retry_after=50.0))

    with pytest.raises(NetworkError):
        await with_retry(call, signal=signal, on_retry=lambda _: signal.cancel())

    assert request[0] == 1


# --- streams -----------------------------------------------------------------------------------------------------------


async def collect(stream: AsyncGenerator[StreamEvent, None]) -> tuple[list[str], ModelError | None]:
    seen: list[str] = []
    try:
        async for event in stream:
            seen.append(event.type)
    except ModelError as error:
        return seen, error
    return seen, None


@pytest.mark.covers("RET-15")
async def test_stream_without_content_is_retried() -> None:
    model = ScriptedModel(NetworkError("a"), Reply("hello", truncate_after=0), "hello")
    clock = Clock()

    seen, error = await collect(retry_stream(lambda: model.stream(HI), sleep=clock))

    assert error is None
    assert seen == ["start", "text_start", "text_delta", "text_end", "done"]
    assert len(model.requests) == 3
    assert len(clock.slept) == 2


@pytest.mark.covers("RET-15", "STR-13")
async def test_failure_after_the_first_content_is_raised_with_the_partial_message() -> None:
    model = ScriptedModel(Reply("hello", chunk_count=5, truncate_after=2), "hello")

    seen, error = await collect(retry_stream(lambda: model.stream(HI), sleep=Clock()))

    assert seen == ["start", "text_start", "text_delta", "text_delta"]
    assert error is not None
    assert error.partial is not None
    assert error.partial.text == "he"
    assert len(model.requests) == 1


async def test_stream_that_keeps_failing_raises() -> None:
    model = ScriptedModel(NetworkError("a"), loop=True)

    seen, error = await collect(retry_stream(lambda: model.stream(HI), RetryConfig(max_retries=2), sleep=Clock()))

    assert (seen, str(error), len(model.requests)) == ([], "a", 3)


async def test_closing_a_retry_stream_closes_the_inner_stream() -> None:
    model = ScriptedModel(Reply("hello", chunk_count=5))
    stream = retry_stream(lambda: model.stream(HI))
    async for event in stream:
        if event.type == "text_delta":
            break
    await stream.aclose()

    assert model.closed == 1


async def test_native_errors_are_classified() -> None:
    model = ScriptedModel(ConnectionRefusedError("nobody there"), "hello")
    retries: list[RetryInfo] = []

    _, error = await collect(retry_stream(lambda: model.stream(HI), on_retry=retries.append, sleep=Clock()))

    assert error is None
    assert isinstance(retries[0].error, NetworkError)


# --- hints -------------------------------------------------------------------------------------------------------------

NOW = 1_700_000_000.0


@pytest.mark.covers("RET-06", "RET-07", "RET-08", "RET-09", "RET-10", "RET-11")
@pytest.mark.parametrize(
    ("source", "text", "seconds"),
    [
        ({"Retry-After": "12"}, "", 12),
        ({"retry-after": "1.5"}, "", 1.5),
        ({"retry-after-ms": "250"}, "", 0.25),
        ({"retry-after": "2", "retry-after-ms": "0"}, "", 2),
        ({"retry-after": "0"}, "", 0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:40 GMT"}, "", 20),
        ({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, "", 0),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "-5"}, "", 0),
        ({"error": {"retry_after": 3}}, "", 3),
        ({"retryAfter": 4}, "", 4),
        ({"error": {"details": [{"@type": "x"}, {"retryDelay": "34.4s"}]}}, "", 34.4),
        ({"error": {"metadata": {"headers": {"X-RateLimit-Reset": "1700000015000"}}}}, "", 15),
        ({"x-ratelimit-reset": "1700000030"}, "", 30),
        ({"x-ratelimit-reset": "9"}, "", 9),
        ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0"}, "", 360),
        ({"x-ratelimit-reset-tokens": "20ms", "x-ratelimit-remaining-tokens": "0"}, "", 0.02),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "900"}, "", None),
        (
            {
                "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:30Z",
                "anthropic-ratelimit-requests-remaining": "0",
            },
            "",
            10,
        ),
        ({"retry-after": "1", "x-ratelimit-reset": "50"}, "Please try again in 90s", 1),
        ({}, "Rate limit reached. Please try again in 1.898s.", 1.898),
        ({}, "Please try again in 6m0.5s.", 360.5),
        ({}, "Please retry after 20 seconds.", 20),
        ({}, "Try again in 250ms", 0.25),
        ({}, "Please retry in 2 minutes", 120),
        ({}, "Wait for 1h2m before the next request", 3720),
        ({}, "Your quota will reset after 5s.", 5),
        ({}, "You can retry later, 429 times if you like", None),
        ({}, "", None),
        (None, "no", None),
    ],
)
def test_retry_after_is_read_from_headers_bodies_and_messages(source: Any, text: str, seconds: float | None) -> None:
    found = extract_retry_after(source, text, now=NOW)

    assert found == (seconds if seconds is None else pytest.approx(seconds))


@pytest.mark.covers("TST-09")
def test_retry_after_is_read_from_exceptions() -> None:
    class Response:
        headers = {"Retry-After": "8"}  # noqa: RUF012

    class Native(Exception):
        retry_after = 5
        response = Response()

    class Other(Exception):
        response = Response()

    assert extract_retry_after(Native()) == 8
    assert extract_retry_after(Other()) == 8
    assert extract_retry_after(RateLimitedError("x", retry_after=3.0)) == 3
    assert extract_retry_after(ValueError("try again in 3s")) == 3
