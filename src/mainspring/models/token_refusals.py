"""Learn the limits of a host from its rejections: the context window and the output limit; loaded only after a rejection.

Hosts agree on neither codes nor wordings, so numbers are found by the words around them, and a number that contradicts the
request is ignored: a limit that the request did not exceed is not the reason of its rejection.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ContextExceededError, ModelError
from mainspring.lazy import lazy_re
from mainspring.models.codec.protocol import WireProtocol
from mainspring.models.json_values import as_dict, as_int
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.token_limits import (
    estimate_request_length,
    estimate_request_tokens,
    learn_limits,
    min_output_tokens,
)

_REASONS = frozenset({"bad_request", "overflow", "quota", "request_too_large", "server_error"})
_MIN_WINDOW = 256
_MARGIN = 32  # Chat templates add a few tokens that some hosts do not count.
_ESTIMATE_MARGIN = 1.2
_MESSAGE_MARGIN = 128  # The template, which an estimate by length does not contain.
_MAX_ESTIMATE_FACTOR = 4.0  # Code and other languages than English have more tokens than their length suggests.
_MAX_SCALE = 3.0  # Above it, the prompt is so short that the template of the host is most of it.
_UNKNOWN_LIMIT = 4096  # Nearly every host accepts it; for a rejection that names the limit but no number.

_N = r"[`'\"(\[]*(\d{1,3}(?:,\d{3})+|\d+)"
_CAP_NAME = re.compile(
    r"max_?(?:new|completion|output|gen)?_?tokens|max_gen_len|num_predict|(?:completion|output|generation|generated) (?:tokens?|length)|"
    r"maximum tokens|max tokens|\bcompletion\b|the output"
)
_SUMS = (
    re.compile(rf"\+[^<.]{{0,60}}?(?:<=|less than or equal to|not exceed) ?{_N}"),
    re.compile(rf"\d+ ?\+ ?\d+ ?> ?{_N}"),
)
_LIMITS = {
    "cap": tuple(
        re.compile(pattern)
        for pattern in (
            rf"> ?{_N},? which is the maximum",
            rf"\[ ?\d+ ?, ?{_N} ?\]",
            rf"between \d+ and {_N}",
            rf"range is from \d+(?: \(inclusive\))? to {_N}(?P<open> \(exclusive\))?",
            rf"(?:at most|up to|less (?:than )?or equal to|(?:lower|smaller) than or equal to|no more than|not exceed|not be (?:greater|larger|more) than|"
            rf"cannot exceed|can only afford|exceeds? (?:the |its )?(?:max|limit)\w*(?: of)?|greater than the maximum of|"
            rf"max(?:imum)?(?: allowed| output| completion)?(?: value| tokens)?(?: is| of|:)|model limit of|limit(?: is| of|:)|<=|≤|expected a value <=) ?{_N}",
            rf"(?P<open>less than|lower than|smaller than|below|<) ?{_N}(?![\d>])",
        )
    ),
    "window": (
        *_SUMS,
        re.compile(rf"\d+ (?:tokens? )?> {_N}(?![\d,]| -)"),
        re.compile(
            r"(?:context[ _](?:length|window|size|limit)|model length|max_(?!gen|new|out)\w*len\w*|max_(?:total|num)_tokens|"
            r"sequence length|total tokens limit|token limit|"
            r"(?:maximum|max) (?:prompt|input) (?:length|tokens)|(?:number of )?tokens allowed|n_ctx|max(?:imum)? size|configured limit|"
            rf"(?:while|exceeds?)(?: the| its| a)?(?: maximum| max)? limit(?: is| of)?|prompt cannot exceed)(?:(?! by )[^\d;+-]){{0,40}}?{_N}"
        ),
        re.compile(rf"{_N} (?:tokens? )?(?:maximum|max) ?(?:context|sequence|$|[.,;\"'}})])"),
        re.compile(rf"{_N} (?:tokens? )?context (?:length|window|size)"),
        re.compile(rf"limit:? {_N}, (?:used:? \d+, )?requested"),
        re.compile(rf"limit ?= ?{_N}"),
        re.compile(rf"range of input length should be \[\d+, ?{_N}\]"),
        re.compile(rf"must have less than {_N} tokens"),
        re.compile(rf"maximum (?:allowed )?length \(?{_N} tokens"),
        re.compile(rf"\* ?\d+ = {_N} tokens"),
    ),
}
"""Patterns of each kind of limit. In a group ``open``, the number itself is not allowed."""

_MINIMUM = {"cap": 2, "window": _MIN_WINDOW}
_PROMPT_PARTS = re.compile(
    rf"{_N} (?:tokens? )?(?:in|from|of|for) (?:the |your )?(?:input |text |tool |image )*(?:messages?|prompt|inputs?|functions?|tools?|schema)\b"
)
_PROMPTS = (
    re.compile(rf"(?<!bound for )(?<!\d){_N} `?(?:inputs?|prompt)`? tokens"),
    re.compile(rf"{_N} ?\+ ?\d+ ?>"),
    re.compile(
        r"(?:prompt|request|input|messages?)(?: token count)?(?: contains| has| is| resulted in| of)?(?: too long:?)?(?: at least)? "
        rf"{_N}(?: tokens?| draft|,|\)| exceeds| is (?:longer|larger|greater))"
    ),
    re.compile(rf"too long: {_N}"),
    re.compile(rf"\(length {_N}\)"),
    re.compile(rf"(?:prompt length|prompt_tokens|(?<!max )(?<!maximum )input tokens)[ =:]*{_N}"),
    re.compile(rf"(?:keep the first|n_keep:?) {_N}"),
    re.compile(rf"input token count \({_N}\)"),
)
_PROMPT_NAME = re.compile(
    r"context|window|prompt|inputs?\b|messages|sequence|seq_len|model_len|total|requested:|tpm|tokens per min"
)
_ANY_NUMBER = re.compile(r"(?<![\w.<-])(?:\d{1,3}(?:,\d{3})+|\d+)(?![\w>-])")
_LIMIT_NAME = re.compile(
    r"exceed|limit|max|cannot|no more|not possible|larger|greater|range|at most|only|above|more than|too (?:long|large|big|many|high)"
)
_TOKENS_NAME = lazy_re(r"^(?!.*(?:string|character|byte|pixel|image)).*(?:token|context|length|window)", re.DOTALL)
_OTHER_LIMIT = lazy_re(
    r"^(?!.*(?:context|window|prompt)).*(?:(?:thinking|reasoning)\W(?:token.)?budget|image (?:input|size|exceed)|"
    r"per image|audio|metadata|propert|tool results?\b|single message|\bseconds\b|requests per)",
    re.DOTALL,
)
"""Matches a text about the size of something else than the conversation and the response."""
_TOTAL = re.compile(
    rf"(?:requested(?: tokens)?|total of|current length is|sequence length of|length exceeded)(?: a total of| about| at least|:| is)* ?{_N}"
)


_GROUPED_BY_COMMA = lazy_re(r"(?<![\w.,\[(-])\d{1,3}(?:,\d{3})+(?![\w.,]?\d)")
"""Not in brackets, where numbers may be the ends of a range."""
_GROUPED = lazy_re(r"(?<![\w.,-])\d{1,3}(?:([_'’\u00a0\u2009\u202f])\d{3})(?:\1\d{3})*(?!\d|,\d|\.\d\d)")
_GROUPED_BEFORE_TOKENS = lazy_re(
    r"(?<![\w.,-])\d{1,3}(?:([. ])\d{3})(?:\1\d{3})*(?= ?(?:tokens?|toks?|トークン|토큰|jetons)\b)"
)
_UNIT = lazy_re(r"(?<![\w.,-])(\d+(?:\.\d+)?) ?([km])(?![\w-])")
_STATUS = lazy_re(r"\b(?:http|status|code)(?:[ _]?code)?[\"']?[ :=]+[\"']?[45]\d\d\b(?![,.]?\d)")
"""Matches a status in a text, which is not a number of tokens."""
_FACTORS = {"k": 1_000, "m": 1_000_000}
"""Hosts also mean 1,024; the lower number is always accepted."""

_TERMS: tuple[tuple[re.Pattern[str], str], ...] = (
    # Chinese, simplified and traditional
    (
        lazy_re(r"最大(?:的)?(?:上下文|内容)(?:[长長]度|窗口|視窗)?|上下文(?:[长長]度|窗口|視窗|限制|大小)"),
        " context length ",
    ),
    (
        lazy_re(r"最大(?:的)?(?:输出|輸出|生成|补全)(?:[长長]度)?|(?:输出|輸出|生成)(?:的)?(?:[长長]度|上限)"),
        " maximum output tokens ",
    ),
    (lazy_re(r"最大(?:的)?(?:输入|輸入)(?:[长長]度)?"), " maximum input length "),
    (lazy_re(r"最大(?:值|限制)?|上限"), " maximum "),
    (
        lazy_re(
            r"(?:不能|不得|不可|不应|不)(?:超过|超過|大于|大於|超出)|(?:必须|必須|应|需)?(?:小于|小於)等于|最多(?:支持)?"
        ),
        " not exceed ",
    ),
    (lazy_re(r"超过|超過|超出|大于|大於|超[长長]"), " exceeds "),
    (lazy_re(r"取值范围|取值範圍|范围|範圍"), " range "),
    (lazy_re(r"之和|的总和|总和"), " + sum "),
    (lazy_re(r"输入|輸入|提示词?"), " input "),
    (lazy_re(r"补全|输出|輸出|生成"), " completion "),
    (lazy_re(r"消息|訊息"), " messages "),
    (lazy_re(r"请求|請求"), " requested "),
    (lazy_re(r"[总總][长長]度|总数|總數"), " total "),
    (lazy_re(r"[长長]度"), " length "),
    (lazy_re(r"[个個的了您数數]|当前|目前|其中|模型|实际"), " "),
    (lazy_re(r"[为為是]|(?:达到|等于)"), " is "),
    # Japanese and Korean
    (
        lazy_re(
            r"最大コンテキスト(?:長|ウィンドウ)?|コンテキスト(?:長|ウィンドウ)|최대 ?컨텍스트(?: ?길이| ?창)?|컨텍스트 ?(?:길이|창)"
        ),
        " context length ",
    ),
    (lazy_re(r"最大出力(?:トークン数?)?|최대 ?출력(?: ?토큰)?"), " maximum output tokens "),
    (lazy_re(r"トークン数?|토큰"), " tokens "),
    (lazy_re(r"リクエスト|요청"), " requested "),
)
_LATIN_TERMS = (
    lazy_re(
        r"(?:maximale )?kontext(?:länge|fenster|größe)|longueur (?:maximale )?d[eu] contexte|longueur maximale du contexte|"
        r"fenêtre de contexte|longitud (?:máxima )?de(?:l)? contexto|ventana de contexto|"
        r"(?:comprimento|tamanho) (?:máximo )?(?:do|de) contexto|lunghezza (?:massima )?del contesto"
    ),
    " context length ",
)
"""German, French, Spanish, Portuguese, and Italian."""
_FULL_WIDTH = str.maketrans("０１２３４５６７８９，：；（）［］＜＞＝～。、", "0123456789,:;()[]<>=~. ")


class ReportedLimits(Struct, frozen=True):
    """Numbers in the text of a rejection; ``None`` if a number is missing.

    Attributes:
        context_window: Maximum number of prompt and output tokens together.
        max_output_tokens: Maximum number of output tokens.
        prompt_tokens: Number of tokens of the rejected prompt.
        is_output_named: Whether the text mentions the output limit.
    """

    context_window: int | None = None
    max_output_tokens: int | None = None
    prompt_tokens: int | None = None
    is_output_named: bool = False


def parse_limits(text: str, sent: int | None = None, estimate: int | None = None) -> ReportedLimits:
    """Return the numbers in the text of a rejection.

    Args:
        text: Text of the error.
        sent: The output limit of the rejected request, in tokens, if it had one.
        estimate: Estimated tokens of its prompt, if they are known.
    """
    text = _rewrite(text.rpartition(" (HTTP ")[0] or text)
    if _OTHER_LIMIT.search(text) is not None:
        return ReportedLimits()
    is_output_named = _CAP_NAME.search(text) is not None
    prompt, total = _prompt_tokens(text, sent)
    used = {prompt, total}
    # Of several, the lowest: the others may be what was requested.
    window = min((n for n in _limits(text, "window") if n not in used and (total is None or n < total)), default=None)
    names_prompt = _PROMPT_NAME.search(text) is not None
    if is_output_named and not names_prompt:
        window = None
    if window is None and sent is not None and (found := _window_by_total(text, sent, estimate)):
        window, prompt = found
        return ReportedLimits(window, None, prompt, is_output_named)
    caps: list[int] = []  # A limit of the sum is not a limit of one of its parts.
    if is_output_named and not (window is not None and any(pattern.search(text) for pattern in _SUMS)):
        caps = [n for n in _limits(text, "cap") if n not in (window, prompt) and (sent is None or n < sent)]
    if window is None and sent is not None and (not caps or names_prompt) and _LIMIT_NAME.search(text):
        window, cap, prompt = (
            _limits_by_size(text, sent, estimate, is_output_named, names_prompt) if not caps else (None, None, None)
        )
        caps += [cap] if cap is not None else []
    if prompt is not None and window is not None and prompt in (window + 1, window + 1 - (sent or 0)):
        prompt = None  # vLLM reports where it stopped counting.
    return ReportedLimits(window, min(caps, default=None), prompt, is_output_named)


def _rewrite(text: str) -> str:
    """Return a text in lower case with its numbers as digits, and with English terms for limits.

    Args:
        text: Text of a rejection.
    """
    text = _STATUS.sub("", text.lower().translate(_FULL_WIDTH))
    text = _GROUPED_BY_COMMA.sub(lambda found: found[0].replace(",", ""), text)
    text = _GROUPED.sub(lambda found: found[0].replace(found[1], ""), text)
    text = _GROUPED_BEFORE_TOKENS.sub(lambda found: found[0].replace(found[1], ""), text)
    text = _UNIT.sub(lambda found: str(int(float(found[1]) * _FACTORS[found[2]])), text)
    for pattern, term in (_LATIN_TERMS,) if text.isascii() else (*_TERMS, _LATIN_TERMS):
        text = pattern.sub(term, text)
    return " ".join(text.split())


def _prompt_tokens(text: str, sent: int | None) -> tuple[int | None, int | None]:
    """Return the tokens of the prompt, and those of prompt and output together."""
    total = next((n for found in _TOTAL.finditer(text) if (n := _number(found[1])) != sent), None)
    parts = [_number(found[1]) for found in _PROMPT_PARTS.finditer(text)]
    if parts:
        return sum(parts), total
    for pattern in _PROMPTS:
        found = pattern.search(text)
        if found is not None and _number(found[1]) != sent:
            return _number(found[1]), total
    if total is not None and sent is not None and total > sent:
        return total - sent, total
    return total, total


def _numbers_except(text: str, sent: int) -> list[int]:
    """Return the numbers of a text without the output limit that was sent."""
    found = [_number(match[0]) for match in _ANY_NUMBER.finditer(text)]
    if sent in found:
        found.remove(sent)  # Once: the limit may be the same number.
    return found


def _window_by_total(text: str, sent: int, estimate: int | None) -> tuple[int, int] | None:
    """Return window and prompt if a text contains the total of the prompt and the output limit that was sent.

    A total is the sum of two numbers in the text, or, if its prompt is not in the text, as high as the estimate suggests.
    """
    found = _numbers_except(text, sent)
    numbers = {n for n in found if n >= _MIN_WINDOW}
    total = next((n for n in numbers if n - sent in found), None)
    if total is None and estimate is not None and _LIMIT_NAME.search(text):
        maximum = sent + int(estimate * _MAX_ESTIMATE_FACTOR) + _MESSAGE_MARGIN
        total = next((n for n in numbers if sent < n <= maximum), None)
        numbers = numbers if len(numbers) > 1 or str(sent) not in text else {*numbers, sent}
    if total is None:
        return None
    window = max((n for n in numbers - {total, total - sent} if n < total), default=None)
    return None if window is None else (window, total - sent)


def _limits_by_size(
    text: str, sent: int, estimate: int | None, is_output_named: bool, names_prompt: bool
) -> tuple[int | None, int | None, int | None]:
    """Return window, output limit, and prompt of an unknown wording, by the sizes of its numbers.

    A limit is lower than what exceeded it.
    """
    found = _numbers_except(text, sent)
    numbers = {n for n in found if n >= _MIN_WINDOW}
    if not names_prompt:
        lower = [n for n in numbers if n < sent] if is_output_named else []
        return None, lower[0] if len(lower) == 1 else None, None
    if is_output_named and numbers and 2 in (len(numbers), len(found)):
        prompt, window = sorted(numbers if len(numbers) == 2 else found)
        return (window, None, prompt) if prompt + sent > window else (None, None, None)
    if not is_output_named and estimate is not None and len(numbers) == 2 and _TOKENS_NAME.search(text):
        window, prompt = sorted(numbers)
        if estimate / _MAX_ESTIMATE_FACTOR <= prompt <= estimate * _MAX_ESTIMATE_FACTOR:
            return window, None, prompt
    return None, None, None


def _limits(text: str, kind: str) -> Iterator[int]:
    """Yield the numbers of a kind of limit, in the order of its patterns."""
    for pattern in _LIMITS[kind]:
        for found in pattern.finditer(text):
            at = next(at for at, group in enumerate(found.groups(), 1) if group and group[0].isdigit())
            number = _number(found[at]) - ("open" in pattern.groupindex and found["open"] is not None)
            is_code = text[found.start(at) - 1] == "(" and text[found.end(at) :].startswith(")") and number < 10_000
            is_code = is_code and not any(_number(other[0]) > number for other in _ANY_NUMBER.finditer(text))
            if kind == "window" and is_code and "token" not in text[: found.start(at)]:
                continue
            if number >= _MINIMUM[kind]:
                yield number


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def fit_to_limits(
    protocol: WireProtocol, request: ModelRequest, profile: ModelProfile, sent: bytes, refusal: ModelError
) -> tuple[ModelProfile, bytes] | None:
    """Learn the limits in a rejection, and return a profile and a request with a lower output limit.

    The limits are remembered for this model for the lifetime of the process.

    Args:
        protocol: Wire protocol of the request.
        request: The rejected request.
        profile: Profile with which it was encoded.
        sent: Its body.
        refusal: The rejection.

    Returns:
        ``None`` if the rejection contains no limit, or if the prompt itself is too long.

    Raises:
        ContextExceededError: The prompt itself is too long, and the rejection was not recognized as that.
    """
    if refusal.status is not None and refusal.reason not in _REASONS:
        return None  # Without a status, the reason is a guess: 401 tokens look like a status.
    output = _sent_limit(sent)
    limits = parse_limits(refusal.message, output, estimate_request_tokens(request))
    if refusal.reason == "quota":
        if "afford" not in refusal.message.lower() or limits.max_output_tokens is None:
            return None
        remaining: int | None = limits.max_output_tokens  # The credit that is left, not a limit of the model.
    else:
        scale = (limits.prompt_tokens or 0) / max(1, estimate_request_length(request))
        profile = learn_limits(profile, limits.context_window, limits.max_output_tokens, min(scale, _MAX_SCALE))
        remaining = _remaining(request, limits, output)
        if remaining is None and limits.context_window and not isinstance(refusal, ContextExceededError):
            raise _as_overflow(refusal)
        if remaining is None and refusal.reason == "overflow" and limits == ReportedLimits(is_output_named=True):
            remaining = _UNKNOWN_LIMIT
    if remaining is None or remaining < 1 or (output is not None and remaining >= output):
        return None
    profile = replace(profile, remaining_tokens=remaining)
    body = protocol.encode(request, profile)
    return None if body == sent else (profile, body)


def _remaining(request: ModelRequest, limits: ReportedLimits, sent: int | None) -> int | None:
    """Return the output tokens that the limits leave, or ``None`` without a limit or if too few are left."""
    remaining = limits.max_output_tokens
    window = limits.context_window
    if window is None:
        return remaining
    if limits.prompt_tokens is not None:
        left = window - limits.prompt_tokens - _MARGIN
    else:
        prompt = max(estimate_request_tokens(request), estimate_request_length(request))
        left = window - int(prompt * _ESTIMATE_MARGIN) - _MESSAGE_MARGIN
        if window - prompt > 2 * min_output_tokens(window):
            left = max(left, min_output_tokens(window))  # Only the margins do not fit.
        if sent is not None:
            left = min(left, sent * 3 // 4)  # The estimate is too low if the host rejects it again.
    if left < min_output_tokens(window):
        return None
    return left if remaining is None else min(left, remaining)


def _as_overflow(refusal: ModelError) -> ContextExceededError:
    """Return a rejection as the error of a conversation that is too long, so that it is compacted."""
    return ContextExceededError(
        refusal.message,
        reason="overflow",
        status=refusal.status,
        provider=refusal.provider,
        model=refusal.model,
        request_id=refusal.request_id,
    )


def _sent_limit(body: bytes) -> int | None:
    """Return the output limit in the body of a request, in tokens."""
    fields = as_dict(json.loads(body)) or {}
    scopes = (fields, as_dict(fields.get("options")) or {}, as_dict(fields.get("generationConfig")) or {})
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict", "maxOutputTokens")
    return next((n for scope in scopes for name in names if (n := as_int(scope.get(name))) is not None), None)
