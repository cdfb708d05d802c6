"""What is done on first use, so that importing costs nothing: the names of a package, and regular expressions."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = (
    False  # the command is not to wait for `typing` before it hears a signal, nor a program that only needs a name
)
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping
    from typing import Any, AnyStr


def lazy_exports(package: str, modules: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any]]:
    """``__all__`` and ``__getattr__`` of a package that only re-exports.

    Args:
        package: Its ``__name__``.
        modules: The names that each of its modules exports, separated by blanks. A module is named from the package on.
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
    """A function of a module that is imported when the function is called first: for features that most runs do not use.

    Args:
        module: The module.
        name: The function, or a class that is only called.
    """

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **options)

    return call


class LazyPattern:
    """A regular expression that is compiled when it is used first: compiling all of them was a fifth of the start."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        import re

        value = getattr(re.compile(self._text, self._flags), name)
        self.__dict__[name] = value
        return value


def lazy_re(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, on first use. What it gives has the methods of a pattern; it is none for ``isinstance`` or functions of `re`."""
    pattern: Any = LazyPattern(text, flags)
    return pattern
