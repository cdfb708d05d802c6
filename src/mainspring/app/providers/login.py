"""Logging in at providers that take an account in place of a key, and forgetting that."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from mainspring.app.providers.select_model import provider_config
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.errors import ConfigError
from mainspring.models.auth import TokenFile, login
from mainspring.models.providers import codex

_OTHER_LOGIN_HINTS = {
    "github": "log in with GitHub's own command line: gh auth login; its token is used",
    "azure": "log in with Azure's own command line: az login; its token is used",
}


async def log_in(
    provider: str, show: Callable[[str], object], place: WorkspaceOptions, environ: Mapping[str, str] = os.environ
) -> Path:
    """Log in with a browser; where the tokens lie then.

    Args:
        provider: At which provider.
        show: Gets the address that is to be opened.
        place: Where the settings are looked for.
        environ: The environment.

    Raises:
        ConfigError: If one cannot log in there.
        ModelError: If the person or the server refused, or nobody came back in time.
    """
    file = _token_file(provider, place, environ)
    config = provider_config(provider, load_rules(place, {}, environ)[1].config)
    await login(codex.oauth_client(config), file, show)
    return Path(file.path)


def log_out(provider: str, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> tuple[Path, bool]:
    """Forget a login: where its tokens lay, and whether there were any.

    Raises:
        ConfigError: If one cannot log in there, or the file cannot be removed.
    """
    path = Path(_token_file(provider, place, environ).path)
    try:
        path.unlink()
    except FileNotFoundError:
        return path, False
    except OSError as error:
        raise ConfigError(f"{path}: cannot be removed: {error.strerror or error}") from error
    return path, True


def _token_file(provider: str, place: WorkspaceOptions, environ: Mapping[str, str]) -> TokenFile:
    if provider == codex.NAME:
        return codex.token_file(provider_config(provider, load_rules(place, {}, environ)[1].config))
    if provider in _OTHER_LOGIN_HINTS:
        raise ConfigError(_OTHER_LOGIN_HINTS[provider])
    near = difflib.get_close_matches(provider, [codex.NAME], 1, 0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there is {codex.NAME}; others take a key: mainspring config init"
    raise ConfigError(f"one cannot log in at {provider!r}; {hint}")
