"""``mainspring worktrees``, and ``--worktree NAME`` of a run: create, list, and remove git worktrees."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.git import Worktree, Worktrees
from mainspring.app.workspace.paths import find_user_paths, resolve_working_folder
from mainspring.errors import ConfigError
from mainspring.text import escape_invisible, pluralize


def open_worktrees(place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> Worktrees:
    """Open the worktrees of the repository. Its methods block.

    Raises:
        ConfigError: If the folder is not in a repository, or git is not installed.
    """
    try:
        cwd, _ = resolve_working_folder(place.cwd, environ)
    except NotADirectoryError as error:
        raise ConfigError(f"--cwd {place.cwd}: Folder not found: {error}") from None
    return Worktrees(cwd, find_user_paths(environ))


def enter_worktree(name: str, place: WorkspaceOptions) -> tuple[str, Worktree]:
    """Return the folder to work in inside a worktree, which is created if needed.

    Raises:
        ConfigError: If it cannot be created.
    """
    trees = open_worktrees(place, os.environ)
    tree = trees.get_or_create(name)
    return trees.matching_folder(tree), tree


def run(options: argparse.Namespace) -> int:
    """List or remove worktrees, and return the exit code.

    Raises:
        UsageError: If the name is missing.
    """
    if options.action == "remove" and not options.name:
        raise UsageError("worktrees remove requires a NAME. List the worktrees with `mainspring worktrees`.")
    return run_command(
        options, lambda console: _remove(options, console) if options.action == "remove" else _list(options, console)
    )


def apply_worktree_option(options: argparse.Namespace) -> None:
    """Set the working folder of a run to its worktree.

    Raises:
        UsageError: If the worktree cannot be created.
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
        console.write_json(found)
        return 0
    for tree in found:
        state = ", ".join(
            text
            for text, there in (
                (f"{pluralize(tree.changes, 'uncommitted change')}", tree.changes),
                (f"{pluralize(tree.ahead, 'unmerged commit', 'unmerged commits')}", tree.ahead),
                ("safe to remove", not (tree.changes or tree.ahead or tree.problem)),
                (f"unreadable: {tree.problem}", tree.problem),
            )
            if there
        )
        console.row(f"{tree.name}  {tree.branch}  {state}  {tree.path}")
    if not found:
        console.info(f"No worktrees of {trees.root} yet. Create one with `mainspring --worktree NAME`.")
    return 0


def _remove(options: argparse.Namespace, console: Console) -> int:
    trees = open_worktrees(workspace_options(options))
    tree = trees.remove(options.name, branch=options.branch, ignored=options.ignored, force=options.force)
    branch_note = "" if options.branch else f". Its branch {tree.branch} remains"
    console.info(f"Removed {tree.path}{branch_note}")
    return 0
