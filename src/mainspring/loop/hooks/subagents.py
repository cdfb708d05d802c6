"""The hooks of sub-agents, as their parent hears them.

Each `child:*` hook carries the context of the child's own hook, and stands for it: reading a field reads the child's, setting
one sets it there, so a parent decides with the same fields (``block``, ``result``, ``input``) as the child itself. What a
grandchild fires is heard by every agent above it, with the grandchild's own id and depth.
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
    """What all spawn hooks know of their child."""

    __slots__ = ("_task", "child", "child_id", "depth")
    task: str = validated_property("_task", text)

    def __init__(self, child_id: str, child: str, depth: int, task: str) -> None:
        self.child_id = child_id
        self.child = child
        self.depth = depth
        self._task = task


class BeforeSpawn(_SpawnHook):
    """A sub-agent is about to run. ``task`` may be replaced; ``block`` (True or a reason) keeps it from running.

    ``child`` is the name of its definition, ``child_id`` this one child, ``depth`` how deep it stands (1 for a child of the
    agent that a person talks to), ``agent`` the sub-agent itself, to register handlers on.
    """

    event = "spawn:before"
    gate = True
    mutable = ("task", "block")
    when = "When a sub-agent has been made and has a place to run, before it runs."
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
    """A sub-agent has ended, of itself or at a limit. ``text`` is its last answer, ``stats`` are its figures (`ChildStats`)."""

    event = "spawn:complete"
    when = "When a sub-agent has ended, before its parent gets the answer."
    __slots__ = ("stats", "status", "text")

    def __init__(
        self, child_id: str, child: str, depth: int, task: str, *, text: str, status: RunStatus, stats: SubagentStats
    ) -> None:
        super().__init__(child_id, child, depth, task)
        self.text = text
        self.status = status
        self.stats = stats


class SpawnError(_SpawnHook):
    """A sub-agent failed or was stopped. ``stats`` (`ChildStats`) tell what it used until then. Its parent goes on."""

    event = "spawn:error"
    when = "When a sub-agent failed, was stopped, or could not be made."
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
    """A hook of a sub-agent. All fields of the child's context can be read and set here.

    Attributes:
        of: The child's hook that this one tells of.
        child_id: Which child.
        child: The name of its definition.
        depth: How deep it stands; 1 for a child of the agent that a person talks to.
        context: The context of the child's own hook.
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
    """A piece of a sub-agent's answer."""

    event = "child:stream:text"
    of = StreamText
    when = "For each piece of a sub-agent's text, if somebody listened when it was spawned."
    __slots__ = ()


class ChildStreamThinking(ChildHook):
    """A piece of a sub-agent's reasoning."""

    event = "child:stream:thinking"
    of = StreamThinking
    when = "For each piece of a sub-agent's reasoning, if somebody listened when it was spawned."
    __slots__ = ()


class ChildStreamEnd(ChildHook):
    """A sub-agent's answer is complete."""

    event = "child:stream:end"
    of = StreamEnd
    when = "When an answer of a sub-agent with text is complete."
    __slots__ = ()


class ChildToolGate(ChildHook):
    """The early gate of a sub-agent's call: ``block``, ``reason`` and ``result`` decide as in `ToolGate`."""

    event = "child:tool:gate"
    gate = True
    mutable = ("block", "reason", "result", "pause")
    of = ToolGate
    when = "Within a sub-agent's `tool:gate`, after the child's own handlers."
    __slots__ = ()


class ChildToolBefore(ChildHook):
    """A sub-agent's call is valid. ``input`` may be replaced as in `ToolBefore`."""

    event = "child:tool:before"
    mutable = ("input",)
    of = ToolBefore
    when = "Within a sub-agent's `tool:before`."
    __slots__ = ()


class ChildToolAfter(ChildHook):
    """A sub-agent's call has its final result."""

    event = "child:tool:after"
    of = ToolFinished
    when = "Within a sub-agent's `tool:after`."
    __slots__ = ()


class ChildToolError(ChildHook):
    """A sub-agent's call failed. ``result`` may give what its model gets instead, as in `ToolErrorHook`."""

    event = "child:tool:error"
    mutable = ("result",)
    of = ToolFailed
    when = "Within a sub-agent's `tool:error`."
    __slots__ = ()


class ChildMcpToolGate(ChildHook):
    """The gate of a sub-agent's call of an MCP server's tool: decides as `ChildToolGate`."""

    event = "child:mcp:tool:gate"
    gate = True
    mutable = ("block", "reason", "result", "pause")
    of = McpToolGate
    when = "Within a sub-agent's `mcp:tool:gate`."
    __slots__ = ()


class ChildTurnAfter(ChildHook):
    """A model call of a sub-agent is over."""

    event = "child:turn:after"
    mutable = ("continue_with",)
    of = TurnAfter
    when = "Within a sub-agent's `turn:after`."
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
"""All hooks of sub-agents that their parents hear."""
