import pytest
from hypothesis import given, strategies as st

from mainspring.cancellation import CancelToken
from mainspring.env import LocalEnv
from mainspring.loop.hooks import HookBus, PermissionCheck
from mainspring.skills.execution import MAX_COMMANDS, InlineCommandRunner, run_inline_commands


async def to_upper(command: str) -> str:
    return command.upper()


@pytest.mark.covers("SKL-30")
async def test_inline_command_is_replaced_by_its_output() -> None:
    body = "On !`git branch` and (!`b`)\n`!x` $1 $ARGUMENTS \\`\n```sh\n!`example`\n```\n~~~\n!`two`\n~~~\nwow!`no` ``!`no` ``\n!`end`"

    expanded = await run_inline_commands(body, to_upper)

    assert (
        expanded
        == "On GIT BRANCH and (B)\n`!x` $1 $ARGUMENTS \\`\n```sh\n!`example`\n```\n~~~\n!`two`\n~~~\nwow!`no` ``!`no` ``\nEND"
    )


@pytest.mark.covers("SKL-30")
async def test_output_of_a_command_is_not_expanded() -> None:
    async def print_command(command: str) -> str:
        return "!`rm -rf /` $1"

    assert await run_inline_commands("!`a`", print_command) == "!`rm -rf /` $1"


@pytest.mark.covers("SKL-30")
async def test_number_of_inline_commands_is_limited() -> None:
    expanded = await run_inline_commands("!`a`\n" * (MAX_COMMANDS + 2), to_upper)

    assert expanded.count("A\n") == MAX_COMMANDS
    assert expanded.count("[not run:") == 2


@given(st.text(alphabet="!`~ab \n", max_size=60))
def test_text_without_commands_is_unchanged(text: str) -> None:
    import asyncio

    if "!`" not in text:
        assert asyncio.run(run_inline_commands(text, to_upper)) == text


@pytest.mark.covers("SKL-30")
async def test_failures_are_shown_in_place(tmp_path: object) -> None:
    env = LocalEnv(str(tmp_path))
    commands = InlineCommandRunner("s", env, HookBus())

    assert await commands("printf hello") == "hello"
    assert (await commands("echo bad >&2; exit 3")).startswith("[failed: `echo bad >&2; exit 3`: exit 3: bad")
    assert "more bytes]" in await commands("head -c 40000 /dev/zero | tr '\\0' a")
    stopped = CancelToken()
    stopped.cancel("enough")
    assert "it was stopped" in await InlineCommandRunner("s", env, HookBus(), stopped)("sleep 30")
    await env.aclose()


@pytest.mark.covers("SKL-30")
async def test_denied_command_does_not_run(tmp_path: object) -> None:
    env = LocalEnv(str(tmp_path))
    bus = HookBus()
    request: list[tuple[str, str]] = []

    def deny_command(hook: PermissionCheck) -> None:
        request.append((hook.name, hook.input["command"]))
        hook.deny("the user said no")

    bus.on(PermissionCheck, deny_command)

    output = await InlineCommandRunner("s", env, bus)("touch x")

    assert output == "[not run: `touch x`: the user said no]"
    assert request == [("shell", "touch x")]
    assert await env.list_dir(".") == []
