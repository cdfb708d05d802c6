"""Recorded exchanges with models, decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from mainspring.errors import ConfigError
from mainspring.models import replay_exchange


def replay_traffic(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The decoded exchange of each file; of a folder, of each recording below it, sorted by name.

    Raises:
        ConfigError: If a path does not exist.
    """
    for path in paths:
        if not Path(path).exists():
            raise ConfigError(f"there is no file or folder {path}")
    for path in paths:
        place = Path(path)
        for file in sorted(place.rglob("*.json")) if place.is_dir() else [place]:
            exchange = _read(file)
            if "response" in exchange or not place.is_dir():  # a folder may hold other files beside recordings
                yield replay_exchange(exchange, file=str(file))


def _read(file: Path) -> dict[str, Any]:
    """A recording; an empty one where the file holds none.

    Raises:
        ConfigError: If it cannot be read.
    """
    try:
        value: object = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: is no recorded exchange: {error}") from error
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
