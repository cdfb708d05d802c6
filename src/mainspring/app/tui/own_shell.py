"""Shell commands of the user's own."""

from __future__ import annotations

from mainspring.app.chat.events import ShellFinished, ShellOutput, ShellStarted
from mainspring.app.tui.collapsed_output import Folds, output_rows
from mainspring.app.tui.safe_text import one_row, spelled
from mainspring.app.tui.styled_text import Row, row

_ROWS = 30
_LIVE_ROWS = 5
_MOST = 4_000


class OwnShell:
    """The one that runs, if one does.

    Args:
        folds: Keeps what is too long.
    """

    def __init__(self, folds: Folds) -> None:
        self._folds = folds
        self._started: ShellStarted | None = None
        self._output = ""
        self._shown = False

    def was_shown(self) -> bool:
        """Whether one was shown that the model is only now told of; asked once for each."""
        shown, self._shown = self._shown, False
        return shown

    @property
    def running(self) -> bool:
        """Whether one runs."""
        return self._started is not None

    def show(self, event: ShellStarted | ShellOutput | ShellFinished, columns: int) -> list[Row]:
        """What to print."""
        match event:
            case ShellStarted():
                self._started, self._output, self._shown = event, "", False
                return []
            case ShellOutput(text=text):
                self._output = (self._output + text)[-_MOST:]
                return []
            case ShellFinished(exit_code=code, output=output):
                line = self._started.line if self._started else ""
                self._started, self._shown = None, True
                rows = self._folds.fold(line, output_rows(output, "", "  "), _ROWS, at_end=True)
                ended = [row(("bad", f"  exit code {code}"))] if code else []
                return [row(("accent", "! "), one_row(line, columns - 4, make=spelled)), *rows, *ended]

    def live(self, columns: int, spinner: str) -> list[Row]:
        """The command and the last of what it printed."""
        if self._started is None:
            return []
        head = row(("accent", f"{spinner} ! "), one_row(self._started.line, columns - 6))
        return [head, *output_rows(self._output, "faint", "  ")[-_LIVE_ROWS:]]
