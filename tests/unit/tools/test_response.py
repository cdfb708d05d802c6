"""Conversion of `ToolResponse` and assist requests to and from tool results."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring.messages import TextBlock
from mainspring.tools import Attachment, ToolErrorCode, ToolResult, to_tool_result
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


@pytest.mark.covers("TDF-10")
@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (
            {"title": "Read x", "metadata": {"bytes": 3}, "output": "abc"},
            ToolResult(output="abc", title="Read x", metadata={"bytes": 3}),
        ),
        (
            {"title": "t", "metadata": {}, "output": "", "attachments": [{"name": "a.png", "media_type": "image/png"}]},
            ToolResult(title="t", attachments=(Attachment("a.png", "image/png"),)),
        ),
        (
            {"title": "t", "metadata": {"error": "TIMEOUT"}, "output": "slow"},
            ToolResult(
                output="slow", title="t", metadata={"error": "TIMEOUT"}, is_error=True, code=ToolErrorCode.TIMEOUT
            ),
        ),
        ({"success": True, "result": "abc", "message": "done"}, ToolResult(output="abc", title="done")),
        (
            {"success": True, "result": {"n": 1}, "message": "done"},
            ToolResult(output='{"n":1}', title="done"),
        ),
        (
            {"success": False, "error": "NOT_FOUND", "message": "no x"},
            ToolResult(output="no x", is_error=True, code=ToolErrorCode.NOT_FOUND),
        ),
    ],
)
def test_dict_in_the_form_of_a_result_is_that_result(returned: dict[str, Any], expected: ToolResult) -> None:
    assert to_tool_result(returned) == expected


@pytest.mark.parametrize(
    "returned",
    [
        {"title": "t", "output": "abc"},
        {"title": "t", "metadata": "m", "output": "abc"},
        {"title": "t", "metadata": {}, "output": "abc", "score": 3},
        {"title": "t", "metadata": {}, "output": "abc", "attachments": [{"href": "x"}]},
        {"title": "t", "metadata": {}, "output": 3},
        {"success": True, "result": 1},
        {"success": 1, "result": 1, "message": "m"},
        {"success": True, "result": 1, "message": "m", "took": 2},
        {"success": False, "error": "E42", "message": "m"},
        {"success": False, "error": "NOT_FOUND", "message": "m", "hint": "h"},
        {"success": False, "error": "NOT_FOUND"},
        {},
    ],
)
def test_any_other_dict_is_data(returned: dict[str, Any]) -> None:
    result = to_tool_result(returned)
    assert (json.loads(result.text), result.is_error, result.title, result.value) == (returned, False, "", returned)


@pytest.mark.parametrize(
    ("returned", "text"), [(float("nan"), "nan"), (float("-inf"), "-inf"), (0.5, "0.5"), (None, "")]
)
def test_number_that_json_lacks_is_not_read_as_nothing(returned: Any, text: str) -> None:
    assert to_tool_result(returned).text == text


def test_response_has_the_data_that_the_tool_returned() -> None:
    assert to_tool_response(to_tool_result(success_response({"n": 1}, "done"))) == SuccessResponse({"n": 1}, "done")
    assert to_tool_response(to_tool_result([1, 2])) == SuccessResponse([1, 2], "[1,2]")
    assert to_tool_response(to_tool_result('{"n":1}')) == SuccessResponse('{"n":1}', '{"n":1}'), "text stays text"
    redacted = to_tool_result({"key": "sk-1"})
    redacted.output = '{"key":"***"}'
    assert to_tool_response(redacted) == SuccessResponse('{"key":"***"}', '{"key":"***"}'), "a handler changed it"


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
