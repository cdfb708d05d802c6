"""What a provider still needs that shows only at its first request."""

from __future__ import annotations

from importlib.util import find_spec

from mainspring.app.providers.select_model import make, provider_config
from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.settings import AppConfig
from mainspring.extras import how_to_install
from mainspring.models.port import FREE
from mainspring.models.providers import codex, foundry


def lacks(name: str, config: AppConfig) -> str:
    """What a provider that could be made still lacks, and how to get it; empty if it lacks nothing."""
    if name == codex.NAME:
        tokens = codex.token_file(provider_config(name, config)).path
        if not tokens.exists():
            return (
                f"no login at {name}: there is no {tokens}; log in once with `mainspring login {name}`, or name the file of "
                f"another program's login in {codex.FILE_VARIABLE}"
            )
    if name == foundry.NAME and make(f"{name}:", config, registry_of(config)).info.prices == FREE:  # on this machine
        if find_spec("foundry_local_sdk") is None:
            return f"foundry-local-sdk is not installed: {how_to_install('foundry')}"
    return ""
