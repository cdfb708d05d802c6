"""Recorded errors of many providers, and the table of their classification."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mainspring.errors import ErrorCode, ModelError
from mainspring.models import classify_error, classify_exception

CLASSES: dict[str, tuple[ErrorCode | None, str | None, bool | None]] = {
    "auth": (ErrorCode.AUTHENTICATION_ERROR, None, False),
    "bad_request": (ErrorCode.UNKNOWN, "bad_request", False),
    "content_filter": (ErrorCode.UNKNOWN, "content_filter", False),
    "error_in_200_body": (None, None, None),
    "not_found": (None, "not_found", False),
    "overflow": (ErrorCode.CONTEXT_LENGTH_EXCEEDED, "overflow", False),
    "overloaded": (ErrorCode.RATE_LIMITED, "overloaded", True),
    "quota": (ErrorCode.RATE_LIMITED, "quota", False),
    "rate_limit": (ErrorCode.RATE_LIMITED, "rate_limit", True),
    "network": (ErrorCode.NETWORK_ERROR, None, True),
    "server_error": (ErrorCode.NETWORK_ERROR, None, True),
    "timeout": (ErrorCode.TIMEOUT, None, True),
}


def test_recorded_errors_are_classified_correctly(material: Path) -> None:
    lines = (material / "errors" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    wrong: dict[str, Any] = {}
    for case in map(json.loads, lines):
        code, reason, retryable = CLASSES[case["class"]]
        error = classify_error(case["status"], case["headers"], case["body"], provider=case["provider"])
        if (
            code not in (None, error.code)
            or reason not in (None, error.reason)
            or retryable not in (None, error.retryable)
        ):
            wrong[case["id"]] = (case["class"], error.code, error.reason, error.retryable)
        if case["class"] == "not_found":  # of a model, or of something else
            named = any(word in case["body"].lower() for word in ("model", "deployment"))
            if error.code is not (ErrorCode.MODEL_NOT_FOUND if named else ErrorCode.UNKNOWN):
                wrong[case["id"]] = (case["class"], error.code)
        assert case["provider"] in error.message

    assert len(lines) > 40
    assert wrong == {}


AUTH, LIMITED, MISSING, TOO_LONG, NETWORK, TIMEOUT, UNKNOWN = (
    ErrorCode.AUTHENTICATION_ERROR,
    ErrorCode.RATE_LIMITED,
    ErrorCode.MODEL_NOT_FOUND,
    ErrorCode.CONTEXT_LENGTH_EXCEEDED,
    ErrorCode.NETWORK_ERROR,
    ErrorCode.TIMEOUT,
    ErrorCode.UNKNOWN,
)


@pytest.mark.covers("MOD-15", "MOD-06", "RET-17")
@pytest.mark.parametrize(
    ("status", "error", "code", "reason", "retryable"),
    [
        # The status determines the error if nothing is more specific.
        (400, "Something", UNKNOWN, "bad_request", False),
        (401, "Something", AUTH, "unauthorized", False),
        (402, "Something", LIMITED, "quota", False),
        (403, "Something", AUTH, "forbidden", False),
        (404, "The model is gone", MISSING, "not_found", False),
        (404, "models/gemini-x is not found for API version v1beta", MISSING, "not_found", False),
        (404, {"param": "model", "message": "x"}, MISSING, "not_found", False),
        (404, {"type": "not_found_error", "message": "model: claude-x"}, MISSING, "not_found", False),
        (404, {"type": "not_found_error", "message": "Not Found"}, UNKNOWN, "not_found", False),
        (404, "404 page not found", UNKNOWN, "not_found", False),
        (404, "Something", UNKNOWN, "not_found", False),
        (410, "This model was retired", MISSING, "not_found", False),
        (410, "Something", UNKNOWN, "not_found", False),
        (405, "Something", UNKNOWN, "bad_request", False),
        (407, "Something", UNKNOWN, "proxy", False),
        (451, "Something", UNKNOWN, "blocked", False),
        (431, "Something", UNKNOWN, "http", False),
        (408, "Something", TIMEOUT, "timeout", True),
        (409, "Something", UNKNOWN, "bad_request", False),
        (413, "Something", TOO_LONG, "overflow", False),
        (422, "Something", UNKNOWN, "bad_request", False),
        (429, "Something", LIMITED, "rate_limit", True),
        (500, "Something", NETWORK, "server_error", True),
        (501, "Something", NETWORK, "not_implemented", False),
        (502, "Something", NETWORK, "server_error", True),
        (503, "Something", NETWORK, "unavailable", True),
        (504, "Something", NETWORK, "gateway_timeout", True),
        (520, "Something", NETWORK, "server_error", True),
        (529, "Something", LIMITED, "overloaded", True),
        # An unambiguous code takes precedence over the status.
        (400, {"code": "context_length_exceeded", "message": "x"}, TOO_LONG, "overflow", False),
        (400, {"code": "invalid_api_key", "message": "x"}, AUTH, "unauthorized", False),
        (400, {"code": "DeploymentNotFound", "message": "x"}, MISSING, "not_found", False),
        (400, {"type": "exceed_context_size_error", "message": "x"}, TOO_LONG, "overflow", False),
        (400, {"innererror": {"code": "ResponsibleAIPolicyViolation"}, "message": "x"}, UNKNOWN, "content_filter", False),
        (500, {"type": "overloaded_error", "message": "x"}, LIMITED, "overloaded", True),
        # An overloaded host is different from a broken one.
        (503, "The model is overloaded. Please try again later.", LIMITED, "overloaded", True),
        (503, {"status": "UNAVAILABLE", "message": "This model is currently experiencing high demand."}, LIMITED, "overloaded", True),
        (503, {"status": "UNAVAILABLE", "message": "The service is currently unavailable."}, NETWORK, "unavailable", True),
        (503, {"code": "slow_down", "message": "Slow down"}, LIMITED, "overloaded", True),
        (503, {"type": "service_unavailable_error", "message": "Model is at capacity"}, LIMITED, "overloaded", True),
        (503, "no healthy upstream", NETWORK, "unavailable", True),
        (502, "<html><head><title>502 Bad Gateway</title></head></html>", NETWORK, "server_error", True),
        (500, {"type": "api_error", "message": "Internal server error"}, NETWORK, "server_error", True),
        (500, {"status": "INTERNAL", "message": "An internal error has occurred."}, NETWORK, "server_error", True),
        (504, {"status": "DEADLINE_EXCEEDED", "message": "Deadline expired"}, TIMEOUT, "timeout", True),
        (521, "Web server is down", NETWORK, "server_error", True),
        (522, "Connection timed out", NETWORK, "server_error", True),
        (524, "A timeout occurred", NETWORK, "server_error", True),
        (401, {"type": "api_error", "message": "x"}, AUTH, "unauthorized", False),
        # A rate limit is never classified as an overflow, nor a quota as a rate limit.
        (429, "This model's maximum context length is 8192 tokens", LIMITED, "rate_limit", True),
        (429, {"code": "context_length_exceeded", "message": "x"}, LIMITED, "rate_limit", True),
        (529, "prompt is too long", LIMITED, "overloaded", True),
        (503, "too many tokens in flight", NETWORK, "unavailable", True),
        (429, {"status": "RESOURCE_EXHAUSTED", "message": "Quota exceeded for metric: free_tier_requests, limit: 0"}, LIMITED, "quota", False),
        (400, "Rate limit: too many tokens per minute", UNKNOWN, "bad_request", False),
        (429, {"code": "insufficient_quota", "message": "You exceeded your current quota"}, LIMITED, "quota", False),
        (429, "Your credit balance is too low", LIMITED, "quota", False),
        (429, {"status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota, please check your plan and billing details"}, LIMITED, "rate_limit", True),
        (429, "Request too large for gpt-4: Limit 10000, Requested 15000", LIMITED, "request_too_large", False),
        (400, "Your credit balance is too low to access the API", LIMITED, "quota", False),
        # Errors whose text is more specific than their status.
        (400, "API key not valid. Please pass a valid API key.", AUTH, "unauthorized", False),
        (400, "The model `x` does not exist", MISSING, "not_found", False),
        (403, "Your input was flagged by moderation", UNKNOWN, "content_filter", False),
        (500, "This model's maximum context length is 4096 tokens", TOO_LONG, "overflow", False),
        # A crash of the program that runs the model, which some servers report as a fault of the request.
        (400, "The model has crashed without additional information. (Exit code: 18446744072635810000)", NETWORK, "server_error", True),
        (None, "an error was encountered while running the model: unexpected EOF", NETWORK, "server_error", True),
        (400, "model runner has unexpectedly stopped, this may be due to resource limitations", NETWORK, "server_error", True),
        # 400s that must not be classified as something else.
        (400, "max_tokens is too large: 99999. This model supports at most 4096 completion tokens", UNKNOWN, "bad_request", False),
        (400, "Invalid 'tools[0].function.name': string too long", UNKNOWN, "bad_request", False),
        (400, "Unknown parameter: 'timeout'", UNKNOWN, "bad_request", False),
        (400, "Error while downloading https://example.com/500.jpg", UNKNOWN, "bad_request", False),
        # Errors within successful responses.
        (None, {"code": 429, "message": "x"}, LIMITED, "rate_limit", True),
        (200, {"code": "502", "message": "x"}, NETWORK, "server_error", True),
        (None, {"type": "server_error", "message": "x"}, NETWORK, "server_error", True),
        (None, {"type": "rate_limit_error", "message": "x"}, LIMITED, "rate_limit", True),
        (None, {"type": "invalid_request_error", "message": "prompt is too long"}, TOO_LONG, "overflow", False),
        (200, {"message": "what?"}, UNKNOWN, "", False),
    ],
)  # fmt: skip
def test_status_and_code_determine_the_error(
    status: int | None, error: Any, code: ErrorCode, reason: str, retryable: bool
) -> None:
    body = json.dumps({"error": error if isinstance(error, dict) else {"message": error}})

    found = classify_error(status, {}, body, provider="p")

    assert (found.code, found.reason, found.retryable) == (code, reason, retryable)


@pytest.mark.covers("RET-19")
@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Input is too long for requested model.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "This model's maximum context length is 131072 tokens. However, your messages resulted in 140000 tokens.",
        "Please reduce the length of the messages or completion.",
        "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "the request exceeds the available context size, try increasing it",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "prompt too long; exceeded max context length by 500 tokens",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        "Your request exceeded model token limit: 131072",
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`",
        "The decoder prompt (length 40000) is longer than the maximum model length of 32768.",
        "Range of input length should be [1, 98304]",
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        "Context size has been exceeded.",
        "too many tokens in the prompt",
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", [400, 422, None])
def test_context_length_errors_of_all_providers_are_recognized(text: str, status: int | None) -> None:
    found = classify_error(status, {}, json.dumps({"error": {"message": text, "type": "invalid_request_error"}}))

    assert (found.code, found.retryable) == (TOO_LONG, False)


@pytest.mark.covers("RET-16", "RET-17", "PRV-31")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Invalid API key", AUTH),
        ("authentication failed", AUTH),
        ("Unauthorized", AUTH),
        ("Rate limit exceeded", LIMITED),
        ("HTTP 429", LIMITED),
        ("Too many requests", LIMITED),
        ("model gpt-x was not found", MISSING),
        ("context length exceeded", TOO_LONG),
        ("the text is too long", TOO_LONG),
        ("token limit", TOO_LONG),
        ("Request timed out", TIMEOUT),
        ("timeout of 60000ms", TIMEOUT),
        ("network down", NETWORK),
        ("connect ECONNREFUSED 127.0.0.1:11434", NETWORK),
        ("fetch failed", NETWORK),
        ("500 Internal", NETWORK),
        ("502", NETWORK),
        ("503", NETWORK),
        ("504", NETWORK),
        ("overloaded", LIMITED),
        ("529", LIMITED),
        ("service unavailable", NETWORK),
        ("connection refused", NETWORK),
        ("upstream connect error or disconnect", NETWORK),
        ("reset before headers", NETWORK),
        ("terminated", NETWORK),
        ("server error", NETWORK),
        ("internal error", NETWORK),
        ("connection error", NETWORK),
        ("retry delay", LIMITED),
        ("something else", UNKNOWN),
        ("room 5021", UNKNOWN),
    ],
)
def test_message_text_determines_the_error_without_a_status(text: str, code: ErrorCode) -> None:
    assert classify_exception(Exception(text)).code is code
    assert classify_error(None, None, text).code is code


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"error":{"message":"a"}}', "a"),
        ('{"error":"a"}', "a"),
        ('{"message":"a"}', "a"),
        ('{"detail":"a"}', "a"),
        ('{"detail":[{"loc":["body"],"msg":"a"},{"msg":"b"}]}', "a; b"),
        ('{"errors":[{"message":"a"}]}', "a"),
        ('[{"error":{"message":"a"}}]', "a"),
        ('data: {"choices":[]}\n\ndata: {"error":{"message":"a"}}\n\n', "a"),
        ('{"error":{"message":"Provider returned error","metadata":{"raw":"busy upstream"}}}', "Provider returned error: busy upstream"),
        ("<html><head><title>502 Bad Gateway</title></head><body>x</body></html>", "502 Bad Gateway"),
        ("<!DOCTYPE html><body><h1>No</h1> way</body>", "No way"),
        ("plain  text\n", "plain text"),
        ('{"oops":1}', '{"oops": 1}'),
        ("", "The provider sent no error message"),
        (None, "The provider sent no error message"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)  # fmt: skip
def test_provider_message_is_extracted_from_any_body(body: Any, message: str) -> None:
    found = classify_error(500, {}, body, provider="openai", host="api.openai.com")

    assert found.message == f"{message} (HTTP 500, openai, api.openai.com)"
    assert str(found) == found.message


def test_error_message_names_provider_and_request_id() -> None:
    headers = {"X-Request-ID": "req_1", "Retry-After": "3"}
    found = classify_error(429, headers, '{"error":{"message":"Slow down"}}', provider="openai", model="gpt", host="h")

    assert found.message == "Slow down (HTTP 429, openai, h, request req_1)"
    assert (found.status, found.provider, found.model, found.request_id) == (429, "openai", "gpt", "req_1")
    assert found.retry_after == 3
    assert classify_error(500, {}, {"error": {"message": "x"}, "request_id": "r"}).request_id == "r"


def test_should_retry_header_controls_retries() -> None:
    assert classify_error(500, {"x-should-retry": "false"}, "x").retryable is False
    assert classify_error(500, {"x-should-retry": "true"}, "x").retryable is True
    assert classify_error(400, {"x-should-retry": "true"}, "x").retryable is False


def test_error_message_redacts_secrets() -> None:
    body = '{"error":{"message":"Incorrect API key provided: sk-abc123def456ghi. Key hunter2hunter2 too."}}'

    found = classify_error(401, {}, body, secrets=("hunter2hunter2",))

    assert found.message == "Incorrect API key provided: [redacted]. Key [redacted] too. (HTTP 401)"


@pytest.mark.covers("MOD-06")
@pytest.mark.parametrize(
    ("code", "category"),
    [
        (AUTH, "auth"),
        (LIMITED, "rate_limit"),
        (TIMEOUT, "timeout"),
        (NETWORK, "api_error"),
        (UNKNOWN, "api_error"),
        (TOO_LONG, "api_error"),
    ],
)
def test_error_codes_map_to_four_categories(code: ErrorCode, category: str) -> None:
    assert ModelError("x", code=code).category == category


class NativeError(Exception):
    """An error like that of a provider's library."""

    def __init__(self, status_code: int, body: Any = None, headers: dict[str, str] | None = None) -> None:
        super().__init__("native")
        self.status_code = status_code
        self.body = body
        self.headers = headers or {}


def test_native_exceptions_are_classified() -> None:
    limited = classify_exception(NativeError(429, {"error": {"message": "Slow"}}, {"retry-after": "4"}), provider="x")
    assert (limited.code, limited.retry_after, limited.message) == (LIMITED, 4, "Slow (HTTP 429, x)")
    assert isinstance(limited.__cause__, NativeError)
    assert classify_exception(NativeError(401)).code is AUTH
    assert classify_exception(TimeoutError()).code is TIMEOUT
    assert classify_exception(ConnectionRefusedError("refused")).code is NETWORK
    assert classify_exception(OSError("no such device")).code is NETWORK
    assert classify_exception(ValueError("odd")).code is UNKNOWN
    original = ModelError("x")
    assert classify_exception(original) is original


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "error",
                    "errors",
                    "message",
                    "code",
                    "type",
                    "status",
                    "details",
                    "metadata",
                    "headers",
                    "retry_after",
                    "retryDelay",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
HEADERS = st.dictionaries(
    st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-reset-tokens", "x-request-id"]),
    st.text(max_size=12),
)


@settings(max_examples=300)
@given(st.none() | st.integers(100, 599), HEADERS, JSON | st.binary(max_size=60) | st.text(max_size=60))
def test_random_errors_are_classified(status: int | None, headers: dict[str, str], body: Any) -> None:
    error = classify_error(status, headers, body if isinstance(body, bytes | str) else json.dumps(body), provider="p")

    assert error.message
    assert error.retry_after is None or error.retry_after >= 0


@pytest.mark.covers("RET-17")
@pytest.mark.parametrize("between", ["", " ", "-", "_", "."])
@pytest.mark.parametrize(
    "words", ["service unavailable", "connection error", "connection refused", "upstream connect", "rate limit"]
)
def test_words_of_errors_with_and_without_a_separator_are_retryable(words: str, between: str) -> None:
    text = words.replace(" ", between)
    for spelled in (text, text.upper(), text.title(), f"the host failed: {text}."):
        assert classify_exception(Exception(spelled)).retryable, spelled
