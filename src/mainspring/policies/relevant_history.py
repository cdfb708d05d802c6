"""Reduce a history to the turns that are relevant to the newest prompt, by shared words and without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mainspring.messages import AgentMessage, Message
from mainspring.ranking import score_texts, tokenize

_COMMON = frozenset(
    "the and for that this with from have not are was were will would can could should has had but you your our they them then than "
    "what when where which who why how into about there here some any all just make made need want please show tell give get".split()
)


def words_of(text: str) -> Counter[str]:
    """Return the significant words of a text, with their counts."""
    return Counter(word for word in tokenize(text) if word not in _COMMON and (len(word) > 2 or not word.isascii()))


def rank(question: str, texts: Sequence[str], limit: int) -> list[int]:
    """Rank the texts that share words with a question, most relevant first.

    Rare words have more weight.

    Args:
        question: The question.
        texts: The texts.
        limit: Maximum number of indices to return.
    """
    scores = score_texts(words_of(question), [words_of(text) for text in texts])
    return sorted((i for i, score in enumerate(scores) if score > 0), key=lambda i: (-scores[i], i))[:limit]


class RelevantHistory:
    """Reduces a conversation to the turns that are relevant to the newest prompt: pass it as ``Agent(transform=...)``.

    The newest messages always stay, and so does every turn that shares words with the prompt; a turn stays or is removed as a
    whole, so no call is separated from its result.

    Args:
        keep_recent: Number of turns at the end that always stay.
        limit: Maximum number of older turns that stay.
    """

    def __init__(self, *, keep_recent: int = 4, limit: int = 6) -> None:
        self.keep_recent = keep_recent
        self.limit = limit

    def __call__(self, messages: list[AgentMessage], signal: object = None) -> list[AgentMessage]:
        """Return the messages of the next request."""
        del signal
        return MessageHistory(messages).select(keep_recent=self.keep_recent, limit=self.limit) or messages


class MessageHistory:
    """The memory of a conversation outside an agent: its messages, its turns, and those that matter for a question.

    A program that calls models itself adds messages and passes the selected ones on; an agent has its own history in
    `Agent.messages`.

    Args:
        messages: The messages so far.
    """

    def __init__(self, messages: Iterable[AgentMessage] = ()) -> None:
        self._messages = list(messages)

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """All messages, oldest first."""
        return tuple(self._messages)

    @property
    def turns(self) -> list[list[AgentMessage]]:
        """The messages by turn: each begins with a message of the user, and has the calls, results, and answers that follow."""
        return group_turns(self._messages)

    def add(self, *messages: AgentMessage) -> None:
        """Add messages at the end."""
        self._messages += messages

    def clear(self) -> None:
        """Forget all messages."""
        self._messages.clear()

    def select(self, question: str = "", *, keep_recent: int = 4, limit: int = 6) -> list[AgentMessage]:
        """Return the newest turns, and the older ones that share words with a question, in their order.

        Args:
            question: The question; empty for the newest prompt.
            keep_recent: Number of turns at the end that always stay.
            limit: Maximum number of older turns that stay.
        """
        turns = self.turns
        split = max(0, len(turns) - keep_recent)
        old, new = turns[:split], turns[split:]
        question = question or next((text for turn in reversed(new) if (text := _prompt_text(turn))), "")
        chosen = sorted(rank(question, [_text(turn) for turn in old], limit)) if old else []
        return [m for turn in (*[old[i] for i in chosen], *new) for m in turn]


def group_turns(messages: Sequence[AgentMessage]) -> list[list[AgentMessage]]:
    """Group the conversation into turns: each starts with a user message without tool results."""
    turns: list[list[AgentMessage]] = []
    for message in messages:
        begins = isinstance(message, Message) and message.role == "user" and not message.tool_results
        if begins or not turns:
            turns.append([])
        turns[-1].append(message)
    return turns


def _prompt_text(turn: Sequence[AgentMessage]) -> str:
    first = turn[0]
    return first.text if isinstance(first, Message) and first.role == "user" else ""


def _text(turn: Sequence[AgentMessage]) -> str:
    parts: list[str] = []
    for message in turn:
        if isinstance(message, Message):
            parts.append(message.text)
            parts += [f"{call.name} {' '.join(map(str, call.input.values()))}" for call in message.tool_uses]
            parts += [result.text[:4000] for result in message.tool_results]
    return "\n".join(parts)
