"""The chat engine, for front ends: commands in, events out."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.app.chat.commands import Abort as Abort
    from mainspring.app.chat.commands import Answer as Answer
    from mainspring.app.chat.commands import Approve as Approve
    from mainspring.app.chat.commands import Attachment as Attachment
    from mainspring.app.chat.commands import ChatCommand as ChatCommand
    from mainspring.app.chat.commands import Compact as Compact
    from mainspring.app.chat.commands import Fork as Fork
    from mainspring.app.chat.commands import NewSession as NewSession
    from mainspring.app.chat.commands import Prompt as Prompt
    from mainspring.app.chat.commands import Queue as Queue
    from mainspring.app.chat.commands import Rename as Rename
    from mainspring.app.chat.commands import Resume as Resume
    from mainspring.app.chat.commands import Rewind as Rewind
    from mainspring.app.chat.commands import SetMode as SetMode
    from mainspring.app.chat.commands import SetModel as SetModel
    from mainspring.app.chat.commands import SetThinking as SetThinking
    from mainspring.app.chat.commands import Shell as Shell
    from mainspring.app.chat.commands import Slash as Slash
    from mainspring.app.chat.commands import Steer as Steer
    from mainspring.app.chat.commands import decode_command as decode_command
    from mainspring.app.chat.commands import parse_line as parse_line
    from mainspring.app.chat.engine import Chat as Chat
    from mainspring.app.chat.engine import ChatOptions as ChatOptions
    from mainspring.app.chat.events import CommandEnd as CommandEnd
    from mainspring.app.chat.events import CommandRejected as CommandRejected
    from mainspring.app.chat.events import QuestionRequest as QuestionRequest
    from mainspring.app.chat.events import QuestionResult as QuestionResult
    from mainspring.app.chat.events import QueueChange as QueueChange
    from mainspring.app.chat.events import ReplayEnd as ReplayEnd
    from mainspring.app.chat.events import ReplayStart as ReplayStart
    from mainspring.app.chat.events import SessionChange as SessionChange
    from mainspring.app.chat.events import ShellEnd as ShellEnd
    from mainspring.app.chat.events import ShellOutput as ShellOutput
    from mainspring.app.chat.events import ShellStart as ShellStart
    from mainspring.app.chat.events import StatusChange as StatusChange
    from mainspring.app.chat.events import WorkingChange as WorkingChange
    from mainspring.app.run.options import LaunchOptions as LaunchOptions
    from mainspring.app.run.options import WorkspaceOptions as WorkspaceOptions

lazy_exports(
    __name__,
    {
        "mainspring.app.run.options": "LaunchOptions WorkspaceOptions",
        "events": "CommandEnd CommandRejected QueueChange QuestionRequest QuestionResult ReplayEnd ReplayStart SessionChange ShellEnd ShellOutput ShellStart StatusChange WorkingChange",
        "engine": "Chat ChatOptions",
        "commands": "parse_line Abort Approve Answer Attachment ChatCommand Compact Fork NewSession Prompt Queue Rename Resume Rewind SetMode SetModel SetThinking Shell Slash Steer decode_command",
    },
)
