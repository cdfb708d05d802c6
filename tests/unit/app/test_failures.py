"""Error messages for users."""

import pytest

from mainspring.app.cli.errors import describe_error
from mainspring.errors import AgentProviderError, ModelError, RateLimitedError


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.0, "1 seconds"), (90.0, "90 seconds"), (600.0, "10 minutes"), (7300.0, "2 hours"), (3600.0, "60 minutes")],
)
def test_retry_time_of_the_server_is_shown(seconds: float, text: str) -> None:
    error = RateLimitedError("slow down", retry_after=seconds)

    assert f"Retry after {text}, as the server requests: resume with --continue" in describe_error(
        AgentProviderError(str(error), cause=error)
    )
    assert "Wait and resume" in describe_error(RateLimitedError("slow down"))


def test_not_found_error_suggests_the_base_url() -> None:
    error = ModelError("404 Not Found (HTTP 404, compatible, host)", status=404, provider="compatible")

    assert "check the base URL" in describe_error(AgentProviderError(str(error), cause=error))
