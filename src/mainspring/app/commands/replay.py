"""``mainspring replay``: decode recorded model traffic."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.runner import run_command
from mainspring.errors import ConfigError, ModelError
from mainspring.models import decode_exchange_to_dict
from mainspring.models.replay import UNSUPPORTED_API, error_exchange

_UNREADABLE = "unreadable"


class ReplaySummary:
    """Numbers of decoded recordings.

    Attributes:
        decoded: Number of decoded recordings, including those of errors.
        errors: Number of decoded recordings of errors.
        unsupported: Number of recordings of another protocol, or files that are not recordings.
    """

    def __init__(self) -> None:
        self.decoded = self.errors = self.unsupported = 0

    def add(self, result: Mapping[str, Any]) -> None:
        """Add a result."""
        error = result["error"]
        if error and error["reason"] in (UNSUPPORTED_API, _UNREADABLE):
            self.unsupported += 1
        else:
            self.decoded += 1
            self.errors += error is not None

    def __str__(self) -> str:
        total = self.decoded + self.unsupported
        return f"{total} recordings: {self.decoded} decoded ({self.errors} with errors), {self.unsupported} unsupported"


def decode_recordings(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Decode the recording in each file. For a folder, decode all recordings in it, sorted by name.

    A file in a folder that cannot be read results in an error, and decoding continues.

    Raises:
        ConfigError: If a path does not exist, or a named file cannot be read.
    """
    for path in paths:
        if not Path(path).exists():
            raise ConfigError(f"File or folder not found: {path}")
    for path in paths:
        place = Path(path)
        if not place.is_dir():
            yield decode_exchange_to_dict(_read(place), file=path)
            continue
        for file in sorted(place.rglob("*.json")):
            try:
                exchange = _read(file)
            except ConfigError as error:
                yield error_exchange(ModelError(str(error), reason=_UNREADABLE), file=str(file))
                continue
            if "response" in exchange:  # a folder may contain other files
                yield decode_exchange_to_dict(exchange, file=str(file))


def _read(file: Path) -> dict[str, Any]:
    """Read a recording; empty if the file contains none.

    Raises:
        ConfigError: If it cannot be read.
    """
    try:
        value: object = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} is not a recording of model traffic: {error}") from error
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def run(options: argparse.Namespace) -> int:
    """Decode recordings, and return the exit code."""

    def work(console: Console) -> int:
        tally = ReplaySummary()
        for result in decode_recordings(options.paths):
            tally.add(result)
            if options.json:
                console.data(json.dumps(result))
                continue
            error = result["error"]
            calls = ", ".join(f"{call['name']}({json.dumps(call['arguments'])})" for call in result["tool_calls"])
            summary = f"error {error['code']}: {error['message']}" if error else f"{result['text']} {calls}".strip()
            console.row(f"{result['file']}: {one_line(summary)}")
        console.info(str(tally))
        return 0

    return run_command(options, work)
