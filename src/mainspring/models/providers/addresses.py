"""The address of a host that has several settings for it."""

from __future__ import annotations

from mainspring.errors import ProviderConfigError
from mainspring.models.auth.credentials import get_setting
from mainspring.models.config import ProviderConfig


def single_address(config: ProviderConfig, **addresses: str | None) -> str | None:
    """Return the address of a host that several settings may contain.

    Args:
        config: Provider settings.
        addresses: Values of the settings, by name in snake_case.

    Raises:
        ProviderConfigError: Two settings contain different addresses, of which one would have no effect.
    """
    given = {name: value for name, text in addresses.items() if (value := get_setting(text))}
    if len(set(given.values())) > 1:
        raise ProviderConfigError(
            f"Conflicting settings of {config.provider}: {' and '.join(given)} contain different addresses. Remove one of them.",
            reason="conflicting_settings",
            provider=config.provider,
        )
    return next(iter(given.values()), None)
