"""Questions of the agent, of extensions, and lists that slash commands give."""

from __future__ import annotations

from mainspring.app.chat.command_results import Picker
from mainspring.app.chat.commands import Answer, Slash
from mainspring.app.chat.events import QuestionAsked
from mainspring.app.tui.dialogs.base import Finish, Item, Menu, TextWanted
from mainspring.app.tui.safe_text import cut, one_row
from mainspring.app.tui.styled_text import Row, row

_OWN = "\0own"
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

    def press(self, key: str) -> bool:
        """Take a key."""
        if self._menu is None or not self._menu.knows(key):
            return False
        chosen = self._menu.press(key)
        if not chosen:
            return True
        if _OWN in chosen:
            self.wants = TextWanted("your answer")
        elif self._asked.kind == "plan" and chosen == ("revise",):
            self._revises = True
            self.wants = TextWanted("what should be changed")
        else:
            self._finish(Answer(self.id, chosen))
        return True

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
    """A list that a slash command gave. What is typed narrows it.

    Args:
        picker: The list.
        finish: Takes the command line that was chosen.
    """

    def __init__(self, picker: Picker, finish: Finish) -> None:
        self.id = ""
        self.wants: TextWanted | None = None
        self._picker = picker
        self._finish = finish
        self._typed = ""
        self._menu: Menu | None = self._narrowed()

    def _narrowed(self) -> Menu | None:
        """The list of those that fit what is typed."""
        words = self._typed.lower().split()
        fitting = [c for c in self._picker.choices if all(w in f"{c.label} {c.detail}".lower() for w in words)]
        items = [Item(c.line, c.label, "", ("(now) " if c.current else "") + c.detail, c.depth) for c in fitting]
        current = next((i for i, choice in enumerate(fitting) if choice.current), 0)
        return Menu(items, at=current, numbered=False) if items else None

    def press(self, key: str) -> bool:
        """Take a key."""
        if key == "backspace":
            self._typed = self._typed[:-1]
            self._menu = self._narrowed()
        elif len(key) == 1 or key == "space":
            self._typed += " " if key == "space" else key
            self._menu = self._narrowed()
        elif self._menu is not None and (chosen := self._menu.press(key)):
            self._finish(Slash(chosen[0]))
        return True

    def take(self, text: str) -> None:
        """It never wants one."""

    def back(self) -> None:
        """All of the list again; from that: nothing is chosen."""
        if self._typed:
            self._typed = ""
            self._menu = self._narrowed()
        else:
            self._finish(None)

    def rows(self, columns: int, most: int) -> list[Row]:
        """How it looks."""
        hint = f"only with: {self._typed}" if self._typed else _PICKER_HINT
        head = [
            row(("heading", one_row(self._picker.title, columns - 1))),
            row(("faint", cut(hint, columns - 1))),
        ]
        if self._menu is None:
            return [*head, row(("faint", cut("  nothing fits; Esc shows all again", columns - 1)))]
        return [*head, *self._menu.rows(columns, max(most - len(head), 3))]
