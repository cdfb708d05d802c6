"""Rules that the user decided on while working, in their settings."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from mainspring.env.folder_lock import FolderLockedError, locked_folder
from mainspring.env.replacing import replace_text
from mainspring.errors import ConfigError
from mainspring.permissions import Origin, Rule, parse_rule
from mainspring.runtime.home import Home
from mainspring.runtime.settings import parse_settings
from mainspring.runtime.settings.jsonc import JsonError, edit

RuleEffect = Literal["allow", "deny"]
"""What a saved rule says."""


def parsed_rules(texts: tuple[str, ...], effect: RuleEffect, home: Home | None) -> tuple[Rule, ...]:
    """Rules as they hold once they are saved.

    Raises:
        ConfigError: If one is no rule.
    """
    place = f"{home.settings}: permissions.{effect}" if home else "this chat"
    return tuple([parse_rule(text, effect, Origin("user", place)) for text in texts])


def save_rules(home: Home | None, effect: RuleEffect, texts: tuple[str, ...]) -> Path:
    """Add rules to the user's settings; everything else in the file stays. Either all are added or none. Blocks.

    Raises:
        ConfigError: If a rule is none, the file is broken, or it cannot be written.
    """
    if home is None:
        raise ConfigError("there is no home folder to keep rules in; set MAINSPRING_HOME to one")
    parsed_rules(texts, effect, home)
    file = Path(home.settings).resolve()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked_folder(file.parent):  # read and written under one lock: two chats may save at once
            text = file.read_text(encoding="utf-8-sig") if file.exists() else "{\n}\n"
            known = parse_settings(text, str(file)).values.get(("permissions", effect), ())
            wanted = list(dict.fromkeys([*known, *texts]))
            if wanted != list(known):
                made = edit(text, ("permissions", effect), msgspec.json.encode(wanted).decode())
                parse_settings(made, str(file))
                replace_text(file, made, private=True)
    except FolderLockedError as error:
        raise ConfigError(str(error)) from None
    except JsonError as error:
        raise ConfigError(f"{file}:{error.line}:{error.column}: {error.reason}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror or error}") from error
    return file
