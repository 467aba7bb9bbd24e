"""Public values that the shop fetches."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from shop.draws import sources
from shop.draws.drawing import advance
from shop.draws.sources import NotKnownYet, fetch
from shop.draws.tests.catalogue import a_draw, buyers, end, enter_all

SOURCE = "drand quicknet"
RANDOMNESS = "ab" * 32


class Beacon(BaseHTTPRequestHandler):
    """Answers every round from `known` on, with the round's number."""

    known = 0
    lies = False

    def do_GET(self) -> None:
        _, chain, _, number = self.path.split("/")
        there = chain == sources.QUICKNET and int(number) >= self.known
        value = {"round": int(number) + self.lies, "randomness": RANDOMNESS}
        body = json.dumps(value).encode()
        self.send_response(200 if there else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def beacon(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Beacon]]:
    """A beacon at `DRAND_URL`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Beacon) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("DRAND_URL", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setattr(Beacon, "known", 0)
        monkeypatch.setattr(Beacon, "lies", False)
        yield Beacon
        server.shutdown()


def test_beacon_gives_the_first_round_a_minute_after_the_close(beacon: type[Beacon]) -> None:
    closed = datetime.fromtimestamp(sources.GENESIS + 30, UTC)

    # 90 seconds after the genesis, when round 1 began: round 31 begins.
    assert fetch(SOURCE, closed) == f"31 {RANDOMNESS}"
    assert fetch(SOURCE, closed.replace(microsecond=1)) == f"32 {RANDOMNESS}"


def test_beacon_without_the_round_is_asked_again(
    beacon: type[Beacon], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = datetime.fromtimestamp(sources.GENESIS, UTC)
    monkeypatch.setattr(beacon, "known", 10**12)
    with pytest.raises(NotKnownYet):
        fetch(SOURCE, closed)
    monkeypatch.setattr(beacon, "known", 0)
    monkeypatch.setattr(beacon, "lies", True)
    with pytest.raises(NotKnownYet):
        fetch(SOURCE, closed)


@pytest.mark.django_db(transaction=True)
def test_draw_waits_for_its_beacon(beacon: type[Beacon], monkeypatch: pytest.MonkeyPatch) -> None:
    draw = a_draw(source=SOURCE)
    enter_all(draw, buyers(3))
    end(draw)
    advance()
    draw.refresh_from_db()
    assert (draw.seed is None, draw.public_value, draw.places) == (False, "", None)

    # A minute later.
    monkeypatch.setattr(sources, "AFTER", timedelta(seconds=-10))
    advance()

    draw.refresh_from_db()
    assert draw.public_value.endswith(f" {RANDOMNESS}")
    assert (draw.places, draw.offered) == (3, 2)
