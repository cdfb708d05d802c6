"""The text and files of a skill.

Text for a model is cleaned: it contains no hidden characters and cannot end its envelope. Instructions are read when needed: a
catalog of thousands of skills keeps none in memory. Files are restricted to the skill's folder.

Also finds the skills that a resumed conversation had active.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from mainspring.env import ExecutionEnv, RealPath
from mainspring.env.paths import is_inside
from mainspring.frontmatter import parse_fields_and_body
from mainspring.lazy import lazy_re
from mainspring.loop.hooks import BeforeInject, BeforeRun, ContextTransform, ToolResultsAfter
from mainspring.messages import AgentMessage, Message, TextBlock, ToolResultBlock
from mainspring.permissions.sensitive_paths import SensitivePaths
from mainspring.skills.active import REACTIVATED_NOTE, ActiveSkills, restore_text
from mainspring.skills.skill import Skill, SkillError
from mainspring.text import truncate_to_fit

CONTENT_TAG, CATALOG_TAG = "skill_content", "available_skills"
"""The tags around a skill's text, and around the list of skills."""


_HIDDEN = lazy_re(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
    "|[\ufe00-\ufe0f]{2,}"
)
"""Characters that users do not see and a model reads: controls, bidirectional marks, tag characters, runs of variation selectors.
Joiners stay: scripts need them.
"""
_BREAKS = lazy_re("\r\n?|[\u2028\u2029\x85]")
_MARKS = lazy_re(rf"<(?=\s*[/\\]?\s*(?:{CONTENT_TAG}|{CATALOG_TAG}))", re.IGNORECASE)


def strip_invisible(text: str) -> str:
    """Remove hidden characters, and end lines with line feeds."""
    return _HIDDEN.sub("", _BREAKS.sub("\n", text))


def escape_for_tag(text: str) -> str:
    """Return cleaned text that cannot start or end a tag."""
    return _MARKS.sub("&lt;", strip_invisible(text))


def to_single_line(text: str, limit: int = 1024) -> str:
    """Return the text on one line: cleaned, ``<`` and ``>`` escaped, truncated."""
    plain = truncate_to_fit(" ".join(strip_invisible(text).split()), limit, strip=True)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str) -> str:
    """Return the text as an attribute value."""
    return to_single_line(text).replace('"', "&quot;")


MAX_SKILL_FILE_BYTES = 1 << 20
"""Maximum bytes of a skill file."""


_EXAMPLES = lazy_re(r"^(#{1,6})[ \t]+(?:[^\n]*\b)?examples?\b[^\n]*$", re.IGNORECASE | re.MULTILINE)
_FENCED = lazy_re(r"^(`{3,}|~{3,}).*?(?:^\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_SHELL = lazy_re(r"!`([^`\n]+)`")


def read_text(path: Path) -> str:
    """Read a skill file, with line feeds as line ends. Blocks.

    Raises:
        SkillError: If it is too large or not text.
        OSError: If it cannot be read.
    """
    with path.open("rb") as file:
        return decode_skill_file(file.read(MAX_SKILL_FILE_BYTES + 1))


def decode_skill_file(data: bytes) -> str:
    """Decode the bytes of a skill file.

    Raises:
        SkillError: If it is too large or not text.
    """
    if len(data) > MAX_SKILL_FILE_BYTES:
        raise SkillError(
            f"it is larger than {MAX_SKILL_FILE_BYTES >> 10} KiB; move rarely used parts into separate files"
        )
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SkillError(f"it is not UTF-8 (byte {error.start}); save it as UTF-8", line=0 if utf16 else line) from None
    if "\0" in text:
        raise SkillError("it is not text: it contains a zero byte")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_body(skill: Skill) -> str:
    """Read the instructions: the Markdown after the front matter, without hidden characters. Blocks.

    Raises:
        SkillError: If the file is missing or can no longer be read.
    """
    if skill.text is not None or skill.path is None:
        return strip_invisible(skill.text or "").strip()
    try:
        return strip_invisible(parse_fields_and_body(read_text(Path(skill.path)))[1]).strip()
    except OSError as error:
        raise SkillError(f"{skill.path}: it can no longer be read: {error.strerror or error}") from None
    except SkillError as error:
        raise SkillError(f"{skill.path}: {error}", line=error.line) from None


def extract_examples(body: str) -> str:
    """Return the section under the first heading about examples. Empty if the body has no such section."""
    plain = _FENCED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), body)  # A line in a fenced block is not a heading.
    found = _EXAMPLES.search(plain)
    if found is None:
        return ""
    end = re.compile(rf"^#{{1,{len(found[1])}}}[ \t]", re.MULTILINE).search(plain, found.end())
    return body[found.end() : end.start() if end else len(body)].strip()


def find_shell_commands(body: str) -> tuple[str, ...]:
    """Return the commands that the text runs when used, those of ``!`command` ``, without duplicates."""
    return tuple(dict.fromkeys(_SHELL.findall(body)))


MAX_LISTED = 60
"""Maximum number of files that are listed for the model."""


_DEPTH = 4
_MAX_WALKED = 2_000
_standard = lru_cache(1)(SensitivePaths.default)


class OutsideFolderError(ValueError):
    """A path outside the skill's folder. The message contains the required change."""


async def resolve_skill_path(env: ExecutionEnv, folder: str, path: str) -> RealPath:
    """Return the real path of a skill's file.

    Args:
        env: The environment with the folder.
        folder: The skill's folder.
        path: A path by the model: relative to the folder, with ``/``.

    Raises:
        OutsideFolderError: If it is outside the folder, directly or by a link, or may contain secrets.
        OSError: If it cannot be accessed.
    """
    parts = path.replace("\\", "/").split("/")
    if not path.strip() or "\0" in path or path.startswith(("/", "\\", "~")) or ".." in parts or ":" in parts[0]:
        raise OutsideFolderError(f"{path!r} is not a path in the skill's folder; use a path like references/guide.md")
    root = await env.realpath(folder)
    real = await env.realpath(posixpath.join(root, *[p for p in parts if p not in ("", ".")]))
    if not is_inside(real, root):
        raise OutsideFolderError(f"{path!r} is a link that leads out of the skill's folder; it is not followed")
    inner = tuple(part.casefold() for part in real[len(root) :].split("/") if part)
    if _is_secret(inner):
        raise OutsideFolderError(f"{path!r} may contain keys or passwords, so it is not read as part of a skill")
    return RealPath(real)


async def list_skill_files(env: ExecutionEnv, folder: str) -> tuple[Sequence[str], int]:
    """List the files of a skill except its own text, sorted, up to the limit, and count them.

    Hidden files, links, and files that may contain secrets are omitted.
    """
    try:
        walk = await env.walk(folder, depth=_DEPTH, limit=_MAX_WALKED)
    except OSError:
        return (), 0
    found: list[str] = []
    for entry in walk.entries:
        parts = tuple(entry.path.split("/"))
        if entry.kind != "file" or any(p.startswith((".", "__")) for p in parts):
            continue
        if entry.path in ("SKILL.md", "skill.md") or entry.path.endswith(".skill.md"):
            continue
        if not _is_secret(tuple(p.casefold() for p in parts)):
            found.append(entry.path)
    return sorted(found)[:MAX_LISTED], len(found)


def _is_secret(parts: tuple[str, ...]) -> bool:
    """Return True if a path may contain keys or passwords. A guide about them does not count, regardless of its name."""
    if parts and parts[-1].endswith((".md", ".markdown", ".rst")):
        parts = parts[:-1]
    return bool(parts) and bool(_standard().reason(parts, parts, changes=False))


MAX_BODY = 64 * 1024
"""Characters of a body in the first delivery; the rest is read with ``skills_read``."""


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
        head.append("This skill is not trusted: its scripts and commands do not run.")
    text = escape_for_tag(body).strip("\n")
    if len(text) > MAX_BODY:
        shown = text[:MAX_BODY]
        shown = shown[: shown.rfind("\n") + 1] or shown
        lines = shown.count("\n")
        text = (
            f"{shown.rstrip()}\n\n[The text continues: read it with skills_read, path {SKILL_FILE}, offset {lines + 1}]"
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

    def take_pending(self) -> list[Message]:
        """Return the texts that must still join, and mark them as delivered."""
        messages: list[Message] = []
        for each in self._active:
            if each.pending:
                messages.append(each.pending_message)
                each.pending = False
        return messages

    def before(self, hook: BeforeRun) -> None:
        """Handler of `agent:before`."""
        hook.messages = [*hook.messages, *self.take_pending()]

    def on_tool_results(self, hook: ToolResultsAfter) -> None:
        """Handler of `tool-results:after`: texts of newly activated skills join after the results."""
        if any(each.pending for each in self._active):
            hook.follow = [*hook.follow, *self.take_pending()]

    def steer(self, hook: BeforeInject) -> None:
        """Handler of `steer:inject`."""
        hook.messages = [*hook.messages, *self.take_pending()]

    def on_context_transform(self, hook: ContextTransform) -> None:
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
                last.append(each.pending_message)
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
