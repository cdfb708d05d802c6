"""The client that the official suite drives, against a server of our own."""

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


class Agreeing(HttpServer):
    """A server whose login page sends everybody back."""

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], Any]:
        if path.startswith("/authorize?"):
            return 302, {"Location": self.visit(path)}, None
        return super()._answer(method, path, headers, body)


@pytest.mark.parametrize("login", [False, True])
async def test_a_server_is_used_after_a_login_where_it_wants_one(
    login: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Agreeing(login=login).running() as server:
        assert await run(server.url, {}) == 0

    told = capsys.readouterr().err
    assert ("requires a login" in told) == login
    assert "echo: " in told


async def test_a_server_that_cannot_be_reached_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run("http://127.0.0.1:9/mcp", {}) == 1
    assert "cannot reach" in capsys.readouterr().err


def test_without_an_address_it_says_how_it_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert USAGE_TEXT in capsys.readouterr().err
    done = subprocess.run(
        [sys.executable, "-m", "mainspring.testing.mcp_conformance"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, USAGE_TEXT in done.stderr) == (2, True)
