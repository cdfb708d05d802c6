"""GitHub Models: models of many vendors for a GitHub account or organization."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from mainspring.errors import ProviderConfigError
from mainspring.models.auth.cli_tokens import GitHubCliCredential, is_cli_installed, missing_token_error
from mainspring.models.auth.credentials import require_key
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import CredentialCallback, HttpModel
from mainspring.models.profile import ChatCapabilities
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.providers import http as api_versions
from mainspring.models.providers.addresses import single_address
from mainspring.models.providers.http import build_chat_model, provider_setting, static_api_key
from mainspring.programs import explain_missing_program

_NAME = "github"
_HOST = PROVIDERS[_NAME]
_PATH = "/inference"


def build(config: ProviderConfig) -> HttpModel:
    """Create a model of GitHub.

    The token comes from the settings, from ``GITHUB_TOKEN``, or from the GitHub CLI, which is called at the first request.
    Own settings: ``token``, another name of ``api_key``; ``endpoint``, another name of ``base_url``; ``org``, the organization
    that pays.

    Raises:
        ProviderConfigError: The token and the GitHub CLI are missing, or a setting is wrong.
    """
    if token := provider_setting(config, "token", Any):
        if not isinstance(token, str) and not callable(token):
            raise ProviderConfigError(
                f"Invalid setting `token` of {_NAME}: expected a text or a function, not {type(token).__name__}.",
                provider=_NAME,
            )
        config = replace(config, api_key=token)
    base_url = (
        single_address(config, endpoint=provider_setting(config, "endpoint"), base_url=config.base_url)
        or _HOST.base_url
    )
    if org := provider_setting(config, "org"):
        base_url = _organization_url(base_url, org)
    return build_chat_model(
        config,
        provider=_NAME,
        model=config.model or _HOST.model,
        base_url=base_url,
        key=_credential(config, base_url),
        capabilities=ChatCapabilities(unsupported=("top_k",)),
        headers={"x-github-api-version": api_versions.GITHUB},
    )


def _organization_url(base_url: str, org: str) -> str:
    path = f"/orgs/{quote(org, safe='')}{_PATH}"
    url = base_url.rstrip("/")
    if url.endswith(path):
        return url
    if "/orgs/" in url or not url.endswith(_PATH):
        raise ProviderConfigError(
            f"Cannot use `org` of {_NAME} with the endpoint {base_url}. Use an endpoint that ends with {_PATH} and contains no "
            "organization, or remove `org`.",
            provider=_NAME,
        )
    return url.removesuffix(_PATH) + path


def _credential(config: ProviderConfig, base_url: str) -> str | CredentialCallback:
    try:
        return require_key(_NAME, static_api_key(config), base_url=base_url, home=_HOST.base_url)
    except ProviderConfigError:
        if urlsplit(base_url).hostname != urlsplit(_HOST.base_url).hostname:
            raise  # A GitHub token is sent only to GitHub.
    if is_cli_installed():
        return GitHubCliCredential()
    raise missing_token_error(f"no token is configured, and the GitHub CLI (`gh`) {explain_missing_program('gh')}")
