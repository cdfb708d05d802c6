"""Secrets out of what front ends show."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mainspring.redaction import redact as _redact

_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_ACCESS_KEY")
_SHORTEST = 8


def redact(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """The text without anything that looks like a secret, and without the values of the environment's keys."""
    known = [v for n, v in environ.items() if n.upper().endswith(_ENDINGS) and len(v) >= _SHORTEST]
    return _redact(text, *known)
