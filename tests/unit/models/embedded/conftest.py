"""An engine that starts at once and says what the test wants, in a real child process."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SetEngineOutput = Callable[..., Path]


@pytest.fixture
def set_engine_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetEngineOutput:
    """Set what the engine writes, a text a request; gives the file in which it notes the requests."""
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
    """A model file that the engine does not look into."""
    path = tmp_path / "some model.gguf"
    path.write_bytes(b"GGUF")
    return path
