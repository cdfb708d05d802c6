"""What a tool is: a name, a description, a schema, and a function that does the work."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from msgspec import Struct, field, to_builtins
from msgspec import json as msgspec_json
from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.messages import ImageBlock, TextBlock, ToolDefinition

if TYPE_CHECKING:
    from mainspring.env import ExecutionEnv

logger = logging.getLogger("mainspring")

Scope = Literal["fs-read", "fs-write", "fs-delete", "shell-run", "network"]
"""The kinds of access that permissions know."""

ToolOutput = str | tuple[TextBlock | ImageBlock, ...]
"""What reaches the model: text, or text and images."""


class ToolErrorCode(StrEnum):
    """What kind of failure a tool met; the closed list of nine."""

    VALIDATION_ERROR = "VALIDATION_ERROR"
    IO_ERROR = "IO_ERROR"
    CONFIG_ERROR = "CONFIG_ERROR"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RATE_LIMITED = "RATE_LIMITED"
    NOT_FOUND = "NOT_FOUND"
    LLM_ASSIST_REQUIRED = "LLM_ASSIST_REQUIRED"
    TIMEOUT = "TIMEOUT"
    UNKNOWN = "UNKNOWN"


class Access(Struct, frozen=True):
    """Something a call is going to touch: a path for the ``fs-`` scopes, a command line, or a URL."""

    scope: Scope
    resource: str


class Attachment(Struct, frozen=True):
    """A file that a tool hands over beside its output; for applications, not for the model."""

    name: str
    media_type: str
    path: str | None = None
    data: str | None = None


class ToolResult(Struct, kw_only=True):
    """What a tool returns when a bare string is not enough.

    Attributes:
        output: What the model reads.
        title: A line for people, as in ``src/app.py: 3 lines changed``.
        metadata: Facts for applications and logs, typed per tool.
        attachments: Files for applications.
        is_error: Whether the call failed. Raising an exception says the same.
        code: What kind of failure; ``None`` for success.
    """

    output: ToolOutput = ""
    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    attachments: tuple[Attachment, ...] = ()
    is_error: bool = False
    code: ToolErrorCode | None = None

    @property
    def text(self) -> str:
        """The output as text; an image becomes ``[image/png]``."""
        if isinstance(self.output, str):
            return self.output
        return "\n".join(b.text if isinstance(b, TextBlock) else f"[{b.media_type}]" for b in self.output)

    @property
    def details(self) -> dict[str, Any] | None:
        """Metadata and code, as the history keeps them beside the result: plain JSON data, other values as their text."""
        facts = _json_metadata(self.metadata) if self.metadata else {}
        return (facts or None) if self.code is None else {**facts, "code": self.code.value}


class ToolContext:
    """What a call may know and use. One object per call, never shared.

    Attributes:
        call_id: Tells parallel calls apart; the same when a durable run takes the call up again, so it serves as
            idempotency key.
        session_id: The session, or an empty string.
        message_id: The message that holds the call.
        agent: Name of the agent.
        signal: Set when the run is aborted; long work should look at it.
        env: Files and processes. The only way a tool touches the outside.
        paths: For each path as the call spelled it, the real path that permissions allowed; use `resolve`.
        environment: Variables to set for every program of the call; the permission to run it relies on them.
        extra: Whatever the application put into ``Agent(extra=...)``.
    """

    __slots__ = (
        "agent",
        "call_id",
        "env",
        "environment",
        "extra",
        "message_id",
        "on_update",
        "paths",
        "session_id",
        "signal",
    )
    __tool_context__: ClassVar[bool] = True

    def __init__(
        self,
        *,
        env: ExecutionEnv,
        call_id: str = "",
        session_id: str = "",
        message_id: str = "",
        agent: str = "",
        signal: CancelToken | None = None,
        paths: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        on_update: Callable[[str, str | None, dict[str, Any] | None], None] | None = None,
    ) -> None:
        self.env = env
        self.call_id = call_id
        self.session_id = session_id
        self.message_id = message_id
        self.agent = agent
        self.signal = signal or CancelToken()
        self.paths = paths or {}
        self.environment = environment or {}
        self.extra = extra or {}
        self.on_update = on_update

    @property
    def spawn(self) -> Callable[..., Awaitable[Any]] | None:
        """Starts a sub-agent, where the agent may: ``await ctx.spawn(task, agent="", signal=ctx.signal)``; see `Subagents.spawn`."""
        return self.extra.get("spawn")

    @property
    def is_aborted(self) -> bool:
        """Whether the run is being aborted."""
        return self.signal.cancelled

    def metadata(self, *, title: str | None = None, **metadata: Any) -> None:
        """Tell observers a title and facts while the call runs."""
        if self.on_update:
            self.on_update("", title, metadata)

    def update(self, output: str) -> None:
        """Show observers partial output while the call runs. The model does not see it."""
        if self.on_update:
            self.on_update(output, None, None)

    async def resolve(self, path: str) -> str:
        """The real, absolute path that ``path`` stands for: the one that was permitted, where permissions are on."""
        return self.paths.get(path) or await self.env.realpath(path)


Execute = Callable[[dict[str, Any], ToolContext], Awaitable["ToolResult | ToolOutput"]]
"""Does a tool's work: validated arguments and the context in, output out. May raise."""


class Tool(Struct, frozen=True, eq=False, kw_only=True):
    """A tool.

    Attributes:
        name: Canonical name, unique in a registry: letters, digits, ``_`` and ``-``.
        description: For the model: what it does and when to use it.
        input_schema: JSON Schema of the arguments, an object.
        execute: Does the work.
        label: Name for people; the tool's own name if empty.
        source: Where it comes from: ``builtin``, ``user``, ``extension``, ``client``, or ``mcp:SERVER``.
        concurrency_safe: Whether it may run at the same time as other calls.
        idempotent: Whether running it twice does no harm; only such a call is taken up again after a crash.
        access: What a call with these arguments touches; permissions judge that. Without it only rules by tool name apply.
        path_params: The parameters that name a file or folder.
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    execute: Execute
    label: str = ""
    source: str = "user"
    concurrency_safe: bool = True
    idempotent: bool = False
    access: Callable[[Mapping[str, Any]], Sequence[Access]] | None = None
    path_params: tuple[str, ...] = ()

    @property
    def spec(self) -> ToolDefinition:
        """The part that a model is told."""
        return ToolDefinition(self.name, self.description, self.input_schema)

    async def __call__(self, /, *given: Any, **arguments: Any) -> ToolResult:
        """Run it without an agent, for tests and scripts: ``await forecast("Oslo", days=2)``. Arguments are taken as they are.

        Args:
            *given: The `ToolContext`, where the tool uses it; then arguments, in the order in which the schema has them.
            **arguments: Arguments by name.

        Raises:
            TypeError: If there are more arguments than the tool has, or one is given twice.
            Exception: What the tool raises.
        """
        ctx = next((each for each in given[:1] if getattr(each, "__tool_context__", False)), None)
        names = list(self.input_schema.get("properties", {}))
        unnamed = given if ctx is None else given[1:]
        if len(unnamed) > len(names):
            takes = f"the arguments {', '.join(names)}" if names else "no arguments"
            raise TypeError(
                f"the tool {self.name} takes {takes}, and {len(unnamed)} were given; the call's context goes first: "
                f"await {self.name}(ToolContext(env=MemoryEnv()), ...)"
            )
        for name, value in zip(names, unnamed, strict=False):
            if name in arguments:
                raise TypeError(f"the tool {self.name} was given its argument {name!r} twice")
            arguments[name] = value
        return to_tool_result(
            await self.execute(arguments, ctx or ToolContext(env=cast("ExecutionEnv", _MissingEnv(self.name)))),
            self.name,
        )


class _MissingEnv:
    """Stands for the environment of a call that was made without a context."""

    def __init__(self, tool: str) -> None:
        self._tool = tool

    def __getattr__(self, name: str) -> Any:
        raise TypeError(
            f"the tool {self._tool} uses the environment (env.{name}), and it was called without one: "
            f"await {self._tool}(ToolContext(env=MemoryEnv()), ...), of mainspring.testing, or with LocalEnv(folder)"
        )


def _json_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return to_builtins(metadata, str_keys=True, enc_hook=str)
    except Exception:  # a circle, or a value without a text: the result stands all the same
        logger.exception("the metadata of a result cannot be kept")
        return {}


def to_tool_result(output: Any, tool: str = "") -> ToolResult:
    """A `ToolResult` from whatever a tool returned: text, blocks, ``None``, or any JSON value.

    Args:
        output: What it returned.
        tool: Its name, for what is raised.

    Raises:
        TypeError: If it is or holds what has no form that a model could read: a generator, say, or an object of a plain class.
        Exception: If it cannot be made into one for another reason; a failure of the tool.
    """
    if type(output) is ToolResult:
        return output if _has_valid_fields(output) else _repair_result(output)
    if isinstance(output, str):
        return ToolResult(output=output)
    if output is None:
        return ToolResult(output="")
    if isinstance(output, TextBlock | ImageBlock):
        return ToolResult(output=(output,))
    if isinstance(output, list | tuple) and output:
        blocks = cast("Sequence[Any]", output)
        if all(isinstance(b, TextBlock | ImageBlock) for b in blocks):
            return ToolResult(output=tuple(blocks))
    convert = getattr(cast("Any", output), "to_tool_result", None)
    if convert is not None:  # a `ToolResponse`, an `AssistRequest`
        return convert()
    to_json = getattr(cast("Any", output), "model_dump_json", None)
    if to_json is not None:  # a pydantic model
        return ToolResult(output=to_json())
    try:
        return ToolResult(output=msgspec_json.encode(output, enc_hook=_encode_unknown).decode())
    except _UnreadableError as error:
        raise TypeError(
            f"{f'the tool {tool}' if tool else 'the tool'} returned {error}, which a model cannot read; return a text, a "
            "ToolResult, a dataclass, or what can be written as JSON"
        ) from None


class _UnreadableError(Exception):
    """What a tool returned, or a part of it, in words."""


def _encode_unknown(value: Any) -> Any:
    """What has no JSON form of its own as its text; that of a plain object only says where in memory it is."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):  # a pydantic model within something else
        return dump(mode="json")
    text = str(value)
    if text.startswith("<") and (" at 0x" in text or callable(value)):
        kind = cast("type[Any]", type(value))
        spelled = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        raise _UnreadableError(f"a value of type {spelled}")
    return text


def _has_valid_fields(result: ToolResult) -> bool:
    """Whether the fields have the types that they say; nobody checked them when the tool made it."""
    code: Any = result.code
    return (
        _is_output(result.output)
        and type(result.metadata) is dict
        and type(result.is_error) is bool
        and type(result.title) is str
        and (code is None or type(code) is ToolErrorCode)
    )


def _repair_result(result: ToolResult) -> ToolResult:
    return replace(
        result,
        output=to_tool_result(result.output).output,
        title=str(result.title),
        metadata=dict(result.metadata or {}),
        is_error=bool(result.is_error),
        code=None if result.code is None else _code(result.code),
    )


def _code(code: Any) -> ToolErrorCode:
    """The code of that name; one that is none of the nine is `UNKNOWN`."""
    return ToolErrorCode(code) if code in ToolErrorCode.__members__ else ToolErrorCode.UNKNOWN


def _is_output(output: Any) -> bool:
    if isinstance(output, tuple):
        return all(isinstance(b, TextBlock | ImageBlock) for b in cast("tuple[Any, ...]", output))
    return isinstance(output, str)
