"""The hooks and events of a tool call: their data, when they fire, and the result for the model."""

import asyncio
from types import MappingProxyType
from typing import Any, cast

import pytest

from mainspring.cancellation import CancelToken
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError, PermissionDeniedError, ToolError
from mainspring.events import ToolInputCoerced
from mainspring.loop import Approve, CoreAgent, Deny, HookBus, LoopConfig, LoopContext, LoopOptions, agent_loop
from mainspring.loop.hooks import (
    BeforeToolRun,
    Hook,
    MessagesAdded,
    PermissionCheck,
    RunPaused,
    ToolBefore,
    ToolCallsReceived,
    ToolFailed,
    ToolFinished,
    ToolGate,
    ToolResultsAfter,
    ToolTransform,
    ToolUnknown,
    TurnAfter,
    ValidationReject,
)
from mainspring.messages import ImageBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from mainspring.models import ModelInfo
from mainspring.testing.scripted_model import Reply, ScriptedCall
from mainspring.tools import Access, ToolContext, ToolErrorCode, ToolRegistry, ToolResult, define_tool, tool
from mainspring.tools.execute import ABORTED_WHILE_RUNNING, NOT_RUN_ABORTED, SKIPPED
from tests.unit.loop.harness import (
    Script,
    as_message,
    assert_results_follow_calls,
    block_types,
    make_agent,
    make_config,
    text_reply,
    tool_call_reply,
    tool_calls_reply,
)


@tool
async def add(a: int, b: int = 1) -> str:
    """Add."""
    return str(a + b)


@tool(idempotent=True)
async def count() -> str:
    """Count."""
    return "1"


class TurnRecord:
    """The results, events, and hooks of one turn with tool calls."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.events: list[Any] = []
        self.hooks: list[Any] = []

    def fired(self, kind: type[Any]) -> list[Any]:
        return [h for h in self.hooks if type(h) is kind]

    def of(self, name: str) -> list[Any]:
        return [e for e in self.events if e.type == name]


KINDS = (ToolGate, ToolUnknown, ValidationReject, ToolInputCoerced, ToolBefore, PermissionCheck, BeforeToolRun,
         ToolFailed, ToolTransform, ToolFinished, ToolCallsReceived, ToolResultsAfter)  # fmt: skip


async def run_turn(
    *turn: Any, tools: Any = (add, count), hooks: Any = None, model: Script | None = None, **fields: Any
) -> TurnRecord:
    """Run one turn with these calls."""
    seen = TurnRecord()
    bus = HookBus(hooks)
    for kind in KINDS:
        bus.on(kind, seen.hooks.append, order=50)
    bus.subscribe(seen.events.append)
    ctx = LoopContext(tools=ToolRegistry(tools))
    await agent_loop(
        "go", ctx, make_config(model or Script(tool_calls_reply(*turn), text_reply("ok")), bus=bus, **fields)
    )
    assert_results_follow_calls(ctx.messages)
    seen.results = list(as_message(ctx.messages[2]).tool_results)
    return seen


def make_raw_call(text: str) -> Reply:
    """Return a reply with one call and these raw arguments."""
    return Reply(calls=(ScriptedCall("add", {}, "c1", text),))


def call_hook_names(turn: TurnRecord) -> list[str]:
    return [
        h.event
        for h in turn.hooks
        if isinstance(h, Hook) and h.event.startswith(("tool:", "validation:")) and h.event != "tool:intent"
    ]


@pytest.mark.covers("HOK-29")
async def test_tool_call_hooks_contain_their_data() -> None:
    turn = await run_turn(ToolUseBlock("c1", "add", {"a": "40", "b": 2}), ToolUseBlock("c2", "count"))
    first = [h for h in turn.hooks if getattr(h, "call_id", "") == "c1"]
    turn_id = turn.of("turn_start")[0].turn_id
    assert {(h.turn_id, h.name, h.display_name) for h in first} == {(turn_id, "add", "add")}
    gate, coerced, before, permit, start, transform, finished = first
    assert (gate.input, gate.approved) == ({"a": "40", "b": 2}, False)
    assert [(c.path, c.after) for c in before.coercions] == [("$.a", 40)]
    assert coerced.coercions == tuple([f"{c.path}: {c.rule}" for c in before.coercions])
    assert coerced.repaired is False
    assert (before.input, dict(before.tool_counts)) == ({"a": 40, "b": 2}, {})
    assert (permit.input, permit.original, permit.tool, permit.approved) == (
        {"a": 40, "b": 2},
        {"a": "40", "b": 2},
        add,
        False,
    )
    assert isinstance(permit.env, MemoryEnv)
    assert (start.input, start.idempotent) == ({"a": 40, "b": 2}, False)
    assert (transform.input, transform.result.output, transform.output_bytes) == ({"a": 40, "b": 2}, "42", 2)
    assert (finished.result, finished.is_error, finished.output_bytes) == (turn.results[0], False, 2)
    assert (finished.metadata, dict(finished.tool_counts)) == ({}, {})
    assert finished.seconds > 0
    assert turn.fired(BeforeToolRun)[1].idempotent is True


async def test_tool_counts_are_read_only_in_every_hook() -> None:
    turn = await run_turn(tool_call_reply("add", a=1))
    for kind in (ToolGate, ToolBefore, ToolFinished):
        assert [type(h.tool_counts) for h in turn.fired(kind)] == [MappingProxyType]


@pytest.mark.covers("TDF-07", "TDF-09")
async def test_tool_call_events_contain_the_call_its_label_and_its_duration() -> None:
    @tool(label="Add up")
    async def total() -> ToolResult:
        """Add up."""
        return ToolResult(output="3", title="3 in all", metadata={"n": 3})

    turn = await run_turn(ToolUseBlock("c1", "total"), ToolUseBlock("c2", "nope"), tools=[total])
    starts, ends = turn.of("tool_execution_start"), turn.of("tool_execution_end")
    assert [(e.call.id, e.label) for e in starts] == [("c1", "Add up"), ("c2", "nope")]
    by_id = {e.call.id: e for e in ends}
    assert (by_id["c1"].result, by_id["c1"].title) == (turn.results[0], "3 in all")
    assert by_id["c1"].seconds == turn.fired(ToolFinished)[0].seconds > 0
    assert (by_id["c2"].result, by_id["c2"].title, by_id["c2"].seconds) == (turn.results[1], "", 0)
    assert turn.results[0].details == {"n": 3}
    assert turn.fired(ToolFinished)[0].metadata == {"n": 3}


async def test_tool_without_a_label_is_shown_under_its_alias() -> None:
    labels: list[str] = []
    agent = make_agent(Script(tool_call_reply("sum", a=1), text_reply("ok")), tools=[add], tool_aliases={"add": "sum"})
    agent.subscribe(lambda e: labels.append(e.label) if e.type == "tool_execution_start" else None)
    await agent.run("go")
    assert labels == ["sum"]


# --- calls that do not run ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hooks", "text", "code"),
    [
        ({ToolGate: lambda c: {"block": "not today"}}, "Blocked: not today", "PERMISSION_DENIED"),
        ({ToolGate: lambda c: {"block": True, "reason": "why"}}, "Blocked: why", "PERMISSION_DENIED"),
        ({ToolGate: lambda c: {"block": True}}, "Blocked: not allowed", "PERMISSION_DENIED"),
        ({PermissionCheck: lambda c: c.deny("a rule")}, "Permission denied: a rule", "PERMISSION_DENIED"),
        ({BeforeToolRun: lambda c: {"block": "no store"}}, "Not run: no store", "UNKNOWN"),
    ],
)
async def test_blocked_call_publishes_its_reason_and_does_not_finish(hooks: Any, text: str, code: str) -> None:
    turn = await run_turn(tool_call_reply("add", a=1), hooks=hooks)
    [result] = turn.results
    assert (result.text, result.is_error, result.details) == (text, True, {"code": code})
    assert turn.fired(ToolTransform) == turn.fired(ToolFinished) == turn.fired(ToolFailed) == []
    [end] = turn.of("tool_execution_end")
    assert (end.result, end.seconds > 0) == (result, BeforeToolRun in hooks)


async def test_every_reason_of_a_denial_is_reported() -> None:
    def refuse(ctx: PermissionCheck) -> None:
        ctx.deny("one")
        ctx.deny("two")

    turn = await run_turn(tool_call_reply("add", a=1), hooks={PermissionCheck: refuse})
    assert turn.results[0].text == "Permission denied: one; two"


@pytest.mark.covers("HOK-45")
@pytest.mark.parametrize("stop", [True, False])
async def test_denial_ends_the_run_only_with_stop(stop: bool) -> None:
    def refuse(ctx: PermissionCheck) -> None:
        if ctx.input["a"] == 1:
            ctx.deny("no", stop=stop)

    agent = make_agent(
        Script(tool_calls_reply(tool_call_reply("add", a=1), tool_call_reply("add", a=2)), text_reply("ok")),
        tools=[add],
        hooks={PermissionCheck: refuse},
    )
    result = await agent.run("go")
    assert result.status == ("denied" if stop else "completed")
    assert [r.text for r in as_message(agent.messages[2]).tool_results] == ["Permission denied: no", "3"]


async def test_one_denial_with_stop_ends_the_run_whatever_follows() -> None:
    def refuse(ctx: PermissionCheck) -> None:
        ctx.deny("no", stop=ctx.input["a"] == 1)

    agent = make_agent(
        Script(tool_calls_reply(tool_call_reply("add", a=1), tool_call_reply("add", a=2)), text_reply("never")),
        tools=[add],
        hooks={PermissionCheck: refuse},
    )
    assert (await agent.run("go")).status == "denied"


async def test_call_skipped_by_steering_is_neither_denied_nor_run() -> None:
    async def check() -> str:
        return "already done"

    async def skip(ctx: PermissionCheck) -> None:
        ctx.add_precheck(check)
        assert await ctx.will_be_skipped()

    turn = await run_turn(tool_call_reply("add", a=1), hooks={PermissionCheck: skip})
    [result] = turn.results
    assert (result.text, result.is_error, result.details) == ("Not run: already done", True, {"code": "UNKNOWN"})
    assert turn.fired(BeforeToolRun) == turn.fired(ToolFinished) == []


@pytest.mark.covers("HOK-24", "TEX-15")
async def test_unknown_tool_is_reported_to_both_hooks() -> None:
    turn = await run_turn(ToolUseBlock("c1", "nope"))
    [result] = turn.results
    assert call_hook_names(turn) == ["tool:gate", "tool:unknown", "tool:error"]
    assert (result.is_error, result.details) == (True, {"code": "NOT_FOUND"})
    assert result.text.startswith("Unknown tool: nope")
    unknown, failed = turn.fired(ToolUnknown)[0], turn.fired(ToolFailed)[0]
    turn_id = turn.of("turn_start")[0].turn_id
    assert {(h.call_id, h.name, h.turn_id) for h in (unknown, failed)} == {("c1", "nope", turn_id)}
    assert isinstance(failed.error, ToolError)
    assert str(failed.error) == result.text


async def test_handler_of_either_hook_can_replace_the_result_of_an_unknown_tool() -> None:
    by_unknown = {ToolUnknown: lambda c: {"result": "first"}}
    turn = await run_turn(tool_call_reply("nope"), hooks=by_unknown)
    assert (turn.results[0].text, len(turn.fired(ToolFailed))) == ("first", 1)
    turn = await run_turn(tool_call_reply("nope"), hooks={**by_unknown, ToolFailed: lambda c: {"result": "second"}})
    assert (turn.results[0].text, turn.results[0].is_error) == ("second", False)
    suppressed = {ToolUnknown: lambda c: {"suppress_error": True}, ToolFailed: lambda c: {"result": "second"}}
    turn = await run_turn(tool_call_reply("nope"), hooks=suppressed)
    assert turn.results[0].text.startswith("Unknown tool: nope")
    assert turn.fired(ToolTransform) == turn.fired(ToolFinished) == []


@pytest.mark.covers("HOK-23", "TEX-09")
async def test_rejected_arguments_are_reported_with_the_original_text() -> None:
    turn = await run_turn(ToolUseBlock("c1", "add", {"b": "many"}))
    [result] = turn.results
    [reject] = turn.fired(ValidationReject)
    assert call_hook_names(turn) == ["tool:gate", "validation:reject"]
    assert (reject.call_id, reject.turn_id, reject.raw) == ("c1", turn.of("turn_start")[0].turn_id, None)
    assert (result.text, result.is_error) == (f'Validation error: tool "add": {reject.error}', True)
    assert result.details == {"code": "VALIDATION_ERROR"}
    turn = await run_turn(model=Script(make_raw_call("not JSON"), text_reply("ok")))
    assert [r.raw for r in turn.fired(ValidationReject)] == ["not JSON"]


async def test_repaired_arguments_run_and_are_reported_as_repaired() -> None:
    turn = await run_turn(model=Script(make_raw_call("{'a': 41,}"), text_reply("ok")))
    assert turn.results[0].text == "42"
    assert [(c.repaired, list(c.coercions)) for c in turn.fired(ToolInputCoerced)] == [(True, [])]


async def test_invalid_input_from_a_handler_is_reported() -> None:
    turn = await run_turn(tool_call_reply("add", a=1), hooks={ToolBefore: lambda c: {"input": {"a": "no"}}})
    assert call_hook_names(turn) == ["tool:gate", "tool:before", "validation:reject"]
    assert turn.results[0].details == {"code": "VALIDATION_ERROR"}


async def test_input_changed_in_place_by_a_handler_is_validated_and_used() -> None:
    def change(ctx: ToolBefore) -> None:
        ctx.input["a"] = "40"

    turn = await run_turn(tool_call_reply("add", a=1), hooks={ToolBefore: change})
    assert turn.results[0].text == "41"
    assert turn.fired(PermissionCheck)[0].input == {"a": 40}


async def test_prior_content_is_read_only_for_writes_and_deletes() -> None:
    contents: list[Any] = []

    def access(arguments: Any) -> list[Access]:
        return [Access("fs-read", "read"), Access("fs-write", "written"), Access("fs-delete", "deleted")]

    async def before(ctx: ToolBefore) -> None:
        contents.append(await ctx.prior_content(limit=4))

    change = define_tool(
        "change",
        description="Change.",
        parameters={"type": "object", "properties": {}},
        execute=lambda arguments, ctx: "changed",
        access=access,
    )
    env = MemoryEnv({"read": "a", "written": "four", "deleted": "long text"})
    agent = CoreAgent(
        Script(tool_calls_reply(tool_call_reply("change"), tool_call_reply("count")), text_reply("ok")),
        env=env,
        tools=[change, count],
        hooks={ToolBefore: before},
    )
    await agent.run("go")
    assert contents == [{"written": b"four", "deleted": None}, {}]


@pytest.mark.parametrize("hook", [PermissionCheck, BeforeToolRun])
async def test_permission_handlers_receive_a_copy_of_the_input(hook: Any) -> None:
    def change(ctx: Any) -> None:
        ctx.input["items"].append(9)

    @tool
    async def total(items: list[int]) -> str:
        """Add up."""
        return str(sum(items))

    turn = await run_turn(tool_call_reply("total", items=[1, 2]), tools=[total], hooks={hook: change})
    assert turn.results[0].text == "3"
    assert turn.fired(ToolTransform)[0].input == {"items": [1, 2]}


# --- the context of a tool ---------------------------------------------------------------------------------------------


@pytest.mark.covers("TDF-05")
async def test_tool_receives_bound_values_and_the_configuration() -> None:
    got: list[ToolContext] = []

    @tool
    async def work(ctx: ToolContext) -> str:
        """Work."""
        got.append(ctx)
        return await ctx.resolve("a.txt")

    def bind(ctx: PermissionCheck) -> None:
        ctx.bind_path("a.txt", "/real/a.txt")
        ctx.set_environment({"LANG": "C"})

    turn = await run_turn(ToolUseBlock("c1", "work"), tools=[work], hooks={PermissionCheck: bind})
    [ctx] = got
    assert turn.results[0].text == "/real/a.txt"
    assert (ctx.paths, ctx.environment) == ({"a.txt": "/real/a.txt"}, {"LANG": "C"})
    assert ctx.turn_id == turn.of("turn_start")[0].turn_id
    assert isinstance(ctx.env, MemoryEnv)
    assert ctx.on_update is None, "an ended call publishes no more updates"


async def test_progress_is_published_with_the_call() -> None:
    @tool
    async def work(ctx: ToolContext) -> str:
        """Work."""
        ctx.update("partial")
        ctx.metadata(title="half", done=50)
        return "x"

    turn = await run_turn(ToolUseBlock("c1", "work"), tools=[work])
    updates = turn.of("tool_execution_update")
    assert [(e.call_id, e.name, e.output, e.title, e.metadata) for e in updates] == [
        ("c1", "work", "partial", "", {}),
        ("c1", "work", "", "half", {"done": 50}),
    ]


# --- results -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("TDF-12")
@pytest.mark.parametrize(
    ("error", "text", "code"),
    [
        (PermissionDeniedError("no"), "no", ToolErrorCode.PERMISSION_DENIED),
        (TimeoutError("5 s passed"), "5 s passed", ToolErrorCode.TIMEOUT),
        (KeyError("x"), "Error: KeyError: 'x'", ToolErrorCode.UNKNOWN),
    ],
)
async def test_tool_exception_becomes_its_result(error: Exception, text: str, code: ToolErrorCode) -> None:
    @tool
    async def broken() -> str:
        """Raise."""
        raise error

    turn = await run_turn(ToolUseBlock("c1", "broken"), tools=[broken])
    [result] = turn.results
    assert (result.text, result.is_error, result.details) == (text, True, {"code": code})
    [failed] = turn.fired(ToolFailed)
    assert (failed.error, failed.call_id, failed.name) == (error, "c1", "broken")
    assert failed.turn_id == turn.of("turn_start")[0].turn_id
    assert call_hook_names(turn)[-3:] == ["tool:error", "tool:transform", "tool:after"]


async def test_transform_that_sets_an_unusable_result_fails_the_call() -> None:
    turn = await run_turn(tool_call_reply("add", a=1), hooks={ToolTransform: lambda c: {"result": object()}})
    [result] = turn.results
    assert result.is_error
    assert "TypeError" in result.text
    assert len(turn.fired(ToolFailed)) == 1


@pytest.mark.covers("HOK-26")
@pytest.mark.parametrize(
    "change",
    [{"is_error": True}, {"is_error": True, "result": "3"}, {"result": "3", "is_error": True}],
)
async def test_transform_can_make_a_failure_of_a_success(change: dict[str, Any]) -> None:
    turn = await run_turn(tool_call_reply("add", a=2), hooks={ToolTransform: lambda c: change})
    [result] = turn.results
    assert (result.text, result.is_error) == ("3", True)
    assert [f.is_error for f in turn.fired(ToolFinished)] == [True]
    assert [e.status for e in turn.of("tool_execution_end")] == ["error"]


@pytest.mark.covers("HOK-26")
async def test_transform_can_make_a_success_of_a_failure() -> None:
    shared = ToolResult(output="nothing found", is_error=True, code=ToolErrorCode.NOT_FOUND)

    @tool
    async def find() -> ToolResult:
        """Find something."""
        return shared

    def accept(ctx: ToolTransform) -> None:
        assert ctx.is_error
        ctx.is_error = False

    turn = await run_turn(ToolUseBlock("c1", "find"), tools=[find], hooks={ToolTransform: accept})
    [result] = turn.results
    assert (result.text, result.is_error, result.details) == ("nothing found", False, None)
    assert [e.status for e in turn.of("tool_execution_end")] == ["ok"]
    assert shared.is_error


async def test_new_result_of_a_later_transform_has_its_own_error_flag() -> None:
    hook = ToolTransform(ToolUseBlock("c1", "add"), "t", {}, ToolResult(output="2"), 1)
    hook.is_error = True
    hook.result = ToolResult(output="4")
    assert not hook.is_error
    with pytest.raises(TypeError, match="is_error must be True or False, not str"):
        cast("Any", hook).is_error = "yes"
    assert hook.result.output == "4"


async def test_failure_of_a_transform_can_be_replaced() -> None:
    hooks = {ToolTransform: lambda c: {"result": object()}, ToolFailed: lambda c: {"result": "instead"}}
    turn = await run_turn(tool_call_reply("add", a=1), hooks=hooks)
    assert (turn.results[0].text, turn.results[0].is_error) == ("instead", False)


@pytest.mark.covers("TEX-13")
async def test_substitute_result_is_counted_transformed_and_finished() -> None:
    substitute = ToolResult(output="cached", title="from the cache", metadata={"hit": True})
    turn = await run_turn(tool_call_reply("add", a=1), hooks={ToolGate: lambda c: {"result": substitute}})
    assert call_hook_names(turn) == ["tool:gate", "tool:transform", "tool:after"]
    [finished] = turn.fired(ToolFinished)
    assert (finished.metadata, finished.seconds, dict(finished.tool_counts)) == ({"hit": True}, 0, {})
    assert turn.fired(ToolTransform)[0].output_bytes == 6
    assert [(e.title, e.seconds) for e in turn.of("tool_execution_end")] == [("from the cache", 0)]
    turn = await run_turn(
        tool_call_reply("add", a=1), tool_call_reply("add", a=1), hooks={ToolGate: lambda c: {"result": "x"}}
    )
    assert [dict(f.tool_counts) for f in turn.fired(ToolFinished)] == [{}, {}]


@pytest.mark.covers("HOK-31", "TEX-24")
async def test_tool_counts_of_every_hook_are_those_before_the_call_without_blocked_calls() -> None:
    counts: list[tuple[str, str, dict[str, int]]] = []

    def record(hook: Any) -> None:
        counts.append((hook.call_id, hook.event, dict(hook.tool_counts)))

    def gate(hook: ToolGate) -> dict[str, Any] | None:
        record(hook)
        return {"c1": {"block": "no"}, "c2": {"result": "cached"}}.get(hook.call_id)

    calls = [ToolUseBlock(f"c{n}", "count") for n in (1, 2, 3, 4)]
    await run_turn(
        *calls,
        hooks={ToolGate: gate, ToolBefore: record, ToolFinished: record},
        behavior=LoopOptions(tool_execution="sequential"),
    )
    assert counts == [
        ("c1", "tool:gate", {}),
        ("c2", "tool:gate", {}),
        ("c2", "tool:after", {}),
        *[("c3", f"tool:{step}", {"count": 1}) for step in ("gate", "before", "after")],
        *[("c4", f"tool:{step}", {"count": 2}) for step in ("gate", "before", "after")],
    ]


@pytest.mark.covers("TEX-17")
async def test_images_are_left_out_only_for_models_without_vision() -> None:
    @tool
    async def draw() -> ToolResult:
        """Draw."""
        return ToolResult(output=(TextBlock("a"), ImageBlock("image/png", "AAAA")))

    turn = await run_turn(tool_call_reply("draw"), tools=[draw], vision=False)
    assert turn.results[0].content == (TextBlock("a"), TextBlock("[image left out: this model cannot see images]"))
    turn = await run_turn(tool_call_reply("draw"), tools=[draw])
    assert turn.results[0].content == (TextBlock("a"), ImageBlock("image/png", "AAAA"))


@pytest.mark.covers("TEX-17")
@pytest.mark.parametrize("hooks", [{}, {"context:transform": lambda hook: None}])
async def test_stored_images_are_left_out_only_for_models_without_vision(hooks: Any) -> None:
    image = ImageBlock("image/png", "AAAA")
    history = [
        Message.user("draw"),
        Message("assistant", (ToolUseBlock("c1", "draw"), ToolUseBlock("c2", "draw"))),
        Message(
            "user", (ToolResultBlock("c1", "draw", (TextBlock("a"), image)), ToolResultBlock("c2", "draw", "text"))
        ),
        Message.user("go on"),
    ]
    for vision in (False, True):
        model = Script(text_reply("done"))
        model.info = ModelInfo("m", "p", vision=vision)
        agent = make_agent(model, messages=history, hooks=hooks)
        await agent.run()
        _, _, results, last = model.requests[0].messages
        expected = image if vision else TextBlock("[image left out: this model cannot see images]")
        assert [r.content for r in results.tool_results] == [(TextBlock("a"), expected), "text"]
        assert last is history[3]
        assert agent.messages[2] is history[2], "the history has the images"


async def test_calls_and_results_are_appended_together_with_id_and_time() -> None:
    added: list[MessagesAdded] = []
    turn = await run_turn(
        tool_call_reply("add", a=1),
        hooks={ToolResultsAfter: lambda c: {"follow": [Message.user("noted")]}, MessagesAdded: added.append},
    )
    [received], [pair] = turn.fired(ToolCallsReceived), turn.fired(ToolResultsAfter)
    assert pair.message is received.message
    assert (pair.run_id, received.run_id) == (turn.events[0].run_id,) * 2
    assert pair.results.role == "user"
    assert pair.results.id
    assert pair.results.timestamp is not None
    assert [(a.source, [as_message(m).text for m in a.messages], a.run_id) for a in added] == [
        ("prompt", ["go"], pair.run_id),
        ("synthetic", ["noted"], pair.run_id),
        ("assistant", ["ok"], pair.run_id),
    ]
    published = [e.message for e in turn.events if e.type in ("message_start", "message_end")]
    assert published.count(pair.results) == 2
    [end] = [e for e in turn.of("turn_end") if e.tool_results]
    assert (end.turn, end.message, end.tool_results) == (1, pair.message, tuple(turn.results))


# --- aborts in the middle ----------------------------------------------------------------------------------------------


@pytest.mark.covers("TEX-23", "TEX-31")
@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_abort_distinguishes_calls_that_ran_from_those_that_did_not(mode: Any) -> None:
    signal, events = CancelToken(), list[Any]()

    @tool(concurrency_safe=False)
    async def act(n: int) -> str:
        """Act."""
        if n == 2:
            signal.cancel("enough")
            await asyncio.Event().wait()
        return "done"

    bus = HookBus()
    bus.subscribe(events.append)
    ctx = LoopContext(tools=ToolRegistry([act]))
    model = Script(tool_calls_reply(*(tool_call_reply("act", n=n) for n in (1, 2, 3))))
    with pytest.raises(AgentAbortedError):
        await agent_loop("go", ctx, make_config(model, bus=bus, behavior=LoopOptions(tool_execution=mode)), signal)
    results = as_message(ctx.messages[2]).tool_results
    assert [(r.text, r.is_error) for r in results] == [
        ("done", False),
        (ABORTED_WHILE_RUNNING, True),
        (NOT_RUN_ABORTED, True),
    ]
    assert results[1].details == {"code": "UNKNOWN"}
    assert [e.result for e in events if e.type == "tool_execution_end"] == list(results)


@pytest.mark.parametrize("hook", [ToolGate, PermissionCheck, BeforeToolRun, ToolTransform])
async def test_abort_in_a_hook_reports_if_the_call_ran(hook: Any) -> None:
    reached = asyncio.Event()

    async def wait(ctx: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    agent = make_agent(Script(tool_call_reply("add", a=1)), tools=[add], hooks={hook: wait}, behavior=LoopOptions(abort_grace=0.01))  # fmt: skip
    run = asyncio.ensure_future(agent.run("go"))
    await reached.wait()
    agent.abort("enough")
    with pytest.raises(AgentAbortedError):
        await run
    [result] = as_message(agent.messages[2]).tool_results
    assert result.text == (ABORTED_WHILE_RUNNING if hook is ToolTransform else NOT_RUN_ABORTED)
    assert (result.name, result.is_error) == ("add", True)


async def test_cancellation_while_tools_run_publishes_each_result() -> None:
    started = asyncio.Event()
    events: list[Any] = []

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return ""

    agent = make_agent(Script(tool_calls_reply(tool_call_reply("wait"), tool_call_reply("wait"))), tools=[wait])
    agent.subscribe(events.append)
    run = asyncio.ensure_future(agent.run("go"))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    results = as_message(agent.messages[2]).tool_results
    assert {(r.text, r.is_error) for r in results} == {(ABORTED_WHILE_RUNNING, True)}
    ends = [e for e in events if e.type == "tool_execution_end"]
    assert {e.call.id: e.result for e in ends} == {r.tool_use_id: r for r in results}


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_steering_message_skips_all_but_the_first_group(mode: Any) -> None:
    ran: list[int] = []

    @tool(concurrency_safe=False)
    async def act(n: int) -> str:
        """Act."""
        ran.append(n)
        if n == 2:
            agent.steer("stop")
        return "done"

    model = Script(tool_calls_reply(*(tool_call_reply("act", n=n) for n in (1, 2, 3))), text_reply("ok"))
    agent = make_agent(model, tools=[act], behavior=LoopOptions(tool_execution=mode))
    agent.on(MessagesAdded, lambda ctx: sources.append(ctx.source))
    sources: list[str] = []
    await agent.run("go")
    assert ran == [1, 2]
    assert [r.text for r in as_message(agent.messages[2]).tool_results] == ["done", "done", SKIPPED]
    assert as_message(agent.messages[3]).text == "stop"
    assert sources == ["prompt", "steer", "assistant"]


async def test_steering_message_queued_before_the_first_call_skips_none() -> None:
    agent = make_agent(Script(tool_call_reply("add", a=1), text_reply("ok")), tools=[add])
    agent.on(TurnAfter, lambda ctx: agent.steer("hurry") if ctx.turn == 1 else None)
    await agent.run("go")
    assert as_message(agent.messages[2]).tool_results[0].text == "2"
    assert as_message(agent.messages[3]).text == "hurry"


# --- pauses ------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("HOK-45", "BYD-29")
@pytest.mark.parametrize("hook", [ToolGate, PermissionCheck])
async def test_pause_reports_waiting_and_finished_calls(hook: Any) -> None:
    def ask(ctx: Any) -> None:
        if ctx.input["a"] == 2:
            if hook is ToolGate:
                ctx.pause = "sure?"
            else:
                ctx.pause("sure?")

    paused: list[RunPaused] = []
    block = [ToolUseBlock("c1", "add", {"a": 1}), ToolUseBlock("c2", "add", {"a": 2}), ToolUseBlock("c3", "add", {"a": 3})]  # fmt: skip
    agent = make_agent(
        Script(tool_calls_reply(*block), text_reply("ok")),
        tools=[add],
        hooks={hook: ask, RunPaused: paused.append},
        behavior=LoopOptions(tool_execution="sequential"),
    )
    events: list[Any] = []
    agent.subscribe(events.append)
    result = await agent.run("go")
    assert (result.status, result.turns) == ("paused", 1)
    [pause] = paused
    assert (pause.run_id, dict(pause.reasons), list(pause.results)) == (events[0].run_id, {"c2": "sure?"}, ["c1"])
    assert [c.id for c in pause.message.tool_uses] == ["c1", "c2", "c3"]
    pending = agent.pending
    assert pending is not None
    assert pending.message is pause.message
    assert [c.id for c in pending.calls] == ["c2"]
    assert "tool_execution_end" in [e.type for e in events]
    assert "turn_end" not in [e.type for e in events]
    agent.answer({"c2": Deny("no")})
    assert pending.calls == ()
    events.clear()
    await agent.run()
    assert [e.call.id for e in events if e.type == "tool_execution_start"] == ["c2", "c3"]
    results = as_message(agent.messages[2]).tool_results
    assert [r.text for r in results] == ["2", "Permission denied: no", "4"]
    assert results[1].details == {"code": "PERMISSION_DENIED"}
    assert [e.type for e in events].count("turn_start") == 1


async def test_hooks_of_a_resumed_call_report_the_approval() -> None:
    seen: list[tuple[str, bool, str]] = []

    def gate(ctx: ToolGate) -> None:
        seen.append(("gate", ctx.approved, ctx.turn_id))

    def permit(ctx: PermissionCheck) -> None:
        seen.append(("permit", ctx.approved, ctx.turn_id))
        ctx.pause("sure?")

    agent = make_agent(
        Script(tool_call_reply("add", a=1), text_reply("ok")),
        tools=[add],
        hooks={ToolGate: gate, PermissionCheck: permit},
    )
    await agent.run("go")
    agent.answer(Approve({"a": "5"}))
    await agent.run()
    assert [(name, approved) for name, approved, _ in seen] == [
        ("gate", False),
        ("permit", False),
        ("gate", True),
        ("permit", True),
    ]
    assert seen[0][2] == seen[1][2] != seen[2][2] == seen[3][2]
    assert all(turn_id for _, _, turn_id in seen)
    assert as_message(agent.messages[2]).tool_results[0].text == "6"


async def test_denied_call_is_not_counted_and_has_a_default_reason() -> None:
    agent = make_agent(
        Script(tool_call_reply("add", a=1), text_reply("ok")),
        tools=[add],
        hooks={PermissionCheck: lambda c: c.pause("sure?")},
    )
    await agent.run("go")
    agent.answer(Deny())
    result = await agent.run()
    assert result.stats.tool_counts == {}
    assert as_message(agent.messages[2]).tool_results[0].text == "Permission denied: the user denied it"


async def test_new_prompt_skips_the_paused_calls_and_keeps_the_results() -> None:
    block = [ToolUseBlock("c1", "add", {"a": 1}), ToolUseBlock("c2", "add", {"a": 2})]
    agent = make_agent(
        Script(tool_calls_reply(*block), text_reply("fine")),
        tools=[add],
        hooks={PermissionCheck: lambda c: c.pause("sure?") if c.input["a"] == 2 else None},
        behavior=LoopOptions(tool_execution="sequential"),
    )
    await agent.run("go")
    events: list[Any] = []
    agent.subscribe(events.append)
    await agent.run("never mind")
    assert block_types(agent.messages) == ["user", "assistant", "user", "user", "assistant"]
    assert [r.text for r in as_message(agent.messages[2]).tool_results] == ["2", SKIPPED]
    assert [e.result.text for e in events if e.type == "tool_execution_end"] == [SKIPPED]
    assert agent.pending is None


async def test_abort_during_a_permission_check_leaves_nothing_pending() -> None:
    signal = CancelToken()

    def ask(ctx: PermissionCheck) -> None:
        ctx.pause("sure?")
        signal.cancel("enough")

    ctx = LoopContext(tools=ToolRegistry([add]))
    setup: LoopConfig = make_config(
        Script(tool_calls_reply(tool_call_reply("add", a=1), tool_call_reply("add", a=2))),
        bus=HookBus({PermissionCheck: ask}),
    )
    with pytest.raises(AgentAbortedError):
        await agent_loop("go", ctx, setup, signal)
    assert ctx.pending is None
    assert_results_follow_calls(ctx.messages)


async def test_abort_together_with_steering_aborts_the_remaining_calls() -> None:
    signal, queue = CancelToken(), [Message.user("stop")]

    def steering() -> list[Message]:
        signal.cancel("enough")
        return [queue.pop()] if queue else []

    ctx = LoopContext(tools=ToolRegistry([add]))
    model = Script(tool_calls_reply(tool_call_reply("add", a=1), tool_call_reply("add", a=2)))
    behavior = LoopOptions(tool_execution="sequential")
    with pytest.raises(AgentAbortedError, match=r"^The run was aborted: enough\. "):
        await agent_loop("go", ctx, make_config(model, get_steering=steering, behavior=behavior), signal)
    assert [r.text for r in as_message(ctx.messages[2]).tool_results] == ["2", NOT_RUN_ABORTED]


async def test_denial_after_a_pause_is_a_valid_call() -> None:
    agent = make_agent(
        Script(tool_call_reply("add", a=1), text_reply("ok")),
        tools=[add],
        hooks={PermissionCheck: lambda c: c.pause("sure?")},
        behavior=LoopOptions(max_repairs=0),
    )
    await agent.run("go")
    agent.answer(Deny("no"))
    assert (await agent.run()).text == "ok"


async def test_gate_after_an_abort_raises_the_reason_of_the_abort() -> None:
    signal = CancelToken()
    gates: list[ToolGate] = []

    async def abort(ctx: ToolCallsReceived) -> None:
        signal.cancel("enough")

    ctx = LoopContext(tools=ToolRegistry([add]))
    bus = HookBus({ToolCallsReceived: abort, ToolGate: gates.append})
    with pytest.raises(AgentAbortedError, match=r"^The run was aborted: enough\. "):
        await agent_loop("go", ctx, make_config(Script(tool_call_reply("add", a=1)), bus=bus), signal)
    assert gates == []
    assert [r.text for r in as_message(ctx.messages[2]).tool_results] == [NOT_RUN_ABORTED]


async def test_change_inside_the_input_is_validated() -> None:
    @tool
    async def total(items: list[int]) -> str:
        """Add up."""
        return str(sum(items))

    hooks = {ToolBefore: lambda ctx: ctx.input["items"].append("many")}
    turn = await run_turn(tool_call_reply("total", items=[1, 2]), tools=[total], hooks=hooks)
    assert turn.results[0].text.startswith("Validation error: ")


async def test_approval_is_stored_while_another_call_waits() -> None:
    block = [ToolUseBlock("c1", "add", {"a": 1}), ToolUseBlock("c2", "add", {"a": 2})]
    agent = make_agent(
        Script(tool_calls_reply(*block), text_reply("ok")),
        tools=[add],
        hooks={PermissionCheck: lambda ctx: ctx.pause("sure?")},
    )
    await agent.run("go")
    agent.answer({"c1": Approve()})
    assert (await agent.run()).status == "paused"
    assert agent.pending is not None
    assert [call.id for call in agent.pending.calls] == ["c2"]
    agent.answer(Approve())
    assert (await agent.run()).text == "ok"
    assert [r.text for r in as_message(agent.messages[2]).tool_results] == ["2", "3"]


async def test_transform_handler_can_finish_after_an_abort() -> None:
    reached, release = asyncio.Event(), asyncio.Event()

    async def transform(ctx: ToolTransform) -> None:
        reached.set()
        await release.wait()
        ctx.result = ToolResult(output="transformed")

    agent = make_agent(
        Script(tool_call_reply("add", a=1)),
        tools=[add],
        hooks={ToolTransform: transform},
        behavior=LoopOptions(abort_grace=30),
    )
    run = asyncio.ensure_future(agent.run("go"))
    await reached.wait()
    agent.abort()
    asyncio.get_running_loop().call_later(0.05, release.set)
    with pytest.raises(AgentAbortedError):
        await run
    assert [r.text for r in as_message(agent.messages[2]).tool_results] == ["transformed"]
