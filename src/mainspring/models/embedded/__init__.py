"""A real small model inside the program: no key, and no server to set up. Importing this loads nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.models.embedded.download import fetch as fetch
    from mainspring.models.embedded.download import present as present
    from mainspring.models.embedded.engine import check_engine as check_engine
    from mainspring.models.embedded.engine import engine_installed as engine_installed
    from mainspring.models.embedded.engine import missing_engine as missing_engine
    from mainspring.models.embedded.provider import EmbeddedModel as EmbeddedModel
    from mainspring.models.embedded.provider import build as build
    from mainspring.models.embedded.provider import create_embedded as create_embedded
    from mainspring.models.embedded.weights import DEFAULT as DEFAULT
    from mainspring.models.embedded.weights import WEIGHTS as WEIGHTS
    from mainspring.models.embedded.weights import Weights as Weights
    from mainspring.models.embedded.weights import models_dir as models_dir

__all__, __getattr__ = exports(
    __name__,
    {
        "engine": "check_engine engine_installed missing_engine",
        "download": "fetch present",
        "provider": "EmbeddedModel build create_embedded",
        "weights": "DEFAULT WEIGHTS Weights models_dir",
    },
)
