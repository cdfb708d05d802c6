"""The hook of logins that are renewed."""

from __future__ import annotations

from typing import Literal

from mainspring.loop.hooks.run import Hook


class OAuthRefresh(Hook):
    """The token of a login was renewed. No token is in here.

    ``provider`` and ``account`` say whose (``account`` is empty where it is unknown), ``expires`` when the new token ends, in
    seconds since 1970, or ``None``; ``reason`` is ``expired`` if the old one's end was near, ``refused`` if the host did not take
    it any more.
    """

    event = "oauth:refresh"
    when = "When a request of a run had a token renewed, before it is sent (again)."
    __slots__ = ("account", "expires", "provider", "reason")

    def __init__(
        self, provider: str, account: str, expires: float | None, reason: Literal["expired", "refused"]
    ) -> None:
        self.provider = provider
        self.account = account
        self.expires = expires
        self.reason = reason
