"""The parser of server-sent events."""

import pytest
from hypothesis import given, strategies as st

from mainspring.models.codec.framing import SseParser


def parse(data: bytes, *cuts: int) -> list[tuple[str, bytes]]:
    parser = SseParser()
    frames: list[tuple[str, bytes]] = []
    for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        frames += parser.feed(data[start:end])
    return frames + parser.finish()


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\n\r\ndata: b\r\n\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b": ping\n\ndata: a\n\n: ping\n\n", [b"a"]),
        (b"id: 7\nretry: 10\ndata: a\n\n", [b"a"]),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"event: done\n\ndata: a\n\n", [b"a"]),
        (b"data\n\n", [b""]),
        (b"data: a\n", [b"a"]),
        (b"data: a", [b"a"]),
        (b"", []),
        ("data: a\u2028b\u2029c\u0085d\x0b\x0c\n\n".encode(), ["a\u2028b\u2029c\u0085d\x0b\x0c".encode()]),
    ],
)
def test_events_end_at_line_ends_only(data: bytes, frames: list[bytes]) -> None:
    assert [frame for _, frame in parse(data)] == frames


def test_event_has_its_name() -> None:
    assert parse(b"event: error\ndata: {}\n\ndata: x\n\n") == [("error", b"{}"), ("", b"x")]


@pytest.mark.parametrize(
    ("event", "frames"),
    [
        (b"event: a\ndata: {}\n\n", [("a", b"{}")]),
        (b"event: a\ndata:  \xc3\xa9\n\n", [("a", b" \xc3\xa9")]),
        (b"event: \xff\ndata: x\n\n", [("\N{REPLACEMENT CHARACTER}", b"x")]),
        (b"event: a\ndata: x\ndata: y\n\n", [("a", b"x\ny")]),
        (b"event: a\nid: 1\ndata: x\n\n", [("a", b"x")]),
        (b"event: a\ndata: x\nevent: b\n\n", [("b", b"x")]),
        (b"event: a\n\ndata: x\n\n", [("", b"x")]),
        (b"event: a\n\n", []),
        (b"event: \n\n", []),
    ],
)
def test_named_event_is_parsed_alone_repeated_and_in_pieces(event: bytes, frames: list[tuple[str, bytes]]) -> None:
    assert parse(event) == frames
    assert parse(event * 3) == frames * 3
    assert parse(event * 2, len(event)) == frames * 2
    assert parse(event, *range(1, len(event))) == frames


LINES = st.sampled_from(
    [b"data: one", b"data: two words", b"data:", b": note", b"event: e", b"id: 1", "data: é😀\u2028".encode(), b""]
)


@given(
    lines=st.lists(LINES, max_size=12),
    ends=st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=13, max_size=13),
    data=st.data(),
)
def test_events_do_not_depend_on_chunk_boundaries(lines: list[bytes], ends: list[bytes], data: st.DataObject) -> None:
    body = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))

    assert parse(body, *cuts) == parse(body)


@given(lines=st.lists(LINES, max_size=12), end=st.sampled_from([b"\r\n", b"\r"]))
def test_events_do_not_depend_on_the_line_ending(lines: list[bytes], end: bytes) -> None:
    body = b"".join(line + b"\n" for line in lines)

    assert parse(body.replace(b"\n", end)) == parse(body)
