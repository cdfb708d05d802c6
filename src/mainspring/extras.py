"""Imports from extras of this distribution, and the commands that install them, for hints in messages."""

import shlex
import sys
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from mainspring.errors import ConfigError

_NAME = "mainspring"


def import_from_extra(module: str, extra: str, feature: str) -> Any:
    """Import a module that requires an extra.

    Args:
        module: The module.
        extra: Name of the extra.
        feature: The feature that requires it, as the user enters it.

    Raises:
        ConfigError: If the extra is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{feature} requires the extra {extra}. Install it: {install_command(extra)} ({error})"
        ) from error


def install_command(extra: str) -> str:
    """Return the shell command that installs an extra. Blocking: it reads the origin of this installation.

    Args:
        extra: Its name.
    """
    return f"{shlex.quote(sys.executable or 'python')} -I -m pip install {_pip_requirement(extra, _install_source())}"


def _pip_requirement(extra: str, origin: dict[str, Any]) -> str:
    """Return the requirement for pip: a clone is installed from itself again, since an index may not have it."""
    url = urlsplit(str(origin.get("url", "")))
    if url.scheme != "file":
        return f"'{_NAME}[{extra}]'"
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return editable + shlex.quote(f"{unquote(url.path)}[{extra}]")


def _install_source() -> dict[str, Any]:
    """Return the origin that the installer recorded; empty if it is an index, or the package is not installed."""
    metadata = import_module("importlib.metadata")  # slow to import, and rarely needed
    try:
        noted = metadata.distribution(_NAME).read_text("direct_url.json")
        return msgspec.json.decode(noted or "{}", type=dict[str, Any])
    except (metadata.PackageNotFoundError, OSError, msgspec.DecodeError):
        return {}
