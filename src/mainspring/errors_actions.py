"""What can go wrong with runs that an engine keeps."""

from __future__ import annotations

from mainspring.errors import MainspringError


class DurableError(MainspringError):
    """A run that does not exist, has failed, or cannot be taken up by the code that is there."""
