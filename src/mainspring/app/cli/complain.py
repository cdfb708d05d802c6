"""A wrong command line: what is wrong and how it is meant, in the form of output that was asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.exit_codes import USAGE
from mainspring.app.cli.json_schema import VERSION, Failure, ResultLine, encode
from mainspring.redaction import redact
from mainspring.text import visible


def complain(error: UsageError, given: Sequence[str]) -> int:
    """Say it; the exit code."""
    text = redact(str(error))
    if error.usage:
        print(visible(error.usage.rstrip(), prose=True), file=sys.stderr)
    print(visible(f"mainspring: error: {text}", prose=True), file=sys.stderr)
    words = {word for text in given for word in text.split("=")}
    if "--output" in words and words & {"json", "stream-json"}:
        failure = Failure(type="UsageError", message=text)
        print(encode(ResultLine(version=VERSION, status="error", exit_code=USAGE, error=failure)), flush=True)
    return USAGE
