"""What the options of a server say about its conversations."""

from __future__ import annotations

import argparse

from mainspring.app.cli.frame import place_of, rules_of
from mainspring.runtime.options import AskOptions, Confinement


def asked(options: argparse.Namespace, *, cwd: str | None = None, session: str | None = None) -> AskOptions:
    """What the command line says about a conversation.

    Args:
        options: The command line.
        cwd: The folder in place of its own.
        session: The session to go on with in place of its own.
    """
    place = place_of(options)
    return AskOptions(
        prompt="",
        place=type(place)(cwd=cwd or place.cwd, offline=place.offline),
        model=options.model,
        provider=options.provider,
        thinking=options.thinking,
        session=session or options.session,
        session_id=None if session else options.session_id,
        save=not options.no_session,
        max_turns=options.max_turns,
        max_seconds=options.max_seconds,
        max_cost=options.max_cost,
        max_total_tokens=options.max_tokens,
        max_output_tokens=options.max_output_tokens,
        rules=rules_of(options),
        on_deny=options.on_deny,
        sandbox=Confinement(layer=options.sandbox, network=options.sandbox_network),
        plan=options.plan,
    )
