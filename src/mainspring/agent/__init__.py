"""The composition root: options become plugs, settings and commands become runs. Importing this loads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.runtime.agent import Agent as Agent
    from mainspring.runtime.agent import create_agent as create_agent
    from mainspring.runtime.settings import AppConfig as AppConfig
    from mainspring.runtime.settings import Settings as Settings
    from mainspring.runtime.settings import load_settings as load_settings
    from mainspring.runtime.settings import save_settings as save_settings

__all__, __getattr__ = exports(
    __name__,
    {
        "agent": "Agent create_agent",
        "settings": "AppConfig Settings load_settings save_settings",
    },
)
