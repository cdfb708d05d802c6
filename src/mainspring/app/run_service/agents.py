"""Agents of the service: those of a Python module (``module:attribute``), and the built-in agent.

The built-in agent uses the settings and permissions of the terminal, but runs without a user.
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
from mainspring.app.providers.weights import ensure_weights
from mainspring.app.run.events import RunEventHandler
from mainspring.app.run.options import LaunchOptions
from mainspring.cancellation import CancelToken
from mainspring.durable import DurableSteps, Factory
from mainspring.errors import ConfigError
from mainspring.loop import CoreAgent


def load_agents(place: str, folder: str = "") -> dict[str, Factory]:
    """Load the agents of a module: a mapping of names to functions that create an agent with given steps, or one such function.

    Args:
        place: ``module:attribute``.
        folder: Additional folder to search for modules.

    Raises:
        ConfigError: If the module or the attribute does not exist or has the wrong type.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise ConfigError(f"Invalid value for --agents: {place}. Use MODULE:ATTRIBUTE, for example, my_agents:agents.")
    try:
        if folder:
            _import_from_folder(module, folder)
        found = getattr(import_module(module), name)
    except ImportError as error:
        raise ConfigError(f"--agents {place}: {error}") from error
    except AttributeError:
        raise ConfigError(f"--agents {place}: module {module} has no attribute {name}.") from None
    given: Any = {name: found} if callable(found) else found
    if not isinstance(given, Mapping) or not given:
        raise ConfigError(
            f"--agents {place}: the attribute must be a function that creates an agent, or a mapping of names to such functions."
        )
    agents = cast("Mapping[object, object]", given)
    for key, value in agents.items():
        if not isinstance(key, str) or not callable(value):
            raise ConfigError(
                f"--agents {place}: {key!r:.60} must be a valid name of a function that creates an agent."
            )
    return {str(key): cast("Callable[..., Any]", value) for key, value in agents.items()}


def _import_from_folder(module: str, folder: str) -> None:
    """Import the top package of a module from a folder, and let the module import others of the folder.

    The folder is searched last, so that its other modules do not replace those of the standard library or of installed packages.
    """
    if folder not in sys.path:
        sys.path.append(folder)
    top = module.partition(".")[0]
    spec = PathFinder.find_spec(top, [folder])
    if top in sys.modules or spec is None or spec.loader is None:
        return
    sys.modules[top] = package = module_from_spec(spec)
    try:
        spec.loader.exec_module(package)
    except BaseException:
        del sys.modules[top]
        raise


BUILTIN_AGENT = "mainspring"
"""Name of the built-in agent."""


async def check_builtin_agent(
    options: LaunchOptions, report: RunEventHandler, environ: Mapping[str, str] = os.environ
) -> None:
    """Check that the built-in agent can be created, and download its model.

    Raises:
        ConfigError: If options or settings are invalid.
    """
    conversation = await open_conversation(options, report, environ, ClientServices(unattended="pause"))
    try:
        await ensure_weights(conversation.choice.model, report, CancelToken(), offline=options.place.offline)
    finally:
        await conversation.aclose()


def builtin_agent_factory(
    options: LaunchOptions, report: RunEventHandler, environ: Mapping[str, str] = os.environ
) -> Factory:
    """Return the function that creates the built-in agent. A call that needs approval pauses the run.

    Args:
        options: Model, rules, and limits; the prompt and the session are ignored.
        report: Callback for notices to the user.
        environ: Environment variables.
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
