"""How the text of a skill reaches the model: in an envelope, once, and for as long as the skill is active.

Which skills a conversation that is taken up again had active.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.loop.hooks import BeforeInject, BeforeRun, ContextTransform, ToolResultsAfter
from mainspring.messages import AgentMessage, Message, TextBlock, ToolResultBlock
from mainspring.skills.active import REACTIVATED_NOTE, ActiveSkills, restore_text
from mainspring.skills.content import CONTENT_TAG, escape_attribute, escape_for_tag, to_single_line
from mainspring.skills.skill import Skill

MAX_BODY = 64 * 1024
"""Characters of a body that are delivered at once; the rest is read with ``skills_read``."""


SKILL_FILE = "SKILL.md"
"""The path under which ``skills_read`` gives the body itself."""


_OPENING = lazy_re(rf'<{CONTENT_TAG} name="([^"\n]+)"')


def render_content(skill: Skill, body: str, files: Sequence[str] = (), count: int = 0) -> str:
    """The body of a skill in its envelope, with what is to be known about it: folder, files, scripts, what it needs and allows.

    Args:
        skill: The skill.
        body: Its instructions, as they are to be read now.
        files: Files beside them.
        count: How many files there are.
    """
    folder = f' directory="{escape_attribute(skill.directory)}"' if skill.directory else ""
    head: list[str] = []
    if skill.compatibility:
        head.append(f"Compatibility: {to_single_line(skill.compatibility, 500)}")
    if skill.allowed_tools is not None:
        head.append(f"Allowed tools: {to_single_line(', '.join(skill.allowed_tools) or 'none', 1000)}")
    if files:
        more = f", and {count - len(files)} more" if count > len(files) else ""
        head.append(f"Files, for skills_read: {', '.join(to_single_line(f, 200) for f in files)}{more}")
    if skill.scripts:
        named = "; ".join(
            to_single_line(f"{s.name}: {s.description}" if s.description else s.name, 200) for s in skill.scripts
        )
        head.append(f"Scripts, for skills_run_script: {named}")
    if not skill.trusted:
        head.append("Nobody has said that this skill is to be trusted: its scripts and commands do not run.")
    text = escape_for_tag(body).strip("\n")
    if len(text) > MAX_BODY:
        shown = text[:MAX_BODY]
        shown = shown[: shown.rfind("\n") + 1] or shown
        lines = shown.count("\n")
        text = (
            f"{shown.rstrip()}\n\n[The text goes on: read it with skills_read, path {SKILL_FILE}, offset {lines + 1}]"
        )
    return "\n".join(
        [f'<{CONTENT_TAG} name="{escape_attribute(skill.name)}"{folder}>', *head, "", text, f"</{CONTENT_TAG}>"]
    )


def parse_skill_name(text: str) -> str:
    """The name of the skill whose envelope a text is; empty if it is none."""
    opening = _OPENING.match(text)
    return opening[1] if opening is not None and text.endswith(f"</{CONTENT_TAG}>") else ""


class SkillDelivery:
    """Puts the texts of active skills before the model and keeps them there.

    A text joins the history once: as the result of a call, or as a message of its own. Where something leaves it out of a request
    (old results that are stubbed, a summary that takes the place of the history, a limit on results), it is put back for as long as the
    skill is active: where it stood, or else at the very beginning, so that it stays in one place from turn to turn.

    Args:
        active: The active skills.
    """

    def __init__(self, active: ActiveSkills) -> None:
        self._active = active

    def take(self) -> list[Message]:
        """The texts that are still to join; they count as delivered then."""
        messages: list[Message] = []
        for each in self._active:
            if each.pending:
                messages.append(each.news)
                each.pending = False
        return messages

    def before(self, hook: BeforeRun) -> None:
        """The part of `agent:before`."""
        hook.messages = [*hook.messages, *self.take()]

    def follow(self, hook: ToolResultsAfter) -> None:
        """The part of `tool-results:after`: what became active meanwhile joins behind the results."""
        if any(each.pending for each in self._active):
            hook.follow = [*hook.follow, *self.take()]

    def steer(self, hook: BeforeInject) -> None:
        """The part of `steer:inject`."""
        hook.messages = [*hook.messages, *self.take()]

    def transform(self, hook: ContextTransform) -> None:
        """The part of `context:transform`; behind whatever shortens, before an application's own."""
        if not len(self._active):
            return
        messages = hook.messages
        there = {id(m) for m in messages}
        first: list[AgentMessage] = []
        last: list[AgentMessage] = []
        for each in self._active:
            each.shown = True
            if each.pending:
                last.append(each.news)
                if each.carrier is None:
                    continue
            if each.carrier is None and not each.lost:
                each.find_carrier(messages)
            if each.carrier is None:
                first.append(each.message)
            elif id(each.carrier) not in there and not _restore_in_place(messages, each.carrier, each.text):
                first.append(each.message)
        if first or last:
            hook.messages = [*first, *messages, *last]


def _restore_in_place(messages: list[AgentMessage], carrier: Message, text: str) -> bool:
    """Restore what stands in the place of a message; says whether something does."""
    for i, message in enumerate(messages):
        if isinstance(message, Message) and message.id and message.id == carrier.id:
            messages[i] = restore_text(message, carrier, text)
            return True
    return False


USE_TOOL_NAMES = frozenset(("skills_use", "load_skill"))
"""Names under which the call that takes up a skill may stand in a history."""


_AGAIN = lazy_re(re.escape(REACTIVATED_NOTE).replace(re.escape("{name}"), r"([^\s\]]+)"))


class DeliveredSkill(Struct):
    """A skill whose text stands in a history.

    Attributes:
        name: Its name.
        text: What the model was given.
        carrier: The message that holds it.
        broken_off: Whether the run in which it came was broken off, so that what it allows still holds.
    """

    name: str
    text: str
    carrier: Message
    broken_off: bool = True


def find_delivered(messages: Iterable[AgentMessage]) -> list[DeliveredSkill]:
    """The skills whose texts stand in a history, the one that came last at the end."""
    found: dict[str, DeliveredSkill] = {}
    for message in messages:
        if not isinstance(message, Message):
            continue
        if message.role == "assistant":
            if not message.tool_uses and message.stop_reason in ("end_turn", "stop_sequence"):
                for each in found.values():
                    each.broken_off = False  # that run came to its end
            continue
        for block in message.content:
            name, text = _parse_delivery(block, message)
            if name:
                found.pop(name, None)
                found[name] = DeliveredSkill(name, text, message)
            elif again := _parse_reactivation(block):
                if again in found:
                    found[again].broken_off = True
                    found[again] = found.pop(again)
    return list(found.values())


def _parse_delivery(block: object, message: Message) -> tuple[str, str]:
    """Name and text of a delivery. What a person wrote is none, nor is the result of another tool."""
    if isinstance(block, ToolResultBlock):
        if block.name in USE_TOOL_NAMES and not block.is_error:
            return parse_skill_name(block.text), block.text
    elif isinstance(block, TextBlock) and len(message.content) == 1:
        return parse_skill_name(block.text), block.text
    return "", ""


def _parse_reactivation(block: object) -> str:
    """The skill that was taken up of which the text was there already."""
    if isinstance(block, TextBlock):
        word = _AGAIN.fullmatch(block.text)
        return word[1] if word is not None else ""
    if isinstance(block, ToolResultBlock) and block.name in USE_TOOL_NAMES and not block.is_error:
        details: Any = block.details
        if isinstance(details, dict):
            return str(cast("dict[str, Any]", details).get("skill") or "")
    return ""
