"""The model's process: started on demand, private, ended with us, and honest about its failures."""

import asyncio
import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.errors import NetworkError, ProviderConfigError
from mainspring.models.embedded import engine, server
from mainspring.models.embedded.server import LlamaServer, borrow, give_back
from tests.helpers.processes import alive, ended
from tests.unit.models.embedded.conftest import Says

pytestmark = [pytest.mark.covers("PRV-38"), pytest.mark.usefixtures("no_blocking"), pytest.mark.timeout(60)]


async def gone(pid: int) -> bool:
    return await asyncio.to_thread(ended, pid)


async def test_it_starts_once_and_ends(says: Says, gguf: Path) -> None:
    served = LlamaServer(gguf)
    first, second = await asyncio.gather(served.endpoint(), served.endpoint())
    pid = served.pid
    assert first == second
    assert pid is not None
    assert first.base_url.startswith("http://127.0.0.1:")
    assert len(first.key) > 30
    await asyncio.to_thread(served.stop)
    assert not alive(pid)
    assert served.pid is None


async def test_the_key_is_in_no_argument_and_in_no_environment(
    says: Says, gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SEEN", str(tmp_path / "seen.json"))
    served = LlamaServer(gguf)
    endpoint = await served.endpoint()
    await asyncio.to_thread(served.stop)
    seen = await asyncio.to_thread((tmp_path / "seen.json").read_text)
    assert endpoint.key not in seen
    assert json.loads(seen)["environ"]["OMP_WAIT_POLICY"] == "passive"


async def test_a_process_that_dies_is_started_again_with_another_key(says: Says, gguf: Path) -> None:
    served = LlamaServer(gguf)
    first = await served.endpoint()
    pid = served.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert await gone(pid)
    assert "signal SIGKILL" in await asyncio.to_thread(served.failure)
    second = await served.endpoint()
    assert second.key != first.key
    assert await asyncio.to_thread(served.failure) == ""
    await asyncio.to_thread(served.stop)


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ("refuse", ProviderConfigError, "Cannot load the embedded model .*: it is no model"),
        ("illegal", ProviderConfigError, "requires AVX2"),
        ("killed", ProviderConfigError, "because of low memory"),
        ("leave", NetworkError, "exit code 7"),
    ],
)
async def test_what_keeps_it_from_starting_is_told(
    says: Says, gguf: Path, monkeypatch: pytest.MonkeyPatch, how: str, kind: type[Exception], said: str
) -> None:
    monkeypatch.setenv("FAKE_ENGINE", how)
    with pytest.raises(kind, match=said):
        await LlamaServer(gguf).endpoint()


async def test_it_is_shared_by_file_and_ends_with_its_last_user(says: Says, gguf: Path) -> None:
    first, second = borrow(gguf, 512), borrow(gguf, 512)
    assert first is second
    assert borrow(gguf, 1024) is not first
    await first.endpoint()
    pid = first.pid
    assert pid is not None
    await give_back(first)
    assert alive(pid)
    await give_back(second)
    assert not alive(pid)


PARENT = """
import asyncio, sys
from pathlib import Path
from mainspring.models.embedded.server import borrow
async def main():
    server = borrow(Path(sys.argv[1]), 512)
    await server.endpoint()
    print(server.pid, flush=True)
    if sys.argv[2] == "stay":
        await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["stay", "leave"])
async def test_it_ends_with_its_parent_however_that_ends(says: Says, gguf: Path, how: str) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(gguf), how, stdout=subprocess.PIPE, start_new_session=True
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    if how == "stay":
        assert alive(child)
        parent.kill()
    await parent.wait()
    assert await gone(child)


def test_the_engine_that_is_missing_gets_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not engine.is_engine_installed()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    with pytest.raises(ProviderConfigError, match=r"pip install .*\[local\]'(.|\n)*OPENAI_API_KEY"):
        engine.check_engine()
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    with pytest.raises(ProviderConfigError, match="without glibc"):
        engine.check_engine()
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(ProviderConfigError, match="no wheel for linux on riscv64"):
        engine.check_engine()


def test_it_takes_no_more_threads_than_there_are() -> None:
    assert 0 <= engine.thread_count() <= (os.cpu_count() or 1)


async def test_a_start_that_takes_for_ever_is_broken_off(
    says: Says, gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ENGINE", "stuck")
    monkeypatch.setattr(server, "_START_SECONDS", 1.0)
    with pytest.raises(NetworkError, match="did not load within 1s"):
        await LlamaServer(gguf).endpoint()
