"""Mistakes of first programs: each is an error where it is written, and the error contains the fix."""

from typing import Any

import pytest

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
from mainspring.mcp.config import parse_mcp_config
from mainspring.messages import Message, to_messages
from mainspring.models import FallbackModel
from mainspring.testing import Reply, ScriptedCall, ScriptedModel

TEXT: Any = {"max_turns": "1"}


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("instructions", r"Use system=\.\.\."),
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
