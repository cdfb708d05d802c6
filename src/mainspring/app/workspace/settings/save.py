"""Change single keys of a settings file, atomically and under a lock."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.workspace.settings.jsonc import edit_jsonc
from mainspring.app.workspace.settings.load import parse_settings
from mainspring.app.workspace.settings.validation import SettingKey, convert_value, setting_type
from mainspring.errors import ConfigError
from mainspring.lenient_json import JsonError
from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.state_files import resolve_project_file, write_text_atomically


def save_settings(file: Path, changes: Mapping[SettingKey, Any], *, private: bool = True) -> bool:
    """Write changed values to a settings file; everything else is unchanged, including comments and unknown keys.

    Returns:
        Whether the text of the file changed.

    Args:
        file: File; it and its folder are created if needed. A link is followed, in a project only inside the project.
        changes: New values by path in camelCase; None removes a value.
        private: Whether only the owner may read the file, for the user's settings.

    Raises:
        ConfigError: If the file or a value is invalid, or the file cannot be written.
    """
    fitted = {path: _convert(path, value) for path, value in changes.items()}
    try:
        target = Path(os.path.realpath(file)) if private else resolve_project_file(file, file.parent.parent)
        if target.is_symlink():
            raise ConfigError(f"{file} is a circular link.")
        target.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        with lock_directory(target.parent):
            before = target.read_text(encoding="utf-8-sig") if target.exists() else "{\n}\n"
            text = _apply_changes(target, before, fitted)
            write_text_atomically(target, text, private=private)
            return text != before
    except LockTimeoutError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(f"Cannot write {file}: {error.strerror or error}.") from error


def _convert(path: SettingKey, value: Any) -> Any:
    try:
        return convert_value(value, setting_type(path))
    except ValueError as error:
        raise ConfigError(
            str(error) if str(error).startswith("Unknown setting") else f"{'.'.join(path)} {error}"
        ) from None


def _apply_changes(target: Path, text: str, changes: Mapping[SettingKey, Any]) -> str:
    """Return the text of a file with the changes.

    Raises:
        ConfigError: If the file is invalid; it is not changed then.
    """
    parse_settings(text, str(target))
    try:
        for path, value in changes.items():
            text = edit_jsonc(text, path, None if value is None else msgspec.json.encode(value).decode())
    except JsonError as error:
        raise ConfigError(f"{target}:{error.line}:{error.column}: {error.reason}") from None
    parse_settings(text, str(target))
    return text
