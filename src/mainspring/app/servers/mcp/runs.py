"""Runs of the agent for tool calls of an MCP client."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast, get_args

from mcp import types
from msgspec import Struct

from mainspring.app.chat import Chat, ChatOptions
from mainspring.app.chat.commands import Answer, Approve, Prompt
from mainspring.app.chat.events import ChatEvent, QuestionRequest, QuestionResult
from mainspring.app.chat.types import ApprovalDecision
from mainspring.app.servers.markdown import format_diff
from mainspring.app.servers.stdio import ChatRegistry
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    ApprovalResult,
    ModelCallRetry,
    Option,
    SubagentEvent,
    SubagentStart,
    ToolDisplay,
    ToolExecutionStart,
)

PendingQuestion = ApprovalRequest | QuestionRequest
_MAX_CHARS = 6_000
_DECISION, _CHOICE, _WORDS = "decision", "choice", "words"


def elicitation_form(question: PendingQuestion) -> types.ElicitRequestFormParams:
    """Return the form of a question or an approval."""
    if isinstance(question, ApprovalRequest):
        return types.ElicitRequestFormParams(
            message=_describe_call(question),
            requested_schema={
                "type": "object",
                "properties": {_DECISION: _decision(question)},
                "required": [_DECISION],
            },
        )
    title = question.title or "Answer"
    properties: dict[str, Any] = {}
    if question.options:
        names = [{"const": o.value, "title": _label(o.label or o.value, o.description)} for o in question.options]
        properties[_CHOICE] = (
            {"type": "array", "title": title, "items": {"anyOf": names}}
            if question.multiple
            else {"type": "string", "title": title, "oneOf": names}
        )
    if question.kind in ("ask", "input", "plan"):
        properties[_WORDS] = {"type": "string", "title": "Other answer" if question.options else title}
    required = [] if len(properties) > 1 else list(properties)
    message = "\n\n".join(part for part in (question.title, question.text) if part) or title
    return types.ElicitRequestFormParams(
        message=message[:_MAX_CHARS],
        requested_schema={"type": "object", "properties": properties, "required": required},
    )


def parse_answer(question: PendingQuestion, answer: object) -> Approve | Answer:
    """Convert the response to a form. Any other response denies the call or declines the question."""
    content: Mapping[str, Any] = {}
    if isinstance(answer, types.ElicitResult) and answer.action == "accept":
        content = answer.content or {}
    if isinstance(question, ApprovalRequest):
        offered = {choice.value for choice in _offered_decisions(question)}
        decided: list[ApprovalDecision] = [
            d for d in get_args(ApprovalDecision) if d in offered and d == content.get(_DECISION)
        ]
        return Approve(question.id, decided[0] if decided else "deny")
    known = {option.value for option in question.options}
    picked = content.get(_CHOICE)
    values: list[Any] = cast("list[Any]", picked) if isinstance(picked, list) else [picked]
    chosen = tuple([value for value in values if isinstance(value, str) and value in known])
    words = content.get(_WORDS)
    text = words if isinstance(words, str) else ""
    return Answer(question.id, chosen, text) if chosen or text.strip() else Answer(question.id, declined=True)


def decline(question: PendingQuestion) -> Approve | Answer:
    """Deny or decline, because the client cannot ask its user."""
    return parse_answer(question, None)


def _offered_decisions(request: ApprovalRequest) -> list[Option]:
    """Return the decisions to offer; a form cannot edit arguments."""
    return [choice for choice in request.choices if choice.value != "edit"]


def _decision(request: ApprovalRequest) -> dict[str, Any]:
    offered = _offered_decisions(request)
    return {
        "type": "string",
        "title": "Decision",
        "enum": [choice.value for choice in offered],
        "enumNames": [choice.description for choice in offered],
    }


def _describe_call(request: ApprovalRequest) -> str:
    display = request.display or ToolDisplay()
    parts = [f"The agent wants to {request.action} {request.resource} ({display.name}).", request.reason]
    parts += [format_diff(diff) for diff in display.diffs]
    if len(request.suggestions) > 1:
        parts.append(f"Rules: {', '.join(request.suggestions)}")
    return "\n\n".join(part for part in parts if part)[:_MAX_CHARS]


def _label(label: str, description: str) -> str:
    return f"{label}: {description}" if description else label


MAX_SUSPENDED = 32
"""Maximum number of suspended runs, which wait until the client calls again with answers; beyond it, the oldest one is stopped."""
SUSPEND_SECONDS = 1800.0
"""Maximum number of seconds that a run stays suspended."""
MAX_INPUT_ROUNDS = 10
"""Maximum number of rounds of questions in one call: clients of the official SDKs stop after that many. Later questions are declined."""


TextProgressCallback = Callable[[str], Awaitable[None]]
"""Callback for progress of a run."""


Ask = Callable[[PendingQuestion], Awaitable[object]]
"""Sends a question to the user of the client, and returns the response."""


class InputRequired(Struct, frozen=True):
    """The run cannot continue until the client has answered.

    Attributes:
        questions: Open questions, by the names that the answers must use.
    """

    questions: Mapping[str, PendingQuestion]


class ToolRun:
    """A run, whose chat lives in its own task: a cancelled call ends immediately, and its chat still closes properly.

    Args:
        given: Arguments of the tool call that started the run.

    Attributes:
        given: Arguments of the tool call that started the run.
    """

    def __init__(self, given: Mapping[str, object]) -> None:
        self.given = given
        self._opened: asyncio.Future[Chat] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._questions: dict[str, PendingQuestion] = {}
        self._rounds = 0

    @property
    def session(self) -> str:
        """Return the ID of the session that stores the run."""
        return self._opened.result().status.session_id

    async def run(self, chats: ChatRegistry, options: ChatOptions) -> None:
        """Open the chat, and close it when the run is stopped."""
        try:
            async with chats.open(options) as chat:
                if not self._opened.cancelled():
                    self._opened.set_result(chat)
                    await self._closing.wait()
                await chat.stop()
        except Exception as error:
            if self._opened.cancelled():
                return  # the call was cancelled, so no caller waits for the error
            if self._opened.done():
                raise
            self._opened.set_exception(error)

    def stop(self) -> None:
        """Stop the run, and close its chat."""
        self._closing.set()

    async def begin(self, prompt: str) -> str:
        """Start the run, or return the reason why it cannot start.

        Raises:
            ConfigError: If options or settings are invalid.
            SessionError: If the session to resume cannot be opened.
        """
        chat = await self._opened
        return (await chat.send(Prompt(prompt))).refused

    async def answer(self, given: Mapping[str, object]) -> None:
        """Apply the client's responses; a question without a response stays open."""
        for id, request in list(self._questions.items()):
            if id in given:
                await self._settle(request, given[id])

    async def advance(
        self, progress: TextProgressCallback, ask: Ask | None, *, can_ask_later: bool = False
    ) -> AgentEnd | InputRequired | None:
        """Wait until the run ends, or until it needs answers that only another request can deliver.

        Args:
            progress: Callback for progress.
            ask: Function that asks the user of the client immediately.
            can_ask_later: Whether the client can deliver answers with another request.

        Returns:
            The outcome, or the open questions; ``None`` if the chat was closed before.
        """
        for request in [] if can_ask_later else list(self._questions.values()):
            await self._settle(request, None)
        if self._questions:
            return InputRequired(dict(self._questions))
        async for event in self._opened.result().events():
            match event:
                case ApprovalRequest() | QuestionRequest():
                    self._questions[event.id] = event
                    if can_ask_later and self._rounds < MAX_INPUT_ROUNDS:
                        self._rounds += 1
                        return InputRequired(dict(self._questions))
                    await self._settle(event, await ask(event) if ask is not None else None)
                case ApprovalResult(id=id) | QuestionResult(id=id):
                    self._questions.pop(id, None)
                case AgentEnd():
                    return event
                case _ if text := progress_text(event):
                    await progress(text)
                case _:
                    pass
        return None

    async def _settle(self, question: PendingQuestion, answer: object) -> None:
        self._questions.pop(question.id, None)
        await self._opened.result().send(decline(question) if answer is None else parse_answer(question, answer))


class ToolRunPool:
    """The runs of one client.

    Args:
        tasks: Task group that runs the chats.
        chats: Registry of the chats.
    """

    def __init__(self, tasks: asyncio.TaskGroup, chats: ChatRegistry) -> None:
        self._tasks = tasks
        self._chats = chats
        self._active_runs: dict[ToolRun, asyncio.Task[None]] = {}
        self._parked: dict[str, ToolRun] = {}
        self._ends: dict[str, asyncio.TimerHandle] = {}

    def open(self, options: ChatOptions, given: Mapping[str, object]) -> ToolRun:
        """Open a run, which has not started yet."""
        run = ToolRun(given)
        self._active_runs[run] = task = self._tasks.create_task(run.run(self._chats, options))
        task.add_done_callback(lambda _: self._active_runs.pop(run, None) and None)
        return run

    async def closed(self, run: ToolRun) -> None:
        """Wait until a stopped run is closed and everything is on disk."""
        if (task := self._active_runs.get(run)) is not None:
            await asyncio.wait((task,))

    def suspend(self, run: ToolRun) -> str:
        """Suspend a run until the client calls again. Return a random name for it."""
        name = secrets.token_urlsafe(24)
        self._parked[name] = run
        self._ends[name] = asyncio.get_running_loop().call_later(SUSPEND_SECONDS, self._expire, name)
        if len(self._parked) > MAX_SUSPENDED:
            self._expire(next(iter(self._parked)))
        return name

    def resume(self, name: str) -> ToolRun | None:
        """Return the suspended run of a name; each name is valid once."""
        if (timer := self._ends.pop(name, None)) is not None:
            timer.cancel()
        return self._parked.pop(name, None)

    def _expire(self, name: str) -> None:
        if (run := self.resume(name)) is not None:
            run.stop()

    def stop(self) -> None:
        """Stop all runs."""
        for name in list(self._parked):
            self.resume(name)
        for run in list(self._active_runs):
            run.stop()


def progress_text(event: ChatEvent) -> str:
    """Return the progress message for an event, or an empty string."""
    match event:
        case ToolExecutionStart(display=ToolDisplay(name=name, summary=summary)):
            return f"{name} {summary}".strip()
        case SubagentStart(name=name, task=task) | SubagentEvent(event=SubagentStart(name=name, task=task)):
            return f"{name}: {' '.join(task.split())[:120]}"
        case ModelCallRetry(error=error, delay=delay):
            return f"{event.action} in {delay:g}s: {error.message}"
        case _:
            return ""
