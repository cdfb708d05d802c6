"""Create tools: `tool` from a plain function, `define_tool` from parts."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Protocol, TypeAlias, cast, overload

from msgspec import Struct

from mainspring.errors import ToolError, check_option_names
from mainspring.threads import run_in_thread
from mainspring.tools.registry import validate_tool_name
from mainspring.tools.schema.function import (
    FunctionSchema,
    check_object_schema,
    schema_from_signature,
    schema_from_type,
)
from mainspring.tools.tool import (
    Access,
    Execute,
    Tool,
    ToolContext,
    ToolOutput,
    ToolResult,
    create_missing_context,
    to_tool_result,
)
from mainspring.type_variables import DepsT, NeededDepsT

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    # defaults need Python 3.13
    _D = TypeVar("_D", default=Any)
    _P = ParamSpec("_P", default=...)
    _T = TypeVar("_T", default=Any)
else:
    from typing import ParamSpec, TypeVar

    _P = ParamSpec("_P")
    _T = TypeVar("_T")


class LazyTool(Struct, frozen=True, eq=False):
    """Tool whose definition is created on first use; the agent awaits ``factory`` before its first run."""

    name: str
    factory: Callable[[], Awaitable[Tool]]


_FIELDS = frozenset(Tool.__struct_fields__) - {"input_schema", "execute", "check", "former_names"}
"""Options of the decorator; the function defines all others."""

logger = logging.getLogger("mainspring")


class FunctionTool(Tool[NeededDepsT], Generic[_P, _T, NeededDepsT], frozen=True, eq=False, kw_only=True):
    """A tool made from a function. It can be called like the function, with the same arguments.

    Attributes:
        function: The function.
        schema: Names and types of its parameters.
        run: The function as a coroutine function.
    """

    function: Callable[_P, Any]
    schema: FunctionSchema
    run: Callable[..., Awaitable[Any]]

    async def __call__(self, /, *given: _P.args, **arguments: _P.kwargs) -> ToolResult[_T]:
        """Run the tool without an agent, for tests and scripts: ``await forecast("Oslo", days=2)``.

        The arguments are those of the function, in its order. A context can also be the first argument, or be left out.

        Raises:
            TypeError: An argument is missing, or there are too many.
            ToolError: An argument is unknown, has the wrong type, or violates a constraint.
            Exception: Exception of the tool.
        """
        schema, context = self.schema, self.schema.context_param
        try:
            bound = inspect.signature(self.function).bind_partial(*given, **arguments).arguments
        except TypeError:
            return await Tool.__call__(self, *given, **arguments)  # the context first, or the fields of a record
        is_context_first = bool(given) and getattr(given[0], "__tool_context__", False)
        if is_context_first and (context is None or bound.get(context) is not given[0]):
            return await Tool.__call__(self, *given, **arguments)
        ctx = bound.pop(context, None) if context else None
        record = schema.record_param
        if record is None or record not in bound:
            return await Tool.__call__(self, *([] if ctx is None else [ctx]), **bound)
        value: Any = bound[record]
        keywords = schema.decode(cast("dict[str, Any]", value)) if isinstance(value, dict) else {record: value}
        if context:
            keywords[context] = ctx or create_missing_context(self.name)
        return to_tool_result(await self.run(**keywords), self.name)


if TYPE_CHECKING:
    from functools import partial
    from types import CodeType

    class _FirstArgument(ToolContext[DepsT], Any):
        """Fits a first parameter of any type, except for a context with other dependencies."""

    class _Function(Protocol[NeededDepsT]):
        __code__: CodeType  # which a tool does not have: its dependencies are compared as those of a tool

        def __call__(self, first: _FirstArgument[NeededDepsT], /, *rest: Any, **named: Any) -> Any: ...

    class _FunctionWithoutParameters(Protocol):
        __code__: CodeType

        def __call__(self) -> Any: ...

    class _WrappedFunction(Protocol):
        """The result of `functools.wraps`, whose parameters type checkers do not compare."""

        __wrapped__: Any

        def __call__(self, /, *arguments: Any, **named: Any) -> Any: ...

    ToolFunction: TypeAlias = _Function[NeededDepsT] | _FunctionWithoutParameters | _WrappedFunction | partial[Any]
    """A function that can be a tool. If its first parameter is a context, the dependencies must fit."""

    _ContextTool: TypeAlias = FunctionTool[Concatenate[ToolContext[_D], _P], _T, _D]
    """A tool made from a function whose first parameter is the context."""


class _Decorator(Protocol):
    @overload
    def __call__(
        self, fn: Callable[Concatenate[ToolContext[_D], _P], Awaitable[ToolResult[_T]]], /
    ) -> _ContextTool[_D, _P, _T]: ...
    @overload
    def __call__(self, fn: Callable[_P, Awaitable[ToolResult[_T]]], /) -> FunctionTool[_P, _T, object]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[ToolContext[_D], _P], Awaitable[_T]], /
    ) -> _ContextTool[_D, _P, _T]: ...
    @overload
    def __call__(self, fn: Callable[_P, Awaitable[_T]], /) -> FunctionTool[_P, _T, object]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[ToolContext[_D], _P], ToolResult[_T]], /
    ) -> _ContextTool[_D, _P, _T]: ...
    @overload
    def __call__(self, fn: Callable[_P, ToolResult[_T]], /) -> FunctionTool[_P, _T, object]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[ToolContext[_D], _P], _T], /) -> _ContextTool[_D, _P, _T]: ...
    @overload
    def __call__(self, fn: Callable[_P, _T], /) -> FunctionTool[_P, _T, object]: ...


@overload
def tool(fn: Callable[Concatenate[ToolContext[_D], _P], Awaitable[ToolResult[_T]]], /) -> _ContextTool[_D, _P, _T]: ...
@overload
def tool(fn: Callable[_P, Awaitable[ToolResult[_T]]], /) -> FunctionTool[_P, _T, object]: ...
@overload
def tool(fn: Callable[Concatenate[ToolContext[_D], _P], Awaitable[_T]], /) -> _ContextTool[_D, _P, _T]: ...
@overload
def tool(fn: Callable[_P, Awaitable[_T]], /) -> FunctionTool[_P, _T, object]: ...
@overload
def tool(fn: Callable[Concatenate[ToolContext[_D], _P], ToolResult[_T]], /) -> _ContextTool[_D, _P, _T]: ...
@overload
def tool(fn: Callable[_P, ToolResult[_T]], /) -> FunctionTool[_P, _T, object]: ...
@overload
def tool(fn: Callable[Concatenate[ToolContext[_D], _P], _T], /) -> _ContextTool[_D, _P, _T]: ...
@overload
def tool(fn: Callable[_P, _T], /) -> FunctionTool[_P, _T, object]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    label: str = "",
    source: str = "user",
    concurrency_safe: bool = True,
    idempotent: bool = False,
    access: Callable[[Mapping[str, Any]], Sequence[Access]] | None = None,
    path_params: tuple[str, ...] = (),
    preview: Callable[[Mapping[str, Any]], Mapping[str, str]] | None = None,
    requires_approval: bool | Callable[[Mapping[str, Any]], bool] = False,
    timeout: float | None = None,
) -> _Decorator: ...
def tool(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Create a tool from a sync or async function.

    Name, description, and parameters come from the signature and the docstring. A parameter annotated `ToolContext` receives
    the context of the call and is not shown to the model. A sync function runs in a thread, so that it cannot block the loop.

    Type checkers compare the dependencies of the context with those of the agent if the context is the first parameter.

    Args:
        fn: Function; without it, a decorator with the options is returned.
        **options: Fields of `Tool` that the function does not define, or that override it.

    Raises:
        TypeError: A parameter has a type that JSON Schema cannot express; the message names the parameter.
        ConfigError: The name is not a valid tool name, or the timeout is not a number of seconds.
    """
    check_option_names("@tool", options, _FIELDS)
    if isinstance(fn, str):
        raise TypeError(f"@tool takes no name as its first argument. Use @tool(name={fn!r}).")
    if fn is not None:
        return _from_function(fn, options)

    def decorate(fn: Callable[..., Any], /) -> FunctionTool[..., Any]:
        return _from_function(fn, options)

    return decorate


def to_tool(given: Tool | Callable[..., Any]) -> Tool:
    """Return a tool unchanged, and a function as a tool."""
    return cast("Tool", given) if isinstance(given, Tool) else tool(given)


def _from_function(fn: Callable[..., Any], options: dict[str, Any]) -> FunctionTool[..., Any]:
    if isinstance(fn, Tool):
        raise TypeError(f"{fn.name} is already a tool. Pass the plain function.")
    _refuse_generator(fn)
    schema = schema_from_signature(fn)
    fields: dict[str, Any] = {
        "name": schema.name,
        "description": schema.description,
        "input_schema": schema.input_schema,
    }
    fields |= {k: v for k, v in options.items() if v is not None}
    validate_tool_name(fields["name"])
    run = _to_coroutine_function(fn)
    check = None if schema.is_complete else _make_check(schema)
    return FunctionTool(execute=_make_execute(run, schema), check=check, function=fn, schema=schema, run=run, **fields)


def _refuse_generator(fn: Callable[..., Any]) -> None:
    if any(
        test(f) for test in (inspect.isgeneratorfunction, inspect.isasyncgenfunction) for f in (fn, _callable_name(fn))
    ):
        name = getattr(fn, "__name__", type(fn).__name__)
        raise TypeError(
            f"{name}() is a generator, but a tool must return a single result. Collect the values and return them. To report "
            "progress, call ctx.update(...)."
        )


def _callable_name(fn: Callable[..., Any]) -> Any:
    return getattr(fn, "__call__", None)


def _to_coroutine_function(fn: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(_callable_name(fn)):
        return fn

    async def run(**keywords: Any) -> Any:
        output = await run_in_thread(fn, **keywords)
        return await output if inspect.isawaitable(output) else output

    return run


def _make_execute(run: Callable[..., Awaitable[Any]], schema: FunctionSchema) -> Execute:
    decode, context = schema.decode, schema.context_param

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult | ToolOutput:
        keywords = decode(arguments)
        if context:
            keywords[context] = ctx
        return await run(**keywords)

    return execute


def _make_check(schema: FunctionSchema) -> Callable[[dict[str, Any]], str | None]:
    def check(arguments: dict[str, Any]) -> str | None:
        try:
            schema.decode(arguments)
        except ToolError as problem:
            return str(problem)
        except Exception as problem:  # a bug in a class of the user, which the call itself reports
            logger.debug("Arguments cannot be checked", exc_info=problem)
        return None

    return check


Definition = Mapping[str, Any]
"""``description``, ``parameters`` (JSON Schema, msgspec type, or pydantic type), ``execute(args, ctx)``, and any other
field of `Tool`."""


@overload
def define_tool(id: str, definition: Definition, /) -> Tool: ...
@overload
def define_tool(id: str, definition: Callable[[], Awaitable[Definition]], /) -> LazyTool: ...
@overload
def define_tool(
    id: str,
    /,
    *,
    description: str,
    parameters: dict[str, Any] | type,
    execute: Execute | Callable[..., Any],
    **fields: Any,
) -> Tool: ...
def define_tool(
    id: str, definition: Definition | Callable[[], Awaitable[Definition]] | None = None, /, **fields: Any
) -> Tool | LazyTool:
    """Create a tool from its parts.

    Args:
        id: Name of the tool.
        definition: Parts of the tool, or an async function that returns the parts on first use.
        **fields: The same parts as keyword arguments.

    Raises:
        TypeError: A part is missing or unknown.
        ConfigError: The name is not a valid tool name.
    """
    validate_tool_name(id)
    if definition is None or isinstance(definition, Mapping):
        return _from_definition(id, {**(definition or {}), **fields})

    async def load() -> Tool:
        return _from_definition(id, dict(await definition()))

    return LazyTool(id, load)


def _from_definition(id: str, parts: dict[str, Any]) -> Tool:
    missing = [k for k in ("description", "parameters", "execute") if k not in parts]
    if missing:
        raise TypeError(f"define_tool({id!r}): Missing fields: {', '.join(missing)}.")
    parameters, run = parts.pop("parameters"), parts.pop("execute")
    if isinstance(parameters, Mapping):
        schema, decode = check_object_schema(cast("Mapping[str, Any]", parameters)), None
    else:
        schema, decode = schema_from_type(parameters)
    _refuse_generator(run)
    is_async = inspect.iscoroutinefunction(run)

    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult | ToolOutput:
        value = decode(arguments) if decode else arguments
        output = run(value, ctx) if is_async else await run_in_thread(run, value, ctx)
        return await output if inspect.isawaitable(output) else output

    unknown = set(parts) - set(Tool.__struct_fields__)
    if unknown:
        raise TypeError(f"define_tool({id!r}): Unknown fields: {', '.join(sorted(unknown))}.")
    return Tool(name=id, input_schema=schema, execute=execute, **parts)
