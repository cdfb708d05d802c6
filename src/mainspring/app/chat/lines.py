"""What a line that somebody typed means."""

from __future__ import annotations

from collections.abc import Collection

from mainspring.app.chat.commands import Attachment, ChatCommand, Prompt, Queue, Shell, Slash, Steer


def command_of(
    line: str,
    attachments: tuple[Attachment, ...] = (),
    *,
    known: Collection[str] = (),
    say: type[Prompt] | type[Steer] | type[Queue] = Prompt,
) -> ChatCommand:
    """The command that a typed line stands for.

    ``/word`` is a slash command, ``!line`` a shell command whose output the model sees, ``!!line`` one that it does not see.
    A path is no command: the first word of ``/usr/bin/env is missing`` has another slash. Everything else is said to the model.

    Args:
        line: What was typed.
        attachments: What comes with it.
        known: Names of commands that have a slash of their own.
        say: How it is said: at once, as steering, or queued.
    """
    text = line.strip()
    if text.startswith("!!") and text[2:].strip():
        return Shell(text[2:].strip(), tell=False)
    if text.startswith("!") and text[1:].strip() and not text.startswith("!!"):
        return Shell(text[1:].strip())
    word = text[1:].split(maxsplit=1)[0] if text.startswith("/") and text[1:2].strip() else ""
    if word and ("/" not in word or word in known):
        return Slash(text)
    return say(line, attachments)
