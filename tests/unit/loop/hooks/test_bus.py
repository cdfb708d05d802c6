"""The hook bus: which handlers are called, in which order, and the effect of a failure."""

import asyncio
import subprocess
import sys
from typing import Any, cast

import pytest

from mainspring.errors import ConfigError
from mainspring.events import AgentStart, Event, MessageUpdate, StreamStart, SubagentEvent, TextDelta, UsageUpdate
from mainspring.loop import HookBus
from mainspring.loop.hooks import ALIASES, HOOK_NAMES, HOOKS, Hook, SubagentIdentity, SystemTransform, ToolGate, resolve
from mainspring.messages import ToolUseBlock, Usage


def make_gate() -> ToolGate:
    return ToolGate(ToolUseBlock("c", "shell"), "t", {})


@pytest.mark.covers("HOK-13", "HOK-16", "HOK-18")
async def test_handlers_run_in_order_and_the_last_change_wins() -> None:
    bus = HookBus(
        {
            "system:transform": [
                lambda ctx: {"system": ctx.system + "a"},
                lambda ctx: setattr(ctx, "system", ctx.system + "b"),
            ]
        }
    )
    remove = bus.on(SystemTransform, lambda ctx: {"system": ctx.system + "c"})
    bus.on(SystemTransform, lambda ctx: {"system": ctx.system + "0"}, order=-1)
    assert (await bus.emit(SystemTransform(">", 1, "t"))).system == ">0abc"
    remove()
    remove()
    assert (await bus.emit(SystemTransform(">", 1, "t"))).system == ">0ab"


@pytest.mark.covers("HOK-17")
def test_unknown_hook_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'tool:gate'"):
        HookBus({"tool:gat": lambda ctx: None})
    with pytest.raises(ConfigError, match="is not a hook"):
        HookBus().on(Hook, lambda ctx: None)
    bus = HookBus()
    with pytest.raises(ConfigError):
        bus.add({"tool:gate": lambda ctx: None, "nope": lambda ctx: None})
    assert not bus.has(ToolGate), "no handler is registered if one name is invalid"


@pytest.mark.covers("HOK-42")
async def test_handlers_may_be_async_and_receive_the_context_class() -> None:
    seen: list[type] = []

    async def slow(ctx: ToolGate) -> dict[str, Any]:
        seen.append(type(ctx))
        return {"block": "no"}

    bus = HookBus()
    bus.on(ToolGate, slow)
    assert (await bus.emit(make_gate())).block == "no"
    assert seen == [ToolGate]


@pytest.mark.covers("HOK-44")
async def test_failing_gate_handler_blocks_and_stops_further_handlers(caplog: pytest.LogCaptureFixture) -> None:
    request: list[int] = []

    def failing(ctx: ToolGate) -> None:
        raise KeyError("x")

    bus = HookBus({ToolGate: [failing, lambda ctx: request.append(1)]})
    assert "KeyError" in str((await bus.emit(make_gate())).block)
    assert request == []
    assert "failing" in caplog.text


@pytest.mark.covers("HOK-44")
async def test_unknown_field_in_a_returned_dict_fails_the_handler(caplog: pytest.LogCaptureFixture) -> None:
    bus = HookBus({ToolGate: lambda ctx: {"blok": True}})
    assert (await bus.emit(make_gate())).block


async def test_has_is_true_only_while_a_handler_is_registered() -> None:
    bus = HookBus()
    assert not bus.has(TextDelta)
    remove = bus.on(TextDelta, lambda ctx: None)
    assert bus.has(TextDelta)
    remove()
    assert not bus.has(TextDelta)


def test_listeners_receive_events_although_another_listener_fails(caplog: pytest.LogCaptureFixture) -> None:
    events: list[Any] = []

    def failing(event: Any) -> None:
        raise OSError("pipe")

    bus = HookBus()
    bus.subscribe(failing)
    remove = bus.subscribe(events.append)
    bus.publish(AgentStart("r"))
    remove()
    bus.publish(AgentStart("r"))
    assert [e.type for e in events] == ["agent_start"]
    assert "The listener" in caplog.text


def test_every_hook_has_a_name_a_docstring_and_slots() -> None:
    assert len(HOOKS) == 32
    assert len(HOOK_NAMES) == 63
    assert not HOOKS.keys() & ALIASES.keys()
    for name, kind in HOOKS.items():
        assert kind.event == name
        assert kind.__doc__
        assert "__slots__" in vars(kind)


def test_library_prints_nothing_unless_logging_is_configured() -> None:
    script = """
import asyncio, logging
from mainspring.env import MemoryEnv
from mainspring.loop import CoreAgent
from mainspring.models import LLMClient, ModelCallbacks; from mainspring.testing.scripted_model import ScriptedModel

async def main():
    agent = CoreAgent(ScriptedModel("ok"), env=MemoryEnv({}), hooks={"turn:after": lambda ctx: 1 / 0})
    assert (await agent.run("go")).text == "ok"
    client = LLMClient(ScriptedModel(ValueError("x")), callbacks=ModelCallbacks(on_error=lambda code, message: 1 / 0))
    assert not (await client.invoke("go")).success
    assert not logging.getLogger().handlers

asyncio.run(main())
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


async def test_emit_calls_only_the_selected_handlers() -> None:
    called: list[int] = []
    bus = HookBus()
    for order in (3, 1, 2):
        bus.on(SystemTransform, lambda ctx, n=order: called.append(n), order=order)
    chosen: list[tuple[int, bool]] = []

    def select(order: int, handler: Any) -> bool:
        chosen.append((order, callable(handler)))
        return order != 2

    context = SystemTransform("", 1, "t")
    assert await bus.emit(context, only=select) is context
    assert called == [1, 3]
    assert chosen == [(1, True), (2, True), (3, True)]


async def test_emit_filters_handlers_after_an_async_handler() -> None:
    called: list[str] = []

    async def slow(ctx: SystemTransform) -> None:
        called.append("slow")

    bus = HookBus({SystemTransform: [slow, lambda ctx: called.append("quick")]})
    bus.on(SystemTransform, slow, order=1)
    await bus.emit(SystemTransform("", 1, "t"), only=lambda order, handler: order == 0)
    assert called == ["slow", "quick"]


async def test_added_handlers_share_one_order_and_one_remove_function() -> None:
    called: list[str] = []
    bus = HookBus({SystemTransform: lambda ctx: called.append("first")})
    remove = bus.add({"system:transform": [lambda ctx: called.append("early")], TextDelta: lambda ctx: None}, order=-1)
    await bus.emit(SystemTransform("", 1, "t"))
    assert called == ["early", "first"]
    remove()
    assert not bus.has(TextDelta)
    await bus.emit(SystemTransform("", 1, "t"))
    assert called == ["early", "first", "first"]


async def test_blocked_gate_skips_further_handlers_after_an_async_handler() -> None:
    called: list[int] = []

    async def block(ctx: ToolGate) -> dict[str, Any]:
        return {"block": "no"}

    bus = HookBus({ToolGate: [block, lambda ctx: called.append(1)]})
    await bus.emit(make_gate())
    assert called == []


async def test_handler_failure_names_handler_hook_and_error(caplog: pytest.LogCaptureFixture) -> None:
    def failing(ctx: ToolGate) -> None:
        raise KeyError("x")

    async def failing_async(ctx: ToolGate) -> None:
        raise KeyError("y")

    class Handler:
        def __repr__(self) -> str:
            return "<my handler>"

        def __call__(self, ctx: ToolGate) -> None:
            raise KeyError("z")

    for handler, name, key in ((failing, failing.__qualname__, "x"), (failing_async, failing_async.__qualname__, "y"), (Handler(), "<my handler>", "z")):  # fmt: skip
        caplog.clear()
        context = await HookBus({ToolGate: handler}).emit(make_gate())
        assert context.block == f"the check {name} failed (KeyError: '{key}')"
        [record] = caplog.records
        assert record.getMessage() == f"The handler {name} of tool:gate failed. The run continues."
        assert record.exc_info is not None
        assert isinstance(record.exc_info[1], KeyError)


async def test_handler_that_returns_its_context_changes_nothing() -> None:
    bus = HookBus({SystemTransform: lambda ctx: ctx})
    assert (await bus.emit(SystemTransform("s", 1, "t"))).system == "s"


def test_unknown_hooks_are_reported_with_the_valid_names() -> None:
    with pytest.raises(ConfigError, match=r"^Unknown hook: 'tool:gat'\. Did you mean 'tool:gate'\?$"):
        HookBus({"tool:gat": lambda ctx: None})
    with pytest.raises(ConfigError, match=r"^Unknown hook: 'zzzz'\. Hooks: agent:abort, .*, usage"):
        HookBus({"zzzz": lambda ctx: None})

    class Foreign(Hook):
        event = "tool:gate"

    for wrong in (Foreign, Hook, Event, MessageUpdate, int):
        with pytest.raises(
            ConfigError, match=r"is not a hook or an event. Use the class of one, or the name of a hook"
        ):
            HookBus().on(cast("Any", wrong), lambda ctx: None)


async def test_listeners_receive_every_event_until_they_unsubscribe(caplog: pytest.LogCaptureFixture) -> None:
    first: list[Any] = []
    second: list[Any] = []

    def failing(event: Any) -> None:
        raise OSError("pipe")

    bus = HookBus()
    assert not bus.is_heard(AgentStart)
    unsubscribe_first, unsubscribe_second = bus.subscribe(first.append), bus.subscribe(second.append)
    unsubscribe_failing = bus.subscribe(failing)
    assert bus.is_heard(AgentStart)
    bus.publish(AgentStart("r"))
    unsubscribe_first()
    unsubscribe_failing()
    bus.publish(AgentStart("s"))
    assert ([e.run_id for e in first], [e.run_id for e in second]) == (["r"], ["r", "s"])
    unsubscribe_second()
    assert not bus.is_heard(AgentStart)
    [record] = caplog.records
    assert "failed on agent_start. The run continues" in record.getMessage()


def test_async_listener_is_rejected_by_name() -> None:
    async def listen(event: Any) -> None: ...

    with pytest.raises(TypeError, match=r"listen is async. An event listener must be a plain function"):
        HookBus().subscribe(cast("Any", listen))


def test_handler_can_be_removed_twice() -> None:
    bus = HookBus()
    remove = bus.on(TextDelta, lambda ctx: None)
    remove()
    remove()
    assert not bus.has(TextDelta)


# --- events -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("HOK-42", "STR-11")
async def test_handlers_of_an_event_are_awaited_after_the_listeners_and_cannot_change_it() -> None:
    called: list[str] = []

    async def slow(event: TextDelta) -> None:
        called.append(f"slow {event.text}")

    bus = HookBus({"stream:text": slow})
    bus.on(TextDelta, lambda event: called.append(f"quick {event.text}"), order=1)
    bus.on(TextDelta, lambda event: {"text": "changed"}, order=-1)
    bus.subscribe(lambda event: called.append(f"listener {event.text}"))
    await bus.notify(TextDelta(0, "a"))
    assert called == ["listener a", "slow a", "quick a"]


async def test_handlers_of_published_events_are_called_in_order_with_the_next_notification() -> None:
    called: list[str] = []
    heard: list[str] = []

    async def slow(event: TextDelta) -> None:
        called.append(event.text)

    bus = HookBus({TextDelta: slow})
    bus.subscribe(lambda event: heard.append(event.text))
    bus.publish(TextDelta(0, "a"))
    bus.publish(TextDelta(0, "b"))
    assert (heard, called) == (["a", "b"], [])
    await bus.notify(TextDelta(0, "c"))
    assert (heard, called) == (["a", "b", "c"], ["a", "b", "c"])


@pytest.mark.covers("HOK-17")
def test_every_old_name_is_a_hook_or_an_event() -> None:
    bus = HookBus()
    for name in HOOK_NAMES:
        bus.on(name, lambda ctx: None)()
    assert {resolve(name).kind for name in HOOK_NAMES} >= set(HOOKS.values())


@pytest.mark.covers("HOK-37")
async def test_events_of_subagents_arrive_with_the_path_and_only_where_requested() -> None:
    own: list[Any] = []
    listened: list[Any] = []
    deltas: list[Any] = []
    outer, middle, inner = HookBus(), HookBus(), HookBus()
    middle.forward_to(outer, SubagentIdentity("m", "scout", 1))
    inner.forward_to(middle, SubagentIdentity("i", "", 2))
    assert not inner.is_heard(TextDelta)
    outer.subscribe(own.append)
    assert not inner.is_heard(TextDelta), "a listener of an agent's own events"
    outer.subscribe(listened.append, subagents=True)
    remove = outer.on("child:stream:text", deltas.append)
    assert inner.is_heard(TextDelta)
    assert not inner.is_heard(StreamStart), "only the subagent's own listeners get it"
    await inner.notify(TextDelta(0, "a"))
    await middle.notify(TextDelta(0, "b"))
    await inner.notify(AgentStart("r"))
    remove()
    await inner.notify(TextDelta(0, "c"))
    assert own == []
    assert [(e.path, e.event.type) for e in listened] == [
        (("m", "i"), "text_delta"), (("m",), "text_delta"), (("m", "i"), "agent_start"), (("m", "i"), "text_delta"),
    ]  # fmt: skip
    assert [(e.id, e.depth, e.event.text) for e in deltas] == [("i", 2, "a"), ("m", 1, "b")]


async def test_async_handlers_of_a_subagent_run_before_those_of_its_parent(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []
    parent, child = HookBus(), HookBus()
    child.forward_to(parent, SubagentIdentity("c1", "helper", 1))

    async def handle_own(event: UsageUpdate) -> None:
        await asyncio.sleep(0)
        calls.append("child")

    async def handle_above(event: Any) -> None:
        assert isinstance(event, SubagentEvent)
        await asyncio.sleep(0)
        calls.append(f"parent of {event.path}")

    def fail(event: object) -> None:
        raise RuntimeError("broken listener")

    child.on(UsageUpdate, handle_own)
    parent.on(UsageUpdate, handle_above, subagents=True)
    parent.subscribe(fail, subagents=True)

    await child.notify(UsageUpdate(1, Usage(), Usage(), "title"))

    assert calls == ["child", "parent of ('c1',)"]
    assert "failed on subagent_event. The run continues" in caplog.text


async def test_published_events_keep_their_order_before_awaited_ones() -> None:
    seen: list[str] = []
    bus = HookBus()

    async def handle(event: UsageUpdate) -> None:
        await asyncio.sleep(0)
        seen.append(event.purpose)

    bus.on(UsageUpdate, handle)
    for purpose in ("first", "second"):
        bus.publish(UsageUpdate(1, Usage(), Usage(), purpose))
    assert seen == []

    await bus.notify(UsageUpdate(1, Usage(), Usage(), "third"))

    assert seen == ["first", "second", "third"]
