"""Known problems of other agents with edits, files, searches, shells, and permissions that no other test covers."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring import Agent, RunOptions, tool
from mainspring.app.chat.tool_display import display_start
from mainspring.app.printing.text_output import summarize_call
from mainspring.app.servers.acp.tool_calls import call_locations, call_title, plan_update, shorten_arguments
from mainspring.env import LocalEnv
from mainspring.events import ToolExecutionStart
from mainspring.messages import Message, ToolUseBlock
from mainspring.permissions import PermissionRequest, Permissions
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import Tool, ToolContext
from mainspring.tools.builtin import builtin_tools

TOOLS: dict[str, Tool] = {tool.name: tool for tool in builtin_tools(include_optional=True)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
async def env(project: Path, tmp_path: Path) -> AsyncIterator[LocalEnv]:
    created = LocalEnv(project, home=str(tmp_path / "home"))
    yield created
    await created.aclose()


async def call_tool(env: LocalEnv, name: str, **arguments: Any) -> Any:
    return await TOOLS[name](ToolContext(env=env), **arguments)


async def run_calls(
    env: LocalEnv, *calls: ScriptedCall, permissions: Permissions | None = None, **behavior: Any
) -> list[Any]:
    """Return the results of the calls of a model, one call per turn."""
    agent = Agent(
        ScriptedModel(*calls, "done"),
        tools=TOOLS.values(),
        execution=env,
        permissions=permissions or Permissions(mode="allow"),
        behavior=RunOptions(**behavior),
    )
    await agent.run("go")
    return [block for m in agent.messages if isinstance(m, Message) for block in m.tool_results]


# --- rendering of calls -----------------------------------------------------------------------------------------------------

NAMES = ["path", "command", "pattern", "query", "url", "todos", "offset", "edits", "content", "old_string", "prompt"]
ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(["\0", "\ud800", "~"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "status"]), inner, max_size=3),
    max_leaves=6,
)


@given(arguments=st.dictionaries(st.sampled_from(NAMES), ANY, max_size=4), tool=st.sampled_from(sorted(TOOLS)))
def test_tool_calls_with_any_arguments_can_be_rendered(arguments: dict[str, Any], tool: str) -> None:
    """V-05: calls are rendered before their arguments are validated."""
    request = ToolUseBlock("1", tool, arguments)
    assert "\n" not in summarize_call(request)
    rendered = display_start(ToolExecutionStart(request), tool)
    assert rendered.display is not None
    assert "\n" not in rendered.display.summary
    assert rendered.call.input.keys() == arguments.keys()
    call_locations(arguments, "/project")
    plan_update(tool, arguments)
    call_title(tool, rendered.display.summary)
    assert shorten_arguments(arguments).keys() == arguments.keys()


# --- edit and write ---------------------------------------------------------------------------------------------------------


def test_file_encoding_does_not_depend_on_the_locale(project: Path) -> None:
    """E-06: file content is the same in the C locale with UTF-8 mode off."""
    code = (
        "import asyncio\n"
        "from mainspring.env import LocalEnv\n"
        "from mainspring.tools import ToolContext\n"
        "from mainspring.tools.builtin import edit, read_file, write_file\n"
        "async def main():\n"
        "    ctx = ToolContext(env=LocalEnv('.'))\n"
        "    await write_file(ctx, path='a.txt', content='gr\\u00f6\\u00dfer \\u65e5\\n')\n"
        "    await edit(ctx, path='a.txt', old_string='\\u00f6', new_string='o\\u0308')\n"
        "    print(ascii((await read_file(ctx, path='a.txt')).text.split('\\n')[0]))\n"
        "asyncio.run(main())\n"
    )
    variables = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", code]
    done = subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "'1\\tgro\\u0308\\xdfer \\u65e5'\n"
    assert (project / "a.txt").read_bytes() == "gro\u0308ßer 日\n".encode()


async def test_new_modification_time_alone_does_not_block_an_edit(env: LocalEnv, project: Path) -> None:
    """E-14: a tool that sets modification times, or a formatter that changes nothing, does not block an edit."""
    file = project / "a.txt"
    file.write_text("one\n", encoding="utf-8")
    ticks = iter(range(1, 10))

    async def touch() -> str:
        """Set another modification time."""
        time = 1_000_000_000 + next(ticks)
        await asyncio.to_thread(os.utime, file, (time, time))
        return "touched"

    model = ScriptedModel(
        ScriptedCall("read_file", {"path": "a.txt"}),
        ScriptedCall("touch", {}),
        ScriptedCall("edit", {"path": "a.txt", "old_string": "one", "new_string": "two"}),
        "done",
    )
    behavior = RunOptions(require_read_before_edit=True)
    await Agent(model, tools=[*TOOLS.values(), tool(touch)], execution=env, behavior=behavior).run("go")
    assert file.read_text(encoding="utf-8") == "two\n"


async def test_text_added_after_an_unterminated_line_is_a_new_line(env: LocalEnv, project: Path) -> None:
    """E-16."""
    file = project / "settings"
    file.write_bytes(b"A=1\nB=2")
    patch = "*** Begin Patch\n*** Update File: settings\n@@\n B=2\n+C=3\n*** End Patch\n"
    assert not (await call_tool(env, "apply_patch", patch=patch)).is_error
    assert file.read_bytes().splitlines() == [b"A=1", b"B=2", b"C=3"]
    file.write_bytes(b"A=1\r\nB=2")
    await call_tool(env, "edit", path="settings", old_string="B=2", new_string="B=2\nC=3")
    assert file.read_bytes() == b"A=1\r\nB=2\r\nC=3"


# --- read -------------------------------------------------------------------------------------------------------------------


async def test_broken_and_circular_links_are_reported(env: LocalEnv, project: Path) -> None:
    """RD-08."""
    (project / "gone").symlink_to("nowhere")
    (project / "round").symlink_to("round")
    (project / "a.txt").write_text("needle\n", encoding="utf-8")
    assert "gone@" in (await call_tool(env, "list_files")).text
    assert "a.txt\n1:needle" in (await call_tool(env, "grep", pattern="needle")).text
    for name in ("gone", "round"):
        read = await call_tool(env, "read_file", path=name)
        assert read.is_error
        assert name in read.text


async def test_listing_of_a_huge_tree_is_truncated_and_counted(env: LocalEnv, project: Path) -> None:
    """RD-07."""
    for i in range(40):
        (project / f"d{i:02}").mkdir()
        for j in range(20):
            (project / f"d{i:02}" / f"f{j:02}").touch()
    listed = await call_tool(env, "list_files")
    assert listed.metadata["truncated"] or listed.metadata["deeper"]
    assert len(listed.text) < 20_000
    assert "40 folders" in listed.text


# --- search -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["ripgrep", "python"])
def search_env(request: pytest.FixtureRequest, env: LocalEnv, monkeypatch: pytest.MonkeyPatch) -> LocalEnv:
    """Return the environment with and without ripgrep."""
    if request.param == "python":

        async def find_nothing(name: str) -> None:
            return None

        monkeypatch.setattr(env, "find_program", find_nothing)
    return env


async def test_ignored_path_is_searched_if_named(search_env: LocalEnv, project: Path) -> None:
    """G-01: the result says what was not searched and how to include it."""
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("build/\n", encoding="utf-8")
    (project / "build").mkdir()
    (project / "build" / "out.js").write_text("needle\n", encoding="utf-8")
    (project / ".hidden").mkdir()
    (project / ".hidden" / "x").write_text("needle\n", encoding="utf-8")
    plain = await call_tool(search_env, "grep", pattern="needle")
    assert ".hidden/x" in plain.text
    assert "out.js" not in plain.text
    assert "not searched: ignored files" in plain.text
    for arguments in ({"path": "build"}, {"path": "build/out.js"}, {"path": "build/*.js"}, {"include_ignored": True}):
        found = await call_tool(search_env, "grep", pattern="needle", **arguments)
        assert found.metadata["matches"] == (2 if "include_ignored" in arguments else 1), arguments


async def test_search_continues_past_invalid_bytes(search_env: LocalEnv, project: Path) -> None:
    """G-05: in file names and in content."""
    Path(os.fsdecode(bytes(project) + b"/na\xffme")).write_bytes(b"needle \xe9t\xe9\n")
    found = await call_tool(search_env, "grep", pattern="needle")
    assert (found.metadata["outcome"], found.metadata["matches"]) == ("matches", 1)
    assert "1:needle été" in found.text  # decoded as read_file decodes it
    found.text.encode()


async def test_grep_accepts_glob_paths_and_option_like_patterns(search_env: LocalEnv, project: Path) -> None:
    """G-07."""
    (project / "src" / "deep").mkdir(parents=True)
    (project / "src" / "deep" / "a.ext").write_text("--files -e needle\n", encoding="utf-8")
    (project / "src" / "b.other").write_text("needle\n", encoding="utf-8")
    for pattern, path in (("needle", "src/**/*.ext"), ("--files", "src"), ("-e", ".")):
        found = await call_tool(search_env, "grep", pattern=pattern, path=path)
        assert found.metadata["matches"] == 1, found.text
        assert "src/deep/a.ext\n1:--files" in found.text


# --- shell ------------------------------------------------------------------------------------------------------------------


async def test_interactive_rebase_fails_and_changes_nothing(env: LocalEnv, project: Path) -> None:
    """SH-03: an editor that does nothing would have confirmed the rebase."""
    setup = (
        "git init -q . && git config user.email a@b && git config user.name a && for i in 1 2; do echo $i > f; git add f;"
        " git commit -q -m $i; done; git rev-parse HEAD > ../before"
    )
    assert "(exit 0," in (await call_tool(env, "shell", command=setup)).text
    rebase = await call_tool(
        env, "shell", command="git rebase -i HEAD~1; echo status $?; git rev-parse HEAD | cmp - ../before"
    )
    assert "status 1" in rebase.text
    assert "(exit 0," in rebase.text


async def test_stderr_output_is_kept_and_is_not_a_failure(env: LocalEnv) -> None:
    """SH-10."""
    done = await call_tool(env, "shell", command="echo 'Writing objects: 100%' >&2; echo ok")
    assert (done.is_error, done.metadata["exit_code"]) == (False, 0)
    assert done.text.startswith("ok\n[stderr]\nWriting objects: 100%\n")


async def test_pipeline_and_signal_exit_codes_match_the_shell(env: LocalEnv) -> None:
    """SH-04: exit code 143 is not reported as a timeout."""
    assert (await call_tool(env, "shell", command="false | true")).metadata["exit_code"] == 0
    assert (await call_tool(env, "shell", command="set -o pipefail; false | true")).metadata["exit_code"] == 1
    ended = await call_tool(env, "shell", command="kill -TERM $$")
    assert (ended.metadata["exit_code"], ended.metadata["timed_out"]) == (143, False)
    assert "[ended by SIGTERM]" in ended.text
    assert "timed out" not in ended.text


async def test_output_of_a_running_job_can_be_read(env: LocalEnv, project: Path) -> None:
    """SH-15: a job of another process is reported as ended."""
    os.mkfifo(project / "go")
    started = await call_tool(env, "shell", command="echo begun; read -r x < go; echo over", background=True)
    assert started.metadata["running"]
    seen = ""
    while "begun" not in seen:
        seen = (await call_tool(env, "jobs", action="read", id="job1")).text
    await asyncio.to_thread((project / "go").write_text, "go\n")
    assert "over" in (await call_tool(env, "jobs", action="wait", id="job1")).text
    assert "end when the program ends" in (await call_tool(LocalEnv(project), "jobs", action="read", id="job1")).text


@pytest.mark.parametrize(
    ("command", "created"),
    [
        ("echo x > NUL", False),
        ("echo x 2>nul", False),
        ("(echo x) >>Nul; echo y", False),
        ("echo x &>NUL&& echo y", False),
        ("echo x > nul | cat", False),
        ("echo x > ./NUL", True),
        ("echo 'x > NUL'", True),
        ('echo "a \\" > NUL"', True),
        ("cat <<'E'\nx > NUL\nE", True),
        ("echo x > NULL; echo x > nul.txt; echo x > a/nul || true", True),
        ("echo \\> NUL", True),
    ],
)
async def test_redirect_to_nul_is_rejected(env: LocalEnv, project: Path, command: str, created: bool) -> None:
    """WN-02."""
    for background in (False, True):
        done = await call_tool(env, "shell", command=command, background=background)
        assert done.is_error is not created, done.text
        assert ("/dev/null" in done.text) is not created
        if not created:
            assert list(project.iterdir()) == []


async def test_missing_project_folder_is_reported(env: LocalEnv, project: Path) -> None:
    """SH-12: by every tool, and the tools work again after the folder is back."""
    away = project.rename(project.with_name("away"))
    for name, arguments in (("shell", {"command": "pwd"}), ("read_file", {"path": "a"}), ("grep", {"pattern": "x"})):
        failed = await call_tool(env, name, **arguments)
        assert failed.is_error, name
        assert "does not exist" in failed.text, name
    away.rename(project)
    assert (await call_tool(env, "shell", command="pwd")).text.startswith(f"{project}\n")


# --- permissions ------------------------------------------------------------------------------------------------------------


async def test_rule_for_a_program_does_not_match_a_longer_name(env: LocalEnv) -> None:
    """P-06."""
    permissions = Permissions(allow=["shell(mypwd)", "shell(mypwd *)"])
    for command, outcome in (
        ("mypwd", "allow"),
        ("mypwd P", "allow"),
        ("mypwd -P", "ask"),
        ("mypwdx", "ask"),
        ("mypwd-x", "ask"),
    ):
        decision = await permissions.decide("shell", {"command": command}, env=env, definition=TOOLS["shell"])
        assert decision.outcome == outcome, command


async def test_suggested_rules_cover_each_command_of_a_line(env: LocalEnv) -> None:
    """P-07."""
    requests: list[PermissionRequest] = []

    def deny(request: PermissionRequest) -> bool:
        requests.append(request)
        return False

    line = "npm test && make build\ncargo fmt --all"
    await run_calls(env, ScriptedCall("shell", {"command": line}), permissions=Permissions(on_permission_request=deny))
    offered = requests[0].suggestions
    assert not any("\n" in rule or "&&" in rule for rule in offered)
    decision = await Permissions(allow=offered).decide("shell", {"command": line}, env=env, definition=TOOLS["shell"])
    assert decision.outcome == "allow"
    decision = await Permissions(allow=offered[:1]).decide(
        "shell", {"command": line}, env=env, definition=TOOLS["shell"]
    )
    assert decision.outcome == "ask"


def test_project_dotenv_file_is_not_loaded(project: Path) -> None:
    """P-13: neither for mainspring nor for its shell commands."""
    (project / ".env").write_text("OPENAI_BASE_URL=http://evil.test\nPLANTED=1\n", encoding="utf-8")

    def run_cli(*arguments: str) -> str:
        command = [sys.executable, "-m", "mainspring", *arguments]
        return subprocess.run(command, cwd=project, capture_output=True, encoding="utf-8", check=True).stdout

    assert "evil" not in run_cli("config", "show", "--origin", "--json")
    line = "echo ${PLANTED:-none} ${OPENAI_BASE_URL:-none}"
    assert "none none" in run_cli("tools", "call", "shell", json.dumps({"command": line}), "--allow", f"shell({line})")


async def test_approval_shows_invisible_characters(env: LocalEnv) -> None:
    """P-14: escape codes, bidirectional controls, and zero-width characters are escaped; markup is not."""
    requests: list[PermissionRequest] = []

    def deny(request: PermissionRequest) -> bool:
        requests.append(request)
        return False

    line = "npm test \x1b[8m; rm x\x1b[0m \u202e gnp \u200b[red]"
    await run_calls(env, ScriptedCall("shell", {"command": line}), permissions=Permissions(on_permission_request=deny))
    [request] = requests
    for text in (request.resource, *(v.resource for v in request.verdicts), request.reason):
        assert not set(text) & {"\x1b", "\u202e", "\u200b"}
    assert "\\x1b[8m; rm x" in request.resource
    assert "[red]" in request.resource


@pytest.mark.parametrize(
    "line", ["cat a.txt 2>/dev/null", "cat a.txt > /dev/null 2>&1", "cat <<'EOF'\na; rm -rf x\nEOF", "wc -l < a.txt"]
)
async def test_here_documents_and_dev_null_need_no_approval(env: LocalEnv, project: Path, line: str) -> None:
    """P-19."""
    (project / "a.txt").write_text("x\n", encoding="utf-8")
    decision = await Permissions().decide("shell", {"command": line}, env=env, definition=TOOLS["shell"])
    assert decision.outcome == "allow", decision.reason


async def test_too_long_command_needs_approval(env: LocalEnv) -> None:
    """P-22."""
    line = "echo " + "a " * 200_000
    decision = await Permissions().decide("shell", {"command": line}, env=env, definition=TOOLS["shell"])
    assert decision.outcome == "ask"
    assert decision.needs_answer[0].allow == ()


async def test_private_files_are_deleted_without_following_links(env: LocalEnv, project: Path) -> None:
    """P-24."""
    target = project / "kept"
    target.mkdir()
    (target / "a.txt").write_text("x", encoding="utf-8")
    done = await call_tool(env, "shell", command="sleep 60 & echo started")
    folder = Path(done.metadata["spool"]).parent
    (folder / "link").symlink_to(target)
    await env.aclose()
    assert not folder.exists()
    assert (target / "a.txt").read_text(encoding="utf-8") == "x"
