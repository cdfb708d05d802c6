"""A view of an environment for one of many conversations."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from mainspring.env.jobs import JobManager
from mainspring.env.protocol import ExecutionEnv
from mainspring.env.types import PathFilter


def scope_environment(env: ExecutionEnv) -> ExecutionEnv:
    """Return the same environment with its own background commands, search filter, and scratch space.

    The view has the class and all other state of the environment, so tools and policies see no difference.
    """
    if not hasattr(env, "__dict__"):
        return env
    scoped: Any = object.__new__(_scoped_class(type(env)))
    scoped.__dict__ = env.__dict__
    scoped.scoped_values = {"path_filter": env.path_filter, "scratch": {}, "jobs": env.jobs.create_sibling()}
    return cast("ExecutionEnv", scoped)


@cache
def _scoped_class(kind: type[Any]) -> type[Any]:
    """Return a subclass whose properties hide those three entries of the shared ``__dict__``."""

    class ScopedEnv(kind):
        __slots__ = ("scoped_values",)
        scoped_values: dict[str, Any]

        @property
        def path_filter(self) -> PathFilter | None:
            return self.scoped_values["path_filter"]

        @path_filter.setter
        def path_filter(self, value: PathFilter | None) -> None:
            self.scoped_values["path_filter"] = value

        @property
        def scratch(self) -> dict[str, Any]:
            return self.scoped_values["scratch"]

        @property
        def jobs(self) -> JobManager:
            return self.scoped_values["jobs"]

    ScopedEnv.__name__, ScopedEnv.__qualname__ = kind.__name__, kind.__qualname__
    return ScopedEnv
