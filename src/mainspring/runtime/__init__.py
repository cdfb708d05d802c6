"""The composition root: options become plugs, settings and commands become runs. Importing this loads nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainspring.runtime.agent import Agent as Agent
    from mainspring.runtime.agent import create_agent as create_agent
    from mainspring.runtime.settings import AppConfig as AppConfig
    from mainspring.runtime.settings import Settings as Settings
    from mainspring.runtime.settings import load_settings as load_settings
    from mainspring.runtime.settings import save_settings as save_settings

_PLACES = {
    "agent": ("Agent", "create_agent"),
    "settings": ("AppConfig", "Settings", "load_settings", "save_settings"),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = sorted(_MODULE_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
