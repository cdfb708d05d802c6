"""Every hook of a run: when it fires, its data, and the allowed changes."""

import inspect
from types import MappingProxyType
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.errors import AgentAbortedError, AgentProviderError, NetworkError
from mainspring.events import ToolInputCoerced
from mainspring.loop import HookBus, LoopContext, LoopOptions, agent_loop
from mainspring.loop.hooks import (
    ALIASES,
    HOOK_NAMES,
    HOOKS,
    BeforeInject,
    ContextTransform,
    Hook,
    MessagesAdded,
    PermissionCheck,
    SessionEnd,
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
    ValidationReject,
)
from mainspring.messages import ImageBlock, Message, TextBlock
from mainspring.models import RetryConfig
from mainspring.tools import ToolOutput, ToolRegistry, output_bytes, tool
from tests.unit.loop.harness import (
    Script,
    as_message,
    block_types,
    fail,
    make_agent,
    make_config,
    text_reply,
    tool_call_reply,
    tool_calls_reply,
)


@tool(label="Look up")
async def look(key: str, deep: bool = False) -> str:
    """Look something up."""
    if key == "broken":
        raise ValueError("no such key")
    return f"value of {key}"


def record_hooks(bus: HookBus, *, order: int = 50) -> list[tuple[str, Any]]:
    """Record all hooks that fire on a bus, by name."""
    seen: list[tuple[str, Any]] = []
    for name in HOOK_NAMES:
        bus.on(name, lambda ctx, name=name: seen.append((name, ctx)), order=order)
    return seen


async def run_and_record_hooks(*script: Any, **options: Any) -> list[tuple[str, Any]]:
    """Run an agent once and return the hooks that fired."""
    agent = make_agent(Script(*script), tools=[look], **options)
    seen = record_hooks(agent.bus)
    await agent.run("go", raise_errors=False)
    return seen


@pytest.mark.covers("HOK-19", "HOK-20", "HOK-21", "HOK-33", "AGT-16", "AGT-14", "AGT-34", "HOK-39")
async def test_hooks_of_a_run_fire_in_the_documented_order() -> None:
    seen = await run_and_record_hooks(tool_call_reply("look", key="a"), text_reply("done", thinking="hm"))
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
    assert (first.source, as_message(first.messages[0]).text) == ("prompt", "go")
    end = next(ctx for _, ctx in seen if isinstance(ctx, SessionEnd))
    assert (end.status, end.turns, end.error) == ("completed", 2, None)


@pytest.mark.covers("HOK-24", "HOK-23", "HOK-26")
async def test_unsuccessful_tool_calls_fire_their_own_hooks() -> None:
    script = (
        tool_calls_reply(
            tool_call_reply("look", key=7, deep="yes"),
            tool_call_reply("look"),
            tool_call_reply("nope"),
            tool_call_reply("look", key="broken"),
        ),
        text_reply("done"),
    )
    seen = [
        (name, ctx)
        for name, ctx in await run_and_record_hooks(*script)
        if isinstance(ctx, ToolCallHook | ToolInputCoerced)
    ]
    coerced = next(ctx for _, ctx in seen if isinstance(ctx, ToolInputCoerced))
    before = next(ctx for _, ctx in seen if isinstance(ctx, ToolBefore))
    assert {c.path: c.after for c in before.coercions} == {"$.key": "7", "$.deep": True}
    assert coerced.coercions == tuple([f"{c.path}: {c.rule}" for c in before.coercions])
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
async def test_handlers_can_replace_the_text_of_failed_tool_calls() -> None:
    def unknown(ctx: ToolUnknown) -> None:
        ctx.result = "there is no such tool, use look"
        ctx.suppress_error = True

    def replace_error(ctx: ToolFailed) -> None:
        assert ctx.name == "look", "the error of the unknown tool was suppressed"
        assert str(ctx.error) == "no such key"
        ctx.result = "nothing there"

    def reject(ctx: ValidationReject) -> None:
        assert "key" in ctx.error
        ctx.error = "give a key"

    def transform(ctx: ToolTransform) -> None:
        ctx.result.output = ctx.result.text.upper()
        ctx.result.is_error = True

    hooks: Any = {ToolUnknown: unknown, ToolFailed: replace_error, ValidationReject: reject, ToolTransform: transform}
    agent = make_agent(
        Script(
            tool_calls_reply(tool_call_reply("nope"), tool_call_reply("look", key="broken"), tool_call_reply("look")),
            text_reply("ok"),
        ),
        tools=[look],
        hooks=hooks,
    )
    results = as_message((await agent.run("go")).messages[2]).tool_results
    assert [(r.text, r.is_error) for r in results] == [
        ("there is no such tool, use look", False),
        ("NOTHING THERE", True),
        ('Validation error: tool "look": give a key', True),
    ]


@pytest.mark.covers("HOK-29", "TDF-17")
async def test_every_tool_call_hook_identifies_its_call() -> None:
    script = (
        tool_calls_reply(
            tool_call_reply("look", key=7),
            tool_call_reply("nope"),
            tool_call_reply("look"),
            tool_call_reply("look", key="broken"),
        ),
        text_reply("done"),
    )
    seen = [
        (name, ctx)
        for name, ctx in await run_and_record_hooks(*script, tool_aliases={"look": "search"})
        if isinstance(ctx, ToolCallHook | ToolInputCoerced)
    ]
    assert {name for name, _ in seen} >= {
        "tool:gate", "tool:before", "tool:permit", "tool:start", "tool:error", "tool:transform", "tool:after", "tool:unknown",
        "validation:reject", "validation:coerce",
    }  # fmt: skip
    for _, ctx in seen:
        assert ctx.turn_id
        assert ctx.call_id
        assert (ctx.name, ctx.display_name) in {("look", "search"), ("nope", "nope")}
    assert len({ctx.turn_id for _, ctx in seen}) == 1


@pytest.mark.covers("HOK-30", "TEX-17", "TEX-19")
async def test_output_size_is_reported_before_and_after_image_removal() -> None:
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
        "go",
        context,
        make_config(Script(tool_call_reply("picture"), text_reply("ok")), vision=False, bus=HookBus(hooks)),
    )
    [result] = as_message(context.messages[2]).tool_results
    assert sizes == [409, output_bytes(result.content)]
    assert "image left out" in result.text


@pytest.mark.covers("HOK-31", "TEX-24", "TEX-25", "HOK-21")
@pytest.mark.parametrize(("mode", "expected_counts"), [("parallel", [0, 0, 2]), ("sequential", [0, 1, 2])])
async def test_tool_counts_are_read_only_per_run_and_exclude_concurrent_calls(
    mode: Any, expected_counts: list[int]
) -> None:
    gates: list[int] = []
    kinds: set[type] = set()

    def gate(ctx: ToolGate) -> None:
        gates.append(ctx.tool_counts.get("look", 0))

    def check_read_only(ctx: Any) -> None:
        kinds.add(type(ctx.tool_counts))
        with pytest.raises(TypeError):
            ctx.tool_counts["look"] = 99

    agent = make_agent(
        Script(
            tool_calls_reply(tool_call_reply("look", key="a"), tool_call_reply("look", key="b")),
            tool_call_reply("look", key="c"),
            text_reply("ok"),
            tool_call_reply("look", key="d"),
        ),
        tools=[look],
        behavior=LoopOptions(tool_execution=mode),
        hooks={ToolGate: [gate, check_read_only], ToolBefore: check_read_only, ToolFinished: check_read_only},
    )
    turns: list[Any] = []
    agent.on(TurnBefore, lambda c: turns.append(dict(c.tool_counts)))
    await agent.run("go")
    assert gates == expected_counts
    assert kinds == {MappingProxyType}
    assert turns == [{}, {"look": 2}, {"look": 3}]
    await agent.run("again", behavior=LoopOptions(max_turns=1))
    assert gates[-1] == 0, "a new run starts at zero"


@pytest.mark.covers("HOK-20", "HOK-19")
async def test_transforms_apply_to_one_request_and_not_to_the_history() -> None:
    def shorten(ctx: ContextTransform) -> None:
        ctx.messages = [*ctx.messages[-1:], Message.user("and this")]

    def append_turn(ctx: SystemTransform) -> Any:
        return {"system": f"{ctx.system} (turn {ctx.turn})"}

    model = Script(tool_call_reply("look", key="a"), text_reply("ok"))
    agent = make_agent(
        model, tools=[look], system="Be kind.", hooks={ContextTransform: shorten, SystemTransform: append_turn}
    )
    await agent.run("go")
    assert [r.system for r in model.requests] == ["Be kind. (turn 1)", "Be kind. (turn 2)"]
    assert [len(r.messages) for r in model.requests] == [2, 2]
    assert len(agent.messages) == 4


@pytest.mark.covers("AGT-40")
async def test_system_prompt_of_a_run_is_reported() -> None:
    systems: list[str] = []
    model = Script(text_reply("a"), text_reply("b"))
    agent = make_agent(
        model,
        system="Be kind.",
        hooks={"system:before": lambda ctx: systems.append(ctx.system) or {"system": "changed"}},
    )
    await agent.run("go")
    assert systems == []
    await agent.run("go", system="Be brief.")
    assert systems == ["Be brief."]
    assert [r.system for r in model.requests] == ["Be kind.", "Be brief."], "the hook cannot change the prompt"


@pytest.mark.covers("AGT-39")
async def test_request_continues_without_a_failing_transform(caplog: pytest.LogCaptureFixture) -> None:
    def choose(messages: Any, signal: Any) -> Any:
        raise KeyError("no index")

    model = Script(text_reply("ok"))
    agent = make_agent(model, transform=choose, hooks={ContextTransform: choose})
    assert (await agent.run("go")).text == "ok"
    assert [m.text for m in model.requests[0].messages] == ["go"]
    assert "continues without it" in caplog.text


@pytest.mark.covers("AGT-34", "AGT-15", "HOK-39", "AGT-17")
async def test_end_hooks_fire_for_every_status() -> None:
    def abort_run(ctx: Any) -> None:
        agent.abort("enough")

    quick = LoopOptions(retry=RetryConfig(max_retries=0))
    for script, hooks, status in (
        ((text_reply("ok"),), {}, "completed"),
        ((tool_call_reply("look", key="a"), tool_call_reply("look", key="a")), {}, "max_turns"),
        ((fail(NetworkError("down")),), {}, "error"),
        ((text_reply("ok"),), {TurnBefore: abort_run}, "aborted"),
        ((tool_call_reply("look", key="a"),), {PermissionCheck: lambda c: c.deny("no", stop=True)}, "denied"),
        ((tool_call_reply("look", key="a"),), {PermissionCheck: lambda c: c.pause("may it?")}, "paused"),
    ):
        limits = LoopOptions(max_turns=1) if status == "max_turns" else quick
        agent = make_agent(Script(*script), tools=[look], hooks=hooks, behavior=limits)
        seen = record_hooks(agent.bus)
        result = await agent.run("go", raise_errors=False)
        names = [name for name, _ in seen]
        assert result.status == status
        assert (names[0], names[-2:]) == ("session:start", ["session:end", "agent:done"])
        assert ("agent:abort" in names) == (status == "aborted")
        done: Any = seen[-1][1]
        assert (done.status, isinstance(done.error, Exception)) == (status, status in ("error", "aborted"))
        assert replace(done.stats, seconds=0.0) == replace(result.stats, seconds=0.0)
        assert (done.stats.turns, sum(done.stats.tool_counts.values())) == {
            "completed": (1, 0), "max_turns": (1, 1), "error": (1, 0), "aborted": (1, 0), "denied": (1, 1), "paused": (1, 1),
        }[status]  # fmt: skip
        if status == "error":
            failed = next(ctx for _, ctx in seen if isinstance(ctx, TurnAfter))
            assert (failed.usage.total_tokens, type(failed.error)) == (0, AgentProviderError)
        assert result.stats.seconds >= 0


async def test_handler_can_stop_a_run_before_the_request() -> None:
    def stop(ctx: TurnBefore) -> None:
        if ctx.turn == 2:
            ctx.stop = "max_cost"

    model = Script(tool_call_reply("look", key="a"), text_reply("never"))
    agent = make_agent(model, tools=[look], hooks={TurnBefore: stop})
    events: list[str] = []
    agent.subscribe(lambda e: events.append(e.type))
    result = await agent.run("go")
    assert (result.status, result.turns, len(model.requests)) == ("max_cost", 1, 1)
    assert events.count("turn_start") == events.count("turn_end") == 1


async def test_messages_of_a_results_handler_follow_the_results() -> None:
    def remark(ctx: ToolResultsAfter) -> None:
        if len(ctx.results.tool_results) == 1:
            ctx.follow.append(Message.user("that is enough"))

    model = Script(tool_call_reply("look", key="a"), text_reply("ok"))
    agent = make_agent(model, tools=[look], hooks={ToolResultsAfter: remark})
    seen = record_hooks(agent.bus)
    await agent.run("go")
    assert [as_message(m).text for m in agent.messages] == ["go", "", "", "that is enough", "ok"]
    assert [c.source for _, c in seen if isinstance(c, MessagesAdded)] == ["prompt", "synthetic", "assistant"]


@pytest.mark.covers("TEX-28")
async def test_tool_calls_join_the_history_together_with_their_results() -> None:
    seen: list[tuple[str, list[str]]] = []
    agent = make_agent(Script(tool_call_reply("look", key="a"), text_reply("ok")), tools=[look])
    for name in ("tool:intent", "tool:gate", "tool:start", "tool:after", "tool-results:after"):
        agent.on(name, lambda ctx: seen.append((ctx.event, block_types(agent.messages))))
    await agent.run("go")
    assert seen == [
        ("tool:intent", ["user"]),
        ("tool:gate", ["user"]),
        ("tool:start", ["user"]),
        ("tool:after", ["user"]),
        ("tool-results:after", ["user", "assistant", "user"]),
    ]


@pytest.mark.covers("TEX-26")
async def test_gate_runs_before_a_tool_and_transform_after_it() -> None:
    ran: list[str] = []

    @tool
    async def act(what: str) -> str:
        """Act."""
        ran.append(what)
        return what

    def before(ctx: ToolGate) -> None:
        if ctx.input["what"] == "bad":
            ctx.block, ctx.reason = True, "never that"

    def after(ctx: ToolTransform) -> None:
        ctx.result.output = f"<{ctx.result.text}>"
        ctx.result.metadata = {"seen": True}

    agent = make_agent(
        Script(
            tool_calls_reply(tool_call_reply("act", what="bad"), tool_call_reply("act", what="good")), text_reply("ok")
        ),
        tools=[act],
        hooks={ToolGate: before, ToolTransform: after},
    )
    results = as_message((await agent.run("go")).messages[2]).tool_results
    assert ran == ["good"]
    assert [(r.text, r.details) for r in results] == [
        ("Blocked: never that", {"code": "PERMISSION_DENIED"}),
        ("<good>", {"seen": True}),
    ]


def test_mutable_names_are_fields_and_every_hook_documents_when_it_fires() -> None:
    assert all(target.when for target in ALIASES.values())
    for kind in HOOKS.values():
        slots = {n for base in kind.__mro__ for n in (*getattr(base, "__slots__", ()), *vars(base))}
        assert kind.when, kind
        assert inspect.getdoc(kind) != inspect.getdoc(Hook)
        assert set(kind.mutable) <= slots, kind


@pytest.mark.covers("HOK-39")
async def test_handler_that_raises_cancelled_error_is_a_failed_handler() -> None:
    import asyncio

    async def broken(ctx: Any) -> None:
        raise asyncio.CancelledError("of a task of its own")

    agent = make_agent(
        Script(tool_call_reply("look", key="a"), text_reply("ok")),
        tools=[look],
        hooks={TurnBefore: broken, MessagesAdded: broken, ToolGate: broken},
    )
    result = await agent.run("go")
    assert result.text == "ok"
    assert as_message(result.messages[2]).tool_results[0].text.startswith("Blocked: the check"), "a gate fails closed"
    agent.on(TurnBefore, lambda ctx: agent.abort())
    with pytest.raises(AgentAbortedError):
        await agent.run("again")


@pytest.mark.covers("AGT-24")
@pytest.mark.parametrize("kind", ["steer", "follow_up"])
async def test_queued_messages_can_be_replaced_or_dropped(kind: str) -> None:
    def change(ctx: BeforeInject) -> None:
        assert ctx.kind == kind
        systems = as_message(ctx.messages[0]).text
        ctx.messages = [] if systems == "never mind" else [Message.user(f"<{systems}>")]

    agent = make_agent(Script(text_reply("a"), text_reply("b"), text_reply("c")), hooks={BeforeInject: change})
    for text in ("also this", "never mind"):
        (agent.steer if kind == "steer" else agent.follow_up)(text)
    await agent.run("go")
    assert [as_message(m).text for m in agent.messages] == ["go", "a", "<also this>", "b"]


@pytest.mark.covers("AGT-16")
async def test_each_turn_has_its_own_id_in_all_its_hooks() -> None:
    seen = await run_and_record_hooks(
        tool_calls_reply(tool_call_reply("look", key="a"), tool_call_reply("look", key="b")),
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
