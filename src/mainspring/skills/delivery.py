"""Delivers the text of a skill to the model: in an envelope, once, and for as long as the skill is active.

Also finds the skills that a resumed conversation had active.
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
"""The path under which ``skills_read`` returns the instructions themselves."""


_OPENING = lazy_re(rf'<{CONTENT_TAG} name="([^"\n]+)"')


def render_content(skill: Skill, body: str, files: Sequence[str] = (), count: int = 0) -> str:
    """Return the instructions of a skill in their envelope, with metadata: folder, files, scripts, requirements, and allowed tools.

    Args:
        skill: The skill.
        body: Its instructions in their final form.
        files: Its other files.
        count: Number of files.
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
    """Return the name of the skill whose envelope a text is. Empty if it is not one."""
    opening = _OPENING.match(text)
    return opening[1] if opening is not None and text.endswith(f"</{CONTENT_TAG}>") else ""


class SkillDelivery:
    """Adds the texts of active skills to requests and keeps them there.

    A text joins the history once: as the result of a call, or as a separate message. If it is removed from a request (an old result is
    omitted, a summary replaces the history, a result is truncated), it is restored while the skill is active: in its original place,
    or otherwise at the beginning, so that its position is the same in each turn.

    Args:
        active: The active skills.
    """

    def __init__(self, active: ActiveSkills) -> None:
        self._active = active

    def take(self) -> list[Message]:
        """Return the texts that must still join, and mark them as delivered."""
        messages: list[Message] = []
        for each in self._active:
            if each.pending:
                messages.append(each.news)
                each.pending = False
        return messages

    def before(self, hook: BeforeRun) -> None:
        """Handler of `agent:before`."""
        hook.messages = [*hook.messages, *self.take()]

    def follow(self, hook: ToolResultsAfter) -> None:
        """Handler of `tool-results:after`: texts of newly activated skills join after the results."""
        if any(each.pending for each in self._active):
            hook.follow = [*hook.follow, *self.take()]

    def steer(self, hook: BeforeInject) -> None:
        """Handler of `steer:inject`."""
        hook.messages = [*hook.messages, *self.take()]

    def transform(self, hook: ContextTransform) -> None:
        """Handler of `context:transform`, after handlers that shorten and before those of the application."""
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
    """Restore a text in the message that replaced its own. Returns True if such a message exists."""
    for i, message in enumerate(messages):
        if isinstance(message, Message) and message.id and message.id == carrier.id:
            messages[i] = restore_text(message, carrier, text)
            return True
    return False


USE_TOOL_NAMES = frozenset(("skills_use", "load_skill"))
"""Names of the call that activates a skill in a history."""


_AGAIN = lazy_re(re.escape(REACTIVATED_NOTE).replace(re.escape("{name}"), r"([^\s\]]+)"))


class DeliveredSkill(Struct):
    """A skill whose text is in a history.

    Attributes:
        name: Its name.
        text: The text that the model got.
        carrier: The message with the text.
        broken_off: Whether its run was interrupted, so that its allowed tools still apply.
    """

    name: str
    text: str
    carrier: Message
    broken_off: bool = True


def find_delivered(messages: Iterable[AgentMessage]) -> list[DeliveredSkill]:
    """Find the skills whose texts are in a history, the most recent last."""
    found: dict[str, DeliveredSkill] = {}
    for message in messages:
        if not isinstance(message, Message):
            continue
        if message.role == "assistant":
            if not message.tool_uses and message.stop_reason in ("end_turn", "stop_sequence"):
                for each in found.values():
                    each.broken_off = False  # That run is finished.
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
    """Return name and text of a delivery. Text of the user or of another tool is not one."""
    if isinstance(block, ToolResultBlock):
        if block.name in USE_TOOL_NAMES and not block.is_error:
            return parse_skill_name(block.text), block.text
    elif isinstance(block, TextBlock) and len(message.content) == 1:
        return parse_skill_name(block.text), block.text
    return "", ""


def _parse_reactivation(block: object) -> str:
    """Return the skill that was activated while its text was in the history."""
    if isinstance(block, TextBlock):
        word = _AGAIN.fullmatch(block.text)
        return word[1] if word is not None else ""
    if isinstance(block, ToolResultBlock) and block.name in USE_TOOL_NAMES and not block.is_error:
        details: Any = block.details
        if isinstance(details, dict):
            return str(cast("dict[str, Any]", details).get("skill") or "")
    return ""
