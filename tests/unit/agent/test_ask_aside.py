"""A side question leaves the conversation unchanged."""

from mainspring import Agent
from mainspring.testing import Reply, ScriptedModel
from mainspring.tools.builtin import read_file


async def test_side_question_sees_the_conversation_and_leaves_it_unchanged() -> None:
    model = ScriptedModel("Hello.", Reply("Just one."))
    agent = Agent(model, system="Be brief.", tools=[read_file])
    await agent.run("Hi")
    before = agent.messages
    answer = await agent.ask_aside("How many prompts?")
    assert answer.text == "Just one."
    assert agent.messages == before
    request = model.requests[-1]
    assert [message.text for message in request.messages[:-1]] == ["Hi", "Hello."]
    assert request.messages[-1].text.endswith("How many prompts?")
    assert (request.request.system, request.request.tool_choice) == ("Be brief.", "none")
