"""The settings, shown and changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from mainspring.errors import ConfigError
from mainspring.redact import MASK
from mainspring.runtime.build import load
from mainspring.runtime.home import user_home
from mainspring.runtime.options import Place
from mainspring.runtime.settings import save_settings
from mainspring.runtime.settings.layer import camel

_LISTS = {"permissions.allow", "permissions.ask", "permissions.deny", "extensions.paths", "extensions.disabled"}


class Setting(Struct, frozen=True):
    """A setting that is set: its name, its value (a key is masked), and where it comes from."""

    key: str
    value: Any
    origin: str


class Config(Struct, frozen=True, kw_only=True):
    """The settings as they hold here.

    Attributes:
        settings: What is set.
        files: The files that are looked at.
        warnings: What is odd about them.
    """

    settings: tuple[Setting, ...]
    files: tuple[str, ...]
    warnings: tuple[str, ...]


def show_config(place: Place, environ: Mapping[str, str] = os.environ) -> Config:
    """The settings as they hold here.

    Raises:
        ConfigError: If a file is broken.
    """
    _, settings = load(place, {}, environ)
    config = settings.config
    plain: dict[str, Any] = msgspec.to_builtins(config)
    providers: dict[str, Any] = {"default": config.providers.default}
    providers |= {n: msgspec.to_builtins(section) | section.extra for n, section in config.providers.sections.items()}
    plain["providers"] = providers
    shown: list[Setting] = []
    for key, origin in sorted(settings.origins.items()):
        value: Any = plain
        for part in key.split("."):
            value = value[part]
        shown.append(Setting(key, MASK if key.endswith((".apiKey", ".headers")) else value, origin))
    files = [settings.home.settings] if settings.home else []
    files += [settings.project_file] if settings.project_file else []
    return Config(settings=tuple(shown), files=tuple(map(str, files)), warnings=settings.warnings)


def change_config(key: str, value: str | None, environ: Mapping[str, str] = os.environ) -> Path:
    """Set one of the user's settings, or take it away with ``None``; the file that was changed.

    Raises:
        ConfigError: If there is no such setting, the value does not fit, or the file cannot be written.
    """
    home = user_home(environ)
    if home is None:
        raise ConfigError("there is no home folder to keep settings in; set MAINSPRING_HOME to one")
    path = tuple(camel(part) for part in key.split("."))
    if len(path) == 3 and path[0] == "providers":
        path = ("providers", key.split(".")[1], path[2])
    new: Any = value
    if value is not None and ".".join(path) in _LISTS:
        new = [rule for rule in value.split("\n") if rule.strip()]
    if value is not None and not value.strip():
        raise ConfigError(f"the value of {key} is empty; `config unset {key}` takes it away")
    save_settings(home.settings, {path: new})
    return home.settings
