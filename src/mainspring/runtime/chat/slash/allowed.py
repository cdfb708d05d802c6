"""Commands about what may happen: permissions, trust, configuration, memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

from mainspring.errors import ConfigError
from mainspring.permissions import Rule, RuleSet, rules_without_tool
from mainspring.runtime.saved_rules import parsed_rules, save_rules
from mainspring.runtime.chat.shown import Fields, Shown, Table, Text
from mainspring.runtime.chat.slash.command import Seat, SlashCommand
from mainspring.runtime.commands.config import change_config, show_config
from mainspring.runtime.commands.memory import add_memory, show_memory
from mainspring.runtime.commands.permissions import explain
from mainspring.runtime.commands.trust import distrust, trust, trusted_folders, what_acts
from mainspring.runtime.trust import TrustStore


async def permissions(seat: Seat, arguments: str) -> Shown:
    """The rules in force; a new one; or what would become of a call."""
    verb, _, rest = arguments.strip().partition(" ")
    match verb:
        case "":
            rules = seat.room.conversation.permissions.engine.rules
            rows = [(rule.effect, rule.text, str(rule.origin), _counts(rule)) for rule in rules]
            return Table(
                ("effect", "rule", "from", ""),
                tuple(rows),
                "Rules in force",
                "no rules: reading in the project is allowed, all else asks",
            )
        case "allow" | "deny" if rest.strip():
            return await _add(seat, verb, rest.strip())
        case "explain" if rest.strip():
            tool, _, given = rest.strip().partition(" ")
            return await _explain(seat, tool, given)
        case _:
            raise ConfigError(
                "/permissions, /permissions allow RULE, /permissions deny RULE, /permissions explain TOOL ARGUMENTS"
            )


async def _add(seat: Seat, effect: Literal["allow", "deny"], text: str) -> Shown:
    room = seat.room
    home = room.conversation.settings.home
    rules = parsed_rules((text,), effect, home)
    unused = rules_without_tool(RuleSet(rules), [t.name for t in room.conversation.agent.tools])
    file = await asyncio.to_thread(save_rules, home, effect, (text,))
    room.conversation.permissions.add(*rules)
    odd = f"; no tool fits it now: {unused[0]}" if unused else ""
    return Text(f"{effect} {text}: saved in {file}{odd}")


async def _explain(seat: Seat, tool: str, arguments: str) -> Shown:
    options = seat.room.options
    found = await explain(tool, arguments, options.ask.place, options.ask.rules, options.environ)
    fields = [("outcome", found.outcome), ("why", found.reason)]
    if found.rule is not None:
        fields.append(("rule", f"{found.rule.effect} {found.rule.rule} ({found.rule.origin})"))
    fields += [(f"{part.scope} {part.resource}", f"{part.outcome}: {part.reason}") for part in found.parts]
    return Fields(tuple(fields), f"{found.tool} {arguments}".strip())


def _counts(rule: Rule) -> str:
    return "" if rule.effect != "allow" or rule.origin.trusted else "does not count: the folder is not trusted"


async def trust_(seat: Seat, arguments: str) -> Shown:
    """Whether the folder is trusted; trust it, or no more."""
    options = seat.room.options
    cwd = seat.room.conversation.env.cwd
    wanted = arguments.strip().lower()
    again = "what the folder brings is read when the next conversation begins (/clear)"
    if wanted in ("yes", "on"):
        path = await asyncio.to_thread(trust, cwd, options.ask.place, options.environ)
        acts = await asyncio.to_thread(what_acts, cwd, options.ask.place, options.environ)
        lines = [f"{act.file}: {line}" for act in acts for line in act.what]
        return Text("\n".join([f"{path} is trusted from now on; {again}", *lines]))
    if wanted in ("no", "off"):
        path, known = await asyncio.to_thread(distrust, cwd, options.ask.place, options.environ)
        return Text(f"{path} is trusted no more; {again}" if known else f"{path} was not trusted by name")
    if wanted:
        raise ConfigError("/trust tells, /trust yes trusts the folder, /trust no does no more")
    covered = await asyncio.to_thread(TrustStore(seat.room.conversation.settings.home).covers, cwd)
    listed = await asyncio.to_thread(trusted_folders, options.environ)
    rows = tuple([(entry.folder, f"{entry.since:%Y-%m-%d}") for entry in listed])
    return Table(
        ("folder", "since"), rows, f"{cwd} is {'trusted' if covered else 'not trusted'}", "no folder is trusted"
    )


async def config(seat: Seat, arguments: str) -> Shown:
    """The settings, and where each comes from; or another value."""
    options = seat.room.options
    key, _, value = arguments.strip().partition(" ")
    if value.strip():
        file = await asyncio.to_thread(change_config, key, value.strip(), options.environ)
        return Text(f"{key} is set in {file}; it holds from the next conversation on (/clear)")
    shown = await asyncio.to_thread(show_config, options.ask.place, options.environ)
    rows = [
        (s.key, str(s.value), s.origin) for s in shown.settings if key in ("", s.key) or s.key.startswith(f"{key}.")
    ]
    return Table(
        ("setting", "value", "from"), tuple(rows), "Settings", "nothing is set" if not key else f"{key} is not set"
    )


async def _keys(seat: Seat) -> Sequence[tuple[str, str]]:
    options = seat.room.options
    shown = await asyncio.to_thread(show_config, options.ask.place, options.environ)
    return [(s.key, str(s.value)) for s in shown.settings]


async def memory(seat: Seat, arguments: str) -> Shown:
    """What is remembered; or something more to remember."""
    options = seat.room.options
    note = arguments.strip().removeprefix("add ").strip()
    if note:
        return Text(await add_memory(note, options.ask.place, environ=options.environ))
    found = await asyncio.to_thread(show_memory, options.ask.place, options.environ)
    parts = [
        f"## {m.where}: {m.path}{'' if m.read else ' (not read: the folder is not trusted)'}\n\n{m.text or '(empty)'}"
        for m in found
    ]
    return Text("\n\n".join(parts) or "there is no place for memory here", "Memory", markdown=True)


ALLOWED = (
    SlashCommand(
        name="permissions",
        summary="the rules in force; allow, deny, explain",
        arguments="[allow RULE | deny RULE | explain TOOL ARGUMENTS]",
        run=permissions,
        complete=lambda _: _verbs("allow", "deny", "explain"),
    ),
    SlashCommand(
        name="trust",
        summary="whether the folder is trusted",
        arguments="[yes | no]",
        run=trust_,
        complete=lambda _: _verbs("yes", "no"),
    ),
    SlashCommand(
        name="config",
        summary="the settings and where they come from",
        arguments="[KEY [VALUE]]",
        run=config,
        complete=_keys,
    ),
    SlashCommand(name="memory", summary="what is remembered; or remember more", arguments="[NOTE]", run=memory),
)
"""The commands of this file."""


async def _verbs(*names: str) -> Sequence[tuple[str, str]]:
    return [(name, "") for name in names]
