"""Microsoft Foundry: local models through Foundry Local (the default), or deployments of a cloud project."""

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
from mainspring.extras import install_command
from mainspring.models.auth import ApiKey, CallableKey, CredentialResolver, KeyCallback
from mainspring.models.auth.credentials import get_setting, key_or_token, require_key
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.port import ZERO_PRICES, ModelBase, ModelInfo, ModelProvider, ModelRequest
from mainspring.models.profile import ChatCapabilities, ResponsesCapabilities
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.providers.addresses import single_address
from mainspring.models.providers.azure import KEY_HEADER, key_base_url
from mainspring.models.providers.http import (
    LOCAL_TIMEOUTS,
    PLACEHOLDER_API_KEY,
    build_responses_model,
    http_profile,
    provider_setting,
    requires_responses_api,
    select_api,
    static_api_key,
    timeouts_from,
)
from mainspring.models.transport.port import Timeouts
from mainspring.models.wire.openai_chat import ChatCompletionsProtocol

NAME = "foundry"
_HOST = PROVIDERS[NAME]
ENDPOINT_VARIABLE = _HOST.url_variables[0]
APP_NAME = "mainspring"

_starting = threading.Lock()  # The SDK allows one manager per process.


def build(config: ProviderConfig) -> ModelProvider:
    """Create a model of Foundry.

    Own settings, in ``extra`` or at the top level: ``mode`` (``local``, the default, or ``cloud``), ``model_alias``,
    ``project_endpoint``, ``model_deployment``, ``temperature`` (for requests without one), ``api`` (see `azure`).

    Raises:
        ProviderConfigError: A setting is missing or wrong.
    """
    temperature = provider_setting(config, "temperature")
    if provider_setting(config, "mode") is None:
        _reject_cloud_settings(config)
    match _mode(config):
        case "local":
            return _local(config, temperature)
        case "cloud":
            model = _cloud(config)
            return model if temperature is None else FoundryModel(model.info, _already_connected(model), temperature)
        case mode:
            raise ProviderConfigError(
                f"Invalid `mode` of {NAME}: {mode!r}. Use local or cloud.", reason="mode", provider=NAME
            )


def select_alias_or_deployment(config: ProviderConfig) -> str:
    """Return the deployment (mode cloud) or the alias of the model (mode local) of a configuration."""
    if _mode(config) == "cloud":
        return get_setting(provider_setting(config, "model_deployment") or config.model) or _HOST.cloud_model
    return get_setting(provider_setting(config, "model_alias") or config.model) or _HOST.model


def _mode(config: ProviderConfig) -> str:
    return (provider_setting(config, "mode") or "local").lower()


def _reject_cloud_settings(config: ProviderConfig) -> None:
    """Reject settings of a cloud project if the mode is not set: the local mode, which is the default, would ignore them."""
    given = {
        "project_endpoint": provider_setting(config, "project_endpoint"),
        "model_deployment": provider_setting(config, "model_deployment"),
        "base_url": config.base_url,
        "api": provider_setting(config, "api"),
    }
    names = [name for name, value in given.items() if value]
    if names:
        raise ProviderConfigError(
            f"The mode local of {NAME}, which is the default, ignores {' and '.join(names)}. Set `mode` to cloud or local.",
            reason="conflicting_settings",
            provider=NAME,
        )


class FoundryModel(ModelBase):
    """A model of Foundry that connects at the first request.

    Args:
        info: Known facts about the model.
        connect: Function that starts the required services and returns the model to call.
        temperature: Temperature of requests without one.
    """

    def __init__(
        self, info: ModelInfo, connect: Callable[[], Awaitable[HttpModel]], temperature: float | None = None
    ) -> None:
        self._info = info
        self._connect = connect
        self._temperature = temperature
        self._inner: HttpModel | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Send a request and stream the response.

        Raises:
            ModelError: The response is incomplete or missing; code MODEL_NOT_FOUND if the model cannot be started.
        """
        if self._inner is None:
            self._inner = await self._connect()
        if request.temperature is None and self._temperature is not None:
            request = replace(request, temperature=self._temperature)
        async with aclosing(self._inner.stream(request)) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        """Release connections. The service keeps running for other users in this process and stops with it."""
        if self._inner is not None:
            await self._inner.aclose()


def _already_connected(model: HttpModel) -> Callable[[], Awaitable[HttpModel]]:
    async def connect() -> HttpModel:
        return model

    return connect


# --- in the cloud ------------------------------------------------------------------------------------------------------


def _cloud(config: ProviderConfig) -> HttpModel:
    project = provider_setting(config, "project_endpoint")
    endpoint = single_address(config, project_endpoint=project, base_url=config.base_url) or get_setting(
        None, ENDPOINT_VARIABLE
    )
    if endpoint is None:
        raise ProviderConfigError(
            f"Missing project endpoint of provider {NAME} in mode cloud. Set providers.{NAME}.projectEndpoint, or "
            f"the environment variable {ENDPOINT_VARIABLE}.",
            reason="missing_endpoint",
            provider=NAME,
        )
    base_url = f"{endpoint.rstrip('/').removesuffix('/openai/v1')}/openai/v1"
    model = select_alias_or_deployment(config)
    credential: CredentialResolver
    if isinstance(config.api_key, CredentialResolver):
        credential = config.api_key
    elif callable(config.api_key):
        credential = CallableKey(cast("KeyCallback", config.api_key), key_or_token)
    else:
        home = key_base_url(base_url, ENDPOINT_VARIABLE)
        credential = ApiKey(require_key(NAME, static_api_key(config), base_url=base_url, home=home))
    if select_api(config, "responses" if requires_responses_api(model) else "chat") == "responses":
        return build_responses_model(
            config,
            provider=NAME,
            model=model,
            base_url=base_url,
            credential=credential,
            accepts=ResponsesCapabilities(strict_tools=False),
            key_header=KEY_HEADER,
        )
    profile = http_profile(
        config,
        provider=NAME,
        model=model,
        base_url=base_url,
        path="/chat/completions",
        capabilities=ChatCapabilities(),
        key_header=KEY_HEADER,
    )
    return HttpModel(profile, ChatCompletionsProtocol(), credential, timeouts=timeouts_from(config))


# --- on this machine ---------------------------------------------------------------------------------------------------


def _local(config: ProviderConfig, temperature: float | None) -> FoundryModel:
    alias = select_alias_or_deployment(config)
    limits = timeouts_from(config, LOCAL_TIMEOUTS)

    async def connect() -> HttpModel:
        url, model = await asyncio.to_thread(start_foundry_local, alias)
        return _http_model(config, url, model, limits)

    return FoundryModel(_http_model(config, "http://localhost", alias, limits).info, connect, temperature)


def _http_model(config: ProviderConfig, url: str, model: str, limits: Timeouts) -> HttpModel:
    profile = http_profile(
        config,
        provider=NAME,
        model=model,
        base_url=f"{url}/v1",
        path="/chat/completions",
        capabilities=ChatCapabilities(),
    )
    profile = replace(profile, info=replace(profile.info, prices=ZERO_PRICES))
    return HttpModel(profile, ChatCompletionsProtocol(), lambda: PLACEHOLDER_API_KEY, timeouts=limits)


def start_foundry_local(alias: str) -> tuple[str, str]:
    """Start Foundry Local in this process, and download and load a model. Blocking.

    Args:
        alias: Alias of the model in Foundry's catalog.

    Returns:
        Address of the service, and the model ID.

    Raises:
        ModelNotFoundError: A step failed.
    """
    try:
        with _starting:
            sdk: Any = import_module("foundry_local_sdk")
            if sdk.FoundryLocalManager.instance is None:
                sdk.FoundryLocalManager.initialize(sdk.Configuration(app_name=APP_NAME))
            manager: Any = sdk.FoundryLocalManager.instance
            model = manager.catalog.get_model(alias)
            if model is None:
                raise LookupError(f"Foundry's catalog does not contain the model {alias!r}")
            if not model.is_cached:
                model.download()
            if not model.is_loaded:
                model.load()
            if not manager.urls:
                manager.start_web_service()
            return str(manager.urls[0]).rstrip("/"), str(model.id)
    except ImportError as error:
        raise _start_error(alias, f"foundry-local-sdk is not installed. Run `{install_command('foundry')}`") from error
    except Exception as error:
        raise _start_error(alias, str(error) or type(error).__name__) from error


def _start_error(alias: str, reason: str) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"Foundry Local could not start the model {alias}: {reason}.",
        reason="foundry_local",
        provider=NAME,
        model=alias,
    )
