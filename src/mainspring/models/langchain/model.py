"""`LangChainModel`: a LangChain chat model as a `ModelProvider`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, cast

from msgspec.structs import replace

from mainspring.errors import ModelError, ModelTimeoutError
from mainspring.events import StreamEvent
from mainspring.lazy import lazy_function
from mainspring.models.catalog import find_model_info
from mainspring.models.codec.normalize import portable_schema
from mainspring.models.codec.sampling import format_omitted_options, sampling_options
from mainspring.models.errors import classify_exception
from mainspring.models.json_values import as_dict
from mainspring.models.langchain import detect
from mainspring.models.langchain.messages import LangChainDecoder, to_langchain
from mainspring.models.port import ModelBase, ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile

_add_advice: Callable[..., ModelError] = lazy_function("mainspring.models.rejection", "add_advice")

_NAME = "langchain"
_VENDORS = {"google_genai": "gemini", "google_vertexai": "gemini", "mistralai": "mistral"}
"""Catalog names of vendors, by the package name of their integration."""


class LangChainModel(ModelBase):
    """A `ModelProvider` for any LangChain chat model.

    The settings of the chat model stay unchanged: output limit, thinking, retries, caching. From a request, it receives the
    messages, the tools, the tool choice, the stop sequences, and the temperature and other sampling options, if set, that it has a
    field for.

    Args:
        chat_model: A ``BaseChatModel``, or one with bound options.
        info: Facts about the model; by default those of LangChain and the catalog.
    """

    def __init__(self, chat_model: Any, *, info: ModelInfo | None = None) -> None:
        self.chat_model = chat_model
        self._bare = detect.unwrap_chat_model(chat_model) or chat_model
        self._info = info or _info(self._bare)
        self._profile = ModelProfile(self._info, type(self._bare).__name__)

    def __repr__(self) -> str:
        return f"<LangChainModel {type(self._bare).__name__} {self.model}>"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Send a request and stream the response.

        Raises:
            ModelError: The response is incomplete or missing; ``partial`` is the content received before.
        """
        decoder = LangChainDecoder(self._profile)
        out: list[StreamEvent] = []
        failure: ModelError | None = None
        timeout = request.timeout
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        try:
            async with aclosing(self._invoke(request)) as chunks:
                while True:
                    async with asyncio.timeout_at(deadline):
                        chunk = await anext(chunks, None)
                    if chunk is None:
                        break
                    decoder.feed(chunk, out)
                    for event in out:
                        yield event
                    out.clear()
            decoder.finish(out)
        except Exception as error:  # Classified, and raised after the events before it.
            failure = self._to_model_error(error, decoder, request)
        for event in out:
            yield event
        if failure is not None:
            raise failure

    async def aclose(self) -> None:
        """Do nothing: the caller owns the chat model."""

    def _invoke(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        messages = to_langchain(list(request.messages), self._profile, request.system)
        options: dict[str, Any] = dict(request.extra)
        if request.stop:
            options["stop"] = list(request.stop)
        requested = {**sampling_options(request), "temperature": request.temperature}
        requested.pop("parallel_tool_calls", None)
        options |= {name: value for name, value in requested.items() if value is not None and hasattr(self._bare, name)}
        if request.notify is not None:
            names = [name for name, value in requested.items() if value is not None and name not in options]
            if "parallel_tool_calls" in sampling_options(request) and not self._can_limit_calls():
                names.append("parallel_tool_calls")
            if names:
                request.notify(format_omitted_options(self.provider, self.model, names))
        return cast("AsyncGenerator[Any, None]", self._bind_tools(request).astream(messages, **options))

    def _can_limit_calls(self) -> bool:
        return "parallel_tool_calls" in inspect.signature(self.chat_model.bind_tools).parameters

    def _bind_tools(self, request: ModelRequest) -> Any:
        choice = request.tool_choice
        if not request.tools or choice == "none":
            return self.chat_model
        tools = [
            {
                "type": "function",
                "function": {"name": t.name, "description": t.description, "parameters": portable_schema(t)},
            }
            for t in request.tools
        ]
        chosen: dict[str, Any] = {}
        if choice != "auto":
            chosen["tool_choice"] = "any" if choice == "required" else choice
        if (
            self._can_limit_calls()
            and request.sampling is not None
            and request.sampling.parallel_tool_calls is not None
        ):
            chosen["parallel_tool_calls"] = request.sampling.parallel_tool_calls
        return self.chat_model.bind_tools(tools, **chosen)

    def _to_model_error(self, error: Exception, decoder: LangChainDecoder, request: ModelRequest) -> ModelError:
        if isinstance(error, TimeoutError) and request.timeout is not None:
            failure = ModelTimeoutError(f"{self.model} did not respond within {request.timeout:g}s.", reason="total")
        elif isinstance(error, NotImplementedError) and request.tools:
            failure = ModelError(
                f"{type(self._bare).__name__} does not support tool calls: it has no bind_tools method.",
                reason="no_tools",
            )
        else:
            failure = classify_exception(error, provider=self.provider, model=self.model)
        failure.provider = failure.provider or self.provider
        failure.model = failure.model or self.model
        if failure.partial is None and len(decoder.draft):
            failure.partial = decoder.draft.message()
        secrets = as_dict(getattr(self._bare, "lc_secrets", None)) or {}
        return failure if failure is error else _add_advice(failure, "", variables=list(map(str, secrets.values())))


def _info(chat_model: Any) -> ModelInfo:
    """Return the facts of LangChain about a chat model, and those of the catalog about its model."""
    vendor = type(chat_model).__module__.partition(".")[0].removeprefix("langchain_")
    name = getattr(chat_model, "model_name", None) or getattr(chat_model, "model", None)
    name = name.removeprefix("models/") if isinstance(name, str) and name else type(chat_model).__name__
    info = replace(find_model_info(_VENDORS.get(vendor, vendor), name), id=name, provider=_NAME)
    facts = as_dict(getattr(chat_model, "profile", None)) or {}
    known = {
        "context_window": facts.get("max_input_tokens"),
        "max_output_tokens": facts.get("max_output_tokens"),
        "vision": facts.get("image_inputs"),
        "reasoning": facts.get("reasoning_output"),
    }
    return replace(info, **{name: value for name, value in known.items() if value is not None})
