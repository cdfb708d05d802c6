"""The servers of an agent: start together, become available when ready, and obey the same rules as other tools."""

import asyncio
import json
from collections import Counter
from functools import partial
from typing import Any

import pytest

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError
from mainspring.events import Notice
from mainspring.loop.hooks import HOOKS, PermissionCheck, ToolGate, TurnBefore
from mainspring.mcp import (
    Answer,
    ElicitRequest,
    ElicitResult,
    InMemoryConnector,
    InMemoryServer,
    McpPlug,
    McpServerConfig,
    SamplingRequest,
)
from mainspring.mcp.content import tool_result
from mainspring.mcp.types import McpError
from mainspring.messages import ImageBlock, TextBlock
from mainspring.models import ModelInfo
from mainspring.permissions import Permissions, RuleSet
from mainspring.policies.budgets import ToolBudget
from mainspring.presets import Preset, merge_presets
from mainspring.run_options import RunOptions
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool
from mainspring.tools.interaction import Reply as Said, UserQuestion
from tests.unit.mcp.harness import get_plugin, make_agent, make_echo_server, make_tool_info, results, wait_until


def offered_tool_names(agent: Agent) -> list[list[str]]:
    """Return the tool names of each request."""
    assert isinstance(agent.model, ScriptedModel)
    return [[t.name for t in seen.request.tools] for seen in agent.model.requests]


@pytest.mark.covers("MCP-01", "MCP-05", "MCP-06", "MCP-10")
async def test_agent_uses_the_tools_of_its_servers() -> None:
    server = make_echo_server("echo")
    agent = Agent(
        ScriptedModel(ScriptedCall("mcp__docs__echo", {"text": "hi"}), "done"),
        execution=MemoryEnv(),
        mcp_servers=[{"name": "docs", "command": "-"}],
        mcp_connector=InMemoryConnector({"docs": server}),
    )
    await agent.run("go")
    assert offered_tool_names(agent)[0] == ["mcp__docs__echo"]
    (result,) = results(agent)
    assert result.content == "echo: hi"
    assert result.details == {"server": "docs", "tool": "echo"}
    assert server.calls == [("echo", {"text": "hi"})]


@pytest.mark.covers("MCP-06", "MCP-08")
async def test_results_contain_text_images_and_data() -> None:
    parts = Answer(
        content=(
            {"type": "text", "text": "seen"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/x-a", "description": "the a"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "u://b", "text": "inside"}},
        ),
        structured={"n": 1},
    )
    empty, data, bad = (
        Answer(),
        Answer(structured={"sum": 2}),
        Answer(content=({"type": "text", "text": "no"},), is_error=True),
    )
    kinds = {"parts": parts, "empty": empty, "data": data, "bad": bad}
    server = InMemoryServer([(make_tool_info(name), lambda text="", a=answer: a) for name, answer in kinds.items()])
    model = ScriptedModel(
        *[ScriptedCall(f"mcp__s__{name}", {}) for name in kinds], "done", info=ModelInfo("m", "scripted", vision=True)
    )
    agent = Agent(
        model,
        execution=MemoryEnv(),
        mcp_servers={"s": {"command": "-"}},
        mcp_connector=InMemoryConnector({"s": server}),
    )
    await agent.run("go")
    published = results(agent)
    assert published[0].content == (
        TextBlock("seen"),
        ImageBlock("image/png", "aGk="),
        TextBlock("[resource a, file:///a, text/x-a]: the a"),
        TextBlock("[audio/wav, 3 bytes; it cannot be shown here]"),
        TextBlock("[resource u://b]\ninside"),
        TextBlock('{\n  "n": 1\n}'),
    )
    assert published[0].details["structured"] == {"n": 1}
    assert published[1].content == "(no output)"
    assert published[2].content == '{\n  "sum": 2\n}'
    assert (published[3].content, published[3].is_error) == ("no", True)
    sent = model.requests[1].request.messages[-1].tool_results[0]
    assert ImageBlock("image/png", "aGk=") in tuple(sent.content)


@pytest.mark.covers("MCP-07", "AGT-11")
async def test_servers_start_together_and_a_failed_server_is_isolated() -> None:
    gate, starting = asyncio.Event(), []
    servers = {f"s{i}": make_echo_server("echo", delay=gate) for i in range(5)} | {
        "bad": make_echo_server(connect_error="it is broken")
    }
    agent = make_agent(servers, "done", mcp={"startup_wait": 5.0})
    warming = asyncio.ensure_future(agent.warmup())
    plug = get_plugin(agent)
    await wait_until(lambda: [s.status for s in plug.servers] == ["connecting"] * 5 + ["failed"])
    starting += [s.status for s in plug.servers]
    gate.set()
    await warming
    assert [s.status for s in plug.servers] == ["ready"] * 5 + ["failed"]
    assert str(plug.get("bad").error) == "it is broken"
    result = await agent.run("go")
    assert result.status == "completed"
    assert len(offered_tool_names(agent)[0]) == 5
    with pytest.raises(ConfigError, match="Unknown MCP server: 'x'. Configured servers: s0"):
        plug.get("x")


@pytest.mark.usefixtures("long_silent_wait")
async def test_run_that_waits_for_a_server_publishes_a_notice() -> None:
    gate, published = asyncio.Event(), list[str]()
    agent = make_agent(
        {"fast": make_echo_server("echo"), "slow": make_echo_server("echo", delay=gate)},
        "done",
        mcp={"startup_wait": 30.0},
    )
    agent.on(Notice, lambda notice: published.append(notice.text))
    running = asyncio.ensure_future(agent.run("go"))
    await wait_until(lambda: published)
    assert published == ["Waiting up to 30s for MCP server 'slow'"]
    gate.set()

    assert (await running).status == "completed"
    assert len(published) == 1


@pytest.mark.covers("HOK-34", "MCP-11")
async def test_bootstrap_hooks_report_duration_and_outcome_of_each_server() -> None:
    published: list[tuple[str, Any]] = []

    def record_event(name: str, event: Any) -> None:
        published.append((name, event))

    servers = {"good": make_echo_server("echo", "other"), "bad": make_echo_server(connect_error="broken")}
    agent = make_agent(servers, "done", "done")
    for name in ("mcp:bootstrap:start", "mcp:bootstrap:end", "mcp:connect", "mcp:error"):
        agent.on(name, partial(record_event, name))
    await agent.run("go")
    await agent.run("again")
    assert Counter((name, event.server) for name, event in published) == {
        ("mcp:bootstrap:start", "good"): 1,
        ("mcp:bootstrap:start", "bad"): 1,
        ("mcp:connect", "good"): 1,
        ("mcp:error", "bad"): 1,
        ("mcp:bootstrap:end", "good"): 1,
        ("mcp:bootstrap:end", "bad"): 1,
    }
    assert [name for name, _ in published[:2]] == ["mcp:bootstrap:start"] * 2
    ends = {event.server: event for name, event in published if name == "mcp:bootstrap:end"}
    assert (ends["good"].ok, ends["good"].tool_count, ends["good"].error) == (True, 2, None)
    assert (ends["bad"].ok, ends["bad"].tool_count) == (False, 0)
    assert "broken" in ends["bad"].error.message
    for end in ends.values():
        assert 0 < end.seconds < 60
    assert [(e.ok, e.seconds) for name, e in published if name == "mcp:bootstrap:start"] == [(False, None)] * 2


@pytest.mark.covers("HOK-34")
async def test_bootstrap_end_of_a_server_does_not_wait_for_slower_servers() -> None:
    gate, ended = asyncio.Event(), list[str]()
    agent = make_agent(
        {"slow": make_echo_server("echo", delay=gate), "fast": make_echo_server("echo")},
        "done",
        mcp={"startup_wait": 0.01},
    )
    agent.on("mcp:bootstrap:end", lambda event: ended.append(event.server))
    await agent.run("go")
    await wait_until(lambda: ended)
    assert ended == ["fast"]
    gate.set()
    await wait_until(lambda: len(ended) == 2)
    assert ended == ["fast", "slow"]


@pytest.mark.covers("HOK-34", "MCP-11")
async def test_bootstrap_end_hook_fires_after_a_shutdown_during_the_start() -> None:
    published: list[Any] = []
    agent = make_agent({"never": make_echo_server(delay=asyncio.Event())}, "done", mcp={"startup_wait": 0.01})
    agent.on("mcp:bootstrap:end", published.append)
    await agent.run("go")
    assert published == []
    await agent.shutdown()
    assert [(e.server, e.ok, e.error.message) for e in published] == [("never", False, "MCP server 'never' is closed")]


@pytest.mark.covers("MCP-13")
@pytest.mark.parametrize("rule", ["mcp__x", "mcp__x__*"])
async def test_server_rule_applies_only_to_the_tools_of_that_server(rule: str) -> None:
    servers = {"x": make_echo_server("a", "_b"), "x-y": make_echo_server("a"), "xy": make_echo_server("a")}
    calls = [ScriptedCall(f"mcp__{name}", {}) for name in ("x__a", "x___b", "x-y__a", "xy__a")]
    permissions = Permissions(rules=RuleSet.build(allow=["mcp__*"], deny=[rule]))
    agent = make_agent(servers, calls, "done", permissions=permissions)

    await agent.run("go")

    assert [r.is_error for r in results(agent)] == [True, True, False, False]


@pytest.mark.covers("MCP-13", "MCP-09")
async def test_tools_of_a_lazy_server_are_locked_until_a_search_finds_them() -> None:
    echo = ScriptedCall("mcp__late__echo", {"text": "hi"})
    script = (echo, ScriptedCall("tool_search", {"names": ["mcp__late__echo"]}), echo, "done")
    config = {"late": {"command": "-", "disclosure": "lazy"}, "now": {"command": "-"}}
    plug = McpPlug(
        config, connector=InMemoryConnector({"late": make_echo_server("echo"), "now": make_echo_server("echo")})
    )
    agent = Agent(ScriptedModel(*script), execution=MemoryEnv(), mcp_servers=plug)

    await agent.run("go")

    assert [r.is_error for r in results(agent)] == [True, False, False]
    first, *_, last = offered_tool_names(agent)
    assert ("mcp__late__echo" in first, "mcp__now__echo" in first) == (False, True)
    assert last[-1] == "mcp__late__echo"


@pytest.mark.covers("MCP-08")
async def test_images_that_models_reject_become_text() -> None:
    parts = (
        {"type": "image", "data": "!!", "mimeType": "image/png"},
        {"type": "image", "data": "QUJD" * 1_500_000, "mimeType": "image/png"},
        {"type": "image", "data": "aGk=\n", "mimeType": "image/png"},
    )
    result = tool_result(Answer(content=parts), "s", "t")
    assert isinstance(result.output, tuple)
    broken, large, fine = result.output
    assert isinstance(broken, TextBlock)
    assert "not base64" in broken.text
    assert isinstance(large, TextBlock)
    assert "4500000 bytes, which is more than models take" in large.text
    assert fine == ImageBlock("image/png", "aGk=")
    assert len(result.attachments) == 1


@pytest.mark.covers("MCP-06")
@pytest.mark.parametrize(
    ("texts", "structured", "is_added"),
    [
        (["ok status=ok"], {"message": "pong"}, True),
        (['{"ok": false, "note": "see structuredContent"}'], {"ok": False, "output": "main.c:12: expected ;"}, True),
        (['{\n "a": [1, 2]\n}'], {"a": [1, 2]}, False),
        (["[1, 2]"], {"result": [1, 2]}, False),
        (["1", "2"], {"result": [1, 2]}, False),
        (["one", "two"], {"result": ["one", "two"]}, False),
        (["plain"], {"result": "plain"}, False),
        (["plain"], {}, False),
        ([], {"a": 1}, True),
    ],
)
def test_structured_content_is_shown_unless_a_text_repeats_it(
    texts: list[str], structured: dict[str, Any], is_added: bool
) -> None:
    answer = Answer(content=tuple([{"type": "text", "text": text} for text in texts]), structured=structured)

    output = tool_result(answer, "s", "t").output
    shown = [output] if isinstance(output, str) else [b.text for b in output if isinstance(b, TextBlock)]

    assert shown == [*texts, *([json.dumps(structured, indent=2)] if is_added else [])]


def test_many_text_parts_are_joined() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    many = [{"type": "text", "text": str(n)} for n in range(2_000)]
    result = tool_result(Answer(content=(*many, image, *many)), "s", "t")
    assert isinstance(result.output, tuple)
    first, seen, last = result.output
    assert isinstance(seen, ImageBlock)
    assert isinstance(first, TextBlock)
    assert first == last
    assert first.text.split("\n") == [str(n) for n in range(2_000)]


LONG_WAIT = 3.0
"""Seconds in which a server starts on the slowest machine, while a run waits for another that never does."""


@pytest.fixture
def long_silent_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run wait so long without a notice."""
    monkeypatch.setattr("mainspring.mcp.plug._SILENT_WAIT", LONG_WAIT)


@pytest.mark.covers("MCP-07")
@pytest.mark.usefixtures("long_silent_wait")
async def test_failed_or_late_server_publishes_a_notice() -> None:
    published: list[str] = []
    servers = {
        "bad": make_echo_server(connect_error="no"),
        "good": make_echo_server("echo"),
        "late": make_echo_server(delay=asyncio.Event()),
    }
    agent = make_agent(servers, "done", "done", mcp={"startup_wait": LONG_WAIT})
    agent.on(Notice, lambda notice: published.append(notice.text))
    await agent.run("go")
    await agent.run("go on")
    assert len(published) == 2
    assert "no" in published[0]
    assert published[1] == "MCP server 'late' is still connecting. Its tools will be available when it is ready."
    await agent.shutdown()


@pytest.mark.covers("MCP-07")
@pytest.mark.usefixtures("long_silent_wait")
async def test_failed_or_late_server_is_a_warning_in_the_library(caplog: pytest.LogCaptureFixture) -> None:
    gate = asyncio.Event()
    servers = {"bad": make_echo_server(connect_error="no"), "late": make_echo_server("echo", delay=gate)}
    agent = make_agent(servers, "done", "done", mcp={"startup_wait": LONG_WAIT})
    notices: list[Notice] = []
    agent.on(Notice, notices.append)
    assert (await agent.run("go")).text == "done"
    assert [(n.level, n.text.split(".")[0]) for n in notices] == [
        ("warn", "no"),
        ("warn", "MCP server 'late' is still connecting"),
    ]
    assert [r.levelname for r in caplog.records] == ["WARNING", "WARNING"]

    waiting = asyncio.ensure_future(agent.warmup())
    await asyncio.wait({waiting}, timeout=0.05)
    assert not waiting.done()  # `warmup` waits for the late server
    gate.set()
    await waiting
    assert get_plugin(agent).get("late").status == "ready"
    await agent.shutdown()


async def test_run_fails_without_a_required_server_and_can_be_repeated() -> None:
    server = make_echo_server("echo", connect_error="no database")
    agent = make_agent({"s": server, "ok": make_echo_server("x")}, "done", config={"required": True})
    notices: list[str] = []
    agent.on(Notice, lambda notice: notices.append(notice.text))
    with pytest.raises(ConfigError, match=r"^A required MCP server did not start\. no database$"):
        await agent.run("go")
    with pytest.raises(ConfigError, match="no database"):
        await agent.warmup()
    assert notices == []  # the error contains it

    server.connect_error = ""
    assert (await agent.run("go")).text == "done"
    assert offered_tool_names(agent)[0] == ["mcp__s__echo", "mcp__ok__x"]


async def test_run_waits_for_a_required_server_longer_than_for_others() -> None:
    gate = asyncio.Event()
    agent = make_agent(
        {"s": make_echo_server("echo", delay=gate)}, "done", mcp={"startup_wait": 0.0}, config={"required": True}
    )
    running = asyncio.ensure_future(agent.run("go"))
    await asyncio.wait({running}, timeout=0.05)
    assert not running.done()
    gate.set()
    await running
    assert offered_tool_names(agent)[0] == ["mcp__s__echo"]


@pytest.mark.covers("MCP-07")
async def test_repeated_loss_of_a_server_publishes_one_notice() -> None:
    published: list[str] = []
    server = make_echo_server("echo")
    agent = make_agent({"s": server}, "done")
    plug = get_plugin(agent)
    agent.on(Notice, lambda notice: published.append(notice.text))
    await agent.run("go")
    lost = McpError("s", "gone", "lost")
    await plug.on_failed(plug.get("s"), lost)
    await plug.on_failed(plug.get("s"), lost)
    assert published == ["gone"]
    await plug.on_connected(plug.get("s"), 0.1)
    await plug.on_failed(plug.get("s"), lost)
    assert published == ["gone", "gone"]
    await agent.shutdown()


@pytest.mark.covers("MCP-07")
@pytest.mark.usefixtures("long_silent_wait")
async def test_late_server_does_not_delay_the_run_and_joins_between_turns() -> None:
    gate = asyncio.Event()
    late = make_echo_server("echo", delay=gate)
    agent = make_agent(
        {"b": late, "a": make_echo_server("echo")},
        ScriptedCall("mcp__a__echo", {}),
        ScriptedCall("mcp__a__echo", {}),
        "done",
        mcp={"startup_wait": LONG_WAIT},
    )

    @agent.on(ToolGate)
    async def connect_late_server(hook: ToolGate) -> None:
        gate.set()
        await wait_until(lambda: get_plugin(agent).get("b").status == "ready")

    await agent.run("go")
    first, second, third = offered_tool_names(agent)
    assert first == ["mcp__a__echo"]
    assert second == third == ["mcp__b__echo", "mcp__a__echo"]
    # The list is the same object from request to request while nothing changes, so its bytes are the same too.
    assert isinstance(agent.model, ScriptedModel)
    assert agent.model.requests[1].request.tools is agent.model.requests[2].request.tools


async def test_calls_of_a_server_that_is_connecting_wait_for_it() -> None:
    gate = asyncio.Event()
    servers = {"late": make_echo_server("echo", delay=gate), "bad": make_echo_server(connect_error="it is broken")}
    script = [
        Reply(
            calls=(
                ScriptedCall("mcp__late__echo", {"text": "1"}),
                ScriptedCall("mcp__late__echo", {"text": "2"}),
                ScriptedCall("mcp__late__no", {}),
                ScriptedCall("mcp__bad__echo", {}),
                ScriptedCall("mcp__no__x", {}),
            )
        ),
        "done",
    ]
    agent = make_agent(servers, *script, mcp={"startup_wait": 0.0})
    agent.on(ToolGate, lambda hook: gate.set(), order=-1000)
    await agent.run("go")
    first, second, unknown, bad, unconfigured = [r.text for r in results(agent)]
    assert (first, second) == ("echo: 1", "echo: 2")
    assert unknown.startswith("Unknown tool: mcp__late__no.")
    assert bad == "it is broken"
    assert unconfigured.startswith("Unknown tool: mcp__no__x.")


async def test_changed_tool_list_applies_from_the_next_turn() -> None:
    server = make_echo_server("old", "same")
    agent = make_agent({"s": server}, ScriptedCall("mcp__s__same", {}), "done", "again")

    @agent.on(ToolGate)
    async def change(hook: ToolGate) -> None:
        server.set_tools(
            [(make_tool_info("new"), lambda text="": "new"), (make_tool_info("same"), lambda text="": "same")]
        )
        await wait_until(
            lambda: len(get_plugin(agent).servers[0].tools) == 2 and "new" in str(get_plugin(agent).servers[0].tools)
        )

    await agent.run("go")
    assert offered_tool_names(agent) == [["mcp__s__old", "mcp__s__same"], ["mcp__s__new", "mcp__s__same"]]
    assert results(agent)[0].content == "same"


async def test_crashed_server_is_restarted_and_keeps_its_tools() -> None:
    server = make_echo_server("echo")
    agent = make_agent(
        {"s": server}, ScriptedCall("mcp__s__echo", {"text": "1"}), ScriptedCall("mcp__s__echo", {"text": "2"}), "done"
    )

    @agent.on("tool:after")
    def kill(hook: Any) -> None:
        server.crash()

    await agent.run("go")
    assert [r.content for r in results(agent)] == ["echo: 1", "echo: 2"]
    assert server.connections == 2
    assert offered_tool_names(agent)[0] == offered_tool_names(agent)[2]


async def test_calls_to_a_permanently_failed_server_return_its_error() -> None:
    server = make_echo_server("echo")
    agent = make_agent({"s": server}, ScriptedCall("mcp__s__echo", {}), "done")
    await agent.warmup()
    server.connect_error = "the database is gone"
    server.crash()
    handle = get_plugin(agent).get("s")
    await wait_until(lambda: handle.status == "lost")
    for _ in range(6):
        handle._wakeup.set()
        await asyncio.sleep(0.01)
    await wait_until(lambda: handle.status == "failed")
    await agent.run("go")
    (result,) = results(agent)
    assert result.is_error
    assert result.content == "the database is gone"


@pytest.mark.covers("CAC-10")
async def test_tools_of_a_server_are_offered_by_name() -> None:
    agent = make_agent({"s": make_echo_server("zeta", "alpha", "mid")}, "done")
    await agent.run("go")
    assert offered_tool_names(agent)[0] == ["mcp__s__alpha", "mcp__s__mid", "mcp__s__zeta"]


MCP_HOOKS = tuple([f"mcp:tool:{step}" for step in ("gate", "before", "transform", "after")])


@tool
def own() -> str:
    """Return a text."""
    return "own"


def record_tool_hooks(agent: Agent) -> list[tuple[str, str]]:
    """Return the tool hooks that fire, with the name of the server, while runs append to it."""
    hooks: list[tuple[str, str]] = []

    def record_hook(hook: Any) -> None:
        hooks.append((hook.event, hook.server))

    for name in HOOKS:
        if name.startswith(("tool:", "mcp:tool:")) and name not in ("tool:intent", "tool:permit", "tool:start"):
            agent.on(name, record_hook)
    return hooks


@pytest.mark.covers("HOK-27")
async def test_hooks_of_mcp_calls_are_between_tool_before_and_tool_transform() -> None:
    agent = make_agent({"s": make_echo_server("echo")}, ScriptedCall("mcp__s__echo", {"text": "a"}), "done")
    hooks = record_tool_hooks(agent)
    await agent.run("go")
    names = ("tool:gate", "tool:before", *MCP_HOOKS, "tool:transform", "tool:after")
    assert hooks == [(name, "s") for name in names]


@pytest.mark.covers("HOK-27")
async def test_hooks_of_mcp_calls_do_not_fire_for_other_tools() -> None:
    agent = make_agent({"s": make_echo_server("echo")}, ScriptedCall("own", {}), "done", tools=[own])
    hooks = record_tool_hooks(agent)
    await agent.run("go")
    assert hooks == [(f"tool:{step}", "") for step in ("gate", "before", "transform", "after")]


@pytest.mark.covers("HOK-27", "HOK-30")
async def test_hooks_of_mcp_calls_change_arguments_and_results() -> None:
    agent = make_agent({"s": make_echo_server("echo")}, ScriptedCall("mcp__s__echo", {"text": "a"}), "done")
    sizes: list[tuple[str, int, str]] = []

    def record_size(hook: Any) -> None:
        text = hook.result.text if hasattr(hook.result, "text") else hook.result.output
        sizes.append((hook.event, hook.output_bytes, text))

    def append(text: str, hook: Any) -> None:
        record_size(hook)
        hook.result = hook.result.text + text

    agent.on("mcp:tool:before", lambda hook: {"input": {"text": hook.input["text"] + "!"}})
    agent.on("mcp:tool:transform", partial(append, "é"))
    agent.on("tool:transform", partial(append, "?"))
    agent.on("mcp:tool:after", record_size)
    agent.on("tool:after", record_size)
    await agent.run("go")
    assert [r.content for r in results(agent)] == ["echo: a!é?"]
    assert sizes == [
        ("mcp:tool:transform", 8, "echo: a!"),
        ("mcp:tool:after", 10, "echo: a!é"),
        ("tool:transform", 10, "echo: a!é"),
        ("tool:after", 11, "echo: a!é?"),
    ]


@pytest.mark.covers("HOK-27")
async def test_mcp_gate_blocks_or_replaces_a_call_before_the_decision() -> None:
    asked: list[str] = []
    server = make_echo_server("echo")
    agent = make_agent(
        {"s": server},
        Reply(calls=tuple([ScriptedCall("mcp__s__echo", {"text": text}) for text in ("no", "cached", "run")])),
        "done",
    )
    agent.on(
        "mcp:tool:gate", lambda hook: {"no": {"block": "not this"}, "cached": {"result": "old"}}.get(hook.input["text"])
    )
    agent.on(PermissionCheck, lambda hook: asked.append(hook.input["text"]))
    hooks = record_tool_hooks(agent)
    result = await agent.run("go")
    assert [r.content for r in results(agent)] == ["Blocked: not this", "old", "echo: run"]
    assert asked == ["run"]
    assert server.calls == [("echo", {"text": "run"})]
    assert result.stats.tool_counts == {"mcp__s__echo": 2}, "a blocked call does not count"
    counted = Counter(name for name, _ in hooks)
    assert counted == {
        "tool:gate": 3, "tool:before": 3, "mcp:tool:gate": 2, "mcp:tool:before": 1, "mcp:tool:transform": 2,
        "mcp:tool:after": 2, "tool:transform": 2, "tool:after": 2,
    }  # fmt: skip


@pytest.mark.covers("HOK-27")
async def test_mcp_gate_can_pause_the_run() -> None:
    agent = make_agent({"s": make_echo_server("echo")}, ScriptedCall("mcp__s__echo", {"text": "a"}), "done")
    agent.on("mcp:tool:gate", lambda hook: {"pause": "May it?"})
    result = await agent.run("go")
    assert result.status == "paused"
    assert result.stats.tool_counts == {}


@pytest.mark.covers("HOK-27")
async def test_result_of_tool_gate_skips_the_hooks_of_mcp_calls() -> None:
    agent = make_agent({"s": make_echo_server("echo")}, ScriptedCall("mcp__s__echo", {"text": "a"}), "done")
    agent.on("tool:gate", lambda hook: {"result": "cached"})
    hooks = record_tool_hooks(agent)
    await agent.run("go")
    assert hooks == [("tool:gate", "s"), ("tool:transform", "s"), ("tool:after", "s")]


@pytest.mark.covers("MCP-13")
async def test_aliases_budgets_and_permissions_apply_to_mcp_tools() -> None:
    rules = RuleSet.build(deny=["mcp__s__danger*"], allow=["mcp__s__*"])
    server = make_echo_server("echo", "danger")
    agent = make_agent(
        {"s": server},
        Reply(calls=(ScriptedCall("say", {"text": "1"}), ScriptedCall("mcp__s__danger", {}))),
        ScriptedCall("say", {"text": "2"}),
        "done",
        permissions=Permissions(rules=rules, root="/"),
        tool_aliases={"mcp__s__echo": "say"},
        behavior=RunOptions(tool_budgets={"mcp__s__echo": ToolBudget(1)}),
    )
    await agent.run("go")
    assert offered_tool_names(agent)[0] == ["mcp__s__danger", "say"]
    first, denied, over = results(agent)
    assert first.content == "echo: 1"
    assert "Permission denied" in denied.text
    assert over.is_error
    assert server.calls == [("echo", {"text": "1"})]


async def test_read_only_annotation_is_used_only_for_trusted_servers() -> None:
    reads = InMemoryServer([(make_tool_info("look", annotations={"readOnlyHint": True}), lambda text="": "seen")])
    results_by_trust: list[tuple[bool, str]] = []
    for trusted in (False, True):
        config = McpServerConfig(name="s", command="-", trust_annotations=trusted)
        plug = McpPlug([config], connector=InMemoryConnector({"s": reads}))
        agent = Agent(
            ScriptedModel(ScriptedCall("mcp__s__look", {}), "done"),
            execution=MemoryEnv(),
            mcp_servers=plug,
            permissions=Permissions(root="/", on_deny="continue"),
        )
        await agent.run("go")
        tool = plug.servers[0].tools[0]
        assert tool.concurrency_safe
        results_by_trust.append((tool.idempotent, results(agent)[0].text[:17]))
    assert results_by_trust == [(False, "Permission denied"), (True, "seen")]


async def test_mcp_tool_with_the_name_of_a_user_tool_is_left_out() -> None:
    async def mcp__s__echo() -> str:
        """Mine."""
        return "mine"

    agent = make_agent({"s": make_echo_server("echo", "other")}, "done", tools=[mcp__s__echo])
    await agent.run("go")
    assert offered_tool_names(agent)[0] == ["mcp__s__echo", "mcp__s__other"]
    assert [t.source for t in agent.tools] == ["user", "mcp:s"]


async def test_tools_can_be_filtered_and_servers_disabled() -> None:
    servers = {"s": make_echo_server("read_a", "read_b", "write"), "off": make_echo_server("echo")}
    configs = [
        McpServerConfig(name="s", command="-", include=("read_*",), exclude=("*_b",)),
        McpServerConfig(name="off", command="-", enabled=False),
    ]
    agent = Agent(
        ScriptedModel("done"), execution=MemoryEnv(), mcp_servers=McpPlug(configs, connector=InMemoryConnector(servers))
    )
    await agent.run("go")
    assert offered_tool_names(agent)[0] == ["mcp__s__read_a"]
    assert servers["off"].connections == 0


async def test_aborted_run_cancels_the_call_on_the_server() -> None:
    never = asyncio.Event()

    async def hang(text: str = "") -> str:
        await never.wait()
        return ""

    server = InMemoryServer([(make_tool_info("hang"), hang)])
    agent = make_agent({"s": server}, ScriptedCall("mcp__s__hang", {}), "done")
    running = asyncio.ensure_future(agent.run("go", raise_errors=False))
    await wait_until(lambda: server.calls)
    agent.abort()
    assert (await running).status == "aborted"
    await wait_until(lambda: server.cancelled == ["hang"])


async def test_progress_reaches_listeners() -> None:
    def work(on_progress: Any, text: str = "") -> str:
        on_progress(1, 2, "half")
        return "whole"

    agent = make_agent(
        {"s": InMemoryServer([(make_tool_info("work"), work)])}, ScriptedCall("mcp__s__work", {}), "done"
    )
    published: list[str] = []
    agent.subscribe(lambda event: published.append(event.output) if event.type == "tool_execution_update" else None)
    await agent.run("go")
    assert published == ["1/2: half"]


class ScriptedUser:
    """A user with prepared answers."""

    def __init__(self, *answers: Said | None) -> None:
        self.answers = list(answers)
        self.questions: list[UserQuestion] = []

    async def ask(self, question: UserQuestion) -> Said | None:
        self.questions.append(question)
        return self.answers.pop(0)


@pytest.mark.covers("BYD-10")
async def test_server_can_ask_the_user_for_each_field() -> None:
    schema = {
        "properties": {
            "name": {"type": "string", "title": "Your name"},
            "age": {"type": "integer"},
            "color": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
            "sure": {"type": "boolean"},
            "tags": {
                "type": "array",
                "items": {"anyOf": [{"const": "x", "title": "The X"}, {"const": "y", "title": "Y"}]},
            },
            "note": {"type": "string"},
            "share": {"type": "number", "default": 0.5},
            "open": {"type": "boolean", "default": True},
        },
        "required": ["name", "age", "color", "sure", "tags", "share"],
    }

    async def ask(side: Any, text: str = "") -> str:
        got = await side.elicit(ElicitRequest(server="?", message="Who?", schema=schema))
        return f"{got.action} {dict(got.content)}"

    user = ScriptedUser(
        Said(text="Ann"), Said(text="old"), Said(text="41"), Said(("Green",)), Said(("Yes",)), Said(("The X", "Y")), Said(("(skip)",)),
        Said(text="NaN"), Said(), Said(("(default)",)),
    )  # fmt: skip
    agent = make_agent(
        {"s": InMemoryServer([(make_tool_info("ask"), ask)])},
        ScriptedCall("mcp__s__ask", {}),
        "done",
        extra={"interaction": user},
    )
    await agent.run("go")
    assert results(agent)[0].content == (
        "accept {'name': 'Ann', 'age': 41, 'color': 'g', 'sure': True, 'tags': ['x', 'y'], 'share': 0.5, 'open': True}"
    )
    assert "Not a number: 'NaN'" in user.questions[8].text
    assert "MCP server 's' asks: Who?" in user.questions[0].text
    assert "Not a whole number: 'old'" in user.questions[2].text

    for reply, action in ((None, "cancel"), (Said(("(decline)",)), "decline")):
        agent = make_agent(
            {"s": InMemoryServer([(make_tool_info("ask"), ask)])},
            ScriptedCall("mcp__s__ask", {}),
            "done",
            extra={"interaction": ScriptedUser(reply)},
        )
        await agent.run("go")
        assert results(agent)[0].content == f"{action} {{}}"


@pytest.mark.covers("BYD-10")
@pytest.mark.parametrize("allowed", [True, False, None])
async def test_sampling_needs_the_consent_of_the_user_and_is_counted(allowed: bool | None) -> None:
    async def sample(side: Any, text: str = "") -> str:
        from mainspring.mcp.types import PromptMessage

        content = ({"type": "text", "text": "Say hi"},)
        got = await side.sample(
            SamplingRequest(server="?", messages=(PromptMessage(role="user", content=content),), max_tokens=9)
        )
        return got if isinstance(got, str) else got.text

    user = [ScriptedUser(Said(("Yes" if allowed else "No",)))] if allowed is not None else []
    script: list[Any] = [ScriptedCall("mcp__s__sample", {}), *(["hello"] if allowed else []), "done"]
    agent = make_agent(
        {"s": InMemoryServer([(make_tool_info("sample"), sample)])},
        *script,
        extra={"interaction": user[0]} if user else {},
    )
    result = await agent.run("go")
    assert results(agent)[0].content == ("hello" if allowed else "The user did not allow it")
    assert list(result.stats.side_usage) == (["mcp:sampling"] if allowed else [])
    if allowed:
        assert isinstance(agent.model, ScriptedModel)
        assert agent.model.requests[1].request.max_output_tokens == 9
        assert "Say hi" in user[0].questions[0].text


async def test_resources_are_tools_and_prompts_are_commands() -> None:
    servers = {
        "a": make_echo_server("echo", resources={"memo://x": "the text"}, prompts={"sum": "Sum up {topic}"}),
        "b": make_echo_server("echo"),
    }
    agent = make_agent(
        servers,
        ScriptedCall("mcp_list_resources", {}),
        ScriptedCall("mcp_read_resource", {"server": "a", "uri": "memo://x"}),
        ScriptedCall("mcp_read_resource", {"server": "a", "uri": "memo://no"}),
        ScriptedCall("mcp_list_resources", {"server": "nobody"}),
        "done",
    )
    await agent.run("go")
    listed, read, missing, unknown = results(agent)
    assert listed.content == "a:\n- memo://x (text/plain) memo://x"
    assert read.content == "[resource memo://x]\nthe text"
    assert missing.is_error
    assert "the MCP server 'nobody' is not ready or unknown; ready servers: a, b" in unknown.text
    (prompt,) = await get_plugin(agent).prompts()
    assert prompt.command == "mcp:a:sum"
    (message,) = await prompt.messages({"topic": "trees"})
    assert message.text == "Sum up trees"


def test_servers_work_for_repeated_run_sync_calls() -> None:
    server = make_echo_server("echo")
    agent = make_agent(
        {"s": server},
        ScriptedCall("mcp__s__echo", {"text": "1"}),
        "a",
        ScriptedCall("mcp__s__echo", {"text": "2"}),
        "b",
    )
    agent.run_sync("go")
    agent.run_sync("go")
    assert [r.content for r in results(agent)] == ["echo: 1", "echo: 2"]
    assert server.connections == 2


async def test_subagents_share_the_connections() -> None:
    server = make_echo_server("echo")
    hooks: list[str] = []
    agent = make_agent(
        {"s": server},
        ScriptedCall("spawn", {"task": "call it"}),
        ScriptedCall("mcp__s__echo", {"text": "child"}),
        "child done",
        "done",
        subagents=True,
    )
    agent.on("mcp:tool:after", lambda hook: hooks.append(hook.server))
    await agent.run("go")
    assert server.calls == [("echo", {"text": "child"})]
    assert server.connections == 1


@pytest.mark.covers("PRE-06")
def test_servers_of_presets_are_merged_and_the_last_duplicate_wins() -> None:
    both = merge_presets(
        Preset(mcp_servers={"a": {"command": "x"}, "b": {"command": "y"}}),
        Preset(mcp_servers=[{"name": "a", "command": "z"}]),
    )
    agent = Agent(ScriptedModel("done"), execution=MemoryEnv(), **both)
    assert [(s.name, s.config.command) for s in get_plugin(agent).servers] == [("a", "z"), ("b", "y")]


def test_invalid_option_is_reported() -> None:
    with pytest.raises(ConfigError, match="needs a command"):
        McpPlug({"a": {}})
    with pytest.raises(ConfigError, match="mcp_connector needs"):
        Agent(ScriptedModel("x"), mcp_connector=InMemoryConnector({}))
    plug = McpPlug({"a": {"command": "x"}})
    Agent(ScriptedModel("x"), mcp_servers=plug)
    with pytest.raises(ConfigError, match="belongs to another agent"):
        Agent(ScriptedModel("x"), mcp_servers=plug)


async def test_agent_without_servers_registers_no_hooks() -> None:
    agent = Agent(ScriptedModel("done"), execution=MemoryEnv(), mcp_servers=[])
    assert not agent.bus.has(ToolGate) or not agent.bus.has(TurnBefore)
    assert (await agent.run("go")).text == "done"


def test_declined_elicitation_has_no_content() -> None:
    assert ElicitResult("decline").content == {}
