"""How the extras of this distribution are added to the installation that runs: one place for what hints say."""

import shlex
import sys
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

_NAME = "mainspring"


def install_command(extra: str) -> str:
    """The command that adds an extra, for a shell. Blocking: it looks where this installation came from.

    Args:
        extra: Its name.
    """
    return f"{shlex.quote(sys.executable or 'python')} -I -m pip install {_pip_requirement(extra, _install_source())}"


def _pip_requirement(extra: str, origin: dict[str, Any]) -> str:
    """What pip is told: a clone installs from itself again, since an index may not have it."""
    url = urlsplit(str(origin.get("url", "")))
    if url.scheme != "file":
        return f"'{_NAME}[{extra}]'"
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return editable + shlex.quote(f"{unquote(url.path)}[{extra}]")


def _install_source() -> dict[str, Any]:
    """What the installer noted of it; empty where it came from an index, or is not installed."""
    metadata = import_module("importlib.metadata")  # takes a while, and is seldom wanted
    try:
        noted = metadata.distribution(_NAME).read_text("direct_url.json")
        return msgspec.json.decode(noted or "{}", type=dict[str, Any])
    except (metadata.PackageNotFoundError, OSError, msgspec.DecodeError):
        return {}
