"""Commands about what may happen: permissions, trust, configuration, memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from mainspring.app.chat.command_results import Choice, CommandResult, Fields, Picker, Table, Text
from mainspring.app.chat.slash.base import SlashCommand, SlashContext
from mainspring.app.workspace.grants import GrantEffect
from mainspring.app.workspace.manage_settings import change_config, describe_settings
from mainspring.app.workspace.memory import add_memory, list_memory_files
from mainspring.app.workspace.permissions import explain
from mainspring.app.workspace.saved_rules import REACHES, Reach, pick
from mainspring.app.workspace.trust import TrustStore
from mainspring.app.workspace.trust_actions import (
    list_active_content,
    list_trusted_folders,
    trust_folder,
    untrust_folder,
)
from mainspring.errors import ConfigError
from mainspring.permissions import Rule, RuleSet, SessionGrant, find_unused_rules


class _Grant(Struct, frozen=True):
    """Something that was granted or denied, and that can be revoked.

    Attributes:
        effect: Whether it allows or denies.
        text: The rule, or the action and its object.
        reach: Where it applies.
        place: Where it is stored.
        what: The saved rule or the session grant; None for all edits in the session.
    """

    effect: str
    text: str
    reach: str
    place: str
    what: Rule | SessionGrant | None = None


_ALL_EDITS = "all edits in this project"
_SESSION = ("this session", "memory, until the session ends")
_USAGE = (
    "Use /permissions, /permissions allow [--global] RULE, /permissions deny [--global] RULE, "
    "/permissions revoke NUMBER or RULE, or /permissions explain TOOL ARGUMENTS."
)


async def permissions(seat: SlashContext, arguments: str) -> CommandResult:
    """List what is granted and the rules in force; grant, deny, revoke, or explain."""
    verb, _, rest = arguments.strip().partition(" ")
    rest = rest.strip()
    match verb:
        case "":
            return _listed(seat)
        case "allow" | "deny" if rest:
            reach, text = _reach(rest)
            return await _add_rule(seat, reach, verb, text)
        case "revoke":
            return await _revoke(seat, rest) if rest else _choose_grant(seat)
        case "explain" if rest:
            tool, _, given = rest.partition(" ")
            return await _explain(seat, tool, given)
        case _:
            raise ConfigError(_USAGE)


def _reach(text: str) -> tuple[Reach, str]:
    word, _, rest = text.partition(" ")
    if word != "--global":
        return "project", text
    if not rest.strip():
        raise ConfigError(_USAGE)
    return "everywhere", rest.strip()


def _grants(seat: SlashContext) -> list[_Grant]:
    """Return what can be revoked: saved rules, then what was granted for the session."""
    held = seat.room.conversation.permissions
    files = seat.room.approvals.files
    found: list[_Grant] = []
    for rule in files.saved(held.engine.rules):
        reach = files.reach_of(rule)
        found.append(_Grant(rule.effect, rule.text, REACHES[reach] if reach else "", str(files.file(rule)), rule))
    if held.accept_edits:
        found.append(_Grant("allow", _ALL_EDITS, *_SESSION))
    found += [_Grant("allow", f"{grant.action} {grant.resource}", *_SESSION, grant) for grant in held.session_grants]
    return found


def _listed(seat: SlashContext) -> CommandResult:
    grants = _grants(seat)
    rows = [(str(i), each.effect, each.text, each.reach, each.place) for i, each in enumerate(grants, 1)]
    others = [
        r for r in seat.room.conversation.permissions.engine.rules if seat.room.approvals.files.reach_of(r) is None
    ]
    rows += [("", rule.effect, rule.text, _counts(rule), str(rule.origin)) for rule in others]
    return Table(
        ("#", "effect", "rule", "applies to", "stored in"),
        tuple(rows),
        "Permissions (/permissions revoke # revokes one)" if grants else "Permissions",
        "No rules yet. Reading in the project is allowed, everything else asks. "
        "Allow something in this project with: /permissions allow shell(npm test)",
    )


def _choose_grant(seat: SlashContext) -> CommandResult:
    choices = [
        Choice(f"{each.effect} {each.text}", f"/permissions revoke {i}", each.reach)
        for i, each in enumerate(_grants(seat), 1)
    ]
    return Picker(
        "Revoke", tuple(choices), 'Nothing is granted yet. Answer an approval with "always", or use /permissions allow.'
    )


async def _add_rule(seat: SlashContext, reach: Reach, effect: GrantEffect, text: str) -> CommandResult:
    room = seat.room
    files = room.approvals.files
    rules = files.parse(reach, effect, (text,))
    unused = find_unused_rules(RuleSet(rules), [t.name for t in room.conversation.agent.tools])
    file = await asyncio.to_thread(files.save, reach, effect, (text,))
    room.conversation.permissions.add(*rules)
    odd = f". No tool fits it now: {unused[0]}" if unused else ""
    return Text(f"Saved for {REACHES[reach]} in {file}: {effect} {text}{odd}")


async def _revoke(seat: SlashContext, wanted: str) -> CommandResult:
    room = seat.room
    held = room.conversation.permissions
    grants = _grants(seat)
    grant = pick(wanted, [each.text for each in grants], grants)
    match grant.what:
        case Rule():
            await asyncio.to_thread(room.approvals.files.remove, grant.what)
            held.remove(*room.approvals.files.same(grant.what, held.engine.rules))
        case SessionGrant():
            held.revoke(grant.what)
        case _:
            room.set_mode("build")
    return Text(f"Revoked for {grant.reach}: {grant.effect} {grant.text}")


async def _explain(seat: SlashContext, tool: str, arguments: str) -> CommandResult:
    options = seat.room.options
    found = await explain(tool, arguments, options.ask.place, options.ask.rules, options.environ)
    fields = [("outcome", found.outcome), ("why", found.reason)]
    if found.rule is not None:
        fields.append(("rule", f"{found.rule.effect} {found.rule.rule} ({found.rule.origin})"))
    fields += [(f"{part.scope} {part.resource}", f"{part.outcome}: {part.reason}") for part in found.parts]
    return Fields(tuple(fields), f"{found.tool} {arguments}".strip())


def _counts(rule: Rule) -> str:
    return "" if rule.effect != "allow" or rule.origin.trusted else "nothing: the folder is not trusted"


async def handle_trust(seat: SlashContext, arguments: str) -> CommandResult:
    """Whether the folder is trusted; trust it, or no more."""
    options = seat.room.options
    cwd = seat.room.conversation.env.cwd
    wanted = arguments.strip().lower()
    again = "what the folder brings is read when the next conversation begins (/clear)"
    if wanted in ("yes", "on"):
        path = await asyncio.to_thread(trust_folder, cwd, options.ask.place, options.environ)
        acts = await asyncio.to_thread(list_active_content, cwd, options.ask.place, options.environ)
        lines = [f"{act.file}: {line}" for act in acts for line in act.what]
        return Text("\n".join([f"{path} is trusted from now on; {again}", *lines]))
    if wanted in ("no", "off"):
        path, known = await asyncio.to_thread(untrust_folder, cwd, options.ask.place, options.environ)
        return Text(f"{path} is trusted no more; {again}" if known else f"{path} was not trusted by name")
    if wanted:
        raise ConfigError("/trust tells, /trust yes trusts the folder, /trust no does no more")
    covered = await asyncio.to_thread(TrustStore(seat.room.conversation.settings.home).covers, cwd)
    listed = await asyncio.to_thread(list_trusted_folders, options.environ)
    rows = tuple([(entry.folder, f"{entry.since:%Y-%m-%d}") for entry in listed])
    return Table(
        ("folder", "since"), rows, f"{cwd} is {'trusted' if covered else 'not trusted'}", "no folder is trusted"
    )


async def config(seat: SlashContext, arguments: str) -> CommandResult:
    """The settings, and where each comes from; or another value."""
    options = seat.room.options
    key, _, value = arguments.strip().partition(" ")
    if value.strip():
        file = await asyncio.to_thread(change_config, key, value.strip(), options.environ)
        return Text(f"{key} is set in {file}; it holds from the next conversation on (/clear)")
    shown = await asyncio.to_thread(describe_settings, options.ask.place, options.environ)
    rows = [
        (s.key, str(s.value), s.origin) for s in shown.settings if key in ("", s.key) or s.key.startswith(f"{key}.")
    ]
    return Table(
        ("setting", "value", "from"), tuple(rows), "Settings", "nothing is set" if not key else f"{key} is not set"
    )


async def _keys(seat: SlashContext) -> Sequence[tuple[str, str]]:
    options = seat.room.options
    shown = await asyncio.to_thread(describe_settings, options.ask.place, options.environ)
    return [(s.key, str(s.value)) for s in shown.settings]


async def handle_memory(seat: SlashContext, arguments: str) -> CommandResult:
    """What is remembered; or something more to remember."""
    options = seat.room.options
    note = arguments.strip().removeprefix("add ").strip()
    if note:
        return Text(await add_memory(note, options.ask.place, environ=options.environ))
    found = await asyncio.to_thread(list_memory_files, options.ask.place, options.environ)
    parts = [
        f"## {m.where}: {m.path}{'' if m.read else ' (not read: the folder is not trusted)'}\n\n{m.text or '(empty)'}"
        for m in found
    ]
    return Text("\n\n".join(parts) or "there is no place for memory here", "Memory", markdown=True)


WORKSPACE_COMMANDS = (
    SlashCommand(
        name="permissions",
        summary="what is granted and the rules in force; allow, deny, revoke, explain",
        arguments="[allow RULE | deny RULE | revoke NUMBER | explain TOOL ARGUMENTS]",
        run=permissions,
        complete=lambda _: _complete_words("allow", "deny", "revoke", "explain"),
    ),
    SlashCommand(
        name="trust",
        summary="whether the folder is trusted",
        arguments="[yes | no]",
        run=handle_trust,
        complete=lambda _: _complete_words("yes", "no"),
    ),
    SlashCommand(
        name="config",
        summary="the settings and where they come from",
        arguments="[KEY [VALUE]]",
        run=config,
        complete=_keys,
    ),
    SlashCommand(name="memory", summary="what is remembered; or remember more", arguments="[NOTE]", run=handle_memory),
)
"""The commands of this file."""


async def _complete_words(*names: str) -> Sequence[tuple[str, str]]:
    return [(name, "") for name in names]
