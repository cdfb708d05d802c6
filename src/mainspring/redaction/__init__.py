"""Secrets out of everything that is stored, logged, exported, or shown: one function, one table."""

from mainspring.redaction.redactor import MASK, Redactor, forms_of, masked_repr, redact, redact_value

__all__ = ["MASK", "Redactor", "forms_of", "masked_repr", "redact", "redact_value"]
