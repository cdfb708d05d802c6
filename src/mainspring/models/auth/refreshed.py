"""News of tokens that were renewed, and who wants to hear of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from msgspec import Struct


class Refreshed(Struct, frozen=True):
    """A token was renewed.

    Attributes:
        provider: Name of the provider.
        account: Id of the account, where it is known.
        expires: When the new token ends, in seconds since 1970; ``None`` is unknown.
        reason: ``expired`` if its end was near, ``refused`` if the host did not take the old one.
    """

    provider: str
    account: str = ""
    expires: float | None = None
    reason: Literal["expired", "refused"] = "expired"


OnRefresh = Callable[[Refreshed], Awaitable[object] | object]
"""Told of a renewed token; may be async. What it raises is no reason to fail a request, and is dropped."""

_listener: ContextVar[OnRefresh | None] = ContextVar("mainspring_oauth_listener", default=None)


def listen(callback: OnRefresh) -> Callable[[], None]:
    """From now on, ``callback`` is told of each token that a request made from this task, or from one it starts, renews.

    Returns:
        A function that ends it, and lets the one listen that did before.
    """
    before = _listener.get()
    _listener.set(callback)

    def stop() -> None:
        _listener.set(before)

    return stop


def listener() -> OnRefresh | None:
    """Who listens, as seen from this task."""
    return _listener.get()


@contextmanager
def listening(callback: OnRefresh) -> Generator[None]:
    """`listen` while inside."""
    stop = listen(callback)
    try:
        yield
    finally:
        stop()
