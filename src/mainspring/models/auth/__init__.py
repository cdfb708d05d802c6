"""Credentials beyond API keys: expiring tokens, logins, and external secrets. Vendor packages are imported at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.models.auth.azure import ENTRA_SCOPE as ENTRA_SCOPE
    from mainspring.models.auth.azure import AzureCliCredential as AzureCliCredential
    from mainspring.models.auth.azure import EntraIdCredential as EntraIdCredential
    from mainspring.models.auth.azure import KeyVaultSecret as KeyVaultSecret
    from mainspring.models.auth.credentials import ApiKey as ApiKey
    from mainspring.models.auth.credentials import CallableKey as CallableKey
    from mainspring.models.auth.credentials import CredentialResolver as CredentialResolver
    from mainspring.models.auth.credentials import EnvironmentKey as EnvironmentKey
    from mainspring.models.auth.credentials import FirstCredential as FirstCredential
    from mainspring.models.auth.credentials import KeyCallback as KeyCallback
    from mainspring.models.auth.credentials import TokenRefreshed as TokenRefreshed
    from mainspring.models.auth.credentials import on_token_refresh as on_token_refresh
    from mainspring.models.auth.credentials import token_refresh_listener as token_refresh_listener
    from mainspring.models.auth.login_flows import device_login as device_login
    from mainspring.models.auth.login_flows import login as login
    from mainspring.models.auth.oauth import OAuthClient as OAuthClient
    from mainspring.models.auth.oauth import OAuthCredential as OAuthCredential
    from mainspring.models.auth.tokens import OAuthTokens as OAuthTokens
    from mainspring.models.auth.tokens import Token as Token
    from mainspring.models.auth.tokens import TokenCredential as TokenCredential
    from mainspring.models.auth.tokens import TokenFile as TokenFile

lazy_exports(
    __name__,
    {
        "azure": "ENTRA_SCOPE AzureCliCredential EntraIdCredential KeyVaultSecret",
        "login_flows": "device_login login",
        "oauth": "OAuthClient OAuthCredential",
        "tokens": "OAuthTokens TokenFile Token TokenCredential",
        "credentials": "ApiKey CredentialResolver EnvironmentKey FirstCredential CallableKey KeyCallback "
        "TokenRefreshed on_token_refresh token_refresh_listener",
    },
)
