"""Tools that ask for a model's help: the agent asks it, as tools never do, and the tool's result becomes the answer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from mainspring.errors import AgentAbortedError, AgentError, ModelError
from mainspring.loop import Plugin
from mainspring.loop.hooks import SessionStart, ToolTransform
from mainspring.messages import Message
from mainspring.models import ModelRequest
from mainspring.tools import ToolErrorCode, ToolResult
from mainspring.tools.response import AssistRequest, extract_assist_request

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent

Verdict = bool | str | AssistRequest
"""Whether to ask; a text refuses and says why; a request is asked in place of the tool's."""

AssistPolicy = Literal["fulfil", "reject"] | Callable[[AssistRequest, str], Verdict | Awaitable[Verdict]]
"""What to do with a request: always ask the model, never, or what a function of the request and the tool's name says."""

SYSTEM_PROMPT = (
    "You help a tool of an agent with one step of its work. Answer with the result alone, without introduction."
)


class AssistPlug(Plugin):
    """Fulfils, changes or rejects what tools ask of a model.

    The request is made beside the conversation (`side_call`, under the purpose ``assist``), so it counts in the run's usage and limits.
    The bare JSON form counts only for the application's own tools: a built-in tool or one of an MCP server passes on what
    others wrote.

    Args:
        policy: What to do with a request.
        limit: Most requests that are fulfilled in one run.
    """

    def __init__(self, policy: AssistPolicy = "fulfil", *, limit: int = 20) -> None:
        self.policy: AssistPolicy = policy
        self.limit = limit
        self._count = 0

    def install(self, agent: CoreAgent) -> None:
        """Look at the results of an agent's tools."""
        self._agent = agent
        agent.on(SessionStart, self._begin)
        agent.on(ToolTransform, self._on_result, order=-10)  # before those who shorten or store results

    def for_child(self) -> Plugin:
        """The same for a sub-agent, counted apart."""
        return AssistPlug(self.policy, limit=self.limit)

    def _begin(self, hook: SessionStart) -> None:
        self._count = 0

    def _on_result(self, hook: ToolTransform) -> Awaitable[None] | None:
        """Nearly every result is none of these, and then there is nothing to wait for."""
        tool = self._agent.tools.get(hook.name)
        own = tool is not None and tool.source != "builtin" and not tool.source.startswith("mcp:")
        request = extract_assist_request(hook.result, trust_text=own)
        return None if request is None else self._answer_request(hook, request)

    async def _answer_request(self, hook: ToolTransform, request: AssistRequest) -> None:
        allowed = await self._allowed(request, hook.name)
        if isinstance(allowed, str):
            hook.result = _with_refusal(hook.result, request, allowed)
            return
        self._count += 1
        question = ModelRequest((Message.user(allowed.prompt),), system=SYSTEM_PROMPT)
        try:
            answer = await hook.side_call("assist", question)
        except AgentAbortedError:
            hook.result = _with_refusal(hook.result, request, "the run was stopped")
        except (ModelError, AgentError) as error:
            hook.result = _with_refusal(hook.result, request, str(error))
        else:
            hook.result = _with_model_answer(hook.result, allowed, answer.text)

    async def _allowed(self, request: AssistRequest, tool: str) -> AssistRequest | str:
        """What to ask, or why not."""
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


def _with_refusal(result: ToolResult, request: AssistRequest, why: str) -> ToolResult:
    text = f"{request.message or 'The tool needs the help of a model.'} No model helped: {why}."
    return replace(result, output=text, is_error=True, code=ToolErrorCode.LLM_ASSIST_REQUIRED)
