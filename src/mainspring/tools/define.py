"""Making tools: `tool` from a plain function, `define_tool` from its parts."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, cast, overload

from msgspec import Struct

from mainspring.errors import check_option_names
from mainspring.threads import run_in_thread
from mainspring.tools.registry import validate_tool_name
from mainspring.tools.schema.function import (
    FunctionSchema,
    check_object_schema,
    schema_from_signature,
    schema_from_type,
)
from mainspring.tools.tool import Access, Execute, Tool, ToolContext, ToolOutput, ToolResult


class LazyTool(Struct, frozen=True, eq=False):
    """A tool whose definition is made on first use; the agent awaits ``factory`` before its first run."""

    name: str
    factory: Callable[[], Awaitable[Tool]]


_FIELDS = frozenset(Tool.__struct_fields__) - {"input_schema", "execute"}
"""What the decorator may be given: the rest is the function itself."""


class _Decorator(Protocol):
    def __call__(self, fn: Callable[..., Any], /) -> Tool: ...


@overload
def tool(fn: Callable[..., Any], /) -> Tool: ...
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
) -> _Decorator: ...
def tool(fn: Callable[..., Any] | None = None, /, **options: Any) -> Tool | _Decorator:
    """Make a tool of a function, sync or async.

    Name, description and parameters come from the signature and the docstring. A parameter annotated `ToolContext` gets
    the call's context and is not shown to the model. A sync function runs in a thread, so that it cannot block the loop.

    Args:
        fn: The function; without it, a decorator with the given options is returned.
        **options: Fields of `Tool` that the function cannot tell, or that override what it tells.

    Raises:
        TypeError: If a parameter has no type that JSON Schema can express; the text names it.
        ConfigError: If it cannot be the name of a tool.
    """
    if fn is not None:
        return _from_function(fn, options)

    def decorate(fn: Callable[..., Any], /) -> Tool:
        return _from_function(fn, options)

    return decorate


def _from_function(fn: Callable[..., Any], options: dict[str, Any]) -> Tool:
    if isinstance(fn, Tool):
        raise TypeError(f"{fn.name} is a tool already")
    check_option_names("@tool", options, _FIELDS)
    _refuse_generator(fn)
    schema = schema_from_signature(fn)
    fields: dict[str, Any] = {
        "name": schema.name,
        "description": schema.description,
        "input_schema": schema.input_schema,
    }
    fields |= {k: v for k, v in options.items() if v is not None}
    validate_tool_name(fields["name"])
    return Tool(execute=_make_execute(fn, schema), **fields)


def _refuse_generator(fn: Callable[..., Any]) -> None:
    if any(
        test(f) for test in (inspect.isgeneratorfunction, inspect.isasyncgenfunction) for f in (fn, _callable_name(fn))
    ):
        name = getattr(fn, "__name__", type(fn).__name__)
        raise TypeError(
            f"{name}() is a generator, and a call of a tool has one result: collect what it yields and return it. To show people how "
            "far it is, call ctx.update(...) meanwhile"
        )


def _callable_name(fn: Callable[..., Any]) -> Any:
    return getattr(fn, "__call__", None)


def _make_execute(fn: Callable[..., Any], schema: FunctionSchema) -> Execute:
    decode, context = schema.decode, schema.context_param
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(_callable_name(fn)):

        async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult | ToolOutput:
            kwargs = decode(arguments)
            if context:
                kwargs[context] = ctx
            return await fn(**kwargs)

    else:

        async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult | ToolOutput:
            kwargs = decode(arguments)
            if context:
                kwargs[context] = ctx
            output = await run_in_thread(fn, **kwargs)
            return await output if inspect.isawaitable(output) else output

    return execute


Definition = Mapping[str, Any]
"""``description``, ``parameters`` (JSON Schema, msgspec or pydantic type) and ``execute(args, ctx)``, and any other
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
    """Make a tool from its parts.

    Args:
        id: The tool's name.
        definition: Its parts, or an async function that gives them when they are first needed.
        **fields: The same parts as keywords.

    Raises:
        TypeError: If a part is missing or unknown.
        ConfigError: If it cannot be the name of a tool.
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
        raise TypeError(f"define_tool({id!r}): {', '.join(missing)} missing")
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
        raise TypeError(f"define_tool({id!r}): unknown {', '.join(sorted(unknown))}")
    return Tool(name=id, input_schema=schema, execute=execute, **parts)
