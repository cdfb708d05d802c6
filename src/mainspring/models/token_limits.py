"""Output limit of a request, from the requested limit, the limit of the model, and the remaining context window."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from mainspring.messages import ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, Usage
from mainspring.messages.token_estimate import estimate_overhead
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.usage import with_cost

_MIN_OUTPUT_TOKENS = 1024  # Below this, a response is useless: the host reports that the conversation is too long.
_WINDOW_MARGIN = 256
_LENGTH_MARGIN = 1.2  # Schemas of tools and code have more tokens than their length suggests.
_MAX_QUESTIONS = 2  # Before the first and the second request: Ollama knows the window only of a loaded model.
_QUESTION_LIFETIME = 300.0  # seconds until a host is asked again
_IMAGE_TOKENS = 1500  # Tokens per image; hosts differ, and this is close to the maximum that they count.


class _LearnedLimits(Struct, frozen=True):
    """What the host of a model reported.

    Attributes:
        window: Context window in its refusals.
        output: Output limit in its refusals.
        listed_window: Context window in its description of the model.
        listed_output: Output limit in its description of the model.
        scale: Tokens of a prompt, per token that its length suggests.
    """

    window: int | None = None
    output: int | None = None
    listed_window: int | None = None
    listed_output: int | None = None
    scale: float = 1.0


class _LimitCache:
    """What hosts reported, by base URL and model, for the lifetime of the process, and what they were asked lately."""

    def __init__(self) -> None:
        self._limits: dict[tuple[str, str], _LearnedLimits] = {}
        self._questions: dict[tuple[str, str], tuple[int, float]] = {}  # their number, and the time of the first one

    def get(self, profile: ModelProfile) -> _LearnedLimits | None:
        """Return the limits of a model, if its host reported any."""
        return self._limits.get((profile.base_url, profile.info.id)) if self._limits else None

    def store(self, profile: ModelProfile, limits: _LearnedLimits) -> None:
        """Remember the limits of a model."""
        self._limits[profile.base_url, profile.info.id] = limits

    def count_question(self, profile: ModelProfile, now: float) -> bool:
        """Count a question for the limits of a model; return False if its host was asked often enough."""
        key = (profile.base_url, profile.info.id)
        count, since = self._questions.get(key, (0, now))
        if now - since > _QUESTION_LIFETIME:
            count, since = 0, now
        if count >= _MAX_QUESTIONS:
            return False
        self._questions[key] = (count + 1, since)
        return True

    def forget_questions(self, profile: ModelProfile) -> None:
        """Forget the questions to a host that does not work: it may have limits as soon as it does."""
        self._questions.pop((profile.base_url, profile.info.id), None)


_learned = _LimitCache()


def may_ask_limits(profile: ModelProfile) -> bool:
    """Return True, and count it as a question, if the host of a model may be asked for its limits.

    All models of the process share the questions, so that a subagent does not ask again.
    """
    return _learned.count_question(profile, monotonic())


def forget_questions(profile: ModelProfile) -> None:
    """Forget the questions for the limits of a model whose host did not answer."""
    _learned.forget_questions(profile)


def learn_limits(
    profile: ModelProfile, window: int | None, max_output_tokens: int | None, scale: float = 1.0
) -> ModelProfile:
    """Remember limits with which the host refused a request, and return the profile of the model with them.

    Args:
        profile: The model and its host.
        window: Context window, if it was reported; a lower known one wins.
        max_output_tokens: Output limit, if it was reported; a lower known one wins.
        scale: Reported tokens of a prompt, per token that its length suggests.
    """
    known = _learned.get(profile) or _LearnedLimits()
    output = _lower(max_output_tokens, known.output)
    found = replace(known, window=_lower(window, known.window), output=output, scale=max(scale, known.scale))
    return _store_limits(profile, found)


def learn_listed_limits(profile: ModelProfile, window: int | None, max_output_tokens: int | None) -> ModelProfile:
    """Remember limits in the host's description of a model, and return its profile with those that are not known otherwise."""
    known = _learned.get(profile) or _LearnedLimits()
    return _store_limits(profile, replace(known, listed_window=window, listed_output=max_output_tokens))


def _store_limits(profile: ModelProfile, found: _LearnedLimits) -> ModelProfile:
    if (found.window, found.output, found.listed_window, found.listed_output) != (None,) * 4:
        _learned.store(profile, found)
    return with_learned_limits(profile)


def with_learned_limits(profile: ModelProfile) -> ModelProfile:
    """Return the profile with the limits that its host reported; the same object if nothing changes.

    A refusal lowers every limit. A description of the model only replaces a missing limit: its numbers may be those of another
    configuration, and settings of the user win over them.
    """
    learned = _learned.get(profile)
    if learned is None:
        return profile
    info = profile.info
    window = _lower(info.context_window or learned.listed_window, learned.window)
    has_cap = info.max_output_tokens is not None or profile.max_output_tokens is not None
    output = _lower(info.max_output_tokens if has_cap else learned.listed_output, learned.output)
    if (window, output) == (info.context_window, info.max_output_tokens):
        return profile
    return replace(profile, info=replace(info, context_window=window, max_output_tokens=output))


def _lower(one: int | None, other: int | None) -> int | None:
    return min(filter(None, (one, other)), default=None)


def output_limit(request: ModelRequest, profile: ModelProfile) -> int | None:
    """Return the output limit to send, in tokens; ``None`` leaves it to the host."""
    limit = request.max_output_tokens or profile.max_output_tokens or profile.remaining_tokens
    return None if limit is None else clamp_to_window(limit, request, profile)


def clamp_to_window(limit: int, request: ModelRequest, profile: ModelProfile) -> int:
    """Return an output limit, in tokens, that the model supports and that fits into the remaining context window."""
    info = profile.info
    if info.max_output_tokens:
        limit = min(limit, info.max_output_tokens)
    if profile.remaining_tokens is not None:
        return min(limit, profile.remaining_tokens)
    if info.context_window:
        prompt = _estimate_with_margin(request, profile)
        remaining = info.context_window - prompt - _WINDOW_MARGIN
        limit = min(limit, max(min_output_tokens(info.context_window), remaining))
    return limit


def _estimate_with_margin(request: ModelRequest, profile: ModelProfile) -> int:
    """Estimate the tokens of a request, rather too high than too low where only its length is known."""
    learned = _learned.get(profile)
    if learned is None and _has_usage(request):
        return estimate_prompt_tokens(request.messages)
    scale = learned.scale if learned is not None and learned.scale > 1 else _LENGTH_MARGIN
    by_length = int(estimate_request_length(request) * scale)
    # Not all hosts whose limits had to be learned report the usage correctly.
    return max(by_length, estimate_prompt_tokens(request.messages)) if _has_usage(request) else by_length


def _has_usage(request: ModelRequest) -> bool:
    return any(map(_is_reported, request.messages))


def _is_reported(message: Message) -> bool:
    """Return True if a host reported the tokens of the prompt."""
    usage = message.usage
    return usage is not None and usage.prompt_tokens > 0 and not usage.estimated_calls


def min_output_tokens(window: int) -> int:
    """Return the smallest useful output limit; with less, the conversation is too long for the window."""
    return min(_MIN_OUTPUT_TOKENS, window // 8)


def estimate_request_tokens(request: ModelRequest) -> int:
    """Estimate the tokens of a request, tools included, from the last reported usage or from its length."""
    if _has_usage(request):
        return estimate_prompt_tokens(request.messages)
    return estimate_request_length(request)


def estimate_request_usage(request: ModelRequest, info: ModelInfo) -> Usage:
    """Estimate the tokens of a request and their cost, if the model's prices are known; its response is not included."""
    return with_cost(Usage(estimate_request_tokens(request)), info)


def estimate_request_length(request: ModelRequest) -> int:
    """Estimate the tokens of a request from its length, tools included."""
    blocks = sum(_estimate_block_tokens(block) for message in request.messages for block in message.content)
    return blocks + estimate_overhead(request.system, request.tools)


def estimate_prompt_tokens(messages: Sequence[Message], system_length: int = 0) -> int:
    """Estimate the tokens of a conversation from the usage of the last response and the messages after it."""
    estimated = 0
    for message in reversed(messages):
        if message.usage is not None and _is_reported(message):
            return message.usage.total_tokens + estimated
        estimated += sum(map(_estimate_block_tokens, message.content))
    return estimated + system_length // 4


def estimate_stopped_usage(
    request: ModelRequest, partial: Message | None, info: ModelInfo, *, is_aborted: bool = False
) -> Usage:
    """Return the usage of a call that ended before its response was complete: the reported counts, and estimates of the rest.

    Hosts report usage at the end, so a call that a host worked for has an estimate: it has a partial response, or ``is_aborted``.
    """
    reported = partial.usage if partial is not None else None
    if not is_aborted and (partial is None or not partial.content):
        return reported or Usage.zero()
    if reported is not None and reported.estimated_calls:
        return reported
    received = sum(map(_estimate_block_tokens, partial.content)) if partial is not None else 0
    if (
        reported is not None
        and reported.cost is not None
        and reported.total_tokens
        and reported.output_tokens >= received
    ):
        return replace(reported, estimated_calls=1)
    counts = reported if reported and reported.prompt_tokens else Usage(max(1, estimate_request_tokens(request)))
    counts = replace(counts, output_tokens=max(counts.output_tokens, received), estimated_calls=1)
    return with_cost(counts, info, counts.cost if info.prices is None else None)


def _estimate_block_tokens(block: object) -> int:
    match block:
        case TextBlock():
            return len(block.text) // 4
        case ThinkingBlock():
            return len(block.thinking) // 4
        case ToolUseBlock():
            return len(block.raw_input or str(block.input)) // 4
        case ToolResultBlock(content=str() as text):
            return len(text) // 4
        case ToolResultBlock(content=tuple() as blocks):
            return sum(map(_estimate_block_tokens, blocks))
        case ImageBlock():
            return _IMAGE_TOKENS
        case _:
            return 0
