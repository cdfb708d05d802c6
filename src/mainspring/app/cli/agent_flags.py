"""The flags for settings of the agent. `python -m scripts.make_option_pages` writes this file from the options of a run.

A module without imports of policies, so that ``--help`` is fast.
"""

from __future__ import annotations

from mainspring.app.cli.parser import AgentFlag, positive_float, positive_int

AGENT_FLAGS = (
    AgentFlag(
        "--max-turns",
        "maxTurns",
        "N",
        "Maximum number of model calls (default: 50)",
        kind=positive_int,
    ),
    AgentFlag(
        "--max-total-tokens",
        "maxTotalTokens",
        "N",
        "Maximum number of tokens, input and output together",
        kind=positive_int,
    ),
    AgentFlag(
        "--max-seconds",
        "maxSeconds",
        "S",
        "Maximum duration in seconds",
        kind=positive_float,
    ),
    AgentFlag(
        "--max-cost",
        "maxCost",
        "USD",
        "Maximum cost in US dollars",
        kind=positive_float,
    ),
    AgentFlag(
        "--max-output-tokens",
        "maxTokens",
        "N",
        "Maximum number of tokens in one response (default: 16384)",
        kind=positive_int,
    ),
    AgentFlag(
        "--thinking",
        "thinking",
        "LEVEL",
        "Reasoning effort: off, minimal, low, medium, high, or xhigh",
        choices=("off", "minimal", "low", "medium", "high", "xhigh"),
    ),
    AgentFlag(
        "--read-before-edit",
        "requireReadBeforeEdit",
        "",
        "Write to an existing file only if the model has read it and it is unchanged since (default: on)",
        kind=bool,
    ),
)
