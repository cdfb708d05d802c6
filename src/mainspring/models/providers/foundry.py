"""Microsoft Foundry: models on this machine through Foundry Local (the default), or deployments of a project in the cloud."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from importlib import import_module
from typing import Any, cast

from msgspec.structs import replace

from mainspring.errors import ModelNotFoundError, ProviderConfigError
from mainspring.events import StreamEvent
from mainspring.extras import how_to_install
from mainspring.models.auth import ApiKey, CredentialResolver, FunctionKey, KeyFunction
from mainspring.models.auth.credentials import require_key, setting
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.port import FREE, ModelInfo, ModelProvider, ModelRequest, ModelResponse, collect
from mainspring.models.profile import Dialect, ResponsesDialect
from mainspring.models.providers.azure import KEY_HEADER, key_home, shaped
from mainspring.models.providers.http import (
    chosen_api,
    given_key,
    http_profile,
    only_responses,
    own_setting,
    responses_model,
    timeouts,
)
from mainspring.models.providers.local_servers import KEY, LIMITS
from mainspring.models.transport.port import Timeouts
from mainspring.models.wire.openai_chat import ChatCompletions

NAME = "foundry"
ALIAS = "phi-4"
DEPLOYMENT = "gpt-4o"
ENDPOINT_VARIABLE = "AZURE_FOUNDRY_PROJECT_ENDPOINT"
APP_NAME = "mainspring"

_starting = threading.Lock()  # The SDK allows one manager in a process.


def build(config: ProviderConfig) -> ModelProvider:
    """A model of Foundry.

    Settings of its own, in ``extra`` or beside the others: ``mode`` (``local``, the default, or ``cloud``), ``model_alias``,
    ``project_endpoint``, ``model_deployment``, ``temperature`` (for requests that name none), ``api`` (as of `azure`).

    Raises:
        ProviderConfigError: If a setting is missing or wrong.
    """
    temperature = own_setting(config, "temperature", float)
    match (own_setting(config, "mode") or "local").lower():
        case "local":
            return _local(config, temperature)
        case "cloud":
            model = _cloud(config)
            return model if temperature is None else FoundryModel(model.info, _ready(model), temperature)
        case mode:
            raise ProviderConfigError(
                f"Setting `mode` of {NAME} must be local or cloud, not {mode!r}", reason="mode", provider=NAME
            )


class FoundryModel:
    """A model of Foundry that is not reached before the first request.

    Args:
        info: What is known about it.
        reach: Starts what has to be started, and gives the model that is asked.
        temperature: For requests that name none.
    """

    def __init__(
        self, info: ModelInfo, reach: Callable[[], Awaitable[HttpModel]], temperature: float | None = None
    ) -> None:
        self._info = info
        self._reach = reach
        self._temperature = temperature
        self._inner: HttpModel | None = None

    @property
    def provider(self) -> str:
        """``foundry``."""
        return self._info.provider

    @property
    def model(self) -> str:
        """The alias, or the deployment."""
        return self._info.id

    @property
    def info(self) -> ModelInfo:
        """What is known about the model."""
        return self._info

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Ask, and get the answer while it is made.

        Raises:
            ModelError: If there is no complete answer; with code MODEL_NOT_FOUND if the model cannot be started.
        """
        if self._inner is None:
            self._inner = await self._reach()
        if request.temperature is None and self._temperature is not None:
            request = replace(request, temperature=self._temperature)
        async with aclosing(self._inner.stream(request)) as events:
            async for event in events:
                yield event

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Ask, and get the whole answer.

        Raises:
            ModelError: As `stream`.
        """
        return await collect(self.stream(request), self.provider, self.model)

    async def aclose(self) -> None:
        """Give back connections. The service stays for others in this process and ends with it."""
        if self._inner is not None:
            await self._inner.aclose()


def _ready(model: HttpModel) -> Callable[[], Awaitable[HttpModel]]:
    async def reach() -> HttpModel:
        return model

    return reach


# --- in the cloud ------------------------------------------------------------------------------------------------------


def _cloud(config: ProviderConfig) -> HttpModel:
    endpoint = setting(own_setting(config, "project_endpoint") or config.base_url, ENDPOINT_VARIABLE)
    if endpoint is None:
        raise ProviderConfigError(
            f"Provider {NAME} in mode cloud needs the project's endpoint: the setting providers.{NAME}.projectEndpoint, or "
            f"the environment variable {ENDPOINT_VARIABLE}",
            reason="missing_endpoint",
            provider=NAME,
        )
    base_url = f"{endpoint.rstrip('/').removesuffix('/openai/v1')}/openai/v1"
    model = setting(own_setting(config, "model_deployment") or config.model) or DEPLOYMENT
    credential: CredentialResolver
    if isinstance(config.api_key, CredentialResolver):
        credential = config.api_key
    elif callable(config.api_key):
        credential = FunctionKey(cast("KeyFunction", config.api_key), shaped)
    else:
        home = key_home(base_url, ENDPOINT_VARIABLE)
        credential = ApiKey(require_key(NAME, given_key(config), base_url=base_url, home=home))
    if chosen_api(config, "responses" if only_responses(model) else "chat") == "responses":
        return responses_model(
            config,
            provider=NAME,
            model=model,
            base_url=base_url,
            credential=credential,
            accepts=ResponsesDialect(strict_tools=False),
            key_header=KEY_HEADER,
        )
    profile = http_profile(
        config,
        provider=NAME,
        model=model,
        base_url=base_url,
        path="/chat/completions",
        accepts=Dialect(),
        key_header=KEY_HEADER,
    )
    return HttpModel(profile, ChatCompletions(), credential, timeouts=timeouts(config))


# --- on this machine ---------------------------------------------------------------------------------------------------


def _local(config: ProviderConfig, temperature: float | None) -> FoundryModel:
    alias = setting(own_setting(config, "model_alias") or config.model) or ALIAS
    limits = timeouts(config, LIMITS)

    async def reach() -> HttpModel:
        url, model = await asyncio.to_thread(start_local, alias)
        return _at(config, url, model, limits)

    return FoundryModel(_at(config, "http://localhost", alias, limits).info, reach, temperature)


def _at(config: ProviderConfig, url: str, model: str, limits: Timeouts) -> HttpModel:
    profile = http_profile(
        config, provider=NAME, model=model, base_url=f"{url}/v1", path="/chat/completions", accepts=Dialect()
    )
    profile = replace(profile, info=replace(profile.info, prices=FREE))
    return HttpModel(profile, ChatCompletions(), lambda: KEY, timeouts=limits)


def start_local(alias: str) -> tuple[str, str]:
    """Start Foundry Local in this process, fetch and load a model there. Blocks.

    Args:
        alias: The model's alias in Foundry's catalogue.

    Returns:
        Where the service answers, and the id of the model there.

    Raises:
        ModelNotFoundError: If any of that fails.
    """
    try:
        with _starting:
            sdk: Any = import_module("foundry_local_sdk")
            if sdk.FoundryLocalManager.instance is None:
                sdk.FoundryLocalManager.initialize(sdk.Configuration(app_name=APP_NAME))
            manager: Any = sdk.FoundryLocalManager.instance
            model = manager.catalog.get_model(alias)
            if model is None:
                raise LookupError(f"Foundry's catalogue has no model {alias!r}")
            if not model.is_cached:
                model.download()
            if not model.is_loaded:
                model.load()
            if not manager.urls:
                manager.start_web_service()
            return str(manager.urls[0]).rstrip("/"), str(model.id)
    except ImportError as error:
        raise _not_started(alias, f"foundry-local-sdk is not installed: {how_to_install('foundry')}") from error
    except Exception as error:
        raise _not_started(alias, str(error) or type(error).__name__) from error


def _not_started(alias: str, reason: str) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"Foundry Local could not start the model {alias}: {reason}", reason="foundry_local", provider=NAME, model=alias
    )
