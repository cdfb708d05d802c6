"""A response of a local server that is too long takes bounded memory."""

import gc
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from mainspring import Agent
from mainspring.errors import AgentProviderError
from mainspring.loop.partial_response import MAX_PARTIAL_CHARS
from mainspring.messages import ThinkingBlock
from mainspring.models import create_model
from tests.contract.wire_scenarios import chat
from tests.unit.models.server import head, serve

MB = 1 << 20


@dataclass
class Stream:
    """A response of 100 MB of reasoning in chunks, which counts how many were read."""

    read: int = 0

    def __iter__(self) -> Iterator[bytes]:
        event = chat({"reasoning_content": "x" * 65_536})
        yield head(content_type="text/event-stream", connection="close")
        for self.read in range(1, 1601):
            yield event


async def test_hundred_megabytes_of_reasoning_of_a_local_server_are_bounded() -> None:
    stream = Stream()
    async with serve(lambda _: cast("Any", stream)) as server:
        agent = Agent(create_model("openai:local", base_url=server.url, api_key="k", api="chat"))
        tracemalloc.start()
        try:
            with pytest.raises(AgentProviderError, match="longer than 32 MB"):
                await agent.run("hi")
            gc.collect()
            used, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert stream.read < 700  # the rest is not read
    assert peak < 100 * MB
    assert used < 10 * MB
    thinking = agent.messages[-1].content[0]
    assert isinstance(thinking, ThinkingBlock)
    assert MAX_PARTIAL_CHARS <= len(thinking.thinking) < MAX_PARTIAL_CHARS + 100
