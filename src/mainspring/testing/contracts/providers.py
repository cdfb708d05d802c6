"""Tests of model providers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import cast

from mainspring.events import Done, StreamEvent, StreamStart, TextDelta
from mainspring.messages import Message
from mainspring.models import ModelProvider, ModelRequest
from mainspring.testing.contracts.runner import in_event_loop

_with_model = in_event_loop("create_model", "close_model")


class ModelProviderContract:
    """Tests of a `ModelProvider`. Override `create_model`."""

    def create_model(self, folder: Path) -> ModelProvider:
        """Return a model whose host answers every prompt with the same text, of one word or more."""
        raise NotImplementedError("Override create_model.")

    async def close_model(self, model: ModelProvider) -> None:
        """Close a model that `create_model` returned."""
        await model.aclose()

    @_with_model
    async def test_stream_has_a_start_and_an_end(self, model: ModelProvider) -> None:
        """The first event is a start, the last one is the end, and its message has the text of all deltas."""
        events = [event async for event in model.stream(_request())]
        assert isinstance(events[0], StreamStart)
        assert sum(isinstance(event, StreamStart) for event in events) == 1
        done = events[-1]
        assert isinstance(done, Done)
        assert done.message.text == "".join([event.text for event in events if isinstance(event, TextDelta)]) != ""
        assert done.message.role == "assistant"
        assert done.message.stop_reason == "end_turn"

    @_with_model
    async def test_complete_returns_the_streamed_message(self, model: ModelProvider) -> None:
        """A complete response has the text of a streamed one."""
        streamed = [event async for event in model.stream(_request())][-1]
        assert isinstance(streamed, Done)
        assert (await model.complete(_request())).text == streamed.message.text

    @_with_model
    async def test_stream_can_be_closed_early(self, model: ModelProvider) -> None:
        """A stream that is closed after its first event releases its connection, and the model can be used again."""
        async with aclosing(cast("AsyncGenerator[StreamEvent, None]", model.stream(_request()))) as stream:
            async for _ in stream:
                break
        assert (await model.complete(_request())).text

    @_with_model
    async def test_model_can_be_used_after_it_was_closed(self, model: ModelProvider) -> None:
        """`aclose` releases connections only."""
        await model.complete(_request())
        await model.aclose()
        assert (await model.complete(_request())).text

    @_with_model
    async def test_requests_are_not_changed(self, model: ModelProvider) -> None:
        """A model changes neither the request nor its messages."""
        messages = [Message.user("Hello"), Message.assistant("Hi"), Message.user("Again")]
        request = ModelRequest(messages, system="Be brief.")
        await model.complete(request)
        assert request.messages is messages
        assert [message.text for message in messages] == ["Hello", "Hi", "Again"]

    @_with_model
    async def test_names_are_those_of_the_facts(self, model: ModelProvider) -> None:
        """The names of the provider and the model are set, and equal to those of `info`."""
        assert model.provider
        assert (model.info.provider, model.info.id) == (model.provider, model.model)


def _request() -> ModelRequest:
    return ModelRequest([Message.user("Hello")])
