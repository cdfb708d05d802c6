"""Worktrees: begun, listed, removed."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mainspring.app.run.options import Place
from mainspring.app.workspace.git import Worktree, Worktrees
from mainspring.app.workspace.load import working_folder
from mainspring.app.workspace.paths import user_home
from mainspring.errors import ConfigError


def worktrees_of(place: Place, environ: Mapping[str, str] = os.environ) -> Worktrees:
    """The worktrees of the repository here. Blocking, as all of them are.

    Raises:
        ConfigError: If there is no repository, or no git.
    """
    try:
        cwd, _ = working_folder(place.cwd, environ)
    except NotADirectoryError as error:
        raise ConfigError(f"--cwd {place.cwd}: there is no folder {error}") from None
    return Worktrees(cwd, user_home(environ))


def enter_worktree(name: str, place: Place, environ: Mapping[str, str] = os.environ) -> tuple[str, Worktree]:
    """The folder to work in, in the worktree of a name, which is made if there is none.

    Raises:
        ConfigError: If it cannot be made.
    """
    trees = worktrees_of(place, environ)
    tree = trees.enter(name)
    return trees.place_in(tree), tree
