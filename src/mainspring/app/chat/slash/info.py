"""Commands that tell: help, context, cost, copy, tools, telemetry, and the end.

Commands about what is plugged in: skills and MCP servers. Both say so where there are none.
"""

from __future__ import annotations

from textwrap import shorten

from mainspring.app.chat.command_results import Clipboard, CommandResult, Fields, Screen, Table, Text
from mainspring.app.chat.slash.base import SlashCommand, SlashContext
from mainspring.app.chat.slash.prompts import SKILL_PREFIX, find_mcp_plug, list_skills
from mainspring.errors import ConfigError
from mainspring.messages import Message
from mainspring.messages.token_estimate import TokenEstimator, estimate_overhead
from mainspring.text import pluralize


async def show_help(seat: SlashContext, arguments: str) -> CommandResult:
    """All commands, or one."""
    wanted = arguments.strip().removeprefix("/")
    rows = [(f"/{c.name}", c.arguments, c.summary) for c in seat.commands.values()]
    extensions = seat.room.conversation.agent.extensions
    rows += [(f"/{c.name}", "", c.description) for c in (extensions.runner.commands if extensions else ())]
    rows += [(f"/{o.name}", o.arguments, o.summary) for source in seat.sources for o in source.offers()]
    rows += [
        ("!COMMAND", "", "run a shell command; its output joins the conversation"),
        ("!!COMMAND", "", "run one without telling the model"),
        ("@PATH", "", "attach a file"),
    ]
    if wanted:
        rows = [row for row in rows if row[0] == f"/{wanted}"]
        if not rows:
            raise ConfigError(f"there is no command /{wanted}; /help lists them")
    return Table(("command", "arguments", "what it does"), tuple(rows), "Commands")


async def context(seat: SlashContext, _: str) -> CommandResult:
    """How full the model's window is, and with what."""
    room = seat.room
    agent, status = room.conversation.agent, room.status()
    meter = TokenEstimator()
    messages = [m for m in agent.messages if isinstance(m, Message)]
    results = [m for m in messages if m.tool_results]
    parts = {
        "system prompt": estimate_overhead(agent.context.system, ()),
        "tools": estimate_overhead("", agent.tools.specs),
        "tool results": meter.tokens(results),
        "messages": meter.tokens([m for m in messages if not m.tool_results]),
    }
    window = status.context_window
    share = f" ({status.context_used / window:.0%})" if window else ""
    used = f"{status.context_used:,} of {f'{window:,}' if window else 'an unknown number of'} tokens{share}"
    fields = [("used", used), *[(name, f"about {tokens:,} tokens") for name, tokens in parts.items()]]
    return Fields((*fields, ("messages", f"{len(messages)}")), "Context")


async def show_cost(seat: SlashContext, _: str) -> CommandResult:
    """What the conversation has cost so far, sub-agents included, and where it ends."""
    room = seat.room
    status, agent = room.status(), room.conversation.agent
    behavior = agent.behavior.resolved()
    money = "unknown: the model has no known price" if status.cost is None else f"${status.cost:.4f}"
    fields = [("cost", money), ("tokens", f"{status.tokens:,}")]
    if behavior.max_cost is not None:
        fields.append(("limit of a run", f"${behavior.max_cost:.2f}"))
    if behavior.max_total_tokens is not None:
        fields.append(("limit of a run", f"{behavior.max_total_tokens:,} tokens"))
    budget = behavior.session_budget
    if budget is not None and budget.max_cost is not None:
        fields.append(("limit of the conversation", f"${budget.max_cost:.2f}"))
    return Fields(tuple(fields), "Cost")


async def copy_answer(seat: SlashContext, arguments: str) -> CommandResult:
    """The last answer, or the one before it, for the clipboard."""
    number = arguments.strip() or "1"
    answers = [
        m.text
        for m in reversed(seat.room.conversation.agent.messages)
        if isinstance(m, Message) and m.role == "assistant" and m.text
    ]
    if not number.isdecimal() or not 1 <= int(number) <= len(answers):
        raise ConfigError(
            f"there is no answer {number!r} to copy: there {'is' if len(answers) == 1 else 'are'} {pluralize(len(answers), 'answer')}; /copy 1 is the last one"
        )
    return Clipboard(answers[int(number) - 1])


async def tools(seat: SlashContext, _: str) -> CommandResult:
    """The tools that the model may call."""
    registry = seat.room.conversation.agent.tools
    active = set(registry.active)
    rows = [
        (t.name, t.label or t.name, t.source, "" if t.name in active else "off", _first_line(t.description))
        for t in registry
    ]
    return Table(("tool", "shown as", "from", "", "what it does"), tuple(rows), "Tools")


async def show_telemetry(seat: SlashContext, _: str) -> CommandResult:
    """Whether spans and metrics are sent, and where to."""
    wanted = seat.room.conversation.settings.config.telemetry
    if not wanted.enabled:
        return Text("Telemetry is off; nothing is sent. It is switched on by telemetry.enabled in the user's settings.")
    return Fields(
        (
            ("state", "on"),
            ("endpoint", wanted.endpoint or "that of OpenTelemetry's own variables"),
            ("prompts and answers", "sent along" if wanted.enable_sensitive_data else "not sent"),
            ("names", wanted.span_names),
        ),
        "Telemetry",
    )


async def quit_chat(_: SlashContext, __: str) -> CommandResult:
    """The end."""
    return Screen("quit")


def _first_line(text: str) -> str:
    return shorten(text.split("\n\n")[0], 120, placeholder=" …")


INFO_COMMANDS = (
    SlashCommand(name="help", summary="the commands", arguments="[COMMAND]", run=show_help),
    SlashCommand(name="context", summary="how full the model's window is, and with what", run=context),
    SlashCommand(name="cost", summary="what was spent so far, and the limits", run=show_cost),
    SlashCommand(name="copy", summary="the last answer to the clipboard", arguments="[N]", run=copy_answer),
    SlashCommand(name="tools", summary="what the model may call", run=tools),
    SlashCommand(name="telemetry", summary="whether spans and metrics are sent, and where to", run=show_telemetry),
    SlashCommand(name="quit", summary="leave", run=quit_chat),
)
"""The commands of this file."""


async def skills(seat: SlashContext, _: str) -> CommandResult:
    """The skills there are."""
    await seat.room.warm_up()
    rows = tuple([(f"/{SKILL_PREFIX}{name}", about) for name, about in list_skills(seat.room)])
    return Table(("skill", "what it is for"), rows, "Skills", "there are no skills here")


async def mcp(seat: SlashContext, _: str) -> CommandResult:
    """The MCP servers, and how they are."""
    await seat.room.warm_up()
    plug = find_mcp_plug(seat.room)
    servers = plug.servers if plug is not None else ()
    tools = [tool.source for tool in seat.room.conversation.agent.tools]
    rows = tuple(
        [
            (s.name, s.status, str(tools.count(f"mcp:{s.name}")), str(s.error) if s.error is not None else "")
            for s in servers
        ]
    )
    return Table(("server", "state", "tools", "problem"), rows, "MCP servers", "no MCP servers are set up")


PLUGIN_COMMANDS = (
    SlashCommand(name="skills", summary="the skills there are", run=skills),
    SlashCommand(name="mcp", summary="the MCP servers, and how they are", run=mcp),
)
"""The commands of this file."""
