"""Every exception that Mainspring raises, in one tree.

```
MainspringError
├── ModelError                    a model call failed (raised by the model port)
│   ├── AuthenticationError       key missing, wrong or without rights
│   ├── RateLimitedError          too many requests; ``retry_after`` may say how long to wait
│   ├── ModelNotFoundError        no such model or deployment
│   ├── ContextExceededError      the conversation does not fit the model's window
│   ├── NetworkError              host unreachable, connection lost, 5xx
│   ├── ModelTimeoutError         no answer in time
│   ├── InvalidResponseError      the provider's answer cannot be understood
│   └── ProviderConfigError       provider unknown or not configured
├── AgentError                    a run failed (raised by ``run()`` and ``result()``)
│   ├── AgentProviderError        wraps the ModelError that ended the run (``cause``)
│   ├── AgentContextExceededError nothing could make the conversation fit
│   ├── AgentAbortedError         ``abort()`` or the caller's signal ended the run
│   └── AgentBusyError            the agent is already running
├── ConfigError                   a setting, file or option is wrong
├── ToolError                     a tool failed in a way the model should read
├── PermissionDeniedError         a rule or a person refused
├── SessionError                  a session cannot be opened, read or written
└── DurableError                  a durable run cannot be stored, found, or continued

ConfigWarning                     an option does nothing: told with Python's ``warnings``
```

Messages say what happened, why and what to do, and never hold a secret.

What can go wrong with runs that an engine keeps.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mainspring.messages import AgentMessage, Cost, Message, StopReason, Usage


ModelErrorCategory = Literal["auth", "rate_limit", "timeout", "api_error"]


class ErrorCode(StrEnum):
    """What kind of failure a model call met; the closed list of ten."""

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


RETRYABLE_CODES = frozenset({ErrorCode.RATE_LIMITED, ErrorCode.NETWORK_ERROR, ErrorCode.TIMEOUT})
"""Codes that are worth another try when nothing finer is known."""


class MainspringError(Exception):
    """Base of everything raised on purpose by this package."""


class ModelError(MainspringError):
    """A model call failed.

    Attributes:
        code: One of the ten codes.
        reason: A finer word where one is known: ``quota``, ``content_filter``, ``bad_request``, ``overloaded``,
            ``not_found``, ``stream_cut``, ... Empty if there is none.
        retryable: Whether the same request may succeed later.
        retry_after: Seconds the server asked to wait, if it did.
        status: HTTP status, if there was one.
        provider: Name of the provider, if known.
        model: Id of the model, if known.
        request_id: The provider's id of the request, for its support.
        partial: What had arrived of the answer before it failed.
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
        """The code folded to four kinds: ``auth``, ``rate_limit``, ``timeout``, ``api_error``."""
        match self.code:
            case ErrorCode.AUTHENTICATION_ERROR:
                return "auth"
            case ErrorCode.RATE_LIMITED:
                return "rate_limit"
            case ErrorCode.TIMEOUT:
                return "timeout"
            case _:
                return "api_error"


class AuthenticationError(ModelError):
    """The key is missing, wrong, or lacks the right."""

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
    """No answer, or no further byte of one, in time."""

    code = ErrorCode.TIMEOUT


class InvalidResponseError(ModelError):
    """The provider's answer cannot be understood."""

    code = ErrorCode.INVALID_RESPONSE


class ProviderConfigError(ModelError):
    """The provider is unknown or lacks a setting; the text says which one and how to give it."""

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
"""The class that stands for each code."""


def model_error(message: str, *, code: ErrorCode, **fields: Any) -> ModelError:
    """The error of the class that stands for ``code``; fields as in `ModelError`."""
    return MODEL_ERRORS[code](message, code=code, **fields)


def check_option_names(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse keywords that do not exist and name the one that was meant. For whoever takes ``**options``: Python looks at none there.

    Args:
        owner: Who takes them, as in ``a run``.
        given: The names that were given.
        known: The names that there are.

    Raises:
        TypeError: For the first that there is not.
    """
    names = sorted(known)
    for name in given:
        if name not in names:
            import difflib

            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
            raise TypeError(f"{owner} has no option {name!r}; {hint}")


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
    def run_id(self) -> str:
        """ID of the run."""
        ...


class AgentError(MainspringError):
    """A run failed. ``outcome`` is the `mainspring.RunResult` of the finished part, if the run started."""

    outcome: PartialRunResult | None = None


class AgentProviderError(AgentError):
    """The model could not be used; ``cause`` is the ModelError, where there is one."""

    def __init__(self, message: str, *, cause: ModelError | None = None) -> None:
        super().__init__(message)
        self.cause = cause
        self.__cause__ = cause


class AgentContextExceededError(AgentProviderError):
    """The conversation does not fit the model's window and nothing could make it fit."""


class AgentAbortedError(AgentError):
    """The run was stopped by ``abort()`` or by the caller's signal."""


class AgentBusyError(AgentError):
    """A second run was started while one is going on; use ``steer()`` or ``follow_up()``."""


class ConfigError(MainspringError):
    """A setting, a file or an option is wrong; the text names it and its place."""


class ConfigWarning(UserWarning):
    """An option that can be what it is and does nothing, as far as can be seen: a rule about a tool that is not there, say."""


class ToolError(MainspringError):
    """Raise it in a tool to give the model a clear error result."""


class PermissionDeniedError(MainspringError):
    """A rule or a person refused; the text says which and how to allow it."""


class SessionError(MainspringError):
    """A session cannot be opened, read or written."""


class DurableError(MainspringError):
    """A run that does not exist, has failed, or cannot be taken up by the code that is there."""
