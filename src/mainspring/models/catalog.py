"""Facts about models: what is known, and nothing made up where it is not."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from mainspring.models.port import ModelInfo


class CatalogEntry(Struct, frozen=True):
    """One line of the catalogue; see `ModelInfo`. ``None`` is unknown."""

    provider: str
    id: str
    context_window: int | None = None
    max_output_tokens: int | None = None
    vision: bool | None = None
    reasoning: bool | None = None
    prices: tuple[float, float, float, float] | None = None
    label: str = ""


class Catalog(Struct, frozen=True):
    """All entries, the day on which they were true, and where they come from."""

    date: str
    sources: str
    models: tuple[CatalogEntry, ...]


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    """The catalogue that comes with the program."""
    return msgspec.json.decode(files("mainspring.models").joinpath("catalog.json").read_bytes(), type=Catalog)


def look_up(provider: str, model: str) -> ModelInfo:
    """What is known about a model.

    A dated name (``gpt-5-mini-2025-08-07``) is the model without its date. Of an unknown model nothing is known: no window,
    no prices; it is taken to accept images until its host says no.
    """
    entry = find_entry(provider, model)
    if entry is None:
        return ModelInfo(model, provider)
    return ModelInfo(
        id=model,
        provider=provider,
        context_window=entry.context_window,
        max_output_tokens=entry.max_output_tokens,
        vision=entry.vision is not False,
        reasoning=entry.reasoning is True,
        prices=entry.prices,
        label=entry.label,
    )


def find_entry(provider: str, model: str) -> CatalogEntry | None:
    """The entry of a model, by its name or by its name without date."""
    known = {(e.provider, e.id): e for e in catalog().models}
    name = model
    while name:
        entry = known.get((provider, name))
        if entry is not None:
            return entry
        name, _, last = name.rpartition("-")
        if not (last.isdigit() or last == "latest"):
            return None
    return None
