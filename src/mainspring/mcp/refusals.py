"""What a server or its login refuses, and what the next login does about it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mainspring.mcp.config import McpServerConfig

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth.oauth2 import OAuthContext

    from mainspring.mcp.oauth import LoginFile


async def needs_person(context: OAuthContext, file: LoginFile, response: httpx2.Response) -> bool:
    """Whether only a new login helps, for which nobody is here: then the refusal stands. What it was not enough for is kept."""
    from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth

    if response.status_code == 401:
        return not context.can_refresh_token()
    if response.status_code != 403 or extract_field_from_www_auth(response, "error") != "insufficient_scope":
        return False
    kept = await asyncio.to_thread(file.read)
    scopes = f"{kept.tokens.get('scope') or ''} {extract_scope_from_www_auth(response) or ''}"
    await asyncio.to_thread(file.change, wanted=scopes.strip())
    return True


async def widen(context: OAuthContext, file: LoginFile) -> None:
    """Ask for what the last login was not enough for, too."""
    kept = await asyncio.to_thread(file.read)
    asked = context.client_metadata.scope
    context.client_metadata.scope = " ".join(dict.fromkeys(f"{asked or ''} {kept.wanted}".split())) or None


def fit_secret(context: OAuthContext, config: McpServerConfig) -> None:
    """A configured secret goes where the login takes it; in a header, where it does not say."""
    found, info = context.oauth_metadata, context.client_info
    if config.client_secret and info is not None:
        taken = (found and found.token_endpoint_auth_methods_supported) or ["client_secret_basic"]
        way = "client_secret_basic" if "client_secret_basic" in taken else "client_secret_post"
        context.client_info = info.model_copy(update={"token_endpoint_auth_method": way})
