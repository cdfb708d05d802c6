"""The config commands: set up and test a provider; set, edit, and validate values; show the source of each."""

import json
import os
import pty
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring.models.provider_table import PROVIDERS
from tests.e2e.command import KEY, Command, command
from tests.e2e.servers.chat import error

__all__ = ["command"]

pytestmark = pytest.mark.slow


def user_file(command: Command) -> Path:
    return command.home / ".agent" / "settings.json"


def test_config_init_saves_a_provider_that_responds(command: Command) -> None:
    command.variables |= {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
    command.settings('{\n  // mine\n  "model": "anthropic:x",\n}\n')
    command.server.script += ["hello", "4"]

    done = command.run(
        "config", "init", "mine", "--url", command.server.base_url, "--model", "m-1", "--key", "-", piped=f"{KEY}\n"
    )

    assert (done.code, done.out) == (0, "")
    assert "Response: hello" in done.err
    assert "removed model (anthropic:x)" in done.err
    assert KEY not in done.err
    assert command.server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert stat.S_IMODE(user_file(command).stat().st_mode) == 0o600
    assert "// mine" in user_file(command).read_text(encoding="utf-8")
    result = command.run("-p", "2+2?", "--output", "json")
    assert (result.code, result.result["model"]["spec"]) == (0, "mine:m-1")


def test_config_init_of_local_takes_the_default_model(command: Command) -> None:
    profile = PROVIDERS["local"]

    done = command.run("config", "init", "local", "--no-test")

    assert (done.code, f"Model: local:{profile.model}" in done.err) == (0, True), done.err
    providers = json.loads(user_file(command).read_text(encoding="utf-8"))["providers"]
    assert providers == {"local": {"baseUrl": profile.base_url, "model": profile.model}, "default": "local"}


def test_config_init_saves_nothing_if_the_provider_fails(command: Command) -> None:
    command.server.script.append(error(401, "bad key"))

    done = command.run("config", "init", "openai", "--key", "sk-wrong-0123456789")

    assert done.code == 5
    assert "Your changes were not saved. To save them without a test, use --no-test." in done.err
    assert "sk-wrong-0123456789" not in done.err
    assert not user_file(command).exists()
    missing = command.run("config", "init", "compatible", "--model", "m")
    assert (missing.code, "--url" in missing.err) == (2, True)
    assert "--no-test" not in missing.err
    without_provider = command.run("config", "init")
    assert (without_provider.code, "requires a provider if stdin is not a terminal" in without_provider.err) == (
        2,
        True,
    )
    saved = command.run("config", "init", "openai", "--key", "sk-later-0123456789", "--no-test")
    assert (saved.code, "sk-later" in user_file(command).read_text(encoding="utf-8")) == (0, True)


def test_config_init_accepts_a_key_command_or_a_key_file(command: Command) -> None:
    command.variables["OPENAI_API_KEY"] = ""
    command.server.script += ["hello", "1", "hello", "2"]

    assert command.run("config", "init", "openai", "--key-command", f"echo {KEY}").code == 0
    assert command.run("-p", "x").out == "1\n"
    key = command.folder / "key"
    key.write_text(KEY, encoding="utf-8")
    open_to_all = command.run("config", "init", "openai", "--key-file", str(key))
    assert (open_to_all.code, "chmod 600" in open_to_all.err) == (2, True)
    key.chmod(0o600)
    assert command.run("config", "init", "openai", "--key-file", str(key)).code == 0
    assert command.run("-p", "x").out == "2\n"
    providers = json.loads(user_file(command).read_text(encoding="utf-8"))["providers"]["openai"]
    assert providers == {"apiKeyFile": str(key), "model": "gpt-5-mini"}
    assert {h["authorization"] for h in command.server.headers} == {f"Bearer {KEY}"}


def test_providers_are_listed_and_removed(command: Command) -> None:
    command.run("config", "provider", "add", "mine", "--url", "http://127.0.0.1:1/v1", "--model", "m", "--no-test")

    listed = command.run("config", "provider", "list")
    assert "* mine" in listed.out
    views = {v["name"]: v for v in json.loads(command.run("config", "provider", "--json").out)}
    assert (views["mine"]["state"], views["mine"]["default"], views["anthropic"]["state"]) == ("down", True, "missing")
    assert views["mine"]["lack"].startswith("Nothing answers at http://127.0.0.1:1/v1.")
    command.run(
        "config",
        "provider",
        "add",
        "live",
        "--url",
        command.server.base_url,
        "--model",
        "m",
        "--no-test",
        "--no-default",
    )
    views = {v["name"]: v for v in json.loads(command.run("config", "provider", "--json").out)}
    assert (views["live"]["state"], views["live"]["lack"]) == ("ready", "")
    assert command.run("config", "provider", "remove", "live").code == 0
    assert command.run("config", "provider", "remove", "mien").code == 2
    assert command.run("config", "provider", "remove", "mine").code == 0
    assert json.loads(user_file(command).read_text(encoding="utf-8")) == {"providers": {"mine": {}, "live": {}}}
    assert command.run("config", "provider", "add").code == 2


def test_config_show_prints_the_source_of_each_value(command: Command) -> None:
    command.settings({"agent": {"maxTurns": 5}, "ui": {"theme": "dark"}})
    command.variables |= {"AGENT_MODEL": "openai:m", "MAINSPRING_THINKING": "high"}
    (command.folder / ".agent").mkdir()
    (command.folder / ".agent" / "settings.json").write_text('{"agent": {"maxTurns": 3}}', encoding="utf-8")

    lines = dict(line.split(" = ", 1) for line in command.run("config", "show").out.splitlines())

    assert lines["model"].split("   # ")[1].strip() == "environment"
    assert lines["agent.maxTurns"].startswith("3 ")
    assert lines["agent.maxTurns"].endswith(f"# {command.folder}/.agent/settings.json")
    assert lines["agent.thinking"].startswith('"high"')
    assert lines["ui.theme"].endswith(f"# {user_file(command)}")
    every = command.run("config", "show", "--all").out
    assert 'instructions.files = ["AGENTS.md", "CLAUDE.md"]' in every
    assert "# default" in every


def test_config_validate_reports_every_error(command: Command) -> None:
    assert command.run("config", "validate").code == 0
    command.settings('{\n  "agent": {"maxTokens": "x", "temperature": 9},\n  "ui": {"theme": "drak"}\n}')

    done = command.run("config", "validate")

    assert done.code == 2
    assert [line.split("settings.json")[1].split(": ")[0] for line in done.out.splitlines()] == [
        ":2:26",
        ":2:46",
        ":3:19",
    ]
    command.settings({"agnet": {}})
    assert command.run("config", "validate").code == 0
    strict = command.run("config", "validate", "--strict", "--json")
    assert (strict.code, json.loads(strict.out)[0]["level"]) == (2, "error")
    command.settings({"providers": {"default": "nobody"}, "permissions": {"deny": ["edit("]}})
    both = command.run("config", "validate")
    assert (both.code, "edit(" in both.out, "nobody" in both.out) == (2, True, True)


def set_editor(command: Command, code: str) -> None:
    script = command.folder / "editor.py"
    script.write_text(
        f"import sys, pathlib\nfile = pathlib.Path(sys.argv[1])\ntext = file.read_text()\n{code}\n", encoding="utf-8"
    )
    command.variables["EDITOR"] = f"{sys.executable} {script}"


def test_config_edit_saves_only_valid_settings(command: Command) -> None:
    set_editor(command, "file.write_text(text.replace('{', '{ \"model\": \"a:b\",', 1))")
    done = command.run("config", "edit")
    assert (done.code, "Saved " in done.err) == (0, True)
    before = user_file(command).read_text(encoding="utf-8")
    assert '"model": "a:b"' in before
    assert stat.S_IMODE(user_file(command).stat().st_mode) == 0o600

    set_editor(command, 'file.write_text(\'{"agent": {"maxTokens": "x"}}\')')
    broken = command.run("config", "edit")
    assert (broken.code, ":1:25: agent.maxTokens must be an integer" in broken.err) == (2, True)
    assert user_file(command).read_text(encoding="utf-8") == before

    set_editor(command, "sys.exit(3)")
    assert command.run("config", "edit").code == 2
    user_file(command).write_text("{ broken", encoding="utf-8")
    set_editor(command, "file.write_text('{}')")
    assert command.run("config", "edit").code == 0
    assert user_file(command).read_text(encoding="utf-8") == "{}"


def test_config_schema_prints_the_documented_schema(command: Command, repository: Path) -> None:
    done = command.run("config", "schema")

    assert json.loads(done.out) == json.loads(
        (repository / "docs" / "settings.schema.json").read_text(encoding="utf-8")
    )


def run_dialog(command: Command, answers: list[tuple[str, str]], *arguments: str) -> tuple[int, str]:
    """Run the command on a terminal and answer its questions; return the exit code and the output."""
    master, slave = pty.openpty()
    process = command.start(*arguments, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    output = ""
    waiting = list(answers)
    seen = 0
    while True:
        if waiting and waiting[0][0] in output[seen:]:
            seen = len(output)
            os.write(master, (waiting.pop(0)[1] + "\n").encode())
        try:
            piece = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        output += piece.decode("utf-8", "replace")
    os.close(master)
    return process.wait(), output


def test_init_wizard_asks_for_settings_on_a_terminal(command: Command) -> None:
    command.variables |= {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
    command.server.script.append("hello")
    answers = [
        ("Number or name [openai]:", "compatbile"),
        ("Unknown provider: 'compatbile'", "compatible"),
        ("Name of the provider [mine]:", "lab"),
        ("Base URL, up to /v1:", command.server.base_url),
        ("Model:", ""),
        ("Model is required", "m-1"),
        ("API key (hidden", KEY),
    ]

    code, output = run_dialog(command, answers, "config", "init")

    assert code == 0, output
    assert KEY not in output
    assert "Response: hello" in output
    providers = json.loads(user_file(command).read_text(encoding="utf-8"))["providers"]
    assert providers == {
        "lab": {"baseUrl": command.server.base_url, "model": "m-1", "apiKey": KEY},
        "default": "lab",
    }


def test_init_wizard_asks_before_saving_a_failing_provider(command: Command) -> None:
    command.server.script += [error(401, "bad key")] * 2
    answers = [
        ("Model [gpt-5-mini]:", ""),
        ("API key (hidden, empty to use OPENAI_API_KEY):", "sk-wrong-0123456789"),
    ]

    code, output = run_dialog(command, [*answers, ("Save it anyway? (y/N):", "")], "config", "init", "openai")
    assert (code, "No changes" in output) == (2, True), output
    assert not user_file(command).exists()

    code, output = run_dialog(command, [*answers, ("Save it anyway? (y/N):", "y")], "config", "init", "openai")
    assert code == 0, output
    assert "sk-wrong" in user_file(command).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ('"endpoint": "https://h.example"', "'endpoint' is a setting of azure and github, not of openai. Did you mean 'baseUrl'?"),
        ('"deployment": "d"', "'deployment' is a setting of azure, not of openai. Did you mean 'model'?"),
        ('"temprature": 1', "Did you mean 'temperature'? It is an option of requests"),
    ],
)  # fmt: skip
def test_setting_of_another_provider_stops_the_command(command: Command, setting: str, hint: str) -> None:
    command.settings(f'{{"providers": {{"openai": {{{setting}}}}}}}')

    for arguments in (("config", "validate"), ("config", "validate", "--strict"), ("-p", "hi")):
        done = command.run(*arguments)
        assert done.code == 2, done
        assert f"{user_file(command)}:1:" in done.out + done.err
        assert hint in done.out + done.err
    assert command.server.requests == []
    saved = command.run("config", "set", f"providers.openai.{setting.split(chr(34))[1]}", "x")
    assert (saved.code, hint in saved.err) == (2, True)


def test_sampling_settings_reach_the_host_and_dropped_ones_are_noted(command: Command) -> None:
    command.settings({"agent": {"topP": 0.5, "seed": 7, "topK": 3, "parallelToolCalls": False}})
    command.variables["MAINSPRING_FREQUENCY_PENALTY"] = "0.25"
    command.server.script += [error(400, "Unsupported parameter: 'seed' is not supported with this model."), "hello"]

    done = command.run("-p", "hi")

    assert done.out.strip() == "hello", done
    first, second = command.server.requests
    assert [first[name] for name in ("top_p", "seed", "frequency_penalty", "parallel_tool_calls")] == [
        0.5,
        7,
        0.25,
        False,
    ]
    assert "seed" not in second
    assert "seed: not sent, because openai:" in done.err


@pytest.mark.parametrize(
    "flags", [("--provider", "antropic"), ("--model", "antropic:claude"), ("--model", "xyz:model")]
)
def test_unknown_provider_has_a_code_and_sends_nothing(command: Command, flags: tuple[str, str]) -> None:
    done = command.run("-p", "hi", "--output", "json", *flags)

    result = json.loads(done.out)
    assert (done.code, result["exit_code"], result["status"]) == (2, 2, "error")
    assert (result["error"]["code"], result["error"]["reason"]) == ("PROVIDER_NOT_SUPPORTED", "unknown_provider")
    assert f"Unknown provider: {flags[1].partition(':')[0]!r}" in result["error"]["message"]
    assert command.server.requests == []


def test_retry_settings_apply_to_failed_requests(command: Command) -> None:
    def run(**retry: Any) -> list[tuple[int, int, float]]:
        command.settings({"retry": {"maxRetries": 3, "baseDelayMs": 10, "maxDelayMs": 15, **retry}})
        command.server.script[:] = [error(503)] * 9
        command.server.requests.clear()
        done = command.run("-p", "x", "--output", "stream-json")
        assert done.code == 5, done.err
        retries = [line for line in done.lines if line["type"] == "model_retry"]
        assert len(command.server.requests) == len(retries) + 1
        return [(line["attempt"], line["max_retries"], line["delay"]) for line in retries]

    assert run(enableJitter=False) == [(1, 3, 0.01), (2, 3, 0.015), (3, 3, 0.015)]
    varied = run(maxRetries=2, maxDelayMs=1000)
    assert [number for number, _, _ in varied] == [1, 2]
    assert {delay for _, _, delay in varied}.isdisjoint({0.01, 0.02})
    assert run(enabled=False) == []
