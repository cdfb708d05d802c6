"""Guardrails: destructive calls that need a confirmation even if rules allow them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from mainspring.globs import matches_any
from mainspring.lazy import lazy_re
from mainspring.loop.hooks import PermissionCheck
from mainspring.threads import run_in_thread
from mainspring.tools.interaction import INTERACTION_KEY, Option, UserInteraction, UserQuestion

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent

HOOK_ORDER = -50
"""Before permissions, so that no approval is requested for a call that is denied here."""

_MAX_CHARS = 100_000
_SEPARATOR = r"(?:^|[\s;&|(`])"
_RM = r"(?:^|[\s;&|(`/])rm"
_RECURSIVE = r"(?=[^;&|]* (?:-[a-z]*r[a-z]*|--recursive)(?=$|[\s;&|)]))"
_ABSOLUTE_PATH = r"(?:/|~|\$HOME\b|\$\{HOME\})"
_ROOT_PATHS = r"(?:/|~|/\*|~/\*?|\*|\.|\./?\*?|\.\.|\$HOME/?\*?|\$\{HOME\}/?\*?|/(?:bin|boot|dev|etc|home|lib|opt|root|sbin|srv|sys|usr|var)/?\*?)"


class Guardrail(Struct, frozen=True):
    """A kind of call that needs a confirmation.

    Attributes:
        name: A short name.
        pattern: A regular expression, searched case-insensitively in every text of the call's arguments, after whitespace is
            collapsed and quotes and backslashes are removed.
        why: The effect, for example "it deletes a database".
        tools: Names of the tools that it covers, where ``*`` matches any characters; empty: tools that run commands, and tools
            that do not declare their access.
    """

    name: str
    pattern: str
    why: str
    tools: tuple[str, ...] = ()


DEFAULT_GUARDRAILS: tuple[Guardrail, ...] = (
    Guardrail("rm", rf"{_RM} (?:-\S+ )*-\S*[rf]\S* (?:[^\s;&|]+ )*{_ROOT_PATHS}(?=$|[\s;&|)])", "it deletes a whole tree of files"),
    Guardrail("rm of an absolute path", rf"{_RM}{_RECURSIVE}[^;&|]* {_ABSOLUTE_PATH}", "it deletes a folder by its absolute path"),
    Guardrail("find -delete", rf"{_SEPARATOR}find {_ROOT_PATHS} [^;|&]*-delete", "it deletes a whole tree of files"),
    Guardrail("disk", r"\b(?:mkfs(?:\.\w+)?|wipefs|fdisk|parted) |\bdd [^;|&]*of=/dev/(?!null)|> ?/dev/(?:sd|nvme|hd|vd|disk)", "it overwrites a disk"),
    Guardrail("chmod", rf"{_SEPARATOR}ch(?:mod|own) (?:-\S+ )*-\S*R\S* (?:[^\s;&|]+ )*(?:/|~)(?=$|[\s;&|)])", "it changes the access rights of a whole tree of files"),
    Guardrail("fork bomb", r":\(\) ?\{ ?:", "it starts processes without end"),
    Guardrail("power", rf"{_SEPARATOR}(?:shutdown|reboot|poweroff|halt|init 0)\b", "it stops the machine"),
    Guardrail("pipe to shell", r"\b(?:curl|wget)\b[^;]*\| ?(?:sudo )?(?:ba|z|da|k)?sh\b", "it runs code from a web server"),
    Guardrail("force push", r"\bgit push\b[^;|&]*(?: --force(?!-with-lease)| -f\b| \+\S+)", "it replaces what others may have pushed"),
    Guardrail("drop", r"\bdrop (?:database|schema|table|tablespace)\b", "it deletes a database or a table"),
    Guardrail("truncate", r"\btruncate table\b", "it empties a table"),
    Guardrail("delete all", r"\bdelete from (?:(?!\bwhere\b)[^;])*(?=;|$)", "it deletes every row of a table"),
    Guardrail("update all", r"\bupdate [\w.]+ set (?:(?!\bwhere\b)[^;])*(?=;|$)", "it changes every row of a table"),
    Guardrail("infrastructure", r"\b(?:terraform|tofu|pulumi) destroy\b|\bkubectl delete (?:ns|namespace|--all)\b|\bdocker system prune\b", "it takes down what others may use"),
)  # fmt: skip
"""The built-in guardrails.

They are a safety net in addition to rules, not a replacement: a command can evade a pattern.
"""


class FlaggedCall(Struct, frozen=True):
    """A call that a guardrail flags.

    Attributes:
        tool: The tool.
        text: The text that matches the pattern.
        guardrail: The guardrail.
        input: The call's arguments.
    """

    tool: str
    text: str
    guardrail: Guardrail
    input: dict[str, Any]


ConfirmCallback = Callable[[FlaggedCall], bool | Awaitable[bool]]
"""A function that asks for confirmation. A sync one runs in a thread."""


class Guardrails:
    """A plugin that flags destructive calls.

    Args:
        guardrails: The guardrails. An extension can add its own: ``Guardrails([*DEFAULT_GUARDRAILS, mine])``.
        confirm: Asks for confirmation; by default the agent's front end is asked (``Agent(extra={"interaction": ...})``), and
            without a front end the call is denied.
    """

    def __init__(
        self, guardrails: Iterable[Guardrail] = DEFAULT_GUARDRAILS, *, confirm: ConfirmCallback | None = None
    ) -> None:
        self._rails = [(rail, _pattern(rail)) for rail in guardrails]
        self._confirm = confirm
        self._agent: CoreAgent | None = None

    def install(self, agent: CoreAgent) -> None:
        """Attach to `tool:permit` of an agent."""
        self._agent = agent
        agent.on(PermissionCheck, self.on_tool_permit, order=HOOK_ORDER)

    def for_child(self) -> Guardrails:
        """Return the same guardrails with the same confirmation for a subagent."""
        return Guardrails([rail for rail, _ in self._rails], confirm=self._confirm)

    def find(self, hook: PermissionCheck) -> FlaggedCall | None:
        """Return the flagged call, or ``None`` if no guardrail matches."""
        access = hook.tool.access
        runs = access is None or any(a.scope == "shell-run" for a in access(hook.input))
        for rail, pattern in self._rails:
            if not (matches_any(hook.name, rail.tools) if rail.tools else runs):
                continue
            for text in _iter_strings(hook.input):
                if pattern.search(_normalize(text)):
                    return FlaggedCall(hook.name, text, rail, hook.input)
        return None

    async def on_tool_permit(self, hook: PermissionCheck) -> None:
        """Handle `tool:permit`."""
        danger = None if hook.approved else self.find(hook)
        if danger is None or await self._ask_confirmation(danger):
            return
        hook.deny(
            f"{danger.guardrail.why} (guardrail {danger.guardrail.name!r}), and the user did not confirm it. Do it in a smaller step "
            "that can be undone, or ask the user to do it."
        )

    async def _ask_confirmation(self, danger: FlaggedCall) -> bool:
        """Return True if the user confirms the call; any failure means no."""
        if self._confirm is not None:
            if inspect.iscoroutinefunction(self._confirm):
                return await self._confirm(danger) is True
            answer = await run_in_thread(self._confirm, danger)
            return (await answer if inspect.isawaitable(answer) else answer) is True
        user: UserInteraction | None = self._agent.extra.get(INTERACTION_KEY) if self._agent is not None else None
        if user is None:
            return False
        question = f"{danger.tool} is about to run this, and {danger.guardrail.why}:\n{danger.text}\nContinue?"
        reply = await user.ask(UserQuestion(question, (Option("No"), Option("Yes"))))
        return reply is not None and reply.chosen == ("Yes",)


def _pattern(rail: Guardrail) -> re.Pattern[str]:
    """Return the compiled pattern; built-in patterns are compiled at the first check."""
    compile_regex = lazy_re if rail in DEFAULT_GUARDRAILS else re.compile
    return compile_regex(rail.pattern, re.IGNORECASE | re.MULTILINE)


def _iter_strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value[:_MAX_CHARS]
    elif depth < 5 and isinstance(value, dict | list | tuple):
        inner = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        for part in inner:
            yield from _iter_strings(part, depth + 1)


def _normalize(text: str) -> str:
    """Return the text without characters between its words that have no effect in a command."""
    return re.sub(r"\s+", " ", re.sub(r"[\"'\\]", "", text))
