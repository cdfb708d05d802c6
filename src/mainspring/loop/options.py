"""Options of the loop itself: limits, sampling, tool execution, and retries. Policies declare their own."""

from __future__ import annotations

from typing import Literal

from msgspec import Meta

from mainspring.models import RetryConfig, ThinkingLevel
from mainspring.options import AgentSetting, Options, option


class LoopOptions(Options):
    """Options of a run that the loop uses."""

    max_turns: int | None = option(
        default=None,
        ge=0,
        doc="Maximum number of model calls of a run; `None`: no limit.",
        setting=AgentSetting(
            limits=Meta(ge=1), default=50, untrusted="lower", flag="--max-turns", metavar="N",
            doc="Maximum number of model calls",
        ),
    )  # fmt: skip
    max_total_tokens: int | None = option(
        default=None,
        ge=0,
        doc="Maximum number of tokens, input and output of all calls together.",
        setting=AgentSetting(
            limits=Meta(ge=1), untrusted="lower", flag="--max-total-tokens", metavar="N",
            doc="Maximum number of tokens, input and output together",
        ),
    )  # fmt: skip
    max_seconds: float | None = option(
        default=None,
        ge=0,
        doc="Maximum duration in seconds.",
        setting=AgentSetting(
            limits=Meta(gt=0), untrusted="lower", flag="--max-seconds", metavar="S", doc="Maximum duration in seconds"
        ),
    )
    max_cost: float | None = option(
        default=None,
        ge=0,
        doc="Maximum cost in US dollars; calls without a known price cost nothing.",
        setting=AgentSetting(
            limits=Meta(gt=0), untrusted="lower", flag="--max-cost", metavar="USD", doc="Maximum cost in US dollars"
        ),
    )
    max_output_tokens: int | None = option(
        default=16384,
        ge=1,
        doc="Maximum number of tokens of one response, clamped to the model's.",
        setting=AgentSetting(
            key="maxTokens", untrusted="lower", flag="--max-output-tokens", metavar="N",
            doc="Maximum number of tokens in one response",
        ),
    )  # fmt: skip
    temperature: float | None = option(
        default=None,
        ge=0,
        le=2,
        doc="0 to 2; `None`: the provider's default.",
        setting=AgentSetting(untrusted="any", doc="Temperature from 0 to 2"),
    )
    thinking: ThinkingLevel | None = option(
        default=None,
        doc="Reasoning effort; `None`: the provider's default.",
        setting=AgentSetting(flag="--thinking", metavar="LEVEL", doc="Reasoning effort"),
    )
    thinking_budget: int | None = option(default=None, ge=0, doc="Exact number of reasoning tokens.")
    tool_execution: Literal["parallel", "sequential"] = option(
        default="parallel",
        doc="`parallel`: check the calls of a response in order, then run together those that allow it; `sequential`: run one "
        "after the other, with aborts and steering in between.",
    )
    tool_concurrency: int = option(default=16, ge=1, doc="Maximum number of calls that run together.")
    steering: Literal["one", "all"] = option(
        default="one", doc="Whether a run takes queued messages one at a time or all together."
    )
    abort_grace: float = option(
        default=2.0, ge=0, doc="Seconds that a tool has to end after an abort before it is abandoned."
    )
    max_repairs: int = option(
        default=3, ge=0, doc="Maximum number of invalid responses in a row (cut off, empty, invalid calls)."
    )
    retry: RetryConfig | None = option(default=RetryConfig(), doc="How failed model calls are retried; `None`: never.")
    timeout: float | None = option(
        default=None,
        ge=0,
        doc="Timeout of one model call in seconds; `None`: that of the transport.",
        setting=AgentSetting(limits=Meta(gt=0), untrusted="lower", doc="Timeout of one model call in seconds"),
    )
