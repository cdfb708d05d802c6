"""Agents of a Python module: ``module:attribute``.

The command's own agent, for runs that an engine keeps: settings and permissions as in the terminal, and nobody at it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any, cast

from mainspring.app.compose.client_services import ClientServices
from mainspring.app.compose.conversation import open_conversation
from mainspring.app.providers.availability import ensure_weights
from mainspring.app.run.events import RunEventHandler
from mainspring.app.run.options import LaunchOptions
from mainspring.cancellation import CancelToken
from mainspring.durable import DurableSteps, Factory
from mainspring.errors import ConfigError
from mainspring.loop import CoreAgent


def load_agents(place: str, folder: str = "") -> dict[str, Factory]:
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


BUILTIN_AGENT = "mainspring"
"""Under which name its runs are started."""


async def check_builtin_agent(
    options: LaunchOptions, report: RunEventHandler, environ: Mapping[str, str] = os.environ
) -> None:
    """Try whether it can be made, and get its model ready.

    Raises:
        ConfigError: If something is wrong with options or settings.
    """
    conversation = await open_conversation(options, report, environ, ClientServices(unattended="pause"))
    try:
        await ensure_weights(conversation.choice.model, report, CancelToken(), offline=options.place.offline)
    finally:
        await conversation.aclose()


def builtin_agent_factory(
    options: LaunchOptions, report: RunEventHandler, environ: Mapping[str, str] = os.environ
) -> Factory:
    """How to make the command's own agent. What would be asked at a terminal pauses its run.

    Args:
        options: Model, rules and limits; its prompt and session are left out.
        report: Is told what people should know.
        environ: The environment.
    """

    @asynccontextmanager
    async def create(steps: DurableSteps) -> AsyncGenerator[CoreAgent]:
        front = ClientServices(unattended="pause", steps=steps)
        conversation = await open_conversation(options, report, environ, front)
        try:
            yield conversation.agent
        finally:
            await conversation.aclose()

    def make(steps: DurableSteps) -> AbstractAsyncContextManager[CoreAgent]:
        return create(steps)

    return make
