"""Questions of the agent, of extensions, and lists that slash commands give."""

from __future__ import annotations

from mainspring.app.tui.dialog import Finish, TextWanted
from mainspring.app.tui.fragments import Row, row
from mainspring.app.tui.menu import Item, Menu
from mainspring.app.tui.plain import cut, one_row
from mainspring.runtime.chat.commands import Answer, Slash
from mainspring.runtime.chat.events import QuestionAsked
from mainspring.runtime.chat.shown import Picker

_OWN = "\0own"
_HINT = "arrows move, Enter takes it, Esc leaves it"
_HINT_MULTIPLE = "arrows move, Space marks, Enter takes what is marked, Esc leaves it"
_PLAN = (("approve", "carry it out", "y"), ("revise", "change it: say what", "r"), ("reject", "no", "n"))
_YES_NO = (("yes", "yes", "y"), ("no", "no", "n"))


class QuestionDialog:
    """One question.

    Args:
        asked: The question.
        finish: Takes the answer.
    """

    def __init__(self, asked: QuestionAsked, finish: Finish) -> None:
        self.id = asked.id
        self.wants: TextWanted | None = None
        self._asked = asked
        self._finish = finish
        self._revises = False
        items = _items(asked)
        self._menu = Menu(items, multiple=asked.multiple) if items else None
        if self._menu is None:
            self.wants = TextWanted("your answer")

    def press(self, key: str) -> None:
        """Take a key."""
        chosen = self._menu.press(key) if self._menu else None
        if not chosen:
            return
        if _OWN in chosen:
            self.wants = TextWanted("your answer")
        elif self._asked.kind == "plan" and chosen == ("revise",):
            self._revises = True
            self.wants = TextWanted("what should be changed")
        else:
            self._finish(Answer(self.id, chosen))

    def take(self, text: str) -> None:
        """Take the text that it wanted."""
        self.wants = None
        self._finish(Answer(self.id, ("revise",) if self._revises else (), text))

    def back(self) -> None:
        """From the text to the list; from the list: no answer."""
        if self.wants is not None and self._menu is not None:
            self.wants, self._revises = None, False
        else:
            self.wants = None
            self._finish(Answer(self.id, declined=True))

    def rows(self, columns: int, most: int) -> list[Row]:
        """How it looks."""
        asked = self._asked
        title = asked.title or ("the plan" if asked.kind == "plan" else asked.text)
        who = f"{asked.child}: " if asked.child else ""
        head = [row(("warn", one_row(f"{who}{title}", columns - 1)))]
        if self.wants is not None or self._menu is None:
            return head
        head.append(row(("faint", cut(_HINT_MULTIPLE if asked.multiple else _HINT, columns - 1))))
        return [*head, *self._menu.rows(columns, max(most - len(head), 3))]


def _items(asked: QuestionAsked) -> list[Item]:
    given = [Item(option.value, option.label or option.value, "", option.description) for option in asked.options]
    match asked.kind:
        case "plan":
            return given or [Item(*each) for each in _PLAN]
        case "confirm":
            return given or [Item(*each) for each in _YES_NO]
        case "select":
            return given
        case "ask":
            return [*given, Item(_OWN, "something else: say it", "o")] if given else []
        case "input":
            return []


class PickerDialog:
    """A list that a slash command gave.

    Args:
        picker: The list.
        finish: Takes the command line that was chosen.
    """

    def __init__(self, picker: Picker, finish: Finish) -> None:
        self.id = ""
        self.wants: TextWanted | None = None
        self._picker = picker
        self._finish = finish
        current = next((i for i, choice in enumerate(picker.choices) if choice.current), 0)
        items = [Item(c.line, c.label, "", ("(now) " if c.current else "") + c.detail, c.depth) for c in picker.choices]
        self._menu = Menu(items, at=current)

    def press(self, key: str) -> None:
        """Take a key."""
        if chosen := self._menu.press(key):
            self._finish(Slash(chosen[0]))

    def take(self, text: str) -> None:
        """It never wants one."""

    def back(self) -> None:
        """Nothing is chosen."""
        self._finish(None)

    def rows(self, columns: int, most: int) -> list[Row]:
        """How it looks."""
        head = [
            row(("heading", one_row(self._picker.title, columns - 1))),
            row(("faint", cut(_HINT, columns - 1))),
        ]
        return [*head, *self._menu.rows(columns, max(most - len(head), 3))]
