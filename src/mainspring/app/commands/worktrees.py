"""``mainspring worktrees``, and ``--worktree NAME`` of a run: create, list, and remove git worktrees."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console, write_error
from mainspring.app.cli.exit_codes import USAGE
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.git import Worktrees
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


def apply_worktree_option(options: argparse.Namespace) -> Callable[[int], None]:
    """Set the working folder of a run to its worktree, which is created if needed.

    Returns:
        A function to call with the exit code: it removes a new worktree without work if the run could not start.

    Raises:
        UsageError: If the worktree cannot be created.
    """
    try:
        trees = open_worktrees(workspace_options(options))
        tree = trees.get_or_create(options.worktree)
    except ConfigError as error:
        raise UsageError(f"--worktree: {error}") from None
    options.cwd = trees.matching_folder(tree)

    def show(text: str) -> None:
        if options.output == "text":
            write_error(escape_invisible(text))

    show(f"{'new ' if tree.new else ''}worktree: {tree.path}; branch: {tree.branch}")

    def end(exit_code: int) -> None:
        if tree.new and exit_code == USAGE:
            with suppress(ConfigError):
                trees.remove(tree.name, branch=tree.new_branch)
                show(f"Removed the new worktree {tree.path}.")

    return end


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
