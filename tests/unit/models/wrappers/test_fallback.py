"""Fallback to the next model if one is not available."""

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


def make_fallback(first: Any, second: Any, **options: Any) -> tuple[FallbackModel, ScriptedModel, ScriptedModel]:
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
async def test_next_model_responds_and_the_message_names_it(error: Exception) -> None:
    changes: list[FallbackEvent] = []
    model, _, b = make_fallback([error], ["Hello"], on_fallback=changes.append)

    answer = await model.complete(HI)

    assert (answer.text, answer.message.provider, answer.message.model) == ("Hello", "two", "b")
    assert [(t.failed.model, t.next.model) for t in changes] == [("a", "b")]
    assert str(error) in str(changes[0].error)
    assert len(b.requests) == 1


@pytest.mark.covers("BYD-25")
async def test_no_fallback_after_the_first_content() -> None:
    model, _, b = make_fallback([Reply("Hello", chunk_count=5, truncate_after=2)], ["Other"])
    seen: list[str] = []

    async def record_events() -> None:
        async for event in model.stream(HI):
            seen.append(event.type)

    with pytest.raises(NetworkError) as caught:
        await record_events()

    assert seen == ["start", "text_start", "text_delta", "text_delta"]
    assert caught.value.partial is not None
    assert b.requests == []


@pytest.mark.parametrize("error", [AuthenticationError("bad key"), ContextExceededError("long"), ModelError("odd")])
async def test_errors_that_another_model_cannot_fix_are_raised(error: Exception) -> None:
    model, _, b = make_fallback([error], ["Hello"])

    with pytest.raises(type(error)):
        await model.complete(HI)

    assert b.requests == []


async def test_fallback_errors_can_be_selected() -> None:
    by_code, _, _ = make_fallback([AuthenticationError("bad")], ["Hello"], on={ErrorCode.AUTHENTICATION_ERROR})
    by_function, _, _ = make_fallback([ModelError("odd", reason="x")], ["Hello"], on=lambda error: error.reason == "x")

    assert (await by_code.complete(HI)).text == "Hello"
    assert (await by_function.complete(HI)).text == "Hello"


async def test_last_failure_has_notes_about_the_others() -> None:
    model, _, _ = make_fallback([NetworkError("a is down")], [NetworkError("b is down")])

    with pytest.raises(NetworkError, match="b is down") as caught:
        await model.complete(HI)

    assert caught.value.__notes__ == ["one:a failed before: a is down"]


async def test_failed_model_is_skipped_during_its_cool_down() -> None:
    clock = Clock()
    model, a, b = make_fallback([NetworkError("down"), "I am back"], ["Hello"], cool_down=30.0, clock=clock)

    assert (await model.complete(HI)).text == "Hello"
    assert (await model.complete(HI)).text == "Hello"
    assert (len(a.requests), len(b.requests)) == (1, 2)
    clock.now += 31
    assert (await model.complete(HI)).text == "I am back"


async def test_retry_after_sets_the_cool_down() -> None:
    clock = Clock()
    model, _, b = make_fallback([RateLimitedError("slow", retry_after=300.0), "I am back"], ["Hello"], clock=clock)

    await model.complete(HI)
    clock.now += 299
    assert (await model.complete(HI)).text == "Hello"
    clock.now += 2
    assert (await model.complete(HI)).text == "I am back"
    assert len(b.requests) == 2


async def test_models_are_tried_in_order_if_all_are_cooling_down() -> None:
    model, a, b = make_fallback([NetworkError("down"), "Hello"], [NetworkError("down too")])

    with pytest.raises(NetworkError):
        await model.complete(HI)
    assert (await model.complete(HI)).text == "Hello"
    assert (len(a.requests), len(b.requests)) == (2, 1)


async def test_on_fallback_can_be_async_and_closing_early_closes_the_stream() -> None:
    changes: list[FallbackEvent] = []

    async def record_change(change: FallbackEvent) -> None:
        changes.append(change)

    model, _, b = make_fallback([NetworkError("down")], [Reply("Hello", chunk_count=5)], on_fallback=record_change)
    stream = model.stream(HI)
    await anext(stream)
    await stream.aclose()

    assert len(changes) == 1
    assert b.closed == 1


def test_model_info_is_the_common_minimum() -> None:
    big = ScriptedModel(info=ModelInfo("a", "one", context_window=200_000))
    small = ScriptedModel(info=ModelInfo("b", "two", context_window=8_000, vision=False))
    unknown = ScriptedModel(info=ModelInfo("c", "three"))
    model = FallbackModel([big, small, unknown])

    assert (model.provider, model.model) == ("one", "a")
    assert (model.info.context_window, model.info.vision) == (8_000, False)
    with pytest.raises(ValueError, match="at least one"):
        FallbackModel([])


@pytest.mark.covers("BYD-25")
async def test_fallback_counts_as_no_client_retry() -> None:
    model, _, _ = make_fallback([NetworkError("down")], ["Hello"])
    retries: list[Any] = []

    from mainspring.models import ModelCallbacks

    result = await LLMClient(model, callbacks=ModelCallbacks(on_retry=retries.append)).stream("Hi")

    assert isinstance(result, Success)
    events = [event async for event in result.result]
    assert isinstance(events[-1], Done)
    assert retries == []
