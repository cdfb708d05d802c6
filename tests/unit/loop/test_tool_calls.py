"""Tool calls: the order of the steps, the handlers that may change a call, and one result for each call."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring.env import MemoryEnv
from mainspring.errors import ToolError
from mainspring.events import ToolExecutionEnd
from mainspring.loop import CoreAgent, HookBus, LoopContext, LoopOptions, agent_loop
from mainspring.loop.hooks import HOOK_NAMES, ToolBefore
from mainspring.messages import ImageBlock, TextBlock, ToolUseBlock
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import Tool, ToolContext, ToolErrorCode, ToolRegistry, ToolResult, tool
from mainspring.tools.builtin import apply_patch, builtin_tools
from mainspring.tools.execute import output_bytes
from tests.unit.loop.harness import (
    Script,
    as_message,
    assert_results_follow_calls,
    make_config,
    text_reply,
    tool_call_reply,
    tool_calls_reply,
)


@tool
async def add(a: int, b: int = 1) -> str:
    """Add."""
    return str(a + b)


async def run_calls(*turn: Any, tools: Any = (add,), hooks: Any = None, **options: Any) -> tuple[list[Any], list[Any]]:
    """Run one turn with these calls and return the results and the events."""
    bus = HookBus(hooks)
    events: list[Any] = []
    bus.subscribe(events.append)
    ctx = LoopContext(tools=ToolRegistry(tools))
    await agent_loop("go", ctx, make_config(Script(tool_calls_reply(*turn), text_reply("ok")), bus=bus, **options))
    assert_results_follow_calls(ctx.messages)
    return list(as_message(ctx.messages[2]).tool_results), events


@pytest.mark.covers("TEX-11", "TEX-10")
async def test_steps_of_a_tool_call_happen_in_order() -> None:
    order: list[str] = []

    @tool
    async def run(n: int) -> str:
        """Run."""
        order.append(f"execute {n!r}")
        return "x"

    names = [n for n in HOOK_NAMES if n.startswith(("tool", "validation"))]
    hooks = {n: (lambda ctx, n=n: order.append(n)) for n in names}
    await run_calls(tool_call_reply("run", n="3"), tools=[run], hooks=hooks)
    assert order == [
        "tool:intent", "tool:gate", "validation:coerce", "tool:before", "tool:permit", "tool:start", "execute 3",
        "tool:transform", "tool:after", "tool-results:after",
    ]  # fmt: skip


@pytest.mark.covers("TEX-11")
async def test_call_is_counted_between_the_gate_and_the_lookup() -> None:
    hooks = {"tool:gate": lambda ctx: {"block": "no"} if ctx.name == "add" else None}
    _, events = await run_calls(tool_call_reply("add", a=1), tool_call_reply("nope"), hooks=hooks)
    assert events[-1].stats.tool_counts == {"nope": 1}, "a blocked call does not count, one of an unknown tool does"


@pytest.mark.covers("TEX-10")
async def test_tool_gets_the_coerced_arguments() -> None:
    received: list[dict[str, Any]] = []

    async def execute(arguments: dict[str, Any], context: ToolContext) -> str:
        received.append(arguments)
        return "x"

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    plain = Tool(name="run", description="Run.", input_schema=schema, execute=execute)
    await run_calls(tool_call_reply("run", n="3"), tools=[plain])
    await run_calls(tool_call_reply("run", n="3"), tools=[plain], hooks={"tool:before": lambda ctx: None})
    assert received == [{"n": 3}, {"n": 3}]


async def test_tool_start_handler_cannot_change_the_permitted_input() -> None:
    def change(ctx: Any) -> None:
        ctx.input["a"] = 9

    (result,), _ = await run_calls(tool_call_reply("add", a=1), hooks={"tool:start": change})

    assert result.content == "2"


@pytest.mark.covers("HOK-22", "TEX-12", "TEX-14")
async def test_block_overrides_a_result_and_is_not_counted() -> None:
    seen: list[str] = []

    def gate(ctx: Any) -> None:
        ctx.result = "substitute"
        ctx.block = True
        ctx.reason = "not today"

    hooks = {
        "tool:gate": gate,
        "tool:after": lambda c: seen.append("after"),
        "turn:after": lambda c: seen.append(str(c.tool_counts)),
    }
    (result,), _ = await run_calls(tool_call_reply("add", a=1), hooks=hooks)
    assert (result.text, result.is_error) == ("Blocked: not today", True)
    assert seen == ["{}", "{}"]
    (result,), _ = await run_calls(tool_call_reply("add", a=1), hooks={"tool:gate": lambda ctx: {"block": "a reason"}})
    assert result.text == "Blocked: a reason"


@pytest.mark.covers("HOK-22", "TEX-13")
async def test_substitute_result_is_counted_transformed_and_reported() -> None:
    seen: list[str] = []
    hooks = {
        "tool:gate": lambda ctx: {"result": "from the cache"},
        "tool:before": lambda ctx: seen.append("before"),
        "tool:transform": lambda ctx: seen.append("transform"),
        "tool:after": lambda ctx: seen.append(f"after {dict(ctx.tool_counts)}"),
    }
    (result,), _ = await run_calls(tool_call_reply("add", a=1), hooks=hooks)
    assert (result.text, result.is_error) == ("from the cache", False)
    assert seen == ["transform", "after {}"]


@pytest.mark.covers("TEX-15")
async def test_unknown_tool_returns_an_error_with_a_suggestion() -> None:
    seen: list[str] = []
    hooks = {"tool:unknown": lambda c: seen.append("unknown"), "tool:error": lambda c: seen.append("error"),
             "turn:after": lambda c: seen.append(str(c.tool_counts))}  # fmt: skip
    (result,), _ = await run_calls(tool_call_reply("ad", a=1), hooks=hooks)
    assert result.text == "Unknown tool: ad. Did you mean add?"
    assert result.is_error
    assert seen == ["{}", "unknown", "error", "{'ad': 1}"]
    seen.clear()
    hooks = {
        "tool:unknown": lambda c: {"result": "try add", "suppress_error": True},
        "tool:error": lambda c: seen.append("error"),
    }
    (result,), _ = await run_calls(tool_call_reply("__class__"), hooks=hooks)
    assert (result.text, seen) == ("try add", [])


@pytest.mark.covers("TEX-09", "TEX-01", "TEX-04", "PKG-07")
async def test_invalid_arguments_are_reported_and_fire_no_later_hooks() -> None:
    seen: list[str] = []
    hooks = {
        n: (lambda ctx: seen.append(type(ctx).event))
        for n in ("validation:reject", "tool:before", "tool:transform", "tool:after")
    }
    (result,), _ = await run_calls(tool_call_reply("add", b="many"), hooks=hooks)
    assert result.text.startswith("Validation error: ")
    assert "a" in result.text
    assert "b" in result.text
    assert result.is_error
    assert seen == ["validation:reject"]


@pytest.mark.covers("TEX-02")
async def test_original_arguments_of_the_model_are_never_changed() -> None:
    inputs: list[Any] = []

    @tool
    async def change(items: list[int]) -> str:
        """Change."""
        items.append(99)
        return "x"

    original = {"items": ["1", 2]}
    hooks = {"tool:gate": lambda ctx: inputs.append(ctx.input)}
    await run_calls(ToolUseBlock("c", "change", original), tools=[change], hooks=hooks)
    assert inputs == [{"items": ["1", 2]}]
    assert original == {"items": ["1", 2]}


@pytest.mark.covers("HOK-25")
async def test_tool_before_receives_coercions_and_prior_content() -> None:
    seen: list[Any] = []

    async def before(ctx: ToolBefore) -> None:
        seen.append(([c.path for c in ctx.coercions], await ctx.prior_content()))

    files = {"a.txt": "old", "b.txt": "b" * 2000}
    writes = [
        ScriptedCall("write_file", {"path": "a.txt", "content": 5}),
        ScriptedCall("write_file", {"path": "a.txt", "content": "newer"}),
        ScriptedCall("edit", {"path": "b.txt", "old_string": "x", "new_string": "y"}),
        ScriptedCall("write_file", {"path": "new.txt", "content": "x"}),
        ScriptedCall("read_file", {"path": "a.txt"}),
        ScriptedCall("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: new.txt\n*** End Patch"}),
    ]
    tools = [*builtin_tools(), apply_patch]
    core_agent = CoreAgent(ScriptedModel(*writes, "ok"), env=MemoryEnv(files), tools=tools, hooks={ToolBefore: before})
    await core_agent.run("go")
    assert seen == [
        (["$.content"], {"a.txt": b"old"}),
        ([], {"a.txt": b"5"}),
        ([], {"b.txt": b"b" * 2000}),
        ([], {"new.txt": None}),
        ([], {}),
        ([], {"new.txt": b"x"}),
    ]


@pytest.mark.covers("HOK-25")
async def test_prior_content_is_none_for_unreadable_or_large_files() -> None:
    seen: list[Any] = []

    async def before(ctx: ToolBefore) -> None:
        seen.append(await ctx.prior_content(limit=3))

    writes = [ScriptedCall("write_file", {"path": p, "content": "x"}) for p in ("abc", "abcd", "folder", "a\0b")]
    core_agent = CoreAgent(
        ScriptedModel(writes, "ok"),
        env=MemoryEnv({"abc": "abc", "abcd": "abcd", "folder/x": "x"}),
        tools=builtin_tools(),
        hooks={ToolBefore: before},
    )
    await core_agent.run("go")
    assert seen == [{"abc": b"abc"}, {"abcd": None}, {"folder": None}, {"a\0b": None}]


@pytest.mark.covers("TEX-10")
async def test_tool_before_can_replace_the_input_which_is_validated_again() -> None:
    (result,), _ = await run_calls(
        tool_call_reply("add", a=1), hooks={"tool:before": lambda ctx: {"input": {"a": "40", "b": 2}}}
    )
    assert result.text == "42"
    (result,), _ = await run_calls(
        tool_call_reply("add", a=1), hooks={"tool:before": lambda ctx: {"input": {"a": "no"}}}
    )
    assert result.text.startswith("Validation error: ")


@pytest.mark.covers("HOK-45", "SEC-04")
async def test_permission_check_sees_the_final_arguments_and_cannot_change_them() -> None:
    judged: list[Any] = []

    def permit(ctx: Any) -> None:
        judged.append((ctx.input, dict(ctx.original)))
        ctx.input["a"] = 1000

    hooks = {"tool:before": lambda ctx: {"input": {"a": 2}}, "tool:permit": permit}
    (result,), _ = await run_calls(tool_call_reply("add", a="1"), hooks=hooks)
    assert judged == [({"a": 1000}, {"a": "1"})]
    assert result.text == "3"

    def refuse(ctx: Any) -> None:
        ctx.deny("no writing")

    later: list[str] = []
    (result,), _ = await run_calls(
        tool_call_reply("add", a=1), hooks={"tool:permit": [refuse, lambda c: later.append("asked")]}
    )
    assert (result.text, result.is_error) == ("Permission denied: no writing", True)
    assert result.details == {"code": ToolErrorCode.PERMISSION_DENIED}
    assert not later, "later handlers cannot override a denial"


async def test_denial_can_end_the_run() -> None:
    bus = HookBus({"tool:permit": lambda ctx: ctx.deny("never", stop=True)})
    ctx = LoopContext(tools=ToolRegistry([add]))
    result = await agent_loop("go", ctx, make_config(Script(tool_call_reply("add", a=1), text_reply("no")), bus=bus))
    assert (result.status, result.turns) == ("denied", 1)
    assert_results_follow_calls(ctx.messages)


@pytest.mark.covers("HOK-44")
async def test_failing_gate_blocks_and_a_failing_observer_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(ctx: Any) -> None:
        raise RuntimeError("bug")

    for gate, text in (("tool:gate", "Blocked: "), ("tool:permit", "Permission denied: "), ("tool:start", "Not run: ")):
        (result,), _ = await run_calls(tool_call_reply("add", a=1), hooks={gate: broken})
        assert result.text.startswith(text)
        assert "RuntimeError: bug" in result.text
        assert result.is_error
    for observer in ("tool:before", "tool:transform", "tool:after", "turn:after", "session:turns", "usage"):
        (result,), _ = await run_calls(tool_call_reply("add", a=1), hooks={observer: broken})
        assert result.text == "2"
    assert "handler" in caplog.text


@pytest.mark.covers("TDF-12", "TEX-16")
@pytest.mark.parametrize(
    ("error", "text", "code"),
    [
        (ToolError("no such city"), "no such city", ToolErrorCode.UNKNOWN),
        (ValueError("bad"), "Error: ValueError: bad", ToolErrorCode.UNKNOWN),
        (FileNotFoundError("x.txt"), "Error: x.txt", ToolErrorCode.NOT_FOUND),
        (OSError("disk"), "Error: disk", ToolErrorCode.IO_ERROR),
        (TimeoutError(), "fail took too long", ToolErrorCode.TIMEOUT),
    ],
)
async def test_tool_exception_becomes_its_result(error: Exception, text: str, code: ToolErrorCode) -> None:
    @tool
    async def fail() -> str:
        """Fail."""
        raise error

    seen: list[str] = []
    hooks = {n: (lambda ctx: seen.append(type(ctx).event)) for n in ("tool:error", "tool:transform", "tool:after")}
    (result,), events = await run_calls(tool_call_reply("fail"), tools=[fail], hooks=hooks)
    assert (result.text, result.is_error, result.details) == (text, True, {"code": code})
    assert [e.exception for e in events if isinstance(e, ToolExecutionEnd)] == [error]
    assert seen == ["tool:error", "tool:transform", "tool:after"]
    (result,), _ = await run_calls(
        tool_call_reply("fail"), tools=[fail], hooks={"tool:error": lambda ctx: {"result": "stand-in"}}
    )
    assert (result.text, result.is_error) == ("stand-in", False)


async def test_returned_error_result_is_a_failure() -> None:
    @tool
    async def fail() -> ToolResult:
        """Fail."""
        return ToolResult(output="nothing there", is_error=True, code=ToolErrorCode.NOT_FOUND)

    (result,), _ = await run_calls(tool_call_reply("fail"), tools=[fail])
    assert (result.text, result.is_error) == ("nothing there", True)


@pytest.mark.covers("HOK-26")
async def test_transform_can_change_the_result_for_the_model() -> None:
    def shout(ctx: Any) -> None:
        ctx.result = ToolResult(output=f"{ctx.result.output}!", is_error=True)

    (result,), _ = await run_calls(tool_call_reply("add", a=1), hooks={"tool:transform": shout})
    assert (result.text, result.is_error) == ("2!", True)


@pytest.mark.covers("TEX-20", "TEX-21", "TEX-32", "AGT-06")
async def test_parallel_calls_run_together_fail_separately_and_keep_their_order() -> None:
    running: set[str] = set()
    together = asyncio.Event()

    @tool
    async def meet(n: str, ctx: ToolContext) -> str:
        """Wait for the others."""
        running.add(ctx.call_id)
        if len(running) == 3:
            together.set()
        await together.wait()
        if n == "b":
            raise ValueError("b fails")
        return n

    results, events = await run_calls(*(tool_call_reply("meet", n=n) for n in "abc"), tools=[meet])
    assert [r.text for r in results] == ["a", "Error: ValueError: b fails", "c"]
    assert len(running) == 3
    starts = [e.call.id for e in events if e.type == "tool_execution_start"]
    assert starts == [r.tool_use_id for r in results]
    assert {e.call.id for e in events if e.type == "tool_execution_end"} == set(starts)


@pytest.mark.covers("TEX-20")
async def test_unsafe_calls_run_alone_and_in_order() -> None:
    log: list[str] = []

    def make(name: str, safe: bool) -> Any:
        @tool(name=name, concurrency_safe=safe)
        async def run() -> str:
            """Run."""
            log.append(f"+{name}")
            await asyncio.sleep(0)
            log.append(f"-{name}")
            return name

        return run

    await run_calls(
        tool_call_reply("r1"),
        tool_call_reply("r2"),
        tool_call_reply("w"),
        tool_call_reply("r3"),
        tools=[make("r1", True), make("r2", True), make("w", False), make("r3", True)],
    )
    assert log == ["+r1", "+r2", "-r1", "-r2", "+w", "-w", "+r3", "-r3"]


@pytest.mark.covers("TEX-20")
@pytest.mark.parametrize(
    ("behavior", "expected"),
    [(LoopOptions(tool_concurrency=2), 2), (LoopOptions(tool_concurrency=2, tool_execution="sequential"), 1)],
)
async def test_concurrent_calls_do_not_exceed_the_limit(behavior: LoopOptions, expected: int) -> None:
    active = limit = 0

    @tool
    async def run() -> str:
        """Run."""
        nonlocal active, limit
        active += 1
        limit = max(limit, active)
        await asyncio.sleep(0)
        active -= 1
        return "x"

    await run_calls(*(tool_call_reply("run") for _ in range(9)), tools=[run], behavior=behavior)
    assert limit == expected


@pytest.mark.covers("TEX-18", "TEX-17")
async def test_result_blocks_are_kept_and_images_need_a_model_with_vision() -> None:
    @tool
    async def shoot() -> list[Any]:
        """Shoot."""
        return [TextBlock("see"), ImageBlock("image/png", "AAAA")]

    (result,), _ = await run_calls(tool_call_reply("shoot"), tools=[shoot])
    assert result.content == (TextBlock("see"), ImageBlock("image/png", "AAAA"))
    seen: list[Any] = []
    (result,), _ = await run_calls(
        tool_call_reply("shoot"), tools=[shoot], vision=False, hooks={"tool:after": lambda c: seen.append(c.result)}
    )
    assert result.content[1] == TextBlock("[image left out: this model cannot see images]")
    assert seen == [result]


@pytest.mark.covers("TDF-05", "TDF-08", "TDF-04", "TEX-27", "TEX-31", "AGT-06")
async def test_tool_knows_its_call_and_can_report_progress() -> None:
    contexts: list[ToolContext] = []

    @tool(label="Look up")
    async def work(ctx: ToolContext) -> ToolResult:
        """Work."""
        contexts.append(ctx)
        ctx.metadata(title="halfway", done=50)
        ctx.update("partial output")
        return ToolResult(output="x", title="all done", metadata={"rows": 3})

    block = tool_call_reply("work")
    (result,), events = await run_calls(block, tools=[work], agent="tester", session_id="s1", extra={"db": 1})
    (ctx,) = contexts
    assert (ctx.call_id, ctx.session_id, ctx.agent, ctx.extra, ctx.is_aborted) == (
        result.tool_use_id,
        "s1",
        "tester",
        {"db": 1},
        False,
    )
    (call_message,) = [e.message.id for e in events if e.type == "message_end" and e.message.tool_uses]
    assert ctx.message_id == call_message
    assert ctx.turn_id != call_message
    updates = [(e.output, e.title, e.metadata) for e in events if e.type == "tool_execution_update"]
    assert updates == [("", "halfway", {"done": 50}), ("partial output", "", {})]
    assert next(e.label for e in events if e.type == "tool_execution_start") == "Look up"
    assert next(e.title for e in events if e.type == "tool_execution_end") == "all done"
    assert result.details == {"rows": 3}


@pytest.mark.covers("TEX-19")
def test_output_bytes_counts_utf8_and_base64() -> None:
    assert output_bytes("a€") == 4
    assert output_bytes((TextBlock("a€"), ImageBlock("image/png", "AAAA"))) == 8


async def test_sync_tools_run_in_a_thread_without_blocking() -> None:
    import threading

    where: list[int] = []

    @tool
    def plain(n: int) -> dict[str, int]:
        """Plain."""
        where.append(threading.get_ident())
        return {"n": n}

    (result,), _ = await run_calls(tool_call_reply("plain", n=1), tools=[plain])
    assert result.text == '{"n":1}'
    assert where != [threading.get_ident()]


PLAN = st.lists(
    st.sampled_from(["ok", "fail", "unknown", "invalid", "block", "deny", "steer", "abort"]), min_size=1, max_size=6
)


@pytest.mark.covers("TEX-23", "TST-07")
@given(PLAN, st.sampled_from(["parallel", "sequential"]), st.booleans())
async def test_every_call_has_exactly_one_result(plan: list[str], mode: Any, safe: bool) -> None:
    from mainspring.cancellation import CancelToken
    from mainspring.errors import AgentAbortedError, AgentProviderError
    from mainspring.messages import Message

    signal, waiting = CancelToken(), list[Message]()

    @tool(concurrency_safe=safe)
    async def act(what: str, n: int) -> str:
        """Act."""
        match what:
            case "fail":
                raise ValueError(what)
            case "steer":
                waiting.append(Message.user("stop"))
            case "abort":
                signal.cancel("abort")
            case _:
                await asyncio.sleep(0)
        return what

    def gate(ctx: Any) -> None:
        ctx.block = ctx.input.get("what") == "block"

    def permit(ctx: Any) -> None:
        if ctx.input.get("what") == "deny":
            ctx.deny("no")

    turn = [
        tool_call_reply("nothing")
        if what == "unknown"
        else tool_call_reply("act", what=what, n="x" if what == "invalid" else i)
        for i, what in enumerate(plan)
    ]
    ctx = LoopContext(tools=ToolRegistry([act]))
    bus = HookBus({"tool:gate": gate, "tool:permit": permit})
    setup = make_config(Script(tool_calls_reply(*turn), text_reply("ok")), bus=bus, behavior=LoopOptions(tool_execution=mode),
                   get_steering=lambda: [waiting.pop()] if waiting else [])  # fmt: skip
    try:
        await agent_loop("go", ctx, setup, signal)
    except (AgentAbortedError, AgentProviderError):
        pass
    assert_results_follow_calls(ctx.messages)
    assert [r.tool_use_id for r in as_message(ctx.messages[2]).tool_results] == [
        c.id for c in as_message(ctx.messages[1]).tool_uses
    ]
