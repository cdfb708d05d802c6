"""Decide whether the text before a colon is an unknown provider or part of a model's name; loaded for such names only."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from mainspring.models.catalog import find_entry, load_catalog
from mainspring.models.provider_table import PROVIDERS

_WORDS = re.compile(r"[a-z]+")
_TAG = re.compile(r"latest$|v?\d|i?q\d|fp\d|free$|beta$", re.IGNORECASE)
"""Tag of a model of a local host, or of a gateway: version, size, or quantization."""

_FINE_TUNED = "ft"
"""Text before the first colon in the names of OpenAI's fine-tuned models."""

_SIMILARITY = 0.75
"""Similarity from which a prefix is a misspelled provider: one swapped pair of letters in a name of four."""

_MAX_LENGTH_GAP = 2
"""Largest difference in length between a provider and its misspelling, so that ``codellama`` does not mean ``ollama``."""


def explain_unknown_prefix(spec: str, names: Sequence[str], default: str) -> str:
    """Return the error for a model whose prefix seems to be an unknown provider; empty if the prefix may belong to the model.

    Args:
        spec: The model, with a colon.
        names: All providers.
        default: Provider of models without a provider prefix.
    """
    prefix, _, model = spec.partition(":")
    text = f"Unknown provider: {prefix!r}."
    literally = f"For a model of {default} with this name, write {default}:{spec}."
    if meant := _find_similar(prefix, names):
        return f"{text} Did you mean {meant}:{model}? {literally}"
    if not load_catalog().providers.get(default) or _is_known_model(spec, default):
        return ""
    return f"{text} Available: {', '.join(names)}. {literally}"


def explain_interpretation(spec: str, names: Sequence[str], default: str) -> str:
    """Return which provider was used for a model without a provider prefix, and how to choose another."""
    prefix, colon, _ = spec.partition(":")
    if not colon:
        return (
            f"{spec!r} has no provider prefix, so {default} was used. To choose another provider, write PROVIDER:{spec}"
        )
    return f"Unknown provider: {prefix!r}. Available: {', '.join(names)}. {spec!r} was used as a model of {default}"


def _is_known_model(spec: str, default: str) -> bool:
    """Return True if a provider's catalog has the model, or if the text has the form of a model with a tag.

    ``mistral:mistral-large`` and ``xai:grok-4`` have the form of provider and model.
    """
    prefix, _, tag = spec.lower().partition(":")
    ids = [entry.id.lower().rpartition("/")[2] for entry in load_catalog().models]
    if tag.startswith(prefix) or any(tag == id or ("-" in tag and id.startswith(tag)) for id in ids):
        return False
    is_tagged = _TAG.match(tag) is not None or prefix == _FINE_TUNED
    return is_tagged or _is_model_name(prefix) or find_entry(default, spec) is not None


def _find_similar(prefix: str, providers: Sequence[str]) -> str:
    """Return the provider that a misspelled prefix means; empty if the prefix may be the name of a model."""
    compact = _compact(prefix)
    names = {_compact(name): name for name in providers}
    for near in difflib.get_close_matches(compact, names, 1, _SIMILARITY):
        if near == compact or (abs(len(near) - len(compact)) <= _MAX_LENGTH_GAP and not _is_model_name(prefix)):
            return names[near]
    return ""


def _compact(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "")


def _is_model_name(prefix: str) -> bool:
    """Return True if the text is a path (``org/model``) or names a family of the catalog, for example ``llama`` in ``llama3``."""
    family = prefix.lower()
    if "/" in family:
        return True
    if digits := [at for at, char in enumerate(family) if char.isdigit()]:
        family = family[: digits[0]].split("-")[0]
    if family in PROVIDERS:
        return False
    return any(family in _WORDS.findall(entry.id.lower()) for entry in load_catalog().models)
