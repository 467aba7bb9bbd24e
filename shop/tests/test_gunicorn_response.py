"""What gunicorn sends, and in how many pieces."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from gunicorn.config import Config

from shop.gunicorn_response import Response


class Wire:
    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.sent.append(data)


def respond(*parts: bytes, method: str = "GET", length: int | None = None) -> list[bytes]:
    wire = Wire()
    request = SimpleNamespace(method=method, version=(1, 1), should_close=lambda: False)
    response = Response(request, wire, Config())
    headers = [] if length is None else [("Content-Length", str(length))]
    response.start_response("200 OK", headers)
    for part in parts:
        response.write(part)
    response.close()
    return wire.sent


def test_headers_and_body_are_sent_together():
    [sent] = respond(b"sold", length=4)
    assert sent.startswith(b"HTTP/1.1 200 OK\r\n")
    assert sent.endswith(b"\r\n\r\nsold")


@pytest.mark.parametrize(
    ("parts", "options", "body"),
    [
        ((b"so", b"ld"), {"length": 4}, b"sold"),
        ((b"so", b"", b"ld"), {}, b"2\r\nso\r\n2\r\nld\r\n0\r\n\r\n"),
        ((), {"length": 0}, b""),
        ((b"",), {"length": 0}, b""),
        ((b"",), {"length": 4, "method": "HEAD"}, b""),
        ((b"sold and more",), {"length": 4}, b"sold"),
    ],
    ids=["parts", "chunks", "nothing", "an empty part", "HEAD", "more than it says"],
)
def test_other_responses_are_sent_as_before(parts, options, body):
    head, _, sent = b"".join(respond(*parts, **options)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert sent == body


def test_what_is_no_body_is_refused_before_anything_is_sent():
    with pytest.raises(TypeError):
        respond("text")  # type: ignore[arg-type]
