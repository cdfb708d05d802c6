"""Environment variables of providers, which replace the settings of files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.app.workspace.settings.validation import SettingKey, convert_value, setting_type
from mainspring.errors import ConfigError
from mainspring.models.auth.credentials import is_environment_key_for
from mainspring.models.provider_table import PROVIDERS


def apply_provider_variables(
    values: dict[SettingKey, Any], origins: dict[str, str], environ: Mapping[str, str]
) -> list[str]:
    """Replace the settings of providers that environment variables contain too, and return those variables.

    A setting that is in no file is not added: the provider reads its variables, and a section would select the provider. The key
    of another host, whose address is in the file too, is not replaced, since a key of the environment is not sent to that host.

    Args:
        values: Merged values.
        origins: Their origins.
        environ: Environment variables.

    Raises:
        ConfigError: If the value of a variable is invalid, for example, an address that is not a URL.
    """
    used: list[str] = []
    for name in dict.fromkeys([path[1] for path in values if path[0] == "providers" and len(path) > 2]):
        profile = PROVIDERS.get(name)
        for each in reversed(profile.setting_variables) if profile else ():
            variable = next((variable for variable in each.variables if environ.get(variable, "").strip()), None)
            same = [key for key in (each.setting, *each.replaces) if ("providers", name, key) in values]
            if variable is None or (each.setting == "apiKey" and _has_other_host(name, values, environ)):
                continue
            if same or ("providers", name, each.fallback) in values:
                for key in same:
                    del values["providers", name, key]
                    origins.pop(f"providers.{name}.{key}", None)
                setting = each.setting if same else each.fallback
                try:
                    values["providers", name, setting] = convert_value(
                        environ[variable], setting_type(("providers", name, setting))
                    )
                except ValueError as error:
                    raise ConfigError(f"{variable} {error}") from None
                origins[f"providers.{name}.{setting}"] = "environment"
                used.append(variable)
    return used


def _has_other_host(name: str, values: Mapping[SettingKey, Any], environ: Mapping[str, str]) -> bool:
    addresses = [values.get(("providers", name, key)) for key in ("endpoint", "projectEndpoint", "baseUrl")]
    return any(address and not is_environment_key_for(PROVIDERS[name], address, environ) for address in addresses)
