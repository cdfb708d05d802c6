"""Every hook of a run: when it fires, what it carries, and what a handler may change."""

import inspect
from types import MappingProxyType
from typing import Any

import pytest

from mainspring.errors import AgentAbortedError, AgentProviderError, NetworkError
from mainspring.loop import HookBus, LoopContext, RunOptions, agent_loop
from mainspring.loop.hooks import (
    HOOKS,
    BeforeInject,
    ContextTransform,
    Hook,
    MessagesAdded,
    PermissionCheck,
    SessionEnd,
    SystemBefore,
    SystemTransform,
    ToolBefore,
    ToolCallHook,
    ToolFailed,
    ToolFinished,
    ToolGate,
    ToolResultsAfter,
    ToolTransform,
    ToolUnknown,
    TurnAfter,
    TurnBefore,
    ValidationCoerce,
    ValidationReject,
)
from mainspring.messages import ImageBlock, Message, TextBlock
from mainspring.models import RetryConfig
from mainspring.tools import ToolOutput, ToolRegistry, output_bytes, tool
from tests.unit.loop.harness import Script, agent, calls, config, fail, said, text_reply, tool_call_reply


@tool(label="Look up")
async def look(key: str, deep: bool = False) -> str:
    """Look something up."""
    if key == "broken":
        raise ValueError("no such key")
    return f"value of {key}"


def recorder(bus: HookBus, *, order: int = 50) -> list[tuple[str, Hook]]:
    """Everything that fires on a bus, as it fires."""
    seen: list[tuple[str, Hook]] = []
    for kind in HOOKS.values():
        bus.on(kind, lambda ctx: seen.append((ctx.event, ctx)), order=order)
    return seen


async def heard(*script: Any, **options: Any) -> list[tuple[str, Hook]]:
    """The hooks of one run."""
    one = agent(Script(*script), tools=[look], **options)
    seen = recorder(one.bus)
    await one.run("go", raise_errors=False)
    return seen


@pytest.mark.covers("HOK-19", "HOK-20", "HOK-21", "HOK-33", "AGT-16", "AGT-14", "AGT-34", "HOK-39")
async def test_the_hooks_of_a_run_come_in_the_order_of_the_docs() -> None:
    seen = await heard(tool_call_reply("look", key="a"), text_reply("done", thinking="hm"))
    assert [name for name, _ in seen] == [
        "session:start", "session:turns",
        "context:transform", "system:transform", "turn:before", "usage", "turn:after",
        "tool:intent", "tool:gate", "tool:before", "tool:permit", "tool:start", "tool:transform", "tool:after",
        "tool-results:after",
        "context:transform", "system:transform", "turn:before", "stream:thinking", "stream:text", "stream:end", "usage",
        "turn:after", "session:turns",
        "session:end", "agent:done",
    ]  # fmt: skip
    first = seen[1][1]
    assert isinstance(first, MessagesAdded)
    assert (first.source, said(first.messages[0]).text) == ("prompt", "go")
    end = next(ctx for _, ctx in seen if isinstance(ctx, SessionEnd))
    assert (end.status, end.turns, end.error) == ("completed", 2, None)


@pytest.mark.covers("HOK-24", "HOK-23", "HOK-26")
async def test_calls_that_do_not_go_through_have_hooks_of_their_own() -> None:
    script = (
        calls(
            tool_call_reply("look", key=7, deep="yes"),
            tool_call_reply("look"),
            tool_call_reply("nope"),
            tool_call_reply("look", key="broken"),
        ),
        text_reply("done"),
    )
    seen = [(name, ctx) for name, ctx in await heard(*script) if isinstance(ctx, ToolCallHook)]
    coerced = next(ctx for _, ctx in seen if isinstance(ctx, ValidationCoerce))
    assert {c.path: c.after for c in coerced.coercions} == {"$.key": "7", "$.deep": True}
    by_call: dict[str, list[str]] = {}
    for name, ctx in seen:
        by_call.setdefault(ctx.call_id, []).append(name)
    assert list(by_call.values()) == [
        [
            "tool:gate",
            "validation:coerce",
            "tool:before",
            "tool:permit",
            "tool:start",
            "tool:transform",
            "tool:after",
        ],
        ["tool:gate", "validation:reject"],
        ["tool:gate", "tool:unknown", "tool:error"],
        ["tool:gate", "tool:before", "tool:permit", "tool:start", "tool:error", "tool:transform", "tool:after"],
    ]


@pytest.mark.covers("HOK-23", "HOK-24", "HOK-26")
async def test_handlers_word_what_the_model_is_told_of_a_call_that_failed() -> None:
    def unknown(ctx: ToolUnknown) -> None:
        ctx.result = "there is no such tool, use look"
        ctx.suppress_error = True

    def fails(ctx: ToolFailed) -> None:
        assert ctx.name == "look", "the error of the unknown tool was suppressed"
        assert str(ctx.error) == "no such key"
        ctx.result = "nothing there"

    def reject(ctx: ValidationReject) -> None:
        assert "key" in ctx.error
        ctx.error = "give a key"

    def transform(ctx: ToolTransform) -> None:
        ctx.result.output = ctx.result.text.upper()
        ctx.result.is_error = True

    hooks: Any = {ToolUnknown: unknown, ToolFailed: fails, ValidationReject: reject, ToolTransform: transform}
    one = agent(
        Script(
            calls(tool_call_reply("nope"), tool_call_reply("look", key="broken"), tool_call_reply("look")),
            text_reply("ok"),
        ),
        tools=[look],
        hooks=hooks,
    )
    results = said((await one.run("go")).messages[2]).tool_results
    assert [(r.text, r.is_error) for r in results] == [
        ("there is no such tool, use look", False),
        ("NOTHING THERE", True),
        ("Validation error: give a key", True),
    ]


@pytest.mark.covers("HOK-29", "TDF-17")
async def test_every_hook_of_a_call_says_which_call_it_is() -> None:
    script = (
        calls(
            tool_call_reply("look", key=7),
            tool_call_reply("nope"),
            tool_call_reply("look"),
            tool_call_reply("look", key="broken"),
        ),
        text_reply("done"),
    )
    seen = [ctx for _, ctx in await heard(*script, tool_aliases={"look": "search"}) if isinstance(ctx, ToolCallHook)]
    assert {type(ctx).event for ctx in seen} >= {
        "tool:gate", "tool:before", "tool:permit", "tool:start", "tool:error", "tool:transform", "tool:after", "tool:unknown",
        "validation:reject", "validation:coerce",
    }  # fmt: skip
    for ctx in seen:
        assert ctx.turn_id
        assert ctx.call_id
        assert (ctx.name, ctx.display_name) in {("look", "search"), ("nope", "nope")}
    assert len({ctx.turn_id for ctx in seen}) == 1


@pytest.mark.covers("HOK-30", "TEX-17", "TEX-19")
async def test_sizes_are_told_as_they_came_and_as_they_stay() -> None:
    @tool
    async def picture() -> ToolOutput:
        """Draw."""
        return (TextBlock("drawn: ö"), ImageBlock("image/png", "QUJD" * 100))

    sizes: list[int] = []
    hooks: Any = {
        ToolTransform: lambda c: sizes.append(c.output_bytes),
        ToolFinished: lambda c: sizes.append(c.output_bytes),
    }
    context = LoopContext(tools=ToolRegistry([picture]))
    await agent_loop(
        "go", context, config(Script(tool_call_reply("picture"), text_reply("ok")), vision=False, bus=HookBus(hooks))
    )
    [result] = said(context.messages[2]).tool_results
    assert sizes == [409, output_bytes(result.content)]
    assert "image left out" in result.text


@pytest.mark.covers("HOK-31", "TEX-24", "TEX-25", "HOK-21")
@pytest.mark.parametrize(("mode", "at_gates"), [("parallel", [0, 0, 2]), ("sequential", [0, 1, 2])])
async def test_counts_are_of_the_run_frozen_and_from_before_what_runs_together(mode: Any, at_gates: list[int]) -> None:
    gates: list[int] = []
    kinds: set[type] = set()

    def gate(ctx: ToolGate) -> None:
        gates.append(ctx.tool_counts.get("look", 0))

    def frozen(ctx: Any) -> None:
        kinds.add(type(ctx.tool_counts))
        with pytest.raises(TypeError):
            ctx.tool_counts["look"] = 99

    one = agent(
        Script(
            calls(tool_call_reply("look", key="a"), tool_call_reply("look", key="b")),
            tool_call_reply("look", key="c"),
            text_reply("ok"),
            tool_call_reply("look", key="d"),
        ),
        tools=[look],
        behavior=RunOptions(tool_execution=mode),
        hooks={ToolGate: [gate, frozen], ToolBefore: frozen, ToolFinished: frozen},
    )
    turns: list[Any] = []
    one.on(TurnBefore, lambda c: turns.append(dict(c.tool_counts)))
    await one.run("go")
    assert gates == at_gates
    assert kinds == {MappingProxyType}
    assert turns == [{}, {"look": 2}, {"look": 3}]
    await one.run("again", behavior=RunOptions(max_turns=1))
    assert gates[-1] == 0, "a new run counts anew"


@pytest.mark.covers("HOK-20", "HOK-19")
async def test_transforms_are_for_one_request_and_leave_the_history_alone() -> None:
    def shorten(ctx: ContextTransform) -> None:
        ctx.messages = [*ctx.messages[-1:], Message.user("and this")]

    def signed(ctx: SystemTransform) -> Any:
        return {"system": f"{ctx.system} (turn {ctx.turn})"}

    model = Script(tool_call_reply("look", key="a"), text_reply("ok"))
    one = agent(model, tools=[look], system="Be kind.", hooks={ContextTransform: shorten, SystemTransform: signed})
    await one.run("go")
    assert [r.system for r in model.requests] == ["Be kind. (turn 1)", "Be kind. (turn 2)"]
    assert [len(r.messages) for r in model.requests] == [2, 2]
    assert len(one.messages) == 4


@pytest.mark.covers("AGT-40")
async def test_a_system_prompt_of_one_run_is_told() -> None:
    told: list[str] = []
    model = Script(text_reply("a"), text_reply("b"))
    one = agent(
        model, system="Be kind.", hooks={SystemBefore: lambda ctx: told.append(ctx.system) or {"system": "changed"}}
    )
    await one.run("go")
    assert told == []
    await one.run("go", system="Be brief.")
    assert told == ["Be brief."]
    assert [r.system for r in model.requests] == ["Be kind.", "Be brief."], "it is to look at only"


@pytest.mark.covers("AGT-39")
async def test_where_the_choice_of_context_fails_the_request_goes_on_without(caplog: pytest.LogCaptureFixture) -> None:
    def choose(messages: Any, signal: Any) -> Any:
        raise KeyError("no index")

    model = Script(text_reply("ok"))
    one = agent(model, transform=choose, hooks={ContextTransform: choose})
    assert (await one.run("go")).text == "ok"
    assert [m.text for m in model.requests[0].messages] == ["go"]
    assert "continues without it" in caplog.text


@pytest.mark.covers("AGT-34", "AGT-15", "HOK-39", "AGT-17")
async def test_the_last_hooks_come_on_every_way_out() -> None:
    def blow(ctx: Any) -> None:
        one.abort("enough")

    quick = RunOptions(retry=RetryConfig(max_retries=0))
    for script, hooks, status in (
        ((text_reply("ok"),), {}, "completed"),
        ((tool_call_reply("look", key="a"), tool_call_reply("look", key="a")), {}, "max_turns"),
        ((fail(NetworkError("down")),), {}, "error"),
        ((text_reply("ok"),), {TurnBefore: blow}, "aborted"),
        ((tool_call_reply("look", key="a"),), {PermissionCheck: lambda c: c.deny("no", stop=True)}, "denied"),
        ((tool_call_reply("look", key="a"),), {PermissionCheck: lambda c: c.pause("may it?")}, "paused"),
    ):
        limits = RunOptions(max_turns=1) if status == "max_turns" else quick
        one = agent(Script(*script), tools=[look], hooks=hooks, behavior=limits)
        seen = recorder(one.bus)
        result = await one.run("go", raise_errors=False)
        names = [name for name, _ in seen]
        assert result.status == status
        assert (names[0], names[-2:]) == ("session:start", ["session:end", "agent:done"])
        assert ("agent:abort" in names) == (status == "aborted")
        done: Any = seen[-1][1]
        assert (done.status, isinstance(done.error, Exception)) == (status, status in ("error", "aborted"))
        if status == "error":
            failed = next(ctx for _, ctx in seen if isinstance(ctx, TurnAfter))
            assert (failed.usage.total_tokens, type(failed.error)) == (0, AgentProviderError)
        assert result.stats.seconds >= 0


async def test_a_policy_stops_a_run_before_the_request_is_sent() -> None:
    def stop(ctx: TurnBefore) -> None:
        if ctx.turn == 2:
            ctx.stop = "max_cost"

    model = Script(tool_call_reply("look", key="a"), text_reply("never"))
    one = agent(model, tools=[look], hooks={TurnBefore: stop})
    events: list[str] = []
    one.subscribe(lambda e: events.append(e.type))
    result = await one.run("go")
    assert (result.status, result.turns, len(model.requests)) == ("max_cost", 1, 1)
    assert events.count("turn_start") == events.count("turn_end") == 1


async def test_what_a_policy_has_to_say_follows_the_results() -> None:
    def remark(ctx: ToolResultsAfter) -> None:
        if len(ctx.results.tool_results) == 1:
            ctx.follow.append(Message.user("that is enough"))

    model = Script(tool_call_reply("look", key="a"), text_reply("ok"))
    one = agent(model, tools=[look], hooks={ToolResultsAfter: remark})
    seen = recorder(one.bus)
    await one.run("go")
    assert [said(m).text for m in one.messages] == ["go", "", "", "that is enough", "ok"]
    assert [c.source for _, c in seen if isinstance(c, MessagesAdded)] == ["prompt", "synthetic", "assistant"]


@pytest.mark.covers("TEX-26")
async def test_a_tool_is_wrapped_by_a_gate_before_and_a_transform_behind() -> None:
    ran: list[str] = []

    @tool
    async def act(what: str) -> str:
        """Act."""
        ran.append(what)
        return what

    def before(ctx: ToolGate) -> None:
        if ctx.input["what"] == "bad":
            ctx.block, ctx.reason = True, "never that"

    def behind(ctx: ToolTransform) -> None:
        ctx.result.output = f"<{ctx.result.text}>"
        ctx.result.metadata = {"seen": True}

    one = agent(
        Script(calls(tool_call_reply("act", what="bad"), tool_call_reply("act", what="good")), text_reply("ok")),
        tools=[act],
        hooks={ToolGate: before, ToolTransform: behind},
    )
    results = said((await one.run("go")).messages[2]).tool_results
    assert ran == ["good"]
    assert [(r.text, r.details) for r in results] == [
        ("Blocked: never that", {"code": "PERMISSION_DENIED"}),
        ("<good>", {"seen": True}),
    ]


def test_what_may_be_changed_is_a_field_and_everything_says_when_it_fires() -> None:
    for kind in HOOKS.values():
        slots = {n for base in kind.__mro__ for n in (*getattr(base, "__slots__", ()), *vars(base))}
        assert kind.when, kind
        assert inspect.getdoc(kind) != inspect.getdoc(Hook)
        if "context" not in slots:  # a hook of a sub-agent has the fields of the child's own
            assert set(kind.mutable) <= slots, kind


@pytest.mark.covers("HOK-39")
async def test_a_handler_that_was_cut_short_by_itself_is_a_failed_handler() -> None:
    import asyncio

    async def broken(ctx: Any) -> None:
        raise asyncio.CancelledError("of a task of its own")

    one = agent(
        Script(tool_call_reply("look", key="a"), text_reply("ok")),
        tools=[look],
        hooks={TurnBefore: broken, MessagesAdded: broken, ToolGate: broken},
    )
    result = await one.run("go")
    assert result.text == "ok"
    assert said(result.messages[2]).tool_results[0].text.startswith("Blocked: the check"), "a gate fails closed"
    one.on(TurnBefore, lambda ctx: one.abort())
    with pytest.raises(AgentAbortedError):
        await one.run("again")


@pytest.mark.covers("AGT-24")
@pytest.mark.parametrize("kind", ["steer", "follow_up"])
async def test_what_waits_may_be_replaced_or_dropped_before_it_joins(kind: str) -> None:
    def change(ctx: BeforeInject) -> None:
        assert ctx.kind == kind
        told = said(ctx.messages[0]).text
        ctx.messages = [] if told == "never mind" else [Message.user(f"<{told}>")]

    one = agent(Script(text_reply("a"), text_reply("b"), text_reply("c")), hooks={BeforeInject: change})
    for text in ("also this", "never mind"):
        (one.steer if kind == "steer" else one.follow_up)(text)
    await one.run("go")
    assert [said(m).text for m in one.messages] == ["go", "a", "<also this>", "b"]


@pytest.mark.covers("AGT-16")
async def test_each_turn_has_an_id_of_its_own_and_all_its_hooks_know_it() -> None:
    seen = await heard(
        calls(tool_call_reply("look", key="a"), tool_call_reply("look", key="b")),
        tool_call_reply("look", key="c"),
        text_reply("done"),
    )
    turns: list[set[str]] = []
    for name, ctx in seen:
        if name == "context:transform":
            turns.append(set())
        if turns and (turn_id := getattr(ctx, "turn_id", "")):
            turns[-1].add(turn_id)
    assert [len(ids) for ids in turns] == [1, 1, 1]
    assert len(set().union(*turns)) == 3
