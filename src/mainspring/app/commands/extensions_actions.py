"""Which extensions there are."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from mainspring.app.compose.extensions import finder, places_of
from mainspring.app.run.options import Place
from mainspring.app.workspace.load import load


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


def list_extensions(place: Place, environ: Mapping[str, str] = os.environ) -> tuple[ExtensionView, ...]:
    """The extensions of the user, of the project and of installed packages. Reading one runs its code, as a run would.

    Raises:
        ConfigError: If the settings are broken.
    """
    cwd, settings = load(place, {}, environ)
    found = finder(places_of(cwd, settings), settings)()
    seen: dict[str, str] = {}
    views: list[ExtensionView] = []
    for source in found.extensions:
        first = seen.setdefault(source.name, source.place)
        problem = "" if first == source.place else f"there is one of this name already: {first}"
        views.append(ExtensionView(name=source.name, origin=source.origin, place=source.place, problem=problem))
    views += [ExtensionView(name=p.name, place=p.file, problem=p.reason, line=p.line) for p in found.problems]
    return tuple(views)
