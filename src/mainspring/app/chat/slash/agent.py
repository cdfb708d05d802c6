"""Commands that change how the agent works: model, thinking, mode."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from mainspring.app.chat.command_results import Choice, CommandResult, Fields, Picker, Text
from mainspring.app.chat.runs import start_plan
from mainspring.app.chat.slash.base import SlashCommand, SlashContext
from mainspring.app.chat.state import ChatState
from mainspring.app.chat.types import AgentMode, ThinkingLevelName
from mainspring.app.providers.availability import list_models
from mainspring.app.providers.select_model import Choice as ModelChoice
from mainspring.app.providers.select_model import make
from mainspring.app.workspace.model_providers import registry_of
from mainspring.errors import ConfigError, ModelError
from mainspring.models import ModelProvider
from mainspring.models.catalog import load_catalog


async def model(seat: SlashContext, arguments: str) -> CommandResult:
    """The models to choose from; or another one answers from here on."""
    room = seat.room
    wanted = arguments.strip()
    if wanted:
        switch_model(room, wanted)
        return Text(f"{room.status().model} answers from here on")
    current = room.status().model
    listed = await list_models(room.options.ask.place, room.options.environ)
    choices = [
        Choice(
            view.spec,
            f"/model {view.spec}",
            "; ".join(filter(None, (view.label, view.state, view.note))),
            view.spec == current,
        )
        for view in listed
        if view.state != "missing"
    ]
    if not any(choice.current for choice in choices):
        choices.insert(0, Choice(current, f"/model {current}", room.status().model_label, True))
    return Picker("Models", tuple(choices))


def switch_model(room: ChatState, spec: str) -> None:
    """Have another model answer from the next request on.

    Raises:
        ConfigError: If there is none of that name, or something for it is missing.
    """
    room.use_model(ModelChoice(create_chat_model(room, spec), "chosen in the chat"))


def create_chat_model(room: ChatState, spec: str) -> ModelProvider:
    """A model by its name.

    Raises:
        ConfigError: If there is none of that name, or something for it is missing.
    """
    config = room.conversation.settings.config
    try:
        return room.options.make_model(spec) if room.options.make_model else make(spec, config, registry_of(config))
    except ModelError as error:
        raise ConfigError(str(error)) from error


async def _complete_models(seat: SlashContext) -> Sequence[tuple[str, str]]:
    config = seat.room.conversation.settings.config
    found: list[tuple[str, str]] = []
    for provider in registry_of(config).names():
        ids = [entry.id for entry in load_catalog().of(provider)]
        ids += [id for id in config.providers.get(provider).models if id not in ids]
        found += [(f"{provider}:{id}", "") for id in ids]
    return found


async def thinking(seat: SlashContext, arguments: str) -> CommandResult:
    """How much the model reasons."""
    wanted = arguments.strip().lower()
    agent = seat.room.conversation.agent
    if not wanted:
        current = agent.thinking
        choices = [Choice(level, f"/thinking {level}", "", level == current) for level in get_args(ThinkingLevelName)]
        default = Choice("default", "/thinking default", "as the provider likes", current is None)
        return Picker("Reasoning", (default, *choices))
    set_thinking(seat.room, None if wanted == "default" else wanted)
    return Text(f"reasoning: {wanted}")


def set_thinking(room: ChatState, level: str | None) -> None:
    """How much the model reasons, from the next request on.

    Raises:
        ConfigError: If there is no such level.
    """
    known = {name: name for name in get_args(ThinkingLevelName)}
    if level is not None and level not in known:
        raise ConfigError(f"there is no level {level!r}; there are {', '.join(known)}, and default")
    room.conversation.agent.thinking = None if level is None else known[level]
    room.publish_status()


async def _complete_levels(_: SlashContext) -> Sequence[tuple[str, str]]:
    return [("default", "as the provider likes"), *[(level, "") for level in get_args(ThinkingLevelName)]]


async def mode(seat: SlashContext, arguments: str) -> CommandResult:
    """Show the modes, or change to one."""
    wanted = arguments.strip().lower()
    room = seat.room
    if not wanted:
        plan = room.conversation.plan
        choices = [Choice(name, f"/mode {name}", about, name == room.mode) for name, about in _MODES]
        if plan is not None and plan.state.file:
            choices.append(Choice("execute", "/mode execute", f"carry out {plan.state.file}"))
        return Picker("Mode", tuple(choices))
    if wanted == "execute":
        execute_plan(seat, "")
        return Text("the plan is carried out")
    wanted = re.sub(r"[\s-]+", "_", wanted)
    chosen: AgentMode | None = next((name for name in get_args(AgentMode) if name == wanted), None)
    if chosen is None:
        raise ConfigError(f"Unknown mode: {wanted}. Use build, accept_edits, plan, or execute.")
    room.set_mode(chosen)
    return Fields((("mode", chosen), ("that is", dict(_MODES)[chosen])))


def execute_plan(seat: SlashContext, name: str) -> None:
    """Leave plan mode and carry out a plan.

    Raises:
        ConfigError: If there is none, or a run goes on.
    """
    start_plan(seat.room, seat.runs, name)


async def _complete_modes(_: SlashContext) -> Sequence[tuple[str, str]]:
    return [*_MODES, ("execute", "leave plan mode and carry out the plan")]


_MODES = (
    ("build", "works; asks before it changes anything"),
    ("accept_edits", "works; edits the project's files without asking"),
    ("plan", "only looks, and ends with a plan"),
)

AGENT_COMMANDS = (
    SlashCommand(
        name="model",
        summary="the model that answers",
        arguments="[PROVIDER:MODEL]",
        run=model,
        complete=_complete_models,
    ),
    SlashCommand(
        name="thinking",
        summary="how much the model reasons",
        arguments="[LEVEL]",
        run=thinking,
        complete=_complete_levels,
    ),
    SlashCommand(
        name="mode",
        summary="build, accept_edits, or plan; execute carries the plan out",
        arguments="[MODE]",
        run=mode,
        complete=_complete_modes,
    ),
)
"""The commands of this file."""
