"""`mainspring --sandbox`: what a model asks for is held, and people are told by what."""

import json
from pathlib import Path

import pytest

from mainspring.env.sandbox import Bubblewrap
from tests.e2e.command import KEY, Command, command
from tests.e2e.servers.chat import Reply
from tests.sandboxes import LAYERS, layer

__all__ = ["command"]

pytestmark = [pytest.mark.timeout(120), pytest.mark.covers("BYD-17", "OPT-03")]


@pytest.mark.parametrize("name", LAYERS)
def test_tools_are_held(command: Command, name: str) -> None:
    layer(name)
    (command.folder / ".agentignore").write_text("private/\n", encoding="utf-8")
    (command.folder / "private").mkdir()
    (command.folder / "private" / "a").write_text("HIDDEN", encoding="utf-8")
    (command.folder / "src").mkdir()
    outside = command.folder.parent / f"{command.folder.name}-outside"
    script = f"echo in > src/b; echo out > {outside}; cat p*/a; curl -m 3 {command.server.base_url}; env"
    program = command.folder / "run.sh"  # in a file, so that the rules do not see what it does
    program.write_text(script, encoding="utf-8")
    command.server.script += [Reply("", calls=[("shell", {"command": "sh ./run.sh"}), ("list_files", {})]), "done"]

    done = command.run("-p", "x", "--sandbox", name, "--allow", "shell", "--allow", "list_files")

    assert (done.code, done.out) == (0, "done\n")
    assert f"sandbox: {name}" in done.err.lower()
    assert (command.folder / "src" / "b").read_text(encoding="utf-8") == "in\n"
    assert not outside.exists()
    results = json.dumps(command.server.requests[1]["messages"][-2:])
    assert "HIDDEN" not in results
    assert KEY not in results
    assert "private" not in json.dumps(command.server.requests[1]["messages"][-1])


def test_the_strongest_layer_is_taken_and_keys_stay_hidden(command: Command) -> None:
    layer("landlock" if Bubblewrap().problem() else "bubblewrap")
    key = Path(command.home) / ".ssh" / "id_rsa"
    key.parent.mkdir(parents=True)
    key.write_text("PRIVATE", encoding="utf-8")
    program = command.folder / "run.sh"
    program.write_text(f"cat {key}", encoding="utf-8")
    calls = [("read_file", {"path": str(key)}), ("shell", {"command": "sh ./run.sh"})]
    command.server.script += [Reply("", calls=calls), "done"]

    done = command.run("-p", "x", "--sandbox", "--allow", f"read_file({key})", "--allow", "shell")

    assert (done.code, done.out) == (0, "done\n")
    assert "holds writes outside the project" in done.err
    read, ran = command.server.requests[1]["messages"][-2:]
    assert "the sandbox hides it" in json.dumps(read)
    assert "cat: " in json.dumps(ran)
    assert "PRIVATE" not in json.dumps([read, ran])


def test_without_a_sandbox_nothing_starts(command: Command) -> None:
    done = command.run("-p", "x", "--sandbox", "seatbelt")

    assert done.code == 2
    assert "no sandbox works here, so nothing was started: Seatbelt is there on macOS only" in done.err
    assert command.server.requests == []


def test_an_open_network_needs_a_sandbox(command: Command) -> None:
    done = command.run("-p", "x", "--sandbox-network")

    assert done.code == 2
    assert "add --sandbox" in done.err
