"""The command's own agent, for runs that an engine keeps: settings and permissions as in the terminal, and nobody at it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from mainspring.app.compose.client_services import Front
from mainspring.app.compose.conversation import converse
from mainspring.app.providers.weights import prepare
from mainspring.app.run.events import Reporter
from mainspring.app.run.options import AskOptions
from mainspring.cancellation import CancelToken
from mainspring.durable import DurableSteps, Factory
from mainspring.loop import CoreAgent

NAME = "mainspring"
"""Under which name its runs are started."""


async def check_own_agent(options: AskOptions, report: Reporter, environ: Mapping[str, str] = os.environ) -> None:
    """Try whether it can be made, and get its model ready.

    Raises:
        ConfigError: If something is wrong with options or settings.
    """
    conversation = await converse(options, report, environ, Front(unattended="pause"))
    try:
        await prepare(conversation.choice.model, report, CancelToken(), offline=options.place.offline)
    finally:
        await conversation.aclose()


def own_agent(options: AskOptions, report: Reporter, environ: Mapping[str, str] = os.environ) -> Factory:
    """How to make the command's own agent. What would be asked at a terminal pauses its run.

    Args:
        options: Model, rules and limits; its prompt and session are left out.
        report: Is told what people should know.
        environ: The environment.
    """

    @asynccontextmanager
    async def made(steps: DurableSteps) -> AsyncGenerator[CoreAgent]:
        front = Front(unattended="pause", steps=steps)
        conversation = await converse(options, report, environ, front)
        try:
            yield conversation.agent
        finally:
            await conversation.aclose()

    def make(steps: DurableSteps) -> AbstractAsyncContextManager[CoreAgent]:
        return made(steps)

    return make
