"""Rate limits per minute, with a fake clock."""

import asyncio

import pytest
from hypothesis import given, strategies as st

from mainspring.messages import Message, Usage
from mainspring.models import ModelRequest, RateLimitedModel, TokenBucket
from mainspring.testing.scripted_model import Reply, ScriptedModel

HI = ModelRequest([Message.user("Hi")])


class FakeClock:
    """A clock that advances only during a sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds
        await asyncio.sleep(0)


@pytest.mark.covers("OPT-10")
async def test_requests_above_the_rate_wait() -> None:
    fake_clock = FakeClock()
    model = RateLimitedModel(
        ScriptedModel("Hi", loop=True), requests_per_minute=3, clock=fake_clock, sleep=fake_clock.sleep
    )

    for _ in range(5):
        await model.complete(HI)

    assert fake_clock.slept == [20.0, 20.0]
    assert (model.provider, model.model, model.info.id) == ("scripted", "scripted-1", "scripted-1")


@pytest.mark.covers("OPT-10")
async def test_token_estimate_is_corrected_after_the_response() -> None:
    fake_clock = FakeClock()
    script = ScriptedModel(Reply("Hi", usage=Usage(5000, 1000)), Reply("Hi", usage=Usage(10, 10)), "Hi")
    model = RateLimitedModel(script, tokens_per_minute=6000, clock=fake_clock, sleep=fake_clock.sleep)

    await model.complete(HI)  # About 1000 tokens were estimated and 6000 reported, so the bucket is empty.
    assert fake_clock.slept == []
    await model.complete(HI)
    assert sum(fake_clock.slept) == pytest.approx(10, abs=0.1)
    await model.complete(HI)  # The second request was cheap, so the wait covers only its own tokens.
    assert sum(fake_clock.slept) == pytest.approx(10.2, abs=0.2)


async def test_amount_larger_than_the_bucket_passes() -> None:
    fake_clock = FakeClock()
    bucket = TokenBucket(60, clock=fake_clock, sleep=fake_clock.sleep)

    await bucket.acquire(600)
    assert fake_clock.slept == []
    await bucket.acquire(60)
    assert sum(fake_clock.slept) == pytest.approx(600)


async def test_waiters_are_served_in_order_and_cancelled_ones_take_nothing() -> None:
    fake_clock = FakeClock()
    gate = asyncio.Event()
    order: list[str] = []

    async def sleep(seconds: float) -> None:
        await gate.wait()
        await fake_clock.sleep(seconds)

    bucket = TokenBucket(1, clock=fake_clock, sleep=sleep)
    await bucket.acquire(1)

    async def acquire(name: str) -> None:
        await bucket.acquire(1)
        order.append(name)

    async with asyncio.TaskGroup() as group:
        first = group.create_task(acquire("first"))
        for name in ("second", "third"):
            group.create_task(acquire(name))
        await asyncio.sleep(0)
        first.cancel()
        gate.set()

    assert order == ["second", "third"]
    assert fake_clock.now == pytest.approx(120)


@given(st.lists(st.floats(0.1, 200), min_size=1, max_size=20))
def test_throughput_never_exceeds_the_rate(amounts: list[float]) -> None:
    fake_clock = FakeClock()

    async def acquire_all() -> None:
        bucket = TokenBucket(100, clock=fake_clock, sleep=fake_clock.sleep)
        for amount in amounts:
            await bucket.acquire(amount)

    asyncio.run(acquire_all())

    assert sum(amounts[:-1]) <= 100 + fake_clock.now * 100 / 60 + max(amounts) + 1e-6


def test_rate_of_zero_is_rejected() -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        TokenBucket(0)
