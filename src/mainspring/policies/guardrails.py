"""Calls that would destroy much, which are made only when somebody says so, whatever rules allow them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.loop.hooks import PermissionCheck
from mainspring.threads import run_in_thread
from mainspring.tools.interaction import INTERACTION_KEY, Option, UserInteraction, UserQuestion

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent

HOOK_ORDER = -50
"""Before permissions, so that nobody is asked about a call that is refused here."""

_LONGEST = 100_000
_SEPARATOR = r"(?:^|[\s;&|(`])"
_ROOT_PATHS = r"(?:/|~|/\*|~/\*?|\*|\.|\./?\*?|\.\.|\$HOME/?\*?|\$\{HOME\}/?\*?|/(?:bin|boot|dev|etc|home|lib|opt|root|sbin|srv|sys|usr|var)/?\*?)"


class Guardrail(Struct, frozen=True):
    """Something that no call may do unless somebody confirms it.

    Attributes:
        name: A short name.
        pattern: A regular expression, looked for in every text of the call's arguments, case aside; blanks are single, and
            quotes and backslashes are gone.
        why: What it would do, as in "it deletes a database".
        tools: Names of the tools it is about, ``*`` standing for any characters; empty: whatever runs commands, and tools that do
            not say what they touch.
    """

    name: str
    pattern: str
    why: str
    tools: tuple[str, ...] = ()


DEFAULT_GUARDRAILS: tuple[Guardrail, ...] = (
    Guardrail("rm", rf"{_SEPARATOR}rm (?:-\S+ )*-\S*[rf]\S* (?:\S+ )*{_ROOT_PATHS}(?=$|[\s;&|)])", "it deletes a whole tree of files"),
    Guardrail("find -delete", rf"{_SEPARATOR}find {_ROOT_PATHS} [^;|&]*-delete", "it deletes a whole tree of files"),
    Guardrail("disk", r"\b(?:mkfs(?:\.\w+)?|wipefs|fdisk|parted) |\bdd [^;|&]*of=/dev/(?!null)|> ?/dev/(?:sd|nvme|hd|vd|disk)", "it overwrites a disk"),
    Guardrail("chmod", rf"{_SEPARATOR}ch(?:mod|own) (?:-\S+ )*-\S*R\S* (?:\S+ )*(?:/|~)(?=$|[\s;&|)])", "it changes who may use a whole tree of files"),
    Guardrail("fork bomb", r":\(\) ?\{ ?:", "it starts processes without end"),
    Guardrail("power", rf"{_SEPARATOR}(?:shutdown|reboot|poweroff|halt|init 0)\b", "it stops the machine"),
    Guardrail("pipe to shell", r"\b(?:curl|wget)\b[^;]*\| ?(?:sudo )?(?:ba|z|da|k)?sh\b", "it runs what a web server sends"),
    Guardrail("force push", r"\bgit push\b[^;|&]*(?: --force(?!-with-lease)| -f\b| \+\S+)", "it replaces what others may have pushed"),
    Guardrail("drop", r"\bdrop (?:database|schema|table|tablespace)\b", "it deletes a database or a table"),
    Guardrail("truncate", r"\btruncate table\b", "it empties a table"),
    Guardrail("delete all", r"\bdelete from (?:(?!\bwhere\b)[^;])*(?=;|$)", "it deletes every row of a table"),
    Guardrail("update all", r"\bupdate [\w.]+ set (?:(?!\bwhere\b)[^;])*(?=;|$)", "it changes every row of a table"),
    Guardrail("infrastructure", r"\b(?:terraform|tofu|pulumi) destroy\b|\bkubectl delete (?:ns|namespace|--all)\b|\bdocker system prune\b", "it takes down what others may use"),
)  # fmt: skip
"""The built-in ones. They are a net below the rules, not in their place: a command can hide from a pattern."""


class FlaggedCall(Struct, frozen=True):
    """A call that a guardrail holds back.

    Attributes:
        tool: The tool.
        text: The text in which the pattern was found.
        guardrail: Which one it is.
        input: The call's arguments.
    """

    tool: str
    text: str
    guardrail: Guardrail
    input: dict[str, Any]


ConfirmCallback = Callable[[FlaggedCall], bool | Awaitable[bool]]
"""Asks whether it may happen after all. A sync one runs in a thread."""


class Guardrails:
    """A plug that holds back dangerous calls.

    Args:
        guardrails: What is dangerous. An extension can put its own in: ``Guardrails([*STANDARD, mine])``.
        confirm: Asks; without it the front end of the agent is asked (``Agent(extra={"interaction": ...})``), and where there is
            none, the call is refused.
    """

    def __init__(
        self, guardrails: Iterable[Guardrail] = DEFAULT_GUARDRAILS, *, confirm: ConfirmCallback | None = None
    ) -> None:
        self._rails = [(rail, _pattern(rail)) for rail in guardrails]
        self._confirm = confirm
        self._agent: CoreAgent | None = None

    def install(self, agent: CoreAgent) -> None:
        """Sit on `tool:permit` of an agent."""
        self._agent = agent
        agent.on(PermissionCheck, self.on_tool_permit, order=HOOK_ORDER)

    def for_child(self) -> Guardrails:
        """The same guardrails, and the same person to ask."""
        return Guardrails([rail for rail, _ in self._rails], confirm=self._confirm)

    def find(self, hook: PermissionCheck) -> FlaggedCall | None:
        """What is dangerous about a call; ``None`` if nothing is known to be."""
        access = hook.tool.access
        runs = access is None or any(a.scope == "shell-run" for a in access(hook.input))
        for rail, pattern in self._rails:
            if not (any(fnmatchcase(hook.name, name) for name in rail.tools) if rail.tools else runs):
                continue
            for text in _iter_strings(hook.input):
                if pattern.search(_normalize(text)):
                    return FlaggedCall(hook.name, text, rail, hook.input)
        return None

    async def on_tool_permit(self, hook: PermissionCheck) -> None:
        """The handler of `tool:permit`."""
        danger = None if hook.approved else self.find(hook)
        if danger is None or await self._ask_confirmation(danger):
            return
        hook.deny(
            f"{danger.guardrail.why} (guardrail {danger.guardrail.name!r}), and nobody confirmed it. Do it in a smaller step "
            "that can be undone, or ask the user to do it."
        )

    async def _ask_confirmation(self, danger: FlaggedCall) -> bool:
        """Whether somebody says yes; whatever goes wrong with asking is none."""
        if self._confirm is not None:
            if inspect.iscoroutinefunction(self._confirm):
                return await self._confirm(danger) is True
            answer = await run_in_thread(self._confirm, danger)
            return (await answer if inspect.isawaitable(answer) else answer) is True
        user: UserInteraction | None = self._agent.extra.get(INTERACTION_KEY) if self._agent is not None else None
        if user is None:
            return False
        question = f"{danger.tool} is about to do this, and {danger.guardrail.why}:\n{danger.text}\nGo on?"
        reply = await user.ask(UserQuestion(question, (Option("No"), Option("Yes"))))
        return reply is not None and reply.chosen == ("Yes",)


def _pattern(rail: Guardrail) -> re.Pattern[str]:
    """What finds it; those that are built in are compiled when a call is looked at."""
    made = lazy_re if rail in DEFAULT_GUARDRAILS else re.compile
    return made(rail.pattern, re.IGNORECASE | re.MULTILINE)


def _iter_strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value[:_LONGEST]
    elif depth < 5 and isinstance(value, dict | list | tuple):
        inner = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        for part in inner:
            yield from _iter_strings(part, depth + 1)


def _normalize(text: str) -> str:
    """The text without what may stand between its words and mean nothing."""
    return re.sub(r"\s+", " ", re.sub(r"[\"'\\]", "", text))
