"""Presets: options of an agent as data, to share and to combine."""

from mainspring.presets.preset import BUILD_AGENT, PLAN_AGENT, Preset, basic, merge_presets

__all__ = ["BUILD_AGENT", "PLAN_AGENT", "Preset", "basic", "merge_presets"]


def __dir__() -> list[str]:
    return __all__
