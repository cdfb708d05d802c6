"""What a failed check says: where it failed, and why, in words that a model can act on."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeGuard, cast

Path = tuple[str | int, ...]

_SHOWN_VALUE = 60
_SHOWN_NAMES = 12
_SHOWN_PROBLEMS = 20


class Problem(NamedTuple):
    """One thing that is wrong with a value.

    Attributes:
        path: Keys and indexes that lead from the root to the place.
        keyword: The schema keyword that failed (`type`, `required`, ...).
        text: What is wrong there.
    """

    path: Path
    keyword: str
    text: str

    def __str__(self) -> str:
        return f"{format_path(self.path)}: {self.text}"


def is_dict(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether it is a JSON object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether it is a JSON array."""
    return isinstance(value, list)


def format_path(path: Iterable[str | int]) -> str:
    """`("items", 2, "name")` as `$.items[2].name`; keys that are no plain word are quoted."""
    parts = ["$"]
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif step.replace("-", "_").isidentifier():
            parts.append(f".{step}")
        else:
            parts.append(f"[{json.dumps(step, ensure_ascii=False)}]")
    return "".join(parts)


def format_value(value: Any) -> str:
    """The value as JSON, cut to a length that is good to read."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, TypeError, RecursionError):
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _SHOWN_VALUE else f"{text[: _SHOWN_VALUE - 1]}…"


def wrong_type_message(value: Any, types: Sequence[str]) -> str:
    """Text for a value whose type is none of those allowed."""
    return f"{format_value(value)} is not of type {' or '.join(repr(name) for name in types)}"


def missing_property_message(name: str) -> str:
    """Text for a required property that is not there."""
    return f"missing required property {name!r}"


def unknown_property_message(name: str, valid: Iterable[str]) -> str:
    """Text for a property that the schema does not know; names the nearest valid ones."""
    names = list(valid)
    if not names:
        return f"unknown property {name!r}; no properties are accepted"
    near = closest_names(name, names)
    if near:
        return f"unknown property {name!r}; did you mean {' or '.join(repr(each) for each in near)}?"
    listed = ", ".join(repr(each) for each in names[:_SHOWN_NAMES])
    return f"unknown property {name!r}; valid properties: {listed}{', …' if len(names) > _SHOWN_NAMES else ''}"


def closest_names(name: str, valid: Iterable[str]) -> list[str]:
    """At most two valid names that look like `name`, best first."""
    import difflib

    folded = {each.lower().replace("-", "_"): each for each in valid}
    found = difflib.get_close_matches(name[:100].lower().replace("-", "_"), folded, n=2, cutoff=0.65)
    return [folded[each] for each in found]


def union_issues(value: Any, branches: Sequence[Sequence[Problem]]) -> list[Problem]:
    """Problems of a value that fits no branch of a union, given what is wrong with it in each branch."""
    if all(len(found) == 1 and found[0].keyword == "type" and not found[0].path for found in branches):
        types = dict.fromkeys(
            part for found in branches for part in found[0].text.partition(" is not of type ")[2].split(" or ")
        )
        return [Problem((), "type", f"{format_value(value)} is not of type {' or '.join(types)}")]
    candidates = [found for found in branches if not any(_rules_out(each) for each in found)]
    if len(candidates) == 1:
        return list(candidates[0])
    first = dict.fromkeys(str(found[0]) for found in branches if found)
    return [
        Problem(
            (), "anyOf", f"{format_value(value)} fits none of the {len(branches)} allowed forms ({'; '.join(first)})"
        )
    ]


def _rules_out(problem: Problem) -> bool:
    """Whether a branch with this problem cannot have been meant: the value is of another type, or marked as another kind."""
    return (problem.keyword == "type" and not problem.path) or (problem.keyword == "const" and len(problem.path) < 2)


def prefix_path(step: str | int, problems: Iterable[Problem]) -> list[Problem]:
    """The problems of a child, as seen from its parent."""
    return [Problem((step, *each.path), each.keyword, each.text) for each in problems]


def format_issues(problems: Sequence[str]) -> str:
    """All problems as one text."""
    if len(problems) == 1:
        return problems[0]
    lines = [f"{len(problems)} problems:", *(f"- {each}" for each in problems[:_SHOWN_PROBLEMS])]
    if len(problems) > _SHOWN_PROBLEMS:
        lines.append(f"- and {len(problems) - _SHOWN_PROBLEMS} more")
    return "\n".join(lines)


def canonical_arguments(value: Any) -> Any:
    """A hashable stand-in: two JSON values are equal in the sense of JSON Schema if and only if theirs are.

    `1` equals `1.0`, but not `true`; the order of keys does not matter.
    """
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return (
            "object",
            frozenset((key, canonical_arguments(item)) for key, item in cast("dict[Any, Any]", value).items()),
        )
    if isinstance(value, (list, tuple)):
        return ("array", tuple(canonical_arguments(item) for item in cast("list[Any]", value)))
    return value
