"""The events of a run: the vocabulary in which every front end, log, and follower reports it.

Order of a run: ``AgentStart``; per turn ``TurnStart``, ``MessageStart``, the model's own events (`StreamEvent`),
``MessageEnd``, for each call ``ToolExecutionStart``, any ``ToolExecutionUpdate``, ``ToolExecutionEnd``, then ``TurnEnd``;
finally ``AgentEnd``, the last event.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, cast

from msgspec import field

from mainspring.errors import ModelError
from mainspring.events.base import AgentStats, ErrorInfo, Event, RunStatus, SubagentStats
from mainspring.events.display import Option, ToolDisplay
from mainspring.events.response import ContentEvent, StreamEvent
from mainspring.messages import AgentMessage, Message, ToolResultBlock, ToolUseBlock, Usage

# --- the run ----------------------------------------------------------------------------------------------------------


class AgentStart(Event, frozen=True):
    """A run begins.

    Attributes:
        run_id: ID of the run.
        agent: Name of the agent.
        model: ``provider:model``.
        session_id: ID of the session; empty if nothing is saved.
        cwd: The folder of the run.
        resumed: Number of messages in the history before the run.
        tools: Names of the tools that are available at the start.
        system: The run's own system prompt; empty if it uses the agent's.
        version: Version of the output that contains the event; 0 in this process.
    """

    run_id: str
    agent: str = ""
    model: str = ""
    session_id: str = ""
    cwd: str = ""
    resumed: int = 0
    tools: tuple[str, ...] = ()
    system: str = ""
    version: int = 0


class AttemptStart(Event, frozen=True):
    """A worker starts (1) or resumes a durable run. Text since the last ``MessageEnd`` is void."""

    number: int
    agent: str = ""


class AgentEnd(Event, frozen=True):
    """A run has ended. The last event.

    Attributes:
        run_id: ID of the run.
        messages: The messages that it added.
        status: How it ended.
        text: Text of the last response.
        output_error: Why a requested structured output is missing; the output is in ``stats``.
        stats: Its figures.
        denied: The results of the denied calls, with the reasons.
        error: The failure.
        exception: The failure itself, in this process only.
    """

    in_process: ClassVar[tuple[str, ...]] = ("exception",)
    run_id: str
    messages: tuple[AgentMessage, ...]
    status: RunStatus
    text: str = ""
    output_error: str = ""
    stats: AgentStats = AgentStats()
    denied: tuple[str, ...] = ()
    error: ErrorInfo | None = None
    exception: BaseException | None = None


class TurnStart(Event, frozen=True):
    """A model call is about to begin; ``turn`` is counted from 1 in each run."""

    turn: int
    turn_id: str


class TurnEnd(Event, frozen=True):
    """The response and the results of its calls are complete."""

    turn: int
    message: Message
    tool_results: tuple[ToolResultBlock, ...]


MessageSource = Literal["prompt", "steer", "follow_up", "queue", "command", "shell", "assistant", "tool", "synthetic"]
"""Why a message joins: a prompt, an injected message, a response of the model, the results of its calls, or an addition by
the loop or a policy.

Only in a chat: a message of the user that was queued, a slash command, and the output of a shell command of the user.
"""


class MessageStart(Event, frozen=True):
    """A message begins to join the conversation: a prompt, a response, or tool results."""

    message: AgentMessage
    source: MessageSource = "assistant"


class MessageUpdate(Event, frozen=True):
    """The response grew by ``event``. `subscribe` wraps each stream event in this one, in this process only."""

    event: StreamEvent

    @property
    def message(self) -> Message:
        """Return the message at this moment."""
        return self.event.partial


class MessageEnd(Event, frozen=True):
    """A message is complete.

    Attributes:
        message: The message.
        source: Why it joins.
        number: Counts the messages of a durable run from 1; 0 elsewhere.
        seconds: Duration of the model call; 0 for other messages.
        error: Why the response is incomplete.
        attachments: Number of images and texts of the user that a chat leaves out of the message; 0 elsewhere.
        instructions: Instructions of a slash command that a chat leaves out of the message; empty elsewhere.
    """

    message: AgentMessage
    source: MessageSource = "assistant"
    number: int = 0
    seconds: float = 0.0
    error: ErrorInfo | None = None
    attachments: int = 0
    instructions: str = ""

    @property
    def text(self) -> str:
        """Return the text of the message."""
        return self.message.text if isinstance(self.message, Message) else ""


class ModelCallRetry(Event, frozen=True, tag="model_retry"):
    """A model call failed and will be made again in ``delay`` seconds.

    ``continues`` is true if its response was cut off after its first content, and the next call continues it.
    ``exception`` is the failure itself, in this process only.
    """

    in_process: ClassVar[tuple[str, ...]] = ("exception",)
    attempt: int
    max_retries: int
    delay: float
    error: ErrorInfo
    exception: ModelError | None = None
    continues: bool = False

    @property
    def action(self) -> str:
        """Return what happens next, for messages such as ``Retrying in 2s``."""
        return "The response was cut off. Continuing it" if self.continues else "Retrying"


class ToolsChange(Event, frozen=True):
    """The next request offers other tools, for example after a late MCP server, a tool search, or `active_tools`.

    Attributes:
        added: Names of the tools that the request before, or the start of the run, did not have.
        removed: Names of the tools that it had.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class UsageUpdate(Event, frozen=True):
    """Tokens of one model call, and of the run so far.

    ``purpose`` is the purpose of a call outside the conversation, and empty for a turn.
    """

    turn: int
    usage: Usage
    total: Usage
    purpose: str = ""


class ContextCompacted(Event, frozen=True):
    """The history was replaced by a shorter one.

    Attributes:
        reason: Why, in one word.
        before: Number of messages before.
        after: Number of messages after.
        summary: The text that replaces the earlier messages.
        replaced: The history before, in this process only.
        messages: The new history, in this process only.
    """

    in_process: ClassVar[tuple[str, ...]] = ("replaced", "messages")
    reason: str
    before: int = 0
    after: int = 0
    summary: str = ""
    replaced: tuple[AgentMessage, ...] = ()
    messages: tuple[AgentMessage, ...] = ()

    @classmethod
    def from_messages(cls, reason: str, before: tuple[AgentMessage, ...], after: tuple[AgentMessage, ...]) -> Self:
        """Create the event from both histories. Messages that stay are the same objects."""
        kept = {id(message) for message in before}
        summaries = [m.text for m in after if isinstance(m, Message) and id(m) not in kept]
        return cls(reason, len(before), len(after), "\n\n".join(summaries), before, after)


class LimitWarning(Event, frozen=True):
    """A limit is near or exceeded.

    Attributes:
        limit: The limit: the status of a run that reaches it, ``tool_output``, or ``tool_calls``.
        scope: ``run``, ``session``, ``turn``, or ``ledger`` for the limit of a shared `Ledger`.
        spent: The amount so far, in the unit of the limit: US dollars, tokens, turns, seconds, bytes, or calls.
        max: The limit.
        exceeded: False while the limit is only near.
        tool: The tool whose calls are limited.
        mode: The effect on the tool's calls: ``block`` or ``steer``.
        turn: Number of the turn, for a limit of tools.
        turn_id: ID of the turn, for a limit of tools.
    """

    limit: RunStatus | Literal["tool_output", "tool_calls"]
    scope: str
    spent: float
    max: float
    exceeded: bool = False
    tool: str = ""
    mode: str = ""
    turn: int = 0
    turn_id: str = ""

    @property
    def bytes(self) -> int:
        """Return the size of the results of a turn, for the limit ``tool_output``."""
        return int(self.spent)

    @property
    def budget(self) -> float:
        """Return the limit; the same as ``max``."""
        return self.max


class Notice(Event, frozen=True):
    """A message of the program to the user, for example about a setting that was ignored."""

    text: str
    level: Literal["info", "warn", "error"] = "info"


# --- tools and approvals ----------------------------------------------------------------------------------------------


class ToolExecutionStart(Event, frozen=True):
    """A tool call begins.

    Attributes:
        call: The call.
        label: Display name of the tool, if it has one.
        source: Where the tool comes from: an MCP server, a skill, ...
        display: How a front end shows the call.
    """

    call: ToolUseBlock
    label: str = ""
    source: str = ""
    display: ToolDisplay | None = None


class ToolExecutionUpdate(Event, frozen=True):
    """A tool reports progress: partial output, or title and metadata."""

    call_id: str
    name: str
    output: str = ""
    title: str = ""
    metadata: dict[str, Any] = field(default_factory=cast("type[dict[str, Any]]", dict))


class ToolExecutionEnd(Event, frozen=True):
    """A call has its result.

    Attributes:
        call: The call.
        result: Its result.
        title: One line that describes the result.
        seconds: Duration of the tool itself.
        status: How the call ended. ``skipped`` calls did not run, for example after an abort.
        display: How a front end shows the result.
        has_output: Whether the result is the output of the tool, or of a handler in its place, and not a text of the loop; in this
            process only.
        exception: The exception of the tool, also if a handler of `tool:error` replaced its result; in this process only.
    """

    in_process: ClassVar[tuple[str, ...]] = ("has_output", "exception")
    call: ToolUseBlock
    result: ToolResultBlock
    title: str = ""
    seconds: float = 0.0
    status: Literal["ok", "error", "denied", "skipped"] = "ok"
    display: ToolDisplay | None = None
    has_output: bool = True
    exception: Exception | None = None


class ToolInputCoerced(Event, frozen=True):
    """Arguments of a call were corrected, for example a number in quotation marks.

    Attributes:
        call_id: ID of the call.
        name: Name of the tool.
        coercions: The path of each corrected value, with the rule that applied: ``$.count: string-to-number``.
        repaired: Whether they were invalid JSON.
        turn_id: ID of the turn.
        display_name: The name under which the model knows the tool.
    """

    call_id: str
    name: str
    coercions: tuple[str, ...]
    repaired: bool = False
    turn_id: str = ""
    display_name: str = ""


class ApprovalRequest(Event, frozen=True):
    """A call waits for approval.

    Attributes:
        id: ID of the approval, with which it is answered.
        call: The call, with the arguments that it will use.
        action: The verb: ``read``, ``write``, ``delete``, ``run``, ``connect``, ``call``.
        resource: The object: a path, the whole command line, a host.
        scope: The scope in rules: ``fs-write``.
        reason: Why approval is needed.
        rule: The rule that asks, with its place; empty if no rule does.
        suggestions: The rules that would allow the call from now on; empty if no rule can.
        number: Counts the approvals of a durable run from 1; 0 elsewhere.
        agent: The subagent that makes the call; empty for the agent itself.
        more: Number of requests of the same pause that follow this one.
        display: How a front end shows the call, with the exact changes that it would make.
        wider: Wider alternatives to the suggestions.
        choices: The decisions that a front end offers, in order: ``label`` is the text of a list entry, ``description`` that of a button.
        choose_hunks: Whether the user may allow only some of the changes in ``display``.
    """

    id: str
    call: ToolUseBlock
    action: str = ""
    resource: str = ""
    scope: str = ""
    reason: str = ""
    rule: str = ""
    suggestions: tuple[str, ...] = ()
    number: int = 0
    agent: str = ""
    display: ToolDisplay | None = None
    wider: tuple[str, ...] = ()
    choices: tuple[Option, ...] = ()
    choose_hunks: bool = False
    more: int = 0


class ApprovalResult(Event, frozen=True):
    """An approval was decided, or canceled because the run was aborted (``aborted``)."""

    id: str
    decision: Literal["once", "session", "edits", "always", "everywhere", "edit", "deny", "never", "aborted"]
    reason: str = ""


# --- features ---------------------------------------------------------------------------------------------------------


class McpStartup(Event, frozen=True):
    """An MCP server is being connected at warm-up, or, with ``seconds``, has been connected or failed (``error``).

    All of them begin before the first one ends.
    """

    server: str
    seconds: float | None = None
    tool_count: int = 0
    error: ErrorInfo | None = None

    @property
    def ok(self) -> bool:
        """Return True if the server is connected."""
        return self.seconds is not None and self.error is None


class McpServer(Event, frozen=True):
    """An MCP server is connected, or failed (``error``). ``exception`` is the failure itself, in this process only."""

    in_process: ClassVar[tuple[str, ...]] = ("exception",)
    server: str
    tools: tuple[str, ...] = ()
    seconds: float = 0.0
    error: ErrorInfo | None = None
    exception: Exception | None = None


class SkillChange(Event, frozen=True):
    """A skill became active or inactive.

    ``reason`` is the cause: ``model``, ``explicit``, ``trigger``, or ``resume``; ``run-end``, ``explicit``, or ``reset``.
    ``skill`` is the skill itself, in this process only.
    """

    in_process: ClassVar[tuple[str, ...]] = ("skill",)
    name: str
    active: bool
    reason: str
    skill: Any = None

    @property
    def via(self) -> str:
        """Return the cause of an activation; empty for a deactivation."""
        return self.reason if self.active else ""


class OauthRefresh(Event, frozen=True):
    """The token of a login was renewed. The event does not contain a token.

    Attributes:
        provider: The provider.
        account: The account; empty if unknown.
        expires: End of the new token in seconds since 1970.
        reason: ``expired`` if the old token was about to expire, ``refused`` if the host rejected it.
    """

    provider: str
    account: str
    expires: float | None
    reason: Literal["expired", "refused"]


# --- subagents --------------------------------------------------------------------------------------------------------


class AgentHandoff(Event, frozen=True):
    """Another agent continues the conversation.

    Attributes:
        previous: Name of the agent that handed off.
        agent: Name of the agent that continues.
        model: Its model, as ``provider:model``.
        resumed: Whether the handoff was in an earlier run of the conversation.
    """

    previous: str
    agent: str
    model: str = ""
    resumed: bool = False


class SubagentStart(Event, frozen=True):
    """A subagent starts.

    Attributes:
        id: Its ID, unique among the subagents of the outermost run.
        name: The name of its definition; empty for a plain one.
        task: Its task.
        depth: Its nesting depth; 1 for a subagent of the main agent.
    """

    id: str
    name: str
    task: str
    depth: int = 1


class SubagentEvent(Event, frozen=True):
    """An event of a subagent. ``path`` contains the IDs of the subagents from the outermost one to its own."""

    path: tuple[str, ...]
    event: RunEvent

    @property
    def id(self) -> str:
        """Return the ID of the subagent."""
        return self.path[-1]

    @property
    def child_id(self) -> str:
        """Return the ID of the subagent, by the name that its hooks have for it."""
        return self.path[-1]

    @property
    def depth(self) -> int:
        """Return its nesting depth: 1 for a subagent of the agent that gets the event."""
        return len(self.path)


class SubagentEnd(Event, frozen=True):
    """A subagent has ended.

    Attributes:
        id: Its ID.
        name: The name of its definition; empty for a plain one.
        task: Its task.
        depth: Its nesting depth.
        text: Its last response.
        stats: Its figures and its status.
        error: The failure, if it failed or was stopped.
        exception: The failure itself, in this process only.
    """

    in_process: ClassVar[tuple[str, ...]] = ("exception",)
    id: str
    name: str
    task: str
    depth: int
    stats: SubagentStats
    text: str = ""
    error: ErrorInfo | None = None
    exception: BaseException | None = None


RunEvent = (
    AgentStart
    | AttemptStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageEnd
    | ContentEvent
    | ModelCallRetry
    | ToolsChange
    | UsageUpdate
    | ContextCompacted
    | LimitWarning
    | Notice
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | ToolInputCoerced
    | ApprovalRequest
    | ApprovalResult
    | McpStartup
    | McpServer
    | SkillChange
    | OauthRefresh
    | AgentHandoff
    | SubagentStart
    | SubagentEvent
    | SubagentEnd
)
"""The vocabulary of a run: every event that leaves the process. A follower of a run sees some of these, and no others."""
