"""Runs that outlive their process: killed at any point and taken up again, on this machine or another."""

from __future__ import annotations

from mainspring.durable.engine import Engine, Letter, Place, RunInfo, RunLog, RunState, Worker
from mainspring.durable.feed import Feed, FeedEvent, FeedItem, WaitingCall
from mainspring.durable.memory import MemoryEngine
from mainspring.durable.steps import DurableSteps
from mainspring.durable.worker import DurableAgents, DurableRun, DurableRuns, Factory

__all__ = [
    "DurableAgents",
    "DurableRun",
    "DurableRuns",
    "DurableSteps",
    "Engine",
    "Factory",
    "Feed",
    "FeedEvent",
    "FeedItem",
    "Letter",
    "MemoryEngine",
    "Place",
    "RunInfo",
    "RunLog",
    "RunState",
    "WaitingCall",
    "Worker",
]
