"""Credentials that are more than a key: tokens that expire, logins, secrets kept elsewhere. Nothing is imported from a vendor
before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.models.auth.azure import SCOPE as SCOPE
    from mainspring.models.auth.azure import AzureCli as AzureCli
    from mainspring.models.auth.azure import EntraId as EntraId
    from mainspring.models.auth.azure import KeyVaultSecret as KeyVaultSecret
    from mainspring.models.auth.credentials import ApiKey as ApiKey
    from mainspring.models.auth.credentials import CredentialResolver as CredentialResolver
    from mainspring.models.auth.credentials import EnvironmentKey as EnvironmentKey
    from mainspring.models.auth.credentials import FirstOf as FirstOf
    from mainspring.models.auth.credentials import FunctionKey as FunctionKey
    from mainspring.models.auth.credentials import KeyFunction as KeyFunction
    from mainspring.models.auth.login_flows import device_login as device_login
    from mainspring.models.auth.login_flows import login as login
    from mainspring.models.auth.oauth import OAuthClient as OAuthClient
    from mainspring.models.auth.oauth import OAuthCredential as OAuthCredential
    from mainspring.models.auth.oauth import Refreshed as Refreshed
    from mainspring.models.auth.oauth import listen as listen
    from mainspring.models.auth.oauth import listening as listening
    from mainspring.models.auth.token_file import OAuthTokens as OAuthTokens
    from mainspring.models.auth.token_file import TokenFile as TokenFile
    from mainspring.models.auth.tokens import Token as Token
    from mainspring.models.auth.tokens import TokenCredential as TokenCredential

__all__, __getattr__ = exports(
    __name__,
    {
        "azure": "SCOPE AzureCli EntraId KeyVaultSecret",
        "login_flows": "device_login login",
        "oauth": "OAuthClient OAuthCredential Refreshed listen listening",
        "token_file": "OAuthTokens TokenFile",
        "credentials": "ApiKey CredentialResolver EnvironmentKey FirstOf FunctionKey KeyFunction",
        "tokens": "Token TokenCredential",
    },
)
