"""Servers of an agent: started together, offered when they are ready, bound by whatever binds tools."""

import asyncio
import time
from functools import partial
from typing import Any

import pytest

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError
from mainspring.loop import RunOptions
from mainspring.loop.hooks import McpToolAfter, McpToolBefore, ToolGate, TurnBefore
from mainspring.loop.option_types import ToolBudget
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
from mainspring.presets import Preset, merge_presets
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools.interaction import Reply as Said
from mainspring.tools.interaction import UserQuestion
from tests.unit.mcp.harness import agent_with, info, plug_of, results, twin, until


def names_told(agent: Agent) -> list[list[str]]:
    """For each request the names of the tools that the model was told of."""
    assert isinstance(agent.model, ScriptedModel)
    return [[t.name for t in seen.request.tools] for seen in agent.model.requests]


@pytest.mark.covers("MCP-01", "MCP-05", "MCP-06", "MCP-10")
async def test_an_agent_gets_the_tools_of_its_servers() -> None:
    server = twin("echo")
    agent = Agent(
        ScriptedModel(ScriptedCall("mcp__docs__echo", {"text": "hi"}), "done"),
        execution=MemoryEnv(),
        mcp_servers=[{"name": "docs", "command": "-"}],
        mcp_connector=InMemoryConnector({"docs": server}),
    )
    await agent.run("go")
    assert names_told(agent)[0] == ["mcp__docs__echo"]
    (result,) = results(agent)
    assert result.content == "echo: hi"
    assert result.details == {"server": "docs", "tool": "echo"}
    assert server.calls == [("echo", {"text": "hi"})]


@pytest.mark.covers("MCP-06", "MCP-08")
async def test_results_keep_text_images_and_data() -> None:
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
    server = InMemoryServer([(info(name), lambda text="", a=answer: a) for name, answer in kinds.items()])
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
    told = results(agent)
    assert told[0].content == (
        TextBlock("seen"),
        ImageBlock("image/png", "aGk="),
        TextBlock("[resource a, file:///a, text/x-a]: the a"),
        TextBlock("[audio/wav, 3 bytes; it cannot be shown here]"),
        TextBlock("[resource u://b]\ninside"),
    )
    assert told[0].details["structured"] == {"n": 1}
    assert told[1].content == "(no output)"
    assert told[2].content == '{\n  "sum": 2\n}'
    assert (told[3].content, told[3].is_error) == ("no", True)
    sent = model.requests[1].request.messages[-1].tool_results[0]
    assert ImageBlock("image/png", "aGk=") in tuple(sent.content)


@pytest.mark.covers("MCP-07", "AGT-11")
async def test_servers_start_together_and_one_that_fails_harms_nothing() -> None:
    gate, going = asyncio.Event(), []
    servers = {f"s{i}": twin("echo", delay=gate) for i in range(5)} | {"bad": twin(refuse="it is broken")}
    agent = agent_with(servers, "done", mcp={"grace": 5.0})
    warming = asyncio.ensure_future(agent.warmup())
    plug = plug_of(agent)
    await until(lambda: [s.status for s in plug.servers] == ["connecting"] * 5 + ["failed"])
    going += [s.status for s in plug.servers]
    gate.set()
    await warming
    assert [s.status for s in plug.servers] == ["ready"] * 5 + ["failed"]
    assert str(plug.get("bad").error) == "it is broken"
    result = await agent.run("go")
    assert result.status == "completed"
    assert len(names_told(agent)[0]) == 5
    with pytest.raises(ConfigError, match="Unknown MCP server: 'x'. Configured servers: s0"):
        plug.get("x")


async def test_what_a_run_waits_for_is_told() -> None:
    gate, told = asyncio.Event(), list[str]()
    agent = agent_with({"fast": twin("echo"), "slow": twin("echo", delay=gate)}, "done", mcp={"grace": 30.0})
    plug_of(agent).on_notice = told.append
    running = asyncio.ensure_future(agent.run("go"))
    await until(lambda: told)
    assert told == ["Waiting up to 30s for MCP server 'slow'"]
    gate.set()

    assert (await running).status == "completed"
    assert len(told) == 1


@pytest.mark.covers("HOK-34", "MCP-11")
async def test_hooks_tell_of_the_start_with_duration_and_outcome() -> None:
    told: list[Any] = []
    agent = agent_with({"good": twin("echo"), "bad": twin(refuse="broken")}, "done")
    for event in ("mcp:bootstrap:start", "mcp:bootstrap:end", "mcp:connect", "mcp:error"):
        agent.on(event, told.append)
    await agent.run("go")
    by_event = {hook.event: hook for hook in told}
    assert by_event["mcp:bootstrap:start"].servers == ("good", "bad")
    end = by_event["mcp:bootstrap:end"]
    assert (end.failed, end.status) == (("bad",), "partial")
    assert 0 < end.seconds < 60
    assert by_event["mcp:connect"].tools == ("mcp__good__echo",)
    assert by_event["mcp:error"].server == "bad"
    assert told[0].event == "mcp:bootstrap:start"
    assert told[-1].event == "mcp:bootstrap:end"


async def test_the_end_of_the_start_is_told_even_where_it_is_broken_off() -> None:
    told: list[Any] = []
    agent = agent_with({"never": twin(delay=asyncio.Event())}, "done", mcp={"grace": 0.01})
    agent.on("mcp:bootstrap:end", told.append)
    await agent.run("go")
    assert told == []
    await agent.shutdown()
    assert [(h.failed, h.status) for h in told] == [(("never",), "failed")]


@pytest.mark.covers("MCP-13")
@pytest.mark.parametrize("rule", ["mcp__x", "mcp__x__*"])
async def test_a_rule_for_a_server_holds_for_all_of_its_tools_and_no_others(rule: str) -> None:
    servers = {"x": twin("a", "_b"), "x-y": twin("a"), "xy": twin("a")}
    calls = [ScriptedCall(f"mcp__{name}", {}) for name in ("x__a", "x___b", "x-y__a", "xy__a")]
    permissions = Permissions(rules=RuleSet.build(allow=["mcp__*"], deny=[rule]))
    agent = agent_with(servers, calls, "done", permissions=permissions)

    await agent.run("go")

    assert [r.is_error for r in results(agent)] == [True, True, False, False]


@pytest.mark.covers("MCP-13", "MCP-09")
async def test_a_server_s_tools_are_locked_until_they_are_looked_for_and_others_are_not() -> None:
    echo = ScriptedCall("mcp__late__echo", {"text": "hi"})
    script = (echo, ScriptedCall("tool_search", {"names": ["mcp__late__echo"]}), echo, "done")
    config = {"late": {"command": "-", "disclosure": "lazy"}, "now": {"command": "-"}}
    plug = McpPlug(config, connector=InMemoryConnector({"late": twin("echo"), "now": twin("echo")}))
    agent = Agent(ScriptedModel(*script), execution=MemoryEnv(), mcp_servers=plug)

    await agent.run("go")

    assert [r.is_error for r in results(agent)] == [True, False, False]
    first, *_, last = names_told(agent)
    assert ("mcp__late__echo" in first, "mcp__now__echo" in first) == (False, True)
    assert last[-1] == "mcp__late__echo"


@pytest.mark.covers("MCP-08")
async def test_an_image_that_no_model_takes_costs_no_request() -> None:
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
def test_parts_without_number_are_joined() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    many = [{"type": "text", "text": str(n)} for n in range(2_000)]
    result = tool_result(Answer(content=(*many, image, *many)), "s", "t")
    assert isinstance(result.output, tuple)
    first, seen, last = result.output
    assert isinstance(seen, ImageBlock)
    assert isinstance(first, TextBlock)
    assert first == last
    assert first.text.split("\n") == [str(n) for n in range(2_000)]


@pytest.mark.covers("MCP-07")
async def test_people_are_told_of_a_server_that_fails_or_is_late() -> None:
    told: list[str] = []
    servers = {"bad": twin(refuse="no"), "good": twin("echo"), "late": twin(delay=asyncio.Event())}
    agent = agent_with(servers, "done", "done", mcp={"grace": 0.2})
    plug_of(agent).on_notice = told.append
    await agent.run("go")
    await agent.run("go on")
    assert len(told) == 2
    assert "no" in told[0]
    assert told[1] == "MCP server 'late' is still connecting. Its tools will be available when it is ready."
    await agent.shutdown()


@pytest.mark.covers("MCP-07")
async def test_a_server_that_is_lost_again_and_again_is_told_of_once() -> None:
    told: list[str] = []
    server = twin("echo")
    agent = agent_with({"s": server}, "done")
    plug = plug_of(agent)
    plug.on_notice = told.append
    await agent.run("go")
    lost = McpError("s", "gone", "lost")
    await plug.on_failed(plug.get("s"), lost)
    await plug.on_failed(plug.get("s"), lost)
    assert told == ["gone"]
    await plug.on_connected(plug.get("s"), 0.1)
    await plug.on_failed(plug.get("s"), lost)
    assert told == ["gone", "gone"]
    await agent.shutdown()


@pytest.mark.covers("MCP-07")
async def test_a_late_server_holds_up_nothing_and_is_offered_between_turns() -> None:
    gate = asyncio.Event()
    late = twin("echo", delay=gate)
    agent = agent_with(
        {"b": late, "a": twin("echo")},
        ScriptedCall("mcp__a__echo", {}),
        ScriptedCall("mcp__a__echo", {}),
        "done",
        mcp={"grace": 0.05},
    )

    @agent.on(ToolGate)
    async def between(hook: ToolGate) -> None:
        gate.set()
        await until(lambda: plug_of(agent).get("b").status == "ready")

    began = time.monotonic()
    await agent.run("go")
    assert time.monotonic() - began < 5
    first, second, third = names_told(agent)
    assert first == ["mcp__a__echo"]
    assert second == third == ["mcp__b__echo", "mcp__a__echo"]
    # The list is the same object from request to request as long as nothing changes, so are its bytes.
    assert isinstance(agent.model, ScriptedModel)
    assert agent.model.requests[1].request.tools is agent.model.requests[2].request.tools


async def test_a_call_of_a_tool_that_is_not_there_yet_is_told_why() -> None:
    gate = asyncio.Event()
    servers = {"late": twin("echo", delay=gate), "bad": twin(refuse="it is broken")}
    script = [
        Reply(
            calls=(
                ScriptedCall("mcp__late__echo", {}),
                ScriptedCall("mcp__bad__echo", {}),
                ScriptedCall("mcp__no__x", {}),
            )
        ),
        "done",
    ]
    agent = agent_with(servers, *script, mcp={"grace": 0.0})
    agent.on("tool:unknown", lambda hook: gate.set(), order=-1)
    await agent.run("go")
    late, bad, nobody = [r.text for r in results(agent)]
    assert late.startswith("MCP server 'late' was not connected yet; it is now")
    assert bad == "it is broken"
    assert nobody.startswith("Unknown tool: mcp__no__x.")


async def test_a_changed_list_counts_from_the_next_turn_on() -> None:
    server = twin("old", "same")
    agent = agent_with({"s": server}, ScriptedCall("mcp__s__same", {}), "done", "again")

    @agent.on(ToolGate)
    async def change(hook: ToolGate) -> None:
        server.set_tools([(info("new"), lambda text="": "new"), (info("same"), lambda text="": "same")])
        await until(lambda: len(plug_of(agent).servers[0].tools) == 2 and "new" in str(plug_of(agent).servers[0].tools))

    await agent.run("go")
    assert names_told(agent) == [["mcp__s__old", "mcp__s__same"], ["mcp__s__new", "mcp__s__same"]]
    assert results(agent)[0].content == "same"


async def test_a_server_that_dies_is_started_again_and_its_tools_stay() -> None:
    server = twin("echo")
    agent = agent_with(
        {"s": server}, ScriptedCall("mcp__s__echo", {"text": "1"}), ScriptedCall("mcp__s__echo", {"text": "2"}), "done"
    )

    @agent.on("tool:after")
    def kill(hook: Any) -> None:
        server.crash()

    await agent.run("go")
    assert [r.content for r in results(agent)] == ["echo: 1", "echo: 2"]
    assert server.connections == 2
    assert names_told(agent)[0] == names_told(agent)[2]


async def test_a_server_dead_for_good_gives_results_that_say_so() -> None:
    server = twin("echo")
    agent = agent_with({"s": server}, ScriptedCall("mcp__s__echo", {}), "done")
    await agent.warmup()
    server.connect_error = "the database is gone"
    server.crash()
    handle = plug_of(agent).get("s")
    await until(lambda: handle.status == "lost")
    for _ in range(6):
        handle._wakeup.set()
        await asyncio.sleep(0.01)
    await until(lambda: handle.status == "failed", 20)
    await agent.run("go")
    (result,) = results(agent)
    assert result.is_error
    assert result.content == "the database is gone"


@pytest.mark.covers("HOK-27")
async def test_the_hooks_of_a_servers_tools_follow_those_of_tools() -> None:
    heard: list[tuple[str, str, str]] = []

    def hear(event: str, hook: Any) -> None:
        heard.append((event, hook.name, getattr(hook, "server", "")))

    agent = agent_with(
        {"s": twin("echo", "other")},
        ScriptedCall("mcp__s__echo", {"text": "a"}),
        ScriptedCall("mcp__s__other", {}),
        "done",
    )
    for event in ("tool:gate", "tool:before", "tool:transform", "tool:after"):
        for name in (event, f"mcp:{event}"):
            agent.on(name, partial(hear, name))
    agent.on(McpToolBefore, lambda hook: {"input": {"text": hook.input.get("text", "") + "!"}})

    @agent.on("mcp:tool:gate")
    def gate(hook: Any) -> None:
        if hook.name == "mcp__s__other":
            hook.block = "not this one"

    @agent.on("mcp:tool:transform")
    def transform(hook: Any) -> None:
        hook.result = hook.result.text.upper()

    await agent.run("go")
    echo = [(event, server) for event, name, server in heard if name == "mcp__s__echo"]
    assert echo == [
        (f"{prefix}tool:{step}", "s" if prefix else "")
        for step in ("gate", "before", "transform", "after")
        for prefix in ("", "mcp:")
    ]
    assert [r.content for r in results(agent)] == ["ECHO: A!", "Blocked: not this one"]


@pytest.mark.covers("MCP-13")
async def test_aliases_budgets_and_permissions_bind_a_servers_tools_too() -> None:
    rules = RuleSet.build(deny=["mcp__s__danger*"], allow=["mcp__s__*"])
    server = twin("echo", "danger")
    agent = agent_with(
        {"s": server},
        Reply(calls=(ScriptedCall("say", {"text": "1"}), ScriptedCall("mcp__s__danger", {}))),
        ScriptedCall("say", {"text": "2"}),
        "done",
        permissions=Permissions(rules=rules, root="/"),
        tool_aliases={"mcp__s__echo": "say"},
        behavior=RunOptions(tool_budgets={"mcp__s__echo": ToolBudget(1)}),
    )
    await agent.run("go")
    assert names_told(agent)[0] == ["mcp__s__danger", "say"]
    first, denied, over = results(agent)
    assert first.content == "echo: 1"
    assert "Permission denied" in denied.text
    assert over.is_error
    assert server.calls == [("echo", {"text": "1"})]


async def test_a_servers_word_that_it_only_reads_counts_where_it_is_trusted() -> None:
    reads = InMemoryServer([(info("look", annotations={"readOnlyHint": True}), lambda text="": "seen")])
    outcomes: list[tuple[bool, str]] = []
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
        outcomes.append((tool.idempotent, results(agent)[0].text[:17]))
    assert outcomes == [(False, "Permission denied"), (True, "seen")]


async def test_a_name_that_is_taken_leaves_a_tool_out() -> None:
    async def mcp__s__echo() -> str:
        """Mine."""
        return "mine"

    agent = agent_with({"s": twin("echo", "other")}, "done", tools=[mcp__s__echo])
    await agent.run("go")
    assert names_told(agent)[0] == ["mcp__s__echo", "mcp__s__other"]
    assert [t.source for t in agent.tools] == ["user", "mcp:s"]


async def test_a_filter_and_a_switch_of_a_server() -> None:
    servers = {"s": twin("read_a", "read_b", "write"), "off": twin("echo")}
    configs = [
        McpServerConfig(name="s", command="-", include=("read_*",), exclude=("*_b",)),
        McpServerConfig(name="off", command="-", enabled=False),
    ]
    agent = Agent(
        ScriptedModel("done"), execution=MemoryEnv(), mcp_servers=McpPlug(configs, connector=InMemoryConnector(servers))
    )
    await agent.run("go")
    assert names_told(agent)[0] == ["mcp__s__read_a"]
    assert servers["off"].connections == 0


async def test_an_aborted_run_cancels_the_call_at_the_server() -> None:
    never = asyncio.Event()

    async def hang(text: str = "") -> str:
        await never.wait()
        return ""

    server = InMemoryServer([(info("hang"), hang)])
    agent = agent_with({"s": server}, ScriptedCall("mcp__s__hang", {}), "done")
    running = asyncio.ensure_future(agent.run("go", raise_errors=False))
    await until(lambda: server.calls)
    agent.abort()
    assert (await running).status == "aborted"
    await until(lambda: server.cancelled == ["hang"])


async def test_progress_reaches_observers() -> None:
    def work(on_progress: Any, text: str = "") -> str:
        on_progress(1, 2, "half")
        return "whole"

    agent = agent_with({"s": InMemoryServer([(info("work"), work)])}, ScriptedCall("mcp__s__work", {}), "done")
    told: list[str] = []
    agent.subscribe(lambda event: told.append(event.output) if event.type == "tool_execution_update" else None)
    await agent.run("go")
    assert told == ["1/2: half"]


class Somebody:
    """Somebody to talk to, with answers ready."""

    def __init__(self, *answers: Said | None) -> None:
        self.answers = list(answers)
        self.questions: list[UserQuestion] = []

    async def ask(self, question: UserQuestion) -> Said | None:
        self.questions.append(question)
        return self.answers.pop(0)


@pytest.mark.covers("BYD-10")
async def test_a_server_asks_the_user_field_by_field() -> None:
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
        },
        "required": ["name", "age", "color", "sure", "tags"],
    }

    async def ask(side: Any, text: str = "") -> str:
        got = await side.elicit(ElicitRequest(server="?", message="Who?", schema=schema))
        return f"{got.action} {dict(got.content)}"

    user = Somebody(
        Said(text="Ann"), Said(text="old"), Said(text="41"), Said(("Green",)), Said(("Yes",)), Said(("The X", "Y")), Said(("(skip)",)),
    )  # fmt: skip
    agent = agent_with(
        {"s": InMemoryServer([(info("ask"), ask)])},
        ScriptedCall("mcp__s__ask", {}),
        "done",
        extra={"interaction": user},
    )
    await agent.run("go")
    assert (
        results(agent)[0].content == "accept {'name': 'Ann', 'age': 41, 'color': 'g', 'sure': True, 'tags': ['x', 'y']}"
    )
    assert "MCP server 's' asks: Who?" in user.questions[0].text
    assert "Not a whole number: 'old'" in user.questions[2].text

    for said, action in ((None, "cancel"), (Said(("(decline)",)), "decline")):
        agent = agent_with(
            {"s": InMemoryServer([(info("ask"), ask)])},
            ScriptedCall("mcp__s__ask", {}),
            "done",
            extra={"interaction": Somebody(said)},
        )
        await agent.run("go")
        assert results(agent)[0].content == f"{action} {{}}"


@pytest.mark.covers("BYD-10")
@pytest.mark.parametrize("allowed", [True, False, None])
async def test_a_server_asks_the_model_when_the_user_agrees_and_it_is_counted(allowed: bool | None) -> None:
    async def sample(side: Any, text: str = "") -> str:
        from mainspring.mcp.types import PromptMessage

        content = ({"type": "text", "text": "Say hi"},)
        got = await side.sample(
            SamplingRequest(server="?", messages=(PromptMessage(role="user", content=content),), max_tokens=9)
        )
        return got if isinstance(got, str) else got.text

    user = [Somebody(Said(("Yes" if allowed else "No",)))] if allowed is not None else []
    script: list[Any] = [ScriptedCall("mcp__s__sample", {}), *(["hello"] if allowed else []), "done"]
    agent = agent_with(
        {"s": InMemoryServer([(info("sample"), sample)])},
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
        "a": twin("echo", resources={"memo://x": "the text"}, prompts={"sum": "Sum up {topic}"}),
        "b": twin("echo"),
    }
    agent = agent_with(
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
    (prompt,) = await plug_of(agent).prompts()
    assert prompt.command == "mcp:a:sum"
    (message,) = await prompt.messages({"topic": "trees"})
    assert message.text == "Sum up trees"


def test_servers_are_there_for_run_sync_again_and_again() -> None:
    server = twin("echo")
    agent = agent_with(
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


async def test_sub_agents_share_the_connections() -> None:
    server = twin("echo")
    heard: list[str] = []
    agent = agent_with(
        {"s": server},
        ScriptedCall("spawn", {"task": "call it"}),
        ScriptedCall("mcp__s__echo", {"text": "child"}),
        "child done",
        "done",
        subagents=True,
    )
    agent.on(McpToolAfter, lambda hook: heard.append(hook.server))
    await agent.run("go")
    assert server.calls == [("echo", {"text": "child"})]
    assert server.connections == 1


@pytest.mark.covers("PRE-06")
def test_servers_of_presets_add_up_and_of_one_name_the_last_counts() -> None:
    both = merge_presets(
        Preset(mcp_servers={"a": {"command": "x"}, "b": {"command": "y"}}),
        Preset(mcp_servers=[{"name": "a", "command": "z"}]),
    )
    agent = Agent(ScriptedModel("done"), execution=MemoryEnv(), **both)
    assert [(s.name, s.config.command) for s in plug_of(agent).servers] == [("a", "z"), ("b", "y")]


def test_a_broken_option_is_told_of() -> None:
    with pytest.raises(ConfigError, match="needs a command"):
        McpPlug({"a": {}})
    with pytest.raises(ConfigError, match="mcp_connector needs"):
        Agent(ScriptedModel("x"), mcp_connector=InMemoryConnector({}))
    plug = McpPlug({"a": {"command": "x"}})
    Agent(ScriptedModel("x"), mcp_servers=plug)
    with pytest.raises(ConfigError, match="belongs to another agent"):
        Agent(ScriptedModel("x"), mcp_servers=plug)


async def test_without_servers_nothing_is_on_the_bus() -> None:
    agent = Agent(ScriptedModel("done"), execution=MemoryEnv(), mcp_servers=[])
    assert not agent.bus.has(ToolGate) or not agent.bus.has(TurnBefore)
    assert (await agent.run("go")).text == "done"


def test_an_answer_is_what_it_says() -> None:
    assert ElicitResult("decline").content == {}
