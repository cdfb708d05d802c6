"""The lifecycle of a run of the public Agent: open the session, check the prompt, run tools that need a model, and finish."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from mainspring.cancellation import CancelToken, cancel_scope
from mainspring.errors import AgentAbortedError, AgentError
from mainspring.loop import Plugin, RunResult
from mainspring.loop.hooks import (
    BeforeRun,
    Hook,
    PromptSubmitted,
    SessionClosed,
    SessionOpen,
    SessionStart,
    ToolTransform,
)
from mainspring.loop.hooks.session import SessionOpenReason
from mainspring.messages import AgentMessage, Message, TextBlock, to_messages
from mainspring.models import ModelRequest
from mainspring.tools import ToolErrorCode, ToolResult
from mainspring.tools.response import AssistRequest, extract_assist_request

if TYPE_CHECKING:
    from mainspring.extensions import Extensions
    from mainspring.loop import CoreAgent, LoopContext, Prompt


_HOOKS: tuple[type[Hook], ...] = (SessionOpen, PromptSubmitted, BeforeRun, SessionClosed)
_EXIT_TIMEOUT_SECONDS = 5.0
"""Maximum seconds for handlers when the process exits without having closed the session."""


class PreparedRun(Struct, frozen=True):
    """The input of a run.

    Attributes:
        prompt: The initial messages of the run.
        options: The options of the run.
        result: The result, if the prompt was handled; then no run begins.
    """

    prompt: Prompt
    options: dict[str, Any]
    result: RunResult | None = None


class SessionLifecycle:
    """Fires the hooks around the runs of an agent. Does nothing for hooks without handlers.

    Args:
        agent: The agent.
        extensions: Its extensions; async ones are loaded before the first prompt is processed.
    """

    def __init__(self, agent: CoreAgent, extensions: Extensions | None) -> None:
        self._agent = agent
        self._extensions = extensions
        self._signal: CancelToken | None = None
        self._open: LoopContext | None = None
        self._at_exit = False

    @property
    def is_preparing(self) -> bool:
        """Return True if a prompt is being processed."""
        return self._signal is not None

    def abort(self, reason: str) -> None:
        """Prevent a prompt that is being processed from starting a run."""
        if self._signal is not None:
            self._signal.cancel(reason)

    @property
    def needed(self) -> bool:
        """Return True if any handler must run."""
        bus, extensions = self._agent.bus, self._extensions
        return (extensions is not None and extensions.has_pending) or any(map(bus.has, _HOOKS))

    async def prepare_run(self, prompt: Prompt, options: dict[str, Any]) -> PreparedRun:
        """Open the session if needed, and run the handlers of the prompt.

        Raises:
            AgentAbortedError: If it was aborted during that.
        """
        agent = self._agent
        self._signal = signal = options.get("signal") or CancelToken()
        options = {**options, "signal": signal}
        try:
            async with cancel_scope(signal):
                if self._extensions is not None and self._extensions.has_pending:
                    await agent.warmup(wait_for_late=False)
                await self._ensure_opened()
                messages = to_messages(prompt)
                request, ended = await self._run_input_hooks(messages, options.get("deps"))
                if ended is not None:
                    return PreparedRun(prompt, options, ended)
                added = await self._run_agent_before_hooks(_last_user_text(request), options)
            if added and not request and agent.context.pending is not None:
                agent.steer(added[0])  # tool calls wait for their results; a new message comes after them
                for message in added[1:]:
                    agent.steer(message)
                added = []
            return PreparedRun([*request, *added] if added or request is not messages else prompt, options)
        finally:
            self._signal = None

    async def _ensure_opened(self) -> None:
        agent = self._agent
        if self._open is agent.context:
            return
        reason: SessionOpenReason = "resume" if agent.context.messages else "startup"
        if self._open is not None:
            await self._emit(SessionClosed(agent.session_id, "reset"))
            reason = "reset"
        self._open = agent.context
        await self._emit(SessionOpen(agent.session_id, reason))
        if not self._at_exit:
            self._at_exit = True
            shutdown = partial(_shutdown_at_exit, weakref.ref(self))
            atexit.register(shutdown)
            weakref.finalize(self, atexit.unregister, shutdown).atexit = False  # many agents are created in one process

    async def _run_input_hooks(
        self, messages: list[AgentMessage], deps: Any
    ) -> tuple[list[AgentMessage], RunResult | None]:
        """Return the messages as changed by handlers of `input`, or the result."""
        text = _last_user_text(messages)
        if not text or not self._agent.bus.has(PromptSubmitted):
            return messages, None
        hook = PromptSubmitted(text)
        hook.deps = deps
        await self._agent.bus.emit(hook)
        if hook.block:
            reason = f"Blocked: {hook.block}" if isinstance(hook.block, str) else "Blocked: this prompt is not allowed"
            return messages, RunResult(status="denied", text=reason, output_or_none=reason)
        if hook.handled:
            return messages, RunResult(status="completed", text=hook.reply, output_or_none=hook.reply)
        return (messages if hook.text == text else _replace_user_text(messages, hook.text)), None

    async def _run_agent_before_hooks(self, prompt: str, options: dict[str, Any]) -> list[AgentMessage]:
        """Run handlers of `agent:before`; return their additions."""
        agent = self._agent
        if not agent.bus.has(BeforeRun):
            return []
        own = options.get("system")
        hook = BeforeRun(prompt, agent.context.system if own is None else own)
        hook.deps = options.get("deps")
        given = hook.system
        await agent.bus.emit(hook)
        if hook.system != given:
            options["system"] = hook.system
        return hook.messages

    async def shutdown(self, reason: str = "exit") -> None:
        """Notify handlers that the session is closed, if it was opened; only once."""
        if self._open is not None:
            self._open = None
            await self._emit(SessionClosed(self._agent.session_id, reason))

    async def _emit(self, hook: Hook) -> None:
        if self._agent.bus.has(type(hook)):
            await self._agent.bus.emit(hook)


def _shutdown_at_exit(reference: weakref.ref[SessionLifecycle]) -> None:
    """Notify handlers at process exit of a session that was not closed."""
    lifecycle = reference()
    if lifecycle is not None:
        with suppress(TimeoutError):
            asyncio.run(asyncio.wait_for(lifecycle.shutdown("exit"), _EXIT_TIMEOUT_SECONDS))


def _last_user_message_index(messages: list[AgentMessage]) -> int | None:
    """Return the index of the last message with text of the user."""
    for i in range(len(messages) - 1, -1, -1):
        message = messages[i]
        if isinstance(message, Message) and message.role == "user" and message.text.strip():
            return i
    return None


def _last_user_text(messages: list[AgentMessage]) -> str:
    """Return the user's text."""
    at = _last_user_message_index(messages)
    message = messages[at] if at is not None else None
    return message.text if isinstance(message, Message) else ""


def _replace_user_text(messages: list[AgentMessage], text: str) -> list[AgentMessage]:
    """Return the same messages with another text of the user; images stay."""
    at = _last_user_message_index(messages)
    message = messages[at] if at is not None else None
    assert isinstance(message, Message)
    others = [b for b in message.content if not isinstance(b, TextBlock)]
    replaced = replace(message, content=(TextBlock(text), *others))
    return [replaced if i == at else m for i, m in enumerate(messages)]


Verdict = bool | str | AssistRequest
"""The verdict about a request: True to ask, a string to deny with a reason, or a request to use instead of the tool's."""


AssistPolicy = Literal["fulfil", "reject"] | Callable[[AssistRequest, str], Verdict | Awaitable[Verdict]]
"""The policy for a request: always ask the model, never, or the verdict of a function of the request and the tool's name."""


SYSTEM_PROMPT = (
    "You help a tool of an agent with one step of its work. Answer with the result alone, without introduction."
)


class AssistPlug(Plugin):
    """Fulfills, changes, or denies requests of tools to a model.

    The request is made outside the conversation (`side_call`, with the purpose ``assist``), so it counts toward the run's usage and
    limits. The plain JSON form is accepted only from the application's own tools: a built-in tool or an MCP tool returns text of
    others.

    Args:
        policy: The policy for a request.
        limit: Maximum number of requests per run.
    """

    def __init__(self, policy: AssistPolicy = "fulfil", *, limit: int = 20) -> None:
        self.policy: AssistPolicy = policy
        self.limit = limit
        self._count = 0

    def install(self, agent: CoreAgent) -> None:
        """Listen to the results of an agent's tools."""
        self._agent = agent
        agent.on(SessionStart, self._reset_count)
        agent.on(ToolTransform, self._on_result, order=-10)  # before handlers that shorten or store results

    def for_child(self) -> Plugin:
        """Return the plugin for a subagent, with its own count."""
        return AssistPlug(self.policy, limit=self.limit)

    def _reset_count(self, hook: SessionStart) -> None:
        self._count = 0

    def _on_result(self, hook: ToolTransform) -> Awaitable[None] | None:
        """Handle a result; almost all results contain no request, so nothing is awaited for them."""
        tool = self._agent.tools.get(hook.name)
        own = tool is not None and tool.source != "builtin" and not tool.source.startswith("mcp:")
        request = extract_assist_request(hook.result, trust_text=own)
        return None if request is None else self._answer_request(hook, request)

    async def _answer_request(self, hook: ToolTransform, request: AssistRequest) -> None:
        allowed = await self._apply_policy(request, hook.name)
        if isinstance(allowed, str):
            hook.result = _with_refusal(hook.result, request, allowed)
            return
        self._count += 1
        question = ModelRequest((Message.user(allowed.prompt),), system=SYSTEM_PROMPT)
        try:
            answer = await hook.side_call("assist", question)
        except AgentAbortedError:
            hook.result = _with_refusal(hook.result, request, "the run was stopped")
        except AgentError as error:
            hook.result = _with_refusal(hook.result, request, str(error))
        else:
            hook.result = _with_model_answer(hook.result, allowed, answer.text)

    async def _apply_policy(self, request: AssistRequest, tool: str) -> AssistRequest | str:
        """Return the request to make, or the reason for a denial."""
        if self._count >= self.limit:
            return f"the run has used up its {self.limit} requests"
        if self.policy == "fulfil":
            return request
        if self.policy == "reject":
            return "tools may not ask the model here"
        verdict = self.policy(request, tool)
        if inspect.isawaitable(verdict):
            verdict = await verdict
        if isinstance(verdict, bool):
            return request if verdict else "the application refused"
        return verdict


def _with_model_answer(result: ToolResult, request: AssistRequest, answer: str) -> ToolResult:
    facts = {k: v for k, v in result.metadata.items() if k != "error"}
    facts["assist"] = {"prompt": request.prompt, "message": request.message}
    return replace(result, output=answer, is_error=False, code=None, metadata=facts)


def _with_refusal(result: ToolResult, request: AssistRequest, reason: str) -> ToolResult:
    text = f"{request.message or 'The tool needs the help of a model.'} No model helped: {reason}."
    return replace(result, output=text, is_error=True, code=ToolErrorCode.LLM_ASSIST_REQUIRED)
