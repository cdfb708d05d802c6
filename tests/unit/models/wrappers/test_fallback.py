"""The next model where one cannot be had."""

from typing import Any

import pytest

from mainspring.errors import (
    AuthenticationError,
    ContextExceededError,
    ErrorCode,
    ModelError,
    NetworkError,
    RateLimitedError,
)
from mainspring.events import Done
from mainspring.messages import Message
from mainspring.models import FallbackEvent, FallbackModel, LLMClient, ModelInfo, ModelRequest, Success
from mainspring.testing.scripted_model import Reply, ScriptedModel

HI = ModelRequest([Message.user("Hi")])


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def pair(first: Any, second: Any, **options: Any) -> tuple[FallbackModel, ScriptedModel, ScriptedModel]:
    a = ScriptedModel(*first, provider="one", model="a", loop=True)
    b = ScriptedModel(*second, provider="two", model="b", loop=True)
    return FallbackModel([a, b], **options), a, b


@pytest.mark.covers("BYD-25")
@pytest.mark.parametrize(
    "error",
    [
        RateLimitedError("busy", reason="overloaded"),
        RateLimitedError("no credit", reason="quota", retryable=False),
        NetworkError("down"),
        ConnectionRefusedError("refused"),
        TimeoutError(),
    ],
)
async def test_the_next_model_answers_and_the_message_says_which(error: Exception) -> None:
    told: list[FallbackEvent] = []
    model, _, b = pair([error], ["Hello"], on_fallback=told.append)

    answer = await model.complete(HI)

    assert (answer.text, answer.message.provider, answer.message.model) == ("Hello", "two", "b")
    assert [(t.failed.model, t.next.model) for t in told] == [("a", "b")]
    assert str(error) in str(told[0].error)
    assert len(b.requests) == 1


@pytest.mark.covers("BYD-25")
async def test_after_content_nothing_is_asked_again() -> None:
    model, _, b = pair([Reply("Hello", chunk_count=5, truncate_after=2)], ["Other"])
    seen: list[str] = []

    async def watch() -> None:
        async for event in model.stream(HI):
            seen.append(event.type)

    with pytest.raises(NetworkError) as caught:
        await watch()

    assert seen == ["start", "text_start", "text_delta", "text_delta"]
    assert caught.value.partial is not None
    assert b.requests == []


@pytest.mark.parametrize("error", [AuthenticationError("bad key"), ContextExceededError("long"), ModelError("odd")])
async def test_what_another_model_cannot_help_is_raised(error: Exception) -> None:
    model, _, b = pair([error], ["Hello"])

    with pytest.raises(type(error)):
        await model.complete(HI)

    assert b.requests == []


async def test_what_counts_can_be_chosen() -> None:
    codes, _, _ = pair([AuthenticationError("bad")], ["Hello"], on={ErrorCode.AUTHENTICATION_ERROR})
    judged, _, _ = pair([ModelError("odd", reason="x")], ["Hello"], on=lambda error: error.reason == "x")

    assert (await codes.complete(HI)).text == "Hello"
    assert (await judged.complete(HI)).text == "Hello"


async def test_the_last_failure_tells_of_the_others() -> None:
    model, _, _ = pair([NetworkError("a is down")], [NetworkError("b is down")])

    with pytest.raises(NetworkError, match="b is down") as caught:
        await model.complete(HI)

    assert caught.value.__notes__ == ["one:a failed before: a is down"]


async def test_a_model_that_failed_is_passed_over_for_a_while() -> None:
    clock = Clock()
    model, a, b = pair([NetworkError("down"), "I am back"], ["Hello"], cool_down=30.0, clock=clock)

    assert (await model.complete(HI)).text == "Hello"
    assert (await model.complete(HI)).text == "Hello"
    assert (len(a.requests), len(b.requests)) == (1, 2)
    clock.now += 31
    assert (await model.complete(HI)).text == "I am back"


async def test_what_the_host_asks_to_wait_is_how_long_it_is_passed_over() -> None:
    clock = Clock()
    model, _, b = pair([RateLimitedError("slow", retry_after=300.0), "I am back"], ["Hello"], clock=clock)

    await model.complete(HI)
    clock.now += 299
    assert (await model.complete(HI)).text == "Hello"
    clock.now += 2
    assert (await model.complete(HI)).text == "I am back"
    assert len(b.requests) == 2


async def test_where_all_failed_they_are_asked_again_in_order() -> None:
    model, a, b = pair([NetworkError("down"), "Hello"], [NetworkError("down too")])

    with pytest.raises(NetworkError):
        await model.complete(HI)
    assert (await model.complete(HI)).text == "Hello"
    assert (len(a.requests), len(b.requests)) == (2, 1)


async def test_callbacks_may_be_async_and_closing_early_closes_the_stream() -> None:
    told: list[FallbackEvent] = []

    async def tell(change: FallbackEvent) -> None:
        told.append(change)

    model, _, b = pair([NetworkError("down")], [Reply("Hello", chunk_count=5)], on_fallback=tell)
    stream = model.stream(HI)
    await anext(stream)
    await stream.aclose()

    assert len(told) == 1
    assert b.closed == 1


def test_its_facts_hold_for_whichever_answers() -> None:
    big = ScriptedModel(info=ModelInfo("a", "one", context_window=200_000))
    small = ScriptedModel(info=ModelInfo("b", "two", context_window=8_000, vision=False))
    unknown = ScriptedModel(info=ModelInfo("c", "three"))
    model = FallbackModel([big, small, unknown])

    assert (model.provider, model.model) == ("one", "a")
    assert (model.info.context_window, model.info.vision) == (8_000, False)
    with pytest.raises(ValueError, match="at least one"):
        FallbackModel([])


@pytest.mark.covers("BYD-25")
async def test_a_client_retries_the_whole_only_when_no_model_can_be_had() -> None:
    model, _, _ = pair([NetworkError("down")], ["Hello"])
    retries: list[Any] = []

    from mainspring.models import ModelCallbacks

    result = await LLMClient(model, callbacks=ModelCallbacks(on_retry=retries.append)).stream("Hi")

    assert isinstance(result, Success)
    events = [event async for event in result.result]
    assert isinstance(events[-1], Done)
    assert retries == []
