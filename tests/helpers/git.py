"""Run git in a test, without the settings of this machine."""

import os
import subprocess
from pathlib import Path

_SETTINGS = (
    *("user.name=A", "user.email=a@example.org", "init.defaultBranch=main", "commit.gpgsign=false"),
    "protocol.file.allow=always",  # for submodules
)


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, and return its output."""
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *settings, *arguments], cwd=folder, env=environ, check=True, capture_output=True, encoding="utf-8"
    )
    return done.stdout.strip()
