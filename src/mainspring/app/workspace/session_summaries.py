"""Summaries of saved sessions for lists: the number of prompts, a preview, the age, and titles of forks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from mainspring.messages import Message
from mainspring.sessions import MessageEntry, Session, SessionInfo, list_sessions
from mainspring.sessions.entries import try_decode_entry
from mainspring.sessions.history import prompt_preview
from mainspring.text import pluralize

_PROMPT_MARK, _RESPONSE_MARK = b'"source":"prompt"', b'"source":"assistant"'
_MAX_PROMPTS = 50
"""Number of the last prompts in a preview."""
_MAX_PROMPT, _MAX_RESPONSE = 200, 600
_FORK = re.compile(r" \(fork(?: \d+)?\)$")


class SessionSummary(Struct, frozen=True):
    """A summary of a session.

    Attributes:
        prompts: Number of prompts, on all branches.
        preview: The last prompts, each on a line after ``>``, and the beginning of the last response.
    """

    prompts: int = 0
    preview: str = ""


def summarize_session(info: SessionInfo) -> SessionSummary:
    """Summarize a session. Reads its file; empty if that is not possible."""
    try:
        lines = Path(info.place).read_bytes().splitlines()
    except OSError:
        return SessionSummary()
    prompts = [line for line in lines if _PROMPT_MARK in line]
    texts = [f"> {prompt_preview(text)[:_MAX_PROMPT]}" for text in _texts(prompts[-_MAX_PROMPTS:])]
    response = next((line for line in reversed(lines) if _RESPONSE_MARK in line), b"")
    texts += [prompt_preview(text[:_MAX_RESPONSE]) for text in _texts([response]) if text]
    return SessionSummary(len(prompts), "\n".join(texts))


def _texts(lines: Iterable[bytes]) -> list[str]:
    entries = [try_decode_entry(line) for line in lines]
    return [e.message.text for e in entries if isinstance(e, MessageEntry) and isinstance(e.message, Message)]


def describe_session(info: SessionInfo, summary: SessionSummary, now: datetime) -> str:
    """Describe when a session was used and how long it is: ``2 hours ago, 3 prompts``."""
    age = format_age(info.updated, now) if info.updated is not None else ""
    return ", ".join(filter(None, (age, pluralize(summary.prompts, "prompt") if summary.prompts else "")))


def format_age(then: datetime, now: datetime) -> str:
    """Format the time since something happened: ``5 minutes ago``, ``yesterday``, or a date after a week."""
    minutes = int((now - then).total_seconds() // 60)
    days = (now.astimezone().date() - then.astimezone().date()).days
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{pluralize(minutes, 'minute')} ago"
    if minutes < 24 * 60:
        return f"{pluralize(minutes // 60, 'hour')} ago"
    if days < 7:
        return "yesterday" if days == 1 else f"{days} days ago"
    return f"{then.astimezone():%Y-%m-%d}"


def create_fork_title(session: Session) -> str:
    """Return a title for a copy of a session that no other session of the folder has. Blocks."""
    infos = list_sessions(session.cwd, home=session.store)
    preview = next((info.preview for info in infos if info.id == session.id), "")
    base = _FORK.sub("", session.title) or preview or session.id
    taken = {info.title for info in infos}
    title, number = f"{base} (fork)", 2
    while title in taken:
        title, number = f"{base} (fork {number})", number + 1
    return title
