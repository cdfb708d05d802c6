"""Secrets out of everything that is stored, logged, exported, or shown: one function, one table."""

from mainspring.redaction.fields import secret_values
from mainspring.redaction.redactor import (
    MASK,
    Redactor,
    is_secret_name,
    masked_repr,
    redact,
    redact_stream,
    redact_value,
)

__all__ = [
    "MASK",
    "Redactor",
    "is_secret_name",
    "masked_repr",
    "redact",
    "redact_stream",
    "redact_value",
    "secret_values",
]
