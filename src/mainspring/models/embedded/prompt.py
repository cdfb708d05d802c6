"""How a small model is spoken to: a short prompt, few tools in one line each, examples, and a history that only grows.

Pure: messages in, plain text turns out. Every turn is a function of its own message, so the part that was sent before is the
same to the byte and the engine's prompt cache finds it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.messages import Message, TextBlock, ToolDefinition, ToolResultBlock
from mainspring.models.codec.normalize import iter_complete_turns
from mainspring.models.embedded.grammar import Schema, encode_answer, encode_call

MAX_TOOLS = 5
"""More than these only confuse a small model."""

RESULT_CHARACTERS = 2400
"""What the model sees of one result: some 700 tokens, 7 to 15 seconds of reading on two cores."""

SYSTEM_CHARACTERS = 800
"""What of the caller's own instructions is passed on."""

_MOST_OPTIONAL = 2


_LINE_NUMBERS = {"read_file": lazy_re(r"^\d+\t", re.MULTILINE), "grep": lazy_re(r"^\d+[:-]", re.MULTILINE)}


class _ToolHint(Struct, frozen=True):
    """What a small model has to know of a built-in tool."""

    about: str
    needed: tuple[str, ...] = ()
    always: dict[str, Any] = {}


_TOOL_HINTS = {
    "read_file": _ToolHint("show the text of one file"),
    "list_files": _ToolHint('show the names of the files in a folder; this folder is "."', needed=("path",)),
    "grep": _ToolHint("show which files contain a word", always={"ignore_case": True}),
    "write_file": _ToolHint("create a file"),
    "edit": _ToolHint("replace a text in a file by another"),
    "shell": _ToolHint("run a shell command"),
    "glob": _ToolHint("find files by name, as in **/*.py"),
    "multi_edit": _ToolHint("make several replacements in a file"),
}
_PREFERRED_TOOLS = ("read_file", "list_files", "grep")
_OTHER_TOOLS = (
    *("write_file", "edit", "shell", "glob", "multi_edit", "apply_patch", "fetch", "jobs"),
    *("todo_write", "todo_read", "ask_user", "present_plan"),
)
MUTATING_TOOLS = frozenset({"write_file", "edit", "multi_edit", "apply_patch", "shell"})
"""Tools after which the same call may give another result."""

_Example = tuple[str, list[tuple[str, dict[str, Any], str]], str]
_COUNT: _Example = (
    "How many files are in this folder?",
    [("list_files", {"path": "."}, "cat.png\ndog.png\nowl.png\n(3 files)")],
    "There are 3 files in this folder: cat.png, dog.png and owl.png.",
)
_COMPARE: _Example = (
    "How do old.txt and new.txt differ?",
    [
        ("read_file", {"path": "old.txt"}, "name: Ada\nage: 30\n(end of file, 2 lines)"),
        ("read_file", {"path": "new.txt"}, "name: Bob\nage: 30\n(end of file, 2 lines)"),
    ],
    'old.txt has "name: Ada", new.txt has "name: Bob". The rest is the same.',
)
_CREATE: _Example = (
    "Create a file ok.txt with the text: Thank you for coming",
    [("write_file", {"path": "ok.txt", "content": "Thank you for coming"}, "Created ok.txt (1 line, 20 bytes).")],
    "Created ok.txt.",
)
_FIND: _Example = (
    "What colour are the tulips?",
    [("grep", {"pattern": "tulips"}, "garden/beds.md\nred tulips\n(1 matching line in 1 file)")],
    "garden/beds.md says that the tulips are red.",
)
_MOST_EXAMPLES = 3


def select_tools(tools: Sequence[ToolDefinition], wanted: str = "") -> list[ToolDefinition]:
    """The tools that the model is told of, at most `MOST_TOOLS`; ``wanted`` is always among them.

    Reading comes first, then tools that are not built in (somebody put them there for a reason), then the rest.
    """

    def rank(spec: ToolDefinition) -> int:
        if spec.name == wanted:
            return -1
        if spec.name in _PREFERRED_TOOLS:
            return _PREFERRED_TOOLS.index(spec.name)
        return len(_PREFERRED_TOOLS) + (1 + _OTHER_TOOLS.index(spec.name) if spec.name in _OTHER_TOOLS else 0)

    return sorted(tools, key=rank)[:MAX_TOOLS]


def argument_schema(spec: ToolDefinition) -> Schema:
    """The schema of a tool's arguments: what is required and little else."""
    schema = spec.input_schema
    properties = cast("dict[str, Schema]", schema.get("properties", {}))
    required = cast("list[str]", schema.get("required", []))
    known = _TOOL_HINTS.get(spec.name)
    optional = () if known else tuple(name for name in properties if name not in required)[:_MOST_OPTIONAL]
    needed = (*required, *(name for name in (known.needed if known else ()) if name in properties))
    kept = {name: part for name, part in properties.items() if name in needed or name in optional}
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return {"type": "object", "properties": kept, "required": list(needed), **definitions}


def default_arguments(spec: ToolDefinition) -> dict[str, Any]:
    """Arguments that are put into every call of a tool, because a small model would not think of them."""
    known = _TOOL_HINTS.get(spec.name)
    properties = spec.input_schema.get("properties", {})
    return {name: value for name, value in (known.always if known else {}).items() if name in properties}


def tool_signature(spec: ToolDefinition) -> str:
    """A tool in one line."""
    schema = argument_schema(spec)
    parts = [
        f"{name}{'' if name in schema['required'] else '?'}{_kind(part)}" for name, part in schema["properties"].items()
    ]
    known = _TOOL_HINTS.get(spec.name)
    return f"{spec.name}({', '.join(parts)}): {known.about if known else _sentence(spec.description)}"


def _kind(schema: Schema) -> str:
    kind = schema.get("type")
    if "enum" in schema:
        return ": " + "|".join(str(value) for value in schema["enum"][:6])
    return "" if kind in {None, "string"} else f": {kind}"


def _sentence(description: str) -> str:
    line = " ".join(description.split("\n\n", maxsplit=1)[0].split())
    return line.partition(". ")[0].removesuffix(".")[:100]


def system_prompt(tools: Sequence[ToolDefinition], system: str) -> str:
    """What stands before the conversation."""
    with_files = any(spec.name in _PREFERRED_TOOLS for spec in tools)
    lines = [
        "You help with files in the current folder. You cannot see files; tools show them."
        if with_files
        else "You answer with the help of tools.",
        "Each reply is one JSON object: a tool call, or the final answer.",
        "Never guess what is in a file or folder: call a tool first. When the results show what was asked, answer."
        if with_files
        else "When the results show what was asked, answer.",
        "",
        "Tools:",
        *(tool_signature(spec) for spec in tools),
        "",
        *(_examples(tools) or _reply_formats(tools)),
    ]
    if system:
        lines += ["", truncate_middle(system, SYSTEM_CHARACTERS)]
    return "\n".join(lines)


def _examples(tools: Sequence[ToolDefinition]) -> list[str]:
    names = {spec.name for spec in tools}
    fitting = [e for e in (_COUNT, _COMPARE, _CREATE, _FIND) if all(name in names for name, _, _ in e[1])]
    lines: list[str] = []
    for question, steps, answer in fitting[:_MOST_EXAMPLES]:
        lines += ["", f"User: {question}"]
        for name, given, result in steps:
            lines += [encode_call(name, given), f"Result of {name}:", result]
        lines.append(encode_answer(answer))
    return ["Examples:", *lines] if lines else []


def _reply_formats(tools: Sequence[ToolDefinition]) -> list[str]:
    given = dict.fromkeys(argument_schema(tools[0])["properties"], "...")
    return [f"A call: {encode_call(tools[0].name, given)}", f"An answer: {encode_answer('...')}"]


def render_turns(messages: Sequence[Message], *, bare: bool = False) -> list[Message]:
    """The conversation as plain text turns; calls without a result get one.

    Args:
        messages: The conversation.
        bare: Whether answers stand as they are, for a conversation without tools.
    """
    repaired = [message for unit, _ in iter_complete_turns(messages) for message in unit]
    return [turn for message in repaired if (turn := _render_turn(message, bare))]


def _render_turn(message: Message, bare: bool) -> Message | None:
    if message.role == "assistant":
        calls = [encode_call(call.name, _model_arguments(call.name, call.input)) for call in message.tool_uses]
        text = "\n".join(calls) or (message.text if bare or not message.text else encode_answer(message.text))
        return Message.assistant(text) if text else None
    parts = [_format_result(block) for block in message.content if isinstance(block, ToolResultBlock)]
    parts += [block.text for block in message.content if isinstance(block, TextBlock) and block.text]
    return Message.user("\n\n".join(parts)) if parts else None


def _model_arguments(name: str, given: dict[str, Any]) -> dict[str, Any]:
    known = _TOOL_HINTS.get(name)
    return {k: v for k, v in given.items() if not known or known.always.get(k) != v}


def _format_result(result: ToolResultBlock) -> str:
    label = "Error of" if result.is_error else "Result of"
    text = _LINE_NUMBERS[result.name].sub("", result.text) if result.name in _LINE_NUMBERS else result.text
    return f"{label} {result.name or 'the tool'}:\n{truncate_middle(text, RESULT_CHARACTERS) or '(nothing)'}"


def truncate_middle(text: str, most: int) -> str:
    """The text, or as many of its first lines as fit, a note of what was left out, and its last line."""
    if len(text) <= most:
        return text
    last = text.rpartition("\n")[2]
    last = last if 0 < len(last) < most // 4 else ""
    head = text[: most - len(last)]
    head = head[: head.rfind("\n")] if "\n" in head[most // 2 :] else head
    note = f"[{len(text) - len(head) - len(last)} characters left out here: too long for this model]"
    return "\n".join([head, note, last]) if last else f"{head}\n{note}"
