"""The conversation that a chat works on now."""

from __future__ import annotations

from mainspring.agent.agent import Agent
from mainspring.app.compose.conversation import OpenConversation
from mainspring.errors import SessionError
from mainspring.extensions.registry import Command, Shortcut
from mainspring.policies.structured.options import OUTPUT_TOOL
from mainspring.sessions import Session
from mainspring.sessions.output_offload import OffloadOutputsPlug


class CurrentConversation:
    """The open conversation of a chat.

    The parts of a chat keep this object, not the conversation, so that they follow a switch to another session.

    Args:
        full_output: Whether events contain the output of tools and commands in full.
    """

    def __init__(self, *, full_output: bool = False) -> None:
        self._conversation: OpenConversation | None = None
        self.full_output = full_output

    @property
    def is_open(self) -> bool:
        """Whether a conversation is open."""
        return self._conversation is not None

    @property
    def conversation(self) -> OpenConversation:
        """The open conversation."""
        assert self._conversation is not None, "the chat is not open"
        return self._conversation

    def load_output(self, name: str) -> str | None:
        """Return a stored output of a tool, or None if it does not exist anymore.

        Args:
            name: Its name in the store of large outputs.
        """
        store = next((plug.store for plug in self.agent.plugs if isinstance(plug, OffloadOutputsPlug)), None)
        try:
            return store.load(name).result if store is not None else None
        except SessionError:
            return None

    def replace(self, conversation: OpenConversation) -> None:
        """Make another conversation the current one."""
        self._conversation = conversation

    @property
    def agent(self) -> Agent:
        """The agent of the conversation."""
        return self.conversation.agent

    @property
    def session(self) -> Session | None:
        """The session of the conversation, or None if it is not saved."""
        return self.conversation.session

    @property
    def cwd(self) -> str:
        """The working folder."""
        return self.conversation.env.cwd

    @property
    def running_jobs(self) -> tuple[str, ...]:
        """The background commands that are running; they end with the conversation."""
        return tuple([job.command for job in self.conversation.env.jobs.all if job.running]) if self.is_open else ()

    def require_session(self) -> Session:
        """Return the session.

        Raises:
            SessionError: If the conversation is not saved.
        """
        session = self.session
        if session is None:
            raise SessionError("This conversation is not saved (--no-session), so this command is not available.")
        return session

    def tool_label(self, name: str) -> str:
        """Return the display name of a tool."""
        if name == OUTPUT_TOOL:
            return "Answer"
        if not self.is_open:
            return name
        tool = self.agent.tools.get(name)
        return (tool.label if tool is not None else "") or name

    @property
    def extension_commands(self) -> tuple[Command, ...]:
        """The slash commands of extensions."""
        extensions = self.agent.extensions
        return tuple(extensions.runner.commands) if extensions is not None else ()

    @property
    def extension_shortcuts(self) -> tuple[Shortcut, ...]:
        """The keys of extensions."""
        extensions = self.agent.extensions
        return tuple(extensions.runner.shortcuts) if extensions is not None else ()
