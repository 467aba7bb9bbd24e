"""The lane's parser and gunicorn's read the same requests from a stream, wherever it is cut."""

from __future__ import annotations

import pytest

from serving.tests import streams
from serving.tests.odd_requests import BUY, CHUNKED, LINES, LOOK, OLD, PAGE, STARTS
from serving.tests.streams import differs

CASES = 4_000
"""The command in `serving/tests/streams.py` tries more, and CI's nightly run a million."""

HALF = b"POST /api/v1/orders/7/refund HTTP/1.1\r\n"

TOGETHER = {
    "a call and the beginning of another": LOOK + HALF,
    "calls": BUY + LOOK + BUY,
    "calls and pages": LOOK + PAGE + BUY + PAGE,
    "line breaks between": BUY + b"\r\n" + LOOK + b"\r\n\r\n" + BUY,
    "a line break and a half": BUY + b"\r\n" + HALF,
    "a body that ends early": LOOK + BUY[:-1],
    "a body that is longer": BUY + b"}" + LOOK,
    "chunks, then calls": CHUNKED + BUY + LOOK,
    "an older version": OLD + LOOK + BUY,
    "the last of its connection": BUY.replace(b"shop", b"shop\r\nConnection: close") + LOOK,
    "a call in a value": LOOK + b"GET /api/x HTTP/1.1\r\nHost: a\r\nX-A: " + HALF + b"\r\n" + BUY,
}


@pytest.mark.parametrize("stream", TOGETHER.values(), ids=TOGETHER)
def test_a_stream_is_read_the_same_wherever_it_is_cut(stream: bytes) -> None:
    for place in range(len(stream) + 1):
        assert not differs([stream[:place], stream[place:]])
    assert not differs([bytes([byte]) for byte in stream])


@pytest.mark.parametrize("take", [0, 2])
def test_what_an_application_leaves_of_a_body_is_not_read_as_a_request(take: int) -> None:
    for stream in TOGETHER.values():
        assert not differs([stream], take)


def test_an_unusual_line_is_read_the_same_between_calls() -> None:
    unusual = [BUY.replace(b"Host: shop", line) for line in LINES]
    unusual += [BUY.replace(b"Host: shop", b"Host: shop\r\n" + line) for line in LINES]
    unusual += [BUY.replace(b"POST /api/v1/sales/1/orders HTTP/1.1", line) for line in STARTS]
    for each in unusual:
        assert not differs([LOOK + each + LOOK])
        assert not differs([LOOK + each[: len(each) // 2], each[len(each) // 2 :] + LOOK])


def test_random_streams_are_read_the_same() -> None:
    assert streams.search(CASES, seed=7) == []


def test_the_streams_have_calls_that_are_read_here() -> None:
    assert streams.calls_in([BUY + LOOK + PAGE + BUY]) == 3
    assert streams.calls_in([BUY[:-1], BUY[-1:] + LOOK]) == 2
