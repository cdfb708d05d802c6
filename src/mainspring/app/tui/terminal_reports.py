"""Separation of keys from what a terminal reports: answers to queries, mouse and focus events, and keys of extended protocols."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Literal

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

FOCUS_IN, FOCUS_OUT = "\ue001", "\ue002"
"""The keys for a window that got or lost the focus."""

_ESCAPE = "\x1b"
_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
_STRINGS = "]P_^X"
"""The second characters of OSC, DCS, APC, PM, and SOS, which are also typed with Alt."""

_REPORT_START = re.compile(
    r"\x1b(?:\][\dlL]|P[\d>|$+!=?;]|_G|\[[\d<=>?;M])",
)
"""The start of a sequence that cannot be typed, so that its end is awaited."""

_COMPLETE = re.compile(
    r"\x1b(?:\[(?:M[^\x00-\x1f]{3}|[@-LN-Z]\Z|\[[A-E]\Z|[\d<=>?;][0-?]*[ -/]*[@-~])"
    r"|(?:\][\dlL]|P|_G|\^|X)[^\a\x1b\x9c]*(?:\a|\x1b\\|\x9c))"
)
"""A sequence that is recognized however late its rest arrives, since typed keys arrive one at a time."""

_CSI = re.compile(r"\x1b\[([0-?]*)([ -/]*)([@-~])")
_EVENT = re.compile(r":(\d*)")
_MODIFIED_ENTER = re.compile(r"13;([2-9]|1[0-6])(?::[12])?")
_NEW_LINE = "\x1b\r"
_MAX_LATE_SECONDS = 5.0
"""Seconds after a lone Escape in which the rest of a report is recognized."""
_MAX_WAIT_SECONDS = 2.0
"""Seconds after which only a complete rest continues a sequence, so that typing works if the end was lost."""
_MAX_STORED_CHARS = 4096
_MAX_KEY_CHARS = 12
"""Maximum number of characters that one key sends."""

_X10_BYTES = 6
"""Bytes of a mouse report of X10, whose coordinates need not be valid UTF-8."""

_State = Literal["text", "escape", "csi", "x10", "console", "string", "paste"]


class ReportFilter(Vt100Parser):
    """A parser of keys that removes reports of the terminal first, also if they arrive in pieces.

    Programs that run in between and multiplexers request reports, and the answers may arrive while the user types. Each sequence
    is read to its end. Only sequences of known keys are passed on. A pause ends a lone Escape only, which is a key: what follows a
    longer start is awaited, since a busy terminal may send it late.

    Args:
        keys: The parser of the remaining keys.
        clock: Returns the time in seconds.
    """

    def __init__(self, keys: Vt100Parser, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._clock = clock
        self._state: _State = "text"
        self._sequence = ""
        self._paste: list[str] = []  # joined once: the time to parse a paste grows with its length only
        self._since = 0.0
        self._escape_released_at = -_MAX_LATE_SECONDS
        self._has_paused = False
        super().__init__(keys.feed_key_callback)

    def feed(self, data: str) -> None:
        """Parse input of the terminal."""
        if self._state == "paste" and len(data) <= _MAX_KEY_CHARS and self._clock() - self._since > _MAX_WAIT_SECONDS:
            self._end_lost_paste(data)
        elif self._state == "text":
            self._find_late_report(data)
        elif self._state != "paste" and self._has_paused:
            self._check_late_rest(data)
        self._has_paused = False
        self._escape_released_at = -_MAX_LATE_SECONDS
        at = 0
        while at < len(data):
            if self._state == "text":
                end = data.find(_ESCAPE, at)
                end = len(data) if end < 0 else end
                self._pass_on(data[at:end])
                at = end
                if at < len(data):
                    self._start_sequence()
                    at += 1
            elif self._state == "paste":
                at = self._feed_paste(data, at)
            else:
                self._feed_character(data[at])
                at += 1

    def flush(self) -> None:
        """Handle what arrived so far as keys, after a pause. The rest of a report is still awaited."""
        is_alt_text = self._state == "string" and len(self._sequence) > 2 and not _REPORT_START.match(self._sequence)
        if self._sequence == _ESCAPE and self._state == "escape":
            self._escape_released_at = self._clock()
            self._release()
        elif is_alt_text:
            self._release()
        self._has_paused = True
        self._keys.flush()

    def feed_and_flush(self, data: str) -> None:
        """Parse input that is complete."""
        self.feed(data)
        self.flush()

    def reset(self, request: bool = False) -> None:
        """Forget what arrived so far."""
        self._paste.clear()
        self._reset()
        self._keys.reset(request)

    def _find_late_report(self, data: str) -> None:
        """Continue a report whose Escape was handled as a key."""
        if self._clock() - self._escape_released_at < _MAX_LATE_SECONDS:
            sequence = _ESCAPE + data
            if _COMPLETE.match(sequence) or (len(data) > 2 and _REPORT_START.match(sequence)):
                self._start_sequence()

    def _check_late_rest(self, data: str) -> None:
        """End the sequence unless this is its rest, after a pause within it."""
        sequence = self._sequence + data
        if _COMPLETE.match(sequence):
            return
        if self._clock() - self._since > _MAX_WAIT_SECONDS:
            self._reset()  # the rest never came
        elif not _REPORT_START.match(sequence):
            self._release()

    def _pass_on(self, text: str) -> None:
        if text:
            self._keys.feed(text)

    def _start_sequence(self) -> None:
        self._state, self._sequence, self._since = "escape", _ESCAPE, self._clock()

    def _reset(self) -> None:
        self._state, self._sequence = "text", ""

    def _release(self) -> None:
        """Handle the sequence as keys."""
        text = self._sequence
        self._reset()
        self._pass_on(text)

    def _end_lost_paste(self, data: str) -> None:
        """End a paste whose end was lost on the way, for example, by a multiplexer: otherwise no key would work any more."""
        if _PASTE_END not in self._sequence + data:
            self._end_paste()

    def _feed_paste(self, data: str, at: int) -> int:
        """Collect a paste up to its end. Return where the text after it starts."""
        overlap = self._sequence[-len(_PASTE_END) + 1 :]
        end = (overlap + data[at:]).find(_PASTE_END)
        if end < 0:
            self._sequence = (overlap + data[at:])[-len(_PASTE_END) :]
            self._since = self._clock()
            self._paste.append(data[at:])
            return len(data)
        stop = at + end + len(_PASTE_END) - len(overlap)
        self._paste.append(data[at:stop])
        self._end_paste()
        return stop

    def _end_paste(self) -> None:
        text = "".join(self._paste).removesuffix(_PASTE_END)
        self._paste.clear()
        self._reset()
        self._keys.feed_key_callback(KeyPress(Keys.BracketedPaste, text))

    def _feed_character(self, character: str) -> None:
        if self._state == "string":
            self._feed_string(character)
        elif character == _ESCAPE:  # Escape, and then another sequence
            if not _REPORT_START.match(self._sequence):
                self._pass_on(self._sequence)
            self._start_sequence()
        elif self._state == "escape":
            self._sequence += character
            if character == "[":
                self._state = "csi"
            elif character in _STRINGS:
                self._state = "string"
            else:
                self._release()  # Alt and a key, or a function key
        else:
            self._feed_control_sequence(character)

    def _feed_control_sequence(self, character: str) -> None:
        if self._state == "csi" and not " " <= character <= "~":  # the sequence was cut off
            is_report = _REPORT_START.match(self._sequence) is not None
            self._sequence = character if is_report else self._sequence + character
            self._release()
            return
        if self._state == "x10" and character < " ":  # a key: the report was cut off
            self._sequence = character
            self._release()
            return
        self._sequence += character
        if self._state == "x10":
            if len(self._sequence.encode("utf-8", "surrogateescape")) >= _X10_BYTES:
                self._reset()
        elif self._state == "console":
            self._release_known()
        elif self._sequence == "\x1b[M":
            self._state = "x10"
        elif self._sequence == "\x1b[[":
            self._state = "console"
        elif "@" <= character <= "~":
            self._end_control_sequence()

    def _end_control_sequence(self) -> None:
        sequence = self._sequence
        match = _CSI.fullmatch(sequence)
        parameters, final = (match[1], match[3]) if match else ("", "")
        if sequence == _PASTE_START:
            self._state, self._sequence = "paste", ""
        elif sequence in ("\x1b[I", "\x1b[O"):
            self._reset()
            key = FOCUS_IN if final == "I" else FOCUS_OUT
            self._keys.feed_key_callback(KeyPress(key, sequence))
        elif final == "u" and _MODIFIED_ENTER.fullmatch(parameters):
            self._reset()
            self._pass_on(_NEW_LINE)
        else:
            events = _EVENT.findall(parameters)
            if events and events[-1] in ("", "1", "2"):  # a press that is reported with its kind
                self._sequence = _EVENT.sub("", sequence)
            self._release_known()

    def _release_known(self) -> None:
        """Handle the sequence as a key if it is one, and drop it otherwise."""
        if self._sequence in ANSI_SEQUENCES and not self._sequence.endswith("R"):
            self._release()
        else:
            self._reset()

    def _feed_string(self, character: str) -> None:
        if character == "\\" and self._sequence.endswith(_ESCAPE):
            self._reset()
        elif self._sequence.endswith(_ESCAPE) and len(self._sequence) > 1:  # the string was cut off by another sequence
            self._sequence = self._sequence.removesuffix(_ESCAPE)
            self._abandon_string()
            self._start_sequence()
            self._feed_character(character)
        elif character in "\a\x9c":
            self._reset()
        elif character < " " and character != _ESCAPE:  # a key such as Enter or Ctrl-C: the string never ends
            self._abandon_string()
            self._pass_on(character)
        elif len(self._sequence) < _MAX_STORED_CHARS or character == _ESCAPE:
            self._sequence += character

    def _abandon_string(self) -> None:
        if _REPORT_START.match(self._sequence):
            self._reset()
        else:
            self._release()
