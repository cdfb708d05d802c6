"""The embedded model: a small local model that needs no key and no server. Importing this loads nothing large."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.models.embedded.download import download_weights as download_weights
    from mainspring.models.embedded.download import is_downloaded as is_downloaded
    from mainspring.models.embedded.engine import check_engine as check_engine
    from mainspring.models.embedded.engine import engine_install_hint as engine_install_hint
    from mainspring.models.embedded.engine import is_engine_installed as is_engine_installed
    from mainspring.models.embedded.provider import EmbeddedModel as EmbeddedModel
    from mainspring.models.embedded.provider import build as build
    from mainspring.models.embedded.provider import create_embedded_model as create_embedded_model
    from mainspring.models.embedded.weights import DEFAULT as DEFAULT
    from mainspring.models.embedded.weights import WEIGHTS as WEIGHTS
    from mainspring.models.embedded.weights import ModelWeights as ModelWeights
    from mainspring.models.embedded.weights import is_offline as is_offline
    from mainspring.models.embedded.weights import models_dir as models_dir

lazy_exports(
    __name__,
    {
        "engine": "check_engine is_engine_installed engine_install_hint",
        "download": "download_weights is_downloaded",
        "provider": "EmbeddedModel build create_embedded_model",
        "weights": "DEFAULT WEIGHTS ModelWeights is_offline models_dir",
    },
)
