"""The type variables of generic classes.

Type checkers know their defaults: ``RunContext`` is a ``RunContext[Any]``, ``Agent[Db]`` is an ``Agent[Db, str]``. Python itself
knows such defaults from 3.13 on, so at run time a variable has none, and `DefaultOutput` provides the one default of several.
"""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:

    def _create_without_default(name: str, *, default: Any, **options: bool) -> typing.TypeVar:
        return typing.TypeVar(name, **options)

    TypeVar = _create_without_default

DepsT = TypeVar("DepsT", covariant=True, default=Any)
"""Dependencies that a context provides."""

OutputT = TypeVar("OutputT", covariant=True, default=Any)
"""Output of a run."""

ValueT = TypeVar("ValueT", covariant=True, default=Any)
"""Data of a result."""

AgentDepsT = TypeVar("AgentDepsT", contravariant=True, default=None)
"""Dependencies that the runs of an agent need."""

AgentOutputT = TypeVar("AgentOutputT", covariant=True, default=str)
"""Output of the runs of an agent."""

ExactDepsT = TypeVar("ExactDepsT", default=None)
"""Dependencies of an agent where they are both needed and provided."""

ExactOutputT = TypeVar("ExactOutputT", default=str)
"""Output of the runs of an agent where it is both returned and taken."""


class DefaultOutput:
    """Base of classes that are generic in dependencies and output: ``Class[Deps]`` is ``Class[Deps, str]`` in every Python."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __class_getitem__(cls, types: Any) -> Any:
            """Return the class for types of which the second is optional."""
            return super().__class_getitem__(types if isinstance(types, tuple) else (types, str))
