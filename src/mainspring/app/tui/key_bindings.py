"""Keys of the screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from prompt_toolkit.filters import Condition, FilterOrBool
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from mainspring.app.tui.dialogs.base import Dialog
from mainspring.app.tui.paste_detection import BURST, PasteDetector
from mainspring.app.tui.screen import Screen

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
