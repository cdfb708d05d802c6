"""The skills that there are, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mainspring.skills.skill import SOURCES, Skill, SkillProblem


class SkillCatalog:
    """The skills that can be used, and what became of the others.

    Of two skills of one name the one of the project counts, then the user's, then one given inline, then the bundled one; of two of
    one source the first.

    Args:
        skills: All that were found, those of one source in the order in which they count.
        problems: Files that gave none, or that are odd.
        disabled: Names of those that are not wanted.
        switched_on: Names of those that are wanted though they are off by default.
    """

    def __init__(
        self,
        skills: Iterable[Skill] = (),
        problems: Iterable[SkillProblem] = (),
        *,
        disabled: Iterable[str] = (),
        switched_on: Iterable[str] = (),
    ) -> None:
        unwanted, wanted = set(disabled), set(switched_on)
        found: dict[str, Skill] = {}
        off: dict[str, Skill] = {}
        shadowed: list[Skill] = []
        told = list(problems)
        for skill in sorted(skills, key=lambda s: SOURCES.index(s.source)):
            first = found.get(skill.name) or off.get(skill.name)
            if first is not None:
                shadowed.append(skill)
                told.append(_conflict(skill, first))
                continue
            on = skill.name not in unwanted and (skill.default_enabled or skill.name in wanted)
            (found if on else off)[skill.name] = skill
        self.skills: tuple[Skill, ...] = tuple([found[name] for name in sorted(found)])
        """Those that can be used, by name."""
        self.off: tuple[Skill, ...] = tuple([off[name] for name in sorted(off)])
        """Those that are switched off, by name."""
        self.shadowed: tuple[Skill, ...] = tuple(shadowed)
        """Those that another one of the same name hides; `get` takes them with their source, as ``user:NAME``."""
        self.problems: tuple[SkillProblem, ...] = tuple(told)
        """Files that gave no skill, and what is odd about others."""

    def __len__(self) -> int:
        return len(self.skills)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self.skills)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def get(self, name: str) -> Skill | None:
        """The skill of a name that can be used; ``SOURCE:NAME`` is the one of that source, also where another one hides it."""
        source, colon, rest = name.partition(":")
        if not colon:
            return next((s for s in self.skills if s.name == name), None)
        return next((s for s in (*self.skills, *self.shadowed) if s.source == source and s.name == rest), None)


def _conflict(skill: Skill, first: Skill) -> SkillProblem:
    where = f" ({first.path})" if first.path else ""
    way = (
        "rename one" if skill.source == first.source else f"rename one, or use this one as {skill.source}:{skill.name}"
    )
    return SkillProblem(
        skill.path or skill.name, f"the {first.source} skill {first.name!r}{where} comes first; {way}", level="warning"
    )
