"""Errors in the command line of `serve --http`."""

from pathlib import Path

import pytest

from mainspring.app.cli.main import main

SHORT, NONE = "SHORT", "NONE"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--token-file", NONE), "No such file"),
        (("--token-file", SHORT), "at least 16"),
        (("--agents", "no_such:agents"), "no_such"),
        (("--agents", "nothing"), "MODULE:ATTRIBUTE"),
        (("--agents", "json:nothing"), "no attribute nothing"),
        (("--agents", "json:__name__"), "must be a function"),
        ((), "leaves no agent"),
        (("--agents", "json:loads", "--host", "192.0.2.1"), "Cannot listen on 192.0.2.1"),
        (("--port", "70000"), "must be a port"),
        (("--url", "sqlite:///x.db"), "add --work"),
        (("--session", "x"), "--session"),
    ],
)
def test_invalid_serve_options_are_reported(
    arguments: tuple[str, ...], why: str, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / SHORT).write_text("ann abc\n")
    given = [str(tmp_path / a) if a in (SHORT, NONE) else a for a in arguments]
    code = main(["serve", "--http", "--only-agents", "--cwd", str(tmp_path), *given])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert why in err
