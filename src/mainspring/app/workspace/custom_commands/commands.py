"""Custom commands: which there are, and what becomes of a prompt that calls one."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.run.events import Notice, Reporter
from mainspring.app.run.options import AskOptions, Place
from mainspring.app.workspace.custom_commands import CommandCall, CustomCommand, CustomCommands, SkippedCommand
from mainspring.app.workspace.custom_commands.registry import commands_root, looks_like_a_call
from mainspring.app.workspace.load import load
from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError


class CommandList(Struct, frozen=True):
    """The custom commands of a folder, and files that give none."""

    commands: tuple[CustomCommand, ...]
    skipped: tuple[SkippedCommand, ...]


def commands_of(cwd: str, settings: Settings) -> CustomCommands:
    """The custom commands that can be used in a folder. Blocking."""
    return CustomCommands.find(
        cwd, settings.home, trusted=TrustStore(settings.home).covers(commands_root(cwd, settings.home))
    )


def list_commands(place: Place, environ: Mapping[str, str] = os.environ) -> CommandList:
    """The custom commands that can be used here.

    Raises:
        ConfigError: If the settings are broken.
    """
    found = commands_of(*load(place, {}, environ))
    return CommandList(tuple(found), found.skipped)


def show_command(name: str, arguments: str, place: Place, environ: Mapping[str, str] = os.environ) -> str:
    """The prompt that a command makes of its arguments, with the commands in it as they would be run. Runs nothing.

    Raises:
        ConfigError: If there is no such command, or an argument is missing.
    """
    cwd, settings = load(place, {}, environ)
    found = commands_of(cwd, settings)
    command = found.get(name)
    if command is None:
        near = found.nearest(f"/{name.removeprefix('/')}")
        known = ", ".join(c.name for c in found) or "none here; docs/custom-commands.md says how to write one"
        hint = f"did you mean {near!r}?" if near else f"there are {known}"
        raise ConfigError(f"there is no command {name!r}; {hint}")
    return CommandCall(command, arguments).expansion(cwd).text()


def called(options: AskOptions, report: Reporter, environ: Mapping[str, str]) -> tuple[AskOptions, CommandCall | None]:
    """The command that a prompt calls, if it calls one, and the options of the run with what the command asks for. Blocking.

    Raises:
        ConfigError: If the settings are broken.
    """
    if not looks_like_a_call(options.prompt):
        return options, None
    found = commands_of(*load(options.place, {}, environ))
    call = found.call(options.prompt)
    if call is None:
        near = found.nearest(options.prompt)
        if waiting := found.waiting_for_trust(options.prompt):
            report(
                Notice(
                    f"{waiting} is a command of a folder that is not trusted (mainspring trust): it is taken as text"
                )
            )
        elif near:
            report(
                Notice(f"there is no command {options.prompt.split()[0]}; did you mean /{near}? It is taken as text")
            )
        return options, None
    command = call.command
    rules = replace(options.rules, allow=(*options.rules.allow, *command.allowed))
    return (
        replace(
            options,
            rules=rules,
            tools=command.tool_names if options.tools is None else options.tools,
            model=command.model if options.model is None and options.provider is None else options.model,
        ),
        call,
    )
