"""How much each tenant may ask for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """Limits for each tenant.

    Attributes:
        requests: Requests a minute.
        body: Bytes of a request's body.
        followers: Followers of events at the same time.
    """

    requests: int = 600
    body: int = 1_048_576
    followers: int = 1_000


class RateLimiter:
    """So many a minute, with as many at once.

    Args:
        a_minute: How many.
        clock: Seconds on a clock that never goes back.
    """

    def __init__(self, a_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(a_minute)
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, tenant: str) -> int:
        """0 if there is one more; else the seconds to wait."""
        now = self._clock()
        left, at = self._left.get(tenant, (self._most, now))
        left = min(self._most, left + (now - at) * self._most / 60)
        if left < 1:
            self._left[tenant] = left, now
            return max(1, math.ceil((1 - left) * 60 / self._most))
        self._left[tenant] = left - 1, now
        return 0


class ConcurrencyLimit:
    """So many at the same time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._register_incoming: dict[str, int] = {}

    @property
    def taken(self) -> int:
        """How many all tenants have."""
        return sum(self._register_incoming.values())

    def full(self, tenant: str) -> bool:
        """Whether there is none left."""
        return self._register_incoming.get(tenant, 0) >= self.most

    @contextmanager
    def one(self, tenant: str) -> Generator[None]:
        """Have one while this is open."""
        self._register_incoming[tenant] = self._register_incoming.get(tenant, 0) + 1
        try:
            yield
        finally:
            self._register_incoming[tenant] -= 1
