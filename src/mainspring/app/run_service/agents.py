"""Agents of a Python module: ``module:attribute``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any, cast

from mainspring.durable import Factory
from mainspring.errors import ConfigError


def named_agents(place: str, folder: str = "") -> dict[str, Factory]:
    """The agents that a module has: a mapping of names to functions that make an agent with given steps, or one such function.

    Args:
        place: ``module:attribute``.
        folder: Looked in for modules too.

    Raises:
        ConfigError: If there is no such thing.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise ConfigError(f"--agents {place}: give MODULE:ATTRIBUTE, as in my_agents:agents")
    try:
        if folder:
            _find_in_folder(module, folder)
        found = getattr(import_module(module), name)
    except ImportError as error:
        raise ConfigError(f"--agents {place}: {error}") from error
    except AttributeError:
        raise ConfigError(f"--agents {place}: the module {module} has no {name}") from None
    given: Any = {name: found} if callable(found) else found
    if not isinstance(given, Mapping) or not given:
        raise ConfigError(
            f"--agents {place}: it is no mapping of names to functions that make an agent, and no function"
        )
    agents = cast("Mapping[object, object]", given)
    for key, value in agents.items():
        if not isinstance(key, str) or not callable(value):
            raise ConfigError(f"--agents {place}: {key!r:.60} is no name, or what stands there is no function")
    return {str(key): cast("Callable[..., Any]", value) for key, value in agents.items()}


def _find_in_folder(module: str, folder: str) -> None:
    """Import the top package of a module from a folder, and let the module import others of the folder.

    The folder is searched last, so that its other modules do not replace those of the standard library or of installed packages.
    """
    if folder not in sys.path:
        sys.path.append(folder)
    top = module.partition(".")[0]
    spec = PathFinder.find_spec(top, [folder])
    if top in sys.modules or spec is None or spec.loader is None:
        return
    sys.modules[top] = made = module_from_spec(spec)
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[top]
        raise
