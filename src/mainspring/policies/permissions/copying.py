"""Commands that take whole folders along, so that a rule about what lies in them is about the command."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mainspring.lazy import lazy_re
from mainspring.policies.permissions.commandpattern import program
from mainspring.policies.permissions.readonly import Reading
from mainspring.policies.permissions.units import Unit

_WHOLE: Mapping[str, re.Pattern[str]] = {
    "cp": lazy_re(r"-[A-Za-z]*[aRr][A-Za-z]*|--recursive|--archive"),
    "rsync": lazy_re(r"-[A-Za-z]*[ar][A-Za-z]*|--recursive|--archive"),
    "scp": lazy_re(r"-[A-Za-z]*r[A-Za-z]*"),
    "tar": lazy_re(r"-?[A-Za-z]*[cru][A-Za-z]*|--create|--append|--update"),
    "zip": lazy_re(r"-[A-Za-z]*r[A-Za-z]*|--recurse-paths"),
}
"""The options with which a program takes all that lies below its operands."""

_LAST_IS_THE_PLACE = frozenset(("cp", "rsync", "scp"))


def copying(unit: Unit) -> Reading | None:
    """What a command takes along with all that lies below; ``None`` if it is no such command."""
    if not unit.words or not unit.words[0].literal:
        return None
    name = program(unit.words[0].text)
    whole, rest = _WHOLE.get(name), unit.words[1:]
    if whole is None:
        return None
    dashed = {number for number, word in enumerate(rest) if word.text.startswith("-")}
    options = dashed | {0} if name == "tar" else dashed  # tar takes its options without a dash, too
    if not any(whole.fullmatch(word.text) for number, word in enumerate(rest) if number in options):
        return None
    paths = tuple(word for number, word in enumerate(rest) if number not in options)
    return Reading(paths[:-1] if name in _LAST_IS_THE_PLACE else paths, deep=True)
