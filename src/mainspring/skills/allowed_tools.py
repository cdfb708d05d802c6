"""``allowed-tools``: while skills with such a list are active, only the tools that one of them names may be called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from mainspring.errors import ConfigError
from mainspring.lazy import lazy_re
from mainspring.loop.hooks import PermissionCheck, ToolGate
from mainspring.permissions import PermissionEngine, Rule, RuleSet, ToolCall, parse_rule
from mainspring.permissions.paths import ProjectPaths
from mainspring.permissions.sensitive_paths import PathGroup, SensitivePaths
from mainspring.policies.structured import OUTPUT_TOOL
from mainspring.skills.active import ActiveSkill, ActiveSkills
from mainspring.tools.builtin import COMMON_ALIASES

SKILL_TOOLS = ("skills_use", "skills_read", "skills_run_script")
"""Tools that every skill allows."""

LOAD_SKILL_ALIAS = "load_skill"
"""Another name for ``skills_use`` that some models use."""

_ALWAYS_ALLOWED = frozenset(
    (*SKILL_TOOLS, LOAD_SKILL_ALIAS, OUTPUT_TOOL)
)  # Without the last one, no run could return its output.

_TOOL_ALIASES: dict[str, tuple[str, ...]] = {
    **{name: (own,) for name, own in COMMON_ALIASES.items()},
    "bash": ("shell", "jobs"),
    "shell": ("shell", "jobs"),
    "bashoutput": ("jobs",),
    "killshell": ("jobs",),
    "edit": ("edit", "multi_edit", "apply_patch"),
    "multiedit": ("multi_edit",),
    "ls": ("list_files",),
    "agent": ("spawn",),
    "askuserquestion": ("ask_user",),
    "exitplanmode": ("present_plan",),
    "skill": SKILL_TOOLS,
}
"""Tool names of other programs in lower case, and ours."""

_ENTRY = lazy_re(r"\s*([A-Za-z0-9_*][\w.:*/-]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_NOTHING = PathGroup.of(())
_ENGINE = PermissionEngine(
    mode="ask", sensitive=SensitivePaths(_NOTHING, _NOTHING, _NOTHING, _NOTHING), reads_free=False
)


class AllowedTools(Struct, frozen=True):
    """A parsed ``allowed-tools`` list.

    Attributes:
        tools: Names of tools that may be called with any arguments. ``*`` matches any characters.
        rules: Rules for tools with restricted arguments.
        odd: Entries that were not understood. They allow nothing.
    """

    tools: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    odd: tuple[str, ...] = ()

    def names(self, tool: str) -> bool:
        """Return True if every call of a tool is allowed."""
        return any(fnmatchcase(tool, name) for name in self.tools)


@lru_cache(256)
def parse_allowed_tools(entries: tuple[str, ...]) -> AllowedTools:
    """Parse ``allowed-tools``: tool names, ours or those of other programs, and rules such as ``Bash(git:*)``."""
    tools: list[str] = []
    rules: list[Rule] = []
    odd: list[str] = []
    for entry in entries:
        found = _ENTRY.fullmatch(entry)
        if found is None:
            odd.append(entry)
            continue
        names = _own_names(found[1])
        pattern = (found[2] or "").strip()
        if pattern in ("", "*", "**", ":*"):
            tools += names
            continue
        try:
            rules += [parse_rule(f"{name}({_own_pattern(name, pattern)})", "allow") for name in names if name != "jobs"]
        except ConfigError:
            odd.append(entry)
            continue
        tools += [name for name in names if name == "jobs"]  # It controls what shell started.
    return AllowedTools(tuple(dict.fromkeys(tools)), tuple(rules), tuple(odd))


def _own_names(name: str) -> tuple[str, ...]:
    return _TOOL_ALIASES.get(name.lower().replace("_", ""), _TOOL_ALIASES.get(name.lower(), (_lower(name),)))


def _lower(name: str) -> str:
    """Return the name of a built-in tool in lower case. Names of MCP tools are unchanged."""
    return name.lower() if "__" not in name and name.isalpha() else name


def _own_pattern(tool: str, pattern: str) -> str:
    """Convert a pattern to our rules: ``git:*`` matches everything that starts with ``git``."""
    if tool == "shell" and pattern.endswith(":*"):
        return f"{pattern[:-2].rstrip()} *"
    return pattern


class AllowedToolsGate:
    """Restricts calls to those that active skills allow. A skill without a list neither allows nor denies.

    Args:
        active: The active skills.
        above: The gate of the parent agent. What it denies is denied here, too.
    """

    def __init__(self, active: ActiveSkills, above: AllowedToolsGate | None = None) -> None:
        self._active = active
        self._above = above

    def levels(self) -> Iterator[list[ActiveSkill]]:
        """The skills that restrict tools, for this agent and each of its parents."""
        restricting = [a for a in self._active if a.restricts and a.skill.allowed_tools is not None]
        if restricting:
            yield restricting
        if self._above is not None:
            yield from self._above.levels()

    def gate(self, hook: ToolGate) -> None:
        """Handler of `tool:gate`: blocks tools that no active skill names."""
        if hook.name in _ALWAYS_ALLOWED or hook.block:
            return
        for active in self.levels():
            if not any(a.names(hook.name) or _applies_to(a.rules, hook.name) for a in _allowances(active, hook.name)):
                hook.block = _reason(active, hook.display_name)
                return

    async def permit(self, hook: PermissionCheck) -> None:
        """Handler of `tool:permit`: denies calls that no active skill allows, based on the final arguments."""
        if hook.name in _ALWAYS_ALLOWED:
            return
        for active in self.levels():
            allowances = list(_allowances(active, hook.name))
            if any(a.names(hook.name) for a in allowances):
                continue
            if not await _is_allowed_by_rules(RuleSet(tuple(r for a in allowances for r in a.rules)), hook):
                hook.deny(_reason(active, hook.display_name))
                return


def _allowances(active: Iterable[ActiveSkill], tool: str) -> Iterator[AllowedTools]:
    for each in active:
        found = parse_allowed_tools(each.skill.allowed_tools or ())
        yield AllowedTools((*found.tools, tool), found.rules) if tool in each.tools else found


def _applies_to(rules: Iterable[Rule], tool: str) -> bool:
    return any(fnmatchcase(tool, rule.tool) for rule in rules)


async def _is_allowed_by_rules(rules: RuleSet, hook: PermissionCheck) -> bool:
    """Return True if rules allow every part of the call."""
    if not rules:
        return False
    place = await ProjectPaths.find(hook.env, root=None, home=None)
    engine = PermissionEngine(rules=rules, mode=_ENGINE.mode, sensitive=_ENGINE.sensitive, reads_free=False)
    call = ToolCall(hook.name, hook.input, hook.tool)
    return (await engine.decide(call, hook.env, place, original=hook.original)).outcome == "allow"


def _reason(active: Iterable[ActiveSkill], tool: str) -> str:
    listed = list(active)
    names = ", ".join(a.skill.name for a in listed)
    allowed = ", ".join(dict.fromkeys(t for a in listed for t in a.skill.allowed_tools or ())) or "no tools"
    verb = "skill allows" if len(listed) == 1 else "skills allow"
    return f"this call of {tool} is not among what the active {verb} ({names}: {allowed[:500]}). Go on without it"
