"""Join the text of a response that was cut off and its continuation, if the model repeats itself instead of continuing.

Some models begin the response again, or its last words. Such a repetition is left out only if it cannot be a part of the text: it is
long, not a repetition itself, and either begins the whole response again, or follows the cut like no text does, for example
``brown fo`` + ``brown fox``. In all other cases, for example if a line ends at the cut, the text stays as it is.
"""

from __future__ import annotations

_MIN_LENGTH = 16
_MIN_CHARACTERS = 8  # different ones
_SHORT_LENGTH = 8
_SHORT_CHARACTERS = 5
_MAX_PLACES = 20
_SAMPLE = 400
_SENTENCE_ENDS = ".!?:;|)}]>\"'`。！？；：」"


def continue_text(before: str, text: str, *, is_complete: bool) -> str:
    """Return what a continuation adds to the text before it.

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
    sample = repeated[:_SAMPLE]
    if end.find(repeated) != at or any(sample.startswith(sample[n:]) for n in range(1, len(sample) // 2 + 1)):
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
