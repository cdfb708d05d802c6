"""Patterns that recognize the errors of providers."""

from __future__ import annotations

from mainspring.errors import ErrorCode
from mainspring.lazy import lazy_re

ErrorPattern = tuple[ErrorCode, str]
"""An error code and its more specific reason."""


def _same_kind(kind: ErrorPattern, *words: str) -> dict[str, ErrorPattern]:
    return dict.fromkeys(words, kind)


ERROR_CODES: dict[str, ErrorPattern] = {
    **_same_kind(
        (ErrorCode.RATE_LIMITED, "quota"),
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_error",
        "insufficient_balance",
        "insufficient_credits",
        "insufficient_funds",
        "payment_required",
        "credit_balance_too_low",
        "usage_limit_reached",
        "quota_exceeded",
        "exceeded_current_quota_error",
        "free_tier_exhausted",
    ),
    **_same_kind(
        (ErrorCode.UNKNOWN, "content_filter"),
        "content_filter",
        "content_policy_violation",
        "responsibleaipolicyviolation",
        "content_filtered",
        "data_inspection_failed",
        "moderation_blocked",
        "sensitive_content",
        "safety",
    ),
    **_same_kind(
        (ErrorCode.AUTHENTICATION_ERROR, "unauthorized"),
        "invalid_api_key",
        "api_key_invalid",
        "incorrect_api_key",
        "missing_api_key",
        "authentication_error",
        "authentication_failed",
        "invalid_authentication",
        "invalid_authentication_error",
        "unauthorized",
        "unauthenticated",
        "token_expired",
        "expired_token",
        "invalid_token",
        "expiredtokenexception",
        "unrecognizedclientexception",
        "account_deactivated",
    ),
    **_same_kind(
        (ErrorCode.AUTHENTICATION_ERROR, "forbidden"),
        "permission_error",
        "permission_denied",
        "permission_denied_error",
        "accessdeniedexception",
        "access_denied",
        "forbidden",
    ),
    **_same_kind(
        (ErrorCode.MODEL_NOT_FOUND, "not_found"),
        "model_not_found",
        "modelnotfound",
        "deploymentnotfound",
        "deployment_not_found",
        "unknown_model",
        "model_not_exist",
        "modelnotfounderror",
        "model_decommissioned",
        "model_not_available",
    ),
    **_same_kind(
        (ErrorCode.CONTEXT_LENGTH_EXCEEDED, "overflow"),
        "context_length_exceeded",
        "context_window_exceeded",
        "model_context_window_exceeded",
        "exceed_context_size_error",
        "max_context_length_exceeded",
        "too_many_prompt_tokens",
        "tokens_limit_reached",
        "input_too_long",
        "prompt_too_long",
        "request_too_large",
        "token_limit_exceeded",
    ),
    **_same_kind(
        (ErrorCode.RATE_LIMITED, "rate_limit"),
        "rate_limit_error",
        "rate_limit_exceeded",
        "rate_limited",
        "ratelimited",
        "ratelimitreached",
        "rate_limit_reached",
        "rate_limit_reached_error",
        "rate_limit",
        "too_many_requests",
        "toomanyrequests",
        "throttlingexception",
        "throttling",
        "resource_exhausted",
        "tokens_per_minute",
        "requests_per_minute",
    ),
    **_same_kind(
        (ErrorCode.RATE_LIMITED, "overloaded"),
        "overloaded_error",
        "overloaded",
        "engine_overloaded",
        "engine_overloaded_error",
        "model_overloaded",
        "server_overloaded",
        "server_is_overloaded",
        "no_capacity",
        "capacity_exceeded",
        "service_tier_capacity_exceeded",
        "slow_down",
        "modelnotreadyexception",
    ),
    **_same_kind(
        (ErrorCode.NETWORK_ERROR, "unavailable"),
        "service_unavailable",
        "service_unavailable_error",
        "serviceunavailableexception",
        "serviceunavailable",
        "unavailable",
    ),
    **_same_kind((ErrorCode.TIMEOUT, "timeout"), "timeout", "timeout_error", "request_timeout", "deadline_exceeded"),
}
"""Codes and types with a single meaning, regardless of the status."""

GENERIC_CODES: dict[str, ErrorPattern] = {
    **_same_kind(
        (ErrorCode.NETWORK_ERROR, "server_error"),
        "server_error",
        "internal_server_error",
        "internalservererror",
        "internal_error",
        "internal",
        "api_error",
        "internalserverexception",
        "provider_error",
        "upstream_error",
        "bad_gateway",
    ),
    **_same_kind(
        (ErrorCode.UNKNOWN, "not_found"), "not_found", "not_found_error", "notfounderror", "resourcenotfoundexception"
    ),
    **_same_kind(
        (ErrorCode.UNKNOWN, "bad_request"),
        "invalid_request_error",
        "invalid_request",
        "bad_request",
        "badrequesterror",
        "bad_request_error",
        "invalid_argument",
        "validationexception",
        "tool_use_failed",
        "unsupported_value",
        "invalid_value",
        "unprocessable_entity",
    ),
}
"""Codes and types so general that the status is more specific."""

OVERFLOW_TEXT = lazy_re(
    r"""(?ix)
      (?:prompt|input) \s (?:tokens \s)? (?:is \s|are \s)? too \s long
    | input \s is \s too \s long
    | (?:input|prompt|request|message|conversation|messages)s? \b .{0,60} \b (?:exceed|larger \s than|longer \s than|greater \s than) .{0,60} context
    | exceed\w* .{0,40} context \s? (?:window|length|size|limit)
    | (?:longer|larger|greater|bigger) \s than \s .{0,40} (?:context \s (?:window|length|size)|maximum \s model \s length)
    | (?:maximum|max) \s (?:allowed \s)? context \s (?:length|window|size)
    | context \s (?:length|window|size|limit) \s (?:was \s|is \s|has \s been \s)? (?:exceeded|exceeds \s limit|reached|too \s (?:small|long))
    | not \s fit \s .{0,40} context
    | context_(?:length|window)_exceeded | exceed_context_size
    | (?:maximum|max) \s (?:prompt|input) \s (?:length|size|tokens?) \s (?:is|of|exceeded)
    | (?:input|prompt|total) \s (?:token \s count|tokens?|length) .{0,60} exceeds? \s .{0,40} (?:maximum|limit|allowed|max|session)
    | exceed\w* \s (?:the \s)? (?:model'?s? \s)? (?:max\w* \s)? (?:input \s)? token \s (?:limit|count)
    | prompt \s exceeds \s max \s? length
    | too \s many \s (?:input \s|prompt \s|total \s)? tokens (?! \s per)
    | (?:reduce|shorten) \s (?:the \s|your \s)? (?:length|size) \s of \s (?:the \s|your \s)? (?:messages?|prompt|input|either|conversation)
    | range \s of \s input \s length \s should \s be
    | inputs?`? \s tokens \s \+ .{0,40} must \s be \s <=
    | tokens`? \s must \s be \s at \s least \s? 1, \s got \s -\d
    | context \s limit .{0,40} exceed | exceed\w* .{0,30} context \s limit
    | total \s length \s of \s all \s messages \s is \s too \s long
    | 上下文 [^。]{0,20} (?:超|[过過][长長]) | (?:超[过過出]|大[于於]) [^。]{0,20} 上下文 | (?:[输輸]入|prompt) [^。]{0,8} (?:超[长長]|[过過][长長])
    """
)
OVERLOADED_TEXT = lazy_re(
    r"overload|(at|over|no|insufficient|out of) capacity|capacity (exceeded|constraints)|(high|heavy) (demand|load)|"
    r"(server|model|engine|system|service)s? (is|are) (currently |temporarily |too |very )*busy|too busy"
)
"""Matches a working host with too much load: handled as a rate limit, unlike a failure of the server."""

CRASH_TEXT = lazy_re(
    r"model (?:has )?crashed|(?:runner|process|engine) (?:has |was )?(?:unexpectedly )?(?:stopped|crashed|died|terminated)|unexpected eof|"
    r"error was encountered while running the model|enginedeaderror|enginecore encountered"
)
"""Matches a failure of the program that runs the model, which some servers report with the status 400 or in the stream."""

MENTIONS_MODEL = lazy_re(r"\b(model|deployment|engine)s?\b|\bmodels/")
"""Matches if the missing object is a model, not a URL or a file."""

TOO_LARGE_TEXT = lazy_re(r"(?i)request too large for|requested \d+.{0,40}(reduce|smaller)")
QUOTA_TEXT = lazy_re(
    r"(?i)insufficient[_ ](quota|balance|credit|funds)|billing|credit balance|out of credits|add (more )?credits|"
    r"exceeded your current quota, please check your plan and billing|payment required|purchase more"
)
ZERO_LIMIT_TEXT = lazy_re(r"\blimit:? 0\b(?![.,\d])")
"""Matches a rate limit of zero: waiting does not help."""

CONTENT_TEXT = lazy_re(
    r"content (management|filtering|moderation) polic|content[_ ]filter|content policy|flagged (by|for|as)|"
    r"violat\w+ .{0,60}(polic|guideline|terms)|safety (system|filter)|inappropriate content|requires moderation"
)
AUTH_TEXT = lazy_re(
    r"(?i)api[ _-]?key (is )?(not valid|invalid|missing|expired|required)|(invalid|incorrect|missing|no|wrong|expired) "
    r"(x-)?api[ _-]?key|(invalid|no|missing|expired) (authentication|auth credentials|credentials|bearer token|access token)|"
    r"could not parse your authentication token|not authorized|unauthorized"
)
NOT_FOUND_TEXT = lazy_re(
    r"(?i)\bmodel\b.{0,120}?(not found|does not exist|doesn't exist|no longer available|is not available|not supported by any|"
    r"has been (deprecated|decommissioned)|is not a valid model)|(unknown|no such|invalid) model\b|deployment .{0,80}does not exist|"
    r"not a valid model id|no endpoints found for"
)

RATE_TEXT = lazy_re(r"rate.?limit|too many requests|per (minute|min|hour|day|second)|\b(tpm|rpm|tpd|rpd)\b")
"""Matches a text about a rate, which is about waiting, never about the size of the context."""

FALLBACK_TEXT_PATTERNS: tuple[tuple[str, ErrorPattern], ...] = (
    (r"\b529\b|" + OVERLOADED_TEXT.pattern, (ErrorCode.RATE_LIMITED, "overloaded")),
    (CRASH_TEXT.pattern, (ErrorCode.NETWORK_ERROR, "server_error")),
    (r"insufficient[_ ](quota|balance|credit)|credit balance", (ErrorCode.RATE_LIMITED, "quota")),
    (CONTENT_TEXT.pattern, (ErrorCode.UNKNOWN, "content_filter")),
    (
        r"rate.?limit|too.?many.?requests|\b429\b|retry delay|resource.?exhausted",
        (ErrorCode.RATE_LIMITED, "rate_limit"),
    ),
    (
        r"api[ _-]?key|authentication|unauthorized|\b401\b|forbidden|\b403\b",
        (ErrorCode.AUTHENTICATION_ERROR, "unauthorized"),
    ),
    (r"model.*(not found|does not exist)|not found.*model", (ErrorCode.MODEL_NOT_FOUND, "not_found")),
    (r"context length|too long|token limit", (ErrorCode.CONTEXT_LENGTH_EXCEEDED, "overflow")),
    (r"timeout|timed out|deadline", (ErrorCode.TIMEOUT, "timeout")),
    (
        r"network|econnrefused|econnreset|connection.?(refused|error|reset|closed|aborted)|fetch failed|"
        r"\b50[0234]\b|service.?unavailable|server.?error|internal.?error|upstream.?connect|reset before headers|terminated|socket hang up|"
        r"name or service not known|getaddrinfo|disconnected",
        (ErrorCode.NETWORK_ERROR, "connection"),
    ),
)
"""Patterns for errors that have only a text, in the order in which they are checked."""

STATUS_CODES: dict[int, ErrorPattern] = {
    401: (ErrorCode.AUTHENTICATION_ERROR, "unauthorized"),
    402: (ErrorCode.RATE_LIMITED, "quota"),
    403: (ErrorCode.AUTHENTICATION_ERROR, "forbidden"),
    404: (ErrorCode.UNKNOWN, "not_found"),
    407: (ErrorCode.UNKNOWN, "proxy"),
    408: (ErrorCode.TIMEOUT, "timeout"),
    410: (ErrorCode.UNKNOWN, "not_found"),
    413: (ErrorCode.CONTEXT_LENGTH_EXCEEDED, "overflow"),
    414: (ErrorCode.UNKNOWN, "http"),
    421: (ErrorCode.UNKNOWN, "http"),
    425: (ErrorCode.NETWORK_ERROR, "server_error"),
    426: (ErrorCode.UNKNOWN, "http"),
    429: (ErrorCode.RATE_LIMITED, "rate_limit"),
    431: (ErrorCode.UNKNOWN, "http"),
    451: (ErrorCode.UNKNOWN, "blocked"),
    501: (ErrorCode.NETWORK_ERROR, "not_implemented"),
    503: (ErrorCode.NETWORK_ERROR, "unavailable"),
    504: (ErrorCode.NETWORK_ERROR, "gateway_timeout"),
    529: (ErrorCode.RATE_LIMITED, "overloaded"),
}
"""Meaning of each status; other 4xx are caused by the request, other 5xx by the server."""
