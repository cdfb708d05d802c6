"""Settings: typed values from files, the environment and flags."""

from typing import TYPE_CHECKING

from mainspring.app.workspace.settings.load import Settings, load_settings, parse_settings
from mainspring.app.workspace.settings.schema import (
    AgentSettings,
    AppConfig,
    ExecutionSettings,
    InstructionSettings,
    LanguageServerSettings,
    NotificationSettings,
    PermissionSettings,
    Providers,
    ProviderSettings,
    RetrySettings,
    SandboxSettings,
    SkillSettings,
    StatusLineSettings,
    TelemetrySettings,
    UiSettings,
    iter_agent_settings,
)
from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.app.workspace.settings.save import save_settings as save_settings

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
    "StatusLineSettings",
    "TelemetrySettings",
    "UiSettings",
    "iter_agent_settings",
    "load_settings",
    "parse_settings",
    "save_settings",
]

lazy_exports(__name__, {"save": "save_settings"})  # most runs do not save
