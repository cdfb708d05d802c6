"""Tool: a name, a description, a schema, and a function that executes calls."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast, overload

from msgspec import Struct, ValidationError, convert, field, json as msgspec_json, to_builtins
from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.errors import ConfigError, attribute_error
from mainspring.messages import ImageBlock, TextBlock, ToolDefinition
from mainspring.type_variables import DepsT, NeededDepsT, OutputT, ValueT

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from mainspring.env import ExecutionEnv

_T = TypeVar("_T")

logger = logging.getLogger("mainspring")

Scope = Literal["fs-read", "fs-write", "fs-delete", "shell-run", "network"]
"""Kinds of access for permissions."""

AGENT_SOURCE = "agent"
"""Source of the tools that run an agent, which has separate steps in a durable run."""

ToolOutput = str | tuple[TextBlock | ImageBlock, ...]
"""Output for the model: text, or text and images."""


class ToolErrorCode(StrEnum):
    """Kind of a tool failure: a closed list of nine codes."""

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
    """Access of a call: a path for the ``fs-`` scopes, a command line, or a URL."""

    scope: Scope
    resource: str


class Attachment(Struct, frozen=True):
    """File that a tool returns in addition to its output; for applications, not for the model."""

    name: str
    media_type: str
    path: str | None = None
    data: str | None = None


class ToolResult(Struct, Generic[ValueT], kw_only=True, dict=True):
    """Result of a tool if a plain string is not enough.

    Attributes:
        output: Output for the model.
        title: A line for the user, for example, ``src/app.py: 3 lines changed``.
        metadata: Facts for applications and logs, typed per tool. Another value than a dict is stored as its ``details``.
        attachments: Files for applications.
        is_error: Whether the call failed. Raising an exception has the same effect.
        code: Kind of failure; ``None`` for success.
    """

    output: ToolOutput = ""
    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    attachments: tuple[Attachment, ...] = ()
    is_error: bool = False
    code: ToolErrorCode | None = None

    @property
    def text(self) -> str:
        """Output as text; an image becomes ``[image/png]``."""
        if isinstance(self.output, str):
            return self.output
        return "\n".join(b.text if isinstance(b, TextBlock) else f"[{b.media_type}]" for b in self.output)

    @property
    def value(self) -> ValueT:
        """The data that the tool returned, until the result is stored or a handler replaces the output; else the output."""
        text, value = vars(self).get("returned", (None, None))
        return cast("ValueT", value if self.output is text else self.output)

    @property
    def details(self) -> dict[str, Any] | None:
        """Metadata and code, as stored with the result in the history: plain JSON data, other values as text."""
        facts = _json_metadata(self.metadata) if self.metadata else {}
        return (facts or None) if self.code is None else {**facts, "code": self.code.value}


class SpawnResult(Protocol[OutputT]):
    """The result of a subagent; see `SubagentResult`."""

    @property
    def text(self) -> str:
        """Its final response, or a partial one."""
        ...

    @property
    def output(self) -> OutputT:
        """Its output: of the requested type; without a type, the text.

        Raises:
            AgentOutputError: A limit, a pause, or a failure left no output.
        """
        ...

    @property
    def output_or_none(self) -> OutputT | None:
        """Its output; ``None`` if it is missing."""
        ...

    @property
    def status(self) -> str:
        """The final status of its run."""
        ...

    @property
    def error(self) -> BaseException | None:
        """The error, if it failed."""
        ...


class Spawn(Protocol):
    """Starts a subagent and returns its result; see `Subagents.spawn`."""

    @overload
    async def __call__(
        self, task: str, agent: str = "", *, output_type: TypeForm[_T], **options: Any
    ) -> SpawnResult[_T]: ...
    @overload
    async def __call__(self, task: str, agent: str = "", **options: Any) -> SpawnResult[Any]: ...


class RunContext(Generic[DepsT]):
    """Context of a run, for system prompts, output validators, and output functions. Tools get a `ToolContext`.

    Attributes:
        deps: The value that the caller passed to ``agent.run(..., deps=...)``.
        session_id: ID of the session, or an empty string.
        turn_id: ID of the turn, as hooks and events have it; empty before the first one.
        agent: Name of the agent.
        signal: Set when the run is aborted; long work should check it.
        env: Files and processes. The only way for a tool to access the outside.
        extra: Data that the application passed to ``Agent(extra=...)``.
    """

    __slots__ = ("_deps", "agent", "env", "extra", "session_id", "signal", "turn_id")
    __tool_context__: ClassVar[bool] = True

    def __init__(
        self,
        *,
        env: ExecutionEnv,
        deps: DepsT = None,
        session_id: str = "",
        turn_id: str = "",
        agent: str = "",
        signal: CancelToken | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._deps = deps
        self.env = env
        self.session_id = session_id
        self.turn_id = turn_id
        self.agent = agent
        self.signal = signal or CancelToken()
        self.extra = extra or {}

    @property
    def deps(self) -> DepsT:
        """The dependencies of the run: the value of ``agent.run(..., deps=...)``."""
        return self._deps

    @property
    def spawn(self) -> Spawn | None:
        """Function that starts a subagent, if allowed; see `Subagents.spawn`.

        Call it with ``await ctx.spawn(task, agent="", signal=ctx.signal)``.
        """
        return self.extra.get("spawn")

    @property
    def is_aborted(self) -> bool:
        """Whether the run is being aborted."""
        return self.signal.cancelled


class ToolContext(RunContext[DepsT]):
    """Context of a call. Each call has its own object, which is never shared.

    Attributes:
        call_id: ID that distinguishes parallel calls; unchanged when a durable run repeats the call, so it can be used as
            idempotency key.
        message_id: ID of the assistant message that contains the call.
        paths: Approved real path for each path as the call spelled it; use `resolve`.
        environment: Variables to set for every program of the call; the permission to run the program relies on them.
    """

    __slots__ = ("call_id", "environment", "message_id", "on_update", "paths")

    def __init__(
        self,
        *,
        env: ExecutionEnv,
        deps: DepsT = None,
        call_id: str = "",
        session_id: str = "",
        message_id: str = "",
        turn_id: str = "",
        agent: str = "",
        signal: CancelToken | None = None,
        paths: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        on_update: Callable[[str, str | None, dict[str, Any] | None], None] | None = None,
    ) -> None:
        super().__init__(
            env=env, deps=deps, session_id=session_id, turn_id=turn_id, agent=agent, signal=signal, extra=extra
        )
        self.call_id = call_id
        self.message_id = message_id
        self.paths = paths or {}
        self.environment = environment or {}
        self.on_update = on_update

    def metadata(self, *, title: str | None = None, metadata: Mapping[str, Any] | None = None, **facts: Any) -> None:
        """Publish a title and facts while the call runs: as a mapping, as keywords, or both."""
        if self.on_update:
            self.on_update("", title, {**(metadata or {}), **facts})

    def update(self, output: str) -> None:
        """Publish partial output while the call runs. The model does not see it."""
        if self.on_update:
            self.on_update(output, None, None)

    async def resolve(self, path: str) -> str:
        """Return the real, absolute path of ``path``: the approved path if permissions are enabled."""
        return self.paths.get(path) or await self.env.realpath(path)


Execute = Callable[[dict[str, Any], ToolContext], Awaitable["ToolResult | ToolOutput"]]
"""Function that executes a call: validated arguments and the context in, output out.

May raise.
"""


def no_access(arguments: Mapping[str, Any]) -> Sequence[Access]:
    """Return no access, for a tool whose calls need no permission."""
    return ()


class Tool(Struct, Generic[NeededDepsT], frozen=True, eq=False, kw_only=True):
    """A tool. ``Tool[Deps]`` needs a context with these dependencies; ``Tool[object]`` fits any agent.

    Attributes:
        name: Canonical name, unique in a registry: letters, digits, ``_``, and ``-``.
        description: Description for the model: purpose of the tool and when to use it.
        input_schema: JSON Schema of the arguments, an object.
        execute: Function that executes calls.
        label: Display name; the tool's name if empty.
        source: Origin of the tool: ``builtin``, ``user``, ``extension``, ``client``, ``agent``, or ``mcp:SERVER``.
        concurrency_safe: Whether the tool may run at the same time as other calls.
        idempotent: Whether a second execution is harmless; only such calls are repeated after a crash.
        access: Function that returns the accesses of a call; permissions check them. Without it, only rules by tool name
            apply.
        path_params: Parameters that name a file or folder.
        preview: Function that returns the new content of each file that a call would write, by path; it may block. Users see the
            changes when they are asked to approve the call. Raises ValueError or OSError if the call would fail.
        is_approved_per_call: Whether an approval applies to one call only: neither a grant for the session nor a rule is offered.
        check: Function that returns all problems of the arguments of a call, as a text for the model, or `None`. For problems that
            the schema cannot express; the call is rejected before anyone is asked to approve it.
        requires_approval: Whether each call needs an approval, whatever the rules allow; or a function of the arguments.
        timeout: Maximum seconds of a call in a run, without the wait for its approval. Then the call is cancelled, its signal is
            set, and the model reads that the time was over. The thread of a sync function is abandoned. ``None``: no limit.
        former_names: Names before it was renamed; rules of permissions for them still apply.
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
    preview: Callable[[Mapping[str, Any]], Mapping[str, str]] | None = None
    is_approved_per_call: bool = False
    check: Callable[[dict[str, Any]], str | None] | None = None
    requires_approval: bool | Callable[[Mapping[str, Any]], bool] = False
    timeout: float | None = None
    former_names: tuple[str, ...] = ()

    if not TYPE_CHECKING:  # type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            raise attribute_error(self, "Tool", name)

    def __post_init__(self) -> None:
        seconds: Any = self.timeout
        if seconds is not None and (type(seconds) not in (int, float) or not seconds > 0):
            raise ConfigError(
                f"timeout of the tool {self.name} must be a number of seconds above 0, or None for no limit, not {seconds!r:.80}."
            )

    def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Return True if a call with these arguments needs an approval; also if the function that decides fails."""
        if not callable(self.requires_approval):
            return self.requires_approval
        try:
            return bool(self.requires_approval(arguments))
        except Exception:
            logger.exception("requires_approval of the tool %s failed, so the call needs an approval", self.name)
            return True

    @property
    def spec(self) -> ToolDefinition:
        """Definition for the model."""
        return ToolDefinition(self.name, self.description, self.input_schema)

    async def __call__(self, /, *given: Any, **arguments: Any) -> ToolResult:
        """Run the tool without an agent, for tests and scripts: ``await forecast("Oslo", days=2)``.

        Arguments are passed unchanged.

        Args:
            *given: `ToolContext`, if the tool uses it; then arguments, in the order of the schema.
            **arguments: Arguments by name.

        Raises:
            TypeError: Too many arguments, or a duplicate argument.
            Exception: Exception of the tool.
        """
        ctx = next((each for each in given[:1] if getattr(each, "__tool_context__", False)), None)
        names = list(self.input_schema.get("properties", {}))
        unnamed = given if ctx is None else given[1:]
        if len(unnamed) > len(names):
            takes = f"the arguments {', '.join(names)}" if names else "no arguments"
            raise TypeError(
                f"Tool {self.name} takes {takes}, but {len(unnamed)} were passed. Pass the context first: "
                f"await {self.name}(ToolContext(env=MemoryEnv()), ...)"
            )
        for name, value in zip(names, unnamed, strict=False):
            if name in arguments:
                raise TypeError(f"Tool {self.name} received the argument {name!r} twice.")
            arguments[name] = value
        return to_tool_result(
            await self.execute(arguments, ctx or create_missing_context(self.name)),
            self.name,
        )


def create_missing_context(tool: str) -> ToolContext:
    """Return the context of a call without one; its environment explains how to pass one."""
    return ToolContext(env=cast("ExecutionEnv", _MissingEnv(tool)))


class _MissingEnv:
    """Placeholder for the environment of a call without a context."""

    def __init__(self, tool: str) -> None:
        self._tool = tool

    def __getattr__(self, name: str) -> Any:
        raise TypeError(
            f"Tool {self._tool} uses the environment (env.{name}), but was called without one. Pass a context: "
            f"await {self._tool}(ToolContext(env=MemoryEnv()), ...), with MemoryEnv from mainspring.testing or LocalEnv(folder)"
        )


def _json_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return to_builtins(metadata, str_keys=True, enc_hook=str)
    except Exception:  # a cycle, or a value whose text fails: the result is still valid
        logger.exception("Cannot store the metadata of a tool result")
        return {}


def to_tool_result(output: Any, tool: str = "") -> ToolResult:
    """Convert the output of a tool (text, blocks, ``None``, or any JSON value) to a `ToolResult`.

    A dict with exactly the fields of one of these forms is that result; any other dict is data, and becomes JSON:
    ``{"title", "metadata", "output"}``, also with ``"attachments"``; ``{"success": True, "result", "message"}``;
    ``{"success": False, "error", "message"}`` with the name of an error code. ``metadata["error"]`` with such a name is a failure.

    Args:
        output: Output of the tool.
        tool: Name of the tool, for errors.

    Raises:
        TypeError: The output is or contains a value without a readable form for a model: for example, a generator or an
            object of a plain class.
        Exception: The conversion failed for another reason; a failure of the tool.
    """
    if type(output) is ToolResult:
        return output if _has_valid_fields(output) else _repair_result(output)
    if isinstance(output, str) or output is None:
        return ToolResult(output=output or "")
    if isinstance(output, TextBlock | ImageBlock):
        return ToolResult(output=(output,))
    if isinstance(output, list | tuple) and output:
        blocks = cast("Sequence[Any]", output)
        if all(isinstance(b, TextBlock | ImageBlock) for b in blocks):
            return ToolResult(output=tuple(blocks))
    if isinstance(output, dict) and (found := _read_result_form(cast("dict[Any, Any]", output))):
        return found
    to_result = getattr(cast("Any", output), "to_tool_result", None)
    if to_result is not None:  # a `ToolResponse`, an `AssistRequest`
        return to_result()
    to_json = getattr(cast("Any", output), "model_dump_json", None)
    if to_json is not None:  # a pydantic model
        return _data_result(output, to_json())
    try:
        value = cast("Any", output)
        has_json = type(value) is not float or isfinite(value)  # null for NaN would look like no value
        text = msgspec_json.encode(value, enc_hook=_encode_unknown).decode() if has_json else str(value)
        return _data_result(output, text)
    except _UnreadableError as error:
        raise TypeError(
            f"{f'Tool {tool}' if tool else 'The tool'} returned {error}, which a model cannot read. Return text, a ToolResult, a "
            "dataclass, or JSON data."
        ) from None


def _data_result(value: Any, text: str) -> ToolResult:
    result = ToolResult(output=text)
    vars(result)["returned"] = text, value
    return result


def _read_result_form(fields: dict[Any, Any]) -> ToolResult | None:
    """Return the result that a dict describes; None if its fields, or their types, are not exactly those of a form."""
    match fields:
        case {"title": str(), "metadata": dict(), "output": str()} if fields.keys() <= _RESULT_FIELDS:
            try:
                attachments = convert(fields.get("attachments", ()), tuple[Attachment, ...])
            except ValidationError:
                return None
            code = _find_code(fields["metadata"].get("error"))
            return ToolResult(
                output=fields["output"],
                title=fields["title"],
                metadata=fields["metadata"],
                attachments=attachments,
                is_error=code is not None,
                code=code,
            )
        case {"success": True, "result": value, "message": str(message)} if len(fields) == 3:
            result = to_tool_result(value)
            result.title = message
            return result
        case {"success": False, "error": str(name), "message": str(message)} if len(fields) == 3:
            code = _find_code(name)
            # A request for a model stays data: `mainspring.tools.response` reads it, unless the text comes from elsewhere.
            if code in (None, ToolErrorCode.LLM_ASSIST_REQUIRED):
                return None
            return ToolResult(output=message, is_error=True, code=code)
        case _:
            return None


_RESULT_FIELDS = frozenset({"title", "metadata", "output", "attachments"})


def _find_code(name: object) -> ToolErrorCode | None:
    """Return the error code with a name, if it is one."""
    return ToolErrorCode.__members__.get(name) if isinstance(name, str) else None


class _UnreadableError(Exception):
    """Description of an output, or of a part of it, that a model cannot read."""


def _encode_unknown(value: Any) -> Any:
    """Return the text of a value without a JSON form; reject plain objects, whose text contains only a memory address."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):  # a nested pydantic model
        return dump(mode="json")
    text = str(value)
    if text.startswith("<") and (" at 0x" in text or callable(value)):
        kind = cast("type[Any]", type(value))
        spelled = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        raise _UnreadableError(f"a value of type {spelled}")
    return text


def _has_valid_fields(result: ToolResult) -> bool:
    """Return True if the fields have their declared types; the constructor does not check them."""
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
        metadata=to_metadata(result.metadata),
        is_error=bool(result.is_error),
        code=None if result.code is None else _find_code(result.code) or ToolErrorCode.UNKNOWN,
    )


def to_metadata(details: Any) -> dict[str, Any]:
    """Return the facts of a result as a dict; another value is stored as ``details``."""
    if details is None:
        return {}
    return dict(cast("Mapping[str, Any]", details)) if isinstance(details, Mapping) else {"details": details}


def _is_output(output: Any) -> bool:
    if isinstance(output, tuple):
        return all(isinstance(b, TextBlock | ImageBlock) for b in cast("tuple[Any, ...]", output))
    return isinstance(output, str)
