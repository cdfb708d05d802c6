"""Continue a response that was cut off after its first content; loaded only then.

The call is made again with the partial response, and the rest joins it in one message. Tool calls of the partial response never
run: the model makes them again if it still wants them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from mainspring.errors import ModelError
from mainspring.events import Done, StreamEvent, StreamStart
from mainspring.events.response import TextDelta, TextStart, ThinkingDelta, ThinkingEnd, ThinkingStart
from mainspring.messages import ContentBlock, Message, RedactedThinkingBlock, TextBlock, ThinkingBlock, Usage
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.retry import RetryOptions, retry_stream, sleep_before_retry
from mainspring.models.token_limits import estimate_stopped_usage
from mainspring.text import has_period

MAX_CONTINUATIONS = 2
"""Maximum number of times that one call is continued."""

_NOTE = (
    "Your response was cut off after {quote} because the connection failed. Continue it from exactly there: the text that you write now "
    "is appended to it. Do not repeat any of it, and do not mention the interruption.{calls}"
)
_CALLS = " Tool calls in it were not run: make them again."
_QUOTED = 60

_MIN_LENGTH = 16
_MIN_CHARACTERS = 8  # different ones
_SHORT_LENGTH = 8
_SHORT_CHARACTERS = 5
_MAX_PLACES = 20
_SAMPLE = 400
_SENTENCE_ENDS = ".!?:;|)}]>\"'`。！？；：」"

OpenRequest = Callable[[ModelRequest], AsyncIterator[StreamEvent]]


async def continue_stream(
    open: OpenRequest,
    request: ModelRequest,
    info: ModelInfo,
    failure: ModelError,
    last: StreamEvent | None,
    options: RetryOptions,
    *,
    on_cut: Callable[[Usage], Any] | None = None,
    can_continue: Callable[[Usage], bool] | None = None,
) -> AsyncGenerator[StreamEvent, None]:
    """Make a call again from its partial response, and stream the rest of the response.

    Args:
        open: Opens the stream of a request.
        request: The request whose response was cut off.
        info: The model.
        failure: The failure, with the partial response.
        last: The last event before the failure, if any.
        options: Retry options.
        on_cut: Called with the usage of each call that was cut off; may be async. Without it, the usage is added to that of the
            message.
        can_continue: Called with the usage of a call that was cut off; returns False if a limit forbids the next one.

    Raises:
        ModelError: The last failure; ``partial`` contains everything that was received.
    """
    beginning, asked, cut_usage = Message("assistant"), request, Usage.zero()
    next_index = max(len(failure.partial.content) if failure.partial else 0, getattr(last, "index", -1) + 1)
    for cuts in range(MAX_CONTINUATIONS + 1):
        received = failure.partial or Message("assistant")
        usage = estimate_stopped_usage(asked, received, info)
        received = join_messages(beginning, received, is_complete=False)
        failure.partial = replace(received, usage=usage)
        if (
            cuts == MAX_CONTINUATIONS
            or (can_continue is not None and not can_continue(usage))
            or not await sleep_before_retry(failure, cuts, options, max_continuations=MAX_CONTINUATIONS)
        ):
            if on_cut is None:
                failure.partial = replace(received, usage=cut_usage + usage)
            raise failure from failure.__cause__
        cut_usage += usage
        result = on_cut(usage) if on_cut is not None else None
        if isinstance(result, Awaitable):
            await result
        open_text = last.index if isinstance(last, TextStart | TextDelta) else -1
        beginning = _first_part(received)
        asked = _continued_request(request, beginning, has_calls=bool(received.tool_uses))
        joined = _JoinedEvents(beginning, next_index, open_text, cut_usage if on_cut is None else Usage.zero())
        async with aclosing(joined.stream(retry_stream(partial(open, asked), options))) as events:
            async for event in events:
                yield event
        if joined.failure is None:
            return
        if joined.failure.partial is None or not joined.failure.partial.content:
            raise failure from joined.failure  # The first cause is that the response was cut off.
        failure, last, next_index = joined.failure, joined.last, joined.next_index


def _continued_request(request: ModelRequest, beginning: Message, *, has_calls: bool) -> ModelRequest:
    """Return the request for the rest of a response; the same request if nothing of the response can be continued."""
    text = beginning.text
    if not text.strip():
        return request
    quote = "…" + text[-_QUOTED:] if len(text) > _QUOTED else text
    note = _NOTE.format(quote=f'"{quote}"', calls=_CALLS if has_calls else "")
    sent = replace(beginning, content=tuple(block for block in beginning.content if isinstance(block, TextBlock)))
    return replace(request, messages=(*request.messages, sent, Message.user(note)), is_continuation=True)


def _first_part(partial: Message) -> Message:
    """Return a partial response without calls and signatures, which are valid only in the response of their call."""
    content: list[ContentBlock] = []
    for block in partial.content:
        if isinstance(block, TextBlock) and block.text:
            content.append(TextBlock(block.text))
        elif isinstance(block, ThinkingBlock) and block.thinking:
            content.append(ThinkingBlock(block.thinking))
    has_text = any(isinstance(block, TextBlock) for block in content)
    return replace(partial, content=tuple(content) if has_text else (), usage=None)


def join_messages(beginning: Message, rest: Message, *, is_complete: bool = True) -> Message:
    """Return one message with the first part of a response, and the rest: the reasoning first, as hosts require, then the text.

    Args:
        beginning: The first part.
        rest: The rest.
        is_complete: Whether all of the rest was received.
    """
    if not beginning.content:
        return rest
    thinking: list[ContentBlock] = [block for block in beginning.content if isinstance(block, ThinkingBlock)]
    texts: list[ContentBlock] = [block for block in beginning.content if isinstance(block, TextBlock)]
    later = list(rest.content)
    while later and isinstance(later[0], ThinkingBlock | RedactedThinkingBlock):
        thinking.append(later.pop(0))
    if later and isinstance(first := later[0], TextBlock):
        before = texts.pop()
        assert isinstance(before, TextBlock)
        is_whole = is_complete or len(later) > 1
        texts.append(TextBlock(before.text + continue_text(before.text, first.text, is_complete=is_whole)))
        later.pop(0)
    return replace(rest, content=(*thinking, *texts, *later))


def continue_text(before: str, text: str, *, is_complete: bool) -> str:
    """Return what a continuation adds to the text before it.

    Some models begin the response again, or its last words. Such a repetition is left out only if it cannot be a part of the text: it is
    long, not a repetition itself, and either begins the whole response again, or follows the cut like no text does, for example
    ``brown fo`` + ``brown fox``. In all other cases, for example if a line ends at the cut, the text stays unchanged.

    Args:
        before: The text before the cut.
        text: The continuation, as received until now.
        is_complete: Whether it is complete. Otherwise, a text that may still turn out to be a repetition adds nothing yet.
    """
    start = _repeated_length(before, text, is_complete=is_complete)
    space = before[len(before.rstrip()) :]  # Hosts send the text before the cut without it, so models repeat it.
    if start is None or (not is_complete and space.startswith(text[start:])):
        return ""
    return text[start:].removeprefix(space)


def _repeated_length(before: str, text: str, *, is_complete: bool) -> int | None:
    """Return the length of the repetition at the start of a continuation; ``None`` if it is not known yet."""
    end, new = before.rstrip(), text.lstrip()
    if not end:
        return 0
    if len(new) < _SHORT_LENGTH:
        return None if not is_complete and new in end else 0
    at = end.find(new[:_SHORT_LENGTH])
    for _ in range(_MAX_PLACES):
        if at < 0:
            break
        repeated = end[at:]
        rest = new[len(repeated) :]
        if new.startswith(repeated):
            if not is_complete and repeated.startswith(rest.lstrip()):
                return None
            if (not rest or not repeated.startswith(rest.lstrip()[: len(repeated)])) and _is_repetition(
                before, text, at
            ):
                return len(text) - len(rest)
        elif not is_complete and repeated.startswith(new):
            return None
        at = end.find(new[:_SHORT_LENGTH], at + 1)
    return 0


def _is_repetition(before: str, text: str, at: int) -> bool:
    """Return True if the end of ``before``, from ``at``, is repeated by ``text``, and no text would read like that."""
    end = before.rstrip()
    repeated = end[at:]
    if end.find(repeated) != at or has_period(repeated[:_SAMPLE]):
        return False
    characters = len(set(repeated) - {" ", "\n"})
    is_joined_word = _is_in_word(before[-1]) and _is_in_word(text[0])
    is_long = len(repeated) >= _MIN_LENGTH and characters >= _MIN_CHARACTERS
    if at == 0:
        sentences = sum(repeated.count(mark) for mark in (". ", "\n", "! ", "? ", "。"))
        return (is_long and (end[-1] not in _SENTENCE_ENDS and before[-1] != "\n" or sentences > 0)) or (
            is_joined_word and len(repeated) >= _SHORT_LENGTH and characters >= _SHORT_CHARACTERS
        )
    return is_long and is_joined_word and not (_is_in_word(end[at - 1]) and _is_in_word(end[at]))


def _is_in_word(character: str) -> bool:
    """Return True for a character of words that spaces separate."""
    return character.isalnum() and character < "\u2e80"


class _JoinedDraft:
    """The draft of a response whose first part is known."""

    def __init__(self, beginning: Message, draft: Any) -> None:
        self._beginning = beginning
        self._draft = draft
        self.tool_names: Mapping[str, str] = {}

    def snapshot(self, at: int) -> Message:
        return join_messages(self._beginning, self._draft.snapshot(at), is_complete=False)


class _JoinedEvents:
    """Converts the events of the rest of a response to events of the whole response.

    Attributes:
        next_index: Index of the next block.
        last: The last event.
        failure: The failure that ended the stream, if any.

    Args:
        beginning: The first part of the response.
        next_index: Index of the next block: those below have published events.
        open_text: Index of the text block that was cut off; the first text continues it. -1 for none.
        usage: Usage to add to that of the message.
    """

    def __init__(self, beginning: Message, next_index: int, open_text: int, usage: Usage) -> None:
        self.last: StreamEvent | None = None
        self.failure: ModelError | None = None
        self._beginning = beginning
        self._usage = usage
        self._offset = self.next_index = next_index
        self._open_text = open_text if beginning.content else -1
        self._continued = -1  # Index of the text that continues it, in the rest of the response.
        self._has_other = False  # Whether another block than reasoning and that text has begun.
        self._received = ""  # The text of the rest until it is known whether it repeats the first part.
        self._is_decided = False
        self._before = next((b.text for b in reversed(beginning.content) if isinstance(b, TextBlock)), "")

    async def stream(self, rest: AsyncGenerator[StreamEvent, None]) -> AsyncGenerator[StreamEvent, None]:
        """Stream the converted events, and store a failure instead of raising it."""
        try:
            async with aclosing(rest):
                async for event in rest:
                    for converted in self._convert(event):
                        self.last = converted
                        yield converted
        except ModelError as error:
            self.failure = error

    def _convert(self, event: StreamEvent) -> Iterator[StreamEvent]:
        """Yield the event with its index and its partial message in the whole response."""
        if type(event) is StreamStart:
            return
        if type(event) is Done:
            message = join_messages(self._beginning, event.message)
            if self._usage.total_tokens:
                message = replace(message, usage=(message.usage or Usage()) + self._usage)
            yield Done(event.reason, message)
            return
        given = cast("Any", event)
        draft = _JoinedDraft(self._beginning, given.draft) if given.draft is not None else None
        if self._before and not self._has_other and self._continued < 0 and isinstance(event, TextStart):
            self._continued = event.index
            if self._open_text >= 0:
                yield TextDelta(self._open_text, "", draft, event.at)  # The text has begun already.
                return
        self._has_other = self._has_other or not isinstance(
            event, TextStart | ThinkingStart | ThinkingDelta | ThinkingEnd
        )
        is_continued = given.index == self._continued
        index = self._open_text if is_continued and self._open_text >= 0 else given.index + self._offset
        self.next_index = max(self.next_index, index + 1)
        if not is_continued or isinstance(event, TextStart):
            yield replace(given, index=index, draft=draft)
        elif isinstance(event, TextDelta):
            if text := self._new_text(event.text):
                yield TextDelta(index, text, draft, event.at)
        else:
            text = continue_text(self._before, given.text, is_complete=True)
            if not self._is_decided and text:
                yield TextDelta(index, text, draft, given.at)
            yield replace(given, index=index, text=self._before + text if self._open_text >= 0 else text, draft=draft)

    def _new_text(self, text: str) -> str:
        """Return the text that a delta adds, without a repetition of the first part; empty until that is known."""
        if self._is_decided:
            return text
        self._received += text
        new = continue_text(self._before, self._received, is_complete=False)
        self._is_decided = bool(new)
        return new
