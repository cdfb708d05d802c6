"""Dialogs: menus, questions, and lists of slash commands. Independent of the terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from mainspring.app.chat.command_results import Picker
from mainspring.app.chat.commands import Answer, ChatCommand, Slash
from mainspring.app.chat.events import QuestionRequest
from mainspring.app.tui.safe_text import escape_all, strip_emoji_modifiers, to_one_row, truncate, width
from mainspring.app.tui.styled_text import Row, clip_row, make_row, wrap_row

_PAGE = 5


_MIN_DETAIL_COLUMNS = 6
"""A detail is not shown in fewer columns."""


class MenuItem(Struct, frozen=True):
    """An item of a menu.

    Attributes:
        value: The value of the item.
        label: The text.
        key: The letter that selects the item.
        detail: Further text.
        depth: Level of indentation.
    """

    value: str
    label: str
    key: str = ""
    detail: str = ""
    depth: int = 0


class Menu:
    """A list to choose from with arrows, letters, or digits.

    Args:
        items: The items.
        multiple: Whether several can be chosen: Space marks them, Enter confirms.
        index: Index of the first selected item.
        numbered: Whether digits select items without letters.
        wraps: Whether labels and details that are too long wrap instead of being truncated.
        plain: Whether the items are numbered sentences for a screen reader, and numbers select them.
    """

    def __init__(
        self,
        items: Sequence[MenuItem],
        *,
        multiple: bool = False,
        index: int = 0,
        numbered: bool = True,
        wraps: bool = False,
        plain: bool = False,
    ) -> None:
        self.items = list(items)
        self.index = index
        self._multiple = multiple
        self._numbered = numbered
        self._wraps = wraps
        self._plain = plain
        self._marked: set[int] = set()

    def on_key(self, key: str) -> tuple[str, ...] | None:
        """Handle a key: ``up``, ``enter``, ``space``, or a character.

        Returns:
            The chosen values, or None if the key chooses nothing.
        """
        moved = {"up": -1, "down": 1, "c-p": -1, "c-n": 1, "c-r": 1, "pageup": -_PAGE, "pagedown": _PAGE}.get(key)
        if moved is not None:
            step = abs(moved) == 1
            self.index = (
                (self.index + moved) % len(self.items) if step else min(max(self.index + moved, 0), len(self.items) - 1)
            )
        elif key == "space" and self._multiple:
            self._marked ^= {self.index}
        elif key == "enter":
            marked = sorted(self._marked) if self._multiple else []
            return tuple(self.items[i].value for i in marked or [self.index])
        else:
            return self._choose_by_key(key)
        return None

    def handles_key(self, key: str) -> bool:
        """Return True if a key has a meaning here. Other characters belong to the input."""
        return len(key) != 1 or self._index_of_key(key) is not None

    def _choose_by_key(self, key: str) -> tuple[str, ...] | None:
        """Choose an item by its letter or digit."""
        place = self._index_of_key(key)
        if place is None:
            return None
        self.index = place
        if self._multiple:
            self._marked ^= {place}
            return None
        return (self.items[place].value,)

    def _index_of_key(self, key: str) -> int | None:
        is_number = key.isdecimal() and (self._plain or (self._numbered and len(key) == 1))
        number = int(key) - 1 if is_number else -1
        places = (
            i for i, item in enumerate(self.items) if item.key == key or (i == number and (self._plain or not item.key))
        )
        return next(places, None)

    def rows(self, columns: int, max_rows: int) -> list[Row]:
        """Return as many items around the selected one as fit."""
        max_rows = max(max_rows, 1)
        if self._plain:
            return [self._sentence(i, columns) for i in range(len(self.items))]
        if self._wraps and any(not self._fits(item, columns) for item in self.items):
            return self._wrapped_rows(columns, max_rows)
        first = min(max(self.index - max_rows // 2, 0), max(len(self.items) - max_rows, 0))
        shown = [self._row(i, columns) for i in range(first, min(first + max_rows, len(self.items)))]
        if len(self.items) > max_rows and shown:
            place = f"  {self.index + 1} of {len(self.items)}"
            shown[-1] = [*clip_row(shown[-1], columns - 1 - len(place)), *make_row(("faint", place))]
        return shown

    def _sentence(self, i: int, columns: int) -> Row:
        item = self.items[i]
        marked = ", marked" if i in self._marked else ""
        detail = f": {item.detail}" if item.detail else ""
        return make_row(to_one_row(f"{i + 1}. {item.label}{marked}{detail}", columns - 1, make=escape_all))

    def _fits(self, item: MenuItem, columns: int) -> bool:
        """Return True if an item with its detail fits on one row unchanged."""
        if escape_all(item.label) != item.label:
            return False
        label = max(width(item.label), self._column(columns) if item.detail else 0)
        return label + (width(item.detail) + 2 if item.detail else 0) <= columns - 12

    def _wrapped_rows(self, columns: int, max_rows: int) -> list[Row]:
        """Return items with wrapped labels, as many around the selected one as fit."""
        blocks = [self._block(i, columns) for i in range(len(self.items))]
        if sum(map(len, blocks)) <= max_rows:
            return [each for block in blocks for each in block]
        first, last, space = self.index, self.index + 1, max_rows - 1 - len(blocks[self.index])
        while last < len(blocks) and len(blocks[last]) <= space:
            space -= len(blocks[last])
            last += 1
        while first > 0 and len(blocks[first - 1]) <= space:
            first -= 1
            space -= len(blocks[first])
        rows = [each for block in blocks[first:last] for each in block]
        return [*rows[: max(max_rows - 1, 1)], make_row(("faint", f"  {self.index + 1} of {len(self.items)}"))][
            :max_rows
        ]

    def _block(self, i: int, columns: int) -> list[Row]:
        item, chosen = self.items[i], i == self.index
        sign = "> " if chosen else "  "
        key = f"{item.key or (str(i + 1) if i < 9 and self._numbered else ' ')}  "
        style = "chosen" if chosen else ""
        sign += ("[x] " if i in self._marked else "[ ] ") if self._multiple else ""
        label, detail = (strip_emoji_modifiers(" ".join(escape_all(t).split())) for t in (item.label, item.detail))
        first = make_row((style, sign) if style else sign, ("accent", key), (style, label) if style else label)
        first += make_row(("faint", f"  {detail}")) if detail else []
        return wrap_row(first, columns, " " * width(sign + key), break_words=True)

    def _column(self, columns: int) -> int:
        """Return the width of labels with a detail, so that details are aligned."""
        sizes = [2 * item.depth + width(item.label) for item in self.items if item.detail]
        return max((size for size in sizes if size <= columns // 2), default=0)

    def _row(self, i: int, columns: int) -> Row:
        item = self.items[i]
        sign = "> " if i == self.index else "  "
        mark = ("[x] " if i in self._marked else "[ ] ") if self._multiple else ""
        key = f"{item.key or (str(i + 1) if i < 9 and self._numbered else ' ')}  "
        indent = "  " * item.depth
        label = indent + to_one_row(item.label, max(columns - width(sign + mark + key + indent) - 2, 4))
        column = self._column(columns)
        is_aligned = not column or width(label) <= column
        label += " " * (column - width(label)) if item.detail else ""
        space = columns - width(sign + mark + key + label) - 3
        has_detail = item.detail and is_aligned and space > _MIN_DETAIL_COLUMNS
        detail = f"  {truncate(to_one_row(item.detail, 200, make=escape_all), space)}" if has_detail else ""
        style = "chosen" if i == self.index else ""
        parts = make_row((style, sign + mark), ("accent", key)) if style else make_row(sign + mark, ("accent", key))
        return [*parts, *(make_row((style, label)) if style else make_row(label)), *make_row(("faint", detail))]


class TextRequest(Struct, frozen=True):
    """A text that a dialog requests from the user.

    Attributes:
        label: What the text is for.
        initial: The initial text.
        suffix: File extension for the editor.
    """

    label: str
    initial: str = ""
    suffix: str = ".md"


OnDone = Callable[[ChatCommand | None], None]
"""Called with the command that a dialog results in, or None."""


class Dialog(Protocol):
    """A question on the screen.

    Attributes:
        id: ID of the question, by which it can be closed; empty for a list of the screen.
        text_request: The text that the dialog requests now.
    """

    id: str
    text_request: TextRequest | None

    def on_key(self, key: str) -> bool:
        """Handle a key. Return False if the key has no meaning here and belongs to the input."""
        ...

    def submit_text(self, text: str) -> None:
        """Accept the requested text."""
        ...

    def go_back(self) -> None:
        """Handle Esc: go back one step, or give the safest answer."""
        ...

    def rows(self, columns: int, max_rows: int) -> list[Row]:
        """Return the rows to draw."""
        ...


class DialogQueue:
    """The open questions. The first one is shown.

    Args:
        show: Shows a dialog, or none.
        send: Sends the command of an answer.
    """

    def __init__(self, show: Callable[[Dialog | None], None], send: Callable[[ChatCommand], None]) -> None:
        self._show = show
        self._send = send
        self._dialogs: deque[Dialog] = deque()

    @property
    def current(self) -> Dialog | None:
        """The dialog that is shown."""
        return self._dialogs[0] if self._dialogs else None

    def add(self, dialog: Dialog) -> None:
        """Add a dialog."""
        self._dialogs.append(dialog)
        if len(self._dialogs) == 1:
            self._show(dialog)

    def finish(self, command: ChatCommand | None) -> None:
        """Send the answer of the current dialog and show the next one."""
        if self._dialogs:
            self._dialogs.popleft()
        if command is not None:
            self._send(command)
        self._show(self.current)

    def close(self, id: str) -> None:
        """Close a dialog whose question was settled."""
        before = self.current
        self._dialogs = deque(dialog for dialog in self._dialogs if dialog.id != id)
        if self.current is not before:
            self._show(self.current)


_PREVIEW_ROWS = 4
_MIN_PICKER_ROWS = 4
"""Number of rows of a list that a preview leaves free."""
_FREE_TEXT = "\0own"
_HINT = "Up/Down to move, Enter to select, Esc to skip"
_PICKER_HINT = "Up/Down to move, Enter to select, type to filter, Esc to cancel"
_HINT_MULTIPLE = "Up/Down to move, Space to mark, Enter to confirm, Esc to skip"
_PLAIN_HINT_MULTIPLE = "Type numbers to mark answers, then the word enter"
_PLAN_SYSTEM_PROMPT = (("approve", "Approve", "y"), ("revise", "Revise...", "r"), ("reject", "Reject", "n"))
_YES_NO = (("yes", "Yes", "y"), ("no", "No", "n"))


class QuestionDialog:
    """A question of the agent or of an extension.

    Args:
        request: The question.
        finish: Called with the answer.
        plain: Whether it is read by a screen reader.
    """

    def __init__(self, request: QuestionRequest, finish: OnDone, *, plain: bool = False) -> None:
        self.id = request.id
        self.text_request: TextRequest | None = None
        self._request = request
        self._finish = finish
        self._plain = plain
        self._is_revising = False
        items = _items(request)
        self._menu = Menu(items, multiple=request.multiple, wraps=True, plain=plain) if items else None
        if self._menu is None:
            self.text_request = TextRequest("Your answer")

    def on_key(self, key: str) -> bool:
        """Handle a key."""
        if self._menu is None or not self._menu.handles_key(key):
            return False
        chosen = self._menu.on_key(key)
        if not chosen:
            return True
        if _FREE_TEXT in chosen:
            self.text_request = TextRequest("Your answer")
        elif self._request.kind == "plan" and chosen == ("revise",):
            self._is_revising = True
            self.text_request = TextRequest("What to change")
        else:
            self._finish(Answer(self.id, chosen))
        return True

    def submit_text(self, text: str) -> None:
        """Accept the requested text."""
        self.text_request = None
        self._finish(Answer(self.id, ("revise",) if self._is_revising else (), text))

    def go_back(self) -> None:
        """Return from the text to the list, or decline to answer."""
        if self.text_request is not None and self._menu is not None:
            self.text_request, self._is_revising = None, False
        else:
            self.text_request = None
            self._finish(Answer(self.id, declined=True))

    def rows(self, columns: int, max_rows: int) -> list[Row]:
        """Return the rows to draw."""
        request = self._request
        title = request.title or ("Plan" if request.kind == "plan" else request.text)
        head = wrap_row(make_row(("warn", to_one_row(title, 10_000))), columns, break_words=True)
        if self._plain:
            hint = _PLAIN_HINT_MULTIPLE if request.multiple else ""
        else:
            hint = _HINT_MULTIPLE if request.multiple else _HINT
        if self.text_request is not None or self._menu is None:
            label = self.text_request.label if self.text_request is not None else ""
            hint = f"{label} (Enter to send, Esc to go back)"
        hint_rows = wrap_row(make_row(("faint", hint)), columns)[: max(max_rows - 4, 0)] if hint else []
        item_rows = max(max_rows - 1 - len(hint_rows), 1)
        items = [] if self.text_request is not None or self._menu is None else self._menu.rows(columns, item_rows)
        space = max(max_rows - len(hint_rows) - len(items), 1)
        if len(head) > space:  # the text of the question is printed above, too
            head = [*head[: space - 1], make_row(("faint", "  ... (the question is above)"))]
        return [*head, *hint_rows, *items]


def _items(request: QuestionRequest) -> list[MenuItem]:
    items = [MenuItem(option.value, option.label or option.value, "", option.description) for option in request.options]
    match request.kind:
        case "plan":
            return items or [MenuItem(*each) for each in _PLAN_SYSTEM_PROMPT]
        case "confirm":
            return items or [MenuItem(*each) for each in _YES_NO]
        case "select":
            return items
        case "ask":
            return [*items, MenuItem(_FREE_TEXT, "Other...", "o")] if items else []
        case "input":
            return []


_MIN_ROWS_FOR_SAMPLE = 10
_SAMPLE: list[Row] = [
    make_row(("heading", "  Heading"), "  text  ", ("faint", "faint"), "  ", ("code", "code"), "  ", ("link", "link")),
    make_row(
        ("added", "  + added"), "  ", ("removed", "- removed"), "  ", ("good", "* done"), "  ", ("bad", "x failed")
    ),
    make_row(("warn", "  Run this command?"), "  ", ("mark", "queued"), "  ", ("chosen", "> chosen")),
]
"""Text in the styles of a theme."""


class PickerDialog:
    """A list of a slash command or of earlier inputs, filtered by what the user types.

    Args:
        picker: The list.
        finish: Called with the command of the chosen entry.
        choose: Turns the line of the chosen entry into a command, or uses the line and returns None.
        preview: Previews an entry by its label when it is selected.
    """

    def __init__(
        self,
        picker: Picker,
        finish: OnDone,
        choose: Callable[[str], ChatCommand | None] = Slash,
        preview: Callable[[str], object] | None = None,
    ) -> None:
        self.id = ""
        self._choose = choose
        self._preview = preview
        self.text_request: TextRequest | None = None
        self._picker = picker
        self._finish = finish
        self._filter_text = ""
        self._menu: Menu | None = self._filter()

    def _filter(self) -> Menu | None:
        """Return a menu of the matching entries."""
        words = self._filter_text.lower().split()
        matching = [
            c for c in self._picker.choices if all(w in f"{c.label} {c.detail} {c.preview}".lower() for w in words)
        ]
        self._matching = matching
        items = [
            MenuItem(c.line, c.label, "", ("(current) " if c.current else "") + c.detail, c.depth) for c in matching
        ]
        current = next((i for i, choice in enumerate(matching) if choice.current), 0)
        return Menu(items, index=current, numbered=False) if items else None

    def on_key(self, key: str) -> bool:
        """Handle a key."""
        if key == "backspace":
            self._filter_text = self._filter_text[:-1]
            self._menu = self._filter()
        elif len(key) == 1 or key == "space":
            self._filter_text += " " if key == "space" else key
            self._menu = self._filter()
        elif self._menu is not None and (chosen := self._menu.on_key(key)):
            self._finish(self._choose(chosen[0]))
            return True
        if self._preview is not None and self._menu is not None:
            self._preview(self._menu.items[self._menu.index].label)
        return True

    def submit_text(self, text: str) -> None:
        """Do nothing, since the dialog requests no text."""

    def go_back(self) -> None:
        """Clear the filter, or cancel."""
        if self._filter_text:
            self._filter_text = ""
            self._menu = self._filter()
        else:
            self._finish(None)

    def rows(self, columns: int, max_rows: int) -> list[Row]:
        """Return the rows to draw."""
        hint = f"Filter: {self._filter_text}" if self._filter_text else _PICKER_HINT
        head = [
            make_row(("heading", to_one_row(self._picker.title, columns - 1))),
            *wrap_row(make_row(("faint", hint)), columns),
        ]
        if self._menu is None:
            return [*head, make_row(("faint", truncate("  No matches; Esc to clear the filter", columns - 1)))]
        if self._preview is not None and max_rows > _MIN_ROWS_FOR_SAMPLE:
            head += [clip_row(row, columns - 1) for row in _SAMPLE]
        preview = self._preview_rows(columns)[: max(max_rows - len(head) - _MIN_PICKER_ROWS, 0)]
        return [*head, *self._menu.rows(columns, max(max_rows - len(head) - len(preview), 3)), *preview]

    def _preview_rows(self, columns: int) -> list[Row]:
        """Return the end of the preview of the selected entry, or its lines that match the filter."""
        if self._menu is None or not (choice := self._matching[self._menu.index]).preview:
            return []
        lines, words = choice.preview.splitlines(), self._filter_text.lower().split()
        found = [line for line in lines if any(word in line.lower() for word in words)]
        rows = [make_row(("faint", f"  {to_one_row(line, columns - 3)}")) for line in (found or lines)[-_PREVIEW_ROWS:]]
        return [make_row(("faint", f"  {truncate(choice.detail, columns - 3)}")), *rows]
