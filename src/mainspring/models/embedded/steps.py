"""What a small model may do next: the rules that keep it from guessing, repeating itself and going on for ever. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mainspring.messages import Message, ToolSpec
from mainspring.models.embedded.profile import CHANGING, arguments
from mainspring.models.embedded.union import Schema, union_schema

MOST_CALLS = 8
"""Calls for one question, after which it has to answer."""

_MOST_NAMED = 4
_SHORTEST_NAME = 4
_PATHS = ("path", "file", "file_path", "filename")
_FOLDERS = frozenset({"list_files", "glob", "grep"})
_FILE = re.compile(r"(?<![\w/:.@~-])(?:[\w.-]+/)*[\w-]+(?:\.[\w-]+)*\.[^\W\d_]\w{0,4}(?![\w/@(])")


class Step(Struct, frozen=True):
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
        return union_schema(self.calls, self.answer)

    def repeats(self, name: str, given: Mapping[str, Any]) -> bool:
        """Whether this call has been made already for the same question."""
        return (name, canonical(given)) in self.done


def next_step(
    messages: Sequence[Message], tools: Sequence[ToolSpec], choice: str = "auto", answer: Schema | None = None
) -> Step:
    """The rules for the next turn.

    A file that the question names is looked at before anything is said about it. A call that was made already, and one more
    than `MOST_CALLS`, is not made: the model has to answer with what it has.

    Args:
        messages: The conversation.
        tools: The tools it knows.
        choice: The request's ``tool_choice``.
        answer: The schema that an answer must follow.
    """
    answer = answer or {"type": "string", "minLength": 1}
    calls = {spec.name: arguments(spec) for spec in tools}
    if choice == "required":
        return Step(calls, None)
    if choice in calls:
        return Step({choice: calls[choice]}, None)
    since = _since_question(messages)
    made = [call for message in since for call in message.tool_uses]
    if choice == "none" or len(made) >= MOST_CALLS:
        return Step({}, answer)
    done: set[tuple[str, str]] = set()
    for call in made:
        if call.name in CHANGING:
            done.clear()
        done.add((call.name, canonical(call.input)))
    seen = " ".join([canonical(call.input) for call in made])
    question = since[0].text if since else ""
    unseen = [name for name in named_files(question) if name not in seen]
    about = _about(calls, unseen, reading_only=bool(made) or question.rstrip().endswith("?")) if unseen else {}
    return Step(about, None, frozenset(done)) if about else Step(calls, answer, frozenset(done))


def answer_only(step: Step) -> Step:
    """The same step without calls, for a model that repeats itself."""
    return Step({}, step.answer or {"type": "string", "minLength": 1})


def named_files(question: str) -> list[str]:
    """The files that a question names, if they are few: ``data/a.csv``, ``notes.txt``."""
    found = [name for name in dict.fromkeys(_FILE.findall(question)) if len(name) >= _SHORTEST_NAME]
    return found if len(found) <= _MOST_NAMED else []


def canonical(given: Mapping[str, Any]) -> str:
    """Arguments in a form that compares."""
    return json.dumps(given, sort_keys=True, ensure_ascii=False)


def _since_question(messages: Sequence[Message]) -> Sequence[Message]:
    """The last question and what follows it."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user" and messages[at].text and not messages[at].tool_results:
            return messages[at:]
    return messages


def _about(calls: Mapping[str, Schema], names: Sequence[str], *, reading_only: bool) -> dict[str, Schema]:
    """The calls that can look at one of these files, and only at them."""
    fitting: dict[str, Schema] = {}
    for tool, schema in calls.items():
        path = next((name for name in _PATHS if name in schema["required"]), None)
        if path and tool not in _FOLDERS and not (reading_only and tool in CHANGING):
            fitting[tool] = {**schema, "properties": {**schema["properties"], path: {"enum": list(names)}}}
    return fitting
