"""Credentials beyond API keys: expiring tokens, logins, and external secrets. Vendor packages are imported at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.models.auth.azure import (
        ENTRA_SCOPE as ENTRA_SCOPE,
        AzureCliCredential as AzureCliCredential,
        EntraIdCredential as EntraIdCredential,
        KeyVaultSecret as KeyVaultSecret,
    )
    from mainspring.models.auth.credentials import (
        ApiKey as ApiKey,
        CallableKey as CallableKey,
        CredentialResolver as CredentialResolver,
        EnvironmentKey as EnvironmentKey,
        FirstCredential as FirstCredential,
        KeyCallback as KeyCallback,
        TokenRefreshed as TokenRefreshed,
        on_token_refresh as on_token_refresh,
        token_refresh_listener as token_refresh_listener,
    )
    from mainspring.models.auth.login_flows import device_login as device_login, login as login
    from mainspring.models.auth.oauth import OAuthClient as OAuthClient, OAuthCredential as OAuthCredential
    from mainspring.models.auth.tokens import (
        OAuthTokens as OAuthTokens,
        Token as Token,
        TokenCredential as TokenCredential,
        TokenFile as TokenFile,
    )

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
