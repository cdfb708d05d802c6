"""The keys of the terminal: the table that `/help` and the documentation show, and their bindings."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

from msgspec import Struct
from prompt_toolkit.filters import Condition, FilterOrBool
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from mainspring.app.tui.actions import ControlActions, InputActions
from mainspring.app.tui.dialogs import Dialog
from mainspring.app.tui.notifications import Notifier
from mainspring.app.tui.paste import BURST, PasteDetector
from mainspring.app.tui.screen import Screen
from mainspring.app.tui.terminal_reports import FOCUS_IN, FOCUS_OUT


class KeyAction(Struct, frozen=True):
    """The keys of an action.

    Attributes:
        action: Name of the action in the settings.
        keys: The key sequences, as prompt-toolkit names them.
        shown: The keys, as shown to the user.
        description: What the action does.
    """

    action: str
    keys: tuple[tuple[str, ...], ...]
    shown: str
    description: str


KEYS: tuple[KeyAction, ...] = (
    KeyAction(
        "send", (("enter",),), "Enter", "Send; while the agent is working: send a steering message for its next turn"
    ),
    KeyAction("queue", (("tab",),), "Tab", "While the agent is working: queue the message; otherwise: complete"),
    KeyAction(
        "newline",
        (("escape", "enter"), ("c-j",)),
        "Alt-Enter, Ctrl-J",
        "Insert a new line; so does Enter after a \\",
    ),
    KeyAction(
        "queued", (("escape", "up"),), "Alt-Up", "Edit queued messages, the last one first; an empty message is removed"
    ),
    KeyAction(
        "stop",
        (("escape",),),
        "Esc",
        "Stop the agent, close a menu, or go back in a question; press twice in an empty input to edit an earlier prompt",
    ),
    KeyAction("interrupt", (("c-c",),), "Ctrl-C", "Stop the agent, or clear the input; press twice to exit"),
    KeyAction("leave", (("c-d",),), "Ctrl-D", "Exit if the input is empty"),
    KeyAction(
        "unfold", (("c-o",),), "Ctrl-O", "Show the last collapsed output in full; press again for the one before"
    ),
    KeyAction("background", (("c-b",),), "Ctrl-B", "Move the running command to the background"),
    KeyAction("mode", (("s-tab",),), "Shift-Tab", "Switch the mode: default, accept edits, plan"),
    KeyAction(
        "editor",
        (("c-g",), ("c-x", "c-e")),
        "Ctrl-G, Ctrl-X Ctrl-E",
        "Edit the message in $VISUAL or $EDITOR, with pastes in full",
    ),
    KeyAction("image", (("c-v",),), "Ctrl-V", "Attach the image in the clipboard, or paste the path of an image"),
    KeyAction("search", (("c-r",),), "Ctrl-R", "Search earlier inputs of this project; press again for older ones"),
    KeyAction("suspend", (("c-z",),), "Ctrl-Z", "Suspend; resume with fg"),
    KeyAction("redraw", (("c-l",),), "Ctrl-L", "Redraw the screen"),
)

_HISTORY_KEYS = ("Up, Down", "Earlier inputs that start with the typed text; lines of a longer input")

_REPORT_STARTS = frozenset("[]P_^XO")
"""What starts a report or a key of the terminal after Escape, so that a parser cannot distinguish Alt and the character from it."""

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
    """Return the key sequences of each action, and problems of the changes.

    Args:
        changed: Keys by action, as the user writes them: ``Ctrl-O``, ``Alt-Up``, ``F5``, ``Ctrl-X Ctrl-E``.
    """
    sequences = {key.action: key.keys for key in KEYS}
    problems: list[str] = []
    for action, written in changed.items():
        sequence = parse_key(written)
        if action not in sequences:
            problems.append(f"ui.keys.{action}: unknown action. Use {', '.join(sorted(sequences))}.")
        elif sequence is None:
            problems.append(
                f"ui.keys.{action}: invalid key {written!r}. Use a key such as Ctrl-O, Alt-Up, F5, or Ctrl-X Ctrl-E."
            )
        else:
            sequences[action] = (sequence,)
    return sequences, problems


def parse_key(written: str) -> tuple[str, ...] | None:
    """Translate a key to the names of prompt-toolkit. Return None if it is invalid."""
    sequence: list[str] = []
    for part in written.split():
        keys = _parse_part(part)
        if keys is None or (keys[0] == "escape" and keys[-1] in _REPORT_STARTS):
            return None
        sequence += keys
    return tuple(sequence) or None


def _parse_part(part: str) -> list[str] | None:
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
    """Return the keys and their descriptions, some of them changed by the user."""
    return (*((changed.get(key.action, key.shown), key.description) for key in KEYS), _HISTORY_KEYS)


_DIALOG_KEYS = ("up", "down", "left", "right", "pageup", "pagedown", "enter", "backspace", "c-p", "c-n", "c-r")

_FLUSH = "_Flush"
"""Data of the key that prompt-toolkit inserts after a pause."""


Sequences = Mapping[str, tuple[tuple[str, ...], ...]]
KeyHandler = Callable[[KeyPressEvent], object]


def create_bindings(
    screen: Screen, inputs: InputActions, controls: ControlActions, notifier: Notifier, sequences: Sequences
) -> KeyBindings:
    """Create the bindings of the screen.

    Args:
        screen: The screen.
        inputs: Actions on the input.
        controls: Actions that stop, show, and exit.
        notifier: Notices whether the window has the focus.
        sequences: The keys of each action.
    """
    keys = KeyBindings()
    request = Condition(
        lambda: screen.dialog_takes_keys() and screen.dialog is not None and screen.dialog.text_request is None
    )
    requested = Condition(lambda: screen.dialog is not None and screen.dialog.text_request is not None)
    typing = ~request & ~requested
    bursts = PasteDetector()
    _bind_dialog(keys, screen, request)

    def bind(action: str, handler: KeyHandler, when: FilterOrBool = True, eager: FilterOrBool = False) -> None:
        for sequence in sequences[action]:
            _add(keys, sequence, handler, when, eager)

    def key_pressed(_: object) -> None:
        bursts.key(time.monotonic())
        screen.on_key()

    screen.app.key_processor.before_key_press += key_pressed
    bind("send", _Enter(inputs, bursts), typing)
    bind("send", lambda event: _submit_answer(screen, event), requested)
    bind("newline", lambda event: event.current_buffer.insert_text("\n"), ~request)
    bind("queue", lambda event: _tab(inputs, event), typing)
    # Vim gets the key first, unless a list or a question takes it. Its normal mode does not wait for an Alt key.
    leaves_vim_mode = typing & Condition(
        lambda: screen.vim_mode != "" and not screen.is_vim_idle and screen.buffer.complete_state is None
    )
    is_alone = Condition(lambda: screen.is_vim_idle and not screen.app.key_processor.input_queue)
    bind("stop", lambda _: _escape(screen, inputs, controls), ~leaves_vim_mode, is_alone)
    bind("leave", lambda _: controls.exit(), typing & Condition(lambda: not screen.buffer.text))
    bind("queued", lambda _: inputs.edit_queued(), typing)
    bind("background", lambda _: controls.move_to_background(), typing & Condition(inputs.is_busy))
    bind("mode", lambda _: controls.switch_mode(), typing & Condition(lambda: screen.buffer.complete_state is None))
    bind("interrupt", lambda _: controls.interrupt())
    bind("unfold", lambda _: controls.expand_output())
    bind("editor", lambda _: inputs.open_editor())
    bind("image", lambda _: inputs.paste_image(), ~request)
    bind("search", lambda _: inputs.search_history(), typing & Condition(lambda: screen.dialog is None))
    bind("suspend", lambda _: controls.suspend())
    bind("redraw", lambda _: screen.app.renderer.clear())
    _add(keys, ("c", "w"), _change_word, typing & Condition(lambda: screen.is_vim_idle and _is_on_word(screen)))
    _add(keys, (BURST,), lambda event: _burst(screen, bursts, event))
    _add(keys, (Keys.BracketedPaste,), lambda event: inputs.paste(event.data))
    _add(keys, (FOCUS_IN,), lambda _: notifier.set_focus(True))
    _add(keys, (FOCUS_OUT,), lambda _: notifier.set_focus(False))
    return keys


def _is_on_word(screen: Screen) -> bool:
    return bool(screen.buffer.document.current_char.strip())


def _change_word(event: KeyPressEvent) -> None:
    """Change to the end of a word, as `cw` does in vim: prompt-toolkit also removes the space after it."""
    is_last = not event.current_buffer.document.text_after_cursor[1:2].strip()
    count = event.arg if event.arg_present else ""
    keys = [KeyPress(key) for key in f"{count}c{'l' if is_last and not count else 'e'}"]
    event.key_processor.feed_multiple(keys, first=True)


def bind_shortcut(keys: KeyBindings, sequence: tuple[str, ...], handler: Callable[[], object]) -> None:
    """Bind a shortcut of an extension."""
    _add(keys, sequence, lambda _: handler())


def _add(
    keys: KeyBindings,
    sequence: tuple[str, ...],
    act: KeyHandler,
    when: FilterOrBool = True,
    eager: FilterOrBool = False,
) -> None:
    def handler(event: KeyPressEvent) -> None:
        act(event)

    keys.add(*sequence, filter=when, eager=eager)(handler)


def _bind_dialog(keys: KeyBindings, screen: Screen, condition: Condition) -> None:
    def press(name: str) -> None:
        dialog: Dialog | None = screen.dialog
        if dialog is not None:
            if not dialog.on_key(name):
                screen.type_into_input(" " if name == "space" else name)
            screen.update_dialog_input()

    def bind_name(name: str) -> KeyHandler:
        return lambda event: press_unless_pasted(event, name, "\n" if name == "enter" else "")

    def press_unless_pasted(event: KeyPressEvent, name: str, text: str) -> None:
        others = {key.data for key in event.app.key_processor.input_queue} - {event.data, _FLUSH}
        if text and screen.dialog is not None and screen.dialog.id and any(map(str.isprintable, others)):
            screen.type_into_input(text)  # a part of a pasted text never answers a question
        else:
            press(name)

    def press_character(event: KeyPressEvent) -> None:
        press_unless_pasted(event, "space" if event.data == " " else event.data, event.data)

    for name in _DIALOG_KEYS:
        _add(keys, (name,), bind_name(name), condition)
    _add(keys, (Keys.Any,), press_character, condition)


class _Enter:
    """Handles Enter in the input."""

    def __init__(self, inputs: InputActions, bursts: PasteDetector) -> None:
        self._inputs = inputs
        self._bursts = bursts

    def __call__(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        chosen = buffer.complete_state.current_completion if buffer.complete_state is not None else None
        if chosen is not None:
            buffer.complete_state = None  # the text already contains the completion
        if chosen is not None and not _is_complete(buffer.text, chosen.text, event):
            pass
        elif self._bursts.is_pasted(_count_pending_keys(event), time.monotonic()):
            buffer.insert_text("\n")
        elif _ends_with_backslash(buffer.document.text_before_cursor):
            buffer.delete_before_cursor(1)
            buffer.insert_text("\n")
        else:
            self._inputs.submit(buffer.text, queue=False)


def _is_complete(text: str, chosen: str, event: KeyPressEvent) -> bool:
    """Return True if Enter can submit a completion: of a command, or one chosen with Tab, except for a folder."""
    tabbed = any(press.key == Keys.Tab for press in event.previous_key_sequence)
    return (text.startswith("/") or tabbed) and not chosen.strip('"').endswith("/")


def _count_pending_keys(event: KeyPressEvent) -> int:
    """Return the number of keys that wait to be processed."""
    return sum(press.data != _FLUSH for press in event.app.key_processor.input_queue)


def _ends_with_backslash(text: str) -> bool:
    """Return True if a line ends with a backslash that is not escaped."""
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _submit_answer(screen: Screen, event: KeyPressEvent) -> None:
    dialog = screen.dialog
    if dialog is not None and not screen.is_question_hidden:
        dialog.submit_text(event.current_buffer.text)
        screen.update_dialog_input()


def _burst(screen: Screen, bursts: PasteDetector, event: KeyPressEvent) -> None:
    """Insert a burst of text. Neither the burst nor the Enter at its end answers a question."""
    screen.set_typing(True)
    dialog = screen.dialog
    request = dialog is not None and dialog.text_request is None
    (screen.buffer if request else event.current_buffer).insert_text(event.data)
    bursts.text(event.data, time.monotonic())


def _tab(inputs: InputActions, event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    if buffer.complete_state:
        buffer.complete_next()
    elif inputs.is_busy() and buffer.text.strip() and not buffer.complete_while_typing():
        inputs.submit(buffer.text, queue=True)
    else:
        buffer.start_completion(insert_common_part=True)


def _escape(screen: Screen, inputs: InputActions, controls: ControlActions) -> None:
    dialog = screen.dialog
    if dialog is not None and (screen.dialog_takes_keys() or dialog.text_request is not None):
        dialog.go_back()
        screen.update_dialog_input()
    elif screen.buffer.complete_state:
        screen.buffer.cancel_completion()
    elif screen.editing_queued_id:
        inputs.stop_editing()
    else:
        controls.stop_or_edit_earlier()
