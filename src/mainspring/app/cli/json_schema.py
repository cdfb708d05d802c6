"""Types of the lines of ``--output json`` and ``--output stream-json``. docs/stream-json.schema.json is generated from them.

Version 1. Fields may be added; existing fields keep their name, type, and meaning. ``python -I -m mainspring.app.cli.json_schema``
prints the schema.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from mainspring.messages import ImageBlock, TextBlock
from mainspring.messages.codec import strip_surrogates

SCHEMA_VERSION = 1

Status = Literal[
    "completed", "max_turns", "max_tokens", "max_seconds", "max_cost", "aborted", "error", "denied", "paused"
]
ToolName = Annotated[str, Meta(description="Canonical name of a tool")]
CallId = Annotated[str, Meta(description="ID of the call, the same in all lines about one call")]


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


class StartLine(Struct, frozen=True, kw_only=True, tag="start"):
    """The first line of a run: the model, the folder, and the tools. It is missing if the run could not start."""

    version: int
    model: Model
    session_id: str = ""
    resumed: bool = False
    cwd: str = ""
    tools: tuple[ToolName, ...] = ()


class NoticeLine(Struct, frozen=True, kw_only=True, tag="notice"):
    """A notice for the user: an ignored setting, a session that is not saved, or the state of a download."""

    text: str


class TurnLine(Struct, frozen=True, kw_only=True, tag="turn_start"):
    """A model call is about to start."""

    turn: Annotated[int, Meta(ge=1)]


class TextLine(Struct, frozen=True, kw_only=True, tag="text"):
    """A piece of text, as it arrives."""

    text: str


class ThinkingLine(Struct, frozen=True, kw_only=True, tag="thinking"):
    """A piece of the model's reasoning, as it arrives."""

    text: str


class ToolCall(Struct, frozen=True, kw_only=True):
    """A tool call as the model made it. `raw_input` is the text of the arguments if they were not a JSON object."""

    id: CallId
    name: ToolName
    input: dict[str, Any]
    raw_input: str | None = None


class MessageLine(Struct, frozen=True, kw_only=True, tag="message"):
    """A response of the model is complete: its full text and reasoning, and its tool calls."""

    text: str
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    stop_reason: str | None = None
    usage: Tokens | None = None


class ToolStartLine(Struct, frozen=True, kw_only=True, tag="tool_start"):
    """A tool call starts."""

    id: CallId
    name: ToolName
    input: dict[str, Any]


class ToolUpdateLine(Struct, frozen=True, kw_only=True, tag="tool_update"):
    """A tool reports progress."""

    id: CallId
    name: ToolName
    output: str = ""
    title: str | None = None
    metadata: dict[str, Any] | None = None


class ToolEndLine(Struct, frozen=True, kw_only=True, tag="tool_end"):
    """A tool call ends. `output` is the text that the model reads."""

    id: CallId
    name: ToolName
    output: str | tuple[TextBlock | ImageBlock, ...]
    is_error: bool = False
    title: str = ""
    seconds: float = 0.0
    details: Any = None


class RetryLine(Struct, frozen=True, kw_only=True, tag="retry"):
    """A model call failed before it returned content. It is retried in `delay` seconds."""

    attempt: int
    max_retries: int
    delay: float
    error: Failure


class ResultLine(Struct, frozen=True, kw_only=True, tag="result"):
    """The outcome of a run: exactly one, always the last line. `--output json` prints only this line.

    `cost` is in US dollars, or `null` if the price is unknown. `text` is the response; for a failed run, the text so far.
    `denied` contains the reasons of denied calls. With `--schema`, `output` is the response as data, and `text` is the same data
    as JSON; if no response matched, `output_error` contains the reason.
    """

    version: int
    status: Status
    exit_code: int
    text: str = ""
    model: Model | None = None
    session_id: str = ""
    turns: int = 0
    usage: Tokens = Tokens()
    cost: float | None = None
    seconds: float = 0.0
    stop_reason: str | None = None
    denied: tuple[str, ...] = ()
    error: Failure | None = None
    output: Any = None
    output_error: str = ""


Line = (
    StartLine
    | NoticeLine
    | TurnLine
    | TextLine
    | ThinkingLine
    | MessageLine
    | ToolStartLine
    | ToolUpdateLine
    | ToolEndLine
    | RetryLine
    | ResultLine
)
"""A line of ``stream-json``; ``type`` is the discriminator."""

_encoder = msgspec.json.Encoder(enc_hook=str)


def encode(line: Line) -> str:
    """Encode a line as JSON, without a line break; a lone surrogate becomes U+FFFD."""
    try:
        return _encoder.encode(line).decode()
    except UnicodeEncodeError:
        return _encoder.encode(strip_surrogates(msgspec.to_builtins(line, enc_hook=str))).decode()


def schema() -> str:
    """Create the JSON Schema of a line."""
    body = msgspec.json.schema(Line)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A line of `mainspring --output stream-json`, version {SCHEMA_VERSION}",
        "description": "`--output json` prints one `result` line.",
    }
    return json.dumps({**head, **body}, indent=2) + "\n"


if __name__ == "__main__":
    print(schema(), end="")
