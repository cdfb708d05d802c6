"""Runs of the agent for calls of a client."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast, get_args

from mcp import types
from msgspec import Struct

from mainspring.app.chat import Chat, ChatOptions
from mainspring.app.chat.commands import Answer, Approve, Prompt
from mainspring.app.chat.events import (
    ApprovalAsked,
    ApprovalSettled,
    ChatEvent,
    ChildStarted,
    QuestionAsked,
    QuestionSettled,
    Retrying,
    RunFinished,
    ToolStarted,
)
from mainspring.app.chat.types import ApprovalDecision, Option
from mainspring.app.servers.markdown import format_diff
from mainspring.app.servers.stdio import ChatRegistry

PendingQuestion = ApprovalAsked | QuestionAsked
_LONGEST = 6_000
_DECISION, _CHOICE, _WORDS = "decision", "choice", "words"


def elicitation_form(asked: PendingQuestion) -> types.ElicitRequestFormParams:
    """A question as a form."""
    if isinstance(asked, ApprovalAsked):
        return types.ElicitRequestFormParams(
            message=_describe_call(asked),
            requested_schema={"type": "object", "properties": {_DECISION: _decision(asked)}, "required": [_DECISION]},
        )
    title = asked.title or "Answer"
    properties: dict[str, Any] = {}
    if asked.options:
        names = [{"const": o.value, "title": _label(o.label or o.value, o.description)} for o in asked.options]
        properties[_CHOICE] = (
            {"type": "array", "title": title, "items": {"anyOf": names}}
            if asked.multiple
            else {"type": "string", "title": title, "oneOf": names}
        )
    if asked.kind in ("ask", "input", "plan"):
        properties[_WORDS] = {"type": "string", "title": "Other words" if asked.options else title}
    required = [] if len(properties) > 1 else list(properties)
    message = "\n\n".join(part for part in (asked.title, asked.text) if part) or title
    return types.ElicitRequestFormParams(
        message=message[:_LONGEST],
        requested_schema={"type": "object", "properties": properties, "required": required},
    )


def parse_answer(asked: PendingQuestion, answer: object) -> Approve | Answer:
    """What an answer to a form says; whatever is no answer is a no."""
    content: Mapping[str, Any] = {}
    if isinstance(answer, types.ElicitResult) and answer.action == "accept":
        content = answer.content or {}
    if isinstance(asked, ApprovalAsked):
        offered = {choice.value for choice in _offered_decisions(asked)}
        decided: list[ApprovalDecision] = [
            d for d in get_args(ApprovalDecision) if d in offered and d == content.get(_DECISION)
        ]
        return Approve(asked.id, decided[0] if decided else "deny")
    known = {option.value for option in asked.options}
    picked = content.get(_CHOICE)
    values: list[Any] = cast("list[Any]", picked) if isinstance(picked, list) else [picked]
    chosen = tuple([value for value in values if isinstance(value, str) and value in known])
    words = content.get(_WORDS)
    text = words if isinstance(words, str) else ""
    return Answer(asked.id, chosen, text) if chosen or text.strip() else Answer(asked.id, declined=True)


def decline(asked: PendingQuestion) -> Approve | Answer:
    """A question that nobody can be asked."""
    return parse_answer(asked, None)


def _offered_decisions(request: ApprovalAsked) -> list[Option]:
    """Return the decisions to offer; a form cannot edit arguments."""
    return [choice for choice in request.choices if choice.value != "edit"]


def _decision(request: ApprovalAsked) -> dict[str, Any]:
    offered = _offered_decisions(request)
    return {
        "type": "string",
        "title": "Decision",
        "enum": [choice.value for choice in offered],
        "enumNames": [choice.description for choice in offered],
    }


def _describe_call(request: ApprovalAsked) -> str:
    parts = [f"The agent wants to {request.action} {request.resource} ({request.display}).", request.reason]
    parts += [format_diff(diff) for diff in request.diffs]
    if len(request.suggestions) > 1:
        parts.append(f"The rules: {', '.join(request.suggestions)}")
    return "\n\n".join(part for part in parts if part)[:_LONGEST]


def _label(label: str, description: str) -> str:
    return f"{label}: {description}" if description else label


MAX_SUSPENDED = 32
"""Runs that wait for a client to come back with answers; of more, the one that waits longest is stopped."""
SUSPEND_SECONDS = 1800.0
"""Seconds that a run waits so."""
MAX_INPUT_ROUNDS = 10
"""How often a client is asked in one call: the clients of the official SDKs give up after so many. What is asked then is denied."""


ProgressCallback = Callable[[str], Awaitable[None]]
"""Is told what happens."""


Ask = Callable[[PendingQuestion], Awaitable[object]]
"""Asks the user of a client; gives what came back."""


class InputRequired(Struct, frozen=True):
    """A run cannot go on before its client has answered.

    Attributes:
        questions: What is asked, by names that the answers are to have.
    """

    questions: Mapping[str, PendingQuestion]


class ToolRun:
    """A run, in a chat that lives in a task of its own: a call that is cancelled is over at once, and its chat still ends in order.

    Args:
        given: The arguments of the call that began it.

    Attributes:
        given: See above.
    """

    def __init__(self, given: Mapping[str, object]) -> None:
        self.given = given
        self._opened: asyncio.Future[Chat] = asyncio.get_running_loop().create_future()
        self._left = asyncio.Event()
        self._questions: dict[str, PendingQuestion] = {}
        self._rounds = 0

    @property
    def session(self) -> str:
        """The session in which it is kept."""
        return self._opened.result().status.session_id

    async def run(self, chats: ChatRegistry, options: ChatOptions) -> None:
        """Keep its chat open until it is left."""
        try:
            async with chats.open(options) as chat:
                if not self._opened.cancelled():
                    self._opened.set_result(chat)
                    await self._left.wait()
                await chat.stop()
        except Exception as error:
            if self._opened.cancelled():
                return  # the call was cancelled meanwhile: nobody is to be told
            if self._opened.done():
                raise
            self._opened.set_exception(error)

    def stop(self) -> None:
        """Stop it, and end its chat."""
        self._left.set()

    async def begin(self, prompt: str) -> str:
        """Say what is to be done; why not, if it cannot be.

        Raises:
            ConfigError: If something is wrong with options or settings.
            SessionError: If the session to go on with cannot be opened.
        """
        chat = await self._opened
        return (await chat.send(Prompt(prompt))).refused

    async def answer(self, given: Mapping[str, object]) -> None:
        """Take what a client says to what was asked; what it says nothing to stays open."""
        for id, request in list(self._questions.items()):
            if id in given:
                await self._settle(request, given[id])

    async def advance(
        self, progress: ProgressCallback, ask: Ask | None, *, can_ask_later: bool = False
    ) -> RunFinished | InputRequired | None:
        """See it through to its end, or to what the client must be asked in another request.

        Args:
            progress: Is told what happens.
            ask: Asks the user of the client at once.
            can_ask_later: Whether the user can be asked by another request.

        Returns:
            How it ended or what it waits for; ``None`` if its chat was closed before.
        """
        for request in [] if can_ask_later else list(self._questions.values()):
            await self._settle(request, None)
        if self._questions:
            return InputRequired(dict(self._questions))
        async for event in self._opened.result().events():
            match event:
                case ApprovalAsked() | QuestionAsked():
                    self._questions[event.id] = event
                    if can_ask_later and self._rounds < MAX_INPUT_ROUNDS:
                        self._rounds += 1
                        return InputRequired(dict(self._questions))
                    await self._settle(event, await ask(event) if ask is not None else None)
                case ApprovalSettled(id=id) | QuestionSettled(id=id):
                    self._questions.pop(id, None)
                case RunFinished():
                    return event
                case _ if text := progress_text(event):
                    await progress(text)
                case _:
                    pass
        return None

    async def _settle(self, asked: PendingQuestion, answer: object) -> None:
        self._questions.pop(asked.id, None)
        await self._opened.result().send(decline(asked) if answer is None else parse_answer(asked, answer))


class ToolRunPool:
    """The runs of one client.

    Args:
        tasks: Where they live.
        chats: Where their chats are known.
    """

    def __init__(self, tasks: asyncio.TaskGroup, chats: ChatRegistry) -> None:
        self._tasks = tasks
        self._chats = chats
        self._active_runs: dict[ToolRun, asyncio.Task[None]] = {}
        self._parked: dict[str, ToolRun] = {}
        self._ends: dict[str, asyncio.TimerHandle] = {}

    def open(self, options: ChatOptions, given: Mapping[str, object]) -> ToolRun:
        """A new run, which is not begun yet."""
        run = ToolRun(given)
        self._active_runs[run] = task = self._tasks.create_task(run.run(self._chats, options))
        task.add_done_callback(lambda _: self._active_runs.pop(run, None) and None)
        return run

    async def closed(self, run: ToolRun) -> None:
        """Wait until a run that was left is closed: what is on disk is complete then."""
        if (task := self._active_runs.get(run)) is not None:
            await asyncio.wait((task,))

    def suspend(self, run: ToolRun) -> str:
        """Keep a run until its client comes back; by a name that nobody can guess."""
        name = secrets.token_urlsafe(24)
        self._parked[name] = run
        self._ends[name] = asyncio.get_running_loop().call_later(SUSPEND_SECONDS, self._expire, name)
        if len(self._parked) > MAX_SUSPENDED:
            self._expire(next(iter(self._parked)))
        return name

    def resume(self, name: str) -> ToolRun | None:
        """A run whose client has come back; each name is good for one time."""
        if (timer := self._ends.pop(name, None)) is not None:
            timer.cancel()
        return self._parked.pop(name, None)

    def _expire(self, name: str) -> None:
        if (run := self.resume(name)) is not None:
            run.stop()

    def stop(self) -> None:
        """End all of them."""
        for name in list(self._parked):
            self.resume(name)
        for run in list(self._active_runs):
            run.stop()


def progress_text(event: ChatEvent) -> str:
    """What an event says to somebody who waits; empty where it says nothing."""
    match event:
        case ToolStarted(display=display, summary=summary):
            return f"{display} {summary}".strip()
        case ChildStarted(name=name, task=task):
            return f"{name}: {' '.join(task.split())[:120]}"
        case Retrying(reason=reason, delay=delay):
            return f"{reason}; trying again in {delay:g} s"
        case _:
            return ""
