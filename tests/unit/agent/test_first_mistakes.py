"""Mistakes of first programs: each is an error where it is written, and the error contains the fix."""

import re
import subprocess
import sys
from typing import Any

import pytest

import mainspring
import mainspring.durable
import mainspring.policies
import mainspring.telemetry
import mainspring.testing
from mainspring import (
    Agent,
    AgentOutputError,
    AgentProviderError,
    Budget,
    ConfigError,
    Ledger,
    McpServerConfig,
    RunOptions,
    ToolGate,
    tool,
)
from mainspring.env.memory import MemoryEnv
from mainspring.errors import ConfigWarning
from mainspring.mcp.config import parse_mcp_config
from mainspring.messages import Message, to_messages
from mainspring.models import FallbackModel
from mainspring.other_names import ATTRIBUTE_ADVICE, EXPORT_ADVICE, MISUSE_ADVICE, OPTION_ADVICE, RUN_OPTION_NAMES
from mainspring.testing import Reply, ScriptedCall, ScriptedModel

TEXT: Any = {"max_turns": "1"}


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("instructions", r"Use system=\.\.\."),
        ("result_type", r"Use output_type=\.\.\."),
        ("input_guardrails", r"handler of the hook"),
        ("max_steps", r"Use behavior=RunOptions\(max_turns=\.\.\.\)"),
        ("deps", r"agent\.run\(\.\.\., deps=db\)"),
        ("max_turns", r"Use behavior=RunOptions\(max_turns=\.\.\.\)"),
        ("message_history", r"agent\.conversation\(history=\.\.\.\)"),
        ("sytem", "Did you mean 'system'"),
    ],
)
def test_unknown_option_of_an_agent_names_its_place(name: str, advice: str) -> None:
    options: Any = {name: 3}
    with pytest.raises(TypeError, match=advice):
        Agent(ScriptedModel(), **options)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("max_turns", r"Use behavior=RunOptions\(max_turns=\.\.\.\)"),
        ("history", r"agent\.conversation\(history=\.\.\.\)\.run"),
        ("session", r"agent\.conversation\(session=\.\.\.\)\.run"),
        ("permissions", r"an option of the agent: Agent\(\.\.\., permissions=\.\.\.\)"),
        ("output_type", r"behavior=RunOptions\(schema=\.\.\.\)"),
        ("behaviour", "Did you mean 'behavior'"),
        ("usage_limits", r"Use behavior=RunOptions\(max_turns"),
        ("context", r"Use deps=\.\.\."),
        ("xyzzy", "Options: behavior, deps, hooks"),
    ],
)
async def test_unknown_option_of_a_run_names_its_place(name: str, advice: str) -> None:
    options: dict[str, Any] = {name: 3}
    with pytest.raises(TypeError, match=advice):
        await Agent(ScriptedModel("x"), execution=MemoryEnv({})).run("go", **options)


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        (3, r"must be a Budget\(\.\.\.\), for example Budget\(max_cost=5\.00\), not 3"),
        (Budget(**TEXT), "max_turns must be a number of at least 0, not '1'"),
        (Budget(max_cost=-1), "max_cost must be a number of at least 0, not -1"),
    ],
)
def test_ledger_rejects_a_limit_that_it_could_not_enforce(limit: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Ledger(limit=limit)


def test_decorator_without_a_hook_is_an_error() -> None:
    on: Any = Agent(ScriptedModel()).on

    def check(gate: ToolGate) -> None:
        gate.block = True

    with pytest.raises(ConfigError, match=r"is not a hook or an event.*@agent\.on\(ToolGate\)"):
        on(check)


async def test_handler_with_a_wrong_result_is_named() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    def check(gate: ToolGate) -> Any:
        return False

    model = ScriptedModel(ScriptedCall("look"), "ok")
    result = await Agent(model, tools=[look], hooks={ToolGate: check}, execution=MemoryEnv({})).run("go")
    assert "it must return None or a mapping of fields to set, not False" in result.tool_results[0].text


async def test_validator_that_returns_nothing_does_not_delete_the_output() -> None:
    agent = Agent(ScriptedModel(ScriptedCall("__output__", {"output": 3})), output_type=int, execution=MemoryEnv({}))

    def check(output: int) -> Any:
        assert output

    agent.output_validator(check)
    with pytest.raises(AgentOutputError, match=r"validator check returned None\. Return the output\..*raise ToolError"):
        await agent.run("go")


async def test_validator_may_return_none_for_an_optional_output() -> None:
    kind: Any = int | None
    agent: Agent[None, Any] = Agent(
        ScriptedModel(ScriptedCall("__output__", {"output": 3})), output_type=kind, execution=MemoryEnv({})
    )
    agent.output_validator(lambda output: None)
    assert (await agent.run("go")).output is None


def test_script_rejects_an_invalid_step() -> None:
    step: Any = 3
    with pytest.raises(TypeError, match=r"A step of a script must be text, a Reply, .* not 3\."):
        ScriptedModel("fine", step)


async def test_time_limit_applies_to_a_scripted_model() -> None:
    behavior = RunOptions(timeout=0.01, retry=None)
    for slow in (Reply("x", delay=60), Reply("x y", chunk_count=2, delta_delay=60)):
        with pytest.raises(AgentProviderError, match=r"did not respond within 0\.01s"):
            await Agent(ScriptedModel(slow), behavior=behavior, execution=MemoryEnv({})).run("go")


def test_no_prompt_is_no_message() -> None:
    assert to_messages(None) == to_messages("") == []
    agent = Agent(ScriptedModel("ok"), messages=[Message.user("Hi")], execution=MemoryEnv({}))
    assert agent.run_sync(None).text == "ok"


def test_mcp_server_has_the_name_of_its_key() -> None:
    found = parse_mcp_config({"docs": McpServerConfig(command="docs-server"), "other": McpServerConfig(name="others")})
    assert [server.name for server in found.servers] == ["docs"]
    assert "is named 'others' in its configuration" in found.problems[0]
    assert "needs a name" in parse_mcp_config([McpServerConfig(command="docs-server")]).problems[0]


def test_fallback_creates_models_from_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    model = FallbackModel(["openai:gpt-5-mini", ScriptedModel("x")])
    assert (model.provider, model.model) == ("openai", "gpt-5-mini")


@pytest.mark.parametrize(("name", "ours"), [(name, ours) for name, ours in RUN_OPTION_NAMES.items()])
def test_run_option_of_another_library_names_its_counterpart(name: str, ours: str) -> None:
    options: Any = {name: 3}
    with pytest.raises(TypeError, match=f"Did you mean '{ours}'"):
        RunOptions(**options)


@pytest.mark.parametrize("name", list(OPTION_ADVICE["@tool"]))
def test_tool_option_of_another_library_names_its_counterpart(name: str) -> None:
    options: Any = {name: 3}
    with pytest.raises(TypeError, match=re.escape(OPTION_ADVICE["@tool"][name])):
        tool(**options)


async def test_attribute_of_another_library_names_its_counterpart() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    agent = Agent(ScriptedModel("x"), execution=MemoryEnv({}))
    result = await agent.run("go")
    owners = {"Agent": agent, "RunResult": result, "RunHandle": agent.stream("go"), "Usage": result.usage, "Tool": look}
    assert owners.keys() == ATTRIBUTE_ADVICE.keys()
    for kind, owner in owners.items():
        for name, advice in ATTRIBUTE_ADVICE[kind].items():
            with pytest.raises(AttributeError, match=re.escape(advice)):
                getattr(owner, name)
        with pytest.raises(AttributeError, match="object has no attribute 'xyzzy'$"):
            getattr(owner, "xyz" + "zy")


async def test_syntax_of_another_library_names_its_counterpart() -> None:
    agent: Any = Agent(ScriptedModel("x"), execution=MemoryEnv({}))
    result = await agent.run("go")

    urls: Any = ["http://x"]
    name: Any = "search"
    uses: dict[tuple[str, str], Any] = {
        ("RunHandle", "for"): lambda: list(agent.stream("go")),
        ("RunHandle", "await"): lambda: agent.stream("go").__await__(),
        ("RunResult", "[]"): lambda: result["messages"],
        ("Usage", "call"): lambda: result.usage(),
    }
    for use, action in uses.items():
        with pytest.raises(TypeError, match=re.escape(MISUSE_ADVICE[use])):
            action()
    assert MISUSE_ADVICE.keys() == uses.keys()
    with pytest.raises(ConfigError, match=r"tools contains the agent .*as_tool\(\)"):
        Agent(ScriptedModel(), tools=[agent])
    with pytest.raises(ConfigError, match=r"not 'http://x'\. In Python: McpServerConfig\("):
        Agent(ScriptedModel(), mcp_servers=urls)
    with pytest.raises(TypeError, match=r"Use @tool\(name='search'\)"):
        tool(name)
    with pytest.raises(TypeError, match=r"for example \[Message\.user\(\"Hi\"\)\], not \{'messages': \[\]\}"):
        await agent.run({"messages": []})


@pytest.mark.parametrize("name", list(EXPORT_ADVICE))
def test_export_of_another_library_names_its_counterpart(name: str) -> None:
    for package in ("mainspring", "mainspring.models", "mainspring.testing"):
        with pytest.raises(ImportError, match=re.escape(EXPORT_ADVICE[name])):
            exec(f"from {package} import {name}")


def test_advice_names_existing_options_and_exports() -> None:
    texts = [
        *EXPORT_ADVICE.values(),
        *MISUSE_ADVICE.values(),
        *[text for table in (*OPTION_ADVICE.values(), *ATTRIBUTE_ADVICE.values()) for text in table.values()],
    ]
    classes = {name for text in texts for name in re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", text)}
    public = {
        "LangChain",
        "ChatBedrockConverse",
        *dir(mainspring.durable),
        *dir(mainspring),
        *dir(mainspring.testing),
        *dir(mainspring.policies),
        *dir(mainspring.telemetry),
    }
    assert classes - public == set()
    assert set(RUN_OPTION_NAMES.values()) <= set(RunOptions.declared)


def test_failing_listener_is_logged_once() -> None:
    code = """
import logging
from mainspring import Agent
from mainspring.env import MemoryEnv
from mainspring.testing import Reply, ScriptedModel

logging.basicConfig()
agent = Agent(ScriptedModel(Reply("a b c d", chunk_count=4)), execution=MemoryEnv({}))

@agent.subscribe
def broken(event):
    raise ValueError("oh no")

@agent.on("turn:before")
def worse(hook):
    raise ValueError("oh dear")

print(agent.run_sync("go").text)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "a b c d\n"
    assert done.stderr.count("The listener broken failed on agent_start. The run continues") == 1
    assert done.stderr.count("ValueError: oh no") == 1
    assert "The handler worse of turn:before failed" in done.stderr


def test_method_names_the_bound_method_instead_of_a_type_of_self() -> None:
    with pytest.raises(TypeError, match=r"Remove @tool, and pass the bound method"):

        class Shop:
            @tool
            def price(self, item: str) -> str:
                """Return a price."""
                return item


def test_docstring_of_a_tool_that_describes_an_unknown_parameter_is_a_warning() -> None:
    def price(item: str) -> str:
        """Return a price.

        Args:
            itme: The item.
        """
        return item

    with pytest.warns(ConfigWarning, match=r"price\(\) describes the parameter 'itme'.* Did you mean 'item'\?"):
        tool(price)


def test_server_takes_a_list_of_arguments() -> None:
    server = McpServerConfig(name="a", command="b", args=["-v"], include=["x"])
    assert (server.args, server.include) == (("-v",), ("x",))
    with pytest.raises(TypeError, match="args must be a list of texts, not the text '-v'"):
        McpServerConfig(name="a", command="b", args="-v")


async def test_plain_assertion_is_an_error_without_a_dangling_colon() -> None:
    def check() -> None:
        """Check."""
        raise AssertionError

    agent = Agent(ScriptedModel(ScriptedCall("check"), "x"), tools=[check], execution=MemoryEnv({}))
    assert (await agent.run("go")).tool_results[0].text == "Error: AssertionError"


def test_duplicate_tool_does_not_name_the_same_source_twice() -> None:
    def look() -> None:
        """Look."""

    with pytest.raises(ConfigError, match=r"^Duplicate tool name: 'look'\. Rename one"):
        Agent(ScriptedModel(), tools=[look, look])
