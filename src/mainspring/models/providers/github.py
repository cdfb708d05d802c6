"""GitHub Models: models of many vendors for an account at GitHub, or for an organisation."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from mainspring.errors import ProviderConfigError
from mainspring.models.auth.cli_tokens import GitHubCli, has_cli, no_token
from mainspring.models.auth.credentials import require_key, setting
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import Credential, HttpModel
from mainspring.models.profile import Dialect
from mainspring.models.providers import http as api_versions
from mainspring.models.providers.http import chat_model, given_key, own_setting

NAME = "github"
HOST = "https://models.github.ai"
MODEL = "gpt-4o-mini"


def build(config: ProviderConfig) -> HttpModel:
    """A model of GitHub.

    The token is the one of the settings, of ``GITHUB_TOKEN``, or of GitHub's command line, which is asked at the first request.
    Setting of its own: ``org``, the organisation that pays.

    Raises:
        ProviderConfigError: If there is no token, and no command line to ask for one.
    """
    org = own_setting(config, "org")
    home = f"{HOST}/orgs/{quote(org, safe='')}/inference" if org else f"{HOST}/inference"
    base_url = setting(config.base_url) or home
    return chat_model(
        config,
        provider=NAME,
        model=config.model or MODEL,
        base_url=base_url,
        key=_token(config, base_url),
        accepts=Dialect(),
        headers={"x-github-api-version": api_versions.GITHUB},
    )


def _token(config: ProviderConfig, base_url: str) -> str | Credential:
    try:
        return require_key(NAME, given_key(config), base_url=base_url, home=HOST)
    except ProviderConfigError:
        if urlsplit(base_url).hostname != urlsplit(HOST).hostname:
            raise  # A token of GitHub goes to GitHub only.
    if has_cli():
        return GitHubCli()
    raise no_token("none is configured, and GitHub's command line `gh` is not installed")
