"""No public function takes an option that does not exist: what takes ``**options`` looks at their names itself."""

import asyncio
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import mainspring
from mainspring import Agent, AgentDefinition, ConfigError, CoreAgent, create_model, define_tool, tool
from mainspring.env.memory import MemoryEnv
from mainspring.env.sandbox import SandboxEnv
from mainspring.messages import Message
from mainspring.models import ModelResponse, Success, complete, retry_stream, with_retry
from mainspring.models.client import LLMClient
from mainspring.permissions import Permissions
from mainspring.telemetry import Telemetry, TelemetryOptions, install_tracing
from mainspring.testing import ScriptedModel, Tape

WRONG: Any = {"bse_url": 1}
SCHEMA = {"type": "object"}


async def answer() -> str:
    """Answer."""
    return ""


def agent() -> Agent:
    return Agent(ScriptedModel("hi"), execution=MemoryEnv({}))


async def opened() -> None:
    async for _ in retry_stream(lambda: ScriptedModel("hi").stream(cast("Any", None)), **WRONG):
        pass


async def asked(way: str) -> None:
    client = LLMClient(ScriptedModel("hi"))
    given = ("go", SCHEMA) if way == "structured" else ("go",)
    result = await getattr(client, way)(*given, **WRONG)
    assert not isinstance(result, Success), cast("ModelResponse", result)
    raise TypeError(result.message)  # a client never raises


async def spawned() -> None:
    made = Agent(ScriptedModel("hi"), execution=MemoryEnv({}), subagents=[AgentDefinition(name="one")])
    await made.extra["spawn"]("go", **WRONG)


def taped(path: Path) -> None:
    with Tape(path / "t.jsonl", "record") as tape:
        tape.discard()
        tape.model("openai:gpt-5-mini", **WRONG)


CASES: dict[str, Callable[[Path], Any]] = {
    "Agent": lambda _: Agent(ScriptedModel(), **WRONG),
    "Agent.run": lambda _: agent().run("go", **WRONG),
    "Agent.run_sync": lambda _: asyncio.to_thread(agent().run_sync, "go", **WRONG),
    "Agent.stream": lambda _: agent().stream("go", **WRONG),
    "CoreAgent.run": lambda _: CoreAgent(ScriptedModel("hi"), env=MemoryEnv()).run("go", **WRONG),
    "LLMClient.invoke": lambda _: asked("invoke"),
    "LLMClient.stream": lambda _: asked("stream"),
    "LLMClient.structured": lambda _: asked("structured"),
    "Message.assistant": lambda _: Message.assistant("hi", **WRONG),
    "Message.system": lambda _: Message.system("hi", **WRONG),
    "Message.user": lambda _: Message.user("hi", **WRONG),
    "Permissions": lambda _: Permissions(**WRONG),
    "SandboxEnv": lambda path: SandboxEnv(path, **WRONG),
    "Subagents.spawn": lambda _: spawned(),
    "Tape.model": taped,
    "Telemetry": lambda _: Telemetry(**WRONG),
    "complete": lambda _: complete(ScriptedModel("hi"), "go", **WRONG),
    "create_model": lambda _: create_model("openai:gpt-5-mini", **WRONG),
    "define_tool": lambda _: define_tool("one", description="", parameters=SCHEMA, execute=answer, **WRONG),
    "install_tracing": lambda _: install_tracing(agent(), **WRONG),
    "retry_stream": lambda _: opened(),
    "tool": lambda _: tool(**WRONG)(answer),
    "with_retry": lambda _: with_retry(answer, **WRONG),
}
OPEN = {
    "CoreAgent.stream": "the run says it",
    "ContainerEnv": "as SandboxEnv; needs a container",
    "RunResult.from_messages": "fields of the result",
    "TelemetryHelpers.start_llm_span": "attributes of any name",
    "TelemetryHelpers.start_tool_span": "attributes of any name",
    "ToolContext.metadata": "facts of any name",
}


def taking() -> Iterator[str]:
    """Everything public with ``**options``."""
    for module in pkgutil.walk_packages(mainspring.__path__, "mainspring."):
        if not module.ispkg or module.name.startswith("mainspring.app"):
            continue
        package = importlib.import_module(module.name)
        for name in getattr(package, "__all__", ()):
            value = getattr(package, name)
            if not (inspect.isclass(value) or inspect.isfunction(value)) or getattr(value, "_is_protocol", False):
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
                except (ValueError, TypeError, NameError):  # of a class that is only known to type checkers
                    continue
                if any(p.kind is p.VAR_KEYWORD for p in parameters):
                    yield spelled.replace("create_agent", "Agent")  # another name of it


def test_all_that_take_options_are_tried_here() -> None:
    assert set(taking()) == {*CASES, *OPEN}


@pytest.mark.parametrize("name", CASES)
async def test_an_option_that_does_not_exist_is_refused(name: str, tmp_path: Path) -> None:
    async def try_it() -> None:
        made = CASES[name](tmp_path)
        if inspect.isawaitable(made):
            await made

    with pytest.raises((TypeError, mainspring.MainspringError), match="bse_url"):
        await try_it()


def test_options_beside_what_has_them_already_are_refused() -> None:
    with pytest.raises(TypeError, match="not both"):
        Telemetry(TelemetryOptions(), endpoint="http://localhost:1")
    with pytest.raises(TypeError, match="not both"):
        install_tracing(agent(), Telemetry(), endpoint="http://localhost:1")


@pytest.mark.parametrize(
    ("settings", "meant"), [({"apikey": "k"}, "api_key"), ({"max_tokens": 5}, "max_output_tokens")]
)
def test_a_setting_of_a_model_that_is_misspelt_names_the_one_that_was_meant(settings: Any, meant: str) -> None:
    with pytest.raises(TypeError, match=f"Did you mean '{meant}'"):
        create_model("openai:gpt-5-mini", **settings)
    create_model(
        "openai:gpt-5-mini", api_key="k", org="mine", mode="x", extra=settings
    )  # known to some provider, or said so


async def test_so_does_one_of_a_configuration() -> None:
    result = await LLMClient({"provider": "openai", "modle": "gpt-5-mini"}).invoke("go")
    assert not isinstance(result, Success)
    assert "Unknown model setting 'modle'. Did you mean 'model'" in result.message


async def test_what_is_set_later_is_checked_when_a_run_begins() -> None:
    made = agent()
    made.thinking = cast("Any", "lots")
    with pytest.raises(ConfigError, match="thinking must be .*, not 'lots'"):
        await made.run("go")
    assert made.messages == ()


def test_what_is_misspelt_elsewhere_is_told_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mode of a tape must be 'replay' or 'once' or 'record', not 'onec'"):
        Tape(tmp_path / "t.jsonl", cast("Any", "onec"))
    with pytest.raises(ConfigError, match="tools of a tape must be .*, not 'liev'"):
        Tape(tmp_path / "t.jsonl", "once", tools=cast("Any", "liev"))
    for make in (lambda: tool(name="my tool!")(answer), lambda: define_tool("my tool!", cast("Any", None))):
        with pytest.raises(ConfigError, match="Invalid tool name: 'my tool!'. Use 1 to 128 letters"):
            make()
    with pytest.raises(ConfigError, match="must be names in a tuple"):
        AgentDefinition(name="one", tools=cast("Any", "read_file"))
