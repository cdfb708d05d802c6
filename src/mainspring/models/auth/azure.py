"""Azure credentials: the Azure CLI, Entra ID, managed identities, and Key Vault."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from mainspring.errors import AuthenticationError, ModelTimeoutError, ProviderConfigError
from mainspring.extras import install_command
from mainspring.models.auth.cli_tokens import run_cli
from mainspring.models.auth.credentials import CredentialValue
from mainspring.models.auth.tokens import Token, TokenCredential
from mainspring.models.json_values import as_dict, as_number
from mainspring.programs import explain_missing_program, find_program
from mainspring.redaction import redact_environment

RESOURCE = "https://cognitiveservices.azure.com"
ENTRA_SCOPE = f"{RESOURCE}/.default"
"""Scope of a token for Azure's models."""

_CLI_TIMEOUT = 30.0
"""Time limit of the Azure CLI in seconds; it starts slowly, and may have to refresh its own token."""


def is_azure_cli_installed() -> bool:
    """Return True if the Azure CLI is on PATH, outside the current folder."""
    return find_program("az") is not None


def is_identity_package_installed() -> bool:
    """Return True if the package of the extra ``azure`` is installed; it is not imported."""
    try:
        return find_spec("azure.identity") is not None
    except ModuleNotFoundError:
        return False


class AzureCliCredential(TokenCredential):
    """Tokens of ``az account get-access-token``, for the account logged in to the Azure CLI.

    Args:
        timeout: Time limit of the command in seconds.
        clock: Function that returns the seconds since 1970.
    """

    def __init__(self, *, timeout: float = _CLI_TIMEOUT, clock: Callable[[], float] = time.time) -> None:
        super().__init__(self._ask, clock=clock)
        self._timeout = timeout

    async def _ask(self, rejected_token: str | None) -> Token:
        program = await asyncio.to_thread(find_program, "az")
        if program is None:
            raise ProviderConfigError(
                f"The Azure CLI (`az`) {explain_missing_program('az')}. Or set an API key.", reason="missing_key"
            )
        command = (program, "account", "get-access-token", "--resource", RESOURCE, "--output", "json")
        try:
            output = await run_cli(*command, timeout=self._timeout)
        except TimeoutError:
            raise ModelTimeoutError(
                f"`az account get-access-token` did not finish within {self._timeout:g}s.", reason="azure_cli"
            ) from None
        if output.code:
            raise AuthenticationError(
                f"The Azure CLI returned no token: {output.complaint}. Run `az login`.", reason="azure_cli"
            )
        return _parse_cli_token(output.out)


def _parse_cli_token(out: bytes) -> Token:
    try:
        fields = as_dict(json.loads(out)) or {}
    except ValueError:
        fields = {}
    value = fields.get("accessToken")
    if not isinstance(value, str) or not value:
        raise AuthenticationError("The Azure CLI returned no token. Run `az login`.", reason="azure_cli")
    expires = as_number(fields.get("expires_on"))
    if expires is None and isinstance(fields.get("expiresOn"), str):
        try:
            expires = datetime.fromisoformat(
                fields["expiresOn"]
            ).timestamp()  # Local time, the only field of older versions.
        except ValueError:
            expires = None
    return Token(value, expires)


class EntraIdCredential(TokenCredential):
    """Tokens of Entra ID: of a managed identity, a service principal, or a logged-in user.

    Requires the extra ``azure``, which is imported at the first request. The token is requested in a thread.

    Args:
        scope: Scope of the token.
        client_id: Client ID of a managed identity; by default Azure's own chain of sources is tried.
        managed: Whether to use only the machine's managed identity.
        credential: A credential of ``azure.identity`` to use instead.
        clock: Function that returns the seconds since 1970.
    """

    def __init__(
        self,
        scope: str = ENTRA_SCOPE,
        *,
        client_id: str | None = None,
        managed: bool = False,
        credential: Any = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(self._ask, clock=clock)
        self._scope = scope
        self._client_id = client_id
        self._managed = managed
        self._source = credential

    async def _ask(self, rejected_token: str | None) -> Token:
        return await asyncio.to_thread(self._get)

    def _get(self) -> Token:
        source = self._source = self._source or azure_credential(self._client_id, managed=self._managed)
        try:
            token = source.get_token(self._scope)
        except Exception as error:
            raise AuthenticationError(
                f"Entra ID returned no token: {redact_environment(str(error))[:500]}. Run `az login`, or set AZURE_CLIENT_ID, "
                "AZURE_TENANT_ID, and AZURE_CLIENT_SECRET.",
                reason="entra",
            ) from error
        return Token(token.token, as_number(token.expires_on))


class KeyVaultSecret:
    """A key stored in a Key Vault; read at the first request, and again when the host rejects it.

    Requires the extra ``azure``.

    Args:
        vault_url: URL of the vault, for example ``https://NAME.vault.azure.net``.
        name: Name of the secret.
        header: Header for the key; by default the one of the host's profile.
        client_id: See `EntraIdCredential`.
        credential: See `EntraIdCredential`.
    """

    def __init__(
        self,
        vault_url: str,
        name: str,
        *,
        header: str = "",
        client_id: str | None = None,
        credential: Any = None,
    ) -> None:
        self._vault_url = vault_url
        self._name = name
        self._header = header
        self._client_id = client_id
        self._source = credential
        self._given: CredentialValue | None = None

    async def __call__(self) -> CredentialValue:
        """Return the secret."""
        if self._given is None:
            key = await asyncio.to_thread(self._get)
            self._given = {self._header: key} if self._header else key
        return self._given

    def invalidate(self, given: CredentialValue) -> None:
        """Discard the secret, which may have changed."""
        if given == self._given:
            self._given = None

    def _get(self) -> str:
        source = self._source = self._source or azure_credential(self._client_id)
        secrets = _import("azure.keyvault.secrets")
        try:
            with secrets.SecretClient(vault_url=self._vault_url, credential=source) as client:
                value = client.get_secret(self._name).value
        except Exception as error:
            raise AuthenticationError(
                f"Cannot read the secret {self._name} of {self._vault_url}: {redact_environment(str(error))[:500]}",
                reason="key_vault",
            ) from error
        if not value:
            raise ProviderConfigError(f"The secret {self._name} of {self._vault_url} is empty.", reason="missing_key")
        return str(value)


def azure_credential(client_id: str | None = None, *, managed: bool = False) -> Any:
    """Return a credential of ``azure.identity``: a managed identity, or the first of Azure's own chain that works.

    Args:
        client_id: Client ID of the managed identity, if a machine has several; implies ``managed``.
        managed: Whether to use only the managed identity.

    Raises:
        ProviderConfigError: The extra ``azure`` is not installed.
    """
    package = _import("azure.identity")
    if managed or client_id:
        return package.ManagedIdentityCredential(**({"client_id": client_id} if client_id else {}))
    return package.DefaultAzureCredential()


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ProviderConfigError(
            f"{name} is not installed. Run `{install_command('azure')}`.", reason="missing_extra"
        ) from error
