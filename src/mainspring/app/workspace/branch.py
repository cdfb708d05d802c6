"""The git branch of a folder, read from its files: no program is started for it."""

from __future__ import annotations

from pathlib import Path


def branch_of(cwd: str) -> str:
    """The branch that is checked out; the beginning of the commit where it is none; empty where there is no repository. Blocks."""
    folder = Path(cwd)
    for place in (folder, *folder.parents):
        git = place / ".git"
        try:
            if git.is_file():  # a worktree, or a submodule
                named = git.read_text(encoding="utf-8", errors="replace").strip().removeprefix("gitdir:").strip()
                git = (place / named).resolve()
            if not git.is_dir():
                continue
            head = (git / "HEAD").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:8]
    return ""
