"""What a host of Gemini accepts and how it likes to be asked."""

from __future__ import annotations

from msgspec import Struct


class GeminiDialect(Struct, frozen=True):
    """What a host of Gemini accepts; a field that a host refuses in a 400 is left out from then on."""
