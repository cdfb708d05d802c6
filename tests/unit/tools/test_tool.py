"""What a tool is, the two ways to make one, and the registry."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

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


def context(**fields: Any) -> ToolContext:
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
def test_a_function_tells_schema_description_and_implementation() -> None:
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
async def test_a_tool_is_usable_without_an_agent() -> None:
    result = await forecast(context(), city="Oslo", days=2)
    assert result.text == "Oslo 2"
    with pytest.raises(TypeError, match="is already a tool"):
        tool(forecast)


@pytest.mark.covers("TDF-02")
async def test_a_tool_is_defined_from_its_parts() -> None:
    class Query(msgspec.Struct):
        q: str
        limit: int = 10

    async def search(query: Query, ctx: ToolContext) -> ToolResult:
        return ToolResult(output=f"{query.q}/{query.limit}", metadata={"id": ctx.call_id})

    made = define_tool("search", {"description": "Search.", "parameters": Query, "execute": search, "label": "Find"})
    assert (made.name, made.label, made.input_schema["required"]) == ("search", "Find", ["q"])
    result = await made(context(call_id="c1"), q="x")
    assert (result.text, result.metadata) == ("x/10", {"id": "c1"})
    raw = define_tool("raw", description="Raw.", parameters={"type": "object"}, execute=lambda args, ctx: f"got {args}")
    assert (await raw(context(), a=1)).text == "got {'a': 1}"
    for wrong in (
        {"description": "x"},
        {"description": "x", "parameters": {"type": "object"}, "execute": search, "colour": 1},
    ):
        with pytest.raises(TypeError, match="define_tool"):
            define_tool("bad", wrong)


@pytest.mark.covers("TDF-02")
async def test_a_definition_may_come_later() -> None:
    async def definition() -> dict[str, Any]:
        return {"description": "D", "parameters": {"type": "object"}, "execute": lambda args, ctx: "x"}

    lazy = define_tool("later", definition)
    assert isinstance(lazy, LazyTool)
    assert isinstance(await lazy.factory(), Tool)


@pytest.mark.covers("TDF-03", "TDF-06", "TDF-09", "TEX-18")
def test_whatever_a_tool_returns_becomes_a_result() -> None:
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
async def test_the_context_knows_the_call_and_passes_reports_on() -> None:
    seen: list[Any] = []
    ctx = context(
        session_id="s", message_id="m", agent="a", call_id="c", extra={"db": 1}, on_update=lambda *a: seen.append(a)
    )
    assert (ctx.session_id, ctx.message_id, ctx.agent, ctx.call_id, ctx.extra) == ("s", "m", "a", "c", {"db": 1})
    ctx.metadata(title="t", n=1)
    ctx.update("half")
    assert seen == [("", "t", {"n": 1}), ("half", None, None)]
    assert not ctx.is_aborted
    ctx.signal.cancel()
    assert ctx.is_aborted


async def test_the_permitted_path_is_the_one_that_is_used() -> None:
    ctx = context(paths={"link": "/real/place"})
    assert await ctx.resolve("link") == "/real/place"
    assert (await ctx.resolve("a.txt")).endswith("/a.txt")


@pytest.mark.covers("TDF-15")
def test_a_registry_refuses_what_would_be_ambiguous() -> None:
    registry = ToolRegistry([forecast])
    with pytest.raises(ConfigError, match="Duplicate tool name: 'forecast'"):
        registry.add(forecast)
    for name in ("", "a b", "x" * 129, "ü"):
        with pytest.raises(ConfigError, match="tool name"):
            registry.add(define_tool(name, description="", parameters={"type": "object"}, execute=lambda a, c: ""))
    odd = define_tool("__class__", description="", parameters={"type": "object"}, execute=lambda a, c: "")
    assert registry.get("__class__") is None
    registry.add(odd)
    assert registry.get("__class__") is odd
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


def test_an_access_is_a_value() -> None:
    assert Access("fs-read", "a") == Access("fs-read", "a")


# --- called by hand --------------------------------------------------------------------------------------------------------


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@tool
async def where(path: str, ctx: ToolContext, deep: bool = False) -> str:
    """Where it is."""
    return f"{ctx.env.cwd}/{path} {deep}"


async def test_a_tool_is_called_as_its_function_is() -> None:
    assert (await add(1, 2)).text == (await add(1, b=2)).text == (await add(a=1, b=2)).text == "3"
    assert (await add(1)).text == "2"
    ctx = ToolContext(env=MemoryEnv())
    for made in (where(ctx, "x", True), where(ctx, path="x", deep=True), where(ctx, "x", deep=True)):
        assert (await made).text == f"{ctx.env.cwd}/x True"


async def test_a_call_by_hand_that_cannot_be_says_how() -> None:
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
    nothing = tool(name="nothing")(lambda: "x")
    with pytest.raises(TypeError, match="takes no arguments, but 1 were passed"):
        await nothing("x")


# --- what cannot be a result -----------------------------------------------------------------------------------------------


class Plain:
    """A class that has no form a model could read."""


def test_a_generator_is_refused_when_the_tool_is_made() -> None:
    def each() -> Iterator[str]:
        """Each."""
        yield "a"

    async def later() -> AsyncIterator[str]:
        """Later."""
        yield "a"

    for made in (each, later):
        with pytest.raises(TypeError, match=rf"{made.__name__}\(\) is a generator.*Collect.*ctx.update"):
            tool(made)
        with pytest.raises(TypeError, match="is a generator"):
            define_tool("x", description="", parameters={"type": "object"}, execute=made)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ((n for n in (1,)), "generator"),
        (Plain(), f"{__name__}.Plain"),
        ([{"a": Plain()}], f"{__name__}.Plain"),
        (Plain, "type"),
    ],
)
async def test_what_no_model_could_read_is_a_failure_that_names_the_tool(
    value: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = tool(name="odd")(lambda: value)
    text = f"Tool odd returned a value of type {kind}, which a model cannot read. Return text"
    with pytest.raises(TypeError, match=re.escape(text)):
        await made()
    with pytest.raises(TypeError, match=re.escape(text)):
        await run_tool(made, {}, context())
    assert text in caplog.text


async def test_what_has_a_text_of_its_own_is_one() -> None:
    class Model:
        def model_dump(self, mode: str) -> dict[str, str]:
            return {"mode": mode}

    made = tool(name="fine")(lambda: {"path": Path("a/b"), "model": Model(), "many": {1}})
    assert (await made()).text == '{"path":"a/b","model":{"mode":"json"},"many":[1]}'
