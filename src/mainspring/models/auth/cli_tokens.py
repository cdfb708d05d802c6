"""Tokens of the logged-in command-line tools ``az`` and ``gh``."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from mainspring.errors import ProviderConfigError
from mainspring.models.auth.tokens import Token, TokenCredential
from mainspring.programs import explain_missing_program, find_program, wait_for_end
from mainspring.redaction import redact_environment

_MAX_MESSAGE_LENGTH = 500  # maximum number of characters of its error output


class CommandOutput(Struct, frozen=True):
    """Output of a command.

    Attributes:
        code: Exit code.
        out: Standard output.
        complaint: The end of the error output, redacted, or the exit code if it is empty.
    """

    code: int
    out: bytes
    complaint: str


async def run_cli(*command: str, timeout: float) -> CommandOutput:
    """Run a command without input and wait for it.

    Args:
        command: Program and arguments.
        timeout: Time limit in seconds, after which the command is killed.

    Raises:
        TimeoutError: The command timed out.
        OSError: The command cannot be started.
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
            await wait_for_end(process)
    code = process.returncode or 0
    error_text = redact_environment(err.decode("utf-8", "replace").strip())[-_MAX_MESSAGE_LENGTH:]
    return CommandOutput(code, out, error_text or f"exit code {code}")


_CLI_TIMEOUT = 15.0
"""Time limit of ``gh`` in seconds: it may have to wait for the system's keyring."""


_TOKEN_TTL = 900.0  # seconds until gh is called again, so that another login is noticed


TOKEN_HELP = (
    "Set providers.github.apiKey (or its other name, token; in code: api_key=...), set the environment variable GITHUB_TOKEN, "
    "or run `gh auth login` (its token is read with `gh auth token --secure-storage`)."
)
"""Instructions to provide a token, in the order in which the sources are tried."""


def is_cli_installed() -> bool:
    """Return True if the GitHub CLI is on PATH, outside the current folder."""
    return find_program("gh") is not None


class GitHubCliCredential(TokenCredential):
    """The token that ``gh auth token --secure-storage`` prints.

    Args:
        timeout: Time limit of the command in seconds.
    """

    def __init__(self, *, timeout: float = _CLI_TIMEOUT) -> None:
        super().__init__(self._ask, refresh_margin=0.0)
        self._timeout = timeout

    async def _ask(self, rejected_token: str | None) -> Token:
        program = await asyncio.to_thread(find_program, "gh")
        if program is None:
            raise missing_token_error(f"the GitHub CLI (`gh`) {explain_missing_program('gh')}")
        try:
            output = await run_cli(program, "auth", "token", "--secure-storage", timeout=self._timeout)
        except TimeoutError:
            raise missing_token_error(f"`gh auth token` did not finish within {self._timeout:g}s") from None
        except OSError as error:
            raise missing_token_error(f"`gh` could not be started: {error}") from error
        value = output.out.decode("utf-8", "replace").strip()
        if output.code or not value:
            raise missing_token_error(f"`gh auth token` returned no token: {output.complaint}")
        return Token(value, self._clock() + _TOKEN_TTL)


def missing_token_error(why: str) -> ProviderConfigError:
    """Return the error for a missing token, with instructions."""
    return ProviderConfigError(f"No GitHub token: {why}. {TOKEN_HELP}", reason="missing_key", provider="github")
