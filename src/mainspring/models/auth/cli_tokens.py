"""What a command line that is logged in somewhere says: the tokens of ``az`` and ``gh``.

The token of whoever is logged in at GitHub's command line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from msgspec import Struct

from mainspring.errors import ProviderConfigError
from mainspring.models.auth.tokens import Token, TokenCredential
from mainspring.programs import find_program
from mainspring.redaction import redact_environment

_MAX_MESSAGE_LENGTH = 500  # characters of what it complained about


class CommandOutput(Struct, frozen=True):
    """What a command said.

    Attributes:
        code: Its exit code.
        out: Its output.
        complaint: The end of its error output without secrets, or its exit code if it said nothing.
    """

    code: int
    out: bytes
    complaint: str


async def run_cli(*command: str, timeout: float) -> CommandOutput:
    """Run a command that cannot ask back, and wait for it.

    Args:
        command: Program and arguments.
        timeout: Seconds it may take; it is killed then.

    Raises:
        TimeoutError: If it did not end in time.
        OSError: If it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(timeout):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    code = process.returncode or 0
    said = redact_environment(err.decode("utf-8", "replace").strip())[-_MAX_MESSAGE_LENGTH:]
    return CommandOutput(code, out, said or f"exit code {code}")


_CLI_TIMEOUT = 15.0
"""Seconds that ``gh`` may take: it may have to wait for the system's key ring."""


_TOKEN_TTL = 900.0  # seconds until it is asked again, so that another login is noticed


TOKEN_HELP = (
    "set providers.github.apiKey (in code: api_key=...), set the environment variable GITHUB_TOKEN, "
    "or log in with `gh auth login` (its token is read with `gh auth token --secure-storage`)"
)
"""The ways to give a token, in the order in which they are tried."""


def is_cli_installed() -> bool:
    """Whether GitHub's command line is on PATH."""
    return find_program("gh") is not None


class GitHubCliCredential(TokenCredential):
    """The token that ``gh auth token --secure-storage`` prints.

    Args:
        timeout: Seconds the command may take.
        clock: Seconds since 1970.
    """

    def __init__(self, *, timeout: float = _CLI_TIMEOUT, clock: Callable[[], float] = time.time) -> None:
        super().__init__(self._ask, refresh_margin=0.0, clock=clock)
        self._timeout = timeout

    async def _ask(self, rejected_token: str | None) -> Token:
        program = await asyncio.to_thread(find_program, "gh")
        if program is None:
            raise missing_token_error("GitHub's command line `gh` is not installed")
        try:
            said = await run_cli(program, "auth", "token", "--secure-storage", timeout=self._timeout)
        except TimeoutError:
            raise missing_token_error(f"`gh auth token` did not answer within {self._timeout:g} s") from None
        except OSError as error:
            raise missing_token_error(f"`gh` cannot be started: {error}") from error
        value = said.out.decode("utf-8", "replace").strip()
        if said.code or not value:
            raise missing_token_error(f"`gh auth token` gave none: {said.complaint}")
        return Token(value, self._clock() + _TOKEN_TTL)


def missing_token_error(why: str) -> ProviderConfigError:
    """The error that there is no token, with the ways to give one."""
    return ProviderConfigError(
        f"No token for github: {why}. To give one, {TOKEN_HELP}", reason="missing_key", provider="github"
    )
