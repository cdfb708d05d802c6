"""``mainspring extensions``: list extensions."""

from __future__ import annotations

import argparse

from msgspec import Struct

from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import OK
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.compose.extensions import extension_finder, extension_paths
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules


class ExtensionView(Struct, frozen=True, kw_only=True):
    """An extension in a list.

    Attributes:
        name: Name.
        origin: ``user``, ``project``, or ``package``; empty if the extension cannot be loaded.
        place: File or package.
        problem: Reason why the extension is not used; empty if it is used.
        line: Line of the problem; 0 if unknown.
    """

    name: str
    origin: str = ""
    place: str = ""
    problem: str = ""
    line: int = 0


def list_extensions(place: WorkspaceOptions) -> tuple[ExtensionView, ...]:
    """List the extensions of the user, the project, and installed packages. Loading an extension runs its code, like a run does.

    Raises:
        ConfigError: If the settings are invalid.
    """
    cwd, settings = load_rules(place)
    found = extension_finder(extension_paths(cwd, settings), settings)()
    seen: dict[str, str] = {}
    views: list[ExtensionView] = []
    for source in found.extensions:
        first = seen.setdefault(source.name, source.place)
        problem = "" if first == source.place else f"an extension with this name already exists: {first}"
        views.append(ExtensionView(name=source.name, origin=source.origin, place=source.place, problem=problem))
    views += [ExtensionView(name=p.name, place=p.file, problem=p.reason, line=p.line) for p in found.problems]
    return tuple(views)


def run(options: argparse.Namespace) -> int:
    """List extensions, and return the exit code."""
    return run_command(options, lambda console: _list(options, console))


def _list(options: argparse.Namespace, console: Console) -> int:
    found = list_extensions(workspace_options(options))
    empty = "No extensions yet. Add Python files to ~/.agent/extensions, or to .agent/extensions in a trusted folder."
    console.write_list(found, map(_line, found), empty, as_json=options.json)
    return OK


def _line(extension: ExtensionView) -> str:
    place = f"{extension.place}:{extension.line}" if extension.line else extension.place
    if extension.problem:
        return f"{extension.name}  not used: {extension.problem} ({place})"
    return f"{extension.name}  {extension.origin}  {place}"
