"""Three small sample tools that show how to create tools. They are offered only by name."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mainspring.tools.define import tool

_BOOKS = (
    ("The Left Hand of Darkness", "fiction", 1969),
    ("The Dispossessed", "fiction", 1974),
    ("Gödel, Escher, Bach", "science", 1979),
    ("The Selfish Gene", "science", 1976),
    ("The Guns of August", "history", 1962),
    ("SPQR", "history", 2015),
)


@tool(source="builtin", idempotent=True, access=lambda _: ())
def hello() -> str:
    """Return a greeting: shows that tools work."""
    return "Hello! Tools work."


@tool(source="builtin", idempotent=True, access=lambda _: ())
def greet(name: Annotated[str, Meta(min_length=1, max_length=80)], language: Literal["en", "de", "fr"] = "en") -> str:
    """Greet a user.

    Args:
        name: Whom to greet.
        language: In which language.
    """
    return {"en": "Hello", "de": "Hallo", "fr": "Bonjour"}[language] + f", {name}!"


@tool(source="builtin", idempotent=True, access=lambda _: ())
def search_books(
    query: str = "",
    subject: Literal["fiction", "science", "history"] | None = None,
    since: Annotated[int, Meta(ge=0, le=3000)] = 0,
    limit: Annotated[int, Meta(ge=1, le=20)] = 5,
) -> str:
    """Search a small library of books, as an example of a tool for a domain.

    Args:
        query: Words that the title must contain, in any order.
        subject: Only books about this.
        since: Only books of this year or later.
        limit: Most books to return.
    """
    words = query.lower().split()
    found = [
        book
        for book in _BOOKS
        if all(word in book[0].lower() for word in words) and subject in (None, book[1]) and book[2] >= since
    ]
    lines = [f"{title} ({subject}, {year})" for title, subject, year in found[:limit]]
    return "\n".join([*lines, f"({len(found)} found)"])
