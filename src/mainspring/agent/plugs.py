"""Skills as an option of an agent. What they need is imported where somebody has some."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import mainspring.skills as package
from mainspring.errors import AgentError, ConfigError
from mainspring.loop import Plug
from mainspring.messages import AgentMessage

if TYPE_CHECKING:  # reading one of the names imports it
    from mainspring.loop import CoreAgent
    from mainspring.skills import Skill, Skills, SkillsConfig

    SkillsOption = Skills | SkillsConfig | str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Skill]
    """The plug itself; which skills there are; or folders of skills, and skills."""


@runtime_checkable
class HasSkills(Protocol):
    """A plug by which skills become active."""

    async def activate(self, name: str) -> None:
        """Make one active."""
        ...

    async def deactivate(self, name: str) -> bool:
        """Make one inactive."""
        ...


@runtime_checkable
class Keeps(Protocol):
    """A plug that says which messages no summary may take the place of."""

    def keeps(self, message: AgentMessage, /) -> bool:
        """Whether it must stay as it is."""
        ...


def skills_plugs(option: SkillsOption | None) -> list[Plug]:
    """The plug that an option stands for; none for none.

    Raises:
        ConfigError: If it is no such option.
    """
    if option is None:
        return []
    if isinstance(option, package.Skills):
        return [option]
    if isinstance(option, package.SkillsConfig):
        return [package.Skills(option)]
    if isinstance(option, str | os.PathLike):
        option = [option]
    given: list[Any] = list(option) if isinstance(cast("object", option), Iterable) else [option]
    folders = tuple([os.path.expanduser(each) for each in given if isinstance(each, str | os.PathLike)])
    inline = tuple([each for each in given if isinstance(each, package.Skill)])
    if len(folders) + len(inline) != len(given):
        raise ConfigError("skills=... takes Skills(...), SkillsConfig(...), or a list of folders and Skill(...)")
    return [package.Skills(package.SkillsConfig(user=folders, inline=inline)), _Folders(folders)]


class _Folders(Plug):
    """Looks whether the folders are there, when the first run gets ready: that takes a disk, which making an agent does not."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = folders

    def install(self, agent: CoreAgent) -> None:
        """Nothing to listen to."""

    def for_child(self) -> None:
        """Nothing: they were looked at."""

    async def prepare(self) -> None:
        """Raise ConfigError where one is missing: of a misspelt one nobody would notice that it has no skills."""
        for folder in self._folders:
            if not await asyncio.to_thread(os.path.isdir, folder):
                raise ConfigError(
                    f"skills: there is no folder {folder}; a SkillsConfig takes folders that may come later"
                )


def holder_of(plugs: Iterable[Plug]) -> HasSkills:
    """The plug that has the skills.

    Raises:
        AgentError: If there is none.
    """
    found = next((p for p in plugs if isinstance(p, HasSkills)), None)
    if found is None:
        raise AgentError("this agent has no skills; give it some: Agent(..., skills=...)")
    return found


def kept_by(
    plugs: Iterable[object], keep: Callable[[AgentMessage], bool] | None
) -> Callable[[AgentMessage], bool] | None:
    """What stays of a conversation that is summed up: what plugs keep, and what ``keep`` says."""
    asked: list[Callable[[AgentMessage], bool]] = [p.keeps for p in plugs if isinstance(p, Keeps)]
    if not asked:
        return keep
    if keep is not None:
        asked.append(keep)
    return lambda message: any(each(message) for each in asked)
