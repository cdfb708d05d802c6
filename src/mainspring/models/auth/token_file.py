"""The tokens of a login, and the file that keeps them: readable by its owner alone, replaced whole."""

from __future__ import annotations

import base64
import binascii
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from msgspec import Struct

from mainspring.errors import ProviderConfigError
from mainspring.models.json_values import as_dict, as_number


class OAuthTokens(Struct, frozen=True, omit_defaults=True):
    """What a login gave.

    Attributes:
        access: Opens the door until it expires.
        refresh: Gets the next one; empty if there is none.
        expires: When ``access`` ends, in seconds since 1970; ``None`` is unknown.
        account: Id of the account at the host, where that has to be said.
        id_token: Who logged in, as the host signed it.
    """

    access: str
    refresh: str = ""
    expires: float | None = None
    account: str = ""
    id_token: str = ""

    def __repr__(self) -> str:
        return f"<OAuthTokens account={self.account!r} expires={self.expires}>"


def decode_claims(token: str) -> dict[str, Any]:
    """What a JSON Web Token says of itself; empty if it is none. The signature is not checked: it is only read back."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        data = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return as_dict(json.loads(data)) or {}
    except (ValueError, binascii.Error):
        return {}


def token_expiry(token: str) -> float | None:
    """When a JSON Web Token ends, in seconds since 1970; ``None`` if it does not say."""
    return as_number(decode_claims(token).get("exp"))


class TokenFile:
    """Keeps the tokens of one login in a JSON file.

    The form of other programs' files is understood and kept: tokens may stand under ``tokens``, as ``access_token`` and so
    on, and what else is in the file stays.

    Args:
        path: The file. Its folder is made when something is saved.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()

    def read(self) -> OAuthTokens | None:
        """The tokens; ``None`` if there is no file, or none in it. Blocks.

        Raises:
            ProviderConfigError: If the file cannot be read or is no JSON object.
        """
        content = self._content()
        told = as_dict(content.get("tokens")) or content
        access = _text(told, "access_token", "access")
        if not access:
            return None
        expires = as_number(told.get("expires_at", told.get("expires")))
        return OAuthTokens(
            access,
            _text(told, "refresh_token", "refresh"),
            token_expiry(access) if expires is None else expires,
            _text(told, "account_id", "account"),
            _text(told, "id_token"),
        )

    def write(self, tokens: OAuthTokens) -> None:
        """Save the tokens: whole or not at all, for the owner's eyes only. Blocks.

        Raises:
            ProviderConfigError: If the file cannot be written.
        """
        try:
            content = self._content()
        except ProviderConfigError:
            content = {}  # What nobody can read is nothing to keep.
        nested = as_dict(content.get("tokens"))
        told = {
            "access_token": tokens.access,
            "refresh_token": tokens.refresh,
            "expires_at": tokens.expires,
            "account_id": tokens.account,
            "id_token": tokens.id_token,
        }
        kept = {**(content if nested is None else nested), **{name: value for name, value in told.items() if value}}
        whole = kept if nested is None else {**content, "tokens": kept}
        try:
            self._replace(json.dumps(whole, indent=2).encode())
        except OSError as error:
            raise ProviderConfigError(
                f"The tokens could not be saved in {self.path}: {error.strerror or error}", reason="token_file"
            ) from error

    def _content(self) -> dict[str, Any]:
        try:
            content = as_dict(json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ProviderConfigError(
                f"The tokens in {self.path} could not be read: {error}. Log in again", reason="token_file"
            ) from error
        if content is None:
            raise ProviderConfigError(f"{self.path} holds no JSON object. Log in again", reason="token_file")
        return content

    def _replace(self, data: bytes) -> None:
        target = self.path.resolve()  # A link stays a link.
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # Made with mode 0600.
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _text(fields: dict[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := fields.get(name), str) and value), "")
