"""Ask a local server for the limits of a model: its model list, and the endpoints of llama.cpp, LM Studio, Ollama, TGI, TabbyAPI,
KoboldCpp, and LiteLLM.

Loaded before the first request to such a server.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mainspring.errors import ModelError, ModelTimeoutError
from mainspring.models.json_values import as_dict, as_dicts, as_int
from mainspring.models.profile import ModelProfile
from mainspring.models.token_limits import forget_questions, learn_listed_limits
from mainspring.models.transport.port import Timeouts, Transport

_TIMEOUT_SECONDS = 1.0
_LIMITS = Timeouts(_TIMEOUT_SECONDS, _TIMEOUT_SECONDS, _TIMEOUT_SECONDS, _TIMEOUT_SECONDS)
_MAX_BODY = 8 * 1024 * 1024
_WINDOW_FIELDS = (
    "max_model_len",
    "loaded_context_length",
    "n_ctx",
    "max_seq_len",
    "context_length",
    "context_window",
    "context_size",
    "max_context_length",
    "max_context_window_tokens",
    "max_total_tokens",
    "max_input_tokens",
)
_OUTPUT_FIELDS = ("max_completion_tokens", "max_output_tokens", "max_output_token_length", "max_tokens")
_NAME_FIELDS = ("id", "name", "model", "key", "model_name")
_MAX_DEPTH = 3
_MIN_TOKENS = 256  # A lower number is not a limit of a model that works with tools.
_OTHER_OBJECT = re.compile(
    r"draft|vision|image|audio|embed|prompt_?cache|rate_?limit|pric|quota|queue|variant|defaults?$|default_param|sampling"
)
"""Names of objects whose limits are not those of a conversation with the model."""
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


async def ask_limits(transport: Transport, profile: ModelProfile, headers: Mapping[str, str]) -> ModelProfile:
    """Ask a server for the context window and the output limit of a model, and return its profile with them.

    A server that does not respond within a second, or that reports no limits, changes nothing.
    """
    server = _Server(transport, profile, headers)
    try:
        async with asyncio.timeout(2 * _TIMEOUT_SECONDS):
            window, output = await server.listed_limits()
            if server.is_down:
                forget_questions(profile)
            if window is None and server.is_reachable:
                window = await server.loaded_window()
    except TimeoutError:
        return profile
    return learn_listed_limits(profile, window, output)


class _Server:
    """The endpoints of a server that describe a model.

    Attributes:
        is_reachable: Whether all requests had a response.
        is_down: Whether a connection failed, or the server is starting.
    """

    def __init__(self, transport: Transport, profile: ModelProfile, headers: Mapping[str, str]) -> None:
        self._transport, self._headers = transport, {**headers, "accept": "application/json"}
        self._model = profile.info.id
        self._root = profile.base_url.removesuffix("/v1")
        self._list_path = "/models" if self._root == profile.base_url else "/v1/models"
        self.is_reachable = True
        self.is_down = False

    async def listed_limits(self) -> tuple[int | None, int | None]:
        """Return the context window and the output limit in the list of models."""
        listed = await self._get(self._list_path)
        entry = self._entry(listed)
        base = self._named(listed, entry.get("parent"))  # A LoRA adapter has the limits of its base model.
        parts = [*_objects_in(entry), *_objects_in(base[0] if base else {})]
        outputs = [part for part in parts if "temperature" not in part]  # There, max_tokens is a default.
        return _first(parts, _WINDOW_FIELDS), _first(outputs, _OUTPUT_FIELDS)

    async def loaded_window(self) -> int | None:
        """Return the context window with which the model is loaded, from the first server-specific endpoint that has it."""
        answers = await asyncio.gather(
            self._field("/props", "n_ctx"),
            self._lm_studio(),
            self._ollama(),
            self._field("/info", "max_total_tokens"),
            self._field("/v1/model", "max_seq_len"),
            self._field("/api/extra/true_max_context_length", "value"),
            self._litellm(),
        )
        return next((window for window in answers if window), None)

    async def _field(self, path: str, name: str) -> int | None:
        return _first(list(_objects_in(await self._get(path))), (name,))

    async def _lm_studio(self) -> int | None:
        entry = self._entry(await self._get("/api/v0/models"))
        if window := as_int(entry.get("loaded_context_length")):
            return window
        loaded = self._entry(await self._get("/api/v1/models")).get("loaded_instances")
        return _first(list(_objects_in({"loaded": loaded})), ("context_length",))

    async def _ollama(self) -> int | None:
        running = await self._get("/api/ps")
        if "models" not in running:
            return None  # Another server, which could read a POST as a request to its model.
        for loaded in self._named(running, self._model):
            if window := as_int(loaded.get("context_length")):
                return window
        parameters = (await self._get("/api/show", {"model": self._model})).get("parameters")
        found = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
        return int(found[1]) if found else None

    async def _litellm(self) -> int | None:
        return _first(list(_objects_in(self._entry(await self._get("/model/info")))), _WINDOW_FIELDS)

    def _entry(self, listed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entry of the model in a list; the only entry if the server has one model."""
        named, entries = self._named(listed, self._model), _entries(listed)
        return named[0] if named else entries[0] if len(entries) == 1 else {}

    def _named(self, listed: Mapping[str, Any], model: object) -> list[dict[str, Any]]:
        """Return the entries of a model in a list; Ollama adds a tag to names without one."""
        names = {str(model).lower(), f"{model}:latest".lower()} if model else set[str]()
        return [e for e in _entries(listed) if not names.isdisjoint(str(e.get(f)).lower() for f in _NAME_FIELDS)]

    async def _get(self, path: str, fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the JSON object at a path; empty if the server does not have it. ``fields`` are sent as a POST."""
        method, body = ("GET", b"") if fields is None else ("POST", msgspec.json.encode(fields))
        received = bytearray()
        try:
            async with self._transport.open(method, self._root + path, self._headers, body, _LIMITS) as response:
                if response.status == 503:
                    self.is_down, self.is_reachable = True, False
                if response.status != 200:
                    return {}
                async for chunk in response.chunks():
                    received += chunk
                    if len(received) > _MAX_BODY:
                        return {}
            value = msgspec.json.decode(bytes(received))
            return as_dict(value) or {"data": value}
        except (msgspec.DecodeError, RecursionError):
            return {}
        except (ModelError, OSError) as error:
            self.is_reachable = False
            self.is_down = self.is_down or not isinstance(error, ModelTimeoutError)
            return {}


def _entries(listed: Mapping[str, Any]) -> list[dict[str, Any]]:
    return as_dicts(listed.get("data")) or as_dicts(listed.get("models"))


def _objects_in(value: Mapping[str, Any], depth: int = _MAX_DEPTH) -> Iterator[dict[str, Any]]:
    """Yield an object and the objects in it that describe the same model."""
    yield dict(value)
    inner = [value[name] for name in value if not _OTHER_OBJECT.search(name)] if depth else []
    for each in inner:
        for found in [as_dict(each) or {}, *as_dicts(each)]:
            yield from _objects_in(found, depth - 1)


def _first(parts: list[dict[str, Any]], names: tuple[str, ...]) -> int | None:
    """Return the first number of these fields that may be a limit."""

    def numbers() -> Iterator[int | None]:
        for name in names:
            yield from (as_int(part.get(name)) for part in parts)

    return next((number for number in numbers() if number and number >= _MIN_TOKENS), None)
