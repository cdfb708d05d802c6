"""Recorded exchanges with models, decoded.

``mainspring replay``.
"""

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
    """How many exchanges there were.

    Attributes:
        decoded: How many were decoded, also to the error that they are.
        errors: How many of those are an error.
        unsupported: How many are of another protocol, or no exchange at all.
    """

    def __init__(self) -> None:
        self.decoded = self.errors = self.unsupported = 0

    def add(self, result: Mapping[str, Any]) -> None:
        """Count a result."""
        error = result["error"]
        if error and error["reason"] in (UNSUPPORTED_API, _UNREADABLE):
            self.unsupported += 1
        else:
            self.decoded += 1
            self.errors += error is not None

    def __str__(self) -> str:
        total = self.decoded + self.unsupported
        return (
            f"{total} exchanges: {self.decoded} decoded ({self.errors} of them errors), {self.unsupported} unsupported"
        )


def decode_recordings(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The decoded exchange of each file; of a folder, of each recording below it, sorted by name.

    A file in a folder that cannot be read is a result with an error, and the others go on.

    Raises:
        ConfigError: If a path does not exist, or a file that was named cannot be read.
    """
    for path in paths:
        if not Path(path).exists():
            raise ConfigError(f"there is no file or folder {path}")
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
            if "response" in exchange:  # a folder may hold other files beside recordings
                yield decode_exchange_to_dict(exchange, file=str(file))


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


def run(options: argparse.Namespace) -> int:
    """Decode recordings; the exit code."""

    def work(console: Console) -> int:
        tally = ReplaySummary()
        for result in decode_recordings(options.paths):
            tally.add(result)
            if options.json:
                console.data(json.dumps(result))
                continue
            error = result["error"]
            calls = ", ".join(f"{call['name']}({json.dumps(call['arguments'])})" for call in result["tool_calls"])
            told = f"error {error['code']}: {error['message']}" if error else f"{result['text']} {calls}".strip()
            console.row(f"{result['file']}: {one_line(told)}")
        console.info(str(tally))
        return 0

    return run_command(options, work)
