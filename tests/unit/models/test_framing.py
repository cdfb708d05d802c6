"""Where a body ends, however it is cut on its way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.models.framing import Chunked, Framing, FramingError, Sized, UntilClose

PIECES = st.lists(st.binary(min_size=1, max_size=300), max_size=8)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(n % (len(data) + 1) for n in at)})
    return [data[a:b] for a, b in zip(marks, marks[1:], strict=False)]


def read(framing: Framing, parts: list[bytes]) -> bytes:
    return b"".join([framing.feed(part) for part in parts])


@given(PIECES, st.lists(st.integers(0, 4000), max_size=30), st.sampled_from([b"", b";a=1", b' ;b="x"', b"\t"]))
def test_chunks_are_read_however_they_are_cut(pieces: list[bytes], at: list[int], extension: bytes) -> None:
    sent = b"".join(b"%X%b\r\n%b\r\n" % (len(p), extension, p) for p in pieces) + b"000\r\nx-trailer: 1\r\n\r\n"
    framing = Chunked()

    assert read(framing, cut(sent, at)) == b"".join(pieces)
    assert framing.done
    assert framing.rest == b""
    framing.close()


@given(st.binary(max_size=500), st.lists(st.integers(0, 600), max_size=20), st.binary(max_size=5))
def test_a_length_is_read_however_it_is_cut(body: bytes, at: list[int], behind: bytes) -> None:
    framing = Sized(len(body))

    assert read(framing, cut(body + behind, at)) == body
    assert framing.done
    assert framing.rest == behind


@given(st.binary(max_size=200), st.lists(st.integers(0, 300), max_size=30))
def test_what_is_no_chunks_is_a_body_or_an_error_and_nothing_else(noise: bytes, at: list[int]) -> None:
    framing = Chunked()
    try:
        read(framing, cut(noise, at))
        framing.close()
    except FramingError:
        return
    assert framing.done


def test_what_comes_behind_the_last_chunk_is_kept_apart() -> None:
    framing = Chunked()

    assert framing.feed(b"1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK") == b"a"
    assert framing.rest == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n",
        b"x\r\n",
        b"-1\r\n",
        b"0x1\r\n",
        b"1_0\r\n",
        b"+1\r\n",
        b"f" * 17 + b"\r\n",
        b"1\r\nabc\r\n",
        b"1" * 20_000,
    ],
)
def test_a_length_that_is_none_is_an_error(sent: bytes) -> None:
    with pytest.raises(FramingError):
        Chunked().feed(sent)


@pytest.mark.parametrize(
    ("framing", "sent"), [(Chunked(), b"5\r\nhel"), (Chunked(), b"0\r\n"), (Chunked(), b""), (Sized(3), b"ab")]
)
def test_an_end_that_comes_too_early_is_an_error(framing: Framing, sent: bytes) -> None:
    framing.feed(sent)
    assert not framing.done
    with pytest.raises(FramingError, match="missing"):
        framing.close()


def test_without_either_the_end_of_the_connection_is_the_end() -> None:
    framing = UntilClose()

    assert framing.feed(b"all") == b"all"
    assert not framing.done
    framing.close()
    assert framing.done
