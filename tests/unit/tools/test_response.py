"""Conversion of `ToolResponse` and assist requests to and from tool results."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.messages import TextBlock
from mainspring.tools import ToolErrorCode, ToolResult, to_tool_result
from mainspring.tools.response import (
    AssistRequest,
    ErrorResponse,
    SuccessResponse,
    error_response,
    extract_assist_request,
    success_response,
    to_tool_response,
)


@pytest.mark.covers("TDF-10")
def test_error_codes_and_error_responses() -> None:
    assert [code.value for code in ToolErrorCode] == [
        "VALIDATION_ERROR", "IO_ERROR", "CONFIG_ERROR", "PERMISSION_DENIED", "RATE_LIMITED", "NOT_FOUND",
        "LLM_ASSIST_REQUIRED", "TIMEOUT", "UNKNOWN",
    ]  # fmt: skip
    for code in ToolErrorCode:
        created = error_response(code.value, "no")
        assert (created.success, created.error, created.message) == (False, code, "no")
    assert error_response("E_ODD", "no").error is ToolErrorCode.UNKNOWN
    assert success_response({"n": 1}, "counted").success is True


@pytest.mark.covers("TDF-11")
def test_result_becomes_a_response() -> None:
    done = to_tool_response(ToolResult(output="two\nlines"))
    assert done == SuccessResponse("two\nlines", "two")
    assert to_tool_response(ToolResult(output="x", title="read x")).message == "read x"
    assert to_tool_response(ToolResult(output=(TextBlock("a"),))) == SuccessResponse((TextBlock("a"),), "a")

    failed = to_tool_response(ToolResult(output="gone", is_error=True, code=ToolErrorCode.NOT_FOUND))
    assert failed == ErrorResponse(ToolErrorCode.NOT_FOUND, "gone")
    assert to_tool_response(ToolResult(output="gone", is_error=True)) == ErrorResponse(ToolErrorCode.UNKNOWN, "gone")
    assert to_tool_response(ToolResult(output="later", metadata={"error": "TIMEOUT"})) == ErrorResponse(
        ToolErrorCode.TIMEOUT, "later"
    )


@pytest.mark.covers("TDF-10", "TDF-11")
def test_tool_may_return_a_response() -> None:
    failed = to_tool_result(error_response("RATE_LIMITED", "slow down"))
    assert (failed.is_error, failed.code, failed.output) == (True, ToolErrorCode.RATE_LIMITED, "slow down")
    done = to_tool_result(success_response({"n": 1}, "counted"))
    assert (done.is_error, json.loads(done.text), done.title) == (False, {"n": 1}, "counted")
    assert to_tool_result(success_response("text")).output == "text"
    assert to_tool_result(success_response(None)).output == ""


@given(st.sampled_from(list(ToolErrorCode)), st.text())
def test_error_response_round_trip(code: ToolErrorCode, message: str) -> None:
    response = ErrorResponse(code, message)
    assert to_tool_response(response.to_tool_result()) == response


REQUEST = {"action": "LLM_ASSIST_REQUIRED", "prompt": "Summarize: ...", "message": "too long"}


@pytest.mark.covers("TDF-13")
@pytest.mark.parametrize(
    "result",
    [
        AssistRequest(prompt="Summarize: ...", message="too long").to_tool_result(),
        to_tool_result(AssistRequest(prompt="Summarize: ...", message="too long")),
        ToolResult(output=json.dumps(REQUEST), metadata={"error": "LLM_ASSIST_REQUIRED"}),
        ToolResult(metadata={"error": "LLM_ASSIST_REQUIRED", "prompt": "Summarize: ...", "message": "too long"}),
        to_tool_result(REQUEST),
        to_tool_result({**REQUEST, "taskType": "summary"}),
        to_tool_result({**REQUEST, "success": False, "error": "LLM_ASSIST_REQUIRED"}),
    ],
)
def test_every_form_of_an_assist_request_is_recognized(result: ToolResult) -> None:
    expected = AssistRequest(prompt="Summarize: ...", message="too long", action="LLM_ASSIST_REQUIRED")
    assert extract_assist_request(result) == expected


@pytest.mark.covers("TDF-13")
def test_legacy_request_without_a_prompt_uses_its_message() -> None:
    legacy = {"success": False, "error": "LLM_ASSIST_REQUIRED", "message": "Which of the two is newer?"}
    assert extract_assist_request(to_tool_result(legacy)) == AssistRequest(
        prompt="Which of the two is newer?", message="Which of the two is newer?"
    )
    marked = to_tool_result(error_response("LLM_ASSIST_REQUIRED", "Which is newer?"))
    assert extract_assist_request(marked) == AssistRequest(prompt="Which is newer?")


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(output="plain text about LLM_ASSIST_REQUIRED"),
        ToolResult(output='{"action": "other", "prompt": "x"}'),
        ToolResult(output=f"see {json.dumps(REQUEST)}"),
        ToolResult(output=json.dumps({"error": "LLM_ASSIST_REQUIRED"})),
        ToolResult(output="", is_error=True, code=ToolErrorCode.LLM_ASSIST_REQUIRED),
        ToolResult(output="late", is_error=True, code=ToolErrorCode.TIMEOUT),
    ],
)
def test_other_results_are_not_assist_requests(result: ToolResult) -> None:
    assert extract_assist_request(result) is None


@pytest.mark.covers("TDF-13")
def test_untrusted_text_cannot_request_assistance() -> None:
    planted = ToolResult(output=json.dumps(REQUEST))
    assert extract_assist_request(planted) is not None
    assert extract_assist_request(planted, trust_text=False) is None
    marked = AssistRequest(prompt="p").to_tool_result()
    assert extract_assist_request(marked, trust_text=False) == AssistRequest(prompt="p")
