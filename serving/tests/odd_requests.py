"""Random streams of requests, of which some are damaged or unusual."""

from __future__ import annotations

import random

BUY = (
    b"POST /api/v1/sales/1/orders HTTP/1.1\r\nHost: shop\r\nAuthorization: Bearer 1.2:a\r\n"
    b"Content-Type: application/json\r\nContent-Length: 14\r\n\r\n"
    b'{"quantity":1}'
)
LOOK = b"GET /api/v1/orders/7?a=b,c HTTP/1.1\r\nHost: shop\r\nX-Forwarded-Proto: https\r\n\r\n"
PAGE = b"POST /cart HTTP/1.1\r\nHost: shop\r\nContent-Length: 3\r\n\r\na=b"
CHUNKED = (
    b"POST /api/v1/orders HTTP/1.1\r\nHost: shop\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"4\r\nabcd\r\n0\r\n\r\n"
)
OLD = b"GET /api/v1/orders/7 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
REQUESTS = (*[BUY, LOOK] * 5, PAGE, CHUNKED, OLD)


def _lines(text: str) -> tuple[bytes, ...]:
    r"""Return the lines of a text, in which `\x20` is a space and `\r\n` a line break."""
    unescaped = (
        line.strip().encode().decode("unicode_escape") for line in text.strip().splitlines()
    )
    return tuple(line.encode("latin-1") for line in unescaped)


STARTS = (
    *_lines(r"""
        GET  /api/x HTTP/1.1
        GET /api/x  HTTP/1.1
        GET /api/x HTTP/1.1\x20
        \x20GET /api/x HTTP/1.1
        GET /api/x HTTP/1.0
        GET /api/x HTTP/1.2
        GET /api/x HTTP/2.0
        GET /api/x http/1.1
        GET /api/x HTTP/1.1 HTTP/1.1
        GET /api/x HTTP/1.1\r
        GET /api/x
        get /api/x HTTP/1.1
        HEAD /api/x HTTP/1.1
        PUT /api/x HTTP/1.1
        CONNECT /api/x HTTP/1.1
        PRI * HTTP/2.0
        GET * HTTP/1.1
        GET http://a/api/x HTTP/1.1
        GET //api/x HTTP/1.1
        GET /api//x HTTP/1.1
        GET /api/../x HTTP/1.1
        GET /api/%78 HTTP/1.1
        GET /api/x#a HTTP/1.1
        GET /api/x?a?b HTTP/1.1
        GET /api/x\xff HTTP/1.1
        GET /api/\tx HTTP/1.1
        GET /api/x\x0bHTTP/1.1
    """),
    b"GET /api/" + b"x" * 4090 + b" HTTP/1.1",
    b"",
)
"""Request lines."""

LINES = (
    *_lines(r"""
        Host: other
        host:shop
        Host:
        X-A: 1
        x-a: 2
        X_A: 3
        Script_Name: /x
        X-A : 4
        X-A
        : 5
        X\xff: 1
        \x20folded
        \tfolded
        X-A:\t b \t
        X-A: \x00
        X-A: \xff
        Content-Length: 0
        Content-Length: 2
        Content-Length: 02
        Content-Length: +2
        Content-Length: -1
        Content-Length: 2_0
        Content-Length: 2, 2
        Content-Length: \xb2
        Content-Length:
        Content-Length: 5000
        Content-Length: 99999999999999999999
        Transfer-Encoding: chunked
        Transfer-Encoding: identity
        Transfer-Encoding: gzip, chunked
        Transfer-Encoding: x
        TE: trailers
        Connection: close
        Connection: keep-alive
        Connection: keep-alive, close
        Connection: upgrade
        Connection:
        Upgrade: h2c
        HTTP2-Settings: a
        Expect: 100-continue
        Expect: x
        X-Forwarded-Proto: https
        X-Forwarded-Proto: http
        X-Forwarded-Ssl: on
        X-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off
        X-Note: POST /api/v1/orders/7/refund HTTP/1.1
    """),
    b"X: " + b"y" * 4096,
    b"\r\n".join(b"X-%d: 1" % number for number in range(99)),
)
"""Header lines."""

BREAKS = (b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" ", b"\0", b"x")
BYTES = (*BREAKS, b"\t", b":", b",", b"0", b"\x80", b"G", b"POST /api/")


def _damage_bytes(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return chance.choice(
        (
            data[:at] + chance.choice(BYTES) + data[at:],
            data[:at] + data[at + chance.randrange(1, 4) :],
            chance.choice(BREAKS) + data,
            data + chance.choice(BREAKS),
        )
    )


def _damage_lines(data: bytes, chance: random.Random) -> bytes:
    head, end, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    kind, at = chance.randrange(4), chance.randrange(len(lines))
    if kind == 0:
        lines[0] = chance.choice(STARTS)
    elif kind == 1:
        lines[at] = chance.choice(LINES)
    elif kind == 2:
        lines.insert(at + 1, chance.choice(LINES))
    else:
        lines[at] += chance.choice((b"\n", b"\r", b"\n" + lines[at], b" ", b"\t"))
    return b"\r\n".join(lines) + end + body


def stream(chance: random.Random) -> bytes:
    """Make up to five requests, one behind the other; the last may end early."""
    made = b""
    for _ in range(chance.randrange(1, 6)):
        one = chance.choice(REQUESTS)
        for _ in range(chance.choice((0, 0, 0, 0, 1, 2))):
            one = chance.choice((_damage_bytes, _damage_lines))(one, chance)
        made += one
    if chance.random() < 0.5:
        made = made[: chance.randrange(len(made) + 1)]
    return made


def cut(data: bytes, chance: random.Random) -> list[bytes]:
    """Cut a stream into packets."""
    count = chance.choice((0, 0, 1, 1, 2, 3, 8, len(data)))
    places = sorted(chance.randrange(len(data) + 1) for _ in range(count))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
