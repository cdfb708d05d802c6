"""The chat engine, for front ends: commands in, events out."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.app.chat.commands import (
        Abort as Abort,
        Answer as Answer,
        Approve as Approve,
        Attachment as Attachment,
        ChatCommand as ChatCommand,
        Compact as Compact,
        Fork as Fork,
        NewSession as NewSession,
        Prompt as Prompt,
        Queue as Queue,
        Rename as Rename,
        Resume as Resume,
        Rewind as Rewind,
        SetMode as SetMode,
        SetModel as SetModel,
        SetThinking as SetThinking,
        Shell as Shell,
        Slash as Slash,
        Steer as Steer,
        decode_command as decode_command,
        parse_line as parse_line,
    )
    from mainspring.app.chat.engine import Chat as Chat, ChatOptions as ChatOptions
    from mainspring.app.chat.events import (
        CommandEnd as CommandEnd,
        CommandRejected as CommandRejected,
        QuestionRequest as QuestionRequest,
        QuestionResult as QuestionResult,
        QueueChange as QueueChange,
        ReplayEnd as ReplayEnd,
        ReplayStart as ReplayStart,
        SessionChange as SessionChange,
        ShellEnd as ShellEnd,
        ShellOutput as ShellOutput,
        ShellStart as ShellStart,
        StatusChange as StatusChange,
        WorkingChange as WorkingChange,
    )
    from mainspring.app.run.options import LaunchOptions as LaunchOptions, WorkspaceOptions as WorkspaceOptions

lazy_exports(
    __name__,
    {
        "mainspring.app.run.options": "LaunchOptions WorkspaceOptions",
        "events": "CommandEnd CommandRejected QueueChange QuestionRequest QuestionResult ReplayEnd ReplayStart SessionChange ShellEnd ShellOutput ShellStart StatusChange WorkingChange",
        "engine": "Chat ChatOptions",
        "commands": "parse_line Abort Approve Answer Attachment ChatCommand Compact Fork NewSession Prompt Queue Rename Resume Rewind SetMode SetModel SetThinking Shell Slash Steer decode_command",
    },
)
