"""Credentials that are more than a key: tokens that expire, logins, secrets kept elsewhere. Nothing is imported from a vendor
before it is used.
"""

from mainspring.models.auth.azure import SCOPE, AzureCli, EntraId, KeyVaultSecret
from mainspring.models.auth.login import device_login, login
from mainspring.models.auth.oauth import OAuthClient, OAuthCredential
from mainspring.models.auth.oauth_tokens import OAuthTokens, TokenFile
from mainspring.models.auth.resolver import (
    ApiKey,
    CredentialResolver,
    EnvironmentKey,
    FirstOf,
    FunctionKey,
    KeyFunction,
)
from mainspring.models.auth.tokens import Token, TokenCredential
from mainspring.models.refreshed import Refreshed, listen, listening

__all__ = [
    "SCOPE",
    "ApiKey",
    "AzureCli",
    "CredentialResolver",
    "EntraId",
    "EnvironmentKey",
    "FirstOf",
    "FunctionKey",
    "KeyFunction",
    "KeyVaultSecret",
    "OAuthClient",
    "OAuthCredential",
    "OAuthTokens",
    "Refreshed",
    "Token",
    "TokenCredential",
    "TokenFile",
    "device_login",
    "listen",
    "listening",
    "login",
]
