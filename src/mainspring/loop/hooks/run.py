"""The hooks of a run: for each, the context that its handlers get and may change.

A handler takes the context, sync or async, and either changes its fields or returns a mapping of fields to set; the last
writer wins. An invalid value is an error of the handler, like an exception. Three kinds of hooks:

- *observers* get information; their exceptions are logged, and the run continues,
- *transforms* may change the context; their exceptions are logged, and earlier changes apply,
- *gates* decide; an exception blocks (fail closed), and the first gate that blocks ends the check.

A context is created only if a handler is registered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args

from msgspec import Struct

from mainspring.errors import AgentError, ModelError
from mainspring.events.base import AgentStats, RunStatus
from mainspring.events.types import MessageSource
from mainspring.loop.hooks.base import (
    require_message_tuple,
    require_messages,
    require_text_or_messages,
    text,
    validated_property,
)
from mainspring.messages import AgentMessage, Message, ToolResultBlock, Usage, to_messages

if TYPE_CHECKING:
    from mainspring.models import ModelProvider, ModelRequest


class SideModelCall(Protocol):
    """Calls a model outside the conversation: to select, summarize, name, or sample something."""

    async def __call__(self, purpose: str, request: ModelRequest, *, model: ModelProvider | None = None) -> Message:
        """Call the model with the run's retries, and count the call in the run's usage and limits. Ends with the run.

        Args:
            purpose: The purpose in one word, which usage reports contain: for example, ``title`` or ``summary``.
            request: The request.
            model: The model (default: the run's model).

        Raises:
            ModelError: If the call failed.
            AgentError: If the run reached a limit, or ended.
        """
        ...


class SubagentIdentity(Struct, frozen=True):
    """The identity of a subagent, as hooks and events report it.

    Attributes:
        id: Its ID, unique among the subagents of the outermost run.
        name: The name of its definition; empty for a plain one.
        depth: Its nesting depth; 1 for a subagent of the main agent.
    """

    id: str
    name: str
    depth: int


class Hook:
    """Base of all contexts.

    Attributes:
        event: The name that `on` takes as text.
        gate: True if an exception of a handler blocks.
        must_finish: True if all handlers are called even if the run is being cancelled, so that stored data is complete.
        mutable: Fields that a handler may change; all other fields are read-only.
        when: The time at which it fires, for the docs.
        side_call: Calls a model outside the conversation; available in every hook of a run.
        deps: The dependencies of the run: the value of ``agent.run(..., deps=...)``; available in every hook of a run.
        subagent: The subagent whose hook this is; not set for the agent's own.
    """

    event: ClassVar[str] = ""
    gate: ClassVar[bool] = False
    must_finish: ClassVar[bool] = False
    mutable: ClassVar[tuple[str, ...]] = ()
    when: ClassVar[str] = ""
    __slots__ = ("deps", "side_call", "subagent")
    deps: Any
    side_call: SideModelCall
    subagent: SubagentIdentity

    @property
    def child_id(self) -> str:
        """The ID of the subagent; empty for a hook of the agent itself."""
        return self.subagent.id if hasattr(self, "subagent") else ""

    @property
    def child(self) -> str:
        """The name of the subagent's definition; empty for a plain one, and for the agent itself."""
        return self.subagent.name if hasattr(self, "subagent") else ""

    @property
    def depth(self) -> int:
        """The nesting depth: 1 for a subagent of the main agent, 0 for the agent itself."""
        return self.subagent.depth if hasattr(self, "subagent") else 0

    @property
    def is_decided(self) -> bool:
        """True if the remaining handlers must not be called."""
        return False

    def block_on_error(self, reason: str) -> None:
        """Block because a handler of this gate raised."""


class SessionStart(Hook):
    """A run begins, before its prompt joins the history.

    ``system`` is the system prompt; ``has_own_system`` is True if it belongs to this run only.
    """

    event = "session:start"
    must_finish = True
    when = "First, before the prompt joins the history."
    __slots__ = ("agent", "has_own_system", "resumed", "run_id", "system")

    def __init__(
        self, run_id: str, agent: str, resumed: bool, system: str = "", *, has_own_system: bool = False
    ) -> None:
        self.run_id = run_id
        self.agent = agent
        self.resumed = resumed
        self.system = system
        self.has_own_system = has_own_system


class MessagesAdded(Hook):
    """Messages join the history. Stores write them here; the next request waits for it.

    A message with tool calls is not included: see `ToolCallsReceived` and `ToolResultsAfter`.
    """

    event = "session:turns"
    must_finish = True
    when = "Whenever messages join, including the prompt, before the next request."
    __slots__ = ("messages", "run_id", "source")

    def __init__(self, run_id: str, messages: tuple[AgentMessage, ...], source: MessageSource) -> None:
        self.run_id = run_id
        self.messages = messages
        self.source = source


class SessionEnd(Hook):
    """A run has ended, for any reason.

    ``turns`` is the number of its turns, which are counted from 1. ``reason`` is the reason of an abort. ``stats`` has the figures
    of the run, and ``output`` its output: the structured one, which is complete at `agent:done`, otherwise the text.
    ``turn_range`` has the positions in `Session.turns` of the first and the last one that the run added, counted from 0; it is
    ``None`` if none was added.
    """

    event = "session:end"
    must_finish = True
    when = "At the end of a run, however it ends."
    __slots__ = ("_run_output", "error", "reason", "run_id", "stats", "status", "turn_range", "turns", "usage")

    def __init__(
        self,
        run_id: str,
        status: RunStatus,
        turns: int,
        usage: Usage,
        error: BaseException | None,
        reason: str = "",
        *,
        output: Any = None,
        stats: AgentStats | None = None,
    ) -> None:
        self.run_id = run_id
        self.status: RunStatus = status
        self.turns = turns
        self.usage = usage
        self.error = error
        self.reason = reason
        self._run_output = output
        self.stats = stats or AgentStats(turns=turns, usage=usage)
        self.turn_range: tuple[int, int] | None = None

    @property
    def output(self) -> Any:
        """The output of the run."""
        return self._run_output

    def correct(self, status: RunStatus, error: AgentError | None = None) -> None:
        """Correct how the run ended: for a policy that checks its result, before the handlers that store it."""
        self.status, self.error = status, self.error or error


class ContextTransform(Hook):
    """The messages of the next request, before they are converted for the model.

    ``messages`` may be replaced.

    The history stays unchanged, unless a handler replaces it with a shorter one (`compact`).
    """

    event = "context:transform"
    mutable = ("messages",)
    when = "Before each request, first."
    __slots__ = ("_messages", "replace", "turn", "turn_id")
    messages: list[AgentMessage] = validated_property("_messages", require_messages)

    def __init__(self, messages: list[AgentMessage], turn: int, turn_id: str) -> None:
        self._messages = messages
        self.turn = turn
        self.turn_id = turn_id
        self.replace: Callable[[Sequence[AgentMessage], str], Awaitable[None]] | None = None

    async def compact(self, messages: Sequence[AgentMessage], reason: str) -> None:
        """Replace the history with a shorter one, which this request uses, too.

        `context:compacted` fires.

        Args:
            messages: The new history. Messages that stay must be the same objects.
            reason: Why, in one word.
        """
        if self.replace is not None:
            await self.replace(messages, reason)
        self._messages = list(messages)


class SystemTransform(Hook):
    """The system prompt of the next request. ``system`` may be replaced."""

    event = "system:transform"
    mutable = ("system",)
    when = "Before each request, after `context:transform`."
    __slots__ = ("_system", "turn", "turn_id")
    system: str = validated_property("_system", text)

    def __init__(self, system: str, turn: int, turn_id: str) -> None:
        self._system = system
        self.turn = turn
        self.turn_id = turn_id


def _status(value: Any) -> RunStatus | None:
    if value is not None and value not in get_args(RunStatus):
        raise TypeError(f"Invalid status: {value!r}. Use one of {', '.join(get_args(RunStatus))}.")
    return value


class TurnBefore(Hook):
    """A request is about to be sent. Every field of ``request`` may be changed.

    Set ``stop`` to a status, such as ``max_cost``, to end the run with it instead of sending the request.
    """

    event = "turn:before"
    mutable = ("request", "stop")
    when = "Before each request, when it is complete."
    __slots__ = ("_request", "_stop", "tool_counts", "turn", "turn_id")
    stop: RunStatus | None = validated_property("_stop", _status)

    def __init__(self, turn: int, turn_id: str, request: ModelRequest, tool_counts: Mapping[str, int]) -> None:
        self.turn = turn
        self.turn_id = turn_id
        self._request = request
        self.tool_counts = tool_counts
        self._stop = None

    @property
    def request(self) -> ModelRequest:
        """The request that is about to be sent. Change its fields, or replace it."""
        return self._request

    @request.setter
    def request(self, request: ModelRequest) -> None:
        if not isinstance(request, type(self._request)):
            raise TypeError(f"A request must be a ModelRequest, not {type(request).__name__}.")
        self._request = request


class TurnAfter(Hook):
    """A model call has ended.

    Set ``continue_with`` to messages that continue a run that would stop.

    After a failed call, ``usage`` is zero and ``error`` is set.
    """

    event = "turn:after"
    must_finish = True
    mutable = ("continue_with",)
    when = "After each model call, including failed ones, before its tool calls are checked."
    __slots__ = ("_continue_with", "error", "message", "tool_counts", "turn", "turn_id", "usage")
    continue_with: str | Sequence[AgentMessage] = validated_property("_continue_with", require_text_or_messages)

    def __init__(
        self,
        turn: int,
        turn_id: str,
        message: Message,
        usage: Usage,
        tool_counts: Mapping[str, int],
        error: BaseException | None = None,
    ) -> None:
        self.turn = turn
        self.turn_id = turn_id
        self.message = message
        self.usage = usage
        self.tool_counts = tool_counts
        self.error = error
        self._continue_with = ()


class BeforeInject(Hook):
    """Messages from `steer` or `follow_up` are about to join. ``messages`` may be replaced."""

    event = "steer:inject"
    mutable = ("messages",)
    when = "When queued messages are taken, before they join."
    __slots__ = ("_messages", "kind")
    messages: list[AgentMessage] = validated_property("_messages", require_messages)

    def __init__(self, kind: Literal["steer", "follow_up"], messages: list[AgentMessage]) -> None:
        self.kind = kind
        self._messages = messages


class ModelErrorHook(Hook):
    """A model call failed and will not be retried automatically. A handler may call `retry`."""

    event = "model:error"
    mutable = ("messages", "should_retry")
    when = "After a failed model call, before the run fails."
    __slots__ = ("_messages", "attempt", "error", "should_retry", "turn", "turn_id")
    messages: tuple[AgentMessage, ...] = validated_property("_messages", require_message_tuple)

    def __init__(
        self, turn: int, turn_id: str, error: ModelError, messages: tuple[AgentMessage, ...], attempt: int
    ) -> None:
        self.turn = turn
        self.turn_id = turn_id
        self.error = error
        self._messages = messages
        self.attempt = attempt
        self.should_retry = False

    @property
    def is_decided(self) -> bool:
        return self.should_retry

    def retry(self, messages: str | Sequence[AgentMessage] | None = None) -> None:
        """Repeat the request; ``messages``, if any, replace the history (a compaction)."""
        self.should_retry = True
        if messages is not None:
            self._messages = tuple(to_messages(messages))


class ToolCallsReceived(Hook):
    """The model requested tool calls.

    Stores write the message here, before any of its calls is checked.
    """

    event = "tool:intent"
    must_finish = True
    when = "When a response has tool calls, before any of them is checked."
    __slots__ = ("message", "run_id")

    def __init__(self, run_id: str, message: Message) -> None:
        self.run_id = run_id
        self.message = message


class ToolResultsAfter(Hook):
    """All calls of a message have their result.

    Stores add the pair to the history here, in one write.

    Messages in ``follow`` join right after the pair, before the next model call.
    """

    event = "tool-results:after"
    must_finish = True
    mutable = ("follow",)
    when = "When every call of a response has its result."
    __slots__ = ("_follow", "message", "results", "run_id")
    follow: list[AgentMessage] = validated_property("_follow", require_messages)

    def __init__(self, run_id: str, message: Message, results: Message) -> None:
        self.run_id = run_id
        self.message = message
        self.results = results
        self._follow: list[AgentMessage] = []


class RunPaused(Hook):
    """The run stops with calls that wait for an approval.

    Another process can resume it from the stored state.
    """

    event = "run:pause"
    must_finish = True
    when = "When calls wait for an approval, before `session:end`."
    __slots__ = ("message", "reasons", "results", "run_id")

    def __init__(
        self, run_id: str, message: Message, results: Mapping[str, ToolResultBlock], reasons: Mapping[str, str]
    ) -> None:
        self.run_id = run_id
        self.message = message
        self.results = results
        self.reasons = reasons
