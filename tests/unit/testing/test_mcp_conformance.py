"""The client for the official conformance suite, with a local server."""

import subprocess
import sys
from typing import Any

import pytest

from mainspring.testing.mcp_conformance import USAGE_TEXT, main, run, sample_arguments
from tests.unit.mcp.http_server import HttpServer


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, {}),
        ({"properties": {"a": {"type": "string"}}}, {}),
        ({"properties": {"a": {"type": "number"}, "b": {"type": "string"}}, "required": ["a", "b"]}, {"a": 5, "b": "text"}),
        ({"properties": {"a": {"enum": ["x", "y"]}, "b": {"default": 7}, "c": {"const": None}}, "required": ["a", "b", "c"]}, {"a": "x", "b": 7, "c": None}),
        ({"properties": {"a": {"type": ["integer", "null"]}, "b": True}, "required": ["a", "b"]}, {"a": 5, "b": "text"}),
    ],
)  # fmt: skip
def test_sample_arguments_fit_the_schema(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert sample_arguments(schema) == expected


class AutoApprovingServer(HttpServer):
    """A server whose login page redirects immediately."""

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], Any]:
        if path.startswith("/authorize?"):
            return 302, {"Location": self.visit(path)}, None
        return super()._answer(method, path, headers, body)


@pytest.mark.parametrize("login", [False, True])
async def test_client_uses_a_server_with_and_without_login(login: bool, capsys: pytest.CaptureFixture[str]) -> None:
    async with AutoApprovingServer(login=login).running() as server:
        assert await run(server.url, {}) == 0

    error_output = capsys.readouterr().err
    assert ("requires a login" in error_output) == login
    assert "echo: " in error_output


async def test_unreachable_server_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run("http://127.0.0.1:9/mcp", {}) == 1
    assert "cannot reach" in capsys.readouterr().err


def test_missing_address_prints_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert USAGE_TEXT in capsys.readouterr().err
    done = subprocess.run(
        [sys.executable, "-m", "mainspring.testing.mcp_conformance"],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (done.returncode, USAGE_TEXT in done.stderr) == (2, True)
