"""Tokens that expire: kept until shortly before, fetched once however many ask at the same time."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from weakref import WeakKeyDictionary

from msgspec import Struct

from mainspring.models.auth.credentials import CredentialValue

REFRESH_MARGIN = 300.0
"""Seconds before its end at which a token is not used any more: a request may take minutes until the host looks at it."""


class Token(Struct, frozen=True):
    """A token.

    Attributes:
        value: The token itself.
        expires: When it ends, in seconds since 1970; ``None`` is unknown.
        headers: Further headers that go with it.
    """

    value: str
    expires: float | None = None
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"<Token expires={self.expires}>"

    def fresh(self, now: float, early: float = REFRESH_MARGIN) -> bool:
        """Whether it can still be used."""
        return self.expires is None or now < self.expires - early

    def as_headers(self) -> dict[str, str]:
        """The headers of a request that carries it."""
        return {"authorization": f"Bearer {self.value}", **self.headers}


class TokenCredential:
    """A `CredentialResolver` around whatever fetches a token.

    Those who ask while it is being fetched wait for the same answer. Fetching goes on if the one who asked first gives up,
    because a host may have taken an old token away by then.

    Args:
        fetch: Fetches a token; it is told which one was refused, if one was.
        early: Seconds before the end of a token at which the next is fetched.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        fetch: Callable[[str | None], Awaitable[Token]],
        *,
        early: float = REFRESH_MARGIN,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fetch = fetch
        self._early = early
        self._clock = clock
        self._token: Token | None = None
        self._use_until = 0.0
        self._refused: str | None = None
        self._run_agent: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[Token]] = WeakKeyDictionary()

    async def __call__(self) -> CredentialValue:
        """The headers with a token that can be used."""
        return (await self.token()).as_headers()

    async def token(self) -> Token:
        """A token that can be used."""
        token = self._token
        if token is not None and token.value != self._refused and self._clock() < self._use_until:
            return token
        loop = asyncio.get_running_loop()
        task = self._run_agent.get(loop)
        if task is None or task.done():
            task = self._run_agent[loop] = loop.create_task(self._refresh())
            task.add_done_callback(_seen)
        return await asyncio.shield(task)

    def reject(self, given: CredentialValue) -> None:
        """The host refused these headers: the token in them is not used again."""
        token = self._token
        if token is not None and not isinstance(given, str) and given.get("authorization") == f"Bearer {token.value}":
            self._refused = token.value

    async def _refresh(self) -> Token:
        token = await self._fetch(self._refused)
        now = self._clock()
        left = math.inf if token.expires is None else token.expires - now
        self._token = token
        self._use_until = now + max(left - self._early, left / 2)  # Tokens that live shortly are not renewed each time.
        return token


def _seen(task: asyncio.Task[Token]) -> None:
    """An error that nobody waits for any more is no news."""
    if not task.cancelled():
        task.exception()
