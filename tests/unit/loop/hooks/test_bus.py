"""The hook bus: who is asked, in which order, and what a failure does."""

import subprocess
import sys
from typing import Any

import pytest

from mainspring.errors import ConfigError
from mainspring.events import AgentStart
from mainspring.loop import HookBus
from mainspring.loop.hooks import HOOKS, Hook, StreamText, SystemTransform, ToolGate
from mainspring.messages import ToolUseBlock


def gate() -> ToolGate:
    return ToolGate(ToolUseBlock("c", "shell"), "t", {})


@pytest.mark.covers("HOK-13", "HOK-16", "HOK-18")
async def test_handlers_are_asked_in_order_and_the_last_writer_wins() -> None:
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
def test_an_unknown_event_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'tool:gate'"):
        HookBus({"tool:gat": lambda ctx: None})
    with pytest.raises(ConfigError, match="is no hook"):
        HookBus().on(Hook, lambda ctx: None)
    bus = HookBus()
    with pytest.raises(ConfigError):
        bus.add({"tool:gate": lambda ctx: None, "nope": lambda ctx: None})
    assert not bus.has(ToolGate), "nothing is registered if one name is wrong"


@pytest.mark.covers("HOK-42")
async def test_handlers_are_async_or_not_and_get_the_class_of_their_event() -> None:
    seen: list[type] = []

    async def slow(ctx: ToolGate) -> dict[str, Any]:
        seen.append(type(ctx))
        return {"block": "no"}

    bus = HookBus()
    bus.on(ToolGate, slow)
    assert (await bus.emit(gate())).block == "no"
    assert seen == [ToolGate]


@pytest.mark.covers("HOK-44")
async def test_a_failing_gate_blocks_and_the_rest_is_not_asked(caplog: pytest.LogCaptureFixture) -> None:
    request: list[int] = []

    def broken(ctx: ToolGate) -> None:
        raise KeyError("x")

    bus = HookBus({ToolGate: [broken, lambda ctx: request.append(1)]})
    assert "KeyError" in str((await bus.emit(gate())).block)
    assert request == []
    assert "broken" in caplog.text


@pytest.mark.covers("HOK-44")
async def test_an_unknown_field_in_an_answer_is_a_failure_of_the_handler(caplog: pytest.LogCaptureFixture) -> None:
    bus = HookBus({ToolGate: lambda ctx: {"blok": True}})
    assert (await bus.emit(gate())).block


async def test_an_event_nobody_listens_to_is_one_look_up() -> None:
    bus = HookBus()
    assert not bus.has(StreamText)
    remove = bus.on(StreamText, lambda ctx: None)
    assert bus.has(StreamText)
    remove()
    assert not bus.has(StreamText)


def test_observers_hear_everything_and_one_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []

    def broken(event: Any) -> None:
        raise OSError("pipe")

    bus = HookBus()
    bus.subscribe(broken)
    remove = bus.subscribe(heard.append)
    bus.publish(AgentStart("r"))
    remove()
    bus.publish(AgentStart("r"))
    assert [e.type for e in heard] == ["agent_start"]
    assert "an observer failed" in caplog.text


def test_every_hook_has_a_name_a_docstring_and_slots() -> None:
    assert len(HOOKS) >= 29
    for name, kind in HOOKS.items():
        assert kind.event == name
        assert kind.__doc__
        assert "__slots__" in vars(kind)


def test_the_library_writes_nowhere_unless_logging_is_configured() -> None:
    script = """
import asyncio, logging
from mainspring.env import MemoryEnv
from mainspring.loop import CoreAgent
from mainspring.models import LLMClient, ModelCallbacks; from mainspring.testing.scripted_model import ScriptedModel

async def main():
    agent = CoreAgent(ScriptedModel("ok"), env=MemoryEnv({}), hooks={"turn:after": lambda ctx: 1 / 0})
    assert (await agent.run("go")).text == "ok"
    client = LLMClient(ScriptedModel(ValueError("x")), callbacks=ModelCallbacks(on_error=lambda failure: 1 / 0))
    assert not (await client.invoke("go")).success
    assert not logging.getLogger().handlers

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=15, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
