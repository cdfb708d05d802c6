"""Availability of models: list them, check their hosts and requirements, and download the embedded ones."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.providers.select_model import (
    EMBEDDED_PROVIDER,
    LOCAL_PROVIDER,
    find_local_servers,
    make,
    provider_config,
    select_model,
)
from mainspring.app.providers.weights import format_announcement, progress_callback
from mainspring.app.run.events import RunEventHandler
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.settings import AppConfig, Settings
from mainspring.cancellation import CancelToken
from mainspring.errors import ConfigError, ModelError, ModelNotFoundError
from mainspring.events import Notice
from mainspring.extras import install_command
from mainspring.models import (
    HttpModel,
    ModelProvider,
    Timeouts,
    embedded,  # loads its parts on use
)
from mainspring.models.catalog import load_catalog
from mainspring.models.embedded.download import is_downloaded
from mainspring.models.embedded.weights import DEFAULT, WEIGHTS, download_command, find_weights, models_dir
from mainspring.models.port import ZERO_PRICES, TokenPrices
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.providers import codex, foundry
from mainspring.models.transport.default import default_transport
from mainspring.models.transport.environment import is_loopback

if TYPE_CHECKING:
    from mainspring.models.embedded import ModelWeights


async def download_model_weights(
    weights: ModelWeights, report: RunEventHandler, signal: CancelToken, *, offline: bool
) -> str:
    """Download weights, and return their path. Raises the same errors as `ensure_weights`."""
    if not offline and not embedded.is_downloaded(weights, embedded.models_dir()):
        report(Notice(format_announcement(weights)))
    return str(
        await embedded.download_weights(weights.name, None, progress_callback(weights, report), signal, offline=offline)
    )


def missing_requirement(name: str, config: AppConfig) -> str:
    """Return the missing requirement of a configured provider and how to fix it, or an empty string."""
    if name == codex.NAME:
        tokens = codex.token_file(provider_config(name, config)).path
        if not tokens.exists():
            return (
                f"Not logged in to {name}: {tokens} does not exist. Run `mainspring login {name}`, or set the path of another program's "
                f"login in {codex.FILE_VARIABLE}."
            )
    if (
        name == foundry.NAME and make(f"{name}:", config, registry_of(config)).info.prices == ZERO_PRICES
    ):  # runs on this machine
        if find_spec("foundry_local_sdk") is None:
            return f"foundry-local-sdk is not installed. Install it: {install_command('foundry')}"
    return ""


ModelState = Literal["ready", "fetch", "down", "missing"]
"""State of a model: ``fetch`` (downloaded on first use), ``down`` (its host does not respond), or ``missing`` (a setting or a
package is missing).
"""


_CONNECT_SECONDS = 0.5
_NO_LOCAL_SERVER = "No server is running on the usual ports of Ollama, LM Studio, llama.cpp, and vLLM. Start one, or set MAINSPRING_LOCAL_BASE_URL."
_FOUNDRY_NOTE = "Foundry Local starts its service, and downloads the model, on first use"


def find_startup_problem(model: ModelProvider) -> tuple[ModelState, str]:
    """Return the state of a configured model that needs a server on this machine, and why it is not ready. Blocks.

    Other models are ready: their hosts are not contacted.
    """
    if isinstance(model, foundry.FoundryModel) and model.info.prices == ZERO_PRICES:
        return "fetch", _FOUNDRY_NOTE
    if not isinstance(model, HttpModel):
        return "ready", ""
    url = urlsplit(model.profile.base_url)
    if not is_loopback(url.hostname or ""):
        return "ready", ""
    try:
        socket.create_connection((url.hostname, url.port or 80), _CONNECT_SECONDS).close()
    except OSError:
        return "down", f"Nothing answers at {model.profile.base_url}. Start the server, or change its address."
    return "ready", ""


_TIMEOUT_SECONDS = 5.0
"""Maximum number of seconds to wait for a host."""


class ProbeResult(Struct, frozen=True):
    """Result of a request to a host.

    Attributes:
        base_url: URL of the request.
        status: Status of the response; ``None`` without a response.
        error: The reason for a missing response.
    """

    base_url: str
    status: int | None = None
    error: ModelError | None = None


async def probe(base_url: str, *, seconds: float = _TIMEOUT_SECONDS) -> ProbeResult:
    """Check that a host responds, with any status; sends no key."""
    limits = Timeouts(seconds, seconds, seconds, seconds)
    headers = {"accept": "application/json"}
    try:
        async with (
            asyncio.timeout(seconds),
            default_transport().open("GET", f"{base_url}/models", headers, b"", limits) as answer,
        ):
            return ProbeResult(base_url, answer.status)
    except ModelError as error:
        return ProbeResult(base_url, error=error)
    except TimeoutError:
        return ProbeResult(
            base_url, error=ModelError(f"{base_url} did not respond within {seconds:g}s.", reason="timeout")
        )


async def probe_all(models: Iterable[HttpModel], *, seconds: float = _TIMEOUT_SECONDS) -> dict[str, ProbeResult]:
    """Probe each host once, and return the results by base URL."""
    urls = sorted({model.profile.base_url for model in models})
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(probe(url, seconds=seconds)) for url in urls]
    return {task.result().base_url: task.result() for task in tasks}


_PROBE_TIMEOUT_SECONDS = 2.0


class ModelListing(Struct, frozen=True, kw_only=True):
    """An available model.

    Attributes:
        spec: Value for ``--model``.
        state: State of the model.
        chosen: Whether a run without ``--model`` uses it.
        label: Display name.
        note: Notice or fix for the user.
        reachable: Whether its host responds; ``None`` if it was not probed.
        context_window: Tokens of prompt and response together; ``None`` if unknown.
        max_output_tokens: Maximum number of tokens of one response; ``None`` if unknown.
        prices: US dollars per million tokens: input, output, cache read, cache write; ``None`` if unknown.
        dearer_above: Number of prompt tokens above which the price is higher; ``None`` if it is not.
    """

    spec: str
    state: ModelState
    chosen: bool = False
    label: str = ""
    note: str = ""
    reachable: bool | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None
    prices: TokenPrices | None = None
    dearer_above: int | None = None


async def list_models(place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> list[ModelListing]:
    """List the available models: those of configured providers, of servers on this machine, and the embedded ones.

    Unless offline, all hosts of configured providers are probed concurrently.

    Raises:
        ConfigError: If the settings are invalid.
    """
    _, settings = load_rules(place, environ=environ)
    found: dict[str, ModelListing] = {}
    models: dict[str, ModelProvider] = {}
    try:
        choice = await select_model(settings, environ)
        models[choice.name.spec] = choice.model
        found[choice.name.spec] = _view(choice.model, chosen=True, note=choice.why)
    except (ConfigError, ModelError):
        pass
    for view, model in _configured(settings):
        if view.spec not in found:
            found[view.spec] = view
            if model is not None:
                models[view.spec] = model
    probing = asyncio.create_task(_probe_hosts({} if place.offline else models))
    for server in await find_local_servers():
        for name in server.models:
            spec = f"{LOCAL_PROVIDER}:{name}"
            note = f"{server.name} at {server.base_url}"
            found.setdefault(
                spec, ModelListing(spec=spec, state="ready", note=note, reachable=True, prices=ZERO_PRICES)
            )
    if not any(spec.startswith(f"{LOCAL_PROVIDER}:") for spec in found):
        spec = f"{LOCAL_PROVIDER}:MODEL"
        found[spec] = ModelListing(spec=spec, state="missing", note=_NO_LOCAL_SERVER)
    embedded = await asyncio.to_thread(_embedded_listings)
    for view in embedded:
        chosen = found.get(view.spec)
        found[view.spec] = replace(view, chosen=True) if chosen and chosen.chosen else view
    for spec, reachable in (await probing).items():
        view = replace(found[spec], reachable=reachable, state="ready" if reachable else "down")
        note = view.note or f"Nothing answers at {_address(models[spec])}. Start the server, or change its address."
        found[spec] = view if reachable else replace(view, note=note)
    return list(found.values())


def _address(model: ModelProvider) -> str:
    return model.profile.base_url if isinstance(model, HttpModel) else ""


def _configured(settings: Settings) -> Iterator[tuple[ModelListing, ModelProvider | None]]:
    """Return the models of each configured provider, or its missing requirement."""
    config = settings.config
    registry = registry_of(config)
    for name in registry.names():
        if name == EMBEDDED_PROVIDER:
            continue
        ids = [entry.id for entry in load_catalog().entries(name)]
        ids += [id for id in config.providers.get(name).models if id not in ids]
        try:
            default = make(f"{name}:", config, registry)
            if lack := missing_requirement(name, config):
                yield ModelListing(spec=f"{name}:MODEL", state="missing", note=lack), None
                continue
            if name == LOCAL_PROVIDER and _address(default) == PROVIDERS[name].base_url:
                continue  # nothing is configured: `list_models` detects servers
            state, note = ("fetch", _FOUNDRY_NOTE) if isinstance(default, foundry.FoundryModel) else ("ready", "")
            yield replace(_view(default), state=state, note=note), default
        except (ConfigError, ModelError) as error:
            if not isinstance(error, ModelError) or error.reason != "missing_model" or not ids:
                yield ModelListing(spec=f"{name}:MODEL", state="missing", note=str(error)), None
                continue
        for id in ids:
            try:
                model = make(f"{name}:{id}", config, registry)
            except (ConfigError, ModelError):  # the missing requirement has already been reported
                break
            if model.model == id:  # for deployments, the list would contain only the configured one
                yield _view(model), model


def _view(model: ModelProvider, *, chosen: bool = False, note: str = "") -> ModelListing:
    info = model.info
    return ModelListing(
        spec=f"{model.provider}:{model.model}",
        state="ready",
        chosen=chosen,
        label=info.label,
        note=note,
        context_window=info.context_window,
        max_output_tokens=info.max_output_tokens,
        prices=info.prices,
        dearer_above=info.tiers[0].above if info.tiers else None,
    )


async def _probe_hosts(models: Mapping[str, ModelProvider]) -> dict[str, bool]:
    """Set whether the host of each model responds."""
    by_host = {spec: model for spec, model in models.items() if isinstance(model, HttpModel)}
    answers = await probe_all(by_host.values(), seconds=_PROBE_TIMEOUT_SECONDS)
    return {spec: answers[model.profile.base_url].error is None for spec, model in by_host.items()}


def _embedded_listings() -> list[ModelListing]:
    has_engine = embedded.is_engine_installed()
    views: list[ModelListing] = []
    for known in WEIGHTS.values():
        here = is_downloaded(known, models_dir())
        state: ModelState = "missing" if not has_engine else "ready" if here else "fetch"
        note = f"{known.note}; {known.megabytes} MB, {known.licence}"
        if not has_engine:
            note += f"; needs: {install_command('local')}"
        elif not here:
            note += f". Downloaded on first use, or with `{download_command(known.name)}`"
        views.append(
            ModelListing(
                spec=f"{EMBEDDED_PROVIDER}:{known.name}", state=state, label=known.label, note=note, prices=ZERO_PRICES
            )
        )
    return views


async def download_model(
    name: str | None, place: WorkspaceOptions, report: RunEventHandler, signal: CancelToken
) -> str:
    """Download the weights of an embedded model, and return their path.

    Raises:
        ConfigError: If the name is unknown, or downloads are forbidden.
        ProviderConfigError: If the download fails.
        asyncio.CancelledError: If ``signal`` cancelled the download.
    """
    try:
        requested = find_weights(name or DEFAULT)
    except ModelNotFoundError as error:
        raise ConfigError(str(error)) from None
    return await download_model_weights(requested, report, signal, offline=place.offline)
