"""The dialog that asks the user to approve a tool call."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mainspring.app.chat.commands import Approve
from mainspring.app.chat.types import ApprovalDecision
from mainspring.app.tui.dialogs import Menu, MenuItem, OnDone, TextRequest
from mainspring.app.tui.diff_view import hunk_rows
from mainspring.app.tui.safe_text import escape_all, to_one_row, truncate
from mainspring.app.tui.styled_text import Row, make_row, output_rows, wrap_row, wrap_rows
from mainspring.events import ApprovalRequest, FileDiff, Hunk

_MIN_BODY_ROWS = 3
_KEYS = {
    "once": "y",
    "session": "s",
    "edits": "f",
    "always": "a",
    "everywhere": "g",
    "hunks": "h",
    "edit": "e",
    "deny": "n",
    "never": "x",
}
"""The letter of each choice."""


class ApprovalDialog:
    """Asks whether a tool call is allowed.

    Args:
        request: The question.
        finish: Called with the decision.
        plain: Whether it is read by a screen reader.
    """

    def __init__(self, request: ApprovalRequest, finish: OnDone, *, plain: bool = False) -> None:
        self.id = request.id
        self.text_request: TextRequest | None = None
        self._request = request
        self._finish = finish
        self._plain = plain
        self._menu = Menu(_menu_items(request), wraps=True, plain=plain)
        self._rules: tuple[ApprovalDecision, Menu] | None = None
        self._hunks: HunkSelector | None = None
        self._text_purpose = ""
        self._problem = ""
        self._first_row = 0
        self._page_rows = 0
        """Number of rows of the command or file that are shown at a time; 0 if all are shown."""

    def on_key(self, key: str) -> bool:
        """Handle a key."""
        if self._page_rows and key in ("pageup", "pagedown"):
            self._first_row += self._page_rows if key == "pagedown" else -self._page_rows
            return True
        menu = self._rules[1] if self._rules is not None else self._menu
        if key == "r" and self._rules is None and self._hunks is None:
            key = _KEYS["deny"]  # reject with a reason
        if self._hunks is None and not menu.handles_key(key):
            return False
        if self._hunks is not None:
            chosen_hunks = self._hunks.on_key(key)
            if chosen_hunks is not None:
                is_all = len(chosen_hunks) == len(self._hunks.hunks)
                partial = None if is_all or not chosen_hunks else chosen_hunks
                self._answer("once" if chosen_hunks else "deny", hunks=partial)
        elif self._rules is not None:
            decision, menu = self._rules
            if chosen := menu.on_key(key):
                self._answer(decision, rule=chosen[0])
        elif chosen := self._menu.on_key(key):
            self._on_choice(chosen[0])
        return True

    def _on_choice(self, value: str) -> None:
        match value:
            case "once" | "session" | "edits":
                self._answer(value)
            case "always" | "everywhere" | "never":
                rules = self._request.suggestions
                if len(rules) > 1:
                    self._rules = (value, Menu(_rule_items(self._request), wraps=True, plain=self._plain))
                else:
                    self._answer(value, rule=rules[0] if rules else "")
            case "hunks":
                self._hunks = HunkSelector([hunk for diff in _diffs(self._request) for hunk in diff.hunks])
            case "edit":
                shown = json.dumps(self._request.call.input, indent=2, ensure_ascii=False)
                self._text_purpose, self.text_request = value, TextRequest("Arguments as JSON", shown, ".json")
            case _:
                self._text_purpose, self.text_request = (
                    value,
                    TextRequest("Tell the agent what to do instead (Enter to send; leave empty to only deny)"),
                )

    def submit_text(self, text: str) -> None:
        """Accept the requested text."""
        if self._text_purpose == "deny":
            self._answer("deny", reason=text.strip())
            return
        try:
            value = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            self._problem = f"Invalid arguments: {error}"
            self.text_request = TextRequest("Arguments as JSON", text, ".json")
            return
        self._answer("edit", input=value)

    def go_back(self) -> None:
        """Go back one step, or deny the call."""
        self._problem = ""
        if self.text_request is not None or self._rules is not None or self._hunks is not None:
            self.text_request = self._rules = self._hunks = None
        else:
            self._answer("deny")

    def _answer(
        self,
        decision: ApprovalDecision,
        *,
        reason: str = "",
        hunks: tuple[int, ...] | None = None,
        input: dict[str, Any] | None = None,
        rule: str = "",
    ) -> None:
        self.text_request = None
        self._finish(Approve(self.id, decision, reason, hunks, input, rule))

    def rows(self, columns: int, max_rows: int) -> list[Row]:
        """Return the rows to draw."""
        if self._hunks is not None:
            return self._hunks.rows(columns, max_rows)
        below: list[Row] = []
        if self._problem:
            below += wrap_row(make_row(("bad", to_one_row(self._problem, 1000))), columns, break_words=True)
        if self.text_request is not None:
            below += wrap_row(make_row(("faint", self.text_request.label)), columns)
            return [*self._body_rows(columns, max_rows - len(below)), *below]
        if self._rules is not None:
            below += wrap_row(make_row(("faint", "Choose a rule to save (Enter to select, Esc to go back)")), columns)
        menu = self._rules[1] if self._rules else self._menu
        items = menu.rows(columns, max(max_rows - _MIN_BODY_ROWS - len(below), 1))
        return [*self._body_rows(columns, max_rows - len(below) - len(items)), *below, *items][-max_rows:]

    def _body_rows(self, columns: int, max_rows: int) -> list[Row]:
        """Return the question and what it is about. Rows that do not fit are shown by scrolling."""
        rows = self._all_body_rows(columns)
        if len(rows) <= max(max_rows, 1):
            self._page_rows = self._first_row = 0
            return rows
        self._page_rows = space = max(max_rows - 1, 1)
        self._first_row = first = min(max(self._first_row, 0), len(rows) - space)
        more = f"  Rows {first + 1} to {first + space} of {len(rows)} (PgUp, PgDn)"
        return [*rows[first : first + space], make_row(("warn", truncate(more, columns - 1)))]

    def _all_body_rows(self, columns: int) -> list[Row]:
        request = self._request
        question = to_one_row(question_of(request), 10_000, make=escape_all)
        rows = wrap_row(make_row(("warn", question)), columns, break_words=True)
        command = _command(request)
        is_in_question = bool(request.resource) and request.resource in question
        texts = [command, "" if is_in_question or (command and request.action == "run") else request.resource]
        for text in filter(None, texts):
            rows += wrap_rows(output_rows(text, "tool", "  ", escape_all), columns, break_words=True)
        reason = request.reason.removeprefix(request.resource).lstrip(": ") if request.resource else request.reason
        why = reason + (f" [{request.rule}]" if request.rule else "")
        if why:
            text = to_one_row(why.replace("\\n", " "), 10_000, make=escape_all)
            rows += wrap_rows([make_row(("faint", f"  {text}"))], columns, break_words=True)
        return rows


def _command(request: ApprovalRequest) -> str:
    """Return the command of a call with its real lines; empty for a call without one."""
    command = request.call.input.get("command")
    return command if isinstance(command, str) and command.strip() else ""


def question_of(request: ApprovalRequest) -> str:
    """Return the question about a call: the verb and the object, unless the next rows contain it."""
    match request.action:
        case "run":
            text = "Run this command?"
        case "write" if request.resource:
            verb = "Create" if [diff.change for diff in _diffs(request)] == ["create"] else "Edit"
            text = f"{verb} {request.resource}?"
        case "read" | "delete" if request.resource:
            text = f"{request.action.capitalize()} {request.resource}?"
        case "connect":
            text = f"Connect to {request.resource}?"
        case _:
            name = request.display.name if request.display else request.call.name
            text = f"Allow {name} to {request.action}?"
    return f"{request.agent}: {text}" if request.agent else text


def _diffs(request: ApprovalRequest) -> tuple[FileDiff, ...]:
    return request.display.diffs if request.display else ()


def _menu_items(request: ApprovalRequest) -> list[MenuItem]:
    items = [
        MenuItem(choice.value, choice.label, _KEYS[choice.value]) for choice in request.choices if choice.value in _KEYS
    ]
    if request.choose_hunks:
        places = (i for i, item in enumerate(items) if item.value == "edit")
        items.insert(next(places, len(items)), MenuItem("hunks", "Choose changes...", _KEYS["hunks"]))
    return items


def _rule_items(request: ApprovalRequest) -> list[MenuItem]:
    """Return what can be saved for a call that needs several rules: all of them, the wider ones, or one."""
    narrow, wide = request.suggestions, request.wider
    sets: dict[tuple[str, ...], None] = dict.fromkeys(
        [narrow, *([wide] if wide else []), *[(rule,) for rule in narrow]]
    )
    return [MenuItem("\n".join(rules), ", ".join(rules).replace("\\n", " ")) for rules in sets]


class HunkSelector:
    """Selects the changes of an edit to apply.

    Args:
        hunks: The changes.
    """

    def __init__(self, hunks: list[Hunk]) -> None:
        self.hunks = hunks
        self._marked = {hunk.number for hunk in hunks}
        self._index = 0

    def on_key(self, key: str) -> tuple[int, ...] | None:
        """Handle a key. Return the numbers of the chosen changes after Enter."""
        match key:
            case "up" | "left" | "k":
                self._index = (self._index - 1) % len(self.hunks)
            case "down" | "right" | "j":
                self._index = (self._index + 1) % len(self.hunks)
            case "space":
                self._marked ^= {self.hunks[self._index].number}
            case "y" | "n":
                number = self.hunks[self._index].number
                self._marked = self._marked | {number} if key == "y" else self._marked - {number}
                self._index = min(self._index + 1, len(self.hunks) - 1)
            case "enter":
                return tuple(sorted(self._marked))
            case _:
                pass
        return None

    def rows(self, columns: int, max_rows: int) -> list[Row]:
        """Return the rows of the current change, and the marks of all."""
        marks = " ".join(
            f"{'>' if i == self._index else ''}[{'x' if hunk.number in self._marked else ' '}]"
            for i, hunk in enumerate(self.hunks)
        )
        head = [
            make_row(("warn", to_one_row(f"Change {self._index + 1} of {len(self.hunks)}: {marks}", columns - 1))),
            make_row(
                (
                    "faint",
                    truncate("y to apply, n to skip, arrows to move, Enter to confirm, Esc to go back", columns - 1),
                )
            ),
        ]
        body = hunk_rows(self.hunks[self._index], columns)
        return [*head, *body[: max(max_rows - len(head), 1)]]
