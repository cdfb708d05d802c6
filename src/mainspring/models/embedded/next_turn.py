"""Which files a conversation has named so far: only these may a small model read, so that it cannot make names up. Pure.

What a small model may do next: the rules that keep it from guessing, repeating itself and going on for ever. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.messages import Message, ToolDefinition, ToolResultBlock, ToolUseBlock
from mainspring.models.embedded.grammar import Schema, turn_schema
from mainspring.models.embedded.prompt import MUTATING_TOOLS, argument_schema
from mainspring.prompt_tags import has_attachments, strip_attachments

_SHORTEST_NAME = 4
_FILE = lazy_re(r"(?<![\w/:.@~-])(?:[\w.-]+/)*[\w-]+(?:\.[\w-]+)*\.[^\W\d_]\w{0,4}(?![\w/@(])")
_HIT = lazy_re(r"\d+[:-]")
_ENTRY = lazy_re(r"( *)(.+?)(/?)(?: \(\d+ inside\))?")


def extract_file_names(text: str) -> list[str]:
    """The files that a text names: ``data/a.csv``, ``notes.txt``."""
    return [name for name in dict.fromkeys(_FILE.findall(text)) if len(name) >= _SHORTEST_NAME]


def collect_file_names(messages: Sequence[Message]) -> list[str]:
    """The files that people named and tools showed, in the order in which they came up."""
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
    """The files of an indented listing, below the folder that was listed."""
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
"""Calls for one question, after which it has to answer."""


_MOST_NAMED = 4  # a question that names more is a pasted text
_MOST_KNOWN = 200
_PATHS = ("path", "file", "file_path", "filename")
_FOLDERS = frozenset({"list_files", "glob", "grep"})
_ONLY_KNOWN = frozenset({"read_file", "edit", "multi_edit"})


class TurnRules(Struct, frozen=True):
    """What the next turn may be.

    Attributes:
        calls: The tools that may be called, with the schema of their arguments.
        answer: Schema of an answer; ``None`` if it must be a call.
        done: Calls that would only be repeated: name and arguments.
    """

    calls: dict[str, Schema]
    answer: Schema | None
    done: frozenset[tuple[str, str]] = frozenset()

    @property
    def schema(self) -> Schema:
        """The schema that binds the turn."""
        return turn_schema(self.calls, self.answer)

    def is_repeated(self, name: str, given: Mapping[str, Any]) -> bool:
        """Whether this call has been made already for the same question."""
        return (name, canonical_arguments(given)) in self.done


def rules_for_next_turn(
    messages: Sequence[Message], tools: Sequence[ToolDefinition], choice: str = "auto", answer: Schema | None = None
) -> TurnRules:
    """The rules for the next turn.

    A file that the question names is looked at before anything is said about it; any other is read only under a name that
    has come up. Text that the question brings with it (piped in, or a file mentioned with ``@``) needs no looking at. A call that was made already, and one more than `MOST_CALLS`, is not made: the model has to answer with what
    it has.

    Args:
        messages: The conversation.
        tools: The tools it knows.
        choice: The request's ``tool_choice``.
        answer: The schema that an answer must follow.
    """
    answer = answer or {"type": "string", "minLength": 1}
    calls = {spec.name: argument_schema(spec) for spec in tools}
    if choice == "required":
        return TurnRules(calls, None)
    if choice in calls:
        return TurnRules({choice: calls[choice]}, None)
    since = _since_question(messages)
    made = [call for message in since for call in message.tool_uses]
    if choice == "none" or len(made) >= MAX_CALLS:
        return TurnRules({}, answer)
    done: set[tuple[str, str]] = set()
    for call in made:
        if call.name in MUTATING_TOOLS:
            done.clear()
        done.add((call.name, canonical_arguments(call.input)))
    known = collect_file_names(messages)
    if (
        since and not made and has_attachments(since[0].text)
    ):  # it is there to be read; only doing something needs a tool
        asks = _is_question(since)
        return TurnRules({n: c for n, c in calls.items() if n in MUTATING_TOOLS and not asks}, answer, frozenset(done))
    if about := _calls_for_files(
        calls, _unread_files(since, made, known), reading_only=bool(made) or _is_question(since)
    ):
        return TurnRules(about, None, frozenset(done))
    return TurnRules(_restrict_to_files(calls, known), answer, frozenset(done))


def without_calls(step: TurnRules) -> TurnRules:
    """The same step without calls, for a model that repeats itself."""
    return TurnRules({}, step.answer or {"type": "string", "minLength": 1})


def canonical_arguments(given: Mapping[str, Any]) -> str:
    """Arguments in a form that compares."""
    return json.dumps(given, sort_keys=True, ensure_ascii=False)


def _since_question(messages: Sequence[Message]) -> Sequence[Message]:
    """The last question and what follows it."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user" and messages[at].text and not messages[at].tool_results:
            return messages[at:]
    return messages


def _is_question(since: Sequence[Message]) -> bool:
    """Whether the question is one, so that nothing has to be written for it."""
    return bool(since) and strip_attachments(since[0].text).rstrip().endswith("?")


def _unread_files(since: Sequence[Message], made: Sequence[ToolUseBlock], known: Sequence[str]) -> list[str]:
    """The files that the question names and no call has looked at, by the path under which they are known."""
    named = extract_file_names(strip_attachments(since[0].text)) if since else []
    if len(named) > _MOST_NAMED:
        return []
    seen = " ".join([canonical_arguments(call.input) for call in made])
    unseen: list[str] = []
    for name in named:
        if name not in seen:
            unseen += [path for path in known if path.endswith(f"/{name}")] or [name]
    return unseen


def _calls_for_files(calls: Mapping[str, Schema], names: Sequence[str], *, reading_only: bool) -> dict[str, Schema]:
    """The calls that can look at one of these files, and only at them."""
    if not names:
        return {}
    fitting = {name: schema for name, schema in calls.items() if not (reading_only and name in MUTATING_TOOLS)}
    return {name: _at(schema, names) for name, schema in fitting.items() if _path_of(schema) and name not in _FOLDERS}


def _restrict_to_files(calls: Mapping[str, Schema], known: Sequence[str]) -> dict[str, Schema]:
    """The calls as they are, but that a file is read only under a name that has come up."""
    if len(known) > _MOST_KNOWN or not _FOLDERS & calls.keys():
        return dict(calls)
    usable = {name: schema for name, schema in calls.items() if known or name not in _ONLY_KNOWN}
    return {name: _at(schema, known) if name in _ONLY_KNOWN else schema for name, schema in usable.items()}


def _path_of(schema: Schema) -> str | None:
    return next((name for name in _PATHS if name in schema["required"]), None)


def _at(schema: Schema, paths: Sequence[str]) -> Schema:
    """The schema with its path bound to these."""
    path = _path_of(schema)
    return {**schema, "properties": {**schema["properties"], path: {"enum": list(paths)}}} if path else schema
