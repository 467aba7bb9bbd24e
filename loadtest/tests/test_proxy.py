"""The proxy that is slow, mute and cut off on command, and sees a client of PostgreSQL commit."""

from __future__ import annotations

import json
import socket
import socketserver
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loadtest.faults.fault import Control, FaultFailed, wait_until
from loadtest.faults.proxy import SSL_REQUEST, Frontend
from loadtest.tests.trivial_server import in_thread


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


ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def echo(name: bytes) -> Iterator[int]:
    """A server that answers whatever it is told with its name before it; gives its port."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                while data := self.request.recv(4096):
                    self.request.sendall(name + data)
            except ConnectionError:
                return

    with in_thread(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer)) as server:
        yield server.server_address[1]


class Proxied:
    def __init__(self, to: int, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "loadtest.faults.proxy", "--to", str(to), *options],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        ports = json.loads(self.process.stdout.readline())
        self.port, self.control = ports["port"], Control(ports["control"])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=5)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        assert self.process.wait(10) == 0, "it ends with its standard input"
        self.process.stdout.close()


@pytest.fixture
def proxied() -> Iterator[Proxied]:
    with echo(b"a") as to:
        proxy = Proxied(to)
        yield proxy
        proxy.close()


def ask(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(text)
    return connection.recv(4096)


def test_what_is_said_goes_through_both_ways(proxied: Proxied) -> None:
    with proxied.connect() as connection:
        assert ask(connection, b"1") == b"a1"
        assert ask(connection, b"2") == b"a2"
    assert proxied.control.counts()["connections"] == 1


def test_slow_replies_come_late_and_in_order(proxied: Proxied) -> None:
    with proxied.connect() as connection:
        assert ask(connection, b"1") == b"a1"
        proxied.control.tell(mode="slow", seconds=0.3)
        start = time.monotonic()
        connection.sendall(b"2")
        wait_until("the reply is held back", lambda: proxied.control.counts()["delayed"] == 1)
        proxied.control.tell(mode="pass")
        connection.sendall(b"3")
        got = b""
        while len(got) < 4:
            got += connection.recv(4096)
        assert got == b"a2a3", "a later reply must not overtake a delayed one"
        assert time.monotonic() - start >= 0.3


def test_lost_replies_are_lost_and_their_connections_end_with_it(proxied: Proxied) -> None:
    with proxied.connect() as connection:
        proxied.control.tell(mode="mute")
        connection.sendall(b"1")
        wait_until("the reply is lost", lambda: proxied.control.counts()["muted"] == 1)
        proxied.control.tell(mode="pass")
        with pytest.raises(ConnectionResetError):
            connection.recv(4096)
    with proxied.connect() as connection:
        assert ask(connection, b"2") == b"a2"


def test_reset_cuts_off_the_old_and_the_new(proxied: Proxied) -> None:
    with proxied.connect() as old:
        assert ask(old, b"1") == b"a1"
        proxied.control.tell(mode="reset")
        with pytest.raises(ConnectionResetError):
            old.recv(4096)
        with pytest.raises(ConnectionError), proxied.connect() as new:
            assert new.recv(4096) != b"", "an end instead of a reset"
    proxied.control.tell(mode="pass")
    with proxied.connect() as connection:
        assert ask(connection, b"2") == b"a2"


def test_a_switch_moves_everybody_to_the_other_server(proxied: Proxied) -> None:
    with echo(b"b") as other, proxied.connect() as old:
        assert ask(old, b"1") == b"a1"
        proxied.control.tell(mode="pass", port=other)
        with pytest.raises(ConnectionResetError):
            old.recv(4096)
        with proxied.connect() as new:
            assert ask(new, b"2") == b"b2"


def test_at_commit_the_reply_is_lost_or_the_commit_in_turn() -> None:
    with echo(b"") as to:
        proxy = Proxied(to, "--postgres")
        proxy.control.tell(mode="pass", cuts=2)
        for _ in range(2):
            with proxy.connect() as connection:
                assert ask(connection, START) == START
                with pytest.raises(ConnectionResetError):
                    ask(connection, COMMIT)
        counts = proxy.control.counts()
        assert (counts["cut"], counts["replies_lost"], counts["commits_lost"]) == (2, 1, 1)
        with proxy.connect() as connection:
            assert ask(connection, START + COMMIT) == START + COMMIT, "there were two to be cut"
        proxy.close()


def test_a_proxy_that_is_gone_is_a_fault_that_failed() -> None:
    with echo(b"") as to:
        proxy = Proxied(to)
        proxy.close()
        with pytest.raises(FaultFailed, match="does not answer"):
            proxy.control.counts()
