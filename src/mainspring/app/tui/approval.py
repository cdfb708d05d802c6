"""Asks whether a call may be made: once, for the session, always, not, never, changed, or in parts."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mainspring.app.tui.dialog import Finish, TextWanted
from mainspring.app.tui.diffs import hunk_rows
from mainspring.app.tui.folds import broken, output_rows
from mainspring.app.tui.fragments import Row, row
from mainspring.app.tui.menu import Item, Menu
from mainspring.app.tui.plain import cut, one_row, spelled
from mainspring.runtime.chat.commands import Approve
from mainspring.runtime.chat.events import ApprovalAsked
from mainspring.runtime.chat.words import Decision, Hunk

_MOST_RESOURCE = 6
_MOST_REASON = 400
_MOST_REASON_ROWS = 3


class ApprovalDialog:
    """One question about a call.

    Args:
        asked: The question.
        finish: Takes the answer.
    """

    def __init__(self, asked: ApprovalAsked, finish: Finish) -> None:
        self.id = asked.id
        self.wants: TextWanted | None = None
        self._asked = asked
        self._finish = finish
        self._menu = Menu(_items(asked))
        self._rules: tuple[Decision, Menu] | None = None
        self._hunks: HunkChoice | None = None
        self._for = ""
        self._wrong = ""

    def press(self, key: str) -> bool:
        """Take a key."""
        menu = self._rules[1] if self._rules is not None else self._menu
        if self._hunks is None and not menu.knows(key):
            return False
        if self._hunks is not None:
            taken = self._hunks.press(key)
            if taken is not None:
                whole = len(taken) == len(self._hunks.hunks)
                self._answer("once" if taken else "deny", hunks=None if whole or not taken else taken)
        elif self._rules is not None:
            decision, menu = self._rules
            if chosen := menu.press(key):
                self._answer(decision, rule=chosen[0])
        elif chosen := self._menu.press(key):
            self._chosen(chosen[0])
        return True

    def _chosen(self, value: str) -> None:
        match value:
            case "once" | "session" | "deny":
                self._answer(value)
            case "always" | "never":
                rules = self._asked.suggestions
                if len(rules) > 1:
                    self._rules = (value, Menu([Item(rule, rule) for rule in rules]))
                else:
                    self._answer(value, rule=rules[0] if rules else "")
            case "hunks":
                self._hunks = HunkChoice([hunk for diff in self._asked.diffs for hunk in diff.hunks])
            case "edit":
                shown = json.dumps(self._asked.arguments, indent=2, ensure_ascii=False)
                self._for, self.wants = value, TextWanted("arguments, as JSON", shown, ".json")
            case _:
                self._for, self.wants = value, TextWanted("why not; the model is told")

    def take(self, text: str) -> None:
        """Take the text that it wanted."""
        if self._for == "reason":
            self._answer("deny", reason=text.strip())
            return
        try:
            value = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            self._wrong = f"these cannot be the arguments: {error}"
            self.wants = TextWanted("arguments, as JSON", text, ".json")
            return
        self._answer("edit", input=value)

    def back(self) -> None:
        """A step back; from the first list: not this call."""
        self._wrong = ""
        if self.wants is not None or self._rules is not None or self._hunks is not None:
            self.wants = self._rules = self._hunks = None
        else:
            self._answer("deny")

    def _answer(
        self,
        decision: Decision,
        *,
        reason: str = "",
        hunks: tuple[int, ...] | None = None,
        input: dict[str, Any] | None = None,
        rule: str = "",
    ) -> None:
        self.wants = None
        self._finish(Approve(self.id, decision, reason, hunks, input, rule))

    def rows(self, columns: int, most: int) -> list[Row]:
        """How it looks."""
        if self._hunks is not None:
            return self._hunks.rows(columns, most)
        head = self._head(columns)
        if self._wrong:
            head.append(row(("bad", one_row(self._wrong, columns - 1))))
        if self.wants is not None:
            return head[:most]
        if self._rules is not None:
            head.append(row(("faint", cut("which rule is saved? Enter takes it, Esc goes back", columns - 1))))
        menu = self._rules[1] if self._rules else self._menu
        room = max(most - len(head), min(len(menu.items), 3))
        return [*head[: max(most - room, 1)], *menu.rows(columns, room)]

    def _head(self, columns: int) -> list[Row]:
        asked = self._asked
        who = f"{asked.child}: " if asked.child else ""
        rows = [row(("warn", one_row(f"{who}{asked.display}: may it {asked.action}?", columns - 1)))]
        rows += self._resource(columns)
        reason = asked.reason.removeprefix(asked.resource).lstrip(": ") if asked.resource else asked.reason
        why = reason + (f" [{asked.rule}]" if asked.rule else "")
        if why:
            told = broken([row(("faint", f"  {one_row(why, _MOST_REASON, make=spelled)}"))], columns, hard=True)
            rows += told[:_MOST_REASON_ROWS]
        return rows

    def _resource(self, columns: int) -> list[Row]:
        """What it is about, with nothing in it hidden."""
        rows = broken(output_rows(self._asked.resource, "tool", "  ", spelled), columns, hard=True)
        if len(rows) > _MOST_RESOURCE:
            left = len(rows) - _MOST_RESOURCE + 1
            return [*rows[: _MOST_RESOURCE - 1], row(("warn", f"  ... {left} more rows; e shows all of it"))]
        return rows


def _items(asked: ApprovalAsked) -> list[Item]:
    saved = asked.suggestions[0] if len(asked.suggestions) == 1 else "a rule you choose"
    items = [Item("once", "yes, this time", "y"), Item("session", "yes, for this session", "s")]
    if asked.suggestions:
        items.append(Item("always", "yes, always", "a", f"saves: allow {saved}"))
    if asked.choose_hunks:
        items.append(Item("hunks", "some of the changes", "h"))
    items.append(Item("edit", "yes, with other arguments", "e"))
    items += [Item("deny", "no", "n"), Item("reason", "no, and say why", "r")]
    if asked.suggestions:
        items.append(Item("never", "no, never", "x", f"saves: deny {saved}"))
    return items


class HunkChoice:
    """Which changes of an edit are to be made.

    Args:
        hunks: The changes.
    """

    def __init__(self, hunks: list[Hunk]) -> None:
        self.hunks = hunks
        self._kept = {hunk.number for hunk in hunks}
        self._at = 0

    def press(self, key: str) -> tuple[int, ...] | None:
        """Take a key; the numbers that are chosen, once they are."""
        match key:
            case "up" | "left" | "k":
                self._at = (self._at - 1) % len(self.hunks)
            case "down" | "right" | "j":
                self._at = (self._at + 1) % len(self.hunks)
            case "space":
                self._kept ^= {self.hunks[self._at].number}
            case "y" | "n":
                number = self.hunks[self._at].number
                self._kept = self._kept | {number} if key == "y" else self._kept - {number}
                self._at = min(self._at + 1, len(self.hunks) - 1)
            case "enter":
                return tuple(sorted(self._kept))
            case _:
                pass
        return None

    def rows(self, columns: int, most: int) -> list[Row]:
        """The change one is at, and which are chosen."""
        marks = " ".join(
            f"{'>' if i == self._at else ''}[{'x' if hunk.number in self._kept else ' '}]"
            for i, hunk in enumerate(self.hunks)
        )
        head = [
            row(("warn", one_row(f"change {self._at + 1} of {len(self.hunks)}: {marks}", columns - 1))),
            row(
                (
                    "faint",
                    cut(
                        "y makes it, n does not, arrows move, Enter applies what is marked, Esc goes back", columns - 1
                    ),
                )
            ),
        ]
        body = hunk_rows(self.hunks[self._at], columns)
        return [*head, *body[: max(most - len(head), 1)]]
