"""An agent with a chat model of LangChain, using its real classes."""

from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage

from mainspring import Agent, tool
from mainspring.env.memory import MemoryEnv


class ToolCallingModel(FakeMessagesListChatModel):
    """Accepts tools, like real chat models."""

    def bind_tools(self, tools: Any, **options: Any) -> "ToolCallingModel":
        return self


@tool
async def double(n: int) -> int:
    """Double a number.

    Args:
        n: The number.
    """
    return n * 2


@pytest.mark.covers("PRV-37")
async def test_agent_accepts_a_langchain_chat_model() -> None:
    call = AIMessage("", tool_calls=[{"name": "double", "args": {"n": 21}, "id": "c1"}])
    model: Any = ToolCallingModel(responses=[call, AIMessage("It is 42.")])
    agent = Agent(model, tools=[double], execution=MemoryEnv())

    result = await agent.run("Double 21")

    assert result.text == "It is 42."
    assert result.turns == 2
