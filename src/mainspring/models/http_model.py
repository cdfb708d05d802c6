"""A model over HTTP: a wire protocol, a transport, and a profile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ModelError, ModelTimeoutError, NetworkError, ProviderConfigError
from mainspring.events import StreamEvent
from mainspring.lazy import lazy_function
from mainspring.models.auth.credentials import ApiKeyProvider, CredentialValue, bind_provider, key_or_token
from mainspring.models.codec.protocol import WireProtocol
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.port import ModelBase, ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.token_limits import may_ask_limits, with_learned_limits
from mainspring.models.transport.default import default_transport
from mainspring.models.transport.port import Timeouts, Transport, TransportResponse
from mainspring.redaction import redact_environment

if TYPE_CHECKING:
    from mainspring.models.codec.refused_parts import (
        PartTrials,
        comparable_text,
        describe_left_out_parts,
        without_parts,
    )
    from mainspring.models.codec.sampling import format_omitted_options
    from mainspring.models.codec.unsupported import without_rejected_images
    from mainspring.models.token_refusals import fit_to_limits
else:
    fit_to_limits = lazy_function("mainspring.models.token_refusals", "fit_to_limits")
    without_rejected_images = lazy_function("mainspring.models.codec.unsupported", "without_rejected_images")
    format_omitted_options = lazy_function("mainspring.models.codec.sampling", "format_omitted_options")
    PartTrials = lazy_function("mainspring.models.codec.refused_parts", "PartTrials")
    comparable_text = lazy_function("mainspring.models.codec.refused_parts", "comparable_text")
    describe_left_out_parts = lazy_function("mainspring.models.codec.refused_parts", "describe_left_out_parts")
    without_parts = lazy_function("mainspring.models.codec.refused_parts", "without_parts")

_ask_limits: Callable[[Transport, ModelProfile, Mapping[str, str]], Awaitable[ModelProfile]] = lazy_function(
    "mainspring.models.host_limits", "ask_limits"
)
_read_rejection: Callable[..., Awaitable[ModelError]] = lazy_function("mainspring.models.rejection", "read_rejection")
_add_advice: Callable[[ModelError, str, str], ModelError] = lazy_function("mainspring.models.rejection", "add_advice")

CredentialCallback = Callable[[], CredentialValue | Awaitable[CredentialValue]]
"""Function that returns the key or the headers for a request; may be async, for example for tokens that expire.

If it has a method ``invalidate``, that method is called with the credential that the host rejected with a 401, before the
function is called again."""

_MAX_CAPABILITY_RETRIES = 4
_UNPARSED_CALLS = (
    "{model} wrote a tool call as text that cannot be read as a call. The parser of its server is probably off: start vLLM with "
    "--enable-auto-tool-choice and --tool-call-parser, SGLang with --tool-call-parser, llama.cpp with --jinja."
)
_log = logging.getLogger("mainspring.models")
_DRAIN_TIMEOUT = (
    0.25  # Seconds to wait for the end of the body after the end of the response before the connection is closed.
)


class _Opened(Struct):
    """A response whose first content or end was read.

    Attributes:
        chunks: The rest of its body.
        reader: Its reader.
        key: The credential that was sent.
        events: Events before the rest.
        is_ended: Whether the body has ended and the reader has finished.
    """

    chunks: AsyncIterator[bytes]
    reader: ResponseReader
    key: CredentialValue
    events: list[StreamEvent] = []
    is_ended: bool = False


class HttpModel(ModelBase):
    """A `ModelProvider` over HTTP. Nothing is loaded or connected before the first request.

    Args:
        profile: The model and its host.
        protocol: Wire protocol.
        credential: Function that returns the key or the headers, which are sent only to the profile's base URL. ``None``
            sends none.
        transport: Transport for requests; by default the one that all models share.
        timeouts: Time limits of each request.
    """

    def __init__(
        self,
        profile: ModelProfile,
        protocol: WireProtocol,
        credential: CredentialCallback | None = None,
        *,
        transport: Transport | None = None,
        timeouts: Timeouts = Timeouts(),
    ) -> None:
        self._profile: ModelProfile = profile
        self._protocol = protocol
        self._credential = credential
        self._own_transport = transport
        self._timeouts = timeouts
        self._last_refusal = ""
        self._has_reported_markup = False

    @property
    def info(self) -> ModelInfo:
        """Known facts about the model."""
        return self.profile.info

    @property
    def profile(self) -> ModelProfile:
        """The current profile, without the fields that the host rejected and with the limits that it reported."""
        self._profile = with_learned_limits(self._profile)
        return self._profile

    def with_transport(self, transport: Transport) -> HttpModel:
        """Return the same model over another transport, for example one that records or replays."""
        return HttpModel(self._profile, self._protocol, self._credential, transport=transport, timeouts=self._timeouts)

    def with_api_key(self, get_api_key: ApiKeyProvider) -> HttpModel:
        """Return the same model with the key that a function returns for each request; its own key if that returns none."""
        find = bind_provider(get_api_key, self.provider)

        async def credential() -> CredentialValue:
            key = find()
            key = await key if isawaitable(key) else key
            if not key:
                return await self._get_credential()
            return key_or_token(key) if self._profile.key_header == "api-key" and isinstance(key, str) else key

        return HttpModel(
            self._profile, self._protocol, credential, transport=self._own_transport, timeouts=self._timeouts
        )

    def __repr__(self) -> str:
        return f"<HttpModel {self.provider}:{self.model} at {self._profile.base_url}>"

    async def stream(self, request: ModelRequest, *, limit: int | None = None) -> AsyncGenerator[StreamEvent, None]:
        """Send a request and stream the response.

        A part that the host refuses is omitted, and the changed request is sent again immediately; so is a request whose output
        limit is above a limit that the host reports.

        Args:
            request: The request.
            limit: Maximum number of output tokens for this request, if the host reported it.

        Raises:
            ModelError: The response is incomplete or missing; ``partial`` is the content received before.
        """
        opened: _Opened | None = None
        try:
            async with self._exchange(request, limit) as opened:
                reader = opened.reader
                for event in opened.events:
                    yield event
                while reader.error is None and not reader.decoder.ended:
                    chunk = await anext(opened.chunks, None)
                    if chunk is None:
                        break
                    for event in reader.feed(chunk):
                        yield event
                if reader.decoder.ended and reader.error is None:
                    await _drain(opened.chunks)
        except (NetworkError, ModelTimeoutError) as error:
            if opened is None or not opened.reader.decoder.complete:
                self._add_context(error, opened and opened.reader)
                raise
        assert opened is not None
        for event in self._finish(opened, request):
            yield event
        if (failure := opened.reader.error) is not None:
            if isinstance(failure, NetworkError | ModelTimeoutError):
                self._add_context(failure, opened.reader)
            raise _redact(failure, opened.key)

    async def aclose(self) -> None:
        """Close the model's own connections; shared ones close with their event loop."""
        if self._own_transport is not None:
            await self._own_transport.aclose()

    def _finish(self, opened: _Opened, request: ModelRequest) -> list[StreamEvent]:
        """Return the last events of a response, and report markup that the server did not parse."""
        last = [] if opened.is_ended else opened.reader.finish()
        if opened.reader.decoder.has_unparsed_calls and not self._has_reported_markup:
            self._has_reported_markup = True
            (request.warn or _log.warning)(_UNPARSED_CALLS.format(model=f"{self.provider}:{self.model}"))
        return last

    @asynccontextmanager
    async def _exchange(self, request: ModelRequest, limit: int | None = None) -> AsyncGenerator[_Opened]:
        """Send the request until the host accepts it; return the response, which has begun with content or has ended.

        Some hosts refuse a request in the body of a response that they accepted, before its content.

        Raises:
            ModelError: The host rejected the request and no field can be omitted.
        """
        transport = self._own_transport or default_transport()
        key = await self._get_credential()
        timeouts = self._request_timeouts(request)
        profile = await self._profile_of_request(transport, key, limit)
        first, body = self._profile, self._encode(request, profile)
        refusal: ModelError | None = None
        cause: ModelError | None = None  # the last refusal after which a part was left out
        trials: PartTrials | None = None
        adaptations_left, fresh_key = _MAX_CAPABILITY_RETRIES, False
        if request.sampling is not None:
            adaptations_left += len(request.sampling.__struct_fields__)  # A host may reject one after the other.
        while True:
            url = self._protocol.url(profile)
            async with transport.open("POST", url, self._headers(profile, key), body, timeouts) as response:
                received = await self._receive(response, url, request, profile, key)
                if isinstance(received, _Opened):
                    if trials is not None and trials.is_probing:
                        profile, body = trials.next(None)
                        continue
                    if refusal is not None:
                        self._store_changes(request, first, profile, cause)
                    self._report_omitted_options(request, profile)
                    yield received
                    return
                refusal = received
            if refusal.status == 401 and not fresh_key and (newer := await self._refresh_credential(key)) != key:
                key, fresh_key = newer, True  # The old key had expired.
                continue
            try:
                if trials is None and not adaptations_left:
                    raise refusal
                before = profile
                profile, body, trials = self._adapt(request, profile, body, refusal, trials)
                if describe_left_out_parts(self._protocol.name, before, profile, refusal):
                    cause = refusal
            except ModelError as error:
                raise _add_advice(error, url, getattr(self._credential, "source", "")) from None
            if trials is None:
                self._profile = replace(profile, remaining_tokens=None)
                adaptations_left -= 1

    async def _receive(
        self,
        response: TransportResponse,
        url: str,
        request: ModelRequest,
        profile: ModelProfile,
        key: CredentialValue,
    ) -> _Opened | ModelError:
        """Read a response to its first content, or to its end; return the error of a rejected request."""
        if response.status >= 300:
            secrets = _credential_secrets(key)
            return await _read_rejection(response, url, secrets, provider=self.provider, model=self.model)
        decoder = self._protocol.decoder(profile)
        decoder.tools = request.tools
        reader = ResponseReader(decoder)
        opened = _Opened(response.chunks(), reader, key)
        async for chunk in opened.chunks:
            opened.events += reader.feed(chunk)
            if len(decoder.draft) or decoder.ended or reader.error is not None:
                break
        else:
            opened.events += reader.finish()
            opened.is_ended = True
        return opened if reader.error is None or len(decoder.draft) else _redact(reader.error, key)

    def _adapt(
        self, request: ModelRequest, profile: ModelProfile, body: bytes, refusal: ModelError, trials: PartTrials | None
    ) -> tuple[ModelProfile, bytes, PartTrials | None]:
        """Return a request without what the host rejected, and the trials that find it if the words of the host do not name it.

        Raises:
            ModelError: No field can be omitted.
        """
        is_repeated, self._last_refusal = self._last_refusal == (text := comparable_text(refusal)), text
        if trials is None:
            fit = partial(fit_to_limits, self._protocol)
            adapted = fit(_without_left_out(request, profile), profile, body, refusal)
            adapted = adapted or self._without_rejected(request, profile, body, refusal, is_repeated=is_repeated)
            if adapted is not None:
                return *adapted, None
            trials = PartTrials(self._protocol, request, profile, refusal, fit, is_repeated=is_repeated)
        return *trials.next(refusal), trials

    async def _profile_of_request(self, transport: Transport, key: CredentialValue, limit: int | None) -> ModelProfile:
        """Return the profile for a request. A server with an unknown window is asked for its limits before."""
        asks = self._profile.asks_limits and self._own_transport is None and self.info.context_window is None
        if asks and may_ask_limits(self._profile):
            self._profile = await _ask_limits(transport, self._profile, self._headers(self._profile, key))
        return self.profile if limit is None else replace(self.profile, remaining_tokens=limit)

    def _encode(self, request: ModelRequest, profile: ModelProfile) -> bytes:
        """Return the body of a request without the parts that the host refused."""
        return self._protocol.encode(_without_left_out(request, profile), profile)

    def _store_changes(
        self, request: ModelRequest, before: ModelProfile, after: ModelProfile, refusal: ModelError | None
    ) -> None:
        """Store the profile without the refused parts, and report them."""
        self._profile, self._last_refusal = replace(after, remaining_tokens=None), ""
        if refusal is not None and (note := describe_left_out_parts(self._protocol.name, before, after, refusal)):
            (request.warn or _log.warning)(note)

    def _without_rejected(
        self, request: ModelRequest, profile: ModelProfile, sent: bytes, refusal: ModelError, *, is_repeated: bool
    ) -> tuple[ModelProfile, bytes] | None:
        """Return a profile without the rejected field and the request for it; an unchanged request is never sent again."""
        if refusal.reason != "bad_request":
            return None
        for changed in (
            *(() if is_repeated else without_rejected_images(profile, request.messages, refusal)),
            *self._protocol.without_rejected(profile, refusal.message),
        ):
            body = self._encode(request, changed)
            if body != sent or changed.query != profile.query:
                return changed, body
        return None

    def _report_omitted_options(self, request: ModelRequest, profile: ModelProfile) -> None:
        if request.notify is not None and (names := self._protocol.omitted_options(request, profile)):
            request.notify(format_omitted_options(self.provider, self.model, names))

    async def _refresh_credential(self, rejected: CredentialValue) -> CredentialValue:
        """Return a new credential after the host rejected the previous one."""
        reject: Callable[[CredentialValue], None] | None = getattr(self._credential, "invalidate", None)
        if reject is not None:
            reject(rejected)
        return await self._get_credential()

    async def _get_credential(self) -> CredentialValue:
        if self._credential is None:
            return ""
        try:
            given = self._credential()
            if not isinstance(given, str | Mapping):
                given = await given
            return given.strip() if isinstance(given, str) else given
        except ModelError:
            raise
        except Exception as error:
            raise ProviderConfigError(
                f"Cannot get the API key of {self.provider}: {error}", provider=self.provider
            ) from error

    def _headers(self, profile: ModelProfile, key: CredentialValue) -> dict[str, str]:
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            "user-agent": "mainspring",
            **profile.headers,
        }
        if not isinstance(key, str):
            headers.update(key)
        elif key:
            headers[profile.key_header] = f"Bearer {key}" if profile.key_header == "authorization" else key
        return headers

    def _request_timeouts(self, request: ModelRequest) -> Timeouts:
        limits = self._timeouts
        if request.timeout is None:
            return limits
        return Timeouts(limits.connect, limits.first_byte, limits.idle, request.timeout)

    def _add_context(self, error: ModelError, reader: ResponseReader | None) -> None:
        """Add the provider, the model, and the partial content to an error."""
        error.provider = error.provider or self.provider
        error.model = error.model or self.model
        if error.partial is None and reader is not None and len(reader.decoder.draft):
            error.partial = reader.decoder.draft.message()


def _without_left_out(request: ModelRequest, profile: ModelProfile) -> ModelRequest:
    """Return a request without the parts that the host refused."""
    return without_parts(request, profile.left_out) if profile.left_out else request


def _credential_secrets(credential: CredentialValue) -> tuple[str, ...]:
    """Return the secrets to redact from texts."""
    values = (credential,) if isinstance(credential, str) else tuple(credential.values())
    return tuple([value.removeprefix("Bearer ") for value in values if value])


def _redact(error: ModelError, credential: CredentialValue) -> ModelError:
    """Redact the key in the error text: a host may repeat it in a response."""
    error.message = redact_environment(error.message, *_credential_secrets(credential))
    error.args = (error.message, *error.args[1:])
    return error


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read the end of the body so that the connection can be reused; briefly, since the response is complete."""
    try:
        async with asyncio.timeout(_DRAIN_TIMEOUT):
            async for _ in chunks:
                pass
    except (TimeoutError, ModelError):
        pass
