"""What a host of Anthropic Messages accepts and how it likes to be asked."""

from __future__ import annotations

from msgspec import Struct


class MessagesDialect(Struct, frozen=True):
    """What a host of Anthropic Messages accepts; a field that a host refuses in a 400 is left out from then on."""
