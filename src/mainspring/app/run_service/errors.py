"""What can go wrong with a request to a service."""

from __future__ import annotations

from mainspring.errors import MainspringError


class ServiceError(MainspringError):
    """A request that cannot be done.

    Attributes:
        code: What kind it is, for programs.
        retry_after: Seconds after which it may work; 0 if that is not known.
    """

    def __init__(self, code: str, text: str, *, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.code = code
        self.retry_after = retry_after


class RunNotFoundError(ServiceError):
    """There is no such run, or it is another tenant's: the same to whoever asks."""

    def __init__(self) -> None:
        super().__init__("unknown_run", "there is no such run")


class ConflictError(ServiceError):
    """The run is not in a state for it."""


class NotFoundError(ServiceError):
    """What a request names is not there."""


class LimitError(ServiceError):
    """A limit was reached."""


class ShuttingDownError(ServiceError):
    """The service is about to end and takes nothing on."""


class InvalidError(ServiceError):
    """What was sent does not fit, in a way that no schema says."""

    def __init__(self, text: str) -> None:
        super().__init__("invalid", text)
