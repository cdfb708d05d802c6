"""Presets: options of an agent as data, to share and to put together."""

from mainspring.presets.builtin import BUILD_AGENT, PLAN_AGENT, basic
from mainspring.presets.preset import Preset, merge_presets

__all__ = ["BUILD_AGENT", "PLAN_AGENT", "Preset", "basic", "merge_presets"]
