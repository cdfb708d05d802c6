"""No public function accepts an unknown option: functions with ``**options`` check the names themselves."""

import asyncio
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import mainspring
from mainspring import Agent, AgentDefinition, ConfigError, CoreAgent, create_model, define_tool, tool
from mainspring.env import ConfinedEnv, MemoryEnv
from mainspring.env.sandbox import SandboxEnv
from mainspring.errors import ProviderConfigError
from mainspring.messages import Message
from mainspring.models import (
    ModelResponse,
    ProviderRegistry,
    Success,
    complete,
    create_model_provider,
    create_openai_client,
    retry_stream,
    with_retry,
)
from mainspring.models.client import LLMClient
from mainspring.options import Options
from mainspring.permissions import Permissions
from mainspring.run_options import RunOptions
from mainspring.telemetry import Telemetry, TelemetryOptions, install_tracing
from mainspring.testing import ScriptedModel, Tape

WRONG: Any = {"bse_url": 1}
SCHEMA = {"type": "object"}


async def answer() -> str:
    """Answer."""
    return ""


def make_agent() -> Agent:
    return Agent(ScriptedModel("hi"), execution=MemoryEnv({}))


async def open_stream() -> None:
    async for _ in retry_stream(lambda: ScriptedModel("hi").stream(cast("Any", None)), **WRONG):
        pass


async def call_client(method: str) -> None:
    client = LLMClient(ScriptedModel("hi"))
    given = ("go", SCHEMA) if method == "structured" else ("go",)
    result = await getattr(client, method)(*given, **WRONG)
    assert not isinstance(result, Success), cast("ModelResponse", result)
    raise TypeError(result.message)  # a client never raises


async def spawn_subagent() -> None:
    created = Agent(ScriptedModel("hi"), execution=MemoryEnv({}), subagents=[AgentDefinition(name="one")])
    await created.extra["spawn"]("go", **WRONG)


def record_tape(path: Path) -> None:
    with Tape(path / "t.jsonl", "record") as tape:
        tape.discard()
        tape.model("openai:gpt-5-mini", **WRONG)


CASES: dict[str, Callable[[Path], Any]] = {
    "Agent": lambda _: Agent(ScriptedModel(), **WRONG),
    "Agent.conversation": lambda _: make_agent().conversation(**WRONG),
    "Agent.run": lambda _: make_agent().run("go", **WRONG),
    "Agent.run_sync": lambda _: asyncio.to_thread(make_agent().run_sync, "go", **WRONG),
    "Agent.stream": lambda _: make_agent().stream("go", **WRONG),
    "ConfinedEnv.walk": lambda _: ConfinedEnv(MemoryEnv()).walk(".", **WRONG),
    "Conversation.run": lambda _: make_agent().conversation().run("go", **WRONG),
    "Conversation.run_sync": lambda _: asyncio.to_thread(make_agent().conversation().run_sync, "go", **WRONG),
    "Conversation.stream": lambda _: make_agent().conversation().stream("go", **WRONG),
    "CoreAgent.run": lambda _: CoreAgent(ScriptedModel("hi"), env=MemoryEnv()).run("go", **WRONG),
    "LLMClient.invoke": lambda _: call_client("invoke"),
    "LLMClient.stream": lambda _: call_client("stream"),
    "LLMClient.structured": lambda _: call_client("structured"),
    "Message.assistant": lambda _: Message.assistant("hi", **WRONG),
    "Message.system": lambda _: Message.system("hi", **WRONG),
    "Message.user": lambda _: Message.user("hi", **WRONG),
    "Permissions": lambda _: Permissions(**WRONG),
    "SandboxEnv": lambda path: SandboxEnv(path, **WRONG),
    "Subagents.spawn": lambda _: spawn_subagent(),
    "Tape.model": record_tape,
    "Telemetry": lambda _: Telemetry(**WRONG),
    "complete": lambda _: complete(ScriptedModel("hi"), "go", **WRONG),
    "create_model": lambda _: create_model("openai:gpt-5-mini", **WRONG),
    "define_tool": lambda _: define_tool("one", description="", parameters=SCHEMA, execute=answer, **WRONG),
    "install_tracing": lambda _: install_tracing(make_agent(), **WRONG),
    "retry_stream": lambda _: open_stream(),
    "tool": lambda _: tool(**WRONG)(answer),
    "with_retry": lambda _: with_retry(answer, **WRONG),
}
OPEN = {
    "CoreAgent.stream": "checked by the run",
    "ConfinedEnv.run": "checked by the wrapped environment",
    "EnvWrapper.run": "checked by the wrapped environment",
    "EnvWrapper.walk": "checked by the wrapped environment",
    "DbosEngine.run_in_thread": "arguments of any function",
    "ContainerEnv": "like SandboxEnv; needs a container",
    "ContainerEnv.run": "checked by LocalEnv",
    "RunResult.from_messages": "fields of the result",
    "SandboxEnv.run": "checked by LocalEnv",
    "TelemetryHelpers.start_llm_span": "attributes of any name",
    "TelemetryHelpers.start_tool_span": "attributes of any name",
    "ToolContext.metadata": "facts of any name",
}


def find_functions_with_options() -> Iterator[str]:
    """Yield all public functions with ``**options``."""
    for module in pkgutil.walk_packages(mainspring.__path__, "mainspring."):
        if not module.ispkg or module.name.startswith("mainspring.app"):
            continue
        package = importlib.import_module(module.name)
        for name in getattr(package, "__all__", ()):
            value = getattr(package, name)
            if inspect.isfunction(value) and value.__module__ == "mainspring.lazy":
                lazy = inspect.getclosurevars(value).nonlocals
                value = getattr(importlib.import_module(lazy["module"]), lazy["name"])
            if not (inspect.isclass(value) or inspect.isfunction(value)) or getattr(value, "_is_protocol", False):
                continue
            if inspect.isclass(value) and issubclass(value, Options):
                continue
            parts = [(name, value)]
            if inspect.isclass(value):
                parts += [(f"{name}.{n}", v) for n, v in vars(value).items() if not n.startswith("_") and callable(v)]
                parts += [
                    (f"{name}.{n}", v.__func__)
                    for n, v in vars(value).items()
                    if not n.startswith("_") and isinstance(v, classmethod)
                ]
            for spelled, part in parts:
                try:
                    parameters = inspect.signature(part).parameters.values()
                except (ValueError, TypeError, NameError):  # a class that exists only for type checkers
                    continue
                if any(p.kind is p.VAR_KEYWORD for p in parameters):
                    yield spelled.replace("create_agent", "Agent")  # an alias


def test_every_function_with_options_has_a_case() -> None:
    assert set(find_functions_with_options()) == {*CASES, *OPEN}


@pytest.mark.parametrize("name", CASES)
async def test_unknown_option_is_rejected(name: str, tmp_path: Path) -> None:
    async def call_with_wrong_option() -> None:
        created = CASES[name](tmp_path)
        if inspect.isawaitable(created):
            await created

    with pytest.raises((TypeError, mainspring.MainspringError), match="bse_url"):
        await call_with_wrong_option()


@pytest.mark.parametrize("group", [*Options.__subclasses__(), RunOptions], ids=lambda group: group.__name__)
def test_option_groups_reject_unknown_options(group: type[Options]) -> None:
    with pytest.raises(TypeError, match="bse_url"):
        group(**WRONG)


@pytest.mark.parametrize(("name", "meant"), [("temprature", "temperature"), ("topp", "top_p"), ("timeot", "timeout")])
def test_misspelled_run_option_suggests_the_right_name(name: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"Unexpected keyword argument '{name}'. Did you mean '{meant}'?"):
        RunOptions(**cast("Any", {name: 1}))


def test_options_object_and_single_options_are_exclusive() -> None:
    with pytest.raises(TypeError, match="not both"):
        Telemetry(TelemetryOptions(), endpoint="http://localhost:1")
    with pytest.raises(TypeError, match="not both"):
        install_tracing(make_agent(), Telemetry(), endpoint="http://localhost:1")


@pytest.mark.parametrize(
    ("settings", "suggestion"), [({"apikey": "k"}, "api_key"), ({"max_tokens": 5}, "max_output_tokens")]
)
def test_misspelled_model_setting_suggests_the_right_name(settings: Any, suggestion: str) -> None:
    with pytest.raises(TypeError, match=f"Did you mean '{suggestion}'"):
        create_model("openai:gpt-5-mini", **settings)
    with pytest.raises(TypeError, match=f"Did you mean '{suggestion}'"):
        create_model("openai:gpt-5-mini", extra=settings)
    registry = ProviderRegistry("mine")
    registry.register("mine", build=lambda config: ScriptedModel(provider="mine", model=str(config.extra)))
    assert create_model("mine:", registry=registry, org="mine", extra=settings).model == str(
        {**settings, "org": "mine"}
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("endpoint", "'endpoint' is a setting of azure and github, not of openai. Did you mean 'base_url'?"),
        ("deployment", "'deployment' is a setting of azure, not of openai. Did you mean 'model'?"),
        ("org", "'org' is a setting of github, not of openai. Did you mean 'headers'?"),
        ("token", "'token' is a setting of github, not of openai. Did you mean 'api_key'?"),
        ("temprature", "Unknown setting: 'temprature'. openai does not support it. Did you mean 'temperature'?"),
        ("timeot", "Did you mean 'timeout'? It is an option of requests. Use timeout=... of Behavior or of a call"),
        (
            "top_p",
            "'top_p' is an option of requests, not a setting of openai. Use top_p=... of Behavior or of a call, or",
        ),
        ("temperature", "'temperature' is an option of requests, not a setting of openai."),
        ("tool_choice", "Use tool_choice=... of Behavior or of a call."),
        ("foo", "Unknown setting: 'foo'. openai does not support it. Available settings: model, api_key, base_url"),
    ],
)
async def test_setting_that_openai_does_not_know_is_rejected_with_the_meant_name(name: str, hint: str) -> None:
    with pytest.raises(TypeError, match=re.escape(hint)):
        create_model("openai:gpt-5-mini", api_key="k", **cast("Any", {name: "x"}))
    config = {"provider": "openai", "api_key": "k", name: "x"}
    result = await LLMClient(config).invoke("go")
    assert not isinstance(result, Success)
    assert hint in result.message
    with pytest.raises(ProviderConfigError, match=re.escape(hint)):
        await create_openai_client({"api_key": "k", name: "x"})
    with pytest.raises(ProviderConfigError, match=re.escape(hint)):
        await create_model_provider(config)


async def test_misspelled_configuration_key_suggests_the_right_name() -> None:
    result = await LLMClient({"provider": "openai", "modle": "gpt-5-mini"}).invoke("go")
    assert not isinstance(result, Success)
    assert "Unknown model setting 'modle'. Did you mean 'model'" in result.message


async def test_attributes_set_later_are_validated() -> None:
    created = make_agent()
    with pytest.raises(ConfigError, match="thinking must be .*, not 'lots'"):
        created.thinking = cast("Any", "lots")
    created.behavior = RunOptions(thinking=cast("Any", "lots"))
    with pytest.raises(ConfigError, match="thinking must be .*, not 'lots'"):
        await created.run("go")
    assert created.messages == ()


def test_invalid_tape_tool_and_agent_definition_options_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mode of a tape must be 'replay' or 'once' or 'record', not 'onec'"):
        Tape(tmp_path / "t.jsonl", cast("Any", "onec"))
    with pytest.raises(ConfigError, match="tools of a tape must be .*, not 'liev'"):
        Tape(tmp_path / "t.jsonl", "once", tools=cast("Any", "liev"))
    for make in (lambda: tool(name="my tool!")(answer), lambda: define_tool("my tool!", cast("Any", None))):
        with pytest.raises(ConfigError, match="Invalid tool name: 'my tool!'. Use 1 to 128 letters"):
            make()
    with pytest.raises(ConfigError, match="must be names in a tuple"):
        AgentDefinition(name="one", tools=cast("Any", "read_file"))
