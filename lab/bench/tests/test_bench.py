"""The benchmark of the request rate: its rows sell for real, its load counts every answer once."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice, repeat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4
from xml.etree import ElementTree

import pytest
from django.core.management import call_command
from django.db import connection

from development.embedded import ServerUrls
from inventory.models import Item
from lab import environment
from lab.bench import client, report, targets
from lab.bench.locks import LOCKS
from lab.bench.report import Benchmark, interleaved
from lab.bench.rows import PEERS, Row, peer, rows
from lab.bench.run import PURCHASES, Bench, purchases
from lab.strategies import CLASSES
from lab.tests.whole_shop import buy
from loadtest.framing import request_bytes
from loadtest.open_files import raise_file_limit
from loadtest.tests.trivial_server import answering, response
from shop.audit import examine

STOCK = 30
DOCS = environment.PROJECT / "docs"
BENCHMARKS = (PURCHASES, LOCKS)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda each: each.name)
def test_bench_page_and_chart_show_the_measured_figures(benchmark: Benchmark) -> None:
    document = json.loads((DOCS / f"{benchmark.name}.json").read_text())
    if benchmark.chart:
        chart = benchmark.chart(document)
        assert ElementTree.fromstring(chart).tag.endswith("svg")
        assert (DOCS / f"{benchmark.name}.svg").read_text() == chart, "--redraw --docs"
    assert (DOCS / report.PAGE).read_text().count(benchmark.part(document)) == 1


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_readme_shows_the_measured_figures(page: str) -> None:
    text = (environment.PROJECT / page).read_text(encoding="utf-8")
    document = json.loads((DOCS / "bench.json").read_text())
    per_second = {(row["name"], row["concurrency"]): row["rps"] for row in document["rows"]}
    names = ("combining", "peer_fastapi", "guard", "row_lock")
    assert "| " + " | ".join(f"{per_second[name, 128]:,.0f}" for name in names) + " |" in text
    assert document["date"] in text
    assert document["command"].removesuffix(' --docs docs"') in text


def test_bench_page_explains_every_strategy() -> None:
    explained = re.findall(r"`(\w+)`", (DOCS / "comparison.md").read_text())
    assert set(CLASSES) <= set(explained)


def test_bench_rounds_begin_with_different_cases() -> None:
    messages: list[str] = []
    found = interleaved(["a", "b", "c"], 2, lambda case: len(messages), messages.append)
    assert [message.split()[-2] for message in messages] == ["a", "b", "c", "b", "c", "a"]
    assert found == {"a": [1, 6], "b": [2, 4], "c": [3, 5]}


def test_bench_command_writes_table_json_chart_and_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("bench.json", "bench.md"):
        (tmp_path / name).write_bytes((DOCS / name).read_bytes())
    call_command("bench", "--redraw", "--docs", str(tmp_path), "--json")
    out, err = capsys.readouterr()
    assert json.loads(out) == json.loads((DOCS / "bench.json").read_text())
    assert "combining/noop" in err  # the table, apart from the JSON
    for name in ("bench.md", "bench.svg"):
        assert (tmp_path / name).read_text() == (DOCS / name).read_text()


@pytest.fixture
def urls() -> ServerUrls:
    """The servers with the tests' database."""
    urls, path = ServerUrls.of_environment(), f"/{connection.settings_dict['NAME']}"
    return replace(urls, database=urlsplit(urls.database)._replace(path=path).geturl())


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", PEERS)
def test_peers_sell_exactly_their_stock(urls: ServerUrls, name: str) -> None:
    row = Row(name, 8, peer(name), strategy="", stock=STOCK)
    assert targets.missing(row.server) == []
    with ExitStack() as cleanup:
        [shop] = targets.start([row.server], urls, cleanup, lambda progress: None).values()
        [sale] = shop.open_sales(row)
        port, token, key = shop.stack.port, shop.tokens[0], str(uuid4())
        order = buy(port, sale, token, key, 2)
        assert (order.status, order.body["quantity"]) == (201, 2)
        again = buy(port, sale, token, key, 2)
        assert (again.status, again.body) == (200, order.body)
        assert buy(port, sale, token, key, 1).status == 422
        assert buy(port, sale, "1.forged").status == 401
        assert buy(port, sale + 1, token).status == 404
        assert shop.books([sale]) == targets.Books(1, 0)
        requests = islice(purchases([sale], shop.tokens), 3 * STOCK)
        load = client.run("127.0.0.1", port, requests, connections=8)
        assert (load.statuses, load.errors) == ({201: STOCK - 2, 409: 2 * STOCK + 2}, 0)
        again = buy(port, sale, token, key, 2)
        assert (again.status, again.body) == (200, order.body)
        assert shop.books([sale]) == targets.Books(STOCK - 1, 0)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE peer_sale SET available = 3 WHERE id = %s", [sale])
        assert shop.books([sale]) == targets.Books(STOCK - 1, 3)


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_rows_buy_from_a_sale_or_do_nothing(urls: ServerUrls, settings: Any) -> None:
    settings.PAYMENT_PROVIDER = ""  # one may run for another test
    wanted = [
        Row("combining", 4, strategy="combining"),
        *(row for row in rows(4, 0) if row.name in ("noop", "noop_api")),
    ]
    with ExitStack() as cleanup:
        servers = dict.fromkeys(row.server for row in wanted)
        started = targets.start(servers, urls, cleanup, lambda progress: None)
        measured = Bench(started, 0.5).run(wanted, 2, lambda progress: None)
    for each in measured:
        figures = each.to_json()
        assert figures["rps"] > 0
        assert (figures["errors"], figures["oversold"], figures["lost"]) == (0, 0, 0)
    assert Item.objects.get().reserved > 0
    assert examine().problems == []


def numbered(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield request_bytes("POST", "/", "127.0.0.1", body=f"n{number}".encode())


def test_load_sends_each_request_once_and_counts_by_status() -> None:
    seen: list[bytes] = []

    def reply(_: int, request: bytes) -> bytes:
        seen.append(request)
        return response("409 Conflict" if request.endswith(b"0") else "201 Created")

    with answering(reply) as port:
        result = client.run("127.0.0.1", port, numbered(500), connections=20)
    assert (result.statuses, result.errors) == ({201: 450, 409: 50}, 0)
    assert len(set(seen)) == len(seen) == 500
    assert 0 < result.percentile_ms(0.5) <= result.percentile_ms(0.99)


@pytest.mark.long
def test_load_uses_two_thousand_connections() -> None:
    raise_file_limit()
    used: list[int] = []

    def reply(number: int, _: bytes) -> bytes:
        used.append(number)
        return response()

    threading.stack_size(256 * 1024)
    try:
        with answering(reply) as port:
            result = client.run("127.0.0.1", port, numbered(4000), connections=2000)
    finally:
        threading.stack_size(0)
    assert result.statuses == {200: 4000}
    assert used.count(1) == 2000


def test_time_ends_a_run_and_what_is_under_way_is_waited_for() -> None:
    endless = repeat(request_bytes("GET", "/", "127.0.0.1"))
    with answering(lambda *_: response()) as port:
        started = time.monotonic()
        result = client.run("127.0.0.1", port, endless, connections=4, seconds=0.3)
        assert time.monotonic() - started >= result.seconds >= 0.3
    assert result.errors == 0
    assert len(result.latencies_ns) == result.statuses[200] > 0


def test_load_opens_a_closed_connection_again() -> None:
    closing = response(head="Connection: close\r\n")
    with answering(lambda *_: closing) as port:
        result = client.run("127.0.0.1", port, numbered(50), connections=5)
    assert (result.statuses, result.errors) == ({200: 50}, 0)


def test_load_counts_an_unanswered_request_as_an_error() -> None:
    seen: Counter[bytes] = Counter()

    def reply(number: int, request: bytes) -> bytes | None:
        seen[request] += 1
        return None if number == 3 else response()

    with answering(reply) as port:
        result = client.run("127.0.0.1", port, numbered(30), connections=1)
    assert (result.statuses, result.errors) == ({200: 20}, 10)
    assert set(seen.values()) == {1}


def test_load_counts_a_bad_or_late_answer_as_an_error() -> None:
    with answering(lambda *_: b"SSH-2.0-x\r\n") as port:
        result = client.run("127.0.0.1", port, numbered(3), connections=1)
    assert (result.statuses, result.errors) == ({}, 3)
    gate = threading.Event()
    with answering(lambda *_: response(), delay=gate) as port:
        result = client.run("127.0.0.1", port, numbered(2), connections=2, timeout=0.2)
        gate.set()
    assert (result.statuses, result.errors) == ({}, 2)


def test_load_without_a_server_fails_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        client.run("127.0.0.1", port, numbered(1), connections=1)
