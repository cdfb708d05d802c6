"""The active skills, where the model reads their text, and the tools that they allow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mainspring.errors import ConfigError
from mainspring.globs import matches_any
from mainspring.lazy import lazy_re
from mainspring.loop.hooks import PermissionCheck, ToolGate
from mainspring.loop.hooks.features import SkillActivationSource
from mainspring.messages import AgentMessage, Message, TextBlock, ToolResultBlock
from mainspring.permissions import PermissionEngine, PermissionRule, RuleSet, ToolCall, parse_rule
from mainspring.permissions.paths import ProjectPaths
from mainspring.permissions.sensitive_paths import PathGroup, SensitivePaths
from mainspring.policies.structured.options import OUTPUT_TOOL
from mainspring.skills.skill import Skill
from mainspring.tools.names import COMMON_ALIASES

REACTIVATED_NOTE = "[The skill {name} is active again; its instructions stand above, unchanged.]"
"""Added to the history for a skill that the host activates while its text is already there."""


class ActiveSkill(Struct, eq=False):
    """An active skill.

    Attributes:
        skill: The skill.
        via: What activated it.
        text: The text for the model.
        restricts: Whether its ``allowed-tools`` apply. False for a skill that a trigger activated, until the model or user uses it.
        asserted: Whether the host requested it again, so that it stays active after the run.
        pending: Whether its text, or the note that it is active again, must still join the conversation.
        shown: Whether a request contained its text.
        carrier: The message of the history with its text.
        lost: Whether no message of the history has its text.
        tools: Names of the tools of its toolsets.
        toolsets: Its toolsets, which must be closed.
        turn_id: The turn in which the model activated it. Calls of that turn were judged before, so none may use it.
    """

    skill: Skill
    via: SkillActivationSource
    text: str
    restricts: bool = True
    asserted: bool = False
    pending: bool = False
    shown: bool = False
    carrier: Message | None = None
    lost: bool = False
    tools: list[str] = field(default_factory=list[str])
    toolsets: list[Any] = field(default_factory=list[Any])
    turn_id: str = ""
    _own: Message | None = None

    @property
    def message(self) -> Message:
        """Its text as a message. Always the same object."""
        if self._own is None:
            self._own = Message.user(self.text)
        return self._own

    @property
    def pending_message(self) -> Message:
        """The message to add: its text, or a note if the history contains the text from an earlier run."""
        return self.message if self.carrier is None else Message.user(REACTIVATED_NOTE.format(name=self.skill.name))

    def is_in(self, message: AgentMessage) -> bool:
        """Return True if a message contains its text."""
        if self.carrier is not None:
            return message is self.carrier
        return contains_text(message, self.text)

    def find_carrier(self, messages: Sequence[AgentMessage]) -> None:
        """Find the message with its text, newest first."""
        self.carrier = next(
            (m for m in reversed(messages) if isinstance(m, Message) and contains_text(m, self.text)), None
        )
        self.lost = self.carrier is None


class ActiveSkills:
    """The active skills of one agent, in the order of activation.

    Args:
        limit: Maximum number of active skills. ``None`` for no limit.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.max_active = limit
        self._active: dict[str, ActiveSkill] = {}

    @property
    def is_full(self) -> bool:
        """Whether no more skills can become active."""
        return self.max_active is not None and len(self._active) >= self.max_active

    def get(self, name: str) -> ActiveSkill | None:
        """Return an active skill by name."""
        return self._active.get(name)

    def add(self, activation: ActiveSkill) -> None:
        """Activate a skill."""
        self._active[activation.skill.name] = activation

    def remove(self, name: str) -> ActiveSkill | None:
        """Deactivate a skill and return it."""
        return self._active.pop(name, None)

    def __iter__(self) -> Iterator[ActiveSkill]:
        return iter(tuple(self._active.values()))

    def __len__(self) -> int:
        return len(self._active)

    def __contains__(self, name: object) -> bool:
        return name in self._active

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the active skills."""
        return tuple(self._active)


def contains_text(message: AgentMessage, text: str) -> bool:
    """Return True if a block of a message contains a text."""
    return isinstance(message, Message) and any(text in t for b in message.content if (t := _text(b)) is not None)


def restore_text(message: Message, carrier: Message, text: str) -> Message:
    """Return a message with the original block that contains the text, in place of a shortened one."""
    restored = {b.tool_use_id: b for b in carrier.tool_results if text in b.text}
    if not restored:
        return carrier
    content = [restored.get(b.tool_use_id, b) if isinstance(b, ToolResultBlock) else b for b in message.content]
    return replace(message, content=tuple(content))


def _text(block: object) -> str | None:
    if isinstance(block, TextBlock):
        return block.text
    return block.text if isinstance(block, ToolResultBlock) else None


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
_NOTHING = PathGroup.compile(())
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
    rules: tuple[PermissionRule, ...] = ()
    odd: tuple[str, ...] = ()

    def names(self, tool: str) -> bool:
        """Return True if every call of a tool is allowed."""
        return matches_any(tool, self.tools)


@lru_cache(256)
def parse_allowed_tools(entries: tuple[str, ...]) -> AllowedTools:
    """Parse ``allowed-tools``: tool names, ours or those of other programs, and rules such as ``Bash(git:*)``."""
    tools: list[str] = []
    rules: list[PermissionRule] = []
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
        parent: The gate of the parent agent. What it denies is denied here, too.
    """

    def __init__(self, active: ActiveSkills, parent: AllowedToolsGate | None = None) -> None:
        self._active = active
        self._parent_gate = parent

    def iter_restricting(self) -> Iterator[list[ActiveSkill]]:
        """The skills that restrict tools, for this agent and each of its parents."""
        restricting = [a for a in self._active if a.restricts and a.skill.allowed_tools is not None]
        if restricting:
            yield restricting
        if self._parent_gate is not None:
            yield from self._parent_gate.iter_restricting()

    def on_tool_gate(self, hook: ToolGate) -> None:
        """Handler of `tool:gate`: blocks tools that no active skill names."""
        if hook.name in _ALWAYS_ALLOWED or hook.block or hook.result is not None:
            return
        for active in self.iter_restricting():
            if not any(a.names(hook.name) or _applies_to(a.rules, hook.name) for a in _allowances(active, hook.name)):
                hook.block = _reason(active, hook.display_name)
                return

    async def on_tool_permit(self, hook: PermissionCheck) -> None:
        """Handler of `tool:permit`: denies calls that no active skill allows, based on the final arguments."""
        if hook.name in _ALWAYS_ALLOWED:
            return
        for active in self.iter_restricting():
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


def _applies_to(rules: Iterable[PermissionRule], tool: str) -> bool:
    return matches_any(tool, (rule.tool for rule in rules))


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
    return f"this call of {tool} is not among what the active {verb} ({names}: {allowed[:500]}). Continue without it"
