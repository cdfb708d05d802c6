"""What a docstring says about a function and each of its parameters."""

import inspect
import re
from typing import NamedTuple

from mainspring.lazy import lazy_re

_SECTIONS = frozenset(
    "args arguments parameters params other parameters keyword args keyword arguments returns return yields yield raises "
    "raise except exceptions warns example examples note notes attributes see also references todo warning warnings".split()
)
_ARGUMENTS = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters"}
)
_MULTI_WORD = frozenset({"other parameters", "keyword args", "keyword arguments", "see also"})
_HEADING = lazy_re(r"([A-Za-z]+(?: [A-Za-z]+)?):\s*")
_ENTRY = lazy_re(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:\s*(.*)")
_OTHER_STYLE = lazy_re(
    r"^\s*(?::param\b|:parameter\b|:arg\b|@param\b)|^(?:Other )?Parameters\s*\n\s*-{3,}", re.MULTILINE
)


class Docs(NamedTuple):
    """A description, and the description of each parameter that has one."""

    description: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docs:
    """Take a docstring apart: Google, NumPy and Sphinx styles; anything else is all description."""
    if not text:
        return Docs("", {})
    clean = inspect.cleandoc(text)
    if _OTHER_STYLE.search(clean):
        return _read_with_parser(clean)
    return _read_sections(clean)


def _read_sections(text: str) -> Docs:
    description: list[str] = []
    parameters: dict[str, str] = {}
    section, name, entry_indent = "", "", 0
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        heading = _HEADING.fullmatch(line)
        if heading and _is_section(heading[1].lower()):
            section, name, entry_indent = heading[1].lower(), "", 0
        elif not section:
            description.append(line)
        elif indent == 0 and line.strip():
            section = ""
            description.append(line)
        elif section in _ARGUMENTS and line.strip():
            entry_indent = entry_indent or indent
            entry = _ENTRY.fullmatch(line.strip()) if indent <= entry_indent else None
            if entry:
                name = entry[1]
                parameters[name] = entry[2]
            elif name:
                parameters[name] = f"{parameters[name]} {line.strip()}".strip()
    return Docs("\n".join(description).strip(), {each: text for each, text in parameters.items() if text})


def _is_section(heading: str) -> bool:
    return heading in _SECTIONS or heading in _MULTI_WORD


def _read_with_parser(text: str) -> Docs:
    from docstring_parser import ParseError, parse

    try:
        found = parse(text)
    except (ParseError, ValueError):
        return Docs(text, {})
    parts = [found.short_description or "", found.long_description or ""]
    parameters = {each.arg_name: " ".join((each.description or "").split()) for each in found.params}
    return Docs("\n\n".join(part for part in parts if part), {name: text for name, text in parameters.items() if text})
