"""Discover extensions and command hooks, and create their plugins."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import fields

from mainspring.app.compose.client_services import ClientServices
from mainspring.app.run.events import RunEventHandler
from mainspring.app.workspace.paths import PROJECT_FOLDER, find_project_root
from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.settings.schema import HookEntry
from mainspring.app.workspace.trust import TrustStore
from mainspring.env import LocalEnv
from mainspring.events import Notice
from mainspring.extensions.api import ExtensionSource, FoundExtensions
from mainspring.extensions.builtin import help_command
from mainspring.extensions.command_hooks.config import DEFAULT_SECONDS, DEPTH, MAX_HOOK_DEPTH, CommandHook, OnFailure
from mainspring.extensions.context import NonInteractiveUI, NoticeLevel
from mainspring.extensions.discovery import find_extensions
from mainspring.extensions.plug import Extensions
from mainspring.lazy import lazy_function
from mainspring.loop import Plugin
from mainspring.sessions import Session

if TYPE_CHECKING:
    from mainspring.extensions.command_hooks import CommandHooks
else:
    CommandHooks = lazy_function("mainspring.extensions.command_hooks", "CommandHooks")


class ExtensionPaths(Struct, frozen=True):
    """Folders and files to search for extensions.

    Attributes:
        user: Paths in the user's folder and from the settings.
        project: The project's folder; ``None`` if it does not exist.
        trusted: Whether the project is trusted.
        relative: Relative paths of the settings, which are ignored.
    """

    user: tuple[Path, ...] = ()
    project: Path | None = None
    trusted: bool = False
    relative: tuple[str, ...] = ()


def extension_paths(cwd: str, settings: Settings) -> ExtensionPaths:
    """Return the paths to search for extensions."""
    home = settings.home
    requested = [(text, Path(os.path.expanduser(text))) for text in settings.config.extensions.paths]
    user = [home.extensions] if home else []
    root = find_project_root(cwd, "extensions", home)
    return ExtensionPaths(
        user=(*user, *(path for _, path in requested if path.is_absolute())),
        project=root / PROJECT_FOLDER / "extensions" if root else None,
        trusted=root is not None and TrustStore(home).covers(root),
        relative=tuple([text for text, path in requested if not path.is_absolute()]),
    )


def extension_finder(places: ExtensionPaths, settings: Settings) -> Callable[[], FoundExtensions]:
    """Return a function that finds extensions; it blocks and runs their code."""
    requested = settings.config.extensions
    return lambda: find_extensions(
        user=places.user,
        project=places.project,
        trusted=places.trusted,
        packages=requested.packages,
        leave_out=requested.disabled,
    )


async def build_extension_plugs(
    cwd: str,
    settings: Settings,
    env: LocalEnv,
    report: RunEventHandler,
    session: Session | None,
    environ: Mapping[str, str],
    front: ClientServices | None = None,
) -> list[Plugin]:
    """Create the plugins of extensions and command hooks.

    Raises:
        ConfigError: If a command of the settings is invalid.
    """

    def notify(text: str, level: NoticeLevel) -> None:
        report(Notice(text if level == "info" else f"{level}: {text}"))

    front = front or ClientServices()
    ui = front.ui or NonInteractiveUI(notify)
    plugs: list[Plugin] = []
    places = extension_paths(cwd, settings)
    for text in places.relative:
        report(Notice(f"extensions.paths: {text!r} is ignored. Use an absolute path, or a path that starts with ~/."))
    find = extension_finder(places, settings)
    found = await asyncio.to_thread(find)
    if found.extensions or found.problems:
        helping = ExtensionSource("help", help_command, origin="builtin")
        own = [] if "help" in front.reserved_commands else [helping]
        plugs.append(Extensions(own, ui=ui, find=find, discovered=found, reserved=front.reserved_commands))
    hooks = command_hooks(settings)
    depth = hook_depth(environ)
    if depth:  # programs that tools start inherit the depth of this process
        env.variables[DEPTH] = str(depth)
    if hooks:
        transcript = str(session.location) if session else ""
        plugs.append(CommandHooks(hooks, ui=ui, transcript=transcript, depth=depth))
    return plugs


def command_hooks(settings: Settings) -> list[CommandHook]:
    """Return the command hooks of the settings, in order.

    Raises:
        ConfigError: If one is invalid.
    """
    section = settings.config.hooks
    hooks: list[CommandHook] = []
    for info in fields(section):
        entries: list[HookEntry] = getattr(section, info.name)
        origin = settings.origins.get(f"hooks.{info.encode_name}", "")
        for entry in entries:
            for command, seconds, on_failure in _commands(entry):
                hooks.append(
                    CommandHook(
                        event=info.encode_name,  # pyright: ignore[reportArgumentType] - it is checked there
                        matcher=entry.matcher,
                        command=command,
                        timeout=DEFAULT_SECONDS if seconds is None else seconds,
                        on_failure=on_failure or "refuse",
                        origin=origin,
                    )
                )
    return hooks


def _commands(entry: HookEntry) -> Iterator[tuple[str, float | None, OnFailure | None]]:
    if entry.command:
        yield entry.command, entry.timeout, entry.on_failure
    for each in entry.hooks:
        seconds = each.timeout if each.timeout is not None else entry.timeout
        yield each.command, seconds, each.on_failure or entry.on_failure


def hook_depth(environ: Mapping[str, str]) -> int:
    """Return the number of hooks that this process is nested in; an invalid value counts as too deep."""
    given = environ.get(DEPTH, "").strip()
    if not given:
        return 0
    return int(given) if given.isdecimal() and len(given) < 3 else MAX_HOOK_DEPTH
