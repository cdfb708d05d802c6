"""The API of extensions: registration, actions, and access to the agent."""

import logging
import time
from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from mainspring import Agent, RunOptions
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError, ConfigError
from mainspring.extensions import (
    ExtensionAPI,
    ExtensionContext,
    Extensions,
    InputEvent,
    NonInteractiveUI,
    ToolCallEvent,
    ToolResultEvent,
    UserInterface,
    aliases,
    guardrails,
    help_command,
)
from mainspring.extensions.builtin import substitute_arguments
from mainspring.loop.hooks import PromptSubmitted, TurnBefore
from mainspring.messages import Message, Usage
from mainspring.subagents import Subagents
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import ToolContext, define_tool, tool


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


async def run_line(arguments: dict[str, Any], ctx: ToolContext) -> str:
    return f"ran {arguments['command']}"


shell = define_tool(
    "shell",
    description="Run.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    execute=run_line,
)


class ScriptedUI:
    """A `UserInterface` with prepared answers."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.questions: list[tuple[str, str]] = []
        self.notices: list[tuple[str, str]] = []

    @property
    def is_attended(self) -> bool:
        return True

    async def confirm(self, title: str, message: str = "") -> bool:
        self.questions.append((title, message))
        return self.answers.pop(0)

    async def select(self, title: str, options: Sequence[str]) -> str | None:
        self.questions.append((title, ",".join(options)))
        return str(options[self.answers.pop(0)])

    async def input(self, title: str, placeholder: str = "") -> str | None:
        self.questions.append((title, placeholder))
        return self.answers.pop(0)

    def notify(self, message: str, level: str = "info") -> None:
        self.notices.append((level, message))


def make_agent(*script: Any, extensions: Any = (), ui: UserInterface | None = None, **options: Any) -> Agent:
    return Agent(
        ScriptedModel(*script),
        execution=MemoryEnv(),
        tools=options.pop("tools", [look, shell]),
        extensions=Extensions(extensions, ui=ui),
        **options,
    )


def results(agent: Agent) -> list[str]:
    return [r.text for m in agent.messages if isinstance(m, Message) for r in m.tool_results]


def get_runner(agent: Agent) -> Any:
    assert agent.extensions is not None
    return agent.extensions.runner


def make_calls(*arguments: str, name: str = "look") -> Reply:
    key = "key" if name == "look" else "command"
    return Reply("", calls=[ScriptedCall(name, {key: a}) for a in arguments])


# --- registration ---------------------------------------------------------------------------------------------------


@pytest.mark.covers("EXT-09")
async def test_commands_and_shortcuts_are_listed_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pressed: list[str] = []

    def extension(api: ExtensionAPI) -> None:
        async def where(arguments: str, ctx: ExtensionContext) -> str:
            return f"{arguments!r} in {ctx.cwd}"

        api.register_command("/where", where, description="the folder")
        api.register_command("quiet", lambda arguments: None)
        api.register_shortcut("Shift+Ctrl+K", lambda ctx: pressed.append(ctx.cwd), description="a key")

    agent = make_agent(extensions=[extension])
    extension_runner = get_runner(agent)

    assert [(c.name, c.description, c.extension) for c in extension_runner.commands] == [
        ("quiet", "", "extension"),
        ("where", "the folder", "extension"),
    ]
    assert [(s.key, s.description) for s in extension_runner.shortcuts] == [("ctrl+shift+k", "a key")]
    assert (await agent.run("/where  $1 `x` ")).text == f"'$1 `x`' in {agent.env.cwd}"
    assert (await agent.run("/quiet")).text == ""
    assert await extension_runner.run_shortcut("ctrl+shift+k")
    assert not await extension_runner.run_shortcut("f5")
    assert pressed == [agent.env.cwd]


async def test_failing_command_is_reported_and_an_unknown_slash_goes_to_the_model() -> None:
    def extension(api: ExtensionAPI) -> None:
        api.register_command("bad", lambda arguments: {}["x"])

    agent = make_agent("answered", extensions=[extension])

    failed = await agent.run("/bad now")
    assert (failed.status, failed.text) == ("denied", "Blocked: /bad failed: KeyError: 'x'")
    assert (await agent.run("/etc/hosts, what is it?")).text == "answered"


@pytest.mark.parametrize("name", ["", "/", "two words", "-x", "a" * 65])
def test_invalid_command_names_are_rejected(name: str) -> None:
    agent = make_agent(extensions=[lambda api: api.register_command(name, lambda a: None)])
    assert "Invalid command name" in cast("Any", agent.extensions).problems[0].reason


@pytest.mark.parametrize("key", ["", "ctrl+", "hyper+k", "ctrl+ctrl+k"])
def test_invalid_shortcut_keys_are_rejected(key: str) -> None:
    agent = make_agent(extensions=[lambda api: api.register_shortcut(key, print)])
    assert "Invalid key" in cast("Any", agent.extensions).problems[0].reason


async def test_late_registrations_apply_immediately_and_can_be_removed() -> None:
    apis: list[ExtensionAPI] = []
    agent = make_agent("one", "two", extensions=[apis.append])
    [api] = apis

    remove = api.on("context", lambda event: {"messages": []})
    remove_tool = api.register_tool(
        define_tool("late", description="x", parameters={"type": "object"}, execute=run_line)
    )
    assert "late" in api.tools
    with pytest.raises(ConfigError, match="Duplicate tool name:"):
        api.register_tool(look)
    await agent.run("go")
    remove()
    remove_tool()
    await agent.run("on")

    one, two = [seen.request for seen in cast("Any", agent.model).requests]
    assert (len(one.messages), len(two.messages)) == (0, 3)
    assert "late" not in api.tools


# --- actions --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("EXT-10", "TST-03")
async def test_extension_sends_messages_and_aborts() -> None:
    apis: list[ExtensionAPI] = []

    def extension(api: ExtensionAPI) -> None:
        apis.append(api)
        api.on("tool_result", lambda event: api.send_message("look closer"))
        api.on("agent_start", lambda event: api.send_message("and then?", deliver="follow_up"))

    agent = make_agent(make_calls("a"), "one", "two", extensions=[extension])
    await agent.run("go")
    user_texts = [m.text for m in agent.messages if isinstance(m, Message) and m.role == "user" and m.text]
    assert user_texts == ["go", "look closer", "and then?"]
    with pytest.raises(ValueError, match="not 'now'"):
        apis[0].send_message("x", deliver=cast("Any", "now"))

    agent = make_agent(
        make_calls("a"), "never", extensions=[lambda api: api.on("tool_call", lambda e: api.abort("enough"))]
    )
    with pytest.raises(AgentAbortedError, match="enough"):
        await agent.run("go")


@pytest.mark.covers("EXT-11")
async def test_extension_reads_and_sets_active_tools_and_thinking() -> None:
    seen: list[Any] = []

    def extension(api: ExtensionAPI) -> None:
        def start(event: Any) -> None:
            seen.append((api.active_tools, api.thinking))
            api.active_tools = ["look"]
            api.thinking = "high"

        api.on("agent_start", start)

    agent = make_agent("ok", extensions=[extension], behavior=RunOptions(thinking="low"))
    await agent.run("go")

    [request] = [r.request for r in cast("Any", agent.model).requests]
    assert seen == [(("look", "shell"), "low")]
    assert [t.name for t in request.tools] == ["look"]
    assert request.thinking == "high"


@pytest.mark.covers("EXT-12")
async def test_context_has_the_state_of_the_agent() -> None:
    seen: list[Any] = []

    def extension(api: ExtensionAPI) -> None:
        api.on("system:transform", lambda hook: {"system": hook.system + " More."})

        def end(event: Any, ctx: ExtensionContext) -> None:
            usage = ctx.get_context_usage()
            seen.append((ctx.has_ui, ctx.cwd, ctx.is_idle(), ctx.get_system_prompt(), usage.tokens, ctx.session_id))

        api.on("agent_end", end)

    agent = make_agent(
        Reply("ok", usage=Usage(input_tokens=900, output_tokens=100)), extensions=[extension], system="You help."
    )
    ctx = get_runner(agent).ctx
    assert (ctx.get_system_prompt(), ctx.is_idle(), ctx.turn) == ("You help.", True, 0)
    await agent.run("go")

    assert seen == [(False, agent.env.cwd, False, "You help. More.", 1000, "")]
    assert ctx.is_idle()
    usage = ctx.get_context_usage()
    window = agent.model.info.context_window
    assert usage.used_fraction == (None if window is None else usage.tokens / window)


@pytest.mark.covers("EXT-12")
async def test_context_can_abort_the_run() -> None:
    agent = make_agent("never", extensions=[lambda api: api.on("turn_start", lambda e, ctx: ctx.abort("stop it"))])
    with pytest.raises(AgentAbortedError, match="stop it"):
        await agent.run("go")


# --- user interface -------------------------------------------------------------------------------------------------


@pytest.mark.covers("EXT-13", "SEC-08")
async def test_extension_asks_and_notifies_the_user() -> None:
    async def judge(event: ToolCallEvent, ctx: ExtensionContext) -> Any:
        if not await ctx.ui.confirm(f"Look up {event.input['key']}?", "It costs."):
            return {"block": "the user said no"}
        choice = await ctx.ui.select("How?", ["quickly", "slowly"])
        ctx.ui.notify(f"{choice}, {await ctx.ui.input('Why?', 'because')}", "warn")
        return None

    scripted_ui = ScriptedUI(False, True, 1, "so")
    agent = make_agent(
        make_calls("a", "b"), "done", extensions=[lambda api: api.on("tool_call", judge)], ui=scripted_ui
    )
    await agent.run("go")

    assert results(agent) == ["Permission denied: the user said no", "value of b"]
    assert scripted_ui.questions == [
        ("Look up a?", "It costs."),
        ("Look up b?", "It costs."),
        ("How?", "quickly,slowly"),
        ("Why?", "because"),
    ]
    assert scripted_ui.notices == [("warn", "slowly, so")]


@pytest.mark.covers("EXT-13", "SEC-08")
async def test_non_interactive_ui_declines_every_question(caplog: pytest.LogCaptureFixture) -> None:
    ui = NonInteractiveUI()
    assert not ui.is_attended
    assert await ui.confirm("Sure?") is False
    assert await ui.select("Which?", ["a"]) is None
    assert await ui.input("What?") is None
    with caplog.at_level(logging.INFO, "mainspring"):
        for level in ("info", "warn", "error"):
            ui.notify(f"a {level}", level)
    assert [(r.levelname, r.message) for r in caplog.records] == [
        ("INFO", "a info"),
        ("WARNING", "a warn"),
        ("ERROR", "a error"),
    ]
    with pytest.raises(ValueError, match="Unknown level: 'loud'"):
        ui.notify("x", cast("Any", "loud"))
    notices: list[Any] = []
    NonInteractiveUI(lambda *given: notices.append(given)).notify("hello")
    assert notices == [("hello", "info")]

    async def judge(event: ToolCallEvent, ctx: ExtensionContext) -> Any:
        return None if await ctx.ui.confirm("Sure?") else {"block": "nobody is there to confirm it"}

    agent = make_agent(make_calls("a"), "done", extensions=[lambda api: api.on("tool_call", judge)])
    await agent.run("go")
    assert results(agent) == ["Permission denied: nobody is there to confirm it"]


# --- the runner -----------------------------------------------------------------------------------------------------


@pytest.mark.covers("EXT-14")
async def test_runner_emits_only_to_extensions_and_has_handlers() -> None:
    others: list[Any] = []

    def extension(api: ExtensionAPI) -> None:
        api.on("input", lambda event: {"text": event.text + "!"})
        api.on("turn:before", lambda hook: None)

    agent = make_agent(extensions=[extension])
    agent.on(PromptSubmitted, others.append)
    extension_runner = get_runner(agent)
    hook = await extension_runner.emit(PromptSubmitted("hey"))

    assert (hook.text, others) == ("hey!", [])
    assert extension_runner.has_handlers("input")
    assert extension_runner.has_handlers("turn:before")
    assert extension_runner.has_handlers("turn_start") is False
    assert extension_runner.has_handlers(TurnBefore.event)


@pytest.mark.covers("EXT-14")
async def test_wrapped_tool_calls_the_handlers_of_extensions() -> None:
    def extension(api: ExtensionAPI) -> None:
        api.on("tool_call", lambda e: {"block": "not that"} if e.input["key"] == "no" else None)
        api.on("tool_result", lambda e: {"content": f"<{e.content}>"})

    wrapped = get_runner(make_agent(extensions=[extension])).wrap(look)
    ctx = ToolContext(env=MemoryEnv())

    assert (await wrapped(ctx, key="a")).output == "<value of a>"
    rejected = await wrapped(ctx, key="no")
    assert (rejected.is_error, rejected.output) == (True, "Permission denied: not that")
    assert (await look(key="a")).output == "value of a"


# --- built-in extensions and examples -------------------------------------------------------------------------------


@pytest.mark.covers("EXT-15")
async def test_aliases_and_help_use_the_input_event() -> None:
    def review(api: ExtensionAPI) -> None:
        api.register_command("review", lambda arguments: f"reviewing {arguments}", description="looks at changes")

    texts = {"r": "/review $1", "explain": "Explain this to me:"}
    agent = make_agent("explained", extensions=[aliases(texts), help_command, review])

    assert (await agent.run("/r a.py b.py")).text == "reviewing a.py"
    assert (await agent.run("/help")).text == "/help    the commands\n/review  looks at changes"
    assert (await agent.run("/help review")).text == "/review  looks at changes"
    assert "Unknown command: /nothing" in (await agent.run("/help nothing")).text
    await agent.run("/explain x = $HOME")
    [request] = [r.request for r in cast("Any", agent.model).requests]
    assert request.messages[-1].text == "Explain this to me: x = $HOME"


@given(st.text(alphabet="$1ARGUMENTS x\n"), st.text(alphabet="$12ARGUMENTS x"))
def test_typed_arguments_are_inserted_once_and_not_expanded(text: str, typed: str) -> None:
    pieces = text.split("$ARGUMENTS")
    if "$1" not in text and len(pieces) > 1:
        assert substitute_arguments(text, typed) == typed.join(pieces)


def test_other_dollar_signs_are_unchanged() -> None:
    assert substitute_arguments("awk '{print $0}' $10 $HOME $2.", "a b") == "awk '{print $0}' a0 $HOME b."


@pytest.mark.covers("EXT-16")
async def test_guardrails_ask_before_destructive_commands() -> None:
    lines = ("ls", "rm -rf /", "rm -rf /")
    scripted_ui = ScriptedUI(False, True)
    agent = make_agent(make_calls(*lines, name="shell"), "done", extensions=[guardrails], ui=scripted_ui)
    await agent.run("go")

    one, two, three = results(agent)
    assert (one, three) == ("ran ls", "ran rm -rf /")
    assert two.startswith("Permission denied:")
    assert [message for _, message in scripted_ui.questions] == ["rm -rf /", "rm -rf /"]

    unattended = make_agent(make_calls("rm -rf /", name="shell"), "done", extensions=[guardrails])
    await unattended.run("go")
    assert results(unattended)[0].startswith("Permission denied:")


@pytest.mark.covers("SEC-16")
async def test_approvals_transformers_and_rate_limits_can_be_extensions() -> None:
    def approvals(api: ExtensionAPI) -> None:
        @api.on("tool_call")
        async def ask(event: ToolCallEvent, ctx: ExtensionContext) -> Any:
            allowed = event.tool_name == "look" or await ctx.ui.confirm(f"{event.tool_name}?")
            return None if allowed else {"block": "not approved"}

    def transformer(api: ExtensionAPI) -> None:
        @api.on("tool_result")
        def shout(event: ToolResultEvent) -> Any:
            return {"content": str(event.content).upper()}

    def rate_limit(api: ExtensionAPI) -> None:
        times: list[float] = []

        @api.on("tool_call")
        def limit(event: ToolCallEvent) -> Any:
            now = time.monotonic()
            times[:] = [t for t in times if t > now - 60]
            if len(times) >= 2:
                return {"block": "two calls a minute are enough; wait"}
            times.append(now)
            return None

    script = Reply(
        "", calls=[ScriptedCall("shell", {"command": "x"}), *[ScriptedCall("look", {"key": k}) for k in "abc"]]
    )
    agent = make_agent(script, "done", extensions=[approvals, transformer, rate_limit])
    await agent.run("go")

    assert results(agent) == [
        "Permission denied: not approved",
        "VALUE OF A",
        "VALUE OF B",
        "Permission denied: two calls a minute are enough; wait",
    ]


async def test_tool_calls_of_a_subagent_use_the_same_handlers() -> None:
    starts: list[str] = []

    def extension(api: ExtensionAPI) -> None:
        api.on("tool_call", lambda e: {"block": "not that"} if e.input.get("key") == "secret" else None)
        api.on("agent_start", lambda e: starts.append("start"))

    agent = make_agent(
        Reply("", calls=[ScriptedCall("spawn", {"task": "find the secret"})]),
        make_calls("secret"),
        "it is hidden",
        "done",
        extensions=[extension],
        subagents=Subagents(),
    )
    seen: list[str] = []

    def watch_subagent(hook: Any) -> None:
        hook.agent.on("tool-results:after", lambda h: seen.append(h.results.tool_results[0].text))

    agent.on("spawn:before", watch_subagent)
    await agent.run("go")

    assert seen == ["Permission denied: not that"]
    assert starts == ["start"]


async def test_agent_without_extensions_has_no_extension_lifecycle() -> None:
    agent = Agent(ScriptedModel("ok"), execution=MemoryEnv())
    assert agent.extensions is None
    assert not agent._lifecycle.needed


def test_on_decorator_returns_the_input_handler() -> None:
    apis: list[Any] = []

    def extension(api: ExtensionAPI) -> None:
        @api.on("input")
        def handler(event: InputEvent) -> None: ...

        apis.append(handler)

    make_agent(extensions=[extension])
    assert apis[0].__name__ == "handler"
