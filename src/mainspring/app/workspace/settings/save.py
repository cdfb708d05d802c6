"""Changing a settings file: only the keys that change, under a lock, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.workspace.settings.jsonc import JsonError, edit_jsonc
from mainspring.app.workspace.settings.load import parse_settings
from mainspring.app.workspace.settings.validation import SettingKey, convert_value, setting_type
from mainspring.errors import ConfigError
from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.state_files import resolve_project_file, write_text_atomically


def save_settings(file: Path, changes: Mapping[SettingKey, Any], *, private: bool = True) -> None:
    """Write changed values into a settings file; everything else in it stays, comments and unknown keys included.

    Args:
        file: The file; it and its folder are made if they do not exist. A link is followed, for a project's file inside the project.
        changes: New values by path, in camelCase; ``None`` takes one away.
        private: Whether nobody else may read it: the user's file, not a project's.

    Raises:
        ConfigError: If the file is broken, a value does not fit, or the file cannot be written.
    """
    fitted = {path: _convert(path, value) for path, value in changes.items()}
    try:
        target = Path(os.path.realpath(file)) if private else resolve_project_file(file, file.parent.parent)
        if target.is_symlink():
            raise ConfigError(f"{file}: its links lead in a circle")
        target.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        with lock_directory(target.parent):
            write_text_atomically(target, _apply_changes(target, fitted), private=private)
    except LockTimeoutError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror or error}") from error


def _convert(path: SettingKey, value: Any) -> Any:
    try:
        return convert_value(value, setting_type(path))
    except ValueError as error:
        raise ConfigError(str(error) if str(error).startswith("there is no") else f"{'.'.join(path)} {error}") from None


def _apply_changes(target: Path, changes: Mapping[SettingKey, Any]) -> str:
    """The file's text with the changes made.

    Raises:
        ConfigError: If what stands there is broken; it is left alone then.
    """
    text = target.read_text(encoding="utf-8-sig") if target.exists() else "{\n}\n"
    parse_settings(text, str(target))
    try:
        for path, value in changes.items():
            text = edit_jsonc(text, path, None if value is None else msgspec.json.encode(value).decode())
    except JsonError as error:
        raise ConfigError(f"{target}:{error.line}:{error.column}: {error.reason}") from None
    parse_settings(text, str(target))
    return text
