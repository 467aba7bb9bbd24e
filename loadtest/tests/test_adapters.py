"""What each adapter makes of its shop's answers, and the example of docs/your-shop.md."""

from __future__ import annotations

import json
import re
import socket
import struct
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from development.servers import Command, free_port
from loadtest import shops
from loadtest.checker.snapshot import Status, Step
from loadtest.rush import rush_shop
from loadtest.rush.__main__ import main
from loadtest.shop import Declined, Level, Outcome, Refused, Response, Sold, Unknown
from loadtest.shops.api import Api, ShopError, rows
from loadtest.shops.flash_sale.lifecycle import LIFECYCLE
from loadtest.shops.flask_example import shop
from loadtest.shops.unguarded import Adapter, Server
from loadtest.tests.trivial_server import in_thread

FOLDER = Path(shops.__file__).parent
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/adapter.py"))
DEAD = "http://127.0.0.1:9"
NO_QUOTA = 'There is not enough quota available on quota "Ticket" to perform the operation.'

NO_STOCK = "Not enough stock available"
NOT_VALID = "Order validation failed: Cart has errors"


def adapter(name: str) -> Any:
    return import_module(f"loadtest.shops.{name}.adapter").Adapter(DEAD)


def answer(status: int, document: object) -> Response:
    return Response(status, {}, json.dumps(document).encode())


def payment(**said: str) -> Response:
    return answer(200, {"data": {"addPaymentToOrder": said}})


@pytest.mark.parametrize(
    ("name", "response", "outcome"),
    [
        ("peer_django", answer(201, {"id": 7, "quantity": 1}), Sold("7")),
        ("peer_fastapi", answer(409, {"code": "sold_out"}), Refused("sold_out")),
        ("peer_fastapi", answer(500, {}), Unknown("500 b'{}'")),
        ("flask_example", answer(201, {"order": 3}), Sold("3")),
        ("flask_example", answer(409, {"error": "sold out"}), Refused("sold_out")),
        ("flask_example", answer(500, {}), Unknown("status 500")),
        ("oscar", answer(200, {"number": "100007"}), Sold("100007")),
        ("oscar", answer(406, {"reason": "empty"}), Refused("{'reason': 'empty'}")),
        ("oscar", Response(500, {}, b"<h1>"), Unknown("500 b'<h1>'")),
        ("pretix", answer(201, {"code": "ABCDE"}), Sold("ABCDE")),
        ("pretix", answer(400, {"positions": [{"item": [NO_QUOTA]}]}), Refused(NO_QUOTA)),
        ("pretix", Response(409, {}, b"busy"), Unknown("409 b'busy'")),
        ("vendure", payment(code="K1", state="PaymentSettled"), Sold("K1")),
        ("vendure", payment(message="too few"), Refused("too few")),
        ("vendure", Response(500, {}, b"{}"), Unknown("500 b'{}'")),
        ("medusa", answer(200, {"type": "order", "order": {"id": "o1"}}), Sold("o1")),
        ("medusa", answer(400, {"message": f"{NO_STOCK} for item i"}), Refused(NO_STOCK)),
        ("medusa", answer(409, {}), Unknown("409 b'{}'")),
        ("medusa", answer(200, {"order": None}), Unknown("200 b'{\"order\": null}'")),
        ("evershop", answer(200, {"data": {"order_id": 7}}), Sold("7")),
        ("evershop", answer(500, {"error": {"message": NOT_VALID}}), Refused(NOT_VALID)),
        ("evershop", answer(500, {}), Unknown("500 b'{}'")),
    ],
)
def test_answer_is_sold_refused_or_unknown(name: str, response: Response, outcome: Outcome):
    assert adapter(name).outcome("1/2/3", ("", ""), response) == outcome


@pytest.mark.parametrize("name", NAMES)
def test_adapter_for_stock_has_at_most_60_lines(name: str):
    most = 60 if adapter(name).levels <= {Level.STOCK, Level.REPEATS} else 125
    if hasattr(adapter(name), "full_levels"):  # it serves the buyers of all mixes, too
        most = 150
    assert len((FOLDER / name / "adapter.py").read_text().splitlines()) <= most


NO_CART = {"message": "no cart"}
NO_PAYMENT = {"data": {"last": {"__typename": "OrderStateTransitionError"}}}


@pytest.mark.parametrize(
    ("name", "refusal", "why"),
    [
        ("vendure", answer(200, NO_PAYMENT), "OrderStateTransitionError"),
        ("medusa", answer(400, NO_CART), "no cart"),
        ("evershop", answer(400, {"error": NO_CART}), "no cart"),
    ],
)
def test_buyer_whose_step_is_not_taken_is_declined(name: str, refusal: Response, why: str):
    with pytest.raises(Declined, match=why):
        adapter(name).prepare("1", "buyer", lambda _: refusal)


def test_owner_call_without_an_answer_names_the_address():
    with pytest.raises(ShopError, match=r"http://127\.0\.0\.1:9/api"):
        Api(DEAD).ask("GET", "/api")


def test_books_in_a_database_need_its_address(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SHOP_DATABASE_URL", raising=False)
    with pytest.raises(ShopError, match="SHOP_DATABASE_URL must name"):
        rows("SELECT 1")


@pytest.mark.parametrize("name", NAMES)
def test_shop_that_is_dead_cannot_be_judged(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SHOP_DATABASE_URL", raising=False)
    result = rush_shop(adapter(name), 1, 2, 1, host=DEAD)
    assert (result.exit_code, result.rounds) == (2, [])
    assert result.reason.startswith("opening a sale failed: ")


# Paths, headers and settings of this project's own shop.
OURS = re.compile(
    r"[\"'/}]/(api|healthz|orders|sales|mails|accounts|admin|metrics|demo)\b"
    r"|Idempotency-Key|Bearer |SHOP_DEMO|\[\"(pay_before|server_time|starts_at|lines|tokens)\"\]"
)


def test_adapters_alone_name_paths_fields_and_statuses_of_a_shop() -> None:
    outside = [
        path
        for path in FOLDER.parent.rglob("*.*")
        if path.suffix in (".py", ".js", ".html", ".sql")
        and path.relative_to(FOLDER.parent).parts[0] not in ("shops", "tests")
    ]
    assert len(outside) > 80
    named = {each.event for each in LIFECYCLE if isinstance(each, Step)}
    named |= {each.name for each in LIFECYCLE if isinstance(each, Status)}
    named -= {"refunded", "returned"}  # of the history, too: an amount and units
    said = re.compile(rf"[\"'](order_)?({'|'.join(named)})[\"']")
    texts = {path: path.read_text() for path in outside}
    assert [path for path, text in texts.items() if OURS.search(text) or said.search(text)] == []


@pytest.mark.parametrize(
    ("variables", "code", "word"),
    [({}, 1, "BROKEN in 2 of 6 rounds"), ({"CURED": "1"}, 0, "HOLDS")],
)
def test_example_shop_breaks_and_its_fix_holds(
    variables: dict[str, str], code: int, word: str, capsys: pytest.CaptureFixture[str]
):
    port = free_port()
    words = [sys.executable, str(shop.__file__), str(port)]
    with Command("shop", words, variables, port=port) as server:
        shop_and_host = [
            "--shop",
            "loadtest.shops.flask_example.adapter:Adapter",
            "--host",
            server.endpoint,
        ]
        assert main([*shop_and_host, "--stock", "5", "--buyers", "40", "--rounds", "2"]) == code
    assert word in capsys.readouterr().out


def test_buyer_who_hangs_up_is_no_error_of_the_unguarded_shop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Joined(Server):
        daemon_threads = False  # its end waits for its answers

    with (
        in_thread(Joined(0, tmp_path)) as server,
        socket.create_connection(("127.0.0.1", server.server_port)) as buyer,
    ):
        buyer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # resets
        buyer.sendall(b"POST /sales HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
        Adapter(server.url).open(1)  # is served after the buyer has been let in
    assert capsys.readouterr().err == ""
