"""How the command ends: exit codes, signals, and unusual environments."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.e2e.command import Command, command, finish
from tests.e2e.servers.chat import Reply, call, error
from tests.requires import requires

__all__ = ["command"]

pytestmark = pytest.mark.slow

FORMS = ["text", "json", "stream-json"]


@pytest.mark.parametrize(
    ("script", "arguments", "code", "status", "forms"),
    [
        (["ok"], [], 0, "completed", FORMS),
        ([Reply(""), Reply(""), Reply(""), Reply("")], [], 1, "error", ["text", "stream-json"]),
        ([], ["--tools", "nonsense"], 2, "error", ["json", "stream-json"]),
        ([call("list_files")] * 3, ["--max-turns", "2"], 3, "max_turns", ["text"]),
        ([Reply("half an ans", finish="length")], [], 3, "completed", ["json"]),
        ([Reply("so slow", stall=True)], ["--max-seconds", "0.5"], 3, "max_seconds", ["stream-json"]),
        ([call("list_files")] * 3, ["--max-total-tokens", "20"], 3, "max_total_tokens", ["stream-json"]),
        (
            [call("write_file", path="x", content="y"), "ok"],
            ["--on-deny", "stop"],
            4,
            "denied",
            ["text", "stream-json"],
        ),
        ([error(400)], [], 5, "error", ["text", "json"]),
        ([Reply("part of", cut=True)], [], 5, "error", ["stream-json"]),
    ],
)
def test_exit_code_matches_the_result_in_every_format(
    command: Command,
    repository: Path,
    script: list[str | Reply],
    arguments: list[str],
    code: int,
    status: str,
    forms: list[str],
) -> None:
    """Each row runs in some formats only; a test of the renderers compares all of them."""
    validator = Draft202012Validator(json.loads((repository / "docs" / "stream-json.schema.json").read_text("utf-8")))
    for form in forms:
        command.server.script[:] = script

        done = command.run("-p", "x", "--output", form, *arguments)

        assert done.code == code, (form, done.err)
        if form == "text":
            assert code in {0, 4} or done.err
            continue
        for line in done.lines:
            validator.validate(line)
        assert (done.result["exit_code"], done.result["status"]) == (code, status)
        assert [line["type"] for line in done.lines].count("result") == 1


def test_unreachable_provider_exits_with_an_error(command: Command) -> None:
    command.variables["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
    command.settings({"retry": {"enabled": False}})

    done = command.run("-p", "x")

    assert done.code == 5
    assert done.out == ""
    assert done.err.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in done.err


def test_partial_response_is_printed_when_the_stream_breaks(command: Command) -> None:
    command.server.script += [Reply("part of it", cut=True), error(400)]

    done = command.run("-p", "x")

    assert done.out == "part of it\n"
    assert "Error: " in done.err


@pytest.mark.parametrize("form", FORMS)
def test_response_that_was_cut_off_is_continued_visibly(command: Command, form: str) -> None:
    command.server.script += [Reply("It is ", cut=True), "done"]

    done = command.run("-p", "x", "--output", form)

    assert done.code == 0
    if form == "text":
        assert done.out == "It is done\n"
        assert done.err.count("The response was cut off. Continuing it in ") == 1
    else:
        assert (done.result["text"], done.result["estimated_calls"], done.result["cost"] > 0) == ("It is done", 1, True)
    if form == "stream-json":
        [retry] = [line for line in done.lines if line["type"] == "model_retry"]
        assert (retry["continues"], retry["max_retries"]) == (True, 2)


def test_response_that_was_cut_off_is_not_continued_if_the_setting_is_off(command: Command) -> None:
    command.settings({"retry": {"midStream": False}})
    command.server.script += [Reply("It is ", cut=True), "done"]

    done = command.run("-p", "x")

    assert (done.code != 0, done.out, len(command.server.requests)) == (True, "It is \n", 1)


def test_failed_run_reports_the_cost_of_its_subagents(command: Command) -> None:
    command.server.script += [call("spawn", task="look"), "It is here.", error(400)]

    done = command.run("-p", "x", "--output", "json")

    assert done.result["status"] == "error"
    assert done.result["usage"]["total_tokens"] == 30


@pytest.mark.parametrize(
    "arguments",
    [["--output", "json", "--max-turns", "x"], ["--output=stream-json", "--nonsense"]],
)
def test_invalid_arguments_still_print_a_json_result(command: Command, arguments: list[str]) -> None:
    done = command.run("-p", "x", *arguments)

    assert done.code == 2
    assert done.result["exit_code"] == 2
    assert "usage:" in done.err


def test_invalid_settings_stop_the_run_and_name_the_line(command: Command) -> None:
    command.settings('{\n  "permissions": {"deny": ["shell"]},,\n}')

    done = command.run("-p", "x")

    assert done.code == 2
    assert "settings.json:2:38: Expected a key" in done.err
    assert command.server.requests == []


# --- signals ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_aborts_the_run_and_the_session_can_be_resumed(
    command: Command, form: str, number: signal.Signals
) -> None:
    command.server.script += [Reply("half", stall=True), "the rest"]

    with command.start("-p", "the question", "--output", form) as process:
        assert command.server.stalled.wait(120)
        process.send_signal(number)
        done = finish(process)

    assert done.code == 128 + number
    if form == "text":
        assert done.err.splitlines()[-1] == "Interrupted. Resume with --continue."
    else:
        assert (done.result["type"], done.result["status"]) == ("result", "aborted")
        assert done.result["exit_code"] == 128 + number
    assert command.run("--continue", "-p", "go on").out == "the rest\n"
    assert "the question" in json.dumps(command.server.requests[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_text_stays_in_the_resumed_session_and_its_cost_is_estimated(
    command: Command, number: signal.Signals
) -> None:
    command.server.script += [Reply("half of it", stall=True), "the rest"]

    with command.start("-p", "the question", "--output", "stream-json") as process:
        assert process.stdout is not None
        shown = ""
        while "of it" not in shown:
            shown += process.stdout.readline()
        process.send_signal(number)
        done = finish(process)

    assert (done.code, done.result["text"]) == (128 + number, "half of it")
    assert (done.result["cost"] > 0, done.result["estimated_calls"]) == (True, 1)
    assert command.run("--continue", "-p", "go on").out == "the rest\n"
    question, partial, note, prompt = command.server.requests[1]["messages"][1:]
    assert (question["content"], prompt["content"]) == ("the question", "go on")
    assert (partial["role"], partial["content"]) == ("assistant", "half of it")
    assert "interrupted (Stopped by " in note["content"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_a_summary_aborts_the_run_and_the_history_stays(command: Command, number: signal.Signals) -> None:
    command.settings({"compaction": {"keepRecentTokens": 100}})
    too_long = "This model's maximum context length is 4096 tokens. However, your messages resulted in 12000 tokens."
    command.server.script += ["word " * 4000, "word " * 4000]
    for _ in range(2):
        command.run("-p", "write", "--session-id", "s1")
    command.server.script += [error(400, too_long), Reply(stall=True), "fine"]

    with command.start("-p", "more", "--session-id", "s1") as process:
        assert command.server.stalled.wait(120)
        process.send_signal(number)
        done = finish(process)

    assert done.code == 128 + number
    assert command.run("-p", "again", "--session-id", "s1").out == "fine\n"
    sizes = [
        len(message["content"]) for message in command.server.requests[-1]["messages"] if message["role"] == "assistant"
    ]
    assert sizes == [20_000, 20_000]


def is_running(marker: str) -> bool:
    """Return True if a process with this text in its command line is running."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in place.read_bytes():
                return True
        except OSError:
            continue
    return False


def wait_until(condition: Callable[[], bool], seconds: float = 120.0) -> bool:
    """Wait for a condition; return False on a timeout."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            return False
        threading.Event().wait(0.01)
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_kills_shell_commands_and_saves_the_tool_result(command: Command, number: signal.Signals) -> None:
    marker = f"sleep 97{os.getpid() % 1000:03}.{number}"
    command.server.script += [call("shell", command=f"echo so far; {marker} & {marker}"), "I see."]

    with command.start("-p", "x", "--allow", "shell") as process:
        assert wait_until(lambda: is_running(marker.replace(" ", "\0")))
        process.send_signal(number)
        done = finish(process)

    assert done.code == 128 + number
    assert wait_until(lambda: not is_running(marker.replace(" ", "\0")))
    assert command.run("--continue", "-p", "go on").code == 0
    messages = command.server.requests[1]["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "user"]
    assert messages[3]["content"].startswith("so far\n[interrupted: ")


def test_second_signal_exits_immediately(command: Command) -> None:
    marker = f"sleep 98{os.getpid() % 1000:03}"
    line = f"trap '' INT TERM; {marker}; {marker}"
    command.server.script.append(call("shell", command=line))

    with command.start("-p", "x", "--allow", f"shell({line})", "--output", "stream-json") as process:
        assert wait_until(lambda: is_running(marker.replace(" ", "\0")))
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        done = finish(process)

    assert done.code == 130
    assert [line["type"] for line in done.lines].count("result") == 1
    assert done.result["type"] == "result"
    assert done.result["session_id"] == done.lines[0]["session_id"] != ""
    assert wait_until(lambda: not is_running(marker.replace(" ", "\0")))


def test_background_process_of_a_tool_does_not_block_the_exit(command: Command) -> None:
    marker = f"sleep 96{os.getpid() % 1000:03}"
    command.server.script += [call("shell", command=f"{marker} & echo started"), "Done."]

    done = command.run("-p", "x", "--allow", "shell")

    assert (done.code, done.out) == (0, "Done.\n")
    assert wait_until(lambda: not is_running(marker.replace(" ", "\0")))


def test_signal_while_waiting_for_stdin_aborts_the_run(command: Command) -> None:
    with command.start("-p", "-", "--output", "json", stdin=-1) as process:
        assert process.stderr is not None
        assert "Waiting for the end of stdin" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 143
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["status"] == "aborted"


# --- streams ----------------------------------------------------------------------------------------------------------------


def test_closed_pipe_ends_the_run_silently(command: Command) -> None:
    command.server.script.append(Reply("word " * 200, pieces=200, delay=0.02))

    with command.start("-p", "x", "--output", "stream-json") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        assert process.wait(120) == 141

    assert err == ""


def test_output_piped_into_head_prints_no_traceback(command: Command) -> None:
    command.server.script.append("\n".join(map(str, range(50_000))))

    done = command.shell("$MAINSPRING -p x | head -n 1")

    assert done.out == "0\n"
    assert "Traceback" not in done.err
    assert "Exception" not in done.err


STDOUT_LINES = (
    "--version",
    "--help",
    "sessions --help",
    "sessions",
    "tools",
    "models --offline --json",
    "-p x",
    "-p x --output json",
    "--unknown --output json",
)
"""Lines that write to stdout."""


@pytest.mark.parametrize("line", STDOUT_LINES)
def test_output_that_cannot_be_written_is_an_error(command: Command, line: str) -> None:
    reasons = {">&-": "stdout is closed"}
    if line == "sessions":
        command.server.script.append("ok")
        assert command.run("-p", "x").code == 0
    if os.path.exists("/dev/full"):
        reasons[">/dev/full"] = "No space left on device"
    for redirect, reason in reasons.items():
        command.server.script.append("too much")
        done = command.shell(f"$MAINSPRING {line} {redirect}")

        assert done.code == 1, (line, redirect, done)
        errors = [text for text in done.err.splitlines() if text.startswith("Error: Cannot")]
        assert errors == [f"Error: Cannot write the output: {reason}."]
        assert "Traceback" not in done.err
        assert "Exception" not in done.err

    command.server.script.append("too much")
    done = command.shell(f"( $MAINSPRING {line}; echo $? >&2 ) | sh -c 'exec <&-; sleep 0'")
    assert done.err.splitlines()[-1] in ("141", "0", "2")
    assert "Traceback" not in done.err
    assert "Exception" not in done.err
    assert "Cannot write" not in done.err


def test_errors_that_cannot_be_written_do_not_change_the_exit_code(command: Command) -> None:
    command.server.script.append("ok")

    full = "/dev/full" if os.path.exists("/dev/full") else "/dev/null"
    done = command.shell(f"$MAINSPRING -p x 2>{full}")

    assert (done.code, done.out) == (0, "ok\n")


def test_run_ends_with_all_streams_closed(command: Command) -> None:
    command.server.script.append("unheard")

    assert command.shell("$MAINSPRING -p x <&- >&- 2>&-").code == 1
    assert len(command.server.requests) == 1


def test_output_is_utf8_in_the_c_locale(command: Command) -> None:
    command.variables |= {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command.server.script.append("naïve 日本 ✓")

    done = command.run("-p", "schöne Grüße")

    assert (done.code, done.out) == (0, "naïve 日本 ✓\n")
    assert "schöne Grüße" in json.dumps(command.server.requests[0], ensure_ascii=False)


# --- environment ------------------------------------------------------------------------------------------------------------


def test_run_works_without_a_home_folder(command: Command) -> None:
    command.variables |= {"HOME": "nowhere", "MAINSPRING_HOME": ""}
    command.server.script.append("ok")

    done = command.run("-p", "x")

    assert (done.code, done.out) == (0, "ok\n")
    assert "Cannot find your home directory" in done.err


def test_run_works_if_the_home_is_not_writable(command: Command, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.touch()
    command.variables["MAINSPRING_HOME"] = str(blocked / "agent")
    command.server.script.append("ok")

    done = command.run("-p", "x")

    assert (done.code, done.out) == (0, "ok\n")
    assert "Note: " in done.err


def test_fifo_in_place_of_an_optional_file_does_not_block(command: Command) -> None:
    servers, commands, state = (
        command.folder / ".mcp.json",
        command.folder / ".agent" / "commands",
        command.home / ".agent",
    )
    commands.mkdir(parents=True)
    state.mkdir(exist_ok=True)
    for file in (servers, commands / "x.md", state / "mcp.json"):
        os.mkfifo(file)
    assert command.run("trust").code == 0
    command.server.script.append("ok")

    done = command.run("-p", "x")

    assert (done.code, done.out) == (0, "ok\n")
    assert f"Cannot read {servers}: it is not a regular file. Its MCP servers are ignored." in done.err

    os.unlink(state / "trust.json")
    os.mkfifo(state / "trust.json")
    done = command.run("-p", "x")
    assert (done.code, "trust.json: it is not a regular file" in done.err) == (2, True)


def test_run_works_in_a_deleted_folder(command: Command) -> None:
    command.server.script += [call("read_file", path="a.txt"), "ok"]

    done = command.shell("mkdir gone && cd gone && rmdir ../gone && $MAINSPRING -p x")

    assert (done.code, done.out) == (0, "ok\n")
    assert "no longer exists" in done.err


@pytest.mark.parametrize("arguments", ["-p x", "trust"])
def test_deleted_folder_without_its_path_is_refused(command: Command, arguments: str) -> None:
    done = command.shell(f"mkdir gone && cd gone && rmdir ../gone && env -u PWD $MAINSPRING {arguments}")

    assert (done.code, done.out) == (2, "")
    assert done.err == "Error: The current folder no longer exists. Use --cwd DIR to choose another folder.\n"
    assert not command.server.requests


def test_nested_run_in_a_linked_folder_gets_its_own_session(command: Command, tmp_path: Path) -> None:
    """The real path of the folder is used, and a nested run has its own session (known problems B-04, B-05)."""
    link = tmp_path / "link"
    link.symlink_to(command.folder)
    command.settings({"providers": {"mine": {"baseUrl": command.server.base_url, "apiKey": "k-1"}}, "model": "mine:m"})
    inner = f"{sys.executable} -m mainspring -p inner --output json"
    command.server.script += [call("shell", command=inner), "inner answer", "outer answer"]

    done = command.run("-p", "x", "--cwd", str(link), "--allow", "shell", "--output", "json")

    assert (done.code, done.result["text"]) == (0, "outer answer"), done.err
    messages = json.dumps(command.server.requests[2]["messages"])
    assert "inner answer" in messages
    session_ids = [s["id"] for s in json.loads(command.run("sessions", "--json").out)]
    assert len(session_ids) == 2
    assert done.result["session_id"] in session_ids


@pytest.mark.parametrize("where", ["/", "~"])
def test_run_in_the_home_or_root_folder_prints_a_warning(command: Command, where: str) -> None:
    command.server.script += [call("list_files", depth=1), "ok"]

    done = command.run("-p", "x", "--cwd", where)

    assert (done.code, done.out) == (0, "ok\n"), done.err
    assert f"The working folder is {'the whole file system' if where == '/' else 'your home folder'}" in done.err
    assert "The working folder is" not in command.run("-p", "x").err


def test_home_folder_is_not_treated_as_a_project(command: Command) -> None:
    command.settings({"agent": {"systemPrompt": "Only rhyme."}})
    command.server.script.append("1")

    done = command.run("-p", "x", "--cwd", str(command.home))

    assert (done.code, done.out, "ignored" in done.err) == (0, "1\n", False), done.err
    assert command.server.requests[0]["messages"][0]["content"].startswith("Only rhyme.")


@requires(shutil.which("git") is not None and os.geteuid() == 0, "git, and the right to give a folder away")
def test_repository_of_another_user_does_not_stop_the_run(command: Command) -> None:
    """Git refuses to work there and says why, and the run continues (known problem B-04)."""
    subprocess.run(["git", "init", "-q", str(command.folder)], check=True)
    os.chown(command.folder, 12345, 12345)
    os.chown(command.folder / ".git", 12345, 12345)
    command.server.script += [call("shell", command="git status"), call("list_files"), "ok"]

    done = command.run("-p", "x", "--allow", "shell(git *)")

    assert (done.code, done.out) == (0, "ok\n"), done.err
    assert "dubious ownership" in json.dumps(command.server.requests[1]["messages"])


def test_cwd_flag_sets_the_working_folder(command: Command) -> None:
    other = command.folder / "other"
    other.mkdir()
    (other / "a.txt").write_text("found me", encoding="utf-8")
    command.server.script += [call("read_file", path="a.txt"), "ok"]

    assert command.run("-p", "x", "--cwd", "other").code == 0
    assert "found me" in json.dumps(command.server.requests[1])
    assert command.run("-p", "x", "--cwd", "none").code == 2


def test_command_creates_no_files_in_the_project(command: Command) -> None:
    command.server.script.append("ok")

    command.run("-p", "x")
    command.run("check")
    command.run("config", "show")

    assert list(command.folder.iterdir()) == []


def test_rejection_that_no_change_helps_costs_one_request(command: Command) -> None:
    for status in (404, 407, 451):
        command.server.script[:] = [Reply(status=status, body={"error": {"message": "refused"}})] * 5
        before = len(command.server.requests)

        assert command.run("-p", "x").code == 5

        assert len(command.server.requests) == before + 1


@pytest.mark.parametrize("arguments", [["--bogus"], ["sessions", "nonsense"], ["-p", "x", "--cwd", "missing"]])
def test_usage_error_has_its_exit_code_even_if_stderr_is_full(command: Command, arguments: list[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert command.run(*arguments, stderr=full).code == 2


@pytest.mark.parametrize("arguments", [["sessions", "import"], ["skills", "validate"], ["export"], ["trust"]])
def test_path_of_5000_characters_is_a_usage_error_in_one_line(command: Command, arguments: list[str]) -> None:
    result = command.run(*arguments, "a" * 5000)

    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)


def test_rejected_key_of_a_command_names_the_setting(command: Command) -> None:
    command.variables["OPENAI_API_KEY"] = ""
    command.settings({"providers": {"openai": {"apiKeyCommand": "echo old-key"}}})
    command.server.script += [Reply(status=401, body={"error": {"message": "expired"}})] * 3

    result = command.run("-p", "x")

    assert "rejected the key from the setting providers.openai.apiKeyCommand" in result.err
    assert (result.code, len(command.server.requests)) == (5, 1)


def test_rejected_key_or_model_names_what_to_do_in_every_output(command: Command) -> None:
    rejections = {
        401: ("bad key", "set OPENAI_API_KEY or the setting providers.openai.apiKey to a valid key"),
        404: ("The model gpt-5-mni does not exist", "Similar models: gpt-5-mini"),
    }
    for status, (message, advice) in rejections.items():
        command.server.script += [Reply(status=status, body={"error": {"message": message}})] * 2

        text = command.run("-p", "x", "--model", "openai:gpt-5-mni")
        in_json = command.run("-p", "x", "--model", "openai:gpt-5-mni", "--output", "json")

        assert (text.code, in_json.code) == (5, 5)
        for shown in (text.err, in_json.result["error"]["message"]):
            assert advice in shown
            assert "openai" in shown
            assert "gpt-5-mni" in shown
            assert "`mainspring " in shown
