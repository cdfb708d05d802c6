"""Redaction of secrets that are split across stream chunks."""

import json

from hypothesis import example, given, settings, strategies as st

from mainspring.redaction import REDACTED, Redactor, redact_stream
from mainspring.redaction.redactor import encoded_forms

SHAPED = "sk-proj-abcdefgh1234567890abcdefgh"


def make_stream(pieces: list[str]) -> str:
    return "".join(f"data: {json.dumps({'type': 'delta', 'index': 0, 'text': p})}\n\n" for p in pieces)


def texts_in(stream: str) -> list[str]:
    return [json.loads(line[5:])["text"] for line in stream.split("\n") if line.startswith("data:")]


@example(secret="000000", around=["\0"], cuts=[])
@settings(max_examples=60)
@given(
    secret=st.text(st.characters(exclude_categories=("Cs",)), min_size=6, max_size=12),
    around=st.lists(st.text(max_size=8), min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, 60), max_size=12),
)
def test_secret_split_across_chunks_is_redacted(secret: str, around: list[str], cuts: list[int]) -> None:
    redactor = Redactor([secret])
    whole = secret.join(["", *around, f" {SHAPED}"])
    at = sorted({0, len(whole), *[c for c in cuts if c < len(whole)]})
    pieces = [whole[a:b] for a, b in zip(at, at[1:], strict=False)]
    if len(set(pieces)) == 1 < len(pieces):
        return

    redacted = texts_in(redact_stream(redactor, make_stream(pieces)))

    assert len(redacted) == len(pieces)
    assert "".join(redacted) == redactor.text(whole)
    assert secret not in "".join(redacted) or secret in REDACTED
    assert SHAPED not in "".join(redacted)


def test_unrelated_chunks_are_not_joined() -> None:
    redactor = Redactor(["abcdef"])
    calls = [
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": n, "function": {"arguments": part}}]}}]}
        for n, part in ((0, "abc"), (1, "def"), (1, "abc"), (1, "def"), (0, "xyz"))
    ]
    stream = "".join(f"data: {json.dumps(call)}\n\n" for call in calls)
    redacted = [json.loads(line[5:]) for line in redact_stream(redactor, stream).split("\n") if line]
    parts = [c["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] for c in redacted]
    assert parts == ["abc", "def", REDACTED, "", "xyz"]
    same = 'event: x\nid: 7\ndata: {broken\n\ndata: [DONE]\n\ndata:  {"a":  1}\n\n'
    assert redact_stream(redactor, same) == same


def test_json_forms_of_a_secret_are_redacted() -> None:
    redactor = Redactor(['ö"\\x1'])
    for form in encoded_forms('ö"\\x1'):
        assert redactor.text(f"<{form}>") == f"<{REDACTED}>"
