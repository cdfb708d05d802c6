"""Redact secrets in everything that is stored, logged, exported, or shown: one function, one table."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports, lazy_function

if TYPE_CHECKING:
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
else:  # a run without a session and without errors calls none of them, and the patterns of secrets are large
    environment_secrets = lazy_function("mainspring.redaction.fields", "environment_secrets")
    is_secret_name = lazy_function("mainspring.redaction.redactor", "is_secret_name")
    redact_environment = lazy_function("mainspring.redaction.redactor", "redact_environment")
    redact_stream = lazy_function("mainspring.redaction.redactor", "redact_stream")
    redact_value = lazy_function("mainspring.redaction.redactor", "redact_value")
    redacted_repr = lazy_function("mainspring.redaction.redactor", "redacted_repr")

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

lazy_exports(__name__, {"redactor": "REDACTED Redactor"})
