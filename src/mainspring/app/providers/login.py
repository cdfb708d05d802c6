"""Log in to and out of providers that use an account instead of a key."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from mainspring.app.providers.select_model import provider_config
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.errors import ConfigError
from mainspring.models.auth import TokenFile, login
from mainspring.models.providers import codex
from mainspring.text import suggest_name

_OTHER_LOGIN_HINTS = {
    "github": "Log in with GitHub's command line: `gh auth login`. Mainspring uses its token.",
    "azure": "Log in with Azure's command line: `az login`. Mainspring uses its token.",
}


async def log_in(
    provider: str, show: Callable[[str], object], place: WorkspaceOptions, environ: Mapping[str, str] = os.environ
) -> Path:
    """Log in with a browser, and return the path of the token file.

    Args:
        provider: Name of the provider.
        show: Callback that receives the URL to open.
        place: Workspace whose settings are used.
        environ: Environment variables.

    Raises:
        ConfigError: If the provider does not support logging in.
        ModelError: If the user or the server rejected the login, or it timed out.
    """
    file = _token_file(provider, place, environ)
    config = provider_config(provider, load_rules(place, environ=environ)[1].config)
    await login(codex.oauth_client(config), file, show)
    return Path(file.path)


def log_out(provider: str, place: WorkspaceOptions) -> tuple[Path, bool]:
    """Log out. Return the path of the token file, and whether it existed.

    Raises:
        ConfigError: If the provider does not support logging in, or the file cannot be removed.
    """
    path = Path(_token_file(provider, place, os.environ).path)
    try:
        path.unlink()
    except FileNotFoundError:
        return path, False
    except OSError as error:
        raise ConfigError(f"Cannot remove {path}: {error.strerror or error}.") from error
    return path, True


def _token_file(provider: str, place: WorkspaceOptions, environ: Mapping[str, str]) -> TokenFile:
    if provider == codex.NAME:
        return codex.token_file(provider_config(provider, load_rules(place, environ=environ)[1].config))
    if provider in _OTHER_LOGIN_HINTS:
        raise ConfigError(_OTHER_LOGIN_HINTS[provider])
    others = f"Available: {codex.NAME}. Other providers use a key: run `mainspring config init`."
    hint = suggest_name(provider, [codex.NAME], others, cutoff=0.5)
    raise ConfigError(f"Cannot log in to {provider!r}. {hint}")
