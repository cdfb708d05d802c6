"""Input and output lines of ``serve --rpc``. The structs define the published schema ``docs/rpc.schema.json``.

Update the schema: ``python -I -m mainspring.app.servers.rpc.protocol > docs/rpc.schema.json``.
"""

from __future__ import annotations

import sys
from datetime import datetime
from functools import cache
from typing import Literal

import msgspec
from msgspec import Struct

from mainspring.app.chat.command_results import Candidate
from mainspring.app.chat.commands import ChatCommand, ChatCommandBase
from mainspring.app.chat.events import ChatEvent
from mainspring.app.chat.types import Status
from mainspring.events import Envelope, schema
from mainspring.messages import Message
from mainspring.text import to_snake_case

PROTOCOL = 2
"""Version of the protocol. Increases when programs that use the previous version would fail."""


Id = int | str
"""ID of a request, chosen by the client."""


class GetStatus(ChatCommandBase, frozen=True):
    """Get the status of the chat."""


class Complete(ChatCommandBase, frozen=True):
    """Complete a line: names of commands, their arguments, and files after ``@``."""

    line: str


class ListCommands(ChatCommandBase, frozen=True):
    """List the slash commands."""


class GetMessages(ChatCommandBase, frozen=True):
    """Get the messages that the model receives: those since the last compaction."""


class ListModels(ChatCommandBase, frozen=True):
    """List the models that `SetModel` accepts, if the providers list them."""


class ListSessions(ChatCommandBase, frozen=True):
    """List the sessions that `Resume` accepts, the most recently used first.

    Attributes:
        everywhere: Whether to include the sessions of all folders.
    """

    everywhere: bool = False


class Close(ChatCommandBase, frozen=True):
    """Close the chat, like the end of the input does."""


RpcCommand = ChatCommand | GetStatus | GetMessages | Complete | ListCommands | ListModels | ListSessions | Close
"""Commands that a request can contain: every command of the chat engine, and those of the protocol."""


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """An input line.

    Attributes:
        command: The command.
        id: ID of the reply; without an ID, the reply has the ID ``null``.
    """

    command: RpcCommand
    id: Id | None = None


class _Line(Struct, frozen=True, tag_field="type", tag=to_snake_case):
    pass


class Hello(_Line, frozen=True):
    """The first output line.

    Attributes:
        protocol: Version of the protocol.
        version: Version of the program.
        max_line: Maximum number of bytes of an input line.
    """

    protocol: int
    version: str
    max_line: int


class SavedSession(Struct, frozen=True):
    """A saved session.

    Attributes:
        id: ID with which it can be resumed.
        title: Title, or the beginning of the first prompt.
        cwd: The folder of the session.
        updated: When it was last written.
    """

    id: str
    title: str
    cwd: str
    updated: datetime | None = None


class Reply(_Line, frozen=True, omit_defaults=True):
    """The reply to a request: the command was accepted. Events report its result.

    Attributes:
        id: ID of the request.
        command: ID of the command in events: `CommandEnd.id`, `CommandRejected.id`, and the ID of the message in `MessageEnd`.
        status: For `GetStatus`.
        candidates: For `Complete`.
        commands: For `ListCommands`: names with descriptions.
        messages: For `GetMessages`.
        models: For `ListModels`: names with descriptions.
        sessions: For `ListSessions`.
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
    """A line that was rejected and changed nothing. The chat continues, except after ``not_opened``.

    Attributes:
        code: ``not_json``, ``invalid`` (not a valid request), ``too_long``, ``refused`` (not possible now), or ``not_opened`` (the chat
            cannot be opened, and the program ends).
        message: What is wrong and how to fix it.
        id: ID of the request, if it could be read.
    """

    code: Literal["not_json", "invalid", "too_long", "refused", "not_opened"]
    message: str
    id: Id | None = None


class EventLine(Envelope, frozen=True, tag_field="type", tag="event"):
    """An event of the chat.

    Attributes:
        seq: Sequence number, from 1, without gaps.
        time: When the line was written.
        event: The event.
    """

    event: ChatEvent


RpcLine = Hello | Reply | Error | EventLine
"""An output line."""


class _RequestId(Struct, frozen=True):
    id: Id | None = None


@cache
def _decoder() -> msgspec.json.Decoder[Request]:
    return msgspec.json.Decoder(Request)


def read_request(line: bytes) -> Request | Error:
    """Decode a request, or return the error."""
    try:
        return _decoder().decode(line)
    except msgspec.ValidationError as error:
        return Error(
            "invalid",
            f"{error}. Print the schema of requests with `mainspring serve --rpc --schema`.",
            _extract_id(line),
        )
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Error("not_json", f"The line is not valid JSON: {error}. Write one object on each line.")
    except RecursionError:
        return Error("not_json", "The line is nested too deeply. Write one flat object on each line.")


def _extract_id(line: bytes) -> Id | None:
    try:
        return msgspec.json.decode(line, type=_RequestId).id
    except (msgspec.MsgspecError, RecursionError):
        return None


def rpc_schema_text() -> str:
    """Return the JSON Schema: ``#/$defs/Request`` is an input line, ``#/$defs/Line`` an output line."""
    return schema({"Request": Request, "Line": RpcLine}, f"mainspring serve --rpc, protocol {PROTOCOL}")


if __name__ == "__main__":
    sys.stdout.write(rpc_schema_text())
