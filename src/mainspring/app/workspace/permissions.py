"""Show permission rules, and explain their decision about a tool call."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, structs

from mainspring.app.run.options import PermissionFlags, WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.saved_rules import (
    GRANTS_FILE_NAME as GRANTS,
    REACHES,
    GrantEffect,
    GrantStore,
    Reach,
    RuleFiles,
)
from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.skills import SKILL_TOOL_NAMES
from mainspring.app.workspace.trust import TRUST_FILE as TRUST
from mainspring.env import LocalEnv
from mainspring.errors import ConfigError
from mainspring.memory import MEMORY_TOOL
from mainspring.permissions import (
    PermissionDecision,
    PermissionRule,
    Permissions,
    RuleSet,
    RuleSource,
    describe_unused_rules,
)
from mainspring.subagents import SPAWN_TOOL
from mainspring.tools import Tool
from mainspring.tools.builtin import ALL_TOOL_NAMES, COMMON_ALIASES, builtin_tools


class RuleView(Struct, frozen=True, kw_only=True):
    """A permission rule in a list.

    Attributes:
        effect: ``deny``, ``ask``, or ``allow``.
        rule: Text of the rule.
        origin: A flag, or the file and key that contains it.
        counts: Whether it is active; rules that allow more are inactive if the folder is not trusted.
        number: Number by which it can be revoked; 0 for a rule that the command does not save.
        applies: ``this project`` or ``every project``, for a saved rule.
    """

    effect: str
    rule: str
    origin: str
    counts: bool = True
    number: int = 0
    applies: str = ""


class PartDecision(Struct, frozen=True, kw_only=True):
    """The decision about one part of a call: a simple command, a path, or a host."""

    scope: str
    resource: str
    outcome: str
    reason: str
    rule: RuleView | None = None
    allow: tuple[str, ...] = ()


class CallExplanation(Struct, frozen=True, kw_only=True):
    """The decision about a call.

    Attributes:
        tool: Tool name.
        outcome: ``allow``, ``ask`` (denied in print mode), or ``deny``.
        reason: Reason of the deciding part.
        rule: Rule that decided, or None.
        parts: Parts of the call, each with its decision; a shell line has one for each simple command.
        advice: For ``ask``: sets of rules that each allow the whole call, the narrowest first.
    """

    tool: str
    outcome: str
    reason: str
    rule: RuleView | None
    parts: tuple[PartDecision, ...]
    advice: tuple[tuple[str, ...], ...] = ()


def active_rules(place: WorkspaceOptions, rules: PermissionFlags) -> list[RuleView]:
    """Return the rules of flags and files: deny, ask, and allow.

    Raises:
        ConfigError: If the settings are invalid.
    """
    cwd, settings = load_rules(place)
    found = build_permissions(settings, rules, cwd).engine.rules
    files = RuleFiles(settings.home, cwd)
    saved = files.saved(found)
    order = ("deny", "ask", "allow")
    views: list[RuleView] = []
    for rule in found:
        number = next((i for i, each in enumerate(saved, 1) if each is rule), 0)
        reach = files.reach_of(rule) if number else None
        views.append(structs.replace(_view(rule), number=number, applies=REACHES[reach] if reach else ""))
    return sorted(views, key=lambda v: order.index(v.effect))


KNOWN_TOOL_NAMES = (*ALL_TOOL_NAMES, *SKILL_TOOL_NAMES, MEMORY_TOOL, SPAWN_TOOL)
"""The tools of every installation. Extensions and MCP servers add others."""


def find_rule_problems(settings: Settings, cwd: str) -> tuple[str, ...]:
    """Return a notice about each rule, of the settings or saved for a folder, that names no known tool.

    Raises:
        ConfigError: If a rule is invalid.
    """
    return describe_unused_rules(build_permissions(settings, PermissionFlags(), cwd).engine.rules, KNOWN_TOOL_NAMES)


def save_rule(
    effect: GrantEffect, rule: str, place: WorkspaceOptions, *, everywhere: bool = False
) -> tuple[Path, tuple[str, ...]]:
    """Save a rule for the project, or for every project. Return the file, and a notice if the rule names no known tool.

    Raises:
        ConfigError: If the rule is not valid, or the file cannot be read or written.
    """
    cwd, settings = load_rules(place)
    files = RuleFiles(settings.home, cwd)
    reach: Reach = "everywhere" if everywhere else "project"
    notices = describe_unused_rules(RuleSet(files.parse(reach, effect, (rule,))), KNOWN_TOOL_NAMES)
    return files.save(reach, effect, (rule,)), notices


def revoke_rule(rule_text: str, place: WorkspaceOptions) -> tuple[RuleView, Path]:
    """Remove a saved rule by its number or its text. Return the rule and the file that stored it.

    Raises:
        ConfigError: If no saved rule has it, or the file cannot be read or written.
    """
    cwd, settings = load_rules(place)
    files = RuleFiles(settings.home, cwd)
    rule = files.named(build_permissions(settings, PermissionFlags(), cwd).engine.rules, rule_text)
    return _view(rule), files.remove(rule)


async def explain_permission(
    tool: str, arguments: str, place: WorkspaceOptions, rules: PermissionFlags, environ: Mapping[str, str] = os.environ
) -> CallExplanation:
    """Explain the decision about a call, without making it.

    Args:
        tool: Tool name; an unknown tool is evaluated by its name and arguments.
        arguments: JSON object, or the value of the main argument of a built-in tool.
        place: Workspace options.
        rules: Rules of the command line.
        environ: Environment variables.

    Raises:
        ConfigError: If the arguments or the settings are invalid.
    """
    cwd, settings = load_rules(place, environ=environ)
    known = {t.name: t for t in builtin_tools(include_optional=True)}
    name = tool if tool in known else COMMON_ALIASES.get(tool, tool)
    definition = known.get(name)
    given = _arguments(definition, arguments)
    env = LocalEnv(cwd)
    try:
        decision = await build_permissions(settings, rules, cwd).decide(
            name, given, env=env, definition=definition, advise=True
        )
    finally:
        await env.aclose()
    return _explanation(decision)


def _arguments(tool: Tool | None, text: str) -> dict[str, Any]:
    stripped = text.strip()
    if stripped.startswith("{"):
        try:
            value: Any = json.loads(stripped)
        except ValueError as error:
            raise ConfigError(f"The arguments are not a JSON object: {error}") from None
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    if tool is None:
        return {"argument": text} if stripped else {}
    names = list(tool.input_schema.get("properties", {}))
    first = next((n for n in ("command", "path", "url") if n in names), names[0] if names else "argument")
    return {first: text} if stripped else {}


def _explanation(decision: PermissionDecision) -> CallExplanation:
    return CallExplanation(
        tool=decision.tool,
        outcome=decision.outcome,
        reason=decision.reason,
        rule=_view_or_none(decision.rule),
        advice=decision.advice,
        parts=tuple(
            PartDecision(
                scope=v.scope,
                resource=v.resource,
                outcome=v.outcome,
                reason=v.reason,
                rule=_view_or_none(v.rule),
                allow=v.allow,
            )
            for v in decision.verdicts
        ),
    )


def _view_or_none(rule: PermissionRule | None) -> RuleView | None:
    return None if rule is None else _view(rule)


def _view(rule: PermissionRule) -> RuleView:
    counts = rule.effect != "allow" or rule.origin.trusted
    return RuleView(effect=rule.effect, rule=rule.text, origin=str(rule.origin), counts=counts)


def build_permissions(settings: Settings, rules: PermissionFlags, cwd: str, **options: Any) -> Permissions:
    """Create the permissions plugin with the rules of flags and files.

    Raises:
        ConfigError: If a rule is invalid; the message contains its origin.
    """
    found = RuleSet()
    for effect in ("deny", "ask", "allow"):
        found += RuleSet.build(origin=RuleSource("flag", f"--{effect}"), **{effect: getattr(rules, effect)})
    for source in settings.rules:
        section = {"allow": source.rules.allow, "ask": source.rules.ask, "deny": source.rules.deny}
        found += RuleSet.from_settings(section, kind=source.kind, place=source.place, trusted=source.trusted)
    home = settings.home
    found += GrantStore(home).rules(cwd)
    own = [] if home is None else [home.settings, home.root / GRANTS, home.root / TRUST]
    guarded = {path for file in own for path in (str(file), os.path.realpath(file))}
    return Permissions(rules=found, root=cwd, guarded=sorted(guarded), **options)
