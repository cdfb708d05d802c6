"""Settings: typed values from files, the environment and flags."""

from mainspring.runtime.settings.load import Settings, load_settings, parse_settings
from mainspring.runtime.settings.model import (
    AgentSettings,
    AppConfig,
    PermissionSettings,
    Providers,
    ProviderSettings,
    RetrySettings,
    TelemetrySettings,
)
from mainspring.runtime.settings.save import save_settings

__all__ = [
    "AgentSettings",
    "AppConfig",
    "PermissionSettings",
    "ProviderSettings",
    "Providers",
    "RetrySettings",
    "Settings",
    "TelemetrySettings",
    "load_settings",
    "parse_settings",
    "save_settings",
]
