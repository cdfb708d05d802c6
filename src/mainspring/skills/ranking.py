"""Which of the skills that a prompt calls for come first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mainspring.skills.skill import Skill
from mainspring.skills.triggers import Hit


def rank(hits: Iterable[Hit], used: Mapping[str, float], limit: int) -> list[Skill]:
    """The best of them.

    A skill that the prompt names comes first, then one of which it holds a phrase (the more words the better), then one that was used
    more recently, then one of which it holds more triggers; what is still equal goes by name.

    Args:
        hits: What the prompt calls for.
        used: When a skill was used last, by name; a greater number is later.
        limit: Most skills to return.
    """

    def key(hit: Hit) -> tuple[bool, int, float, int, str]:
        phrase = hit.phrase if hit.phrase > 1 else 0
        return (not hit.named, -phrase, -used.get(hit.skill.name, 0.0), -hit.count, hit.skill.name)

    return [hit.skill for hit in sorted(hits, key=key)[: max(limit, 0)]]
