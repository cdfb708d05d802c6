"""The embedded model: a small local model that needs no key and no server. Importing this loads nothing large."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.models.embedded.download import download_weights as download_weights, is_downloaded as is_downloaded
    from mainspring.models.embedded.engine import (
        check_engine as check_engine,
        engine_install_hint as engine_install_hint,
        is_engine_installed as is_engine_installed,
    )
    from mainspring.models.embedded.provider import (
        EmbeddedModel as EmbeddedModel,
        build as build,
        create_embedded_model as create_embedded_model,
    )
    from mainspring.models.embedded.weights import (
        DEFAULT as DEFAULT,
        WEIGHTS as WEIGHTS,
        ModelWeights as ModelWeights,
        is_offline as is_offline,
        models_dir as models_dir,
    )

lazy_exports(
    __name__,
    {
        "engine": "check_engine is_engine_installed engine_install_hint",
        "download": "download_weights is_downloaded",
        "provider": "EmbeddedModel build create_embedded_model",
        "weights": "DEFAULT WEIGHTS ModelWeights is_offline models_dir",
    },
)
