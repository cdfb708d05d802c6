"""Convert tool calls and approvals to the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from acp import Client, RequestError, schema

from mainspring.app.chat.commands import Answer, Approve
from mainspring.app.chat.events import QuestionRequest
from mainspring.app.servers.markdown import fence
from mainspring.events import ApprovalRequest, FileDiff, ToolDisplay
from mainspring.text import pluralize

ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
ToolCallContent = schema.ContentToolCallContent | schema.FileEditToolCallContent | schema.TerminalToolCallContent


_KINDS: dict[str, ToolKind] = {
    "read_file": "read",
    "list_files": "search",
    "glob": "search",
    "grep": "search",
    "write_file": "edit",
    "edit": "edit",
    "multi_edit": "edit",
    "apply_patch": "edit",
    "shell": "execute",
    "jobs": "execute",
    "fetch": "fetch",
    "todo_write": "think",
    "todo_read": "think",
    "spawn": "think",
    "present_plan": "switch_mode",
}
_PLANS = frozenset({"todo_write"})
_STATES: dict[str, Literal["pending", "in_progress", "completed"]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "cancelled": "completed",
}
MAX_TEXT_CHARS = 16_000
"""Maximum number of characters of an argument before it is shortened."""


def tool_kind(tool: str) -> ToolKind:
    """Return the protocol's kind of a tool."""
    return _KINDS.get(tool, "other")


def call_title(display: str, summary: str) -> str:
    """Return the title of a tool call."""
    return " ".join(f"{display} {summary}".split()) or "tool"


def call_locations(arguments: Mapping[str, Any], cwd: str) -> list[schema.ToolCallLocation]:
    """Return the file of a tool call."""
    path = arguments.get("path")
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        return []
    line = arguments.get("offset")
    first = line if isinstance(line, int) and not isinstance(line, bool) and 0 < line < 1 << 31 else None
    return [schema.ToolCallLocation(path=absolute_path(path, cwd), line=first)]


def diff_locations(diffs: Iterable[FileDiff], cwd: str) -> list[schema.ToolCallLocation]:
    """Return the files that a tool call changed."""
    return [schema.ToolCallLocation(path=absolute_path(diff.path, cwd)) for diff in diffs]


def absolute_path(path: str, cwd: str) -> str:
    """Return an absolute path, as the protocol requires."""
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))


def text_content(text: str) -> ToolCallContent:
    """Return a text as content of a tool call."""
    return schema.ContentToolCallContent(type="content", content=schema.TextContentBlock(type="text", text=text))


def output(text: str) -> list[ToolCallContent]:
    """Return the output of a tool call."""
    return [text_content(fence(text))] if text else []


def diff_content(diffs: Iterable[FileDiff], cwd: str) -> list[ToolCallContent]:
    """Return the change of a tool call: one item for each hunk of a file."""
    content: list[ToolCallContent] = []
    for diff in diffs:
        path = absolute_path(diff.path, cwd)
        for hunk in diff.hunks:
            old, new = (_diff_side(hunk.lines, mark) for mark in "-+")
            content.append(
                schema.FileEditToolCallContent(
                    type="diff", path=path, old_text=None if diff.change == "create" else old, new_text=new
                )
            )
        notes = [diff.note] if diff.note else []
        if diff.left_out:
            notes.append(f"{pluralize(diff.left_out, 'line of the change is', 'lines of the change are')} not shown")
        if not diff.hunks and not notes:
            notes.append(diff.change)
        content += [text_content(f"{diff.path}: {note}") for note in notes]
    return content


def _diff_side(lines: Sequence[str], mark: str) -> str:
    side = [line[1:] for line in lines if line[:1] in (" ", mark)]
    return "".join(f"{line}\n" for line in side)


def plan_update(tool: str, arguments: Mapping[str, Any]) -> schema.AgentPlanUpdate | None:
    """Return the plan that a tool call contains, or ``None``."""
    todos = arguments.get("todos")
    if tool not in _PLANS or not isinstance(todos, list):
        return None
    entries: list[schema.PlanEntry] = []
    for todo in cast("list[Any]", todos):
        given = cast("dict[str, Any]", todo) if isinstance(todo, dict) else {}
        content = given.get("content")
        if isinstance(content, str) and content.strip():
            state = _STATES.get(str(given.get("status")), "pending")
            entries.append(schema.PlanEntry(content=content.strip(), priority="medium", status=state))
    return schema.AgentPlanUpdate(session_update="plan", entries=entries)


def shorten_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten long texts in the arguments; the client shows the change of a file as a diff."""
    return {
        key: f"{value[:MAX_TEXT_CHARS]}… ({len(value) - MAX_TEXT_CHARS} more characters)"
        if isinstance(value, str) and len(value) > MAX_TEXT_CHARS
        else value
        for key, value in arguments.items()
    }


_DECLINE = "(decline)"
_CHOICE, _WORDS = "choice", "words"
_PERMISSION_REQUESTS_KINDS: dict[str, Literal["allow_once", "allow_always", "reject_once", "reject_always"]] = {
    "once": "allow_once",
    "session": "allow_always",
    "edits": "allow_always",
    "always": "allow_always",
    "everywhere": "allow_always",
    "deny": "reject_once",
    "never": "reject_always",
}
"""Decisions as the protocol's permission kinds. An editor cannot edit arguments."""


class PermissionRequester:
    """Requests approvals and answers over the protocol. Any failure denies the call.

    Args:
        client: The editor.
        take_back: Callback that a task calls when it no longer waits for the response.
        forms: Whether the client can show forms.
        cwd: The folder of the session.
    """

    def __init__(self, client: Client, take_back: Callable[[], Awaitable[None]], *, forms: bool, cwd: str) -> None:
        self._client = client
        self._cancel_requests = take_back
        self._forms = forms
        self._cwd = cwd

    async def request_approval(self, session: str, request: ApprovalRequest) -> Approve:
        """Request the user's decision about a tool call."""
        display, arguments = request.display or ToolDisplay(), request.call.input
        call = schema.ToolCallUpdate(
            tool_call_id=request.call.id,
            title=call_title(display.name, request.resource),
            kind=tool_kind(request.call.name),
            status="pending",
            content=diff_content(display.diffs, self._cwd) or [text_content(_describe_call(request))],
            locations=call_locations(arguments, self._cwd) or None,
            raw_input=shorten_arguments(arguments),
        )
        chosen = await self._request_choice(session, call, _permission_options(request))
        match chosen:
            case "once" | "session" | "edits" | "always" | "everywhere" | "deny" | "never":
                return Approve(request.id, chosen)
            case _:
                return Approve(request.id, "deny", reason="the user did not answer")

    async def request_answer(self, session: str, request: QuestionRequest) -> Answer:
        """Request the user's answer to any other question."""
        if self._forms and request.kind in ("ask", "input"):
            return await self._form(session, request)
        options = [
            o for o in request.options if o.value != "revise"
        ]  # this question needs text, which buttons cannot return
        if not options:
            return Answer(request.id, declined=True)
        refusing = {"no", "reject"}
        buttons = [
            schema.PermissionOption(
                option_id=option.value,
                name=option.label or option.value,
                kind="reject_once" if option.value in refusing else "allow_once",
            )
            for option in options
        ]
        if not refusing & {option.value for option in options}:
            buttons.append(schema.PermissionOption(option_id=_DECLINE, name="Skip", kind="reject_once"))
        call = schema.ToolCallUpdate(
            tool_call_id=f"question:{request.id}",
            title=" ".join((request.title or request.text or "A question").split())[:200],
            kind="switch_mode" if request.kind == "plan" else "other",
            status="pending",
            content=[text_content(request.text)] if request.text else None,
        )
        chosen = await self._request_choice(session, call, buttons)
        known = any(option.value == chosen for option in options)
        return Answer(request.id, (chosen,)) if known else Answer(request.id, declined=True)

    async def _request_choice(
        self, session: str, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> str:
        """Request a choice, and return the ID of the chosen option, or an empty string."""
        try:
            answer = await self._client.request_permission(session_id=session, tool_call=call, options=options)
        except asyncio.CancelledError:
            await self._cancel_requests()
            raise
        except (RequestError, ConnectionError, ValueError):
            return ""
        return answer.outcome.option_id if isinstance(answer.outcome, schema.AllowedOutcome) else ""

    async def _form(self, session: str, request: QuestionRequest) -> Answer:
        form = schema.ElicitationSchema.model_validate(_form_schema(request))
        mode = schema.ElicitationFormSessionMode(session_id=session, requested_schema=form)
        try:
            answer = await self._client.create_elicitation(message=request.text or request.title or "?", mode=mode)
        except asyncio.CancelledError:
            await self._cancel_requests()
            raise
        except (RequestError, ConnectionError, ValueError):
            return Answer(request.id, declined=True)
        content: Any = getattr(answer, "content", None)
        given = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
        words, picked = given.get(_WORDS), given.get(_CHOICE)
        known = {option.value for option in request.options}
        values: list[Any] = cast("list[Any]", picked) if isinstance(picked, list) else [picked]
        chosen = tuple([value for value in values if isinstance(value, str) and value in known])
        text = words if isinstance(words, str) else ""
        return Answer(request.id, chosen, text) if chosen or text.strip() else Answer(request.id, declined=True)


def _form_schema(request: QuestionRequest) -> dict[str, Any]:
    """Return the form of a question: its options, and a text field if other text is a valid answer."""
    title = request.title or request.text or "Answer"
    if not request.options:
        return {"properties": {_WORDS: {"type": "string", "title": title}}, "required": [_WORDS]}
    names = [
        {"const": o.value, "title": o.label or o.value, **({"description": o.description} if o.description else {})}
        for o in request.options
    ]
    if request.multiple:
        choice: dict[str, Any] = {"type": "array", "title": title, "items": {"anyOf": names}}
    else:
        choice = {"type": "string", "title": title, "oneOf": names}
    if request.kind != "ask":
        return {"properties": {_CHOICE: choice}, "required": [_CHOICE]}
    return {"properties": {_CHOICE: choice, _WORDS: {"type": "string", "title": "Other answer"}}}


def _permission_options(request: ApprovalRequest) -> list[schema.PermissionOption]:
    return [
        schema.PermissionOption(
            option_id=choice.value, name=choice.description, kind=_PERMISSION_REQUESTS_KINDS[choice.value]
        )
        for choice in request.choices
        if choice.value in _PERMISSION_REQUESTS_KINDS
    ]


def _describe_call(request: ApprovalRequest) -> str:
    reason = f" ({request.reason})" if request.reason else ""
    subagent = f"A subagent ({request.agent}) wants to " if request.agent else ""
    return f"{subagent}{request.action} {request.resource}{reason}"
