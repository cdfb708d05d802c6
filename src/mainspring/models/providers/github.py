"""GitHub Models: models of many vendors for an account at GitHub, or for an organisation."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from mainspring.errors import ProviderConfigError
from mainspring.models.auth.cli_tokens import GitHubCliCredential, is_cli_installed, missing_token_error
from mainspring.models.auth.credentials import get_setting, require_key
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import CredentialCallback, HttpModel
from mainspring.models.profile import ChatCapabilities
from mainspring.models.providers import http as api_versions
from mainspring.models.providers.http import build_chat_model, provider_setting, static_api_key

_NAME = "github"
_HOST = "https://models.github.ai"
_MODEL = "gpt-4o-mini"


def build(config: ProviderConfig) -> HttpModel:
    """A model of GitHub.

    The token is the one of the settings, of ``GITHUB_TOKEN``, or of GitHub's command line, which is asked at the first request.
    Setting of its own: ``org``, the organisation that pays.

    Raises:
        ProviderConfigError: If there is no token, and no command line to ask for one.
    """
    org = provider_setting(config, "org")
    home = f"{_HOST}/orgs/{quote(org, safe='')}/inference" if org else f"{_HOST}/inference"
    base_url = get_setting(config.base_url) or home
    return build_chat_model(
        config,
        provider=_NAME,
        model=config.model or _MODEL,
        base_url=base_url,
        key=_credential(config, base_url),
        capabilities=ChatCapabilities(),
        headers={"x-github-api-version": api_versions.GITHUB},
    )


def _credential(config: ProviderConfig, base_url: str) -> str | CredentialCallback:
    try:
        return require_key(_NAME, static_api_key(config), base_url=base_url, home=_HOST)
    except ProviderConfigError:
        if urlsplit(base_url).hostname != urlsplit(_HOST).hostname:
            raise  # A token of GitHub goes to GitHub only.
    if is_cli_installed():
        return GitHubCliCredential()
    raise missing_token_error("none is configured, and GitHub's command line `gh` is not installed")
