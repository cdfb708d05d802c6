"""Strict validation of the Agent Skills format, with the rules of its reference validator."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any, Literal, cast

from msgspec import Struct

FIELDS = frozenset({"name", "description", "license", "allowed-tools", "metadata", "compatibility"})
MAX_NAME_CHARS, MAX_DESCRIPTION_CHARS, MAX_COMPATIBILITY_CHARS = 64, 1024, 500

SpecRule = Literal[
    "file-missing",
    "text-encoding",
    "head-missing",
    "head-open",
    "yaml",
    "no-map",
    "unknown-fields",
    "name-missing",
    "name-empty",
    "name-long",
    "name-case",
    "name-hyphen-outside",
    "name-hyphens",
    "name-characters",
    "name-folder",
    "description-missing",
    "description-empty",
    "description-long",
    "compatibility-text",
    "compatibility-long",
]


class RuleViolation(Struct, frozen=True):
    """A violated rule.

    Attributes:
        rule: The rule.
        text: The problem.
        line: The line of the file. 0 if unknown.
    """

    rule: SpecRule
    text: str
    line: int = 0


def check_spec(text: str, folder: str) -> tuple[RuleViolation, ...]:
    """Return the findings of the reference validator for a ``SKILL.md``, in its order. Empty for a valid file.

    Args:
        text: The file's text, including a byte order mark.
        folder: Name of its folder.
    """
    if not text.startswith("---"):
        return (RuleViolation("head-missing", "the file does not start with --- at its very first character", 1),)
    parts = text.split("---", 2)
    if len(parts) < 3:
        return (RuleViolation("head-open", "the front matter has no closing ---", 1),)
    fields = _strict_yaml(parts[1])
    if isinstance(fields, RuleViolation):
        return (fields,)
    return (*_check_unknown_fields(fields), *_name(fields, folder), *_description(fields), *_compatibility(fields))


def _strict_yaml(raw: str) -> dict[str, Any] | RuleViolation:
    """Parse the fields of plain YAML: no ``[a, b]`` or ``{a: b}``, no tags, no anchors, no duplicate keys."""
    import yaml

    reader: Any = yaml  # its type stubs omit parameters and results of these functions
    loader = yaml.SafeLoader  # the C parser accepts a tab before a value
    raw = raw.replace("\u2028", " ").replace("\u2029", " ")  # YAML 1.2 has no such line ends
    try:
        for token in reader.scan(raw, Loader=loader):
            what = _DISALLOWED.get(type(token).__name__)
            if what is not None:
                return RuleViolation(
                    "yaml",
                    f"{what} is not allowed; put the text in quotes if it is meant literally",
                    token.start_mark.line + 1,
                )
        node = reader.compose(raw, Loader=loader)
        if not isinstance(node, yaml.MappingNode):
            return RuleViolation("no-map", "its front matter is not a map of fields", 1)
        odd = _check_map(node, 0)
        return odd if odd is not None else cast("dict[str, Any]", _plain(node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return RuleViolation("yaml", f"invalid YAML: {error.problem or error.context}", mark.line + 1 if mark else 0)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return RuleViolation("yaml", f"invalid YAML: {' '.join(str(error).split())[:200]}")


_DISALLOWED = {
    "FlowSequenceStartToken": "a list in brackets",
    "FlowMappingStartToken": "a map in braces",
    "TagToken": "a tag (!)",
    "AnchorToken": "an anchor (&)",
    "AliasToken": "a reference to an anchor (*)",
}
_DEEPEST = 50


def _check_map(node: Any, depth: int) -> RuleViolation | None:
    """Raise for a duplicate key, or for maps with different indentation."""
    import yaml

    if depth > _DEEPEST:
        return RuleViolation("yaml", "it is nested too deeply", node.start_mark.line + 1)
    seen: set[str] = set()
    column = -1
    for pair in node.value:
        key, value = pair if isinstance(node, yaml.MappingNode) else (None, pair)
        if key is not None and str(key.value) in seen:
            return RuleViolation("yaml", f"{str(key.value)[:80]} is a duplicate", key.start_mark.line + 1)
        if key is not None:
            seen.add(str(key.value))
        if isinstance(value, yaml.MappingNode) and key is not None:
            if column not in (-1, value.start_mark.column):
                return RuleViolation("yaml", "its maps have different indentation", value.start_mark.line + 1)
            column = value.start_mark.column
        if isinstance(value, yaml.CollectionNode) and (odd := _check_map(value, depth + 1)) is not None:
            return odd
    return None


def _plain(node: Any) -> Any:
    import yaml

    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(each) for each in node.value]
    return {} if node.tag == "tag:yaml.org,2002:merge" else node.value


def _check_unknown_fields(fields: dict[str, Any]) -> Iterator[RuleViolation]:
    extra = sorted(set(fields) - FIELDS)
    if extra:
        yield RuleViolation(
            "unknown-fields", f"the format has no field {', '.join(extra)}; move other data below metadata"
        )


def _name(fields: dict[str, Any], folder: str) -> Iterator[RuleViolation]:
    value = fields.get("name")
    if "name" not in fields:
        yield RuleViolation("name-missing", "it has no name")
        return
    if not isinstance(value, str) or not value.strip():
        yield RuleViolation("name-empty", "its name is empty or not text")
        return
    name = unicodedata.normalize("NFKC", value.strip())
    if len(name) > MAX_NAME_CHARS:
        yield RuleViolation("name-long", f"its name has {len(name)} characters; the maximum is {MAX_NAME_CHARS}")
    if name != name.lower():
        yield RuleViolation("name-case", f"its name {name!r} has upper-case letters")
    if name.startswith("-") or name.endswith("-"):
        yield RuleViolation("name-hyphen-outside", "its name starts or ends with a hyphen")
    if "--" in name:
        yield RuleViolation("name-hyphens", "its name has two hyphens in a row")
    if not all(c.isalnum() or c == "-" for c in name):
        yield RuleViolation(
            "name-characters", f"its name {name!r} has characters other than letters, digits, and hyphens"
        )
    if unicodedata.normalize("NFKC", folder) != name:
        yield RuleViolation("name-folder", f"its name {name!r} differs from that of its folder, {folder!r}")


def _description(fields: dict[str, Any]) -> Iterator[RuleViolation]:
    value = fields.get("description")
    if "description" not in fields:
        yield RuleViolation("description-missing", "it has no description")
    elif not isinstance(value, str) or not value.strip():
        yield RuleViolation("description-empty", "its description is empty or not text")
    elif len(value) > MAX_DESCRIPTION_CHARS:
        yield RuleViolation(
            "description-long", f"its description has {len(value)} characters; the maximum is {MAX_DESCRIPTION_CHARS}"
        )


def _compatibility(fields: dict[str, Any]) -> Iterator[RuleViolation]:
    value = fields.get("compatibility", "")
    if not isinstance(value, str):
        yield RuleViolation("compatibility-text", "its compatibility is not text")
    elif len(value) > MAX_COMPATIBILITY_CHARS:
        yield RuleViolation(
            "compatibility-long",
            f"its compatibility has {len(value)} characters; the maximum is {MAX_COMPATIBILITY_CHARS}",
        )
