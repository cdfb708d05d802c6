"""All exceptions of Mainspring, in one tree.

```
MainspringError
├── AgentError                    what an agent raises: a run failed, or it cannot start
│   ├── ProviderError             a provider failed: a model call, or the run that it ended
│   │   ├── ModelError            a model call failed (raised by ``mainspring.models``)
│   │   │   ├── AuthenticationError   key missing or wrong, or it lacks permission
│   │   │   ├── RateLimitedError      too many requests; ``retry_after`` may contain the time to wait
│   │   │   ├── ModelNotFoundError    no such model or deployment
│   │   │   ├── ContextExceededError  the conversation does not fit the model's window
│   │   │   ├── NetworkError          host unreachable, connection lost, 5xx
│   │   │   ├── ModelTimeoutError     no response in time
│   │   │   ├── InvalidResponseError  the provider's response is invalid
│   │   │   └── ProviderConfigError   provider unknown or not configured
│   │   └── AgentProviderError    wraps the ModelError that ended the run (``cause``)
│   │       └── AgentContextExceededError  nothing could make the conversation fit
│   ├── AgentAbortedError         ``abort()`` or the caller's `CancelToken` ended the run
│   ├── AgentBusyError            the agent is already running
│   ├── AgentOutputError          a run ended without the requested structured output
│   ├── ConfigError               a setting, file, or option is wrong
│   ├── ToolError                 a tool failed in a way the model should read
│   └── PermissionDeniedError     a rule or the user denied
├── SessionError                  a session cannot be opened, read, or written
└── DurableError                  a durable run cannot be stored, found, or continued

ConfigWarning                     an option has no effect: reported with Python's ``warnings``
```

Messages contain the problem, its reason, and the fix, and never contain a secret.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from mainspring.lazy import lazy_function
from mainspring.text import suggest_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mainspring.messages import AgentMessage, Cost, Message, StopReason, Usage


ModelErrorCategory = Literal["auth", "rate_limit", "timeout", "api_error"]


class ErrorCode(StrEnum):
    """The kind of failure of a model call: ten codes, no others."""

    PROVIDER_NOT_CONFIGURED = "PROVIDER_NOT_CONFIGURED"
    PROVIDER_NOT_SUPPORTED = "PROVIDER_NOT_SUPPORTED"
    AUTHENTICATION_ERROR = "AUTHENTICATION_ERROR"
    RATE_LIMITED = "RATE_LIMITED"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    CONTEXT_LENGTH_EXCEEDED = "CONTEXT_LENGTH_EXCEEDED"
    NETWORK_ERROR = "NETWORK_ERROR"
    TIMEOUT = "TIMEOUT"
    INVALID_RESPONSE = "INVALID_RESPONSE"
    UNKNOWN = "UNKNOWN"

    @property
    def category(self) -> ModelErrorCategory:
        """Return the code reduced to four kinds: ``auth``, ``rate_limit``, ``timeout``, ``api_error``."""
        match self:
            case ErrorCode.AUTHENTICATION_ERROR:
                return "auth"
            case ErrorCode.RATE_LIMITED:
                return "rate_limit"
            case ErrorCode.TIMEOUT:
                return "timeout"
            case _:
                return "api_error"


RETRYABLE_CODES = frozenset({ErrorCode.RATE_LIMITED, ErrorCode.NETWORK_ERROR, ErrorCode.TIMEOUT})
"""Codes that are retried if nothing more specific is known."""


class MainspringError(Exception):
    """Base of all intentional exceptions of this package."""


class AgentError(MainspringError):
    """An agent failed. ``outcome`` is the `mainspring.RunResult` of the finished part, if the failure ended a run."""

    outcome: PartialRunResult | None = None


class ProviderError(AgentError):
    """A provider failed: its limit, the key, the network, or its response. Base of failed model calls and of the runs they end."""


class ModelError(ProviderError):
    """A model call failed.

    Attributes:
        code: One of the ten codes.
        reason: A more specific code if known: ``quota``, ``content_filter``, ``bad_request``, ``overloaded``,
            ``not_found``, ``stream_cut``, ... Empty if none is known.
        retryable: Whether the same request may succeed later.
        retry_after: Seconds to wait as requested by the server, if any.
        status: HTTP status, if any.
        provider: Name of the provider, if known.
        model: ID of the model, if known.
        request_id: The provider's ID of the request, for its support.
        partial: The part of the response that arrived before the failure.
    """

    code: ErrorCode = ErrorCode.UNKNOWN

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode | None = None,
        reason: str = "",
        retryable: bool | None = None,
        retry_after: float | None = None,
        status: int | None = None,
        provider: str | None = None,
        model: str | None = None,
        request_id: str | None = None,
        partial: Message | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.reason = reason
        self.retryable = self.code in RETRYABLE_CODES if retryable is None else retryable
        self.retry_after = retry_after
        self.status = status
        self.provider = provider
        self.model = model
        self.request_id = request_id
        self.partial = partial

    @property
    def category(self) -> ModelErrorCategory:
        """Return the category of the code."""
        return self.code.category


class AuthenticationError(ModelError):
    """The key is missing or wrong, or it lacks permission."""

    code = ErrorCode.AUTHENTICATION_ERROR


class RateLimitedError(ModelError):
    """Too many requests, or the quota is used up (``reason == "quota"``)."""

    code = ErrorCode.RATE_LIMITED


class ModelNotFoundError(ModelError):
    """The provider has no such model or deployment."""

    code = ErrorCode.MODEL_NOT_FOUND


class ContextExceededError(ModelError):
    """The conversation does not fit the model's window; never retried unchanged."""

    code = ErrorCode.CONTEXT_LENGTH_EXCEEDED


class NetworkError(ModelError):
    """The host could not be reached, the connection broke, or the server failed (5xx)."""

    code = ErrorCode.NETWORK_ERROR


class ModelTimeoutError(ModelError):
    """No response, or no further byte of it, in time."""

    code = ErrorCode.TIMEOUT


class InvalidResponseError(ModelError):
    """The provider's response is invalid."""

    code = ErrorCode.INVALID_RESPONSE


class ProviderConfigError(ModelError):
    """The provider is unknown or lacks a setting; the message names it and the fix."""

    code = ErrorCode.PROVIDER_NOT_CONFIGURED


MODEL_ERRORS: dict[ErrorCode, type[ModelError]] = {
    ErrorCode.PROVIDER_NOT_CONFIGURED: ProviderConfigError,
    ErrorCode.PROVIDER_NOT_SUPPORTED: ProviderConfigError,
    ErrorCode.AUTHENTICATION_ERROR: AuthenticationError,
    ErrorCode.RATE_LIMITED: RateLimitedError,
    ErrorCode.MODEL_NOT_FOUND: ModelNotFoundError,
    ErrorCode.CONTEXT_LENGTH_EXCEEDED: ContextExceededError,
    ErrorCode.NETWORK_ERROR: NetworkError,
    ErrorCode.TIMEOUT: ModelTimeoutError,
    ErrorCode.INVALID_RESPONSE: InvalidResponseError,
    ErrorCode.UNKNOWN: ModelError,
}
"""The exception class of each code."""


def model_error(message: str, *, code: ErrorCode, **fields: Any) -> ModelError:
    """Create the error of the class for ``code``; see `ModelError` for the fields."""
    return MODEL_ERRORS[code](message, code=code, **fields)


def single_conversation_error(plug: str) -> ConfigError:
    """Return the error of a plugin that stores data of one conversation and cannot serve another."""
    return ConfigError(
        f"{plug} belongs to one conversation. Create one for each: agent.conversation(session=session, plugs=[{plug}(...)])."
    )


_find_option_advice = lazy_function("mainspring.other_names", "find_option_advice")
_find_attribute_advice = lazy_function("mainspring.other_names", "find_attribute_advice")
_find_misuse_advice = lazy_function("mainspring.other_names", "find_misuse_advice")


def check_option_names(
    owner: str, given: Iterable[str], known: Iterable[str], elsewhere: Callable[[str], str] | None = None
) -> None:
    """Reject unknown keywords and suggest the intended one. For functions with ``**options``, which Python does not check.

    Args:
        owner: The function that takes the options, as the message names it, for example ``a run``.
        given: The passed names.
        known: The known names.
        elsewhere: Returns where a name is an option instead, as a sentence; empty if nowhere.

    Raises:
        TypeError: For the first unknown name.
    """
    names = sorted(known)
    for name in given:
        if name not in names:
            hint = (elsewhere and elsewhere(name)) or _find_option_advice(owner, name)
            hint = hint or suggest_name(name, names, f"Options: {', '.join(names)}.")
            raise TypeError(f"Unknown option of {owner}: {name!r}. {hint}")


def attribute_error(owner: object, kind: str, name: str) -> AttributeError:
    """Return the error of a missing attribute, which names the counterpart of an attribute of other libraries.

    An error that the getter of an existing property raises is raised again, since Python hides it.

    Args:
        owner: The object.
        kind: Name of its class in the advice.
        name: Name of the attribute.
    """
    if isinstance(getattr(type(owner), name, None), property):
        object.__getattribute__(owner, name)
    advice = _find_attribute_advice(kind, name)
    text = f"{type(owner).__name__!r} object has no attribute {name!r}{advice and f'. {advice}'}"
    return AttributeError(text, name=name, obj=owner)


def describe_failure(error: BaseException) -> str:
    """Return the text of an exception for data, for example an event, a stored entry, or a tool result.

    Of an aborted run and a missing output it is only the reason, since the advice in the text is for code. Of a group it contains the texts of its
    exceptions, which the group's own text only counts.
    """
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return f"{group.message}: {'; '.join(map(format_exception, group.exceptions))}"
    if isinstance(error, AgentOutputError):
        return error.reason or str(error)
    return error.reason if isinstance(error, AgentAbortedError) else str(error)


def format_exception(error: BaseException) -> str:
    """Return the class and the text of an exception; the class alone if it has no text, for example of a plain ``assert``."""
    text = describe_failure(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def misuse_error(kind: str, syntax: str, problem: str) -> TypeError:
    """Return the error of a use of a class that other libraries have, which names the counterpart."""
    return TypeError(f"{kind!r} object {problem}. {_find_misuse_advice(kind, syntax)}")


class PartialRunResult(Protocol):
    """The work of a failed run. The object is a `mainspring.RunResult`, which has more properties."""

    @property
    def status(self) -> str:
        """How the run ended."""
        ...

    @property
    def text(self) -> str:
        """Text of the last response."""
        ...

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """Messages that the run added to the history."""
        ...

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the model stopped last."""
        ...

    @property
    def usage(self) -> Usage:
        """Tokens of the run."""
        ...

    @property
    def cost(self) -> Cost | None:
        """US dollars; ``None`` if a price is unknown."""
        ...

    @property
    def turns(self) -> int:
        """Number of completed model calls."""
        ...

    @property
    def stats(self) -> Any:
        """Figures of the run: `mainspring.AgentStats`."""
        ...

    @property
    def run_id(self) -> str:
        """ID of the run."""
        ...


class AgentProviderError(ProviderError):
    """The model could not be used; ``cause`` is the ModelError, if any."""

    def __init__(self, message: str, *, cause: ModelError | None = None) -> None:
        super().__init__(message)
        self.cause = cause
        self.__cause__ = cause


class AgentContextExceededError(AgentProviderError):
    """The conversation does not fit the model's window and nothing could make it fit."""


class AgentAbortedError(AgentError):
    """The run was stopped by ``abort()`` or by the caller's `CancelToken`.

    Attributes:
        reason: The reason that the caller passed.
    """

    def __init__(self, reason: str = "aborted") -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        reason = "" if self.reason in ("", "aborted") else f": {self.reason.removesuffix('.')}"
        return (
            f"The run was aborted{reason}. The conversation keeps the messages so far. To continue it, run the agent again, with "
            "another prompt or without one."
        )


class AgentBusyError(AgentError):
    """A second run was started during a run."""

    def __init__(
        self,
        message: str = "This agent is already running. Wait for its run to end, send the run a message with agent.steer(...) or "
        "agent.follow_up(...), or start a parallel run in its own conversation: agent.conversation().",
    ) -> None:
        super().__init__(message)


class AgentOutputError(AgentError):
    """A run ended without the requested structured output; ``outcome`` has the reason and the text of the response.

    Attributes:
        reason: What happened, without the advice for code; empty if it is not separate.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ConfigError(AgentError):
    """A setting, a file, or an option is wrong; the message names it and its location."""


class ConfigWarning(UserWarning):
    """A valid option probably has no effect: for example a rule about an unknown tool."""


class ToolError(AgentError):
    """Raise it in a tool to give the model a clear error result."""


class PermissionDeniedError(AgentError):
    """A rule or the user denied a call; the message contains the rule and a way to allow the call."""


class SessionError(MainspringError):
    """A session cannot be opened, read, or written."""


class DurableError(MainspringError):
    """A run does not exist, has failed, or cannot be resumed by the current code."""


def __dir__() -> list[str]:
    """Return the names that this module defines, without its imports."""
    return [
        name for name, value in globals().items() if name[0] != "_" and getattr(value, "__module__", "") == __name__
    ]
