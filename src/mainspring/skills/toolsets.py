"""Toolsets: classes of a skill whose methods are tools while it is active. Their code runs in this process, with all its rights."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import logging
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import MainspringError
from mainspring.skills.skill import Confirm, Skill, SkillsConfig
from mainspring.tools import Tool, tool

if TYPE_CHECKING:
    from mainspring.env import ExecutionEnv
    from mainspring.loop import CoreAgent

logger = logging.getLogger("mainspring.skills")


class ToolsetError(MainspringError):
    """A toolset that cannot be used. The message has the reason."""


class SkillHost(Protocol):
    """The skills of an agent, as toolsets see them.

    Attributes:
        config: Which skills the agent can use.
        confirm: Asks the user whether to save a skill that the model wrote; ``None``: the model cannot write skills.
    """

    config: SkillsConfig
    confirm: Confirm | None

    @property
    def agent(self) -> CoreAgent:
        """The agent that has the skills."""
        ...


class ToolsetContext(Struct, frozen=True):
    """What a toolset gets from its agent.

    Attributes:
        env: Files and processes, like all tools of the agent.
        extra: The value of ``Agent(extra=...)``: clients and settings of the application, or their test doubles.
        agent: Name of the agent.
        skill: The skill of the toolset.
        skills: The skills of the agent, for toolsets about skills.
    """

    env: ExecutionEnv
    extra: Mapping[str, Any]
    agent: str
    skill: Skill
    skills: SkillHost | None = None


ToolsetFactory = Callable[..., Any]
"""A class or function that creates an object with tools. Called with a `ToolsetContext` if it takes an argument."""


def load_toolset(skill: Skill, spec: str) -> ToolsetFactory:
    """Import a toolset. Blocks, and runs its code.

    Args:
        skill: The skill. Toolsets of an untrusted one are not loaded.
        spec: ``tools.py:Class``, a file of the skill, or ``module:Class``.

    Raises:
        ToolsetError: If it may not or cannot be loaded.
    """
    if not skill.trusted:
        raise ToolsetError(f"{skill.name}: toolsets of an untrusted skill are not loaded")
    place, _, name = spec.partition(":")
    if not place or not name.isidentifier():
        raise ToolsetError(f"{skill.name}: invalid toolset {spec!r}; use tools.py:Class")
    try:
        made = getattr(_import_file(skill, place), name) if place.endswith(".py") else pkgutil.resolve_name(spec)
    except ToolsetError:
        raise
    except (Exception, SystemExit) as error:  # The code may raise anything.
        raise ToolsetError(
            f"{skill.name}: the toolset {spec} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not callable(made):
        raise ToolsetError(f"{skill.name}: {spec} is not a class")
    return made


def _import_file(skill: Skill, place: str) -> Any:
    """Import a file of the skill under a unique module name."""
    if skill.directory is None:
        raise ToolsetError(f"{skill.name}: it has no folder with {place}")
    root = Path(os.path.realpath(skill.directory))
    path = Path(os.path.realpath(root / place))
    if not path.is_relative_to(root) or os.path.isabs(place):
        raise ToolsetError(f"{skill.name}: the toolset {place} is outside the skill's folder")
    name = f"_mainspring_skill_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ToolsetError(f"{skill.name}: {place} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and similar libraries look up their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def create_tools(made: ToolsetFactory, dependencies: ToolsetContext) -> tuple[Any, list[Tool]]:
    """Create a toolset and its tools.

    The tools are the result of its method ``tools``. Without that method, each public method is a tool, described by its docstring.

    Raises:
        ToolsetError: If it cannot be created or has no tools.
    """
    skill = dependencies.skill.name
    try:
        toolset = made(dependencies) if _takes_context(made) else made()
        given: Iterable[Any] = (
            toolset.tools() if callable(getattr(toolset, "tools", None)) else _public_methods(toolset)
        )
        tools = [each if isinstance(each, Tool) else tool(each) for each in given]
    except Exception as error:  # the toolset's own code
        raise ToolsetError(f"{skill}: cannot create a toolset: {type(error).__name__}: {error}") from error
    if not tools:
        raise ToolsetError(f"{skill}: a toolset has no tools: add public methods, or a method tools()")
    return toolset, [replace(each, source=f"skill:{skill}") for each in tools]


async def close_toolset(toolset: Any) -> None:
    """Close a toolset with its method ``aclose``, if it has one, sync or async. Exceptions are logged."""
    close = getattr(toolset, "aclose", None)
    if close is None:
        return
    try:
        answer = close()
        if inspect.isawaitable(answer):
            await answer
    except Exception:  # the toolset's own code
        logger.exception("cannot close a toolset")


def _public_methods(toolset: Any) -> list[Any]:
    own: dict[str, Any] = dict(toolset.__class__.__dict__)
    names = [n for n in own if not n.startswith("_") and n != "aclose"]
    return [m for n in names if callable(m := getattr(toolset, n)) or isinstance(m, Tool)]


def _takes_context(made: ToolsetFactory) -> bool:
    try:
        parameters = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)
