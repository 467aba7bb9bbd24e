"""Seeing a client of PostgreSQL say COMMIT."""

from __future__ import annotations

import pytest

from loadtest.faults.proxy import SSL_REQUEST, Frontend


def first(code: int, body: bytes = b"") -> bytes:
    return (8 + len(body)).to_bytes(4, "big") + code.to_bytes(4, "big") + body


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (4 + len(body)).to_bytes(4, "big") + body


START = first(SSL_REQUEST) + first(196608, b"user\0shop\0\0")
COMMIT = message(b"Q", b"COMMIT\0")
PREPARED = message(b"P", b"_pg3_1\0COMMIT\0\0\0")
LAST = message(b"Q", b"UPDATE shop SET sold = 'COMMIT; ';COMMIT\0")
OTHER = message(b"Q", b"SELECT 'COMMIT'\0") + message(b"B", b"COMMIT\0")


@pytest.mark.parametrize("commit", [COMMIT, PREPARED, message(b"Q", b"commit;\0"), LAST])
def test_a_commit_is_seen_among_other_messages(commit: bytes) -> None:
    frontend = Frontend()
    assert not frontend.commits(START + OTHER)
    assert frontend.commits(OTHER + commit + OTHER)
    assert not frontend.commits(OTHER)


def test_a_commit_is_seen_when_it_comes_byte_by_byte() -> None:
    frontend = Frontend()
    seen = [frontend.commits(bytes([byte])) for byte in START + OTHER + COMMIT]
    assert seen == [False] * (len(seen) - 1) + [True]
