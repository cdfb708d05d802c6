"""The models that can be used here, and fetching the embedded one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ConfigError, ModelError, ModelNotFoundError
from mainspring.events import CancelToken
from mainspring.models.catalog import catalog
from mainspring.models.embedded.engine import engine_installed
from mainspring.models.embedded.fetching import present
from mainspring.models.embedded.weights import DEFAULT, WEIGHTS, find, get_command, models_dir
from mainspring.models.providers.local import NAME as LOCAL
from mainspring.runtime import weights
from mainspring.runtime.build import load
from mainspring.runtime.model_choice import EMBEDDED, choose_model, make, registry_of, running_servers
from mainspring.runtime.options import Place
from mainspring.runtime.outcome import Reporter

State = Literal["ready", "fetch", "missing"]
"""``fetch``: it is fetched on first use. ``missing``: something has to be set or installed first."""


class ModelView(Struct, frozen=True, kw_only=True):
    """A model that can be named.

    Attributes:
        spec: As ``--model`` takes it.
        state: Whether it can be used now.
        chosen: Whether a run without ``--model`` would use it.
        label: Its name for people.
        note: What to know, or what to do.
    """

    spec: str
    state: State
    chosen: bool = False
    label: str = ""
    note: str = ""


async def list_models(place: Place, environ: Mapping[str, str] = os.environ) -> list[ModelView]:
    """The models that can be named here: of the configured providers, of the servers of this machine, embedded ones.

    Raises:
        ConfigError: If the settings are broken.
    """
    _, settings = load(place, {}, environ)
    found: dict[str, ModelView] = {}
    try:
        choice = await choose_model(settings, environ)
        name = choice.name
        found[name.spec] = ModelView(spec=name.spec, state="ready", chosen=True, label=name.label, note=choice.why)
    except (ConfigError, ModelError):
        pass
    registry = registry_of(settings.config)
    for entry in catalog().models:
        spec = f"{entry.provider}:{entry.id}"
        if spec in found or entry.provider not in registry or entry.provider in {LOCAL, EMBEDDED}:
            continue
        try:
            make(spec, settings.config, registry)
            found[spec] = ModelView(spec=spec, state="ready", label=entry.label)
        except ModelError as error:  # the same for all of a provider
            spec = f"{entry.provider}:MODEL"
            found[spec] = ModelView(spec=spec, state="missing", note=str(error))
    for server in await running_servers():
        for model in server.models:
            spec = f"{LOCAL}:{model}"
            found.setdefault(spec, ModelView(spec=spec, state="ready", note=f"{server.name} at {server.base_url}"))
    embedded = await asyncio.to_thread(_embedded)
    for view in embedded:
        chosen = found.get(view.spec)
        found[view.spec] = replace(view, chosen=True) if chosen and chosen.chosen else view
    return list(found.values())


def _embedded() -> list[ModelView]:
    has_engine = engine_installed()
    views: list[ModelView] = []
    for known in WEIGHTS.values():
        here = present(known, models_dir())
        state: State = "missing" if not has_engine else "ready" if here else "fetch"
        note = f"{known.note}; {known.megabytes} MB, {known.licence}"
        if not has_engine:
            note += '; needs: pip install "mainspring[local]"'
        elif not here:
            note += f"; fetched on first use, or by: {get_command(known.name)}"
        views.append(ModelView(spec=f"{EMBEDDED}:{known.name}", state=state, label=known.label, note=note))
    return views


async def get_model(name: str | None, place: Place, report: Reporter, signal: CancelToken) -> str:
    """Fetch the weights of an embedded model; where they lie then.

    Raises:
        ConfigError: If there is none of that name, or fetching is forbidden.
        ProviderConfigError: If they cannot be had.
        asyncio.CancelledError: If ``signal`` broke it off.
    """
    try:
        wanted = find(name or DEFAULT)
    except ModelNotFoundError as error:
        raise ConfigError(str(error)) from None
    return await weights.get(wanted, report, signal, offline=place.offline)
