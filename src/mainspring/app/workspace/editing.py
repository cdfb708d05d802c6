"""A settings file that is edited as a whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from mainspring.app.run.options import Place
from mainspring.app.workspace.manage_settings import target_of
from mainspring.app.workspace.settings import parse_settings
from mainspring.errors import ConfigError
from mainspring.folder_lock import FolderLockedError, locked_folder
from mainspring.state_files import replace_text

EMPTY = """{
  // Settings of Mainspring; `mainspring config show --all` lists what can be set.
}
"""


def taken_out(place: Place, *, project: bool = False, environ: Mapping[str, str] = os.environ) -> tuple[Path, str]:
    """The file, and what stands in it, or what it may begin with. Broken ones too: they are what is to be mended.

    Raises:
        ConfigError: If there is no home folder, or the file cannot be read.
    """
    file = target_of(place, environ, project=project)
    try:
        return file, file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return file, EMPTY
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error


def checked(text: str, file: Path) -> list[str]:
    """What is odd about the text.

    Raises:
        ConfigError: If it is broken or a value does not fit.
    """
    return parse_settings(text, str(file)).warnings


def put_back(file: Path, before: str, text: str, *, private: bool) -> None:
    """Replace what stood in a file, if it still stands there.

    Raises:
        ConfigError: If it was changed meanwhile, or cannot be written.
    """
    target = Path(os.path.realpath(file))
    try:
        target.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        with locked_folder(target.parent):
            now = target.read_text(encoding="utf-8-sig") if target.exists() else EMPTY
            if now != before:
                raise ConfigError(f"{file} was changed by another program meanwhile; nothing was written")
            replace_text(target, text, private=private)
    except FolderLockedError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror or error}") from error
