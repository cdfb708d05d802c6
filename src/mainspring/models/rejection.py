"""Read the response of a host that rejected a request; loaded only after a rejection."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.errors import ModelError, ProviderConfigError
from mainspring.models.errors import classify_error
from mainspring.models.transport.errors import host_and_port
from mainspring.models.transport.port import TransportResponse
from mainspring.redaction import redact_environment

_MAX_ERROR_BODY = 256 * 1024


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
