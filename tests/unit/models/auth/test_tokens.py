"""Tokens that expire: cached while they are valid, and fetched once for all waiting callers."""

import asyncio

import pytest

from mainspring.errors import AuthenticationError
from mainspring.models.auth import Token, TokenCredential


class Source:
    """A source of numbered tokens that records its calls."""

    def __init__(self, lasting: float | None = 1000.0) -> None:
        self.now = 0.0
        self.lasting = lasting
        self.calls: list[str | None] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, refused: str | None) -> Token:
        self.calls.append(refused)
        await self.gate.wait()
        end = None if self.lasting is None else self.now + self.lasting
        return Token(f"t{len(self.calls)}", end, {"x-account": "a"})

    def credential(self) -> TokenCredential:
        return TokenCredential(self, refresh_margin=100, clock=lambda: self.now)


@pytest.mark.covers("PRV-13")
async def test_token_is_cached_until_shortly_before_it_expires() -> None:
    source = Source()
    credential = source.credential()

    assert await credential() == {"authorization": "Bearer t1", "x-account": "a"}
    source.now = 899
    assert (await credential.token()).value == "t1"
    source.now = 901
    assert (await credential.token()).value == "t2"
    assert source.calls == [None, None]


async def test_short_lived_token_is_not_fetched_each_time() -> None:
    source = Source(lasting=50)
    credential = source.credential()

    for source.now in (0, 10, 20):
        await credential()
    assert len(source.calls) == 1
    source.now = 30
    await credential()
    assert len(source.calls) == 2


async def test_token_without_expiry_is_cached_until_it_is_rejected() -> None:
    source = Source(lasting=None)
    credential = source.credential()
    given = await credential()
    source.now = 1e9
    assert await credential() == given

    credential.invalidate("something else")
    credential.invalidate({"authorization": "Bearer other"})
    assert await credential() == given
    credential.invalidate(given)
    assert (await credential.token()).value == "t2"
    assert source.calls == [None, "t1"]


async def test_concurrent_callers_share_one_fetch() -> None:
    source = Source()
    credential = source.credential()

    tokens = await asyncio.gather(*[credential.token() for _ in range(20)])

    assert {token.value for token in tokens} == {"t1"}
    assert len(source.calls) == 1


async def test_fetch_continues_if_the_first_caller_is_cancelled() -> None:
    source = Source()
    source.gate.clear()
    credential = source.credential()
    first, second = asyncio.create_task(credential.token()), asyncio.create_task(credential.token())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    source.gate.set()

    assert (await second).value == "t1"
    assert len(source.calls) == 1
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_failed_fetch_is_retried_by_the_next_caller() -> None:
    answers: list[Token | Exception] = [AuthenticationError("no"), Token("t")]

    async def fetch(refused: str | None) -> Token:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    credential = TokenCredential(fetch)
    with pytest.raises(AuthenticationError):
        await credential()
    assert (await credential.token()).value == "t"


def test_credential_works_in_several_event_loops() -> None:
    async def fetch(refused: str | None) -> Token:
        return Token("t", 1.0)  # This token has expired, so each call fetches a new one.

    credential = TokenCredential(fetch)

    assert asyncio.run(credential.token()).value == asyncio.run(credential.token()).value == "t"


def test_token_is_hidden_in_the_repr() -> None:
    assert "secret" not in repr(Token("secret", 5.0, {"x": "secret"}))
