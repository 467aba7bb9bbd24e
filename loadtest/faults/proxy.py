"""A TCP proxy that delays or loses replies, resets connections, and cuts them at COMMIT.

    python -m loadtest.faults.proxy --to 5432 --postgres

It prints `{"port": …, "control": …}` when it listens, and ends when its standard input does, so
that it never outlives its parent. It is one process with one loop, whose delays are milliseconds.
`Control` in `loadtest.faults.fault` changes its behaviour from another process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import struct
import sys
from collections import Counter

COUNTS = ("connections", "delayed", "muted", "reset", "cut", "replies_lost", "commits_lost")

SIZE = 1 << 16
"""Bytes forwarded at once, at most."""

SSL_REQUEST, GSS_REQUEST = 80877103, 80877104
"""Requests that are answered with one byte and followed by another first message."""


class Proxy:
    """Forwards to one port of this machine.

    Attributes:
        mode: `pass`; `slow` (replies come `seconds` late); `mute` (replies are lost); `reset`.
        cuts: number of connections still to cut at COMMIT.
    """

    def __init__(self, port: int, *, postgres: bool) -> None:
        self.port = port
        self.postgres = postgres
        self.mode = "pass"
        self.seconds = 0.0
        self.cuts = 0
        self.counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self.links: set[Link] = set()

    def change(self, mode: str = "", seconds: float = 0.0, cuts: int = 0, port: int = 0) -> None:
        """Change the behaviour; without a mode, change nothing.

        `port` is the new port to forward to; connections to the old one are reset.
        """
        if not mode:
            return
        for link in self.links:
            # A stream with missing bytes is useless.
            if mode == "reset" or link.muted or (port and port != self.port):
                link.reset()
        self.mode, self.seconds, self.cuts = mode, seconds, cuts
        self.port = port or self.port

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward a client's connection to its end."""
        self.counts["connections"] += 1
        link = Link(self, writer)
        self.links.add(link)
        try:
            await link.forward(reader)
        except asyncio.CancelledError:
            pass  # the proxy ends; Python 3.11's streams would print a traceback
        finally:
            self.links.discard(link)


class Link:
    """A connection through the proxy: the client's half and the server's."""

    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter) -> None:
        self.proxy = proxy
        self.muted = False
        self._halves = [client]
        self._frontend = Frontend() if proxy.postgres else None
        self._cut = False

    async def forward(self, reader: asyncio.StreamReader) -> None:
        """Connect to the server, and forward in both directions until one half ends."""
        if self.proxy.mode == "reset":
            self.reset()
            return
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        except OSError:
            self.reset()
            return
        self._halves.append(server)
        ways = [
            asyncio.ensure_future(self._from_client(reader, server)),
            asyncio.ensure_future(self._from_server(answers, self._halves[0])),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way, half in zip(ways, self._halves, strict=True):
            way.cancel()
            half.close()  # when its data are sent

    async def _from_client(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter
    ) -> None:
        """Forward the client's data, unless it is a COMMIT to lose."""
        counts = self.proxy.counts
        while data := await _read(reader):
            commit = self._frontend is not None and self._frontend.commits(data)
            if commit and self.proxy.cuts > 0:
                self.proxy.cuts -= 1
                counts["cut"] += 1
                if counts["cut"] % 2 == 0:
                    counts["commits_lost"] += 1
                    self.reset()
                    return
                self._cut = True
            server.write(data)

    async def _from_server(
        self, reader: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        """Forward the server's data as the mode demands."""
        proxy = self.proxy
        while data := await _read(reader):
            if self._cut:
                proxy.counts["replies_lost"] += 1
                self.reset()
            elif proxy.mode == "mute":
                proxy.counts["muted"] += 1
                self.muted = True
            else:
                if proxy.mode == "slow":
                    # Later replies wait as well, which keeps the order.
                    proxy.counts["delayed"] += 1
                    await asyncio.sleep(proxy.seconds)
                client.write(data)

    def reset(self) -> None:
        """Reset both halves, as happens when a machine dies."""
        self.proxy.counts["reset"] += 1
        for half in self._halves:
            if not half.is_closing():
                connected = half.get_extra_info("socket")
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                half.transport.abort()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Read what has come; nothing at the end, whatever caused it."""
    try:
        return await reader.read(SIZE)
    except OSError:
        return b""


class Frontend:
    """Recognises a client's COMMIT in PostgreSQL's protocol.

    Source: PostgreSQL's documentation, "Frontend/Backend Protocol", message formats. A client's
    first messages have a length and no type; all others have a type of one byte, then a length that
    includes itself.
    """

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
    if kind == b"Q":  # one statement or several, the last of which may commit
        last = body.rstrip(b"\0; ").rpartition(b";")[2]
        return last.strip().upper() == b"COMMIT"
    if kind == b"P":  # Parse: the statement's name, a zero, the statement
        return body.partition(b"\0")[2][:6].upper() == b"COMMIT"
    return False


async def _control(
    proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    proxy.change(**json.loads(await reader.readline()))
    writer.write(json.dumps(proxy.counts).encode() + b"\n")
    await writer.drain()
    writer.close()


async def _serve(proxy: Proxy) -> None:
    listening = await asyncio.start_server(proxy.forward, "127.0.0.1", 0, backlog=1024)
    control = await asyncio.start_server(
        lambda reader, writer: _control(proxy, reader, writer), "127.0.0.1", 0
    )
    ports = [server.sockets[0].getsockname()[1] for server in (listening, control)]
    print(json.dumps({"port": ports[0], "control": ports[1]}), flush=True)
    # In a thread, because selectors do not accept a standard input that is a file.
    await asyncio.to_thread(sys.stdin.buffer.read)


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.faults.proxy", description=__doc__)
    parser.add_argument("--to", type=int, required=True, help="port to forward to")
    parser.add_argument("--postgres", action="store_true", help="understand PostgreSQL's protocol")
    options = parser.parse_args()
    asyncio.run(_serve(Proxy(options.to, postgres=options.postgres)))


if __name__ == "__main__":
    main()
