"""The end of an HTTP body, in any chunks."""

from typing import Literal

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.models.transport.http1.body import (
    BodyFraming,
    BodyFramingError,
    ChunkedBody,
    CloseDelimitedBody,
    ContentLengthBody,
)

PIECES = st.lists(st.binary(min_size=1, max_size=300), max_size=8)


def split(data: bytes, at: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(n % (len(data) + 1) for n in at)})
    return [data[a:b] for a, b in zip(marks, marks[1:], strict=False)]


def read(framing: BodyFraming, parts: list[bytes]) -> bytes:
    return b"".join([framing.feed(part) for part in parts])


@given(PIECES, st.lists(st.integers(0, 4000), max_size=30), st.sampled_from([b"", b";a=1", b' ;b="x"', b"\t"]))
def test_chunked_body_is_read_in_any_pieces(pieces: list[bytes], at: list[int], extension: bytes) -> None:
    sent = b"".join(b"%X%b\r\n%b\r\n" % (len(p), extension, p) for p in pieces) + b"000\r\nx-trailer: 1\r\n\r\n"
    framing = ChunkedBody()

    assert read(framing, split(sent, at)) == b"".join(pieces)
    assert framing.done
    assert framing.trailing_data == b""
    framing.close()


@given(st.binary(max_size=500), st.lists(st.integers(0, 600), max_size=20), st.binary(max_size=5))
def test_body_with_a_length_is_read_in_any_pieces(body: bytes, at: list[int], extra: bytes) -> None:
    framing = ContentLengthBody(len(body))

    assert read(framing, split(body + extra, at)) == body
    assert framing.done
    assert framing.trailing_data == extra


@given(st.binary(max_size=200), st.lists(st.integers(0, 300), max_size=30))
def test_invalid_chunked_body_is_a_body_or_an_error(noise: bytes, at: list[int]) -> None:
    framing = ChunkedBody()
    try:
        read(framing, split(noise, at))
        framing.close()
    except BodyFramingError:
        return
    assert framing.done


def test_data_after_the_last_chunk_is_kept_separately() -> None:
    framing = ChunkedBody()

    assert framing.feed(b"1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK") == b"a"
    assert framing.trailing_data == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n",
        b"x\r\n",
        b"-1\r\n",
        b"0x1\r\n",
        b"1_0\r\n",
        b"+1\r\n",
        b"f" * 21 + b"\r\n",
        b" 1\r\n",
        b"1;a\nb\r\n",
        b"1\n\r\n",
        b"1;" + b"a" * 20_000 + b"\r\na\r\n",
        b"0\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"0\r\n: x\r\n\r\n",
        b"0\r\n" + b"a: b\r\n" * 20_000,
        b"1\r\nabc\r\n",
        b"1" * 20_000,
    ],
)
def test_invalid_chunk_length_is_an_error(sent: bytes) -> None:
    with pytest.raises(BodyFramingError):
        ChunkedBody().feed(sent)


@pytest.mark.parametrize(
    ("framing", "sent"),
    [(ChunkedBody(), b"5\r\nhel"), (ChunkedBody(), b"0\r\n"), (ChunkedBody(), b""), (ContentLengthBody(3), b"ab")],
)
def test_early_end_is_an_error(framing: BodyFraming, sent: bytes) -> None:
    framing.feed(sent)
    assert not framing.done
    with pytest.raises(BodyFramingError, match="missing"):
        framing.close()


def test_body_without_a_length_ends_with_the_connection() -> None:
    framing = CloseDelimitedBody()

    assert framing.feed(b"all") == b"all"
    assert not framing.done
    framing.close()
    assert framing.done


Outcome = bytes | Literal["error", "missing"]


def read_outcome(parts: list[bytes]) -> Outcome:
    framing = ChunkedBody()
    try:
        body = read(framing, parts)
    except BodyFramingError:
        return "error"
    return body if framing.done else "missing"


def h11_outcome(sent: bytes) -> Outcome:
    reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    reader.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    reader.send(h11.EndOfMessage())
    reader.receive_data(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + sent)
    body = b""
    try:
        while not isinstance(event := reader.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                return "missing"
            if isinstance(event, h11.Data):
                body += event.data
    except h11.RemoteProtocolError:
        return "error"
    return body


CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=5)
EXTENSIONS = st.sampled_from([b"", b";a=1", b";", b'; b="x;y"', b"  "])
TRAILERS = st.sampled_from([b"", b"x: 1\r\n", b"x-sum: a\r\ny:\r\n"])
CUTS = st.lists(st.integers(0, 400), max_size=30)


def encode_chunks(chunks: list[bytes], extension: bytes, zeros: int, trailers: bytes) -> bytes:
    sized = b"".join(b"%b%x%b\r\n%b\r\n" % (b"0" * zeros, len(c), extension, c) for c in chunks)
    return sized + b"0%b\r\n%b\r\n" % (extension, trailers)


@given(CHUNKS, EXTENSIONS, st.integers(0, 12), TRAILERS, CUTS)
def test_valid_chunked_body_is_read_like_h11_reads_it(
    chunks: list[bytes], extension: bytes, zeros: int, trailers: bytes, at: list[int]
) -> None:
    sent = encode_chunks(chunks, extension, zeros, trailers)

    assert read_outcome(split(sent, at)) == h11_outcome(sent) == b"".join(chunks)


@given(CHUNKS, EXTENSIONS, TRAILERS, CUTS, st.data())
def test_corrupted_chunked_body_is_never_read_differently_than_by_h11(
    chunks: list[bytes], extension: bytes, trailers: bytes, at: list[int], data: st.DataObject
) -> None:
    sent = bytearray(encode_chunks(chunks, extension, 0, trailers))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(sent)))
        new = data.draw(st.binary(max_size=3) | st.sampled_from([b"\r", b"\n", b"\r\n", b"0", b"f", b";", b" "]))
        sent[place : place + data.draw(st.integers(0, 2))] = new

    result = read_outcome(split(bytes(sent), at))

    assert result == read_outcome([bytes(sent)])
    if isinstance(result, bytes):
        lenient = (
            b" ;" in sent or b"\t;" in sent
        )  # h11 rejects these, but a recipient must accept them (RFC 9112, 7.1.1).
        assert result == b"".join(chunks) or lenient or result == h11_outcome(bytes(sent))
