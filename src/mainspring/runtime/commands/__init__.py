"""What the command can do, one module for each noun. They return data and tell what happens; front ends show it."""

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.runtime.commands.models import ModelView as ModelView
    from mainspring.runtime.commands.models import list_models as list_models

# Those that know every provider, for whoever needs them late.
__all__, __getattr__ = exports(__name__, {"models": "ModelView list_models"})
