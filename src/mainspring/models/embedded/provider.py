"""`EmbeddedModel`: a small local model as an ordinary `ModelProvider`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from msgspec import structs

from mainspring.cancellation import CancelToken
from mainspring.errors import InvalidResponseError, ModelError, NetworkError, ProviderConfigError
from mainspring.events import Done, StreamEvent
from mainspring.messages import Cost, Usage
from mainspring.models.codec.sampling import format_omitted_options, sampling_options
from mainspring.models.config import ProviderConfig, to_provider_config
from mainspring.models.embedded import prompt as profile
from mainspring.models.embedded.download import download_weights, is_downloaded
from mainspring.models.embedded.events import TurnEventStream
from mainspring.models.embedded.prompt import rules_for_next_turn, without_calls
from mainspring.models.embedded.server import LlamaServer, borrow, give_back
from mainspring.models.embedded.sources import DownloadCallback
from mainspring.models.embedded.weights import DEFAULT, ModelWeights, download_command, find_weights, models_dir
from mainspring.models.http_model import HttpModel
from mainspring.models.port import ModelBase, ModelInfo, ModelRequest
from mainspring.models.profile import ChatCapabilities, ModelProfile
from mainspring.models.transport.port import Timeouts
from mainspring.models.wire.openai_chat import ChatCompletionsProtocol

_PROVIDER = "embedded"
_CONTEXT = 8192
_MAX_OUTPUT = 1024
_REPEAT_PENALTY = 1.1
"""What Qwen recommends for these models. Without it, a model of this size repeats a long list until its output limit."""
_LIMITS = Timeouts(connect=10.0, first_byte=None, idle=None)
_DIALECT = ChatCapabilities(max_tokens_field="max_tokens")
_NOTICE = "a small local model for trying Mainspring out. Expect mistakes."


class EmbeddedModel(ModelBase):
    """A model in a local child process that exits with this process.

    Nothing is started before the first request. Safe to share: requests of several conversations are queued.

    Args:
        weights: A known model, or any GGUF file.
        context: Maximum number of prompt and output tokens together.
        max_output: Maximum number of output tokens.
        directory: Folder of the weights; `models_dir` by default.
    """

    def __init__(
        self,
        weights: ModelWeights | Path,
        *,
        context: int = _CONTEXT,
        max_output: int = _MAX_OUTPUT,
        directory: Path | None = None,
    ) -> None:
        self.weights = weights if isinstance(weights, ModelWeights) else None
        self.file = (
            (directory or models_dir()) / weights.file if isinstance(weights, ModelWeights) else weights.absolute()
        )
        self._context = context
        self._info = _info(weights, context, max_output)
        self._server: LlamaServer | None = None
        self._inner: tuple[Any, HttpModel] | None = None

    @property
    def pid(self) -> int | None:
        """Process ID of the model's process, if it is running."""
        return self._server.pid if self._server else None

    async def is_ready(self) -> bool:
        """Return True if the weights are downloaded."""
        if self.weights is None:
            return await asyncio.to_thread(self.file.is_file)
        return await asyncio.to_thread(is_downloaded, self.weights, self.file.parent)

    async def download(
        self,
        progress: DownloadCallback | None = None,
        signal: CancelToken | None = None,
        *,
        offline: bool = False,
    ) -> None:
        """Download the weights if they are missing. Requests never download automatically.

        Raises:
            ProviderConfigError: The download failed or is not allowed.
        """
        if self.weights is not None:
            await download_weights(self.weights.name, self.file.parent, progress, signal, offline=offline)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Send a request and stream the response.

        Raises:
            ModelError: The response is incomplete or missing; ``partial`` is the content received before.
        """
        server = await self._ensure_server()
        model = await self._connect(server)
        emitter = TurnEventStream(_PROVIDER, self.model)
        events = (
            self._stream_with_tools(model, request, emitter) if request.tools else self._stream_text(model, request)
        )
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        except ModelError as error:
            if request.tools:
                error.partial = emitter.partial
            raise await self._explain_error(error, server) from error

    async def aclose(self) -> None:
        """Stop the model's process, unless another model object uses it."""
        server, self._server, self._inner = self._server, None, None
        if server is not None:
            await give_back(server)

    async def _ensure_server(self) -> LlamaServer:
        if not await self.is_ready():
            raise self._missing_weights_error()
        if self._server is None:
            self._server = borrow(self.file, self._context)
        return self._server

    def _missing_weights_error(self) -> ModelError:
        if self.weights is None:
            text = f"File not found: {self.file}"
        else:
            text = (
                f"The weights of {self.weights.label} ({self.weights.megabytes} MB) are not in {self.file.parent}. "
                f"Download them with:\n    {download_command(self.weights.name)}"
            )
        return ProviderConfigError(text, provider=_PROVIDER, model=self.model, reason="weights_missing")

    async def _connect(self, server: LlamaServer) -> HttpModel:
        endpoint = await server.endpoint()
        if self._inner is None or self._inner[0] != endpoint:
            target = ModelProfile(info=self._info, base_url=f"{endpoint.base_url}/v1", dialect=_DIALECT)
            self._inner = endpoint, HttpModel(target, ChatCompletionsProtocol(), lambda: endpoint.key, timeouts=_LIMITS)
        return self._inner[1]

    async def _stream_text(self, model: HttpModel, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream plain text, for a request without tools."""
        text_request = self._build_request(
            request, request.system, messages=profile.render_turns(request.messages, is_bare=True)
        )
        async with aclosing(model.stream(text_request)) as events:
            async for event in events:
                yield _with_zero_cost(event) if isinstance(event, Done) else event

    async def _stream_with_tools(
        self, model: HttpModel, request: ModelRequest, emitter: TurnEventStream
    ) -> AsyncGenerator[StreamEvent, None]:
        """Stream calls and answers, for a request with tools."""
        requested = request.tool_choice if request.tool_choice not in {"auto", "required", "none"} else ""
        tools = profile.select_tools(request.tools, requested)
        step = rules_for_next_turn(request.messages, tools, request.tool_choice, request.schema)
        messages = profile.render_turns(request.messages)
        system = profile.system_prompt(tools, request.system)
        yield emitter.start()
        while True:
            emitter.start_turn(step, {spec.name: profile.default_arguments(spec) for spec in tools})
            step_request = self._build_request(request, system, messages=messages, schema=step.schema)
            async with aclosing(model.stream(step_request)) as events:
                async for event in events:
                    for found in emitter.read(event):
                        yield found
                    if emitter.circling:
                        break
            if not emitter.is_repeated_call:
                break
            step = without_calls(step)
        for event in emitter.finish():
            yield event

    def _build_request(self, request: ModelRequest, system: str, **fields: Any) -> ModelRequest:
        limit = self._info.max_output_tokens or _MAX_OUTPUT
        if request.notify is not None and request.tools and "parallel_tool_calls" in sampling_options(request):
            request.notify(format_omitted_options(_PROVIDER, self.model, ["parallel_tool_calls"]))
        return structs.replace(
            request,
            system=system,
            max_output_tokens=min(request.max_output_tokens or limit, limit),
            tools=(),
            tool_choice="auto",
            temperature=request.temperature or 0.0,
            thinking=None,
            scratch=None,
            extra={"repeat_penalty": _REPEAT_PENALTY, **request.extra},
            **fields,
        )

    async def _explain_error(self, error: ModelError, server: LlamaServer) -> ModelError:
        """Return the error, or a better one if the model's process has exited."""
        if not isinstance(error, NetworkError | InvalidResponseError):
            return error
        failure = await asyncio.to_thread(server.failure)
        if not failure:
            return error
        return NetworkError(
            f"The embedded model stopped: {failure}. The next request starts it again.",
            reason="engine_crashed",
            retryable=True,
            provider=_PROVIDER,
            model=self.model,
            partial=error.partial,
        )


def create_embedded_model(config: ProviderConfig | dict[str, Any]) -> EmbeddedModel:
    """Create an embedded model from its configuration: ``model`` is the name of a known model or the path of a GGUF file.

    Raises:
        ModelNotFoundError: Unknown name.
    """
    settings = to_provider_config(config, _PROVIDER)
    name = settings.model or DEFAULT
    weights = Path(name).expanduser() if _is_path(name) else find_weights(name)
    return EmbeddedModel(
        weights,
        context=settings.context_window or _CONTEXT,
        max_output=settings.max_output_tokens or _MAX_OUTPUT,
    )


build: Callable[[ProviderConfig], EmbeddedModel] = create_embedded_model
"""Create an embedded model, for the provider registry."""


def _is_path(name: str) -> bool:
    return name.lower().endswith(".gguf") or "/" in name or "\\" in name


def _info(weights: ModelWeights | Path, context: int, max_output: int) -> ModelInfo:
    name = weights.label if isinstance(weights, ModelWeights) else weights.name
    return ModelInfo(
        id=weights.name if isinstance(weights, ModelWeights) else str(weights),
        provider=_PROVIDER,
        context_window=context,
        max_output_tokens=max_output,
        vision=False,
        tools="union",
        prices=(0.0, 0.0, 0.0, 0.0),
        label=f"{name} (embedded, no key)",
        notice=f"{name} is {_NOTICE}",
        max_tools=profile.MAX_TOOLS,
    )


def _with_zero_cost(event: Done) -> Done:
    usage = structs.replace(event.message.usage or Usage(), cost=Cost())
    return Done(event.reason, structs.replace(event.message, usage=usage))
