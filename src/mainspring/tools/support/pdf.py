"""The text of a PDF, page by page. Needs pypdf (extra ``pdf``)."""

from __future__ import annotations

import io
import logging
from typing import Any


class PdfError(ValueError):
    """The text cannot be had; the text says why."""


class NoPypdfError(PdfError):
    """pypdf is not installed."""


class Pdf:
    """An opened PDF. Everything here is slow; meant for a thread.

    Args:
        data: The whole file.

    Raises:
        NoPypdfError: If pypdf is missing.
        PdfError: If the file is damaged or needs a password.
    """

    def __init__(self, data: bytes) -> None:
        try:
            from pypdf import PdfReader
        except ImportError:
            raise NoPypdfError("pypdf is not installed") from None
        logger = logging.getLogger("pypdf")
        if (
            logger.level == logging.NOTSET
        ):  # It tells of every small fault that it gets over, on stderr if nobody listens.
            logger.setLevel(logging.CRITICAL)
        try:
            reader = PdfReader(io.BytesIO(data))
            if reader.is_encrypted and not reader.decrypt(""):
                raise PdfError("it is protected by a password")
            self.pages = len(reader.pages)
        except PdfError:
            raise
        except Exception as e:  # damaged data makes it raise anything
            raise PdfError(f"it is damaged or of an unknown kind: {type(e).__name__}: {e}") from None
        self._reader: Any = reader

    def text(self, number: int) -> str:
        """The text of a page, counted from 1; empty if it has none, as a scanned one.

        Raises:
            PdfError: If the page is damaged.
        """
        try:
            return self._reader.pages[number - 1].extract_text().strip()
        except Exception as e:  # damaged data makes it raise anything
            raise PdfError(f"{type(e).__name__}: {e}") from None
