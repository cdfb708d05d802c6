"""Tools: the decorator, `define_tool`, direct calls, and the registry."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
import pytest
from msgspec import Meta, Struct

from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError, ToolError
from mainspring.messages import ImageBlock, TextBlock
from mainspring.tools import (
    Access,
    Attachment,
    LazyTool,
    Tool,
    ToolContext,
    ToolErrorCode,
    ToolRegistry,
    ToolResult,
    define_tool,
    to_tool_result,
    tool,
)
from mainspring.tools.execute import run_tool


def make_context(**fields: Any) -> ToolContext:
    return ToolContext(env=MemoryEnv({"a.txt": "hi"}), **fields)


@tool(label="Weather", idempotent=True)
async def forecast(city: str, days: int = 1) -> str:
    """Forecast for a city.

    Args:
        city: Name of the city.
        days: How many days ahead, 1 to 7.
    """
    return f"{city} {days}"


@pytest.mark.covers("TDF-01", "TDF-07", "TDF-15")
def test_decorator_derives_schema_and_description() -> None:
    assert (forecast.name, forecast.label, forecast.idempotent, forecast.source) == (
        "forecast",
        "Weather",
        True,
        "user",
    )
    assert forecast.spec.description == "Forecast for a city."
    assert forecast.input_schema["required"] == ["city"]
    assert forecast.input_schema["properties"]["days"]["description"] == "How many days ahead, 1 to 7."
    assert forecast.spec.input_schema is forecast.input_schema


@pytest.mark.covers("TOL-24", "PKG-20")
async def test_tool_is_usable_without_an_agent() -> None:
    result = await forecast(city="Oslo", days=2)
    assert result.text == "Oslo 2"
    with pytest.raises(TypeError, match="is already a tool"):
        tool(forecast)


@pytest.mark.covers("TDF-02")
async def test_define_tool_from_parts() -> None:
    class SearchInput(msgspec.Struct):
        q: str
        limit: int = 10

    async def search(query: SearchInput, ctx: ToolContext) -> ToolResult:
        return ToolResult(output=f"{query.q}/{query.limit}", metadata={"id": ctx.call_id})

    created = define_tool(
        "search", {"description": "Search.", "parameters": SearchInput, "execute": search, "label": "Find"}
    )
    assert (created.name, created.label, created.input_schema["required"]) == ("search", "Find", ["q"])
    result = await created(make_context(call_id="c1"), q="x")
    assert (result.text, result.metadata) == ("x/10", {"id": "c1"})
    raw = define_tool("raw", description="Raw.", parameters={"type": "object"}, execute=lambda args, ctx: f"got {args}")
    assert (await raw(make_context(), a=1)).text == "got {'a': 1}"
    for invalid in (
        {"description": "x"},
        {"description": "x", "parameters": {"type": "object"}, "execute": search, "colour": 1},
    ):
        with pytest.raises(TypeError, match="define_tool"):
            define_tool("bad", invalid)


@pytest.mark.covers("TDF-02")
async def test_define_tool_accepts_an_async_definition() -> None:
    async def definition() -> dict[str, Any]:
        return {"description": "D", "parameters": {"type": "object"}, "execute": lambda args, ctx: "x"}

    lazy = define_tool("later", definition)
    assert isinstance(lazy, LazyTool)
    assert isinstance(await lazy.factory(), Tool)


@pytest.mark.covers("TDF-03", "TDF-06", "TDF-09", "TEX-18")
def test_return_values_become_results() -> None:
    image = ImageBlock("image/png", "AAAA")
    assert to_tool_result("text").output == "text"
    assert to_tool_result(None).output == ""
    assert to_tool_result({"a": [1, 2]}).output == '{"a":[1,2]}'
    assert to_tool_result([TextBlock("a"), image]).output == (TextBlock("a"), image)
    assert to_tool_result(image).text == "[image/png]"
    full = ToolResult(
        output="x",
        title="done",
        metadata={"rows": 3},
        attachments=(Attachment("plot.png", "image/png", data="AAAA"),),
        is_error=True,
        code=ToolErrorCode.NOT_FOUND,
    )
    assert to_tool_result(full) is full
    assert (full.title, full.metadata["rows"], full.attachments[0].name) == ("done", 3, "plot.png")


@pytest.mark.covers("TDF-04", "TDF-05", "TDF-08", "TEX-31")
async def test_context_has_call_details_and_reports_updates() -> None:
    seen: list[Any] = []
    ctx = make_context(
        session_id="s", message_id="m", agent="a", call_id="c", extra={"db": 1}, on_update=lambda *a: seen.append(a)
    )
    assert (ctx.session_id, ctx.message_id, ctx.agent, ctx.call_id, ctx.extra) == ("s", "m", "a", "c", {"db": 1})
    ctx.metadata(title="t", n=1)
    ctx.update("half")
    assert seen == [("", "t", {"n": 1}), ("half", None, None)]
    assert not ctx.is_aborted
    ctx.signal.cancel()
    assert ctx.is_aborted


def test_context_publishes_facts_as_a_mapping_and_as_keywords() -> None:
    seen: list[tuple[str, str | None, dict[str, Any] | None]] = []
    ctx = ToolContext(env=MemoryEnv(), on_update=lambda *update: seen.append(update))
    ctx.metadata(title="t", metadata={"n": 1}, m=2)
    ctx.metadata(n=3)
    assert seen == [("", "t", {"n": 1, "m": 2}), ("", None, {"n": 3})]


async def test_permitted_path_is_used() -> None:
    ctx = make_context(paths={"link": "/real/place"})
    assert await ctx.resolve("link") == "/real/place"
    assert (await ctx.resolve("a.txt")).endswith("/a.txt")


@pytest.mark.covers("TDF-15")
def test_registry_rejects_duplicate_and_invalid_names() -> None:
    registry = ToolRegistry([forecast])
    with pytest.raises(ConfigError, match="Duplicate tool name: 'forecast'"):
        registry.add(forecast)
    for name in ("", "a b", "x" * 129, "ü"):
        with pytest.raises(ConfigError, match="tool name"):
            registry.add(define_tool(name, description="", parameters={"type": "object"}, execute=lambda a, c: ""))
    dunder_tool = define_tool("__class__", description="", parameters={"type": "object"}, execute=lambda a, c: "")
    assert registry.get("__class__") is None
    registry.add(dunder_tool)
    assert registry.get("__class__") is dunder_tool
    assert [t.name for t in registry] == ["forecast", "__class__"]
    assert [s.name for s in registry.specs] == ["forecast", "__class__"]
    assert registry.specs is registry.specs
    only = registry.subset(["forecast"])
    assert (len(only), len(registry), "forecast" in only) == (1, 2, True)
    with pytest.raises(ConfigError, match="Unknown tool: nope"):
        registry.subset(["nope"])
    registry.remove("forecast")
    registry.remove("forecast")
    assert [s.name for s in registry.specs] == ["__class__"]
    copy = registry.copy()
    copy.remove("__class__")
    assert len(registry) == 1


def test_access_is_a_value() -> None:
    assert Access("fs-read", "a") == Access("fs-read", "a")


# --- direct calls ----------------------------------------------------------------------------------------------------------


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@tool
async def where(path: str, ctx: ToolContext, deep: bool = False) -> str:
    """Where it is."""
    return f"{ctx.env.cwd}/{path} {deep}"


async def test_tool_is_called_like_its_function() -> None:
    assert (await add(1, 2)).text == (await add(1, b=2)).text == (await add(a=1, b=2)).text == "3"
    assert (await add(1)).text == "2"
    ctx = ToolContext(env=MemoryEnv())
    untyped: Any = where  # the context can also be the first argument
    for created in (
        where("x", ctx, True),
        where(path="x", ctx=ctx, deep=True),
        untyped(ctx, "x", True),
        untyped(ctx, path="x", deep=True),
    ):
        assert (await created).text == f"{ctx.env.cwd}/x True"


class Query(Struct):
    words: str


@tool
def search(query: Query, ctx: ToolContext) -> list[str]:
    """Search."""
    return [query.words, ctx.call_id]


async def test_record_of_a_direct_call_is_passed_whole_or_by_its_fields() -> None:
    ctx, untyped = ToolContext(env=MemoryEnv(), call_id="1"), cast("Any", search)
    for created in (search(Query("a"), ctx), untyped({"words": "a"}, ctx), untyped(ctx, words="a")):
        assert (await created).value == ["a", "1"]


async def test_direct_call_checks_constraints() -> None:
    @tool
    def plan(days: Annotated[int, Meta(ge=1)]) -> int:
        return days

    assert (await plan(1)).value == 1
    with pytest.raises(ToolError, match=r"\$\.days: 0 is less than the minimum of 1"):
        await plan(0)


async def test_invalid_direct_call_explains_the_error() -> None:
    add, where = cast("Any", globals()["add"]), cast("Any", globals()["where"])
    with pytest.raises(
        TypeError, match=r"Tool add takes the arguments a, b, but 3 were passed.*add\(ToolContext\(env=MemoryEnv"
    ):
        await add(1, 2, 3)
    with pytest.raises(TypeError, match="Tool add received the argument 'a' twice"):
        await add(1, a=2)
    with pytest.raises(TypeError, match=r"Tool where uses the environment \(env.cwd\), but was called without one"):
        await where("x")
    with pytest.raises(ToolError, match="missing required property 'a'"):
        await add()
    no_arguments: Any = tool(name="nothing")(lambda: "x")
    with pytest.raises(TypeError, match="takes no arguments, but 1 were passed"):
        await no_arguments("x")


# --- invalid results -------------------------------------------------------------------------------------------------------


class Unserializable:
    """A class without a representation for models."""


def test_generator_is_rejected_at_definition() -> None:
    def each() -> Iterator[str]:
        """Each."""
        yield "a"

    async def later() -> AsyncIterator[str]:
        """Later."""
        yield "a"

    for created in (each, later):
        with pytest.raises(TypeError, match=rf"{created.__name__}\(\) is a generator.*Collect.*ctx.update"):
            tool(created)
        with pytest.raises(TypeError, match="is a generator"):
            define_tool("x", description="", parameters={"type": "object"}, execute=created)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ((n for n in (1,)), "generator"),
        (Unserializable(), f"{__name__}.Unserializable"),
        ([{"a": Unserializable()}], f"{__name__}.Unserializable"),
        (Unserializable, "type"),
    ],
)
async def test_unreadable_return_value_is_an_error_with_the_tool_name(
    value: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    created = tool(name="odd")(lambda: value)
    text = f"Tool odd returned a value of type {kind}, which a model cannot read. Return text"
    with pytest.raises(TypeError, match=re.escape(text)):
        await created()
    with pytest.raises(TypeError, match=re.escape(text)):
        await run_tool(created, {}, make_context())
    assert text in caplog.text


async def test_convertible_return_values_become_text() -> None:
    class Model:
        def model_dump(self, mode: str) -> dict[str, str]:
            return {"mode": mode}

    created = tool(name="fine")(lambda: {"path": Path("a/b"), "model": Model(), "many": {1}})
    assert (await created()).text == '{"path":"a/b","model":{"mode":"json"},"many":[1]}'
