"""Heads and bodies of responses, in any chunks; h11 is the reference."""

import re

import h11
import pytest
from hypothesis import given, strategies as st

from mainspring.models.transport.http1.response import MalformedResponseError, ResponseParser

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


def split(data: bytes, at: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(n % (len(data) + 1) for n in at)})
    return [data[a:b] for a, b in zip(marks, marks[1:], strict=False)]


def read(response: ResponseParser, parts: list[bytes]) -> bytes:
    body = b""
    for part in parts:
        response.feed(part)
        while piece := response.take_body():
            body += piece
    return body


def read_all(parts: list[bytes], *, closed: bool = True) -> tuple[int, bytes] | None:
    """Return the response that is read if it is valid and complete."""
    response = ResponseParser(expects_body=True)
    try:
        body = read(response, parts)
        if closed and response.status and not response.is_complete:
            response.close()
    except MalformedResponseError:
        return None
    return (response.status, body) if response.is_complete else None


def parse_with_h11(sent: bytes) -> tuple[int, bytes] | None:
    """Return the response that h11 reads if it is complete."""
    reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 18)
    reader.send(h11.Request(method="POST", target="/", headers=[("host", "a"), ("content-length", "0")]))
    reader.send(h11.EndOfMessage())
    reader.receive_data(sent)
    reader.receive_data(b"")
    status, body = 0, b""
    try:
        while not isinstance(event := reader.next_event(), h11.EndOfMessage):
            match event:
                case h11.Response():
                    status = event.status_code
                case h11.Data():
                    body += event.data
                case h11.InformationalResponse():
                    pass
                case _:
                    return None
    except h11.RemoteProtocolError:
        return None
    return status, body


def remove_ignored_bytes(sent: bytes) -> bytes:
    """Remove bytes that h11 rejects and that have no meaning: reason phrases and blank lines before a response.

    Blanks after the length of a chunk are valid (RFC 9112, 7.1.1).
    """
    sent = re.sub(rb"[\r\n]+(?=HTTP/)", b"\r\n\r\n", sent).lstrip(b"\r\n")
    sent = re.sub(rb"(?<=HTTP/\d\.\d \d\d\d) [^\r\n]*", b"", sent)
    return re.sub(rb"(?<=\n[\da-f])[ \t]+;", b";", sent)


CUTS = st.lists(st.integers(0, 4000), max_size=30)
HEADS = st.sampled_from([OK, b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 200\r\na: b\r\n", b"HTTP/1.0 404 No\r\n"])
BODIES = st.sampled_from(
    [
        b"content-length: 5\r\n\r\nhello",
        b"content-length: 0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\nx: y\r\n\r\n",
        b"\r\nhello",
    ]
)
NOISE = st.binary(max_size=3) | st.sampled_from([b"\r", b"\n", b"\r\n", b"0", b"9", b",", b":", b";", b" ", b"chunked"])
CHANGES = st.lists(st.tuples(st.integers(0, 150), st.integers(0, 2), NOISE), max_size=3)


@given(HEADS, BODIES, CHANGES, CUTS)
def test_response_is_what_h11_reads_or_an_error(
    first: bytes, body: bytes, changes: list[tuple[int, int, bytes]], at: list[int]
) -> None:
    sent = first + body
    for place, length, new in changes:
        sent = sent[:place] + new + sent[place + length :]

    result = read_all(split(sent, at))

    assert result == read_all([sent])
    if result is not None or not changes:
        assert result in (parse_with_h11(sent), parse_with_h11(remove_ignored_bytes(sent)))


@given(
    st.lists(st.binary(min_size=1, max_size=300), max_size=8),
    st.sampled_from([b"", b";a=1", b';b="x"', b"\t", b"  "]),
    st.sampled_from([b"", b"x-trailer: 1\r\n", b"x-sum: a\r\ny:\r\n"]),
    CUTS,
)
def test_chunked_body_is_read_in_any_pieces(
    pieces: list[bytes], extension: bytes, trailers: bytes, at: list[int]
) -> None:
    sent = b"".join(b"%X%b\r\n%b\r\n" % (len(p), extension, p) for p in pieces) + b"000\r\n%b\r\n" % trailers
    response = ResponseParser(expects_body=True)

    assert read(response, split(CHUNKED + sent, at)) == b"".join(pieces)
    assert response.can_keep_alive
    assert response.headers == [(b"transfer-encoding", b"chunked")]


@given(st.binary(max_size=500), CUTS, st.sampled_from([b"", b"H", b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"]))
def test_body_with_a_length_is_read_in_any_pieces(body: bytes, at: list[int], extra: bytes) -> None:
    response = ResponseParser(expects_body=True)

    assert read(response, split(OK + b"Content-Length:%d \r\n\r\n%b%b" % (len(body), body, extra), at)) == body
    assert response.is_complete
    assert response.can_keep_alive == (not extra)
    assert response.headers == [(b"content-length", b"%d" % len(body))]


@given(st.binary(max_size=200), CUTS)
def test_invalid_chunked_body_is_a_body_or_an_error(noise: bytes, at: list[int]) -> None:
    assert read_all(split(CHUNKED + noise, at)) == read_all([CHUNKED + noise])


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
        b"1\na\r\n",
        b"1\r\na\n",
        b"1;" + b"a" * 70_000,
        b"0\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"0\r\n: x\r\n\r\n",
        b"0\r\na: b\r\n c\r\n\r\n",
        b"0\r\n" + b"a: b\r\n" * 20_000,
        b"1\r\nabc\r\n",
        b"1" * 20_000,
    ],
)
@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_invalid_chunk_is_an_error(sent: bytes, size: int) -> None:
    response = ResponseParser(expects_body=True)
    response.feed(CHUNKED)
    with pytest.raises(MalformedResponseError):
        read(response, [sent[n : n + size] for n in range(0, len(sent), size)])
    assert not response.is_complete


def test_valid_part_of_an_invalid_body_is_returned_first() -> None:
    response = ResponseParser(expects_body=True)
    response.feed(CHUNKED + b"2\r\nok\r\nx\r\n")

    assert response.status == 200
    assert response.take_body() == b"ok"
    with pytest.raises(MalformedResponseError, match="chunk size"):
        response.take_body()


@pytest.mark.parametrize(
    "sent", [CHUNKED + b"5\r\nhel", CHUNKED + b"0\r\n", CHUNKED, OK + b"content-length: 3\r\n\r\nab"]
)
def test_early_end_is_an_error(sent: bytes) -> None:
    response = ResponseParser(expects_body=True)
    read(response, [sent])
    assert not response.is_complete
    with pytest.raises(MalformedResponseError, match="missing"):
        response.close()


def test_body_without_a_length_ends_with_the_connection() -> None:
    assert read_all([OK + b"\r\nall"]) == (200, b"all")
    assert read_all([OK + b"\r\nall"], closed=False) is None


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 099 Low\r\n\r\n",
        b"HTTP/1.1 150 Informational\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
        OK + b"x: " + b"y" * 300_000,
        OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_invalid_head_is_an_error(sent: bytes, size: int) -> None:
    response = ResponseParser(expects_body=True)
    with pytest.raises(MalformedResponseError):
        read(response, [sent[n : n + size] for n in range(0, len(sent), size)])


def test_head_and_framing_have_limits_of_their_own() -> None:
    response = ResponseParser(expects_body=True)
    for _ in range(3):
        response.feed(b"HTTP/1.1 103 Early\r\nx: " + b"y" * 200_000)
        response.feed(b"\r\n\r\n")
    response.feed(OK + b"x: " + b"y" * 200_000)
    response.feed(b"\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(3):
        response.feed(b"1;" + b"a" * 60_000)
        assert read(response, [b"\r\nx\r\n"]) == b"x"


def test_headers_of_informational_responses_are_dropped_and_lines_may_end_with_a_line_feed() -> None:
    response = ResponseParser(expects_body=True)
    response.feed(b"HTTP/1.1 103 Early\nlink: x\n\nHTTP/1.1 200 OK\nx: y\ncontent-length: 0\n\n")

    assert response.headers == [(b"x", b"y"), (b"content-length", b"0")]
    assert response.is_complete


def test_connection_with_an_unread_body_is_not_kept() -> None:
    response = ResponseParser(expects_body=True)
    response.feed(OK + b"content-length: 2\r\n\r\nok")

    assert not response.can_keep_alive
    assert response.take_body() == b"ok"
    assert response.can_keep_alive


@pytest.mark.parametrize("extra", [b"", b"ok"])
def test_response_to_head_has_no_body(extra: bytes) -> None:
    response = ResponseParser(expects_body=False)

    assert read(response, [OK + b"content-length: 2\r\n\r\n" + extra]) == b""
    assert response.is_complete
    assert response.can_keep_alive == (not extra)


@pytest.mark.parametrize(
    ("headers", "reused"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.1 200 OK\r\nconnection: keep-alive, Close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n", False),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n", False),
    ],
)
def test_connection_is_kept_only_if_the_end_is_certain(headers: bytes, reused: bool) -> None:
    response = ResponseParser(expects_body=True)
    read(response, [headers + b"content-length: 5\r\n\r\n0\r\n\r\n"])

    assert response.is_complete
    assert response.can_keep_alive == reused
