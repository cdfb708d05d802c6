"""Services that an interactive front end provides to an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from mainspring.extensions.context import UserInterface
from mainspring.loop import Steps
from mainspring.models import ModelProvider
from mainspring.permissions import PermissionCallback

if TYPE_CHECKING:
    from mainspring.env import EditorBuffers, TerminalProvider


class ClientServices(Struct, frozen=True, kw_only=True):
    """Services that an interactive front end provides to an agent.

    Attributes:
        ask: Requests approval of tool calls.
        ui: User interface for extensions.
        extra: Values for the context of tools, for example, a way to ask the user.
        reserved_commands: Names of commands that extensions cannot use.
        tools: Names of additional tools that need a user, for example, to ask questions.
        model: A model to use instead of choosing one.
        buffers: Open files of an editor.
        terminals: Terminals of an editor, for commands in its user's project; not used with a sandbox or resource limits.
        servers: Additional MCP servers, as decoded JSON; they override those of the settings.
        wrap: Wraps the chosen model before the agent uses it.
        unattended: Without ``ask``, whether a call that needs approval is denied or pauses the run.
        steps: Runner for side effects; for durable runs.
    """

    ask: PermissionCallback | None = None
    ui: UserInterface | None = None
    extra: Mapping[str, Any] = {}
    reserved_commands: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    model: ModelProvider | None = None
    buffers: EditorBuffers | None = None
    terminals: TerminalProvider | None = None
    servers: Any = None
    wrap: Callable[[ModelProvider], ModelProvider] | None = None
    unattended: Literal["deny", "pause"] = "deny"
    steps: Steps | None = None
