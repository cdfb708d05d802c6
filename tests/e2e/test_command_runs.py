"""The command from a prompt to a response: output streams, stored data, and permissions."""

import json
import os
import uuid
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.e2e.command import KEY, Command, command
from tests.e2e.servers.chat import Reply, call, error
from tests.requires import on_linux

__all__ = ["command"]

pytestmark = pytest.mark.slow

SCHEMA = Path(__file__).resolve().parent.parent.parent / "docs" / "stream-json.schema.json"


def texts(request: dict[str, object]) -> str:
    """Return all text of a request."""
    return json.dumps(request["messages"], ensure_ascii=False)


def test_stdout_contains_only_the_response(command: Command) -> None:
    (command.folder / "a.txt").write_text("forty-two\n", encoding="utf-8")
    command.server.script += [Reply("I will look.", calls=[("read_file", {"path": "a.txt"})]), "It says forty-two."]

    done = command.run("-p", "what does a.txt say?")

    assert (done.code, done.out) == (0, "It says forty-two.\n")
    assert "forty-two" in texts(command.server.requests[1])
    assert "model: openai:gpt-5-mini" in done.err
    assert "> read_file a.txt" in done.err
    assert "\x1b" not in done.err


def test_json_output_is_one_object(command: Command) -> None:
    command.server.script.append("done")

    done = command.run("-p", "x", "--output", "json")

    [result] = done.lines
    assert result["type"] == "result"
    assert (result["status"], result["exit_code"], result["text"], result["turns"]) == ("completed", 0, "done", 1)
    assert result["model"]["spec"] == "openai:gpt-5-mini"
    assert result["usage"]["total_tokens"] == 15
    assert result["session_id"]
    assert done.err == ""


def test_stream_json_follows_its_schema_and_ends_with_the_result(command: Command) -> None:
    (command.folder / "a.txt").write_text("x\n", encoding="utf-8")
    both = [("read_file", {"path": "a.txt"}), ("read_file", {"path": "none.txt"}), ("read_file", "{broken")]
    command.server.script += [Reply("Look:", calls=both), "It is x."]
    validator = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))

    done = command.run("-p", "x", "--output", "stream-json")

    for line in done.lines:
        validator.validate(line)
    kinds = [line["type"] for line in done.lines]
    assert kinds[0] == "agent_start"
    assert kinds.count("result") == 1
    assert kinds[-1] == "result"
    assert kinds.count("tool_execution_end") == 3
    assert "".join(line["text"] for line in done.lines if line["type"] == "text_delta") == "Look:It is x."
    assert done.result["text"] == "It is x."
    assert done.err == ""


def test_the_system_prompt_names_the_folder_and_can_be_set(command: Command) -> None:
    command.server.script += ["1", "2", "3"]

    command.run("-p", "x")
    command.settings({"agent": {"systemPrompt": "Only rhyme."}})
    command.run("-p", "x")
    command.run("-p", "x", "--system", "Only shout.")

    systems = [request["messages"][0] for request in command.server.requests]
    assert all(s["role"] == "system" for s in systems)
    assert str(command.folder) in systems[0]["content"]
    assert systems[1]["content"].startswith("Only rhyme.")
    assert systems[2]["content"].startswith("Only shout.")


def test_model_and_key_come_from_the_environment(command: Command) -> None:
    command.server.script += ["1", "2"]
    command.variables["AGENT_MODEL"] = "openai:other-model"

    command.run("-p", "x")
    command.run("-p", "x", "--model", "openai:third-model")

    assert [r["model"] for r in command.server.requests] == ["other-model", "third-model"]
    assert command.server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_provider_from_settings_is_used(command: Command) -> None:
    command.server.script.append("yes")
    command.settings({"providers": {"mine": {"baseUrl": command.server.base_url, "apiKey": "k-mine-123"}}})

    done = command.run("-p", "x", "--model", "mine:some/model:7b", "--output", "json")

    assert done.result["model"]["spec"] == "mine:some/model:7b"
    assert command.server.requests[0]["model"] == "some/model:7b"
    assert command.server.headers[0]["authorization"] == "Bearer k-mine-123"


# --- sessions ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--continue"], ["--session", "nobody"]])
def test_missing_session_is_an_error(command: Command, arguments: list[str]) -> None:
    done = command.run(*arguments, "-p", "x")

    assert done.code == 2
    assert "session" in done.err
    assert command.server.requests == []


def test_no_session_flag_writes_no_files(command: Command) -> None:
    command.server.script.append("1")

    assert command.run("-p", "x", "--no-session").code == 0

    assert not (command.home / ".agent").exists()
    assert list(command.folder.iterdir()) == []


# --- permissions ------------------------------------------------------------------------------------------------------------


def test_denied_write_is_explained_to_the_user_and_the_model(command: Command) -> None:
    command.server.script += [call("write_file", path="b.txt", content="x"), "It is not allowed."]

    done = command.run("-p", "write b.txt")

    assert (done.code, done.out) == (0, "It is not allowed.\n")
    assert "--allow 'write_file(b.txt)'" in done.err
    assert "--allow 'write_file(b.txt)'" in texts(command.server.requests[1])
    assert not (command.folder / "b.txt").exists()


def test_allowed_tool_calls_run(command: Command) -> None:
    command.server.script += [
        call("write_file", path="b.txt", content="x"),
        call("shell", command="cat b.txt b.txt > c.txt"),
        "done",
    ]

    done = command.run(
        "-p", "x", "--allow", "write_file(b.txt)", "--allow", "shell(cat *)", "--allow", "scope:fs-write"
    )

    assert done.code == 0
    assert (command.folder / "c.txt").read_text(encoding="utf-8") == "xx"


def test_deny_in_settings_overrides_the_allow_flag(command: Command) -> None:
    command.settings({"permissions": {"deny": ["write_file(secret/**)"]}})
    command.server.script += [call("write_file", path="secret/b.txt", content="x"), "no"]

    done = command.run("-p", "x", "--allow", "write_file")

    assert "settings.json" in done.err
    assert not (command.folder / "secret").exists()


def test_project_settings_cannot_grant_permissions(command: Command) -> None:
    (command.folder / ".agent").mkdir()
    (command.folder / ".agent" / "settings.json").write_text(
        '{"permissions": {"allow": ["write_file"]}}', encoding="utf-8"
    )
    command.server.script += [call("write_file", path="b.txt", content="x"), "no"]

    done = command.run("-p", "x")

    assert "Ignored permissions.allow" in done.err
    assert not (command.folder / "b.txt").exists()


def test_tools_flag_limits_the_offered_tools(command: Command) -> None:
    command.server.script += ["1", "2"]

    command.run("-p", "x", "--tools", "read_file,grep")
    command.run("-p", "x", "--tools", "none")

    assert [t["function"]["name"] for t in command.server.requests[0]["tools"]] == ["read_file", "grep"]
    assert not command.server.requests[1].get("tools")
    assert command.run("-p", "x", "--tools", "raed_file").code == 2


# --- stdin and files --------------------------------------------------------------------------------------------------------


def test_piped_data_is_added_to_the_prompt(command: Command) -> None:
    command.server.script.append("1")

    command.run("-p", "summarise", piped="line one\nline two\n")

    prompt = command.server.requests[0]["messages"][-1]["content"]
    assert "summarise" in json.dumps(prompt)
    assert "<stdin>\\nline one\\nline two\\n</stdin>" in json.dumps(prompt)


@pytest.mark.parametrize("arguments", [[], ["-p"], ["-p", "-"]])
def test_prompt_can_be_piped(command: Command, arguments: list[str]) -> None:
    command.server.script.append("1")

    done = command.run(*arguments, piped="what is @here?\n")

    assert done.out == "1\n"
    assert "what is @here?" in texts(command.server.requests[0])


@pytest.mark.parametrize(
    ("arguments", "piped", "text"),
    [
        ([], "", "No prompt"),
        (["-p", "-"], "", "The prompt is empty."),
        (["-p", ""], "", "The prompt is empty."),
        (["-p", "x"], "a\0b", "binary"),
        (["-p", "x"], "y" * (4 << 20) + "z", "larger than 4 MiB"),
    ],
)
def test_unusable_input_is_rejected(command: Command, arguments: list[str], piped: str, text: str) -> None:
    done = command.run(*arguments, piped=piped)

    assert done.code == 2
    assert text in done.err
    assert done.out == ""


def test_run_does_not_wait_for_a_silent_stdin(command: Command) -> None:
    command.server.script.append("1")

    with command.start("-p", "x", stdin=-1) as process:
        assert process.stdout is not None
        assert process.stdout.read() == "1\n"
        assert process.wait(120) == 0
        assert process.stderr is not None
        assert "no input arrived" in process.stderr.read()


@on_linux
def test_run_waits_for_a_slow_pipeline(command: Command) -> None:
    command.server.script += ["1", "2"]

    assert command.shell("(sleep 1.2; echo late) | $MAINSPRING -p x").out == "1\n"
    assert command.shell("(sleep 1.2; echo later) | $MAINSPRING").out == "2\n"

    assert "late" in texts(command.server.requests[0])
    assert "later" in texts(command.server.requests[1])


def test_silent_stdin_without_a_prompt_prints_usage(command: Command) -> None:
    with command.start(stdin=-1) as process:
        assert process.wait(120) == 2
        assert process.stderr is not None
        assert "usage:" in process.stderr.read()


def test_a_mentioned_file_is_attached(command: Command) -> None:
    (command.folder / "a b.txt").write_text("spaced", encoding="utf-8")
    (command.folder / "c.txt").write_text("plain </file> text", encoding="utf-8")
    command.server.script.append("1")

    command.run("-p", 'compare @"a b.txt" with @c.txt. Mail me@c.txt, or \\@c.txt')

    prompt = json.dumps(command.server.requests[0]["messages"][-1]["content"])
    assert 'path=\\\\\\"a b.txt\\\\\\">\\\\nspaced' in json.dumps(prompt)
    assert prompt.count("plain </file> text") == 1
    assert "</file-2>" in prompt
    assert "or @c.txt" in prompt


def test_missing_mentioned_file_is_an_error(command: Command) -> None:
    done = command.run("-p", "look at @none.txt, please")

    assert done.code == 2
    assert "File not found: 'none.txt'" in done.err
    assert command.server.requests == []


def test_mentioned_file_obeys_permission_rules(command: Command) -> None:
    (command.folder / ".env").write_text("KEY=1", encoding="utf-8")
    (command.folder / "a.txt").write_text("x", encoding="utf-8")

    assert command.run("-p", "look at @.env").code == 4
    assert command.run("-p", "look at @/etc/hostname").code == 4
    assert command.run("-p", "look at @a.txt", "--deny", "read_file(a.txt)").code == 4
    assert command.server.requests == []


# --- failures ---------------------------------------------------------------------------------------------------------------


def test_tool_error_goes_to_the_model_and_provider_error_ends_the_run(command: Command) -> None:
    command.server.script += [call("read_file", path="none.txt"), "There is none."]
    assert command.run("-p", "x").code == 0

    command.server.script += [error(400, "the request is no good")] * 20  # tried without some of its parts
    done = command.run("-p", "x")
    assert done.code == 5
    assert "the request is no good" in done.err


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_error_messages_redact_keys_and_suggest_a_fix(command: Command, form: str) -> None:
    command.server.script.append(error(401, f"Incorrect API key provided: {KEY}", "invalid_api_key"))

    done = command.run("-p", "x", "--output", form, "-v")

    assert done.code == 5
    assert KEY not in done.out + done.err
    message = done.err if form == "text" else done.result["error"]["message"]
    assert "set OPENAI_API_KEY" in message
    assert "`mainspring check`" in message


def test_rate_limited_request_is_retried_after_the_delay(command: Command) -> None:
    command.server.script += [error(429, "slow down", "rate_limit_exceeded", retry_after="0.2"), "now"]

    done = command.run("-p", "x")

    assert (done.code, done.out) == (0, "now\n")
    assert "Retrying in 0s (attempt 1 of 3)" in done.err


def test_malformed_tool_arguments_are_returned_to_the_model(command: Command) -> None:
    command.server.script += [Reply(calls=[("read_file", '{"path": ')]), "sorry"]

    done = command.run("-p", "x")

    assert (done.code, done.out) == (0, "sorry\n")
    assert len(command.server.requests) == 2


@on_linux
@pytest.mark.parametrize("way", [["-p", "{}"], ["--prompt={}"], ["-p", "{}", "--output", "json"]])
def test_prompt_is_not_visible_in_the_process_list(command: Command, way: list[str]) -> None:
    """Known problem SH-14: the command line of no process contains the prompt."""
    word = f"server-{uuid.uuid4().hex}"
    line = f"tr '\\0' ' ' < \"/proc/$PPID/cmdline\"; pkill -f {word}; echo status $?"
    command.server.script += [call("shell", command=line), "ok"]

    done = command.run(*(part.format(f"Stop the {word}.") for part in way), "--allow", "shell")

    assert done.code == 0, done.err
    text = texts(command.server.requests[1])
    assert "(prompt)" in text
    assert "status 1" in text


def test_cwd_works_from_a_deleted_folder(command: Command, tmp_path: Path) -> None:
    command.server.script += ["Hello.", "Hello again."]
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f'cd "{gone}" && rmdir "{gone}" && $MAINSPRING -p hi'
    done = command.shell(f'{line} --cwd "{command.folder}"')
    assert (done.code, done.out) == (0, "Hello.\n")
    assert "no longer exists" not in done.err
    gone.mkdir()
    done = command.shell(f"{line} --cwd relative")
    assert done.code == 2
    assert done.err == "Error: --cwd relative: Folder not found: relative\n"
    gone.mkdir()
    done = command.shell(line)
    assert (done.code, done.out) == (0, "Hello again.\n")
    assert "The current folder no longer exists. Use --cwd DIR" in done.err


def test_pipes_that_another_program_made_non_blocking_lose_nothing(command: Command) -> None:
    """A parent process that shares its pipes, such as a program in Node.js, may do this to both of them."""
    command.server.script += ["word " * 60_000]
    reading, typed = os.pipe()
    printed, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)

    with command.start("-p", "sum up", stdin=reading, stdout=writing) as process, open(printed, "rb") as output:
        os.close(reading)
        os.close(writing)
        os.write(typed, b"first\n")
        os.write(typed, b"second\n")
        os.close(typed)
        assert command.server.request_received.wait(30)
        answer = output.read().decode()

    assert process.returncode == 0
    assert answer == "word " * 60_000 + "\n"
    assert "first\\nsecond" in texts(command.server.requests[0])
