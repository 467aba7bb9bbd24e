"""Lesson 19: a shop's stock, step 1: sell all that there is, and no more.

Lessons 20 and 21 go on with the same file, clients and checks, and add to what may happen.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from psycopg import OperationalError

from course.plan import (
    ERROR_PAGE,
    SOLD,
    SOLD_OUT,
    STOCK_TABLES,
    UNKNOWN,
    Check,
    Faults,
    Flaw,
    Plan,
    Rush,
    Shop,
    nothing_wrong,
)
from course.simulator.history import Text, Wrong, _
from course.simulator.simulation import Simulation
from course.simulator.table import TableServer

Request = tuple[str, str]
"""A buyer and the key of the request, which is the same if it is sent again."""

TWO_BUYERS: Mapping[str, Request] = {"A": ("Ann", "key-1"), "B": ("Bob", "key-2")}
"""By the web server that gets it."""


def clients(
    simulation: Simulation,
    kind: Callable[..., Any],
    *,
    stock: int = 1,
    requests: Mapping[str, Request] = TWO_BUYERS,
    at: Mapping[str, float] | None = None,
) -> None:
    """Let web servers serve a request each, all at once or at given seconds."""
    shop, server = Shop(simulation), TableServer(simulation.world, STOCK_TABLES)
    server.preload("item", id=1, available=stock)
    simulation.given(Text(_("has %s of item 1"), stock), server=server.name)
    for name, (buyer, key) in requests.items():
        simulation.given(Text(_("serves %s, whose request has the key %s"), buyer, key), who=name)

    def serve(name: str, buyer: str, key: str) -> Any:
        try:
            answer = kind(lambda: server.connect(autocommit=False)).buy(buyer, key)
        except OperationalError:
            answer = ERROR_PAGE
        server.lose(simulation.world.processes[name])  # what it has not committed
        return answer

    for name, request in requests.items():
        shop.start(name, partial(serve, name, *request), (at or {}).get(name, 0.0))
    simulation.world.on_end.append(lambda: _compare(shop, server, requests, stock))


def _compare(shop: Shop, server: TableServer, requests: Mapping[str, Request], stock: int) -> None:
    """Compare the answers that the buyers got with the database."""
    processes = shop.simulation.world.processes
    living = [name for name in requests if not processes[name].crashed]
    waiting = [name for name in living if name not in shop.answers]
    shop.expect(not waiting, Wrong.NOBODY_ENTERS, Text(_("a buyer waits forever")))
    orders = [row.get("buyer") for row in server.committed("orders").values()]
    available = server.committed("item")[1]["available"]
    oversold = Text(_("%s units were sold, there was %s"), len(orders), stock)
    shop.expect(len(orders) <= stock, Wrong.OVERSOLD, oversold)
    books = Text(_("%s orders of %s units, and %s are left"), len(orders), stock, available)
    shop.expect(len(orders) + available == stock, Wrong.BOOKS, books)

    answers = [shop.answers[name] for name in living if name in shop.answers]
    for buyer in sorted({buyer for buyer, _key in requests.values()}):
        mine = {name: key for name, (owner, key) in requests.items() if owner == buyer}
        _compare_one(shop, buyer, mine, Counter(orders)[buyer])
    short = available > 0 and SOLD_OUT in answers
    shop.expect(not short, Wrong.UNDERSOLD, Text(_("a buyer was refused, and a unit is left")))


def _compare_one(shop: Shop, buyer: str, requests: Mapping[str, str], orders: int) -> None:
    """Compare the answers that one buyer got, by server, with the number of their orders."""
    processes, keys = shop.simulation.world.processes, set(requests.values())
    doubled = Text(_("%s asked for %s and has %s"), buyer, len(keys), orders)
    shop.expect(orders <= len(keys), Wrong.DOUBLED, doubled)
    sold = {key for name, key in requests.items() if shop.answers.get(name) == SOLD}
    # A request without an answer, or of which the server cannot know more, may have been served.
    open_keys = {
        key
        for name, key in requests.items()
        if processes[name].crashed
        or (shop.answers.get(name) == UNKNOWN and processes[name].faults > 1)
    }
    answers = [str(shop.answers.get(name)) for name in requests]
    why = Text(_("%s was told: %s; orders in the database: %s"), buyer, ", ".join(answers), orders)
    true = len(sold) <= orders <= len(sold | open_keys)
    refused = SOLD_OUT in answers and orders == len(keys)
    shop.expect((true and not refused) or orders > len(keys), Wrong.FALSE_ANSWER, why)
    for name in requests:
        answer, faults = shop.answers.get(name, UNKNOWN), processes[name].faults
        fine = answer in (SOLD, SOLD_OUT) or faults
        nothing = Text(_("%s was told %s, though nothing had gone wrong"), buyer, repr(answer))
        shop.expect(bool(fine), Wrong.FALSE_ANSWER, nothing)


AMPLE = {"stock": 2}
THREE = {"stock": 2, "requests": {**TWO_BUYERS, "C": ("Cem", "key-3")}}
LATER = {"at": {"B": 5.0}}

CHECKS = (
    Check({}, Faults.SWITCHES, tuple(Wrong), most=3),
    Check(AMPLE, Faults.SWITCHES, tuple(Wrong)),
    Check(THREE, Faults.SWITCHES, tuple(Wrong)),
    Check(AMPLE, Faults.CRASH_OR_SWITCH, tuple(Wrong)),
)

PLAN = Plan(
    flaws=(
        Flaw(
            "both-read", Wrong.OVERSOLD, Faults.SWITCHES, "stock-twice",
            breaks="before command 2 of A's run: switch B",
        ),
    ),
    checks=CHECKS,
    clients=clients,
    judge=nothing_wrong,
    solution="stock-twice",
    quiet=({}, AMPLE, THREE, LATER),
    methods=("buy",),
    rush=Rush(),
)  # fmt: skip
