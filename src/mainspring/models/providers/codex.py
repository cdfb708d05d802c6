"""Codex: the models of a ChatGPT account, over Responses, with a login instead of a key.

To log in, once::

    import asyncio, webbrowser
    from mainspring.models.auth import login
    from mainspring.models.providers import codex

    asyncio.run(login(codex.oauth_client(), codex.token_file(), webbrowser.open))
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from mainspring.errors import ProviderConfigError
from mainspring.models.auth import OAuthClient, OAuthCredential, OAuthTokens, TokenFile
from mainspring.models.auth.credentials import get_setting
from mainspring.models.auth.tokens import decode_claims
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.json_values import as_dict
from mainspring.models.profile import ResponsesCapabilities
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.providers.http import build_responses_model, provider_setting

__all__ = ["build", "oauth_client", "token_file"]

NAME = "codex"
_HOST = PROVIDERS[NAME]
ISSUER = "https://auth.openai.com"
CLIENT_ID = "app_EMoamEEZ73f0CkXaXp7hrann"
"""Public client ID of OpenAI's Codex, for which ChatGPT accounts issue tokens."""

FILE_VARIABLE = _HOST.other_variables[0].variables[0]
ORIGINATOR = "mainspring"
HEADERS = {"originator": ORIGINATOR, "openai-beta": "responses=experimental"}
INSTRUCTIONS = "You are a helpful assistant."
"""Instructions to send without a system prompt: the host requires some."""

CAPABILITIES = ResponsesCapabilities(
    store=False,
    instructions=INSTRUCTIONS,
    max_output_tokens=False,
    temperature=False,
    prompt_cache_key=False,
    strict_tools=False,
    tool_images=True,
)
"""Capabilities of the host: it manages its cache automatically, and rejects output limits and temperatures."""

_ACCOUNT_CLAIM = "https://api.openai.com/auth"


def __dir__() -> list[str]:
    return __all__


def build(config: ProviderConfig) -> HttpModel:
    """Create a model of a ChatGPT account.

    Own settings, in ``extra`` or at the top level: ``token_file`` (also that of another program), ``issuer``,
    ``client_id``. The tokens are read at the first request and refreshed shortly before they expire.

    Raises:
        ProviderConfigError: A setting is wrong, or the folder for the tokens is unknown.
    """
    return build_responses_model(
        config,
        provider=NAME,
        model=config.model or _HOST.model,
        base_url=get_setting(config.base_url) or _HOST.base_url,
        credential=OAuthCredential(oauth_client(config), token_file(config), headers=account_headers),
        accepts=CAPABILITIES,
        headers=HEADERS,
    )


def oauth_client(config: ProviderConfig | None = None) -> OAuthClient:
    """Return the OAuth client for `login`.

    Args:
        config: Settings that may contain another issuer or another client ID.
    """
    config = config or ProviderConfig(provider=NAME)
    issuer = (provider_setting(config, "issuer") or ISSUER).rstrip("/")
    return OAuthClient(
        provider=NAME,
        client_id=provider_setting(config, "client_id") or CLIENT_ID,
        token_url=f"{issuer}/oauth/token",
        authorize_url=f"{issuer}/oauth/authorize",
        scope="openid profile email offline_access",
        parameters={
            "id_token_add_organizations": "true",
            "codex_cli_simplified_flow": "true",
            "originator": ORIGINATOR,
        },
        port=provider_setting(config, "login_port") or 1455,
        path="/auth/callback",
        account=account_id,
    )


def token_file(config: ProviderConfig | None = None) -> TokenFile:
    """Return the file of the tokens: the setting ``token_file``, MAINSPRING_CODEX_TOKENS, or a file in the user's folder.

    Raises:
        ProviderConfigError: The user's folder is unknown.
    """
    named = get_setting(provider_setting(config, "token_file") if config else None, FILE_VARIABLE)
    if named:
        return TokenFile(named)
    home = os.environ.get("MAINSPRING_HOME", "").strip()
    try:
        return TokenFile((Path(home) if home else Path.home() / ".agent") / "auth" / "codex.json")
    except RuntimeError as error:
        raise ProviderConfigError(
            f"Cannot find your home directory for the tokens of {NAME}. Set {FILE_VARIABLE} or MAINSPRING_HOME.",
            provider=NAME,
        ) from error


def account_id(tokens: OAuthTokens) -> str:
    """Return the account ID in the tokens; empty if it is missing."""
    for token in (tokens.id_token, tokens.access):
        account = (as_dict(decode_claims(token).get(_ACCOUNT_CLAIM)) or {}).get("chatgpt_account_id")
        if isinstance(account, str) and account:
            return account
    return ""


def account_headers(tokens: OAuthTokens) -> Mapping[str, str]:
    """Return the header with the account ID."""
    account = tokens.account or account_id(tokens)
    return {"chatgpt-account-id": account} if account else {}
