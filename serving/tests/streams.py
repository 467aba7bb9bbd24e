"""Compare what the lane's parser and gunicorn's read from the same streams of requests.

    python -m serving.tests.streams --cases 1000000 --seed 7

A stream is several requests on one connection, of which some are damaged, cut into packets
anywhere. Both must read the same requests, with the same bodies, and end in the same way.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gunicorn.config import Config
from gunicorn.http import RequestParser, wsgi
from gunicorn.http.errors import InvalidHeader

from serving.calls import Call, Parser
from serving.lane import LaneWorker
from serving.tests.odd_requests import cut, stream

PEER = ("127.0.0.1", 40000)
SERVER = ("127.0.0.1", 8000)
CONFIG = Config()  # trusts a proxy on this machine

Read = tuple[list[dict[str, Any]], str]
"""Requests in their order, and what ended the stream."""


class Peer:
    """A connection from which everything has been sent already."""

    def __init__(self, *packets: bytes) -> None:
        self.packets = [packet for packet in packets if packet][::-1]
        self.sent = b""
        self.sends = 0

    def recv(self, size: int) -> bytes:
        if not self.packets:
            return b""
        packet = self.packets.pop()
        if len(packet) > size:
            self.packets.append(packet[size:])
        return packet[:size]

    def sendall(self, data: bytes) -> None:
        self.sent += data
        self.sends += 1

    def send(self, data: bytes) -> int:
        return self.send_some(data, len(data))

    def send_some(self, data: bytes, most: int) -> int:
        """Take at most that many bytes."""
        self.sendall(data[:most])
        return min(most, len(data))

    def settimeout(self, seconds: float | None) -> None:
        """Do nothing: all is here."""


def worker(application: Any = None, config: Config = CONFIG) -> LaneWorker:
    """Make a worker that has no process of its own."""
    made = LaneWorker.__new__(LaneWorker)
    made.cfg, made.wsgi, made.alive = config, application, True
    made.nr, made.max_requests = 0, 10**9
    made._environ = {**wsgi.base_environ(config), "wsgi.multithread": True, "SCRIPT_NAME": ""}
    return made


WORKER = worker()


def parser(*packets: bytes, config: Config = CONFIG) -> Parser:
    """Make the lane's parser of a connection."""
    return Parser(config, Peer(*packets), PEER, seconds=10, prefix="/api/")


def lanes(packets: Sequence[bytes], take: int, config: Config = CONFIG) -> Read:
    """Return what the lane's parser reads; `take` is how much the application reads of a body."""
    return _read(parser(*packets, config=config), take, config)


def gunicorns(packets: Sequence[bytes], take: int, config: Config = CONFIG) -> Read:
    """Return what gunicorn's parser reads."""
    return _read(_with_host(RequestParser(config, Peer(*packets), PEER)), take, config)


def _with_host(requests: RequestParser) -> Iterator[Any]:
    """Refuse HTTP/1.1 without Host, as RFC 9112 demands and gunicorn does not."""
    for request in requests:
        if request.version >= (1, 1) and "HOST" not in dict(request.headers):
            raise InvalidHeader("HOST")
        yield request


def _read(requests: Iterator[Any], take: int, config: Config) -> Read:
    found: list[dict[str, Any]] = []
    try:
        for request in requests:
            found.append(_shown(request, config))
            found[-1]["body"] = request.body.read(take)
    except Exception as error:  # noqa: BLE001  # whatever it refuses with
        return found, type(error).__name__
    return found, "ends"


def _shown(request: Any, config: Config) -> dict[str, Any]:
    peer = Peer()
    if isinstance(request, Call):
        environ = WORKER._environ_of(request, SERVER, peer, PEER)
    else:
        _, environ = wsgi.create(request, peer, PEER, SERVER, config)
    shown = {name: value for name, value in environ.items() if isinstance(value, str)}
    return {**shown, "closes": request.should_close()}


def search(cases: int, seed: int, seen: Callable[[int], None] = lambda _: None) -> list[str]:
    """Try streams; return the first differences, each as text that reproduces it."""
    chance = random.Random(seed)
    found: list[str] = []
    for number in range(cases):
        packets = cut(stream(chance), chance)
        take = chance.choice((-1, -1, 2, 0))
        if difference := differs(packets, take):
            found.append(difference)
            if len(found) >= 10:
                break
        seen(number + 1)
    return found


def differs(packets: Sequence[bytes], take: int = -1) -> str:
    """Return how the parsers differ on these packets; empty if they do not."""
    ours, theirs = lanes(packets, take), gunicorns(packets, take)
    if ours == theirs:
        return ""
    return f"{packets!r}, take {take}:\n  the lane reads {ours}\n  gunicorn reads {theirs}"


def calls_in(packets: Sequence[bytes]) -> int:
    """Return how many requests of a stream are read as calls of the lane."""
    return sum(isinstance(each, Call) for each in _until_it_fails(parser(*packets)))


def _until_it_fails(requests: Parser) -> Iterator[Any]:
    try:
        yield from requests
    except Exception:  # noqa: BLE001  # as above
        return


def main() -> None:
    """Search from the command line."""
    options = argparse.ArgumentParser(description="Compare two readers of HTTP on random streams.")
    options.add_argument("--cases", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=random.randrange(2**32))
    given = options.parse_args()
    print(f"{given.cases:,} streams with --seed {given.seed}", flush=True)
    found = search(given.cases, given.seed, _progress)
    print("\n".join(found) or "no difference")
    sys.exit(bool(found))


def _progress(number: int) -> None:
    if number % 100_000 == 0:
        print(f"{number:,}", flush=True)


if __name__ == "__main__":
    main()
