"""Not more a minute than is allowed; the clock is a number."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.messages import Message, Usage
from mainspring.models import ModelRequest, RateLimitedModel, TokenBucket
from mainspring.testing.scripted_model import Reply, ScriptedModel

HI = ModelRequest([Message.user("Hi")])


class Time:
    """A clock that goes on only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds
        await asyncio.sleep(0)


async def test_requests_beyond_the_rate_wait() -> None:
    time = Time()
    model = RateLimitedModel(ScriptedModel("Hi", loop=True), requests_per_minute=3, clock=time, sleep=time.sleep)

    for _ in range(5):
        await model.complete(HI)

    assert time.slept == [20.0, 20.0]
    assert (model.provider, model.model, model.info.id) == ("scripted", "scripted-1", "scripted-1")


async def test_tokens_are_estimated_before_and_corrected_after() -> None:
    time = Time()
    script = ScriptedModel(Reply("Hi", usage=Usage(5000, 1000)), Reply("Hi", usage=Usage(10, 10)), "Hi")
    model = RateLimitedModel(script, tokens_per_minute=6000, clock=time, sleep=time.sleep)

    await model.complete(HI)  # about 1000 expected, 6000 told: the bucket is empty
    assert time.slept == []
    await model.complete(HI)
    assert sum(time.slept) == pytest.approx(10, abs=0.1)
    await model.complete(HI)  # the second was cheap: nothing to wait for but what it took
    assert sum(time.slept) == pytest.approx(10.2, abs=0.2)


async def test_what_is_larger_than_the_bucket_is_not_stuck() -> None:
    time = Time()
    bucket = TokenBucket(60, clock=time, sleep=time.sleep)

    await bucket.acquire(600)
    assert time.slept == []
    await bucket.acquire(60)
    assert sum(time.slept) == pytest.approx(600)


async def test_who_came_first_is_served_first_and_who_leaves_takes_nothing() -> None:
    time = Time()
    gate = asyncio.Event()
    order: list[str] = []

    async def sleep(seconds: float) -> None:
        await gate.wait()
        await time.sleep(seconds)

    bucket = TokenBucket(1, clock=time, sleep=sleep)
    await bucket.acquire(1)

    async def take(name: str) -> None:
        await bucket.acquire(1)
        order.append(name)

    async with asyncio.TaskGroup() as group:
        first = group.create_task(take("first"))
        for name in ("second", "third"):
            group.create_task(take(name))
        await asyncio.sleep(0)
        first.cancel()
        gate.set()

    assert order == ["second", "third"]
    assert time.now == pytest.approx(120)


@given(st.lists(st.floats(0.1, 200), min_size=1, max_size=20))
def test_no_more_goes_through_than_fills_in(amounts: list[float]) -> None:
    time = Time()

    async def all_of_them() -> None:
        bucket = TokenBucket(100, clock=time, sleep=time.sleep)
        for amount in amounts:
            await bucket.acquire(amount)

    asyncio.run(all_of_them())

    assert sum(amounts[:-1]) <= 100 + time.now * 100 / 60 + max(amounts) + 1e-6


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        TokenBucket(0)
