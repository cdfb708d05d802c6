"""Which extensions there are.

``mainspring extensions``.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import OK
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.compose.extensions import extension_finder, extension_paths
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules


class ExtensionView(Struct, frozen=True, kw_only=True):
    """An extension, for people and programs.

    Attributes:
        name: Its name.
        origin: ``user``, ``project`` or ``package``; empty for one that cannot be read.
        place: Its file or package.
        problem: Why it is not used; empty if it is.
        line: The line that is wrong; 0 where none is.
    """

    name: str
    origin: str = ""
    place: str = ""
    problem: str = ""
    line: int = 0


def list_extensions(place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> tuple[ExtensionView, ...]:
    """The extensions of the user, of the project and of installed packages. Reading one runs its code, as a run would.

    Raises:
        ConfigError: If the settings are broken.
    """
    cwd, settings = load_rules(place, {}, environ)
    found = extension_finder(extension_paths(cwd, settings), settings)()
    seen: dict[str, str] = {}
    views: list[ExtensionView] = []
    for source in found.extensions:
        first = seen.setdefault(source.name, source.place)
        problem = "" if first == source.place else f"there is one of this name already: {first}"
        views.append(ExtensionView(name=source.name, origin=source.origin, place=source.place, problem=problem))
    views += [ExtensionView(name=p.name, place=p.file, problem=p.reason, line=p.line) for p in found.problems]
    return tuple(views)


def run(options: argparse.Namespace) -> int:
    """List them; the exit code."""
    return run_command(options, lambda console: _list(options, console))


def _list(options: argparse.Namespace, console: Console) -> int:
    found = list_extensions(workspace_options(options))
    if options.json:
        console.data(msgspec.json.encode(found).decode())
        return OK
    for each in found:
        console.row(_line(each))
    if not found:
        console.info(
            "there are no extensions: Python files in ~/.agent/extensions, or in that folder of a project that you trust"
        )
    return OK


def _line(extension: ExtensionView) -> str:
    place = f"{extension.place}:{extension.line}" if extension.line else extension.place
    if extension.problem:
        return f"{extension.name}  not used: {extension.problem} ({place})"
    return f"{extension.name}  {extension.origin}  {place}"
