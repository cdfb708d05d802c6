"""The end of a run without the requested output, as each protocol reports it."""

from typing import Any

import pytest
from acp import RequestError

from mainspring.app.servers.acp.session import PromptTurn
from mainspring.app.servers.ag_ui.encoder import AgUiEncoder
from mainspring.app.servers.mcp.server import run_result
from mainspring.events import AgentEnd, AgentStart, ErrorInfo

END = AgentEnd("r", (), "no_output", "words", error=ErrorInfo(type="AgentOutputError", message="no value"))


def test_mcp_result_is_an_error() -> None:
    result = run_result(END, "")
    assert result.is_error
    assert "no value" in str(result.content)
    assert result.structured_content is not None
    assert result.structured_content["status"] == "no_output"


def test_ag_ui_stream_ends_with_an_error() -> None:
    assert [*AgUiEncoder("r").encode(END)][-1] == {"type": "RUN_ERROR", "message": "no value", "code": "no_output"}


async def test_acp_prompt_fails() -> None:
    unused: Any = None
    prompt = PromptTurn(unused, "r")
    await prompt.on_event(AgentStart("r"))
    await prompt.on_event(END)
    with pytest.raises(RequestError, match="no value"):
        await prompt.wait()
