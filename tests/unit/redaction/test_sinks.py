"""Small outputs redact every form of a secret."""

import logging
from pathlib import Path

import pytest

from mainspring.app.cli.errors import describe_error, format_traceback
from mainspring.app.cli.runner import configure_logging
from mainspring.app.servers.http.responses import error_response
from mainspring.app.tui.input_field import HistoryFile
from mainspring.app.tui.notifications import NotificationOptions, Notifier
from mainspring.durable.records import to_stored_error
from mainspring.errors import MainspringError
from tests.secret_forms import FORMS

pytestmark = [pytest.mark.covers("BYD-19"), pytest.mark.anyio]

TEXTS = [sample for sample in FORMS if "\n" not in sample.text]


def find_leaks(text: str) -> list[str]:
    return [sample.name for sample in TEXTS if sample.secret in text]


async def test_prompt_history_is_redacted(tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "history.jsonl")
    assert all(history.add(sample.text) for sample in TEXTS)
    assert find_leaks((tmp_path / "history.jsonl").read_text()) == []


async def test_notifications_are_redacted() -> None:
    written: list[str] = []
    ran: list[str] = []

    async def run(command: str, environ: object) -> None:
        ran.append(repr(environ))

    notifier = Notifier(
        NotificationOptions(channels=("osc9", "osc777"), when="always", command="x"), written.append, {}, run
    )
    for sample in TEXTS:
        await notifier.notify("done", sample.text)
    assert len(ran) == len(TEXTS)
    assert find_leaks("".join([*written, *ran])) == []


async def test_error_outputs_are_redacted() -> None:
    errors = [MainspringError(sample.text) for sample in TEXTS]
    error_texts = [describe_error(error) + format_traceback(error) + repr(to_stored_error(error)) for error in errors]
    bodies = [bytes(error_response(400, "invalid", sample.text).body).decode() for sample in TEXTS]
    assert find_leaks("".join([*error_texts, *bodies])) == []


async def test_debug_log_is_redacted(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(verbose=True)
    try:
        for sample in TEXTS:
            logging.getLogger("mainspring.models").warning("refused: %s", sample.text)
    finally:
        configure_logging(verbose=False)
    text = capsys.readouterr().err
    assert text.count("refused") == len(TEXTS)
    assert find_leaks(text) == []
