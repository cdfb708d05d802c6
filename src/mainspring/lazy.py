"""Lazy evaluation, so that imports are fast: exports of a package, functions, and regular expressions."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # importing `typing` would delay the program before it can handle a signal
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping
    from typing import Any, AnyStr

    import msgspec


_FUNCTIONS_OF_OTHERS = (
    "capture_run_messages", "create_react_agent", "function_tool", "handoff", "init_chat_model", "input_guardrail", "interrupt",
    "output_guardrail", "set_default_openai_key", "set_tracing_disabled", "trace",
)  # fmt: skip


def lazy_exports(package: str, modules: Mapping[str, str]) -> None:
    """Import names of a package from its modules when they are first used, and set its ``__all__`` and ``__dir__``, if it has none.

    The package declares the names for type checkers by imports under ``TYPE_CHECKING``. Type checkers must not see its
    ``__getattr__``: a misspelled name would then be of the type ``Any``.

    A name that other libraries export is an `ImportError` that names the counterpart here.

    Args:
        package: Its ``__name__``.
        modules: The names that each of its modules exports, separated by spaces. Modules are named relative to the package, or
            with their full name.
    """
    root = package.partition(".")[0] + "."
    home_of = {
        name: module if module.startswith(root) else f"{package}.{module}"
        for module, names in modules.items()
        for name in names.split()
    }
    namespace = vars(sys.modules[package])

    def get(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            # Python finds every module of the package in this way: they are lowercase.
            if name[0].isupper() or name in _FUNCTIONS_OF_OTHERS:
                advice = import_module("mainspring.other_names").find_export_advice(name)
                if advice:
                    # Python replaces the text of an AttributeError of `from package import name`.
                    raise ImportError(f"{package} has no {name}. {advice}", name=package)
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(home), name)
        return value

    namespace["__getattr__"] = get
    names = namespace.setdefault("__all__", sorted(home_of))
    namespace.setdefault("__dir__", lambda: names)


def lazy_function(module: str, name: str) -> Any:
    """Create a function that imports its implementation at the first call: for features that most runs do not use.

    Args:
        module: The module.
        name: The function, or a class that is only called.
    """

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **options)

    return call


class _LazyClass:
    """See `lazy_class`."""

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return getattr(import_module(self._module), self._name)(*arguments, **options)

    def __instancecheck__(self, instance: object) -> bool:
        loaded = sys.modules.get(self._module)  # if it is not loaded, no instance exists
        return loaded is not None and isinstance(instance, getattr(loaded, self._name))


def lazy_class(module: str, name: str) -> Any:
    """Create a class that is imported when it is first called. ``isinstance`` works and imports nothing.

    Args:
        module: The module.
        name: The class.
    """
    return _LazyClass(module, name)


class LazyObject:
    """An object that is created when one of its attributes is used first."""

    def __init__(self, create: Callable[[], Any]) -> None:
        self._create = create

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._create(), name)
        self.__dict__[name] = value
        return value


def lazy_re(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Create a `re.compile` that runs at first use: compiling all of them was a fifth of the startup time.

    The result has the methods of a pattern; it does not work with ``isinstance`` or functions of `re`.
    """

    def compile_pattern() -> re.Pattern[AnyStr]:
        import re

        return re.compile(text, flags)

    pattern: Any = LazyObject(compile_pattern)
    return pattern


def lazy_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Create a `msgspec.json.Decoder` at first use: for a union of many types it takes a millisecond."""

    def create_decoder() -> msgspec.json.Decoder[Any]:
        import msgspec

        return msgspec.json.Decoder(kind)

    decoder: Any = LazyObject(create_decoder)
    return decoder
