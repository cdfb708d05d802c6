"""Questions of a chat, put to the user of an editor."""

from __future__ import annotations

from typing import Any, cast

from acp import Client, RequestError, schema

from mainspring.app.server.acp import calls
from mainspring.runtime.chat.commands import Answer, Approve
from mainspring.runtime.chat.events import ApprovalAsked, QuestionAsked

_DECLINE = "(decline)"
_TEXT = "text"


class Asking:
    """Asks over the protocol. Whatever goes wrong there is a no.

    Args:
        client: The editor.
        forms: Whether it can show forms.
        cwd: The folder of the session.
    """

    def __init__(self, client: Client, *, forms: bool, cwd: str) -> None:
        self._client = client
        self._forms = forms
        self._cwd = cwd

    async def approval(self, session: str, asked: ApprovalAsked) -> Approve:
        """What the user decides about a call."""
        call = schema.ToolCallUpdate(
            tool_call_id=asked.call_id,
            title=calls.title_of(asked.display, asked.resource),
            kind=calls.kind_of(asked.tool),
            status="pending",
            content=calls.changes(asked.diffs, self._cwd) or [calls.said(_about(asked))],
            locations=calls.locations_of(asked.arguments, self._cwd) or None,
            raw_input=calls.raw(asked.arguments),
        )
        chosen = await self._choose(session, call, _decisions(asked))
        match chosen:
            case "once" | "session" | "always" | "deny" | "never":
                return Approve(asked.id, chosen)
            case _:
                return Approve(asked.id, "deny", reason="the user did not answer")

    async def question(self, session: str, asked: QuestionAsked) -> Answer:
        """What the user answers to anything else."""
        if self._forms and asked.kind != "plan" and (asked.multiple or not asked.options):
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
            content=[calls.said(asked.text)] if asked.text else None,
        )
        chosen = await self._choose(session, call, buttons)
        known = any(option.value == chosen for option in options)
        return Answer(asked.id, (chosen,)) if known else Answer(asked.id, declined=True)

    async def _choose(self, session: str, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]) -> str:
        """The id of what was chosen; empty for nothing."""
        try:
            answer = await self._client.request_permission(session_id=session, tool_call=call, options=options)
        except (RequestError, ConnectionError, ValueError):
            return ""
        return answer.outcome.option_id if isinstance(answer.outcome, schema.AllowedOutcome) else ""

    async def _form(self, session: str, asked: QuestionAsked) -> Answer:
        field: dict[str, Any] = {"type": "string", "title": asked.title or asked.text or "Answer"}
        if asked.options:
            names = [{"const": o.value, "title": o.label or o.value} for o in asked.options]
            field = {"type": "array", "title": asked.title or "Choose", "items": {"anyOf": names}}
        try:
            form = schema.ElicitationSchema.model_validate({"properties": {_TEXT: field}, "required": [_TEXT]})
            mode = schema.ElicitationFormSessionMode(session_id=session, requested_schema=form)
            answer = await self._client.create_elicitation(message=asked.text or asked.title or "?", mode=mode)
        except (RequestError, ConnectionError, ValueError):
            return Answer(asked.id, declined=True)
        content: Any = getattr(answer, "content", None)
        given: Any = cast("dict[str, Any]", content).get(_TEXT) if isinstance(content, dict) else None
        if isinstance(given, str) and not asked.options:
            return Answer(asked.id, text=given)
        known = {option.value for option in asked.options}
        chosen = tuple([v for v in cast("list[Any]", given) if v in known]) if isinstance(given, list) else ()
        return Answer(asked.id, chosen) if chosen else Answer(asked.id, declined=True)


def _decisions(asked: ApprovalAsked) -> list[schema.PermissionOption]:
    rules = ", ".join(asked.suggestions)
    found = [
        schema.PermissionOption(option_id="once", name="Allow", kind="allow_once"),
        schema.PermissionOption(option_id="session", name="Allow such calls in this session", kind="allow_always"),
    ]
    if rules:
        found.append(schema.PermissionOption(option_id="always", name=f"Always allow {rules}", kind="allow_always"))
    found.append(schema.PermissionOption(option_id="deny", name="Deny", kind="reject_once"))
    if rules:
        found.append(schema.PermissionOption(option_id="never", name=f"Never allow {rules}", kind="reject_always"))
    return found


def _about(asked: ApprovalAsked) -> str:
    why = f" ({asked.reason})" if asked.reason else ""
    child = f"A sub-agent ({asked.child}) wants to " if asked.child else ""
    return f"{child}{asked.action} {asked.resource}{why}"
