"""Which key does what. The table is what ``/help`` and the documentation show, and what the screen binds."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct


class KeyAction(Struct, frozen=True):
    """What one action is done with.

    Attributes:
        action: Its name.
        keys: The key sequences that do it, in the words of prompt-toolkit.
        shown: As people know them.
        does: What it does.
    """

    action: str
    keys: tuple[tuple[str, ...], ...]
    shown: str
    does: str


KEYS: tuple[KeyAction, ...] = (
    KeyAction(
        "send", (("enter",),), "Enter", "send; while a run is going on: steer it, it sees the text at its next step"
    ),
    KeyAction("queue", (("tab",),), "Tab", "while a run is going on: queue the text for after it; otherwise complete"),
    KeyAction(
        "newline",
        (("escape", "enter"), ("c-j",)),
        "Alt-Enter, Ctrl-J",
        "a new line; so does a \\ at the end before Enter",
    ),
    KeyAction("queued", (("escape", "up"),), "Alt-Up", "edit what is queued, the last first; emptied it is removed"),
    KeyAction("stop", (("escape",),), "Esc", "stop what runs; close a menu; a step back in a question"),
    KeyAction("interrupt", (("c-c",),), "Ctrl-C", "stop what runs, or clear the input; twice: leave"),
    KeyAction("leave", (("c-d",),), "Ctrl-D", "leave, when the input is empty"),
    KeyAction("unfold", (("c-o",),), "Ctrl-O", "show the last folded output in full; again: the one before"),
    KeyAction("mode", (("s-tab",),), "Shift-Tab", "change the mode: default, accept edits, plan"),
    KeyAction(
        "editor",
        (("c-g",), ("c-x", "c-e")),
        "Ctrl-G, Ctrl-X Ctrl-E",
        "write in $VISUAL or $EDITOR; pastes are shown in full there",
    ),
    KeyAction("image", (("c-v",),), "Ctrl-V", "attach the image in the clipboard; pasting the path of one does it too"),
    KeyAction("suspend", (("c-z",),), "Ctrl-Z", "suspend; fg comes back"),
    KeyAction("redraw", (("c-l",),), "Ctrl-L", "draw the input and what is going on anew"),
)

_HISTORY_KEYS = ("Up, Down", "earlier inputs that begin with what is typed; lines of a longer input")

_NAMED = {
    "up",
    "down",
    "left",
    "right",
    "home",
    "end",
    "pageup",
    "pagedown",
    "tab",
    "enter",
    "escape",
    "insert",
    "delete",
}


def resolve_keys(changed: Mapping[str, str]) -> tuple[dict[str, tuple[tuple[str, ...], ...]], list[str]]:
    """The key sequences of each action, and what is wrong with the changes.

    Args:
        changed: Keys by action, as people write them: ``Ctrl-O``, ``Alt-Up``, ``F5``, ``Ctrl-X Ctrl-E``.
    """
    found = {key.action: key.keys for key in KEYS}
    wrong: list[str] = []
    for action, written in changed.items():
        sequence = parse_key(written)
        if action not in found:
            wrong.append(f"ui.keys.{action}: there is no such action; there are {', '.join(sorted(found))}")
        elif sequence is None:
            wrong.append(f"ui.keys.{action}: {written!r} is no key; write it as Ctrl-O, Alt-Up, F5, Ctrl-X Ctrl-E")
        else:
            found[action] = (sequence,)
    return found, wrong


def parse_key(written: str) -> tuple[str, ...] | None:
    """A key in the words of prompt-toolkit; ``None`` if it is none."""
    sequence: list[str] = []
    for part in written.split():
        keys = _one(part)
        if keys is None:
            return None
        sequence += keys
    return tuple(sequence) or None


def _one(part: str) -> list[str] | None:
    *modifiers, name = part.lower().replace("+", "-").split("-")
    if any(modifier not in {"ctrl", "c", "alt", "meta", "m", "shift", "s"} for modifier in modifiers):
        return None
    kinds = {"m" if modifier == "meta" else modifier[0] for modifier in modifiers}
    alt = ["escape"] if kinds & {"a", "m"} else []
    name = {"esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown"}.get(name, name)
    named = name in _NAMED or re.fullmatch(r"f([1-9]|1\d|2[0-4])", name)
    if not named and len(name) != 1:
        return None
    if "c" in kinds and (named or name.isalnum()):
        return [*alt, f"c-{'s-' if 's' in kinds else ''}{name}"]
    if "s" in kinds:
        return [*alt, f"s-{name}"] if named else [*alt, name.upper()]
    return [*alt, name] if named or alt else None


def key_table(changed: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """All keys and what they do, for people; some of them changed, as in `keys_of`."""
    return (*((changed.get(key.action, key.shown), key.does) for key in KEYS), _HISTORY_KEYS)
