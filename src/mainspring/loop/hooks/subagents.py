"""The hooks of subagents that their parents receive.

Each `child:*` hook wraps the context of the subagent's hook: its fields are those of that context, so a parent decides with
the same fields (``block``, ``result``, ``input``) as the subagent. A hook of a nested subagent reaches every agent above it,
with the ID and depth of the nested subagent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from mainspring.loop.hooks.base import text, validated_property
from mainspring.loop.hooks.features import McpToolGate
from mainspring.loop.hooks.run import Hook, StreamEnd, StreamText, StreamThinking, TurnAfter
from mainspring.loop.hooks.tools import ToolBefore, ToolFailed, ToolFinished, ToolGate

if TYPE_CHECKING:
    from mainspring.events.types import RunStatus, SubagentStats


class _SpawnHook(Hook):
    """The fields that all spawn hooks have."""

    __slots__ = ("_task", "child", "child_id", "depth")
    task: str = validated_property("_task", text)

    def __init__(self, child_id: str, child: str, depth: int, task: str) -> None:
        self.child_id = child_id
        self.child = child
        self.depth = depth
        self._task = task


class BeforeSpawn(_SpawnHook):
    """A subagent is about to run.

    ``task`` may be replaced; ``block`` (True or a reason) prevents the run.

    ``child`` is the name of its definition, ``child_id`` its ID, ``depth`` its level (1 for a subagent of the outermost agent),
    ``agent`` the subagent itself, on which you can register handlers.
    """

    event = "spawn:before"
    gate = True
    mutable = ("task", "block")
    when = "When a subagent was created and has a slot to run, before it runs."
    __slots__ = ("agent", "block")

    def __init__(self, child_id: str, child: str, depth: int, task: str, agent: Any) -> None:
        super().__init__(child_id, child, depth, task)
        self.agent = agent
        self.block: str | bool = False

    @property
    def is_decided(self) -> bool:
        return bool(self.block)

    def block_on_error(self, reason: str) -> None:
        self.block = reason


class SpawnComplete(_SpawnHook):
    """A subagent has ended, normally or at a limit.

    ``text`` is its last response, ``stats`` are its figures (`SubagentStats`).
    """

    event = "spawn:complete"
    when = "When a subagent has ended, before its parent gets the response."
    __slots__ = ("stats", "status", "text")

    def __init__(
        self, child_id: str, child: str, depth: int, task: str, *, text: str, status: RunStatus, stats: SubagentStats
    ) -> None:
        super().__init__(child_id, child, depth, task)
        self.text = text
        self.status = status
        self.stats = stats


class SpawnError(_SpawnHook):
    """A subagent failed or was stopped.

    ``stats`` (`SubagentStats`) contain its usage so far. Its parent continues.
    """

    event = "spawn:error"
    when = "When a subagent failed, was stopped, or could not be created."
    __slots__ = ("error", "stats", "status")

    def __init__(
        self,
        child_id: str,
        child: str,
        depth: int,
        task: str,
        *,
        error: BaseException,
        status: RunStatus,
        stats: SubagentStats,
    ) -> None:
        super().__init__(child_id, child, depth, task)
        self.error = error
        self.status = status
        self.stats = stats


_OWN = frozenset({"child", "child_id", "context", "depth", "side_call"})


class ChildHook(Hook):
    """A hook of a subagent. All fields of the subagent's context can be read and set here.

    Attributes:
        of: The subagent's hook that this hook wraps.
        child_id: The ID of the subagent.
        child: The name of its definition.
        depth: Its nesting depth; 1 for a subagent of the main agent.
        context: The context of the subagent's hook.
    """

    of: ClassVar[type[Hook]]
    __slots__ = ("child", "child_id", "context", "depth")

    def __init__(self, child_id: str, child: str, depth: int, context: Hook) -> None:
        self.child_id = child_id
        self.child = child
        self.depth = depth
        self.context = context

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:  # a slot that was never set
            raise AttributeError(name)
        return getattr(self.context, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.context, name, value)

    @property
    def is_decided(self) -> bool:
        return self.context.is_decided

    def block_on_error(self, reason: str) -> None:
        self.context.block_on_error(reason)


class ChildStreamText(ChildHook):
    """A delta of a subagent's response."""

    event = "child:stream:text"
    of = StreamText
    when = "For each delta of a subagent's text, if a handler was registered when it was spawned."
    __slots__ = ()


class ChildStreamThinking(ChildHook):
    """A delta of a subagent's reasoning."""

    event = "child:stream:thinking"
    of = StreamThinking
    when = "For each delta of a subagent's reasoning, if a handler was registered when it was spawned."
    __slots__ = ()


class ChildStreamEnd(ChildHook):
    """A subagent's response is complete."""

    event = "child:stream:end"
    of = StreamEnd
    when = "When a response of a subagent with text is complete."
    __slots__ = ()


class ChildToolGate(ChildHook):
    """The early gate of a subagent's call: ``block``, ``reason``, and ``result`` have the same effect as for `ToolGate`."""

    event = "child:tool:gate"
    gate = True
    mutable = ("block", "reason", "result", "pause")
    of = ToolGate
    when = "During a subagent's `tool:gate`, after the subagent's own handlers."
    __slots__ = ()


class ChildToolBefore(ChildHook):
    """A subagent's call is valid. ``input`` may be replaced, as for `ToolBefore`."""

    event = "child:tool:before"
    mutable = ("input",)
    of = ToolBefore
    when = "During a subagent's `tool:before`."
    __slots__ = ()


class ChildToolAfter(ChildHook):
    """A subagent's call has its final result."""

    event = "child:tool:after"
    of = ToolFinished
    when = "During a subagent's `tool:after`."
    __slots__ = ()


class ChildToolError(ChildHook):
    """A subagent's call failed.

    ``result`` may replace the error for its model, as for `ToolFailed`.
    """

    event = "child:tool:error"
    mutable = ("result",)
    of = ToolFailed
    when = "During a subagent's `tool:error`."
    __slots__ = ()


class ChildMcpToolGate(ChildHook):
    """The gate of a subagent's call of an MCP tool; same effect as `ChildToolGate`."""

    event = "child:mcp:tool:gate"
    gate = True
    mutable = ("block", "reason", "result", "pause")
    of = McpToolGate
    when = "During a subagent's `mcp:tool:gate`."
    __slots__ = ()


class ChildTurnAfter(ChildHook):
    """A model call of a subagent has ended."""

    event = "child:turn:after"
    mutable = ("continue_with",)
    of = TurnAfter
    when = "During a subagent's `turn:after`."
    __slots__ = ()


CHILD_HOOKS: tuple[type[ChildHook], ...] = (
    ChildStreamText,
    ChildStreamThinking,
    ChildStreamEnd,
    ChildToolGate,
    ChildToolBefore,
    ChildToolAfter,
    ChildToolError,
    ChildMcpToolGate,
    ChildTurnAfter,
)
"""All hooks of subagents that fire on the parent's bus."""
