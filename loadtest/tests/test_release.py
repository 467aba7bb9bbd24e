"""What is released together: last bytes, and the answers to them."""

from __future__ import annotations

import socket
import threading

import pytest

from loadtest.rush import Release, together
from loadtest.shop import Request, Response
from loadtest.tests.trivial_server import answering


def test_last_bytes_follow_when_all_the_others_have_arrived() -> None:
    """A server that answers only after it has seen every request but for its last byte."""
    requests = [Request("POST", f"/{number}", {}, b"body") for number in range(5)]
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            opened = [listener.accept()[0] for _ in requests]
            for each in opened:
                data = b""
                while not data.endswith(b"bod"):
                    data += each.recv(100)
                seen.append(data)
            for each in opened:
                assert each.recv(100) == b"y"
                each.sendall(b"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nset-cookie: b\r\n\r\nfine")
                each.close()

        thread = threading.Thread(target=answer)
        thread.start()
        replies = together(listener.getsockname(), requests, timeout=10)
        thread.join()
    assert len(seen) == 5
    answers = [each.response for each in replies]
    assert answers == [Response(200, {"set-cookie": "a\nb"}, b"fine")] * 5


def test_rush_closes_an_answered_connection_at_once() -> None:
    """A server that serves the next one only when the last one's client has closed, too."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            for _ in range(3):
                connected, _ = listener.accept()
                connected.settimeout(10)
                while connected.recv(1000)[-1:] != b"y":
                    pass
                connected.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                assert connected.recv(1) == b""
                connected.close()

        thread = threading.Thread(target=answer)
        thread.start()
        requests = [Request("POST", "/", {}, b"body")] * 3
        replies = together(listener.getsockname(), requests, timeout=20)
        thread.join()
    assert [each.problem for each in replies] == [""] * 3


def test_rush_sends_the_host_that_the_adapter_names() -> None:
    heard: list[bytes] = []
    with answering(lambda _, request: heard.append(request)) as port:
        request = Request("GET", "/", {"Host": "shop.example"})
        together(("127.0.0.1", port), [request], release=Release.PLAIN, timeout=10)
    assert heard[0].count(b"Host: ") == 1
    assert b"Host: shop.example\r\n" in heard[0]


@pytest.mark.parametrize("release", Release)
def test_rush_ends_without_a_server_or_an_answer(release: Release) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        [reply] = together(address, [Request("GET", "/")], release=release, timeout=0.2)
        assert (reply.response, reply.problem) == (None, "no answer in time")
    [reply] = together(address, [Request("GET", "/")], release=release, timeout=5)
    assert (reply.response, reply.problem) == (None, "not connected: ECONNREFUSED")
