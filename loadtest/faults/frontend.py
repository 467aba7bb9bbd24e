"""The part of PostgreSQL's protocol that is needed to recognise a client's COMMIT.

Source: PostgreSQL's documentation, "Frontend/Backend Protocol", message formats. A client's first
messages have a length and no type; all others have a type of one byte, then a length that includes
itself.
"""

from __future__ import annotations

SSL_REQUEST, GSS_REQUEST = 80877103, 80877104
"""Requests that are answered with one byte and followed by another first message."""


class Frontend:
    """Parses the messages of one client."""

    def __init__(self) -> None:
        self._starting = True
        self._rest = b""

    def commits(self, data: bytes) -> bool:
        """Whether a COMMIT is complete with these bytes."""
        data = self._rest + data
        found, at = False, 0
        while (message := self._message(data, at)) is not None:
            end, kind, body = message
            found = found or _is_commit(kind, body)
            at = end
        self._rest = data[at:]
        return found

    def _message(self, data: bytes, at: int) -> tuple[int, bytes, bytes] | None:
        """Return end, type and body of the message at an offset; None if it is incomplete."""
        head = 4 if self._starting else 5
        if len(data) - at < head:
            return None
        length = int.from_bytes(data[at + head - 4 : at + head], "big")
        end = at + head - 4 + length
        if len(data) < end:
            return None
        body = data[at + head : end]
        if self._starting:
            code = int.from_bytes(body[:4], "big")
            self._starting = code in (SSL_REQUEST, GSS_REQUEST)
            return end, b"", b""
        return end, data[at : at + 1], body


def _is_commit(kind: bytes, body: bytes) -> bool:
    if kind == b"Q":
        return body[:6].upper() == b"COMMIT"
    if kind == b"P":  # Parse: the statement's name, a zero, the statement
        return body.partition(b"\0")[2][:6].upper() == b"COMMIT"
    return False
