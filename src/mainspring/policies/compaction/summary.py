"""Compaction by summary: a model summarizes the older part of a conversation.

The newest part is unchanged.

The module also selects the position of the cut.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.errors import (
    AgentAbortedError,
    AgentError,
    AuthenticationError,
    ContextExceededError,
    MainspringError,
    ModelError,
    ModelNotFoundError,
    ProviderConfigError,
    RateLimitedError,
)
from mainspring.lazy import lazy_function, lazy_re
from mainspring.loop.model_calls import call_outside_run
from mainspring.loop.state import LoopConfig
from mainspring.messages import AgentMessage, Message, ToolDefinition
from mainspring.messages.token_estimate import CHARS_PER_TOKEN, estimate_tokens
from mainspring.models import ModelRequest
from mainspring.policies.compaction import summary_format
from mainspring.policies.compaction.options import Compaction
from mainspring.text import pluralize, truncate_end

if TYPE_CHECKING:
    from mainspring.env import MemoryEnv
    from mainspring.loop.hooks import SideModelCall
    from mainspring.models import ModelProvider
    from mainspring.policies.compaction.window_report import describe_window
else:
    MemoryEnv = lazy_function("mainspring.env", "MemoryEnv")
    describe_window = lazy_function("mainspring.policies.compaction.window_report", "describe_window")


_WRITE_TOOLS = {"write_file", "edit", "multi_edit", "apply_patch", "remember", "present_plan"}
_KEYWORDS = lazy_re(
    r"\b(must|never|always|important|decid\w*|because|instead|constraint|require\w*|prefer\w*|do not|don't|bug|fix\w*|root cause)\b",
    re.IGNORECASE,
)


def importance_score(message: AgentMessage) -> float:
    """Return the importance of a message: 0 is unimportant, above 1 is very important.

    User messages have the most weight, then decisions and changes, then failures; long results of successful tools have the least.
    """
    if not isinstance(message, Message):
        return 0.0
    points = min(len(_KEYWORDS.findall(message.text)), 4) * 0.2
    if message.role == "user" and not message.tool_results:
        points += 1.0
    points += 0.6 * any(call.name in _WRITE_TOOLS for call in message.tool_uses)
    points += 0.4 * any(result.is_error for result in message.tool_results)
    return points


def select_important(
    messages: Sequence[AgentMessage], budget: int, chars_per_token: float = CHARS_PER_TOKEN
) -> set[int]:
    """Return the indices of the most important messages that fit; a call always stays with its results.

    Args:
        messages: The old part of a history.
        budget: Maximum number of tokens of the selected messages.
        chars_per_token: Number of characters per token.
    """
    units = _group_call_pairs(messages)
    scored = [(max(importance_score(messages[i]) for i in unit), -unit[0], unit) for unit in units]
    chosen: set[int] = set()
    for points, _, unit in sorted(scored, key=lambda s: s[:2], reverse=True):
        size = estimate_tokens([messages[i] for i in unit], chars_per_token)
        if points > 0 and size <= budget:
            chosen.update(unit)
            budget -= size
    return chosen


def _group_call_pairs(messages: Sequence[AgentMessage]) -> list[list[int]]:
    """Group messages that depend on each other."""
    units: list[list[int]] = []
    for i, message in enumerate(messages):
        results = isinstance(message, Message) and bool(message.tool_results)
        if results and units:
            units[-1].append(i)
        else:
            units.append([i])
    return units


def find_cut_index(
    messages: Sequence[AgentMessage],
    keep: int,
    chars_per_token: float = CHARS_PER_TOKEN,
    *,
    max_kept: int | None = None,
) -> int:
    """Return the index of the first message that stays; 0 if nothing can be cut.

    At least ``keep`` tokens stay, unless the newest turn alone has more. The cut is before a user message if one is near, else
    before a response of the model, and never between a call and its result.

    Args:
        messages: The history.
        keep: Approximate number of tokens to keep at the end.
        chars_per_token: Number of characters per token.
        max_kept: Tokens above which a single long message does not stay, if the cut can be after it.
    """
    kept_tokens = 0
    requested = len(messages)
    while requested > 0 and kept_tokens < keep:
        requested -= 1
        kept_tokens += estimate_tokens(messages[requested : requested + 1], chars_per_token)
    places = [i for i in range(1, len(messages)) if is_valid_cut(messages, i)]
    if max_kept is not None and kept_tokens > max_kept and places and places[-1] > requested:
        return next(i for i in places if i > requested)
    if requested == 0 or not places:
        return 0
    prompts = [i for i in places if _is_prompt(messages[i])]
    before = [i for i in prompts if i <= requested]
    # Not so far back that the result greatly exceeds ``keep``: then the turn is split.
    if before and estimate_tokens(messages[before[-1] : requested], chars_per_token) <= keep // 2:
        return before[-1]
    near = [i for i in places if i <= requested]
    return near[-1] if near else places[0]


def is_valid_cut(messages: Sequence[AgentMessage], index: int) -> bool:
    """Return True if a cut before this message does not separate a call from its result."""
    message = messages[index]
    if not isinstance(message, Message) or message.tool_results:
        return False
    before = messages[index - 1]
    return not (isinstance(before, Message) and before.role == "assistant" and before.tool_uses)


def splits_turn(messages: Sequence[AgentMessage], cut: int) -> bool:
    """Return True if the cut splits a turn: its prompt is summarized, and part of its response stays."""
    return cut < len(messages) and not _is_prompt(messages[cut])


def _is_prompt(message: AgentMessage) -> bool:
    return isinstance(message, Message) and message.role == "user" and not message.tool_results


logger = logging.getLogger("mainspring.compaction")
logger.addHandler(logging.NullHandler())


_SUMMARY_TOKENS = 4096
_PROMPTS_SHARE = 0.2  # share of the remaining tokens for the user's prompts
_CHUNK = 60_000  # tokens of one request if the window is unknown
_MIN_CHUNK_TOKENS = 1000
_CHARS_PER_TOKEN = 3  # of text to summarize: a low estimate, to be safe
_MAX_FAILURES = 3  # empty and failed summaries of one compaction, after each of which half of the text is tried
_MIN_SUMMARY_CHARS = 16  # characters; a shorter summary is rejected


class CompactionResult(Struct, frozen=True, kw_only=True):
    """The result of a compaction.

    Attributes:
        summary: The summary; empty if older messages were only removed.
        first_kept: ID of the first message that stayed after the summary.
        tokens_before: Approximate number of tokens before.
        tokens_after: Approximate number of tokens after.
        files: Files used in the summarized part.
        calls: Number of requests to a model.
    """

    summary: str
    first_kept: str
    tokens_before: int
    tokens_after: int
    files: summary_format.TouchedFiles
    calls: int


class SummaryCompactor:
    """A `Compactor` that asks a model for a summary.

    The history is only replaced if the summary is good.

    An earlier summary is updated, not summarized again. Text that is too long for one request is split into several requests; after
    a request that is still too long, or whose summary is empty or failed, the next one has half of its text. If no summary can be
    created, the history stays (`None`). Without a model, and if the history does not fit the model of the conversation any more
    (``reason`` is ``overflow``), the oldest messages are removed, and a note in the history reports how many.

    Args:
        options: See `Compaction`.

    Attributes:
        last_result: The result of the last compaction.
        problem: The reason why the last attempt changed nothing.
        has_failed: Whether that reason is a failed summary.
        calls: Number of requests of the last attempt.
    """

    def __init__(self, options: Compaction | None = None) -> None:
        self.options = options or Compaction()
        self.last_result: CompactionResult | None = None
        self.problem = ""
        self.has_failed = False
        self.calls = 0

    async def compact(
        self,
        messages: Sequence[AgentMessage],
        *,
        reason: str,
        side_call: SideModelCall | None = None,
        window: int | None = None,
        chars_per_token: float = CHARS_PER_TOKEN,
        instructions: str = "",
    ) -> Sequence[AgentMessage] | None:
        """Compact a history; see `Compactor`.

        Args:
            messages: The history.
            reason: Reason for the compaction, for example ``threshold`` or ``overflow``.
            side_call: Calls a model; without it older messages can only be removed.
            window: The model's window in tokens, if known.
            chars_per_token: Number of characters per token.
            instructions: Topics that the summary should focus on.
        """
        self.problem, self.has_failed = "", False
        keep = self.options.keep_tokens_for(window)
        max_kept = window and window // 2
        if reason == "overflow":  # The window may be smaller than is known.
            keep = min(keep, max(estimate_tokens(messages, chars_per_token) // 3, _MIN_CHUNK_TOKENS))
            max_kept = min(max_kept or 2 * keep, 2 * keep)
        cut, self.calls = find_cut_index(messages, keep, chars_per_token, max_kept=max_kept), 0
        old = messages[:cut]
        if not old or all(map(summary_format.is_summary, old)):
            self.problem = (
                "All messages before the newest ones are a summary already."
                if old
                else "The conversation has no earlier messages that a summary could replace."
                if reason == "overflow"
                else f"The newest messages, about {keep:,} tokens, always stay, and the conversation has only about "
                f"{estimate_tokens(messages, chars_per_token):,}."
            )
            return None
        summary = ""
        if side_call is not None or reason != "overflow":
            try:
                summary = await self._summarize(messages, cut, side_call, window, instructions)
            except AgentAbortedError:
                raise
            except (MainspringError, ValueError) as error:
                logger.warning("Cannot compact the conversation (%s). It is unchanged.", error)
                self.problem, self.has_failed = f"The summary failed: {error}", True
                return None
        return self._build_history(messages, cut, summary, keep, chars_per_token)

    def _build_history(
        self, messages: Sequence[AgentMessage], cut: int, summary: str, keep: int, chars_per_token: float
    ) -> Sequence[AgentMessage] | None:
        old, new = messages[:cut], messages[cut:]
        before = [m for m in old if summary_format.is_summary(m)]
        earlier, files, prompts = (
            summary_format.parse_summary_message(before[-1])
            if before and isinstance(before[-1], Message)
            else ("", summary_format.TouchedFiles(), [])
        )
        files |= summary_format.collect_files(old)
        prompts += [m.text for m in old if isinstance(m, Message) and _is_user_prompt(m)]
        prompt_chars = round(keep * _PROMPTS_SHARE * chars_per_token)
        text = summary or "\n\n".join(
            filter(None, (earlier, f"(No summary could be made of {pluralize(len(old), 'older message')}; left out.)"))
        )
        pinned = self._pinned_messages(old)
        head = summary_format.summary_message(text, files, _fit_prompts(prompts, prompt_chars))
        result = [head, *pinned, *new]
        tokens_before, tokens_after = (
            estimate_tokens(messages, chars_per_token),
            estimate_tokens(result, chars_per_token),
        )
        if summary and tokens_after > max(tokens_before, _SUMMARY_TOKENS):
            logger.warning("The summary is longer than the conversation, which is unchanged.")
            self.problem = f"The summary is longer ({tokens_after:,} tokens) than the messages that it replaces."
            return None
        self.last_result = CompactionResult(
            summary=summary,
            first_kept=next((m.id or "" for m in (*pinned, *new) if isinstance(m, Message)), ""),
            tokens_before=tokens_before,
            tokens_after=tokens_after,
            files=files,
            calls=self.calls,
        )
        return result

    def _pinned_messages(self, old: Sequence[AgentMessage]) -> list[AgentMessage]:
        """Return the indices of old messages that the application preserves, calls with their results."""
        keep, important = self.options.keep, set[int]()
        if self.options.keep_important:
            important = select_important(old, self.options.keep_important)
        elif keep is None:
            return []
        requested = [
            (i in important or bool(keep and keep(m))) and not summary_format.is_summary(m) for i, m in enumerate(old)
        ]
        for i in range(1, len(old)):
            calls, results = old[i - 1], old[i]
            if isinstance(calls, Message) and calls.tool_uses and isinstance(results, Message) and results.tool_results:
                requested[i - 1] = requested[i] = requested[i - 1] or requested[i]
        return [m for m, stays in zip(old, requested, strict=True) if stays]

    async def _summarize(
        self,
        messages: Sequence[AgentMessage],
        cut: int,
        side_call: SideModelCall | None,
        window: int | None,
        instructions: str,
    ) -> str:
        """Return the summary of the old part.

        Raises:
            MainspringError: If no good summary could be created.
        """
        if side_call is None:
            raise AgentError("no model is available for a summary")
        old = messages[:cut]
        earlier = ""
        for message in old:
            if summary_format.is_summary(message) and isinstance(message, Message):
                earlier = summary_format.parse_summary_message(message)[0]
        model = self.options.model
        if model is not None:
            window = model.info.context_window or window
        max_tokens = _CHUNK if window is None else max(window - _SUMMARY_TOKENS * 2 - 2000, _MIN_CHUNK_TOKENS)
        task = "\n\n".join(
            filter(
                None,
                (
                    self.options.prompt or summary_format.SUMMARY_PROMPT,
                    summary_format.SPLIT_TURN_NOTE if splits_turn(messages, cut) else "",
                    instructions,
                ),
            )
        )
        pieces = summary_format.render_transcript(old)
        failures = 0
        while pieces:
            count = _count_fitting(pieces, max_tokens)
            text = "\n\n".join(pieces[:count])
            try:
                earlier = await self._request_summary(side_call, task, earlier, text)
            except ModelError as error:
                failures += not isinstance(error, ContextExceededError)
                size = len(text) // _CHARS_PER_TOKEN
                if size <= _MIN_CHUNK_TOKENS or failures > _MAX_FAILURES or not _may_fit_in_halves(error):
                    raise
                max_tokens = min(max_tokens, size // 2)
                if count == 1:
                    middle = len(text) // 2
                    pieces[:1] = [text[:middle], text[middle:]]
                continue
            pieces = pieces[count:]
        return earlier

    async def _request_summary(self, side_call: SideModelCall, task: str, earlier: str, text: str) -> str:
        parts = [task]
        if earlier:
            parts += [summary_format.UPDATE_PROMPT, f"<previous-summary>\n{earlier}\n</previous-summary>"]
        parts.append(f"<conversation>\n{text}\n</conversation>")
        request = ModelRequest(
            [Message.user("\n\n".join(parts))],
            system=summary_format.SUMMARY_SYSTEM_PROMPT,
            max_output_tokens=_SUMMARY_TOKENS,
            thinking="off",
            cache=False,
        )
        self.calls += 1
        answer = await side_call("summary", request, model=self.options.model)
        summary = answer.text.strip()
        if len(summary) < _MIN_SUMMARY_CHARS:
            raise ModelError("the model returned no summary", reason="empty")
        return summary


def _may_fit_in_halves(error: ModelError) -> bool:
    """Return True if the size of a request may be the cause of its failure: not the key, the model, or the quota."""
    if isinstance(error, AuthenticationError | RateLimitedError | ModelNotFoundError | ProviderConfigError):
        return False
    return error.reason not in ("quota", "content_filter")


def _is_user_prompt(message: Message) -> bool:
    """Return True if the text is the user's own."""
    return (
        message.role == "user"
        and not message.tool_results
        and bool(message.text.strip())
        and not summary_format.is_summary(message)
        and not summary_format.is_injected(message)
    )


def _fit_prompts(prompts: Sequence[str], max_chars: int) -> list[str]:
    """Return the user's prompts that fit, the first and the newest before the rest."""
    if not prompts:
        return []
    chosen: dict[int, str] = {}
    for i in (0, *range(len(prompts) - 1, 0, -1)):
        text = truncate_end(prompts[i], max_chars // 2)
        if len(text) > max_chars:
            break
        chosen[i] = text
        max_chars -= len(text)
    return [chosen[i] for i in sorted(chosen)]


def _count_fitting(pieces: Sequence[str], budget: int) -> int:
    """Return how many parts fit in a request of a number of tokens, at least one."""
    size, count = 0, 0
    for piece in pieces:
        size += len(piece)
        if count and size > budget * _CHARS_PER_TOKEN:
            break
        count += 1
    return count


async def compact_history(
    messages: Sequence[AgentMessage],
    model: ModelProvider,
    options: Compaction | None = None,
    *,
    side_call: SideModelCall | None = None,
    instructions: str = "",
    chars_per_token: float = CHARS_PER_TOKEN,
    on_problem: Callable[[str], object] | None = None,
    fixed: tuple[str, Sequence[ToolDefinition]] = ("", ()),
) -> tuple[Sequence[AgentMessage], CompactionResult] | None:
    """Compact a history now, outside of any run.

    Args:
        messages: The history.
        model: The model for the summary, unless ``options`` names another.
        options: Options of the compaction.
        side_call: Calls the model, and counts the usage. By default, failed calls are retried and no usage is counted.
        instructions: Topics that the summary should focus on.
        chars_per_token: Number of characters per token.
        on_problem: Called with the reason if the history is not compacted; if the summary failed, also with what fills the window.
        fixed: The system prompt and the tools of the requests, for that description.

    Returns:
        The new history and the result; ``None`` if the history has no part to summarize, or no good summary could be created.
    """
    if side_call is None:
        config = LoopConfig(model=model, env=MemoryEnv())
        side_call = partial(call_outside_run, config, on_usage=lambda _: None)
    compactor = SummaryCompactor(options)
    shorter = await compactor.compact(
        messages,
        reason="asked",
        side_call=side_call,
        window=model.info.context_window,
        chars_per_token=chars_per_token,
        instructions=instructions,
    )
    if shorter is None or compactor.last_result is None:
        if on_problem is not None:
            on_problem(compactor.problem)
            if compactor.calls:
                window, (system, tools) = model.info.context_window, fixed
                on_problem(describe_window(system, tools, messages, window=window, chars_per_token=chars_per_token))
        return None
    return shorter, compactor.last_result
