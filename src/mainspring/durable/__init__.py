"""Durable runs: they survive the end of their process and resume on this machine or another."""

from __future__ import annotations

from mainspring.durable.engine import Engine, RunInfo, RunLog, RunMessage, RunState, StepSlot, Worker
from mainspring.durable.feed import Feed, FeedEvent, FeedItem
from mainspring.durable.memory import MemoryEngine
from mainspring.durable.run_feed import RunFeed
from mainspring.durable.steps import DurableSteps
from mainspring.durable.worker import DurableClient, DurableRun, DurableWorker, Factory
from mainspring.lazy import TYPE_CHECKING, lazy_exports

if TYPE_CHECKING:
    from mainspring.durable.dbos.engine import DbosEngine as DbosEngine

__all__ = [
    "DbosEngine",
    "DurableClient",
    "DurableRun",
    "DurableSteps",
    "DurableWorker",
    "Engine",
    "Factory",
    "Feed",
    "FeedEvent",
    "FeedItem",
    "MemoryEngine",
    "RunFeed",
    "RunInfo",
    "RunLog",
    "RunMessage",
    "RunState",
    "StepSlot",
    "Worker",
]

lazy_exports(__name__, {"dbos.engine": "DbosEngine"})
