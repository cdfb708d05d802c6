"""Worktrees: begun, listed, removed.

``mainspring worktrees``, and ``--worktree NAME`` of a run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping

import msgspec

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.git import Worktree, Worktrees
from mainspring.app.workspace.paths import find_user_paths, resolve_working_folder
from mainspring.errors import ConfigError
from mainspring.text import escape_invisible, pluralize


def open_worktrees(place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> Worktrees:
    """The worktrees of the repository here. Blocking, as all of them are.

    Raises:
        ConfigError: If there is no repository, or no git.
    """
    try:
        cwd, _ = resolve_working_folder(place.cwd, environ)
    except NotADirectoryError as error:
        raise ConfigError(f"--cwd {place.cwd}: there is no folder {error}") from None
    return Worktrees(cwd, find_user_paths(environ))


def enter_worktree(name: str, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> tuple[str, Worktree]:
    """The folder to work in, in the worktree of a name, which is made if there is none.

    Raises:
        ConfigError: If it cannot be made.
    """
    trees = open_worktrees(place, environ)
    tree = trees.get_or_create(name)
    return trees.matching_folder(tree), tree


def run(options: argparse.Namespace) -> int:
    """List or remove; the exit code.

    Raises:
        UsageError: If the name is missing.
    """
    if options.action == "remove" and not options.name:
        raise UsageError("worktrees remove needs a NAME; `mainspring worktrees` lists them")
    return run_command(
        options, lambda console: _remove(options, console) if options.action == "remove" else _list(options, console)
    )


def apply_worktree_option(options: argparse.Namespace) -> None:
    """Have a run work in its worktree.

    Raises:
        UsageError: If there is none and none can be made.
    """
    try:
        folder, tree = enter_worktree(options.worktree, workspace_options(options))
    except ConfigError as error:
        raise UsageError(f"--worktree: {error}") from None
    options.cwd = folder
    if options.output == "text":
        print(
            escape_invisible(f"{'new ' if tree.new else ''}worktree: {tree.path}; branch: {tree.branch}"),
            file=sys.stderr,
        )


def _list(options: argparse.Namespace, console: Console) -> int:
    trees = open_worktrees(workspace_options(options))
    found = trees.list()
    if options.json:
        console.data(msgspec.json.encode(found).decode())
        return 0
    for tree in found:
        state = ", ".join(
            text
            for text, there in (
                (f"{pluralize(tree.changes, 'change')} not committed", tree.changes),
                (f"{pluralize(tree.ahead, 'commit that is', 'commits that are')} merged nowhere", tree.ahead),
                ("nothing that would be lost", not tree.changes and not tree.ahead),
            )
            if there
        )
        console.row(f"{tree.name}  {tree.branch}  {state}  {tree.path}")
    if not found:
        console.info(f"no worktrees of {trees.root}; mainspring --worktree NAME begins one")
    return 0


def _remove(options: argparse.Namespace, console: Console) -> int:
    trees = open_worktrees(workspace_options(options))
    tree = trees.remove(options.name, branch=options.branch, ignored=options.ignored, force=options.force)
    kept = "" if options.branch else f"; its branch {tree.branch} stays"
    console.info(f"{tree.path} was removed{kept}")
    return 0
