"""The decisions that the user can make about a call: one list, in one order, for every front end."""

from __future__ import annotations

from mainspring.app.chat.types import ApprovalDecision, Option
from mainspring.errors import ConfigError
from mainspring.permissions import is_portable, parse_rule

_COPY: tuple[tuple[ApprovalDecision, str, str], ...] = (
    ("once", "Yes", "Allow"),
    ("session", "Yes, and don't ask again this session", "Allow for This Session"),
    (
        "edits",
        "Yes, and allow all edits in this project this session",
        "Allow All Edits in This Project for This Session",
    ),
    ("always", "Yes, and always allow {rule} in this project", "Always Allow {rule} in This Project"),
    ("everywhere", "Yes, and always allow {rule} in every project", "Always Allow {rule} in Every Project"),
    ("edit", "Edit arguments...", "Edit Arguments..."),
    ("deny", "No, and tell the agent what to do instead", "Deny"),
    ("never", "No, and never allow {rule} in this project", "Never Allow {rule} in This Project"),
)
"""For each decision the text of a list entry and that of a button."""


def choices_for(rules: tuple[str, ...] = (), *, is_edit: bool = False) -> tuple[Option, ...]:
    """Return the decisions that make sense for a call, in order.

    Args:
        rules: The rules that would allow it, all of them needed; empty if none would.
        is_edit: Whether allowing all edits in the project would allow it.
    """
    left_out: set[ApprovalDecision] = set() if is_edit else {"edits"}
    if not rules:
        left_out |= {"always", "everywhere", "never"}
    if not all(map(_is_portable, rules)):
        left_out.add("everywhere")
    shown = f"`{rules[0]}`" if len(rules) == 1 else f"{len(rules)} rules"
    return tuple(
        [
            Option(decision, label.replace("{rule}", shown), button.replace("{rule}", shown))
            for decision, label, button in _COPY
            if decision not in left_out
        ]
    )


def _is_portable(text: str) -> bool:
    try:
        return is_portable(parse_rule(text, "allow"))
    except ConfigError:
        return False
