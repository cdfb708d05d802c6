import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.cancellation import CancelToken
from mainspring.env import LocalEnv
from mainspring.loop.hooks import HookBus, PermissionCheck
from mainspring.skills.execution import MAX_COMMANDS, InlineCommandRunner, has_commands, run_inline_commands


async def shout(command: str) -> str:
    return command.upper()


@pytest.mark.covers("SKL-30")
async def test_a_command_is_replaced_by_its_output_and_nothing_else_is_touched() -> None:
    body = "On !`git branch` and (!`b`)\n`!x` $1 $ARGUMENTS \\`\n```sh\n!`example`\n```\n~~~\n!`two`\n~~~\nwow!`no` ``!`no` ``\n!`end`"

    made = await run_inline_commands(body, shout)

    assert (
        made
        == "On GIT BRANCH and (B)\n`!x` $1 $ARGUMENTS \\`\n```sh\n!`example`\n```\n~~~\n!`two`\n~~~\nwow!`no` ``!`no` ``\nEND"
    )


@pytest.mark.covers("SKL-30")
async def test_output_is_not_looked_at_again() -> None:
    async def sly(command: str) -> str:
        return "!`rm -rf /` $1"

    assert await run_inline_commands("!`a`", sly) == "!`rm -rf /` $1"


@pytest.mark.covers("SKL-30")
async def test_only_so_many_commands_run() -> None:
    made = await run_inline_commands("!`a`\n" * (MAX_COMMANDS + 2), shout)

    assert made.count("A\n") == MAX_COMMANDS
    assert made.count("[not run:") == 2


@given(st.text(alphabet="!`~ab \n", max_size=60))
def test_text_without_commands_stays_as_it_is(text: str) -> None:
    import asyncio

    if not has_commands(text):
        assert asyncio.run(run_inline_commands(text, shout)) == text


@pytest.mark.covers("SKL-30")
async def test_failures_stand_in_place(tmp_path: object) -> None:
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
async def test_a_command_that_is_refused_does_not_run(tmp_path: object) -> None:
    env = LocalEnv(str(tmp_path))
    bus = HookBus()
    request: list[tuple[str, str]] = []

    def refuse(hook: PermissionCheck) -> None:
        request.append((hook.name, hook.input["command"]))
        hook.deny("the user said no")

    bus.on(PermissionCheck, refuse)

    said = await InlineCommandRunner("s", env, bus)("touch x")

    assert said == "[not run: `touch x`: the user said no]"
    assert request == [("shell", "touch x")]
    assert await env.list_dir(".") == []
