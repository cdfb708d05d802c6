"""What a front end with a person behind it brings into a conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from mainspring.env import EditorBuffers, TerminalProvider
from mainspring.extensions.context import UserInterface
from mainspring.loop import Steps
from mainspring.models import ModelProvider
from mainspring.permissions import PermissionCallback


class ClientServices(Struct, frozen=True, kw_only=True):
    """What a front end with a person behind it brings into a conversation.

    Attributes:
        ask: Asks about calls.
        ui: Asks and tells for extensions.
        extra: What tools find in their context, as somebody to talk to.
        reserved_commands: Names of commands that extensions do not get.
        tools: Names of further tools that are offered, since somebody can answer.
        model: A model in place of the one that would be chosen.
        buffers: The files that an editor has open.
        terminals: Terminals of the editor, for commands of its user's project; not where a sandbox or a limit would hold them.
        servers: Further MCP servers, as decoded JSON; they go before those of the settings.
        wrap: Makes the model that the agent asks of the one that was chosen.
        unattended: Without ``ask``, whether a call that must be asked about is denied or pauses the run.
        steps: By which the agent touches the outside; for runs that an engine keeps.
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
