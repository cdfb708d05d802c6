"""The hooks of a run: for each, the context that its handlers get and may change.

A handler takes the context, sync or async, and either changes its fields or returns a mapping of fields to set; the last
writer wins. Three kinds:

- *observers* are told; what they raise is logged and the run goes on,
- *transforms* may change what they are given; what they raise is logged, and what they did until then stands,
- *gates* decide; one that raises blocks (fail closed), and the first that blocks ends the round.

Contexts are made only when somebody listens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mainspring.errors import ModelError
from mainspring.events.agent import RunStatus
from mainspring.messages import AgentMessage, Message, ToolResultBlock, ToolUseBlock, Usage, as_messages

if TYPE_CHECKING:
    from mainspring.env import ExecutionEnv
    from mainspring.models import ModelRequest
    from mainspring.tools import Tool, ToolOutput, ToolResult


class Hook:
    """Base of all contexts. ``event`` is the name that `on` takes as text; ``gate`` says whether a failure blocks."""

    event: ClassVar[str] = ""
    gate: ClassVar[bool] = False
    __slots__ = ()

    @property
    def settled(self) -> bool:
        """Whether further handlers need not be asked."""
        return False

    def fail_closed(self, reason: str) -> None:
        """What a gate does when one of its handlers raised."""


class SessionStart(Hook):
    """A run begins, before its prompt joins the history."""

    event = "session:start"
    __slots__ = ("agent", "resumed", "run_id")

    def __init__(self, run_id: str, agent: str, resumed: bool) -> None:
        self.run_id = run_id
        self.agent = agent
        self.resumed = resumed


TurnSource = Literal["prompt", "steer", "follow_up", "assistant", "synthetic"]
"""Why a message joins: asked for, injected, answered by the model, or added by the loop or a policy."""


class SessionTurns(Hook):
    """Messages that join the history now. Stores write them here; the next request waits for it.

    A message with tool calls does not come here: see `ToolIntent` and `ToolResultsAfter`.
    """

    event = "session:turns"
    __slots__ = ("messages", "run_id", "source")

    def __init__(self, run_id: str, messages: tuple[AgentMessage, ...], source: TurnSource) -> None:
        self.run_id = run_id
        self.messages = messages
        self.source = source


class SessionEnd(Hook):
    """A run is over, however it ended."""

    event = "session:end"
    __slots__ = ("error", "run_id", "status", "turns", "usage")

    def __init__(self, run_id: str, status: RunStatus, turns: int, usage: Usage, error: BaseException | None) -> None:
        self.run_id = run_id
        self.status = status
        self.turns = turns
        self.usage = usage
        self.error = error


class ContextTransform(Hook):
    """The messages of the next request, before they are converted for the model. ``messages`` may be replaced; the
    history itself stays as it is.
    """

    event = "context:transform"
    __slots__ = ("messages", "turn", "turn_id")

    def __init__(self, messages: list[AgentMessage], turn: int, turn_id: str) -> None:
        self.messages = messages
        self.turn = turn
        self.turn_id = turn_id


class SystemTransform(Hook):
    """The system prompt of the next request. ``system`` may be replaced."""

    event = "system:transform"
    __slots__ = ("system", "turn", "turn_id")

    def __init__(self, system: str, turn: int, turn_id: str) -> None:
        self.system = system
        self.turn = turn
        self.turn_id = turn_id


class TurnBefore(Hook):
    """A request is about to be sent. Every field of ``request`` may be changed."""

    event = "turn:before"
    __slots__ = ("request", "tool_counts", "turn", "turn_id")

    def __init__(self, turn: int, turn_id: str, request: ModelRequest, tool_counts: Mapping[str, int]) -> None:
        self.turn = turn
        self.turn_id = turn_id
        self.request = request
        self.tool_counts = tool_counts


class TurnAfter(Hook):
    """A model call is over. ``continue_with`` may be set to messages that keep the run going where it would stop.

    After a failed call ``usage`` is zero and ``error`` is set.
    """

    event = "turn:after"
    __slots__ = ("continue_with", "error", "message", "tool_counts", "turn", "turn_id", "usage")

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
        self.continue_with: str | Sequence[AgentMessage] = ()


class UsageUpdate(Hook):
    """Tokens of one model call, and of the run so far."""

    event = "usage"
    __slots__ = ("total", "turn", "usage")

    def __init__(self, turn: int, usage: Usage, total: Usage) -> None:
        self.turn = turn
        self.usage = usage
        self.total = total


class StreamText(Hook):
    """A piece of the answer's text."""

    event = "stream:text"
    __slots__ = ("text", "turn_id")

    def __init__(self, text: str, turn_id: str) -> None:
        self.text = text
        self.turn_id = turn_id


class StreamThinking(Hook):
    """A piece of the model's reasoning."""

    event = "stream:thinking"
    __slots__ = ("thinking", "turn_id")

    def __init__(self, thinking: str, turn_id: str) -> None:
        self.thinking = thinking
        self.turn_id = turn_id


class StreamEnd(Hook):
    """The answer's text is complete; comes only where there is text."""

    event = "stream:end"
    __slots__ = ("text", "turn_id")

    def __init__(self, text: str, turn_id: str) -> None:
        self.text = text
        self.turn_id = turn_id


class SteerInject(Hook):
    """Messages from `steer` or `follow_up` are about to join; ``messages`` may be replaced."""

    event = "steer:inject"
    __slots__ = ("kind", "messages")

    def __init__(self, kind: Literal["steer", "follow_up"], messages: list[AgentMessage]) -> None:
        self.kind = kind
        self.messages = messages


class ModelErrorHook(Hook):
    """A model call failed for good (after its retries). A handler may answer `retry`."""

    event = "model:error"
    __slots__ = ("attempt", "error", "messages", "retrying", "turn", "turn_id")

    def __init__(
        self, turn: int, turn_id: str, error: ModelError, messages: tuple[AgentMessage, ...], attempt: int
    ) -> None:
        self.turn = turn
        self.turn_id = turn_id
        self.error = error
        self.messages = messages
        self.attempt = attempt
        self.retrying = False

    @property
    def settled(self) -> bool:
        return self.retrying

    def retry(self, messages: str | Sequence[AgentMessage] | None = None) -> None:
        """Ask again, with other messages in place of the history where given (a compaction)."""
        self.retrying = True
        if messages is not None:
            self.messages = tuple(as_messages(messages))


class ContextCompacted(Hook):
    """The history was replaced by a shorter one."""

    event = "context:compacted"
    __slots__ = ("after", "before", "reason")

    def __init__(self, before: tuple[AgentMessage, ...], after: tuple[AgentMessage, ...], reason: str) -> None:
        self.before = before
        self.after = after
        self.reason = reason


class AgentAbort(Hook):
    """The run is being aborted."""

    event = "agent:abort"
    __slots__ = ("reason", "run_id")

    def __init__(self, run_id: str, reason: str) -> None:
        self.run_id = run_id
        self.reason = reason


class AgentDone(Hook):
    """The very last hook of a run, on every way out."""

    event = "agent:done"
    __slots__ = ("error", "run_id", "status", "turns", "usage")

    def __init__(self, run_id: str, status: RunStatus, turns: int, usage: Usage, error: BaseException | None) -> None:
        self.run_id = run_id
        self.status = status
        self.turns = turns
        self.usage = usage
        self.error = error


class _Call(Hook):
    """What all tool hooks know of their call."""

    __slots__ = ("call_id", "display_name", "input", "name", "turn_id")

    def __init__(self, call: ToolUseBlock, turn_id: str, display_name: str = "") -> None:
        self.turn_id = turn_id
        self.call_id = call.id
        self.name = call.name
        self.display_name = display_name or call.name
        self.input: dict[str, Any] = call.input


class ToolGate(_Call):
    """The early gate, on the arguments as the model gave them.

    Set ``block`` (True or a reason) and the call does not happen; set ``result`` and that is what it gives, without
    running the tool. ``block`` beats ``result``.
    """

    event = "tool:gate"
    gate = True
    __slots__ = ("block", "pause", "reason", "result", "tool_counts")

    def __init__(
        self, call: ToolUseBlock, turn_id: str, tool_counts: Mapping[str, int], display_name: str = ""
    ) -> None:
        super().__init__(call, turn_id, display_name)
        self.tool_counts = tool_counts
        self.block: str | bool = False
        self.reason = ""
        self.result: ToolResult | ToolOutput | None = None
        self.pause = ""

    @property
    def settled(self) -> bool:
        return bool(self.block or self.pause)

    def fail_closed(self, reason: str) -> None:
        self.block = reason


class ToolUnknown(_Call):
    """There is no tool of that name. ``result`` replaces what the model is told; ``suppress_error`` skips `tool:error`."""

    event = "tool:unknown"
    __slots__ = ("result", "suppress_error")

    def __init__(self, call: ToolUseBlock, turn_id: str) -> None:
        super().__init__(call, turn_id)
        self.result: ToolResult | ToolOutput | None = None
        self.suppress_error = False


class ValidationReject(_Call):
    """The arguments do not fit and cannot be made to; ``error`` is what the model is told."""

    event = "validation:reject"
    __slots__ = ("error", "raw")

    def __init__(self, call: ToolUseBlock, turn_id: str, error: str) -> None:
        super().__init__(call, turn_id)
        self.error = error
        self.raw = call.raw_input


class ValidationCoerce(_Call):
    """Arguments were coerced; ``coercions`` say where and how, ``repaired`` that the text was no proper JSON."""

    event = "validation:coerce"
    __slots__ = ("coercions", "repaired")

    def __init__(self, call: ToolUseBlock, turn_id: str, coercions: Sequence[Any], repaired: bool) -> None:
        super().__init__(call, turn_id)
        self.coercions = coercions
        self.repaired = repaired


class ToolBefore(_Call):
    """The call is valid. ``input`` may be replaced; what comes out is validated again and then judged by `ToolPermit`."""

    event = "tool:before"
    __slots__ = ("coercions", "tool_counts")

    def __init__(
        self,
        call: ToolUseBlock,
        turn_id: str,
        arguments: dict[str, Any],
        coercions: Sequence[Any],
        tool_counts: Mapping[str, int],
    ) -> None:
        super().__init__(call, turn_id)
        self.input = arguments
        self.coercions = coercions
        self.tool_counts = tool_counts


class ToolPermit(_Call):
    """The decision on the final arguments, right before the tool runs. Nothing here can change the call; a refusal can
    not be taken back.

    Attributes:
        input: The final arguments (a copy).
        original: The arguments as the model gave them.
        tool: The tool.
        env: Where it will run, to look at paths.
        denied: The reasons given so far.
    """

    event = "tool:permit"
    gate = True
    __slots__ = ("_denied", "_paths", "_paused", "_stop", "env", "original", "tool")

    def __init__(
        self, call: ToolUseBlock, turn_id: str, arguments: dict[str, Any], tool: Tool, env: ExecutionEnv
    ) -> None:
        super().__init__(call, turn_id)
        self.input = arguments
        self.original = call.input
        self.tool = tool
        self.env = env
        self._denied: list[str] = []
        self._paths: dict[str, str] = {}
        self._paused = ""
        self._stop = False

    @property
    def settled(self) -> bool:
        return bool(self._denied or self._paused)

    @property
    def denied(self) -> tuple[str, ...]:
        """Why it was refused; empty while it is not."""
        return tuple(self._denied)

    @property
    def paused(self) -> str:
        """What is to be answered before it can go on; empty if nothing is."""
        return self._paused

    @property
    def stops(self) -> bool:
        """Whether the refusal is to end the run."""
        return self._stop

    @property
    def paths(self) -> dict[str, str]:
        """For each path as spelled in the call, the real one that was permitted."""
        return self._paths

    def deny(self, reason: str, *, stop: bool = False) -> None:
        """Refuse; ``reason`` is told to the model. With ``stop`` the run ends as ``denied`` after this turn."""
        self._denied.append(reason)
        self._stop = self._stop or stop

    def pause(self, reason: str) -> None:
        """Somebody must answer first: the run ends as ``paused`` and can be taken up later, elsewhere."""
        self._paused = reason

    def allow_path(self, spelled: str, real: str) -> None:
        """Bind a path of the call to the real one that was judged; the tool uses that."""
        self._paths[spelled] = real

    def fail_closed(self, reason: str) -> None:
        self._denied.append(reason)


class ToolIntent(Hook):
    """The model asked for tools. Stores write the message here, before any of its calls is looked at."""

    event = "tool:intent"
    __slots__ = ("message", "run_id")

    def __init__(self, run_id: str, message: Message) -> None:
        self.run_id = run_id
        self.message = message


class ToolStart(_Call):
    """The last thing before the tool runs: stores note that it was started. A handler that raises keeps it from running."""

    event = "tool:start"
    gate = True
    __slots__ = ("block", "idempotent")

    def __init__(self, call: ToolUseBlock, turn_id: str, arguments: dict[str, Any], idempotent: bool) -> None:
        super().__init__(call, turn_id)
        self.input = arguments
        self.idempotent = idempotent
        self.block = ""

    @property
    def settled(self) -> bool:
        return bool(self.block)

    def fail_closed(self, reason: str) -> None:
        self.block = reason


class ToolErrorHook(_Call):
    """The call failed: the tool raised, or there is none of that name. ``result`` may give what the model gets instead."""

    event = "tool:error"
    __slots__ = ("error", "result")

    def __init__(self, call: ToolUseBlock, turn_id: str, error: BaseException) -> None:
        super().__init__(call, turn_id)
        self.error = error
        self.result: ToolResult | ToolOutput | None = None


class ToolTransform(_Call):
    """What the tool gave, before the model sees it. ``result`` (output, ``is_error``, metadata) may be changed or replaced."""

    event = "tool:transform"
    __slots__ = ("output_bytes", "result")

    def __init__(
        self, call: ToolUseBlock, turn_id: str, arguments: dict[str, Any], result: ToolResult, output_bytes: int
    ) -> None:
        super().__init__(call, turn_id)
        self.input = arguments
        self.result = result
        self.output_bytes = output_bytes


class ToolAfter(_Call):
    """A call has its final result. Stores write it here."""

    event = "tool:after"
    __slots__ = ("is_error", "metadata", "output_bytes", "result", "seconds", "tool_counts")

    def __init__(
        self,
        call: ToolUseBlock,
        turn_id: str,
        result: ToolResultBlock,
        *,
        output_bytes: int,
        seconds: float,
        metadata: dict[str, Any],
        tool_counts: Mapping[str, int],
    ) -> None:
        super().__init__(call, turn_id)
        self.result = result
        self.is_error = result.is_error
        self.output_bytes = output_bytes
        self.seconds = seconds
        self.metadata = metadata
        self.tool_counts = tool_counts


class ToolResultsAfter(Hook):
    """All calls of a message have their result. Stores join the pair with the history here, in one write."""

    event = "tool-results:after"
    __slots__ = ("message", "results", "run_id")

    def __init__(self, run_id: str, message: Message, results: Message) -> None:
        self.run_id = run_id
        self.message = message
        self.results = results


class RunPause(Hook):
    """The run stops with calls that wait for an answer. What is stored now can be taken up in another process."""

    event = "run:pause"
    __slots__ = ("message", "reasons", "results", "run_id")

    def __init__(
        self, run_id: str, message: Message, results: Mapping[str, ToolResultBlock], reasons: Mapping[str, str]
    ) -> None:
        self.run_id = run_id
        self.message = message
        self.results = results
        self.reasons = reasons


def _all() -> dict[str, type[Hook]]:
    found: dict[str, type[Hook]] = {}
    queue: list[type[Hook]] = [Hook]
    while queue:
        kind = queue.pop()
        queue.extend(kind.__subclasses__())
        if kind.event:
            found[kind.event] = kind
    return dict(sorted(found.items()))


HOOKS: dict[str, type[Hook]] = _all()
"""Every hook by its name."""
