"""Every event survives the wire, except for what only listeners in the process get."""

import json
from datetime import UTC, datetime
from typing import Any, get_args

import jsonschema_rs
import pytest

from mainspring.errors import AgentProviderError, RateLimitedError
from mainspring.events import (
    AgentEnd,
    Envelope,
    ErrorInfo,
    Event,
    RunEvent,
    SubagentEvent,
    TextDelta,
    UnknownEventError,
    decode,
    encode,
    schema,
)
from mainspring.messages import ToolUseBlock
from mainspring.models.message_builder import MessageBuilder

pytestmark = pytest.mark.anyio
