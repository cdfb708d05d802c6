"""The lines of ``serve --rpc``: what comes in, and what goes out. ``docs/rpc.schema.json`` is made of these.

The published schema of the lines, made from their structs: ``python -I -m mainspring.app.servers.rpc.protocol > docs/rpc.schema.json``.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mainspring.app.chat.command_results import Candidate
from mainspring.app.chat.commands import ChatCommand, ChatCommandBase
from mainspring.app.chat.events import ChatEvent
from mainspring.app.chat.types import Status, snake_case_tag
from mainspring.app.servers.stdio import encode_line
from mainspring.messages import Message

PROTOCOL = 1
"""Grows when a program that speaks the number before it would no longer be understood."""


Id = int | str
"""What a program names its requests by."""


class GetStatus(ChatCommandBase, frozen=True):
    """Tell how the chat stands."""


class Complete(ChatCommandBase, frozen=True):
    """Complete a line: names of commands, their arguments, and files after ``@``."""

    line: str


class ListCommands(ChatCommandBase, frozen=True):
    """Tell what can be typed behind a slash."""


class GetMessages(ChatCommandBase, frozen=True):
    """Tell the conversation as the model has it: from the last summary on."""


class ListModels(ChatCommandBase, frozen=True):
    """Tell the models that can be chosen by `SetModel`, as far as providers say so."""


class ListSessions(ChatCommandBase, frozen=True):
    """Tell the sessions that `Resume` can go on with, last used first.

    Attributes:
        everywhere: Those of all folders, and not only of this one.
    """

    everywhere: bool = False


class Close(ChatCommandBase, frozen=True):
    """End the conversation, as the end of the input does."""


RpcCommand = ChatCommand | GetStatus | GetMessages | Complete | ListCommands | ListModels | ListSessions | Close
"""What a request may ask: every command of the chat engine, and those of the protocol."""


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """A line that comes in.

    Attributes:
        command: What is asked.
        id: What the reply is to be known by; a request without one gets its reply with ``null``.
    """

    command: RpcCommand
    id: Id | None = None


class _Line(Struct, frozen=True, tag_field="type", tag=snake_case_tag):
    pass


class Hello(_Line, frozen=True):
    """The first line.

    Attributes:
        protocol: The version of the protocol.
        version: That of the program.
        max_line: Bytes that a line to it may have.
    """

    protocol: int
    version: str
    max_line: int


class SavedSession(Struct, frozen=True):
    """A session that is kept.

    Attributes:
        id: By which it is gone on with.
        title: Its name for people, or how its first prompt begins.
        cwd: The folder that it belongs to.
        updated: When it was last written.
    """

    id: str
    title: str
    cwd: str
    updated: datetime | None = None


class Reply(_Line, frozen=True, omit_defaults=True):
    """The answer to a request: it was taken. What comes of it is told by events.

    Attributes:
        id: That of the request.
        command: What the events know it by: `CommandDone.id`, `UserText.id`, `Refused.id`.
        status: Of `GetStatus`.
        candidates: Of `Complete`.
        commands: Of `ListCommands`: names, each with a word about it.
        messages: Of `GetMessages`.
        models: Of `ListModels`: names, each with a word about it.
        sessions: Of `ListSessions`.
    """

    id: Id | None
    command: str = ""
    status: Status | None = None
    candidates: tuple[Candidate, ...] | None = None
    commands: dict[str, str] | None = None
    messages: tuple[Message, ...] | None = None
    models: dict[str, str] | None = None
    sessions: tuple[SavedSession, ...] | None = None


class Error(_Line, frozen=True, omit_defaults=True):
    """A line that was not taken, and changed nothing. The conversation goes on, but after ``not_opened``.

    Attributes:
        code: ``not_json``, ``invalid`` (it is no request), ``too_long``, ``refused`` (it cannot be done now) or ``not_opened`` (there is
            no conversation; the program ends).
        message: What is wrong, and what to do.
        id: That of the request, where it could be read.
    """

    code: Literal["not_json", "invalid", "too_long", "refused", "not_opened"]
    message: str
    id: Id | None = None


class Notice(_Line, frozen=True, tag="event"):
    """Something happened.

    Attributes:
        seq: Its number, from 1 on, without gaps.
        event: What.
    """

    seq: int
    event: ChatEvent


RpcLine = Hello | Reply | Error | Notice
"""A line that goes out."""


class _RequestId(Struct, frozen=True):
    id: Id | None = None


@cache
def _decoder() -> msgspec.json.Decoder[Request]:
    return msgspec.json.Decoder(Request)


def read_request(line: bytes) -> Request | Error:
    """A request, or why it is none."""
    try:
        return _decoder().decode(line)
    except msgspec.ValidationError as error:
        return Error(
            "invalid", f"{error}; `mainspring serve --rpc --schema` prints what a request is", _extract_id(line)
        )
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Error("not_json", f"the line is no JSON: {error}; write one object a line")
    except RecursionError:
        return Error("not_json", "The line is nested too deeply.; write one flat object a line")


def _extract_id(line: bytes) -> Id | None:
    try:
        return msgspec.json.decode(line, type=_RequestId).id
    except (msgspec.MsgspecError, RecursionError):
        return None


def write_line(line: RpcLine) -> bytes:
    """A line that goes out, without its end."""
    return encode_line(line)


def build_rpc_schema() -> dict[str, Any]:
    """A JSON Schema: ``#/$defs/Request`` is a line that comes in, ``#/$defs/Line`` one that goes out."""
    (request, line), parts = msgspec.json.schema_components((Request, RpcLine), ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"mainspring serve --rpc, protocol {PROTOCOL}",
        "anyOf": [request, {"$ref": "#/$defs/Line"}],
        "$defs": {"Line": line, **dict(sorted(parts.items()))},
    }


def rpc_schema_text() -> str:
    """The same as the text of its file."""
    return json.dumps(build_rpc_schema(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(rpc_schema_text())
