"""Questions of a chat, put to the user of an editor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal, cast

from acp import Client, RequestError, schema

from mainspring.app.chat.commands import Answer, Approve
from mainspring.app.chat.events import ApprovalAsked, QuestionAsked
from mainspring.app.servers.acp import tool_calls as calls

_DECLINE = "(decline)"
_CHOICE, _WORDS = "choice", "words"
_KINDS: dict[str, Literal["allow_once", "allow_always", "reject_once", "reject_always"]] = {
    "once": "allow_once",
    "session": "allow_always",
    "edits": "allow_always",
    "always": "allow_always",
    "everywhere": "allow_always",
    "deny": "reject_once",
    "never": "reject_always",
}
"""What the protocol calls each decision; an editor cannot edit arguments."""


class PermissionRequester:
    """Asks over the protocol. Whatever goes wrong there is a no.

    Args:
        client: The editor.
        take_back: Called where an answer is no longer waited for, by the task that has asked.
        forms: Whether it can show forms.
        cwd: The folder of the session.
    """

    def __init__(self, client: Client, take_back: Callable[[], Awaitable[None]], *, forms: bool, cwd: str) -> None:
        self._client = client
        self._truncate = take_back
        self._forms = forms
        self._cwd = cwd

    async def approval(self, session: str, asked: ApprovalAsked) -> Approve:
        """What the user decides about a call."""
        call = schema.ToolCallUpdate(
            tool_call_id=asked.call_id,
            title=calls.call_title(asked.display, asked.resource),
            kind=calls.tool_kind(asked.tool),
            status="pending",
            content=calls.diff_content(asked.diffs, self._cwd) or [calls.text_content(_describe_call(asked))],
            locations=calls.call_locations(asked.arguments, self._cwd) or None,
            raw_input=calls.shorten_arguments(asked.arguments),
        )
        chosen = await self._request_choice(session, call, _permission_options(asked))
        match chosen:
            case "once" | "session" | "edits" | "always" | "everywhere" | "deny" | "never":
                return Approve(asked.id, chosen)
            case _:
                return Approve(asked.id, "deny", reason="the user did not answer")

    async def question(self, session: str, asked: QuestionAsked) -> Answer:
        """What the user answers to anything else."""
        if self._forms and asked.kind in ("ask", "input"):
            return await self._form(session, asked)
        options = [o for o in asked.options if o.value != "revise"]  # needs words, which buttons have not
        if not options:
            return Answer(asked.id, declined=True)
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
            buttons.append(schema.PermissionOption(option_id=_DECLINE, name="No answer", kind="reject_once"))
        call = schema.ToolCallUpdate(
            tool_call_id=f"question:{asked.id}",
            title=" ".join((asked.title or asked.text or "A question").split())[:200],
            kind="switch_mode" if asked.kind == "plan" else "other",
            status="pending",
            content=[calls.text_content(asked.text)] if asked.text else None,
        )
        chosen = await self._request_choice(session, call, buttons)
        known = any(option.value == chosen for option in options)
        return Answer(asked.id, (chosen,)) if known else Answer(asked.id, declined=True)

    async def _request_choice(
        self, session: str, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> str:
        """The id of what was chosen; empty for nothing."""
        try:
            answer = await self._client.request_permission(session_id=session, tool_call=call, options=options)
        except asyncio.CancelledError:
            await self._truncate()
            raise
        except (RequestError, ConnectionError, ValueError):
            return ""
        return answer.outcome.option_id if isinstance(answer.outcome, schema.AllowedOutcome) else ""

    async def _form(self, session: str, asked: QuestionAsked) -> Answer:
        form = schema.ElicitationSchema.model_validate(_form_schema(asked))
        mode = schema.ElicitationFormSessionMode(session_id=session, requested_schema=form)
        try:
            answer = await self._client.create_elicitation(message=asked.text or asked.title or "?", mode=mode)
        except asyncio.CancelledError:
            await self._truncate()
            raise
        except (RequestError, ConnectionError, ValueError):
            return Answer(asked.id, declined=True)
        content: Any = getattr(answer, "content", None)
        given = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
        words, picked = given.get(_WORDS), given.get(_CHOICE)
        known = {option.value for option in asked.options}
        values: list[Any] = cast("list[Any]", picked) if isinstance(picked, list) else [picked]
        chosen = tuple([value for value in values if isinstance(value, str) and value in known])
        text = words if isinstance(words, str) else ""
        return Answer(asked.id, chosen, text) if chosen or text.strip() else Answer(asked.id, declined=True)


def _form_schema(asked: QuestionAsked) -> dict[str, Any]:
    """The form of a question: what to choose, and room for other words where these are an answer, too."""
    title = asked.title or asked.text or "Answer"
    if not asked.options:
        return {"properties": {_WORDS: {"type": "string", "title": title}}, "required": [_WORDS]}
    names = [
        {"const": o.value, "title": o.label or o.value, **({"description": o.description} if o.description else {})}
        for o in asked.options
    ]
    if asked.multiple:
        choice: dict[str, Any] = {"type": "array", "title": title, "items": {"anyOf": names}}
    else:
        choice = {"type": "string", "title": title, "oneOf": names}
    if asked.kind != "ask":
        return {"properties": {_CHOICE: choice}, "required": [_CHOICE]}
    return {"properties": {_CHOICE: choice, _WORDS: {"type": "string", "title": "Other words"}}}


def _permission_options(asked: ApprovalAsked) -> list[schema.PermissionOption]:
    return [
        schema.PermissionOption(option_id=choice.value, name=choice.description, kind=_KINDS[choice.value])
        for choice in asked.choices
        if choice.value in _KINDS
    ]


def _describe_call(asked: ApprovalAsked) -> str:
    why = f" ({asked.reason})" if asked.reason else ""
    child = f"A sub-agent ({asked.child}) wants to " if asked.child else ""
    return f"{child}{asked.action} {asked.resource}{why}"
