"""Placeholders of prompts and custom commands, for example `{{CWD}}`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from mainspring.app.workspace.paths import find_repository
from mainspring.lazy import lazy_re

_PLACEHOLDER = lazy_re(r"\{\{([A-Z_]+)\}\}")


_HEAD = lazy_re(r"ref: refs/heads/(.+)")


def placeholder_values(cwd: str, today: date, *, provider: str = "", model: str = "") -> dict[str, str]:
    """What stands for ``{{NAME}}`` in prompts and custom commands. No time of day, so that a prompt stays the same.

    Args:
        cwd: The folder to work in.
        today: The date.
        provider: Name of the provider.
        model: Id of the model.
    """
    return {
        "CWD": cwd,
        "PROJECT": Path(cwd).name,
        "BRANCH": branch_of(cwd),
        "OS": os.uname().sysname if os.name == "posix" else "Windows",
        "SHELL": Path(os.environ.get("SHELL", "") or "sh").name,
        "DATE": today.isoformat(),
        "PROVIDER": provider,
        "MODEL": model,
    }


def substitute_variables(text: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders filled in, in one pass: what they stand for is not looked at again. Unknown ones stay."""
    return _PLACEHOLDER.sub(lambda match: values.get(match.group(1), match.group(0)), text)


def branch_of(cwd: str) -> str:
    """The branch that is checked out; empty outside of a repository, or where it is none. Reads files of git, runs nothing."""
    root = find_repository(Path(cwd))
    if root is None:
        return ""
    folder = root / ".git"
    try:
        if folder.is_file():  # a worktree, or a submodule
            folder = root / folder.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        match = _HEAD.match((folder / "HEAD").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""
    return match.group(1).strip() if match else ""
