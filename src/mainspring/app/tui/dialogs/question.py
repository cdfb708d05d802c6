"""Questions of the agent, of extensions, and lists that slash commands give."""

from __future__ import annotations

from mainspring.app.chat.command_results import Picker
from mainspring.app.chat.commands import Answer, Slash
from mainspring.app.chat.events import QuestionAsked
from mainspring.app.tui.dialogs.base import Menu, MenuItem, OnDone, TextRequest
from mainspring.app.tui.safe_text import to_one_row, truncate
from mainspring.app.tui.styled_text import Row, make_row

_FREE_TEXT = "\0own"
_HINT = "arrows move, Enter takes it, Esc leaves it"
_PICKER_HINT = "arrows move, Enter takes it, typing narrows the list, Esc leaves it"
_HINT_MULTIPLE = "arrows move, Space marks, Enter takes what is marked, Esc leaves it"
_PLAN = (("approve", "carry it out", "y"), ("revise", "change it: say what", "r"), ("reject", "no", "n"))
_YES_NO = (("yes", "yes", "y"), ("no", "no", "n"))


class QuestionDialog:
    """One question.

    Args:
        asked: The question.
        finish: Takes the answer.
    """

    def __init__(self, asked: QuestionAsked, finish: OnDone) -> None:
        self.id = asked.id
        self.wants: TextRequest | None = None
        self._asked = asked
        self._finish = finish
        self._is_revising = False
        items = _items(asked)
        self._menu = Menu(items, multiple=asked.multiple) if items else None
        if self._menu is None:
            self.wants = TextRequest("your answer")

    def on_key(self, key: str) -> bool:
        """Take a key."""
        if self._menu is None or not self._menu.knows(key):
            return False
        chosen = self._menu.on_key(key)
        if not chosen:
            return True
        if _FREE_TEXT in chosen:
            self.wants = TextRequest("your answer")
        elif self._asked.kind == "plan" and chosen == ("revise",):
            self._is_revising = True
            self.wants = TextRequest("what should be changed")
        else:
            self._finish(Answer(self.id, chosen))
        return True

    def take(self, text: str) -> None:
        """Take the text that it wanted."""
        self.wants = None
        self._finish(Answer(self.id, ("revise",) if self._is_revising else (), text))

    def back(self) -> None:
        """From the text to the list; from the list: no answer."""
        if self.wants is not None and self._menu is not None:
            self.wants, self._is_revising = None, False
        else:
            self.wants = None
            self._finish(Answer(self.id, declined=True))

    def rows(self, columns: int, most: int) -> list[Row]:
        """How it looks."""
        asked = self._asked
        title = asked.title or ("the plan" if asked.kind == "plan" else asked.text)
        who = f"{asked.child}: " if asked.child else ""
        head = [make_row(("warn", to_one_row(f"{who}{title}", columns - 1)))]
        if self.wants is not None or self._menu is None:
            return head
        head.append(make_row(("faint", truncate(_HINT_MULTIPLE if asked.multiple else _HINT, columns - 1))))
        return [*head, *self._menu.rows(columns, max(most - len(head), 3))]


def _items(asked: QuestionAsked) -> list[MenuItem]:
    given = [MenuItem(option.value, option.label or option.value, "", option.description) for option in asked.options]
    match asked.kind:
        case "plan":
            return given or [MenuItem(*each) for each in _PLAN]
        case "confirm":
            return given or [MenuItem(*each) for each in _YES_NO]
        case "select":
            return given
        case "ask":
            return [*given, MenuItem(_FREE_TEXT, "something else: say it", "o")] if given else []
        case "input":
            return []


class PickerDialog:
    """A list that a slash command gave. What is typed narrows it.

    Args:
        picker: The list.
        finish: Takes the command line that was chosen.
    """

    def __init__(self, picker: Picker, finish: OnDone) -> None:
        self.id = ""
        self.wants: TextRequest | None = None
        self._picker = picker
        self._finish = finish
        self._filter_text = ""
        self._menu: Menu | None = self._filter()

    def _filter(self) -> Menu | None:
        """The list of those that fit what is typed."""
        words = self._filter_text.lower().split()
        fitting = [c for c in self._picker.choices if all(w in f"{c.label} {c.detail}".lower() for w in words)]
        items = [MenuItem(c.line, c.label, "", ("(now) " if c.current else "") + c.detail, c.depth) for c in fitting]
        current = next((i for i, choice in enumerate(fitting) if choice.current), 0)
        return Menu(items, at=current, numbered=False) if items else None

    def on_key(self, key: str) -> bool:
        """Take a key."""
        if key == "backspace":
            self._filter_text = self._filter_text[:-1]
            self._menu = self._filter()
        elif len(key) == 1 or key == "space":
            self._filter_text += " " if key == "space" else key
            self._menu = self._filter()
        elif self._menu is not None and (chosen := self._menu.on_key(key)):
            self._finish(Slash(chosen[0]))
        return True

    def take(self, text: str) -> None:
        """It never wants one."""

    def back(self) -> None:
        """All of the list again; from that: nothing is chosen."""
        if self._filter_text:
            self._filter_text = ""
            self._menu = self._filter()
        else:
            self._finish(None)

    def rows(self, columns: int, most: int) -> list[Row]:
        """How it looks."""
        hint = f"only with: {self._filter_text}" if self._filter_text else _PICKER_HINT
        head = [
            make_row(("heading", to_one_row(self._picker.title, columns - 1))),
            make_row(("faint", truncate(hint, columns - 1))),
        ]
        if self._menu is None:
            return [*head, make_row(("faint", truncate("  nothing fits; Esc shows all again", columns - 1)))]
        return [*head, *self._menu.rows(columns, max(most - len(head), 3))]
