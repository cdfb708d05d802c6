"""Types of the lines of ``--output json`` and ``--output stream-json``. docs/stream-json.schema.json is generated from them.

Version 2. Fields and events may be added; existing fields keep their name, type, and meaning. ``python -I -m mainspring.app.cli.json_schema``
prints the schema.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from mainspring import events
from mainspring.events import RunEvent, RunStatus

SCHEMA_VERSION = 2


class Model(Struct, frozen=True, kw_only=True):
    """A model. `spec` is the value for `--model`."""

    provider: str
    id: str
    spec: str
    label: str = ""
    notice: str = ""


class Tokens(Struct, frozen=True, kw_only=True):
    """Token counts. `input_tokens` excludes tokens read from or written to the provider's cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning_tokens: int = 0
    total_tokens: int = 0


class Failure(Struct, frozen=True, kw_only=True):
    """An error. `type` is the class of the error; `code` and `reason` are the kind of model error."""

    type: str
    message: str
    code: str | None = None
    reason: str = ""
    retryable: bool = False
    retry_after: float | None = None
    status: int | None = None


class ResultLine(Struct, frozen=True, kw_only=True, tag="result"):
    """The outcome of a run: exactly one, always the last line. `--output json` prints only this line.

    `cost` is the cost in US dollars of the calls with a known price, or `null` if no price is known. `unpriced_calls` is the number of
    calls with an unknown price. `estimated_calls` is the number of calls that were stopped or cut off, so that their tokens and their
    cost are partly estimates. `text` is the response; for a failed run, the text so far.
    `denied` contains the reasons of denied calls. With `--schema`, `output` is the response as data, and `text` is the same data
    as JSON; if no response matched, `status` is `no_output` and `output_error` contains the reason.
    """

    version: int
    status: RunStatus
    exit_code: int
    text: str = ""
    model: Model | None = None
    session_id: str = ""
    turns: int = 0
    usage: Tokens = Tokens()
    cost: float | None = None
    unpriced_calls: int = 0
    estimated_calls: int = 0
    seconds: float = 0.0
    stop_reason: str | None = None
    denied: tuple[str, ...] = ()
    error: Failure | None = None
    output: Any = None
    output_error: str = ""


Line = RunEvent | ResultLine
"""A line of ``stream-json``; ``type`` is the discriminator."""


def schema() -> str:
    """Create the JSON Schema of a line."""
    return events.schema(
        Line,
        f"A line of `mainspring --output stream-json`, version {SCHEMA_VERSION}",
        "An event of the run, or the `result`. `--output json` prints one `result` line.",
    )


if __name__ == "__main__":
    print(schema(), end="")
