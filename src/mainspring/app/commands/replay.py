"""``mainspring replay``."""

from __future__ import annotations

import argparse
import json

from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.runner import framed
from mainspring.app.commands.replay_actions import Tally, replay_traffic


def run(options: argparse.Namespace) -> int:
    """Decode recordings; the exit code."""

    def work(console: Console) -> int:
        tally = Tally()
        for result in replay_traffic(options.paths):
            tally.add(result)
            if options.json:
                console.data(json.dumps(result))
                continue
            error = result["error"]
            calls = ", ".join(f"{call['name']}({json.dumps(call['arguments'])})" for call in result["tool_calls"])
            told = f"error {error['code']}: {error['message']}" if error else f"{result['text']} {calls}".strip()
            console.row(f"{result['file']}: {one_line(told)}")
        console.say(str(tally))
        return 0

    return framed(options, work)
