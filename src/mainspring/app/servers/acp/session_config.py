"""What can be chosen in a session: the mode, the model, how much it reasons, and slash commands."""

from __future__ import annotations

import asyncio
from typing import Any, cast, get_args

from acp import RequestError, schema

from mainspring.app.chat import Chat
from mainspring.app.chat.commands import ChatCommand, SetMode, SetModel, SetThinking
from mainspring.app.chat.types import AgentMode, Status, ThinkingLevelName

_MODES: dict[AgentMode, tuple[str, str]] = {
    "build": ("Build", "Reads, writes and runs, as far as it is allowed"),
    "accept_edits": ("Accept edits", "Works, and edits the project's files without approval"),
    "plan": ("Plan", "Only looks, and makes a plan"),
}
_PROVIDER_DEFAULT = "default"
_HIDDEN_COMMANDS = frozenset({"quit", "clear", "copy"})
"""Slash commands that are for terminals."""
_TIMEOUT_SECONDS = 3.0
_MOST = 100


class SessionConfig:
    """What a client may offer its user.

    Attributes:
        models: The models that can be chosen, each with a word about it.
    """

    def __init__(self) -> None:
        self.models: dict[str, str] = {}

    async def look(self, chat: Chat) -> None:
        """See which models there are."""
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                found = await chat.completions("/model ")
        except TimeoutError:
            found = ()
        self.models = {candidate.text: candidate.detail for candidate in found[:_MOST]}

    def modes(self, status: Status) -> schema.SessionModeState:
        """The modes, and which one holds."""
        return schema.SessionModeState(
            current_mode_id=status.mode,
            available_modes=[
                schema.SessionMode(id=mode, name=name, description=about) for mode, (name, about) in _MODES.items()
            ],
        )

    def options(self, status: Status) -> list[Any]:
        """The same as options, with model and thinking."""
        models = {status.model: status.model_label, **self.models}
        levels = [_PROVIDER_DEFAULT, *get_args(ThinkingLevelName)]
        return [
            _select("mode", "Mode", "mode", status.mode, {**_MODES}),
            _select("model", "Model", "model", status.model, {name: (name, text) for name, text in models.items()}),
            _select(
                "thinking",
                "Thinking",
                "thought_level",
                status.thinking or _PROVIDER_DEFAULT,
                {level: (level.capitalize(), "") for level in levels},
            ),
        ]

    def to_command(self, option: str, value: Any) -> ChatCommand:
        """The command that chooses a value.

        Raises:
            RequestError: If there is no such option or value.
        """
        match option, value:
            case "mode", str() if value in _MODES:
                return SetMode(value)
            case "model", str() if value.strip():
                return SetModel(value)
            case "thinking", str() if value == _PROVIDER_DEFAULT:
                return SetThinking(None)
            case "thinking", str() if value in get_args(ThinkingLevelName):
                return SetThinking(cast("ThinkingLevelName", value))
            case _:
                raise RequestError.invalid_params({"details": f"there is no value {value!r:.80} of {option!r:.80}"})


def available_commands(chat: Chat) -> schema.AvailableCommandsUpdate:
    """The slash commands that a client may offer."""
    return schema.AvailableCommandsUpdate(
        session_update="available_commands_update",
        available_commands=[
            schema.AvailableCommand(
                name=name,
                description=about or name,
                input=schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint="arguments, if any")),
            )
            for name, about in sorted(chat.command_names.items())
            if name not in _HIDDEN_COMMANDS
        ],
    )


def _select(
    id: str, name: str, category: Any, current: str, values: dict[str, tuple[str, str]]
) -> schema.SessionConfigOptionSelect:
    return schema.SessionConfigOptionSelect(
        type="select",
        id=id,
        name=name,
        category=category,
        current_value=current,
        options=[
            schema.SessionConfigSelectOption(value=value, name=label, description=about or None)
            for value, (label, about) in values.items()
        ],
    )
