"""The keys of the terminal: the table that `/help` and the documentation show, and their bindings."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct
from prompt_toolkit.filters import Condition, FilterOrBool
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from mainspring.app.tui.dialogs import Dialog
from mainspring.app.tui.paste import BURST, PasteDetector
from mainspring.app.tui.screen import Screen


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


_DIALOG_KEYS = ("up", "down", "left", "right", "pageup", "pagedown", "enter", "backspace", "c-p", "c-n")

_FLUSH = "_Flush"
"""What prompt-toolkit puts among the keys after a pause."""


class KeyActions(Protocol):
    """What keys do."""

    @property
    def busy(self) -> bool:
        """Whether something can be stopped."""
        ...

    def submit(self, text: str, *, queue: bool) -> None:
        """What is typed is complete."""
        ...

    def edit_queued(self) -> None:
        """Take up a queued text."""
        ...

    def stop_editing(self) -> None:
        """Leave the queued text as it was."""
        ...

    def stop(self) -> None:
        """Stop what runs."""
        ...

    def interrupt(self) -> None:
        """Ctrl-C."""
        ...

    def leave(self) -> None:
        """Leave."""
        ...

    def unfold(self) -> None:
        """Show what was folded."""
        ...

    def toggle_mode(self) -> None:
        """Change to the next mode."""
        ...

    def open_editor(self) -> None:
        """Write elsewhere."""
        ...

    def paste(self, text: str) -> None:
        """A text was pasted."""
        ...

    def paste_image(self) -> None:
        """Attach what is in the clipboard."""
        ...

    def suspend(self) -> None:
        """Ctrl-Z."""
        ...

    def focus(self, focused: bool) -> None:
        """The window got or lost the focus."""
        ...


Sequences = Mapping[str, tuple[tuple[str, ...], ...]]
Handler = Callable[[KeyPressEvent], object]


def create_bindings(screen: Screen, does: KeyActions, sequences: Sequences) -> KeyBindings:
    """The bindings.

    Args:
        screen: Where keys are pressed.
        does: What they do.
        sequences: The keys of each action.
    """
    keys = KeyBindings()
    asked = Condition(lambda: screen.dialog_takes_keys() and screen.dialog is not None and screen.dialog.wants is None)
    wanted = Condition(lambda: screen.dialog is not None and screen.dialog.wants is not None)
    typing = ~asked & ~wanted
    bursts = PasteDetector()
    _bind_dialog(keys, screen, asked)

    def bind(action: str, act: Handler, when: FilterOrBool = True) -> None:
        for sequence in sequences[action]:
            _add(keys, sequence, act, when)

    def key_pressed(_: object) -> None:
        bursts.key(time.monotonic())
        screen.on_key()

    screen.app.key_processor.before_key_press += key_pressed
    bind("send", _Enter(screen, does, bursts), typing)
    bind("send", lambda event: _submit_answer(screen, event), wanted)
    bind("newline", lambda event: event.current_buffer.insert_text("\n"), ~asked)
    bind("queue", lambda event: _tab(screen, does, event), typing)
    bind("stop", lambda _: _escape(screen, does))
    bind("leave", lambda _: does.leave(), typing & Condition(lambda: not screen.buffer.text))
    bind("queued", lambda _: does.edit_queued(), typing)
    bind("mode", lambda _: does.toggle_mode(), typing & Condition(lambda: screen.buffer.complete_state is None))
    bind("interrupt", lambda _: does.interrupt())
    bind("unfold", lambda _: does.unfold())
    bind("editor", lambda _: does.open_editor())
    bind("image", lambda _: does.paste_image(), ~asked)
    bind("suspend", lambda _: does.suspend())
    bind("redraw", lambda _: screen.app.renderer.clear())
    _add(keys, (BURST,), lambda event: _burst(screen, bursts, event))
    _add(keys, (Keys.BracketedPaste,), lambda event: does.paste(event.data))
    _add(keys, ("escape", "[", "I"), lambda _: does.focus(True))
    _add(keys, ("escape", "[", "O"), lambda _: does.focus(False))
    return keys


def bind_shortcut(keys: KeyBindings, sequence: tuple[str, ...], act: Callable[[], object]) -> None:
    """Have a key of an extension do something."""
    _add(keys, sequence, lambda _: act())


def _add(keys: KeyBindings, sequence: tuple[str, ...], act: Handler, when: FilterOrBool = True) -> None:
    def handler(event: KeyPressEvent) -> None:
        act(event)

    keys.add(*sequence, filter=when)(handler)


def _bind_dialog(keys: KeyBindings, screen: Screen, asked: Condition) -> None:
    def press(name: str) -> None:
        dialog: Dialog | None = screen.dialog
        if dialog is not None:
            if not dialog.on_key(name):
                screen.type_into_input(" " if name == "space" else name)
            screen.sync()

    def named(name: str) -> Handler:
        return lambda _: press(name)

    for name in _DIALOG_KEYS:
        _add(keys, (name,), named(name), asked)
    _add(keys, (Keys.Any,), lambda event: press("space" if event.data == " " else event.data), asked)


class _Enter:
    """Enter in the input."""

    def __init__(self, screen: Screen, does: KeyActions, bursts: PasteDetector) -> None:
        self._screen = screen
        self._does = does
        self._bursts = bursts

    def __call__(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        chosen = buffer.complete_state.current_completion if buffer.complete_state is not None else None
        if chosen is not None:
            buffer.complete_state = None  # what was chosen is in the text already
        if chosen is not None and not _whole(buffer.text, chosen.text, event):
            pass
        elif self._bursts.is_pasted(_waiting(event), time.monotonic()):
            buffer.insert_text("\n")
        elif _ends_with_backslash(buffer.document.text_before_cursor):
            buffer.delete_before_cursor(1)
            buffer.insert_text("\n")
        else:
            self._does.submit(buffer.text, queue=False)


def _whole(text: str, chosen: str, event: KeyPressEvent) -> bool:
    """Whether nothing is left to type behind a completion: a command, or what Tab completed; a folder goes on."""
    tabbed = any(press.key == Keys.Tab for press in event.previous_key_sequence)
    return (text.startswith("/") or tabbed) and not chosen.strip('"').endswith("/")


def _waiting(event: KeyPressEvent) -> int:
    """How many keys have come already that are not worked off."""
    return sum(press.data != _FLUSH for press in event.app.key_processor.input_queue)


def _ends_with_backslash(text: str) -> bool:
    """Whether a line ends with a backslash that is not itself behind one."""
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _submit_answer(screen: Screen, event: KeyPressEvent) -> None:
    dialog = screen.dialog
    if dialog is not None:
        dialog.take(event.current_buffer.text)
        screen.sync()


def _burst(screen: Screen, bursts: PasteDetector, event: KeyPressEvent) -> None:
    """Much came at once. It answers no question: it goes into the text that is being written."""
    bursts.text(event.data)
    dialog = screen.dialog
    asked = dialog is not None and dialog.wants is None
    (screen.buffer if asked else event.current_buffer).insert_text(event.data)


def _tab(screen: Screen, does: KeyActions, event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    if buffer.complete_state:
        buffer.complete_next()
    elif does.busy and buffer.text.strip() and not buffer.complete_while_typing():
        does.submit(buffer.text, queue=True)
    else:
        buffer.start_completion(insert_common_part=True)


def _escape(screen: Screen, does: KeyActions) -> None:
    dialog = screen.dialog
    if dialog is not None and (screen.dialog_takes_keys() or dialog.wants is not None):
        dialog.back()
        screen.sync()
    elif screen.buffer.complete_state:
        screen.buffer.cancel_completion()
    elif screen.editing_queued_id:
        does.stop_editing()
    else:
        does.stop()
