"""What the parts of a chat share: the conversation of the moment, who waits and asks, and how it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from mainspring.app.chat.approvals import ApprovalManager
from mainspring.app.chat.event_stream import EventBuffer
from mainspring.app.chat.event_translation import AgentEventTranslator, SubagentTracker
from mainspring.app.chat.events import ChatEvent, Compacted, Notice, QueueChanged, StatusChanged, UserText
from mainspring.app.chat.message_queue import MESSAGE_ID_PREFIX, MessageQueue, build_message
from mainspring.app.chat.options import ChatOptions
from mainspring.app.chat.questions import PendingQuestions, UserPrompter
from mainspring.app.chat.switchable_model import NonOwningModel, SwitchableModel
from mainspring.app.chat.types import AgentMode, Status
from mainspring.app.compose.client_services import ClientServices
from mainspring.app.compose.conversation import Conversation, open_conversation
from mainspring.app.compose.plan_mode import PLAN_MODE_ENTRY_TYPE
from mainspring.app.providers.select_model import Choice
from mainspring.app.run.events import Notice as Told
from mainspring.app.run.events import RunEvent, format_budget_warning
from mainspring.app.run.options import LaunchOptions
from mainspring.app.workspace.command_registry import CustomCommands, commands_root
from mainspring.app.workspace.git import current_branch
from mainspring.app.workspace.saved_rules import RuleFiles
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import MainspringError
from mainspring.loop import RunOptions
from mainspring.loop.hooks import BeforeInject, BudgetWarning, ContextCompacted, ToolFinished
from mainspring.messages import AgentMessage, Message, Usage
from mainspring.messages.token_estimate import TokenEstimator, estimate_overhead
from mainspring.policies.structured.schema import OUTPUT_TOOL
from mainspring.presets import BUILD_AGENT, PLAN_AGENT
from mainspring.redaction import redact
from mainspring.tools.interaction import INTERACTION_KEY
from mainspring.tools.support.background import ON_COMPLETION_KEY
from mainspring.tools.support.editing.review import APPROVE_HUNK

_ORDER_LAST = 900


class ChatState:
    """One chat: its conversation, and all that is said around it. Nobody outside the package uses it.

    Args:
        options: How it was opened.
        reserved: Names of commands that are its own.
    """

    def __init__(self, options: ChatOptions, reserved: tuple[str, ...] = ()) -> None:
        self.options = options
        self.outbox = EventBuffer()
        self.questions = PendingQuestions(self.tell, attended=options.attended)
        self.user_prompter = UserPrompter(self.questions, self.tell)
        self.waiting = MessageQueue(self.tell)
        self.children = SubagentTracker(self.tell, self.display, self.publish_status)
        self.approvals = ApprovalManager(self.questions, self.display, self.children.knows, self.tell, self.save_mode)
        self.tasks = asyncio.TaskGroup()
        self.running = False
        self.closing = False
        self.wake: Callable[[str], None] = self._default_wake
        self._reserved_commands = reserved
        self._conversation: Conversation | None = None
        self._model: SwitchableModel | None = None
        self._left: list[Any] = []
        self._status: Status | None = None
        self._mode: AgentMode = "build"
        self._branch = ""
        self._suppress_status = True
        self.custom = CustomCommands()
        self._context_tokens = 0
        self.unpriced = False

    # --- the conversation of the moment -----------------------------------------------------------------------------

    @property
    def conversation(self) -> Conversation:
        """The conversation that goes on."""
        assert self._conversation is not None, "the chat is not open"
        return self._conversation

    async def enter(self, ask: LaunchOptions, *, copy: bool = False) -> None:
        """Take up a conversation; the one before it is left. If the new one cannot be had, the old one stays.

        Args:
            ask: Which.
            copy: Whether its session is a copy, in which nothing waits but what waits here.

        Raises:
            ConfigError: If something is wrong with options or settings.
            SessionError: If the session cannot be opened.
        """
        old = self._conversation
        current = self._model.current if self._model is not None else None
        made: list[SwitchableModel] = []

        def wrap(model: Any) -> SwitchableModel:
            made.append(SwitchableModel(model))
            return made[0]

        front = ClientServices(
            ask=self.approvals.ask,
            ui=self.user_prompter,
            extra={INTERACTION_KEY: self.user_prompter, APPROVE_HUNK: self.approvals.hunk},
            reserved=self._reserved_commands,
            tools=("ask_user",),
            model=current or self.options.model,
            buffers=self.options.buffers,
            terminals=self.options.terminals,
            servers=self.options.mcp_servers,
            wrap=wrap,
        )
        self._suppress_status = True  # what is told before the session is, would be of neither
        try:
            conversation = await open_conversation(ask, self._report, self.options.environ, front)
        except BaseException:
            self._suppress_status = False
            raise
        self._conversation, self._model = conversation, made[0]
        await self._wire(conversation, copy=copy)
        if old is not None:
            await self.waiting.save(conversation.session)  # before the other forgets it
            await self.leave(old, keep_model=True)

    async def _wire(self, conversation: Conversation, *, copy: bool) -> None:
        agent, session = conversation.agent, conversation.session
        self.approvals.permissions = conversation.permissions
        self.approvals.files = RuleFiles(conversation.settings.home, conversation.env.cwd)
        agent.extra = {**agent.extra, ON_COMPLETION_KEY: self.wake}
        agent.bus.observe(AgentEventTranslator(self.tell, self.display, self.publish_status))
        agent.bus.observe(self._joined)
        agent.on(BeforeInject, self._on_steer_inject, order=-_ORDER_LAST)
        agent.on(ContextCompacted, self._compacted, order=_ORDER_LAST)
        agent.on(ToolFinished, self._made, order=_ORDER_LAST)
        agent.on(BudgetWarning, lambda hook: self.tell(Notice(format_budget_warning(hook), "warn")))
        self.children.listen(agent)
        self._mode = self.mode
        self.unpriced = any(_is_unpriced(m.usage) for m in agent.messages if isinstance(m, Message))
        home = conversation.settings.home
        trusted = await asyncio.to_thread(lambda: TrustStore(home).covers(commands_root(conversation.env.cwd, home)))
        self.custom = await asyncio.to_thread(
            CustomCommands.find, conversation.env.cwd, home, trusted=trusted, reserved=self._reserved_commands
        )
        if session is not None:
            self.waiting.take_up(session, () if copy else await asyncio.to_thread(self.waiting.load_from, session))
            if copy:
                self.waiting.elsewhere(session)
            for problem in session.problems:
                self.tell(Notice(str(problem), "warn"))
        self._branch = await asyncio.to_thread(current_branch, conversation.env.cwd)
        self.measure()
        self._suppress_status = False

    async def warm_up(self) -> None:
        """Have skills read and servers connected, as the first run would."""
        if not self.running:
            await self.conversation.agent.warmup()

    async def leave(self, conversation: Conversation, *, keep_model: bool = False) -> None:
        """Give back what a conversation holds; with ``keep_model`` another one takes its place, and what waits waits there."""
        await self.waiting.save(conversation.session, moved=keep_model)
        if keep_model:  # its connections serve the next one
            conversation.choice = Choice(NonOwningModel(conversation.choice.model), conversation.choice.why)
        await conversation.aclose()

    async def close(self) -> None:
        """Give back everything."""
        if self._conversation is not None:
            await self.leave(self._conversation)
        for model in self._left:
            await model.aclose()

    # --- the model --------------------------------------------------------------------------------------------------

    def use_model(self, choice: Choice) -> None:
        """Have another model answer from the next request on."""
        assert self._model is not None
        conversation = self.conversation
        if choice.model is not self._model.current:
            self._left.append(self._model.current)
        self._model.current = choice.model
        conversation.choice = choice
        if conversation.session is not None and conversation.session.writable:
            conversation.session.model_change(choice.name.spec)
        self._left = [model for model in self._left if model is not choice.model]
        self.publish_status()

    # --- what happens -----------------------------------------------------------------------------------------------

    def tell(self, event: ChatEvent) -> None:
        """Tell the front end."""
        self.outbox.push(event)
        if isinstance(event, QueueChanged):
            self.publish_status()

    def display(self, name: str) -> str:
        """The name for people of a tool."""
        if name == OUTPUT_TOOL:
            return "Answer"
        if self._conversation is None:
            return name
        tool = self._conversation.agent.tools.get(name)
        return (tool.label if tool is not None else "") or name

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something beside; it ends with the chat."""
        return self.tasks.create_task(work)

    def _report(self, report: RunEvent) -> None:
        match report:
            case Told(text=text):
                self.tell(Notice(text))
            case _:
                pass

    def _joined(self, event: Any) -> None:
        message = getattr(event, "message", None)
        if getattr(event, "type", "") == "message_end" and isinstance(message, Message) and message.role == "user":
            self.waiting.joined(message.id)

    async def _on_steer_inject(self, hook: BeforeInject) -> None:
        """What was typed to steer may have been changed or taken back since."""
        kept: list[AgentMessage] = []
        for message in hook.messages:
            if not message.id.startswith(MESSAGE_ID_PREFIX):
                kept.append(message)
                continue
            said = self.waiting.find(message.id)
            if said is not None and said.kind == "steer":
                self.waiting.take(said.id)
                self.waiting.going(said)
                self.tell(UserText(said.text, "steer", len(said.attachments), said.id))
                kept.append(await build_message(said, self.conversation, self.tell))
        hook.messages = kept

    def _made(self, hook: ToolFinished) -> None:
        """A call was made; it may have been the one by which a plan was approved."""
        self.approvals.spent(self.conversation.agent.name, hook.call_id)
        self.save_mode()

    def _compacted(self, hook: ContextCompacted) -> None:
        known = {id(message) for message in hook.before}
        new = [m.text for m in hook.after if isinstance(m, Message) and id(m) not in known]
        self.tell(Compacted(hook.reason, len(hook.before), len(hook.after), "\n\n".join(new)))
        self.measure(hook.after)

    # --- how it stands ----------------------------------------------------------------------------------------------

    @property
    def mode(self) -> AgentMode:
        """Whether the agent works, works and edits without approval, or plans."""
        plan = self.conversation.plan
        if plan is not None and plan.state.active:
            return "plan"
        return "accept_edits" if self.conversation.permissions.accept_edits else "build"

    def behavior(self) -> RunOptions:
        """The profile of the mode; what the settings say comes before it."""
        profile = PLAN_AGENT if self.mode == "plan" else BUILD_AGENT
        behavior = profile.behavior if isinstance(profile.behavior, RunOptions) else RunOptions()
        config = self.conversation.settings.config.agent
        agent = self.conversation.agent
        if config.max_turns is not None:
            behavior = replace(behavior, max_turns=config.max_turns)
        if agent.behavior.thinking is not UNSET and agent.behavior.thinking is not None:
            behavior = replace(behavior, thinking=agent.behavior.thinking)
        if not self.conversation.choice.model.info.reasoning:
            behavior = replace(behavior, thinking=UNSET)
        return behavior

    def set_mode(self, mode: AgentMode) -> None:
        """Work, work and edit without approval, or plan."""
        self.conversation.permissions.accept_edits = mode == "accept_edits"
        plan = self.conversation.plan
        if plan is not None:
            plan.state.active = mode == "plan"
            if mode == "plan":
                plan.state.file = plan.state.approved = ""
        self.save_mode()

    def save_mode(self) -> None:
        """Publish the mode where it changed, also by an approval, and store in the session whether it is plan mode."""
        before, self._mode = self._mode, self.mode
        if before == self._mode:
            return
        session = self.conversation.session
        if "plan" in (before, self._mode) and session is not None and session.writable:
            session.custom(PLAN_MODE_ENTRY_TYPE, {"active": self._mode == "plan"})
        self.publish_status()

    def moved(self) -> None:
        """The session goes on from another place: what holds for all of it is stored there, too."""
        session = self.conversation.session
        if session is not None and session.writable:
            session.custom(PLAN_MODE_ENTRY_TYPE, {"active": self._mode == "plan"})
            self.waiting.elsewhere(session)
        self.measure()

    def measure(self, messages: Sequence[AgentMessage] | None = None) -> None:
        """Estimate how full the model's window is."""
        agent = self.conversation.agent
        messages = agent.messages if messages is None else messages
        overhead = estimate_overhead(agent.context.system, agent.tools.specs)
        self._context_tokens = TokenEstimator().tokens(messages, overhead=overhead)
        self.publish_status()

    async def refresh_after_run(self) -> None:
        """See what a run may have changed: the git branch, and how full the window is."""
        self._branch = await asyncio.to_thread(current_branch, self.conversation.env.cwd)
        answers = (m for m in reversed(self.conversation.agent.messages) if isinstance(m, Message))
        last = next((m for m in answers if m.role == "assistant"), None)
        if last is not None and not (last.usage and last.usage.total_tokens):  # the provider does not tell
            self.measure()
        self.publish_status()

    def status(self) -> Status:
        """How it stands."""
        conversation = self.conversation
        agent, session, choice = conversation.agent, conversation.session, conversation.choice
        behavior = self.behavior().over(agent.behavior).resolved()
        ledger = agent.ledger
        while ledger.above is not None:
            ledger = ledger.above
        self._update_from_last_message(agent.context.messages)
        info = choice.model.info
        return Status(
            model=choice.name.spec,
            model_label=choice.name.label,
            thinking=agent.thinking,
            mode=self.mode,
            sandbox=conversation.sandbox,
            running=self.running,
            context_used=self._context_tokens,
            context_window=info.context_window or 0,
            cost=None if self.unpriced else round(ledger.cost, 6),
            max_cost=behavior.max_cost,
            tokens=ledger.tokens,
            turns=agent.ledger.turns if self.running else 0,
            max_turns=behavior.max_turns,
            branch=self._branch,
            cwd=conversation.env.cwd,
            session_id=session.id if session else "",
            title=session.title if session else "",
            queued=len(self.waiting),
            children=self.children.running,
        )

    def _update_from_last_message(self, messages: list[AgentMessage]) -> None:
        last = messages[-1] if messages else None
        if isinstance(last, Message) and last.role == "user" and last.tool_results and len(messages) > 1:
            last = messages[-2]
        if isinstance(last, Message) and last.role == "assistant" and last.usage is not None:
            self._context_tokens = last.usage.total_tokens or self._context_tokens
            self.unpriced = self.unpriced or _is_unpriced(last.usage)

    def publish_status(self) -> None:
        """Tell how it stands, if that is new."""
        if self._conversation is None or self._suppress_status:
            return
        status = self.status()
        if status != self._status:
            self._status = status
            self.outbox.push(StatusChanged(status))

    def _default_wake(self, text: str) -> None:
        self.tell(Notice(text))

    def publish_error(self, error: BaseException) -> None:
        """Tell of something that failed."""
        text = str(error) if isinstance(error, MainspringError | OSError) else f"{type(error).__name__}: {error}"
        self.tell(Notice(redact(text), "error"))


def _is_unpriced(usage: Usage | None) -> bool:
    """Whether tokens were used whose price is not known."""
    return usage is not None and usage.cost is None and usage.total_tokens > 0
