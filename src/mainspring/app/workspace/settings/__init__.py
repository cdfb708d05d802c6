"""Settings: typed values from files, the environment and flags."""

from mainspring.runtime.settings.load import Settings, load_settings, parse_settings
from mainspring.runtime.settings.model import (
    AgentSettings,
    AppConfig,
    PermissionSettings,
    Providers,
    ProviderSettings,
    RetrySettings,
)
from mainspring.runtime.settings.save import save_settings
from mainspring.runtime.settings.sections import (
    ExecutionSettings,
    InstructionSettings,
    LanguageServerSettings,
    NotificationSettings,
    SandboxSettings,
    SkillSettings,
    TelemetrySettings,
    UiSettings,
)

__all__ = [
    "AgentSettings",
    "AppConfig",
    "ExecutionSettings",
    "InstructionSettings",
    "LanguageServerSettings",
    "NotificationSettings",
    "PermissionSettings",
    "ProviderSettings",
    "Providers",
    "RetrySettings",
    "SandboxSettings",
    "Settings",
    "SkillSettings",
    "TelemetrySettings",
    "UiSettings",
    "load_settings",
    "parse_settings",
    "save_settings",
]
