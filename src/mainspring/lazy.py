"""Lazy evaluation, so that imports are fast: exports of a package, functions, and regular expressions."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # importing `typing` would delay the program before it can handle a signal
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping
    from typing import Any, AnyStr


def lazy_exports(package: str, modules: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any]]:
    """Return ``__all__`` and ``__getattr__`` of a package that only re-exports.

    Args:
        package: Its ``__name__``.
        modules: The names that each of its modules exports, separated by spaces. Modules are named relative to the package.
    """
    home_of = {name: f"{package}.{module}" for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return sorted(home_of), get


def lazy_function(module: str, name: str) -> Any:
    """Create a function that imports its implementation at the first call: for features that most runs do not use.

    Args:
        module: The module.
        name: The function, or a class that is only called.
    """

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **options)

    return call


class LazyPattern:
    """A regular expression that is compiled at first use: compiling all of them was a fifth of the startup time."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        import re

        value = getattr(re.compile(self._text, self._flags), name)
        self.__dict__[name] = value
        return value


def lazy_re(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Create a `re.compile` that runs at first use. The result has the methods of a pattern; it does not work with ``isinstance`` or
    functions of `re`.
    """
    pattern: Any = LazyPattern(text, flags)
    return pattern
