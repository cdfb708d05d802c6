"""Placeholders of prompts and custom commands, for example `{{CWD}}`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from mainspring.app.workspace.git import current_branch
from mainspring.lazy import lazy_re

_PLACEHOLDER = lazy_re(r"\{\{([A-Z_]+)\}\}")


def placeholder_values(cwd: str, today: date, *, provider: str = "", model: str = "") -> dict[str, str]:
    """Return the values of ``{{NAME}}`` in prompts and custom commands. They exclude the time of day, so that a prompt stays the same.

    Args:
        cwd: Working folder.
        today: Date.
        provider: Provider name.
        model: Model ID.
    """
    return {
        "CWD": cwd,
        "PROJECT": Path(cwd).name,
        "BRANCH": current_branch(cwd, commit=False),
        "OS": os.uname().sysname if os.name == "posix" else "Windows",
        "SHELL": Path(os.environ.get("SHELL", "") or "sh").name,
        "DATE": today.isoformat(),
        "PROVIDER": provider,
        "MODEL": model,
    }


def substitute_variables(text: str, values: Mapping[str, str]) -> str:
    """Substitute placeholders in one pass, so that values are not expanded again. Unknown ones are unchanged."""
    return _PLACEHOLDER.sub(lambda match: values.get(match.group(1), match.group(0)), text)
