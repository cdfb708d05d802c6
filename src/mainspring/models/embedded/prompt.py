"""Prompts and turn rules of a small model: short instructions, few tools, examples, and a history that is only appended to.

No I/O: converts messages to plain text turns. Every turn depends only on its own message, so the part that was sent before is
identical and the engine's prompt cache applies. The rules for the next turn prevent that the model guesses, repeats itself,
or loops; it may read only files whose names appear in the conversation, so that it cannot invent paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.messages import Message, TextBlock, ToolDefinition, ToolResultBlock, ToolUseBlock
from mainspring.models.codec.normalize import iter_complete_turns
from mainspring.models.embedded.grammar import GrammarSchema, encode_answer, encode_call, turn_schema
from mainspring.prompt_tags import has_attachments, strip_attachments

MAX_TOOLS = 5
"""Maximum number of tools; more tools confuse a small model."""


RESULT_CHARACTERS = 2400
"""Maximum length of one result: about 700 tokens, 7 to 15 seconds of prompt processing on two cores."""


SYSTEM_CHARACTERS = 800
"""Maximum length of the caller's own system prompt."""


_MAX_OPTIONAL = 2


_LINE_NUMBERS = {"read_file": lazy_re(r"^\d+\t", re.MULTILINE), "grep": lazy_re(r"^\d+[:-]", re.MULTILINE)}


class _ToolHint(Struct, frozen=True):
    """Hints about a built-in tool for a small model."""

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
"""Tools after which the same call may return another result."""


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
_MAX_EXAMPLES = 3


def select_tools(tools: Sequence[ToolDefinition], choice: str = "") -> list[ToolDefinition]:
    """Return the tools to offer to the model, at max_length `MAX_TOOLS`; ``wanted`` is always included.

    Read-only tools come first, then custom tools (added for a reason), then the rest.
    """

    def rank(spec: ToolDefinition) -> int:
        if spec.name == choice:
            return -1
        if spec.name in _PREFERRED_TOOLS:
            return _PREFERRED_TOOLS.index(spec.name)
        return len(_PREFERRED_TOOLS) + (1 + _OTHER_TOOLS.index(spec.name) if spec.name in _OTHER_TOOLS else 0)

    return sorted(tools, key=rank)[:MAX_TOOLS]


def argument_schema(spec: ToolDefinition) -> GrammarSchema:
    """Return the schema of a tool's arguments, reduced to the required and a few other properties."""
    schema = spec.input_schema
    properties = cast("dict[str, GrammarSchema]", schema.get("properties", {}))
    required = cast("list[str]", schema.get("required", []))
    known = _TOOL_HINTS.get(spec.name)
    optional = () if known else tuple(name for name in properties if name not in required)[:_MAX_OPTIONAL]
    needed = (*required, *(name for name in (known.needed if known else ()) if name in properties))
    parameters = {name: part for name, part in properties.items() if name in needed or name in optional}
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return {"type": "object", "properties": parameters, "required": list(needed), **definitions}


def default_arguments(spec: ToolDefinition) -> dict[str, Any]:
    """Return default arguments for every call of a tool, because a small model omits them."""
    known = _TOOL_HINTS.get(spec.name)
    properties = spec.input_schema.get("properties", {})
    return {name: value for name, value in (known.always if known else {}).items() if name in properties}


def tool_signature(spec: ToolDefinition) -> str:
    """Return a tool as one line of text."""
    schema = argument_schema(spec)
    parts = [
        f"{name}{'' if name in schema['required'] else '?'}{_kind(part)}" for name, part in schema["properties"].items()
    ]
    known = _TOOL_HINTS.get(spec.name)
    return f"{spec.name}({', '.join(parts)}): {known.about if known else _sentence(spec.description)}"


def _kind(schema: GrammarSchema) -> str:
    kind = schema.get("type")
    if "enum" in schema:
        return ": " + "|".join(str(value) for value in schema["enum"][:6])
    return "" if kind in {None, "string"} else f": {kind}"


def _sentence(description: str) -> str:
    line = " ".join(description.split("\n\n", maxsplit=1)[0].split())
    return line.partition(". ")[0].removesuffix(".")[:100]


def system_prompt(tools: Sequence[ToolDefinition], system: str) -> str:
    """Return the system prompt."""
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
    for question, steps, answer in fitting[:_MAX_EXAMPLES]:
        lines += ["", f"User: {question}"]
        for name, given, result in steps:
            lines += [encode_call(name, given), f"Result of {name}:", result]
        lines.append(encode_answer(answer))
    return ["Examples:", *lines] if lines else []


def _reply_formats(tools: Sequence[ToolDefinition]) -> list[str]:
    given = dict.fromkeys(argument_schema(tools[0])["properties"], "...")
    return [f"A call: {encode_call(tools[0].name, given)}", f"An answer: {encode_answer('...')}"]


def render_turns(messages: Sequence[Message], *, is_bare: bool = False) -> list[Message]:
    """Render the conversation as plain text turns; calls without a result get one.

    Args:
        messages: The conversation.
        is_bare: Whether answers are plain text, for a conversation without tools.
    """
    repaired = [message for unit, _ in iter_complete_turns(messages) for message in unit]
    return [turn for message in repaired if (turn := _render_turn(message, is_bare))]


def _render_turn(message: Message, is_bare: bool) -> Message | None:
    if message.role == "assistant":
        calls = [encode_call(call.name, _model_arguments(call.name, call.input)) for call in message.tool_uses]
        text = "\n".join(calls) or (message.text if is_bare or not message.text else encode_answer(message.text))
        return Message.assistant(text) if text else None
    parts = [_format_result(block) for block in message.content if isinstance(block, ToolResultBlock)]
    parts += [block.text for block in message.content if isinstance(block, TextBlock) and block.text]
    return Message.user("\n\n".join(parts)) if parts else None


def _model_arguments(name: str, mapping: dict[str, Any]) -> dict[str, Any]:
    known = _TOOL_HINTS.get(name)
    return {k: v for k, v in mapping.items() if not known or known.always.get(k) != v}


def _format_result(result: ToolResultBlock) -> str:
    label = "Error of" if result.is_error else "Result of"
    text = _LINE_NUMBERS[result.name].sub("", result.text) if result.name in _LINE_NUMBERS else result.text
    return f"{label} {result.name or 'the tool'}:\n{truncate_middle(text, RESULT_CHARACTERS) or '(nothing)'}"


def truncate_middle(text: str, max_length: int) -> str:
    """Return the text, or as many of its first lines as fit, a note about the omitted part, and its last line."""
    if len(text) <= max_length:
        return text
    last = text.rpartition("\n")[2]
    last = last if 0 < len(last) < max_length // 4 else ""
    head = text[: max_length - len(last)]
    head = head[: head.rfind("\n")] if "\n" in head[max_length // 2 :] else head
    note = f"[{len(text) - len(head) - len(last)} characters left out here: too long for this model]"
    return "\n".join([head, note, last]) if last else f"{head}\n{note}"


_MIN_NAME_CHARS = 4
_FILE = lazy_re(r"(?<![\w/:.@~-])(?:[\w.-]+/)*[\w-]+(?:\.[\w-]+)*\.[^\W\d_]\w{0,4}(?![\w/@(])")
_HIT = lazy_re(r"\d+[:-]")
_ENTRY = lazy_re(r"( *)(.+?)(/?)(?: \(\d+ inside\))?")


def extract_file_names(text: str) -> list[str]:
    """Return the files that a text mentions: ``data/a.csv``, ``notes.txt``."""
    return [name for name in dict.fromkeys(_FILE.findall(text)) if len(name) >= _MIN_NAME_CHARS]


def collect_file_names(messages: Sequence[Message]) -> list[str]:
    """Return the files mentioned by the user and by tool results, in order."""
    calls = {call.id: call for message in messages for call in message.tool_uses}
    found: dict[str, None] = {}
    for message in messages:
        if message.role == "user":
            found.update(dict.fromkeys(extract_file_names(strip_attachments(message.text))))
            for result in message.tool_results:
                call = calls.get(result.tool_use_id)
                if call is not None and not result.is_error:
                    found.update(dict.fromkeys(_files_in_result(call, result)))
    return list(found)


def _files_in_result(call: ToolUseBlock, result: ToolResultBlock) -> Iterator[str]:
    match call.name:
        case "list_files":
            yield from _files_in_listing(result.text, str(call.input.get("path") or "."))
        case "grep" | "glob":
            yield from (
                line for line in result.text.splitlines() if line and not _HIT.match(line) and line[0] not in "([-"
            )
        case "read_file" | "write_file" | "edit" | "multi_edit":
            yield str(call.input.get("path", ""))
        case _:
            pass


def _files_in_listing(text: str, base: str) -> Iterator[str]:
    """Return the files of an indented listing, relative to the listed folder."""
    folders = [] if base in {".", "./"} else [base.rstrip("/")]
    start = len(folders)
    for line in text.splitlines():
        match = _ENTRY.fullmatch(line)
        if not match or line.startswith("("):
            continue
        depth = start + len(match[1]) // 2
        path = "/".join([*folders[:depth], match[2]])
        if match[3]:
            folders = [*folders[:depth], match[2]]
        else:
            yield path


MAX_CALLS = 8
"""Maximum number of calls per question, after which the model must answer."""


_MAX_NAMED = 4  # A question that mentions more files is pasted text.
_MAX_KNOWN = 200
_PATHS = ("path", "file", "file_path", "filename")
_FOLDERS = frozenset({"list_files", "glob", "grep"})
_ONLY_KNOWN = frozenset({"read_file", "edit", "multi_edit"})


class TurnRules(Struct, frozen=True):
    """Rules for the next turn.

    Attributes:
        calls: Argument schemas of the tools that may be called.
        answer: GrammarSchema of an answer; ``None`` if a call is required.
        done: Calls that must not be repeated: name and arguments.
    """

    calls: dict[str, GrammarSchema]
    answer: GrammarSchema | None
    done: frozenset[tuple[str, str]] = frozenset()

    @property
    def schema(self) -> GrammarSchema:
        """Schema that constrains the turn."""
        return turn_schema(self.calls, self.answer)

    def is_repeated(self, name: str, given: Mapping[str, Any]) -> bool:
        """Return True if this call was already made for the same question."""
        return (name, _arguments_text(given)) in self.done


def rules_for_next_turn(
    messages: Sequence[Message],
    tools: Sequence[ToolDefinition],
    choice: str = "auto",
    answer: GrammarSchema | None = None,
) -> TurnRules:
    """Return the rules for the next turn.

    The model must read a file that the question mentions before it answers; it may read other files only if the conversation
    contains their names. Text that is part of the question (piped in, or a file mentioned with ``@``) does not need to be read.
    Repeated calls and more than `MAX_CALLS` calls are not allowed: the model must answer with the results it has.

    Args:
        messages: The conversation.
        tools: Available tools.
        choice: The request's ``tool_choice``.
        answer: GrammarSchema that an answer must match.
    """
    answer = answer or {"type": "string", "minLength": 1}
    calls = {spec.name: argument_schema(spec) for spec in tools}
    if choice == "required":
        return TurnRules(calls, None)
    if choice in calls:
        return TurnRules({choice: calls[choice]}, None)
    since = _since_question(messages)
    done_calls = [call for message in since for call in message.tool_uses]
    if choice == "none" or len(done_calls) >= MAX_CALLS:
        return TurnRules({}, answer)
    done: set[tuple[str, str]] = set()
    for call in done_calls:
        if call.name in MUTATING_TOOLS:
            done.clear()
        done.add((call.name, _arguments_text(call.input)))
    known = collect_file_names(messages)
    if (
        since and not done_calls and has_attachments(since[0].text)
    ):  # The text is in the question; only changes need a tool.
        asks = _is_question(since)
        return TurnRules({n: c for n, c in calls.items() if n in MUTATING_TOOLS and not asks}, answer, frozenset(done))
    if about := _calls_for_files(
        calls, _unread_files(since, done_calls, known), reading_only=bool(done_calls) or _is_question(since)
    ):
        return TurnRules(about, None, frozenset(done))
    return TurnRules(_restrict_to_files(calls, known), answer, frozenset(done))


def without_calls(step: TurnRules) -> TurnRules:
    """Return the same rules without calls, for a model that repeats itself."""
    return TurnRules({}, step.answer or {"type": "string", "minLength": 1})


def _arguments_text(given: Mapping[str, Any]) -> str:
    """Return the arguments in a canonical form for comparison."""
    return json.dumps(given, sort_keys=True, ensure_ascii=False)


def _since_question(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the last question and all messages after it."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user" and messages[at].text and not messages[at].tool_results:
            return messages[at:]
    return messages


def _is_question(since: Sequence[Message]) -> bool:
    """Return True if the request is a question, so that no file must be written."""
    return bool(since) and strip_attachments(since[0].text).rstrip().endswith("?")


def _unread_files(since: Sequence[Message], calls: Sequence[ToolUseBlock], known: Sequence[str]) -> list[str]:
    """Return the files that the question mentions and no call has read, by their known path."""
    named = extract_file_names(strip_attachments(since[0].text)) if since else []
    if len(named) > _MAX_NAMED:
        return []
    seen = " ".join([_arguments_text(call.input) for call in calls])
    unseen: list[str] = []
    for name in named:
        if name not in seen:
            unseen += [path for path in known if path.endswith(f"/{name}")] or [name]
    return unseen


def _calls_for_files(
    calls: Mapping[str, GrammarSchema], names: Sequence[str], *, reading_only: bool
) -> dict[str, GrammarSchema]:
    """Return the calls that can read one of these files, restricted to these files."""
    if not names:
        return {}
    fitting = {name: schema for name, schema in calls.items() if not (reading_only and name in MUTATING_TOOLS)}
    return {name: _at(schema, names) for name, schema in fitting.items() if _path_of(schema) and name not in _FOLDERS}


def _restrict_to_files(calls: Mapping[str, GrammarSchema], known: Sequence[str]) -> dict[str, GrammarSchema]:
    """Return the calls, with reads restricted to file names from the conversation."""
    if len(known) > _MAX_KNOWN or not _FOLDERS & calls.keys():
        return dict(calls)
    usable = {name: schema for name, schema in calls.items() if known or name not in _ONLY_KNOWN}
    return {name: _at(schema, known) if name in _ONLY_KNOWN else schema for name, schema in usable.items()}


def _path_of(schema: GrammarSchema) -> str | None:
    return next((name for name in _PATHS if name in schema["required"]), None)


def _at(schema: GrammarSchema, paths: Sequence[str]) -> GrammarSchema:
    """Return the schema with its path restricted to these values."""
    path = _path_of(schema)
    return {**schema, "properties": {**schema["properties"], path: {"enum": list(paths)}}} if path else schema
