"""Read the response of a host that rejected a request; loaded only after a rejection."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from urllib.parse import urlsplit

from mainspring.errors import ErrorCode, ModelError, ProviderConfigError
from mainspring.models.catalog import load_catalog
from mainspring.models.errors import classify_error
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.transport.errors import format_proxy_advice, host_and_port
from mainspring.models.transport.port import TransportResponse
from mainspring.redaction import redact_environment

_MAX_ERROR_BODY = 256 * 1024
_ENDPOINTS = ("/chat/completions", "/responses")


async def read_rejection(
    response: TransportResponse, url: str, secrets: Sequence[str], *, provider: str, model: str
) -> ModelError:
    """Read a response that is not successful, and return its error.

    Args:
        response: The response.
        url: Address of the request.
        secrets: Texts to redact.
        provider: Name of the provider.
        model: Model ID.
    """
    if response.status < 400:
        target = redact_environment(response.headers.get("location", "elsewhere"), *secrets)
        return ProviderConfigError(
            f"{host_and_port(url)} redirects to {target}. The redirect was not followed because it would send the API key "
            "to another address. Set the base URL to the final address.",
            reason="redirect",
            status=response.status,
            provider=provider,
            model=model,
        )
    body = bytearray()
    try:
        async for chunk in response.chunks():
            body += chunk
            if len(body) > _MAX_ERROR_BODY:
                break
    except ModelError:
        pass  # The status is known; the partial text is enough for the error.
    return classify_error(
        response.status,
        response.headers,
        bytes(body),
        provider=provider,
        model=model,
        host=host_and_port(url),
        secrets=tuple(secrets),
    )


def add_advice(error: ModelError, url: str, key_source: str = "", variables: Sequence[str] = ()) -> ModelError:
    """Add to an error what to do about credentials, a model, a proxy, or the address of the request, and return the error.

    Args:
        error: The error.
        url: Address of the request; empty if it is not known.
        key_source: The setting that names the source of the key, for example ``apiKeyCommand``; empty for a plain key.
        variables: More environment variables of the key.
    """
    advice = _advise(error, url, error.provider or "the provider", error.model or "", key_source, variables)
    if advice:
        error.message = f"{error.message.rstrip('.')}. {advice}"
        error.args = (error.message,)
    return error


def _advise(error: ModelError, url: str, provider: str, model: str, key_source: str, variables: Sequence[str]) -> str:
    if error.reason == "proxy":
        return format_proxy_advice(url)
    if error.reason == "blocked":
        return (
            f"{provider} may not serve the model {model} to you or in your region for legal reasons. `mainspring models` lists "
            "other models."
        )
    if error.code is ErrorCode.AUTHENTICATION_ERROR:
        if error.status == 403:
            return (
                f"The credentials of {provider} may lack access to the model {model}. Choose one of `mainspring models`, or "
                f"{_describe_credentials(provider, variables)}. Then run `mainspring check`."
            )
        if key_source:
            return (
                f"{provider} rejected the key from the setting providers.{provider}.{key_source}, which was read again after the "
                f"rejection, for the model {model}. Renew the key there, or correct the setting. Then run `mainspring check`."
            )
        credentials = _describe_credentials(provider, variables)
        return f"For the model {model} of {provider}, {credentials}. Then run `mainspring check`."
    if error.code is ErrorCode.MODEL_NOT_FOUND:
        known = [entry.id for entry in load_catalog().entries(provider)]
        near = difflib.get_close_matches(model, known, 3)
        similar = f" Similar models: {', '.join(near)}." if near else ""
        return f"{provider} does not offer the model {model} to you.{similar} `mainspring models` lists the models that you can use."
    if error.status not in (404, 410) or not url:
        return ""
    address = urlsplit(url)
    profile = PROVIDERS.get(provider)
    names = [*(profile.url_variables if profile else ()), f"the setting providers.{provider}.baseUrl"]
    end = next((e for e in _ENDPOINTS if address.path.endswith(e)), "")
    missing = f", perhaps to {address.scheme}://{address.netloc}{address.path.removesuffix(end)}/v1" if end else ""
    hint = missing if "/v1" not in address.path and "/deployments/" not in address.path else ""
    return (
        f"Nothing was found at {address.scheme}://{address.netloc}{address.path}, so the base URL of {provider} seems wrong, or the "
        f"model {model} does not exist. Set {' or '.join(names)}{hint}. Then run `mainspring check`."
    )


def _describe_credentials(provider: str, variables: Sequence[str]) -> str:
    """Return how a user sets the credentials of a provider."""
    profile = PROVIDERS.get(provider)
    if profile is not None and profile.login:
        return f"log in with `mainspring login {provider}`"
    names = [*(profile.key_variables if profile else ()), *variables, f"the setting providers.{provider}.apiKey"]
    command = f", or log in with `{profile.login_command}`" if profile is not None and profile.login_command else ""
    return f"set {' or '.join(names)} to a valid key{command}"
