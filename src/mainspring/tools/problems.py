"""Problems of failed checks: the path, and a message that a model can act on."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeGuard, cast

from mainspring.text import truncate_to_fit

Path = tuple[str | int, ...]

_SHOWN_VALUE = 60
_SHOWN_NAMES = 12
_SHOWN_PROBLEMS = 20


class Problem(NamedTuple):
    """A problem of a value.

    Attributes:
        path: Keys and indexes from the root to the value.
        keyword: Schema keyword that failed (`type`, `required`, ...).
        text: Description of the problem.
    """

    path: Path
    keyword: str
    text: str

    def __str__(self) -> str:
        return f"{format_path(self.path)}: {self.text}"


def is_dict(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return True if a value is a JSON object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Return True if a value is a JSON array."""
    return isinstance(value, list)


def format_path(path: Iterable[str | int]) -> str:
    """Format a path: `("items", 2, "name")` as `$.items[2].name`; keys that are not plain words are quoted."""
    parts = ["$"]
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif step.replace("-", "_").isidentifier():
            parts.append(f".{step}")
        else:
            import json

            parts.append(f"[{json.dumps(step, ensure_ascii=False)}]")
    return "".join(parts)


def format_value(value: Any) -> str:
    """Format a value as JSON, cut to a readable length."""
    try:
        import json

        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, TypeError, RecursionError):
        return f"a value of type {type(value).__name__}"
    return truncate_to_fit(text, _SHOWN_VALUE)


def wrong_type_message(value: Any, types: Sequence[str]) -> str:
    """Return the message for a value whose type is not allowed."""
    return f"{format_value(value)} is not of type {' or '.join(repr(name) for name in types)}"


def missing_property_message(name: str) -> str:
    """Return the message for a missing required property."""
    return f"missing required property {name!r}"


def unknown_property_message(name: str, valid: Iterable[str]) -> str:
    """Return the message for an unknown property; it names the closest valid properties."""
    names = list(valid)
    if not names:
        return f"unknown property {name!r}; no properties are accepted"
    near = closest_names(name, names)
    if near:
        return f"unknown property {name!r}; did you mean {' or '.join(repr(each) for each in near)}?"
    listed = ", ".join(repr(each) for each in names[:_SHOWN_NAMES])
    return f"unknown property {name!r}; valid properties: {listed}{', …' if len(names) > _SHOWN_NAMES else ''}"


def closest_names(name: str, valid: Iterable[str]) -> list[str]:
    """Return at most two valid names that are similar to `name`, best first."""
    import difflib

    folded = {each.lower().replace("-", "_"): each for each in valid}
    found = difflib.get_close_matches(name[:100].lower().replace("-", "_"), folded, n=2, cutoff=0.65)
    return [folded[each] for each in found]


def union_issues(value: Any, branches: Sequence[Sequence[Problem]]) -> list[Problem]:
    """Return the problems of a value that fits no branch of a union, from its problems in each branch."""
    if all(len(found) == 1 and found[0].keyword == "type" and not found[0].path for found in branches):
        types = dict.fromkeys(
            part for found in branches for part in found[0].text.partition(" is not of type ")[2].split(" or ")
        )
        return [Problem((), "type", f"{format_value(value)} is not of type {' or '.join(types)}")]
    candidates = [found for found in branches if not any(_rules_out(each) for each in found)]
    for closest in (candidates, [each for each in candidates if not any(p.keyword == "required" for p in each)]):
        if len(closest) == 1:
            return list(closest[0])
    if fixed := _unknown_kind(branches):
        return [fixed]
    if shared := [each for each in (candidates or [[]])[0] if all(each in found for found in candidates)]:
        return shared
    first = dict.fromkeys(str(found[0]) for found in candidates or branches if found)
    return [
        Problem(
            (), "anyOf", f"{format_value(value)} fits none of the {len(branches)} allowed forms ({'; '.join(first)})"
        )
    ]


def _unknown_kind(branches: Sequence[Sequence[Problem]]) -> Problem | None:
    """Return the problem of a value that is marked as another kind than each branch of object types allows."""
    marks = [[each for each in found if each.keyword == "const" and len(each.path) == 1] for found in branches]
    marks = [found for found, branch in zip(marks, branches, strict=True) if not _is_other_type(branch)]
    if not marks or not all(marks) or len({found[0].path for found in marks}) > 1:
        return None
    shown = marks[0][0].text.partition(" is not ")[0]
    allowed = [found[0].text.partition(" is not ")[2].removeprefix("one of ") for found in marks]
    return Problem(marks[0][0].path, "enum", f"{shown} is not one of {', '.join(allowed)}")


def _is_other_type(branch: Sequence[Problem]) -> bool:
    return any(each.keyword == "type" and not each.path for each in branch)


def _rules_out(problem: Problem) -> bool:
    """Return True if the problem rules out a branch: the value has another type, or is marked as another kind."""
    return (problem.keyword == "type" and not problem.path) or (problem.keyword == "const" and len(problem.path) < 2)


def format_issues(problems: Sequence[str]) -> str:
    """Format all problems as a text."""
    if len(problems) == 1:
        return problems[0]
    lines = [f"{len(problems)} problems:", *(f"- {each}" for each in problems[:_SHOWN_PROBLEMS])]
    if len(problems) > _SHOWN_PROBLEMS:
        lines.append(f"- and {len(problems) - _SHOWN_PROBLEMS} more")
    return "\n".join(lines)


def canonical_arguments(value: Any) -> Any:
    """Return a hashable key: keys are equal if and only if the JSON values are equal in JSON Schema.

    `1` equals `1.0`, but not `true`; the order of keys is ignored.
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
