"""The rules of the Agent Skills format as its reference validator holds them, to the letter."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any, Literal, cast

from msgspec import Struct

FIELDS = frozenset({"name", "description", "license", "allowed-tools", "metadata", "compatibility"})
NAME, DESCRIPTION, COMPATIBILITY = 64, 1024, 500

Rule = Literal[
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


class Fault(Struct, frozen=True):
    """A rule that a file breaks.

    Attributes:
        rule: Which.
        text: What is wrong, in words.
        line: The line of the file, where it is known; else 0.
    """

    rule: Rule
    text: str
    line: int = 0


def strict_faults(text: str, folder: str) -> tuple[Fault, ...]:
    """What the reference validator would find in a ``SKILL.md``, in its order; empty for a valid one.

    Args:
        text: The file's text, byte order mark included.
        folder: Name of the folder it lies in.
    """
    if not text.startswith("---"):
        return (Fault("head-missing", "the file does not begin with --- at its very first character", 1),)
    parts = text.split("---", 2)
    if len(parts) < 3:
        return (Fault("head-open", "there is no second --- that ends the head", 1),)
    fields = _strict_yaml(parts[1])
    if isinstance(fields, Fault):
        return (fields,)
    return (*_unknown(fields), *_name(fields, folder), *_description(fields), *_compatibility(fields))


def _strict_yaml(raw: str) -> dict[str, Any] | Fault:
    """The fields of YAML in its plain form: no ``[a, b]`` or ``{a: b}``, no tags, no anchors, no key twice."""
    import yaml

    reader: Any = yaml  # its stubs leave out what these functions take and give
    loader = yaml.SafeLoader  # the one in C takes a tab before a value
    raw = raw.replace("\u2028", " ").replace("\u2029", " ")  # no ends of lines in YAML 1.2
    try:
        for token in reader.scan(raw, Loader=loader):
            what = _DISALLOWED.get(type(token).__name__)
            if what is not None:
                return Fault(
                    "yaml",
                    f"{what} may not be used; put the text in quotes if it is meant as it stands",
                    token.start_mark.line + 1,
                )
        node = reader.compose(raw, Loader=loader)
        if not isinstance(node, yaml.MappingNode):
            return Fault("no-map", "its head is no map of fields", 1)
        odd = _odd_map(node, 0)
        return odd if odd is not None else cast("dict[str, Any]", _plain(node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return Fault("yaml", f"no valid YAML: {error.problem or error.context}", mark.line + 1 if mark else 0)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return Fault("yaml", f"no valid YAML: {' '.join(str(error).split())[:200]}")


_DISALLOWED = {
    "FlowSequenceStartToken": "a list in brackets",
    "FlowMappingStartToken": "a map in braces",
    "TagToken": "a tag (!)",
    "AnchorToken": "an anchor (&)",
    "AliasToken": "a reference to an anchor (*)",
}
_DEEPEST = 50


def _odd_map(node: Any, depth: int) -> Fault | None:
    """A key that is there twice, or maps that are not indented alike."""
    import yaml

    if depth > _DEEPEST:
        return Fault("yaml", "it is nested too deeply", node.start_mark.line + 1)
    seen: set[str] = set()
    column = -1
    for pair in node.value:
        key, value = pair if isinstance(node, yaml.MappingNode) else (None, pair)
        if key is not None and str(key.value) in seen:
            return Fault("yaml", f"{str(key.value)[:80]} is there twice", key.start_mark.line + 1)
        if key is not None:
            seen.add(str(key.value))
        if isinstance(value, yaml.MappingNode) and key is not None:
            if column not in (-1, value.start_mark.column):
                return Fault("yaml", "the maps in it are not indented alike", value.start_mark.line + 1)
            column = value.start_mark.column
        if isinstance(value, yaml.CollectionNode) and (odd := _odd_map(value, depth + 1)) is not None:
            return odd
    return None


def _plain(node: Any) -> Any:
    import yaml

    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(each) for each in node.value]
    return {} if node.tag == "tag:yaml.org,2002:merge" else node.value


def _unknown(fields: dict[str, Any]) -> Iterator[Fault]:
    extra = sorted(set(fields) - FIELDS)
    if extra:
        yield Fault("unknown-fields", f"the format has no {', '.join(extra)}; further facts belong below metadata")


def _name(fields: dict[str, Any], folder: str) -> Iterator[Fault]:
    value = fields.get("name")
    if "name" not in fields:
        yield Fault("name-missing", "it has no name")
        return
    if not isinstance(value, str) or not value.strip():
        yield Fault("name-empty", "its name is empty, or no text")
        return
    name = unicodedata.normalize("NFKC", value.strip())
    if len(name) > NAME:
        yield Fault("name-long", f"its name has {len(name)} characters; {NAME} are the most")
    if name != name.lower():
        yield Fault("name-case", f"its name {name!r} has upper-case letters")
    if name.startswith("-") or name.endswith("-"):
        yield Fault("name-hyphen-outside", "its name begins or ends with a hyphen")
    if "--" in name:
        yield Fault("name-hyphens", "its name has two hyphens in a row")
    if not all(c.isalnum() or c == "-" for c in name):
        yield Fault("name-characters", f"its name {name!r} has characters other than letters, digits and hyphens")
    if unicodedata.normalize("NFKC", folder) != name:
        yield Fault("name-folder", f"its name {name!r} is not that of its folder, {folder!r}")


def _description(fields: dict[str, Any]) -> Iterator[Fault]:
    value = fields.get("description")
    if "description" not in fields:
        yield Fault("description-missing", "it has no description")
    elif not isinstance(value, str) or not value.strip():
        yield Fault("description-empty", "its description is empty, or no text")
    elif len(value) > DESCRIPTION:
        yield Fault("description-long", f"its description has {len(value)} characters; {DESCRIPTION} are the most")


def _compatibility(fields: dict[str, Any]) -> Iterator[Fault]:
    value = fields.get("compatibility", "")
    if not isinstance(value, str):
        yield Fault("compatibility-text", "its compatibility is no text")
    elif len(value) > COMPATIBILITY:
        yield Fault(
            "compatibility-long", f"its compatibility has {len(value)} characters; {COMPATIBILITY} are the most"
        )
