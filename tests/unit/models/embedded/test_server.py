"""The process of the embedded model: started on demand, private, ended with the program, and clear about its failures."""

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
from tests.unit.models.embedded.conftest import SetEngineOutput

pytestmark = [pytest.mark.covers("PRV-38"), pytest.mark.usefixtures("no_blocking")]


async def has_ended(pid: int) -> bool:
    return await asyncio.to_thread(ended, pid)


async def test_server_starts_once_and_ends(set_engine_output: SetEngineOutput, model_file: Path) -> None:
    served = LlamaServer(model_file)
    first, second = await asyncio.gather(served.endpoint(), served.endpoint())
    pid = served.pid
    assert first == second
    assert pid is not None
    assert first.base_url.startswith("http://127.0.0.1:")
    assert len(first.key) > 30
    await asyncio.to_thread(served.stop)
    assert not alive(pid)
    assert served.pid is None


async def test_api_key_is_not_in_arguments_or_environment(
    set_engine_output: SetEngineOutput, model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SEEN", str(tmp_path / "seen.json"))
    served = LlamaServer(model_file)
    endpoint = await served.endpoint()
    await asyncio.to_thread(served.stop)
    seen = await asyncio.to_thread((tmp_path / "seen.json").read_text)
    assert endpoint.key not in seen
    assert json.loads(seen)["environ"]["OMP_WAIT_POLICY"] == "passive"


async def test_crashed_server_restarts_with_another_key(set_engine_output: SetEngineOutput, model_file: Path) -> None:
    served = LlamaServer(model_file)
    first = await served.endpoint()
    pid = served.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert await has_ended(pid)
    assert "signal SIGKILL" in await asyncio.to_thread(served.failure)
    second = await served.endpoint()
    assert second.key != first.key
    assert await asyncio.to_thread(served.failure) == ""
    await asyncio.to_thread(served.stop)


@pytest.mark.parametrize(
    ("how", "kind", "error_text"),
    [
        ("refuse", ProviderConfigError, "Cannot load the embedded model .*: it is no model"),
        ("illegal", ProviderConfigError, "requires AVX2"),
        ("killed", ProviderConfigError, "because of low memory"),
        ("leave", NetworkError, "exit code 7"),
    ],
)
async def test_failed_start_is_reported(
    set_engine_output: SetEngineOutput,
    model_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    kind: type[Exception],
    error_text: str,
) -> None:
    monkeypatch.setenv("FAKE_ENGINE", how)
    with pytest.raises(kind, match=error_text):
        await LlamaServer(model_file).endpoint()


async def test_server_is_shared_per_file_and_ends_with_its_last_user(
    set_engine_output: SetEngineOutput, model_file: Path
) -> None:
    first, second = borrow(model_file, 512), borrow(model_file, 512)
    assert first is second
    assert borrow(model_file, 1024) is not first
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
async def test_server_ends_with_its_parent_process(
    set_engine_output: SetEngineOutput, model_file: Path, how: str
) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(model_file), how, stdout=subprocess.PIPE, start_new_session=True
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    if how == "stay":
        assert alive(child)
        parent.kill()
    await parent.wait()
    assert await has_ended(child)


def test_missing_engine_error_names_the_install_commands(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_number_of_threads_is_limited_to_the_cpus() -> None:
    assert 0 <= engine.thread_count() <= (os.cpu_count() or 1)


async def test_start_times_out(
    set_engine_output: SetEngineOutput, model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ENGINE", "stuck")
    monkeypatch.setattr(server, "_START_SECONDS", 1.0)
    with pytest.raises(NetworkError, match="did not load within 1s"):
        await LlamaServer(model_file).endpoint()
