"""Numbers with the word that fits them."""


def counted(number: int, one: str, many: str = "") -> str:
    """A number with what it counts: ``1 message``, ``2 messages``.

    Args:
        number: How many there are.
        one: What follows a 1; more than the noun where the rest of the sentence depends on it.
        many: What follows any other number; ``one`` with an s if not given.
    """
    return f"{number} {one if number == 1 else many or f'{one}s'}"
