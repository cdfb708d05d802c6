"""Redact secrets in everything that is stored, logged, exported, or shown: one function, one table."""

from mainspring.redaction.fields import environment_secrets
from mainspring.redaction.redactor import (
    REDACTED,
    Redactor,
    is_secret_name,
    redact_environment,
    redact_stream,
    redact_value,
    redacted_repr,
)

__all__ = [
    "REDACTED",
    "Redactor",
    "is_secret_name",
    "redacted_repr",
    "redact_environment",
    "redact_stream",
    "redact_value",
    "environment_secrets",
]
