"""The hooks of a tool call: for each, the context that its handlers get and may change.

See `mainspring.loop.hooks.run`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring.loop.hooks.base import text, validated_property
from mainspring.loop.hooks.run import Hook
from mainspring.messages import ToolResultBlock, ToolUseBlock
from mainspring.tools import to_tool_result

if TYPE_CHECKING:
    from mainspring.env import ExecutionEnv
    from mainspring.tools import Tool, ToolOutput, ToolResult


MCP_SOURCE = "mcp:"  # the source of a tool of an MCP server is this and the name of the server


class ToolCallHook(Hook):
    """Base of all tool hooks.

    ``name`` is the tool's own name, ``display_name`` the one that the model knows. ``source`` is where the tool comes from.
    """

    __slots__ = ("call_id", "display_name", "input", "name", "source", "turn_id")

    def __init__(self, call: ToolUseBlock, turn_id: str) -> None:
        self.turn_id = turn_id
        self.call_id = call.id
        self.name = call.name
        self.display_name = call.name
        self.source = ""
        self.input: dict[str, Any] = call.input

    @property
    def server(self) -> str:
        """The name of the MCP server of the tool; empty for other tools."""
        return self.source.removeprefix(MCP_SOURCE) if self.source.startswith(MCP_SOURCE) else ""


class ToolGate(ToolCallHook):
    """The early gate, with the arguments of the model.

    Set ``block`` (True or a reason) to block the call. Set ``result`` to return it without running the tool; ``block`` takes
    precedence. Set ``pause`` (the question for the user) to end the run as ``paused``, so that it can be resumed with an answer.
    ``approved`` is True if the call was approved; a pause has no effect then.
    """

    event = "tool:gate"
    mutable = ("block", "pause", "reason", "result")
    when = "First for each call, before it is looked up or counted."
    gate = True
    __slots__ = ("_pause", "approved", "block", "reason", "result", "tool_counts")
    pause: str = validated_property("_pause", text)

    def __init__(
        self,
        call: ToolUseBlock,
        turn_id: str,
        tool_counts: Mapping[str, int],
        *,
        approved: bool = False,
    ) -> None:
        super().__init__(call, turn_id)
        self.approved = approved
        self.tool_counts = tool_counts
        self.block: str | bool = False
        self.reason = ""
        self.result: ToolResult | ToolOutput | None = None
        self._pause = ""

    @property
    def is_decided(self) -> bool:
        return bool(self.block or (self._pause and not self.approved))

    def block_on_error(self, reason: str) -> None:
        self.block = reason


class McpToolGate(ToolGate):
    """The gate for a tool of an MCP server, with the validated arguments; otherwise like `tool:gate`.

    ``server`` is the name of the server.
    """

    event = "mcp:tool:gate"
    when = "After `tool:before`, for tools of MCP servers."
    __slots__ = ()


class ToolUnknown(ToolCallHook):
    """The tool is unknown.

    ``result`` replaces the error for the model; ``suppress_error`` skips `tool:error`.
    """

    event = "tool:unknown"
    mutable = ("result", "suppress_error")
    when = "When a tool is unknown; then `tool:error`, unless suppressed."
    __slots__ = ("result", "suppress_error")

    def __init__(self, call: ToolUseBlock, turn_id: str) -> None:
        super().__init__(call, turn_id)
        self.result: ToolResult | ToolOutput | None = None
        self.suppress_error = False


class ValidationReject(ToolCallHook):
    """The arguments are invalid and cannot be coerced. ``error`` is the text for the model."""

    event = "validation:reject"
    mutable = ("error",)
    when = "When arguments are invalid and cannot be coerced."
    __slots__ = ("error", "raw")

    def __init__(self, call: ToolUseBlock, turn_id: str, error: str) -> None:
        super().__init__(call, turn_id)
        self.error = error
        self.raw = call.raw_input


class ToolBefore(ToolCallHook):
    """The call is valid.

    ``input`` may be replaced; the new arguments are validated and then judged by `PermissionCheck`.

    ``coercions`` list the changes of the arguments. `prior_content` reads the files that the call is about to change.
    """

    event = "tool:before"
    mutable = ("input",)
    when = "When the arguments are valid, before the decision."
    __slots__ = ("_env", "_tool", "coercions", "tool_counts")

    def __init__(
        self,
        call: ToolUseBlock,
        turn_id: str,
        arguments: dict[str, Any],
        coercions: Sequence[Any],
        tool_counts: Mapping[str, int],
        tool: Tool,
        env: ExecutionEnv,
    ) -> None:
        super().__init__(call, turn_id)
        self.input = arguments
        self.coercions = coercions
        self.tool_counts = tool_counts
        self._tool = tool
        self._env = env

    async def prior_content(self, limit: int = 1 << 20) -> dict[str, bytes | None]:
        """Read the current content of the files that the call with this ``input`` will write or delete.

        Args:
            limit: Maximum size of a file in bytes (default: 1 MiB).

        Returns:
            The content by path as spelled in the call; ``None`` for a missing, unreadable, or too large file.
        """
        access = self._tool.access
        touched = [a.resource for a in access(self.input) if a.scope in ("fs-write", "fs-delete")] if access else []
        return {path: await self._read(path, limit) for path in touched}

    async def _read(self, path: str, limit: int) -> bytes | None:
        try:
            data = await self._env.read_bytes(path, limit=limit + 1)
        except (OSError, ValueError):
            return None
        return data if len(data) <= limit else None


class McpToolBefore(ToolBefore):
    """A call to an MCP server that no gate blocked; otherwise like `tool:before`."""

    event = "mcp:tool:before"
    when = "After `mcp:tool:gate`, for tools of MCP servers, before the decision."
    __slots__ = ()


class PermissionCheck(ToolCallHook):
    """The decision on the final arguments, right before the tool runs.

    The call cannot be changed, and a denial cannot be reverted.

    Attributes:
        input: The final arguments (a copy).
        original: The arguments of the model.
        tool: The tool.
        env: The environment in which it will run, to resolve paths.
        approved: Whether the call was approved. A pause has no effect then; a denial still applies.
        denied: The reasons so far.
    """

    event = "tool:permit"
    when = "Right before the call runs, with the final arguments."
    gate = True
    __slots__ = (
        "_checks",
        "_confirmed",
        "_denied",
        "_environment",
        "_obstacle",
        "_paths",
        "_paused",
        "_stop",
        "approved",
        "env",
        "original",
        "tool",
    )

    def __init__(
        self,
        call: ToolUseBlock,
        turn_id: str,
        arguments: dict[str, Any],
        tool: Tool,
        env: ExecutionEnv,
        *,
        approved: bool = False,
    ) -> None:
        super().__init__(call, turn_id)
        self.approved = approved
        self.input = arguments
        self.original = call.input
        self.tool = tool
        self.env = env
        self._denied: list[str] = []
        self._paths: dict[str, str] = {}
        self._environment: dict[str, str] = {}
        self._paused = ""
        self._stop = False
        self._checks: list[Callable[[], Awaitable[str]]] = []
        self._obstacle = ""
        self._confirmed = approved

    @property
    def is_confirmed(self) -> bool:
        """Return True if the approval that the tool requires was obtained."""
        return self._confirmed

    def confirm(self) -> None:
        """Report that the approval that the tool requires was obtained; a denial still applies."""
        self._confirmed = True

    @property
    def is_decided(self) -> bool:
        return bool(self._denied or self._paused or self._obstacle)

    @property
    def denied(self) -> tuple[str, ...]:
        """Return the reasons for the denial; empty if it is not denied."""
        return tuple(self._denied)

    @property
    def paused(self) -> str:
        """Return the reason why the run must pause for an answer; empty if it need not."""
        return self._paused

    @property
    def ends_run(self) -> bool:
        """Return True if the denial ends the run."""
        return self._stop

    @property
    def paths(self) -> dict[str, str]:
        """Return the allowed real path of each path in the call."""
        return self._paths

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that the tool sets for the programs of this call."""
        return self._environment

    def deny(self, reason: str, *, stop: bool = False) -> None:
        """Deny the call; the model gets the ``reason``. With ``stop``, the run ends as ``denied`` after this turn."""
        self._denied.append(reason)
        self._stop = self._stop or stop

    def add_precheck(self, check: Callable[[], Awaitable[str]]) -> None:
        """Add a check before the user is asked: it returns the reason why the call cannot run even if it is allowed."""
        self._checks.append(check)

    async def will_be_skipped(self) -> bool:
        """Return True if the call cannot run even if it is allowed, so that no approval is requested."""
        for check in self._checks:
            self._obstacle = self._obstacle or await check()
        return bool(self._obstacle)

    @property
    def skip_reason(self) -> str:
        """Return the reason why an allowed call cannot run; empty if it can."""
        return self._obstacle

    def pause(self, reason: str) -> None:
        """Pause the run for an answer: it ends as ``paused``, and can be resumed later, in any process."""
        if not self.approved:
            self._paused = reason

    def bind_path(self, path: str, real_path: str) -> None:
        """Bind a path of the call to the checked real path, which the tool then uses."""
        self._paths[path] = real_path

    def set_environment(self, variables: Mapping[str, str]) -> None:
        """Set variables for the programs of this call.

        The decision to allow the call relies on them.
        """
        self._environment.update(variables)

    def block_on_error(self, reason: str) -> None:
        self._denied.append(reason)


class BeforeToolRun(ToolCallHook):
    """The last hook before the tool runs.

    Stores record the start. A handler that raises prevents the run.
    """

    event = "tool:start"
    mutable = ("block",)
    when = "After all gates allowed the call, right before the tool runs."
    gate = True
    __slots__ = ("block", "idempotent")

    def __init__(self, call: ToolUseBlock, turn_id: str, arguments: dict[str, Any], idempotent: bool) -> None:
        super().__init__(call, turn_id)
        self.input = arguments
        self.idempotent = idempotent
        self.block = ""

    @property
    def is_decided(self) -> bool:
        return bool(self.block)

    def block_on_error(self, reason: str) -> None:
        self.block = reason


class ToolFailed(ToolCallHook):
    """The call failed: the tool raised, or it is unknown.

    ``result`` may replace the error for the model.
    """

    event = "tool:error"
    mutable = ("result",)
    when = "When a tool raised or is unknown, before `tool:transform`."
    __slots__ = ("error", "result")

    def __init__(self, call: ToolUseBlock, turn_id: str, error: BaseException) -> None:
        super().__init__(call, turn_id)
        self.error = error
        self.result: ToolResult | ToolOutput | None = None


class ToolTransform(ToolCallHook):
    """The result of a tool, before the model sees it.

    ``result`` (output, ``is_error``, metadata) may be changed or replaced. ``is_error`` is that of the result; set it to make a
    failure of a success, or the reverse. A new `ToolResult` has its own; new text keeps the one that was set.
    """

    event = "tool:transform"
    mutable = ("is_error", "result")
    when = "When a call has a result, including a substitute, before the model sees it."
    __slots__ = ("_given_is_error", "_result", "output_bytes")

    def __init__(
        self, call: ToolUseBlock, turn_id: str, arguments: dict[str, Any], result: ToolResult, output_bytes: int
    ) -> None:
        super().__init__(call, turn_id)
        self.input = arguments
        self._given_is_error: bool | None = None
        self._result = result
        self.output_bytes = output_bytes

    @property
    def result(self) -> ToolResult:
        """The result so far."""
        return self._result

    @result.setter
    def result(self, value: ToolResult) -> None:
        is_plain = isinstance(value, str | list | tuple)
        self._result = value
        if is_plain and self._given_is_error is not None:
            self.is_error = self._given_is_error

    @property
    def is_error(self) -> bool:
        """Whether the call failed, for the model and the application."""
        return to_tool_result(self._result).is_error

    @is_error.setter
    def is_error(self, value: bool) -> None:
        if type(value) is not bool:
            raise TypeError(f"is_error must be True or False, not {type(value).__name__}.")
        # A copy: the tool or a policy may keep the same result for other calls.
        result = to_tool_result(self._result)
        self._result = replace(result, is_error=value, code=result.code if value else None)
        self._given_is_error = value


class McpToolTransform(ToolTransform):
    """The result of an MCP server, before other handlers see it; otherwise like `tool:transform`."""

    event = "mcp:tool:transform"
    when = "When a call to an MCP server has a result, before `tool:transform`."
    __slots__ = ()


class ToolFinished(ToolCallHook):
    """A call has its final result. Stores write it here."""

    event = "tool:after"
    must_finish = True
    when = "When the result is final, after images that the model cannot see were removed."
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


class McpToolFinished(ToolFinished):
    """The result of an MCP server after `mcp:tool:transform`; `tool:transform` may still change it."""

    event = "mcp:tool:after"
    must_finish = False
    when = "After `mcp:tool:transform`, for tools of MCP servers, before `tool:transform`."
    __slots__ = ()
