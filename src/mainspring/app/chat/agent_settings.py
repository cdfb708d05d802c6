"""What the user can change about the agent during a chat: the model, its reasoning effort, and the mode."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, cast, get_args

from mainspring.app.chat.conversation import CurrentConversation
from mainspring.app.chat.types import AgentMode, ThinkingLevelName
from mainspring.app.compose.conversation import OpenConversation
from mainspring.app.compose.plan_mode import PLAN_MODE_ENTRY_TYPE
from mainspring.app.providers.select_model import Choice, make
from mainspring.app.workspace.model_providers import registry_of
from mainspring.errors import ConfigError, ModelError
from mainspring.events import StreamEvent
from mainspring.models import ModelInfo, ModelProvider, ModelRequest, ModelResponse
from mainspring.presets import BUILD_AGENT, PLAN_AGENT
from mainspring.run_options import RunOptions


class SwitchableModel:
    """A `ModelProvider` that passes each request to the current model, which can be replaced during a run.

    Args:
        model: The first model.

    Attributes:
        current: The model that receives the next request.
    """

    def __init__(self, model: ModelProvider) -> None:
        self.current = model

    @property
    def provider(self) -> str:
        """Name of the provider."""
        return self.current.provider

    @property
    def model(self) -> str:
        """ID of the model."""
        return self.current.model

    @property
    def info(self) -> ModelInfo:
        """Facts about the model."""
        return self.current.info

    @property
    def profile(self) -> Any:
        """The profile of the provider, if it has one."""
        return getattr(self.current, "profile", None)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Send a request and yield the response as it arrives.

        Raises:
            ModelError: If the model raises it.
        """
        async with aclosing(cast("AsyncGenerator[StreamEvent, None]", self.current.stream(request))) as events:
            async for event in events:
                yield event

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Send a request and return the whole response.

        Raises:
            ModelError: If the model raises it.
        """
        return await self.current.complete(request)

    async def aclose(self) -> None:
        """Close the current model."""
        await self.current.aclose()


class NonOwningModel(SwitchableModel):
    """A model that another conversation closes."""

    async def aclose(self) -> None:
        """Leave the model open."""


class ModelSwitch:
    """The model of a chat and its reasoning effort. Replaced models stay open until the chat ends, since a run may use them.

    Args:
        current: The conversation.
        make_model: Makes a model from its name in place of the settings, for tests and applications.
        on_change: Called after a change.
    """

    def __init__(
        self,
        current: CurrentConversation,
        make_model: Callable[[str], ModelProvider] | None,
        on_change: Callable[[], None],
    ) -> None:
        self._current = current
        self._make_model = make_model
        self._on_change = on_change
        self._slot: SwitchableModel | None = None
        self._next_slot: SwitchableModel | None = None
        self._retired: list[ModelProvider] = []

    @property
    def current(self) -> ModelProvider | None:
        """The model that receives the next request, or None before the first conversation is open."""
        return self._slot.current if self._slot is not None else None

    def wrap(self, model: ModelProvider) -> SwitchableModel:
        """Wrap the model of a conversation that is being opened, so that it can be switched."""
        self._next_slot = SwitchableModel(model)
        return self._next_slot

    async def attach(self, conversation: OpenConversation) -> None:
        """Switch the model of this conversation from now on."""
        self._slot = self._next_slot

    def create(self, name: str) -> ModelProvider:
        """Make a model from its name.

        Raises:
            ConfigError: If the name is unknown or the model needs something that is missing.
        """
        config = self._current.conversation.settings.config
        try:
            return self._make_model(name) if self._make_model else make(name, config, registry_of(config))
        except ModelError as error:
            raise ConfigError(str(error)) from error

    def switch(self, name: str) -> None:
        """Use another model from the next request on.

        Raises:
            ConfigError: If the name is unknown or the model needs something that is missing.
        """
        slot = self._slot
        assert slot is not None, "the chat is not open"
        choice = Choice(self.create(name), "chosen in the chat")
        if choice.model is not slot.current:
            self._retired.append(slot.current)
        slot.current = choice.model
        self._current.conversation.choice = choice
        session = self._current.session
        if session is not None and session.writable:
            session.record_model(choice.name.spec)
        self._retired = [model for model in self._retired if model is not choice.model]
        self._on_change()

    def set_thinking(self, level: str | None) -> None:
        """Set the reasoning effort from the next request on; None leaves it to the provider.

        Raises:
            ConfigError: If the level is unknown.
        """
        levels: dict[str, ThinkingLevelName] = {name: name for name in get_args(ThinkingLevelName)}
        if level is not None and level not in levels:
            raise ConfigError(f"Unknown reasoning effort: {level}. Use {', '.join(levels)}, or default.")
        self._current.agent.thinking = None if level is None else levels[level]
        self._on_change()

    async def close_retired(self) -> None:
        """Close the models that were replaced."""
        for model in self._retired:
            await model.aclose()


class ModeSwitch:
    """The mode of the agent, also where an approval or an approved plan changes it. Plan mode is saved with the session.

    Args:
        current: The conversation.
        on_change: Called after a change.
    """

    def __init__(self, current: CurrentConversation, on_change: Callable[[], None]) -> None:
        self._current = current
        self._on_change = on_change
        self._saved: AgentMode = "default"

    async def attach(self, conversation: OpenConversation) -> None:
        """Start from the mode of a conversation."""
        self._saved = self.mode

    @property
    def mode(self) -> AgentMode:
        """The mode now."""
        conversation = self._current.conversation
        if conversation.plan is not None and conversation.plan.state.active:
            return "plan"
        return "accept_edits" if conversation.permissions.accept_edits else "default"

    def set(self, mode: AgentMode) -> None:
        """Change the mode."""
        conversation = self._current.conversation
        conversation.permissions.accept_edits = mode == "accept_edits"
        plan = conversation.plan
        if plan is not None:
            plan.state.active = mode == "plan"
            if mode == "plan":
                plan.state.file = plan.state.approved = ""
        self.save_change()

    def save_change(self) -> None:
        """Save and publish the mode if it changed."""
        before, self._saved = self._saved, self.mode
        if before == self._saved:
            return
        if "plan" in (before, self._saved):
            self.save()
        self._on_change()

    def save(self) -> None:
        """Save in the session whether the agent plans, for example after a rewind to an older entry."""
        session = self._current.session
        if session is not None and session.writable:
            session.add_custom(PLAN_MODE_ENTRY_TYPE, {"active": self._saved == "plan"})

    def run_options(self) -> RunOptions:
        """Return the options of a run in this mode. Settings take precedence over the profile of the mode."""
        profile = PLAN_AGENT if self.mode == "plan" else BUILD_AGENT
        options = profile.behavior if isinstance(profile.behavior, RunOptions) else RunOptions()
        conversation = self._current.conversation
        thinking = conversation.agent.behavior.thinking
        options = conversation.settings.config.agent.run_options().without("thinking").merged_with(options)
        if thinking is not None:
            options = RunOptions(thinking=thinking).merged_with(options)
        return options if conversation.choice.model.info.reasoning else options.without("thinking")
