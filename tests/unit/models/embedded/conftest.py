"""A fake engine that starts immediately and writes what the test sets, in a real child process."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SetEngineOutput = Callable[..., Path]


@pytest.fixture
def set_engine_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetEngineOutput:
    """Return a function that sets the output of the engine per request and returns the log of the requests."""
    engine = str(Path(__file__).with_name("fake_engine"))
    monkeypatch.syspath_prepend(engine)
    monkeypatch.setenv("PYTHONPATH", engine)
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    log = tmp_path / "requests.jsonl"
    monkeypatch.setenv("FAKE_LOG", str(log))

    def set_turns(*turns: str) -> Path:
        monkeypatch.setenv("FAKE_TURNS", json.dumps(turns))
        return log

    set_turns("Hello")
    return set_turns


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    """Return a model file whose content the engine ignores."""
    path = tmp_path / "some model.gguf"
    path.write_bytes(b"GGUF")
    return path
