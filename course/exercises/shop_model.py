"""A shop in a few dozen lines, for the exercises that are not about locks.

Every call is a step of the simulated world: another client may act before it, its request or its
answer may be lost (`ConnectionError`), and the process may die.  At the end the books are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from course.simulator.history import Kind, Wrong
from course.simulator.process import Process, Thread
from course.simulator.schedule import Act
from course.simulator.simulation import Simulation

LOST = (Act.LOSE_REQUEST, Act.LOSE_REPLY)
STOCK = {"lamp": 2, "mug": 1}


class Shop:
    """The database with orders and stock, the outbox and the mail server of one run."""

    def __init__(self, simulation: Simulation) -> None:
        self.world, self.monitor = simulation.world, simulation.monitor
        self.orders: list[str] = []
        self.available = dict(STOCK)
        self.row_locks: dict[str, Process] = {}
        self.waiting: list[Thread] = []
        self.pending = [7]
        self.sent: list[int] = []
        self.answers: dict[str, Any] = {}

    def call(self, server: str, words: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        """Run one call of the client, with the fault that hits it."""
        world = self.world
        effect = world.step(words)
        who = world.me().name
        if effect is Act.LOSE_REQUEST:
            world.record(Kind.FAULT, (*words, "never arrives"), who=who, server=server)
            raise ConnectionError("the connection was lost")
        answer = run()
        kind = Kind.LOST if effect is Act.LOSE_REPLY else Kind.COMMAND
        world.record(kind, words, answer, who=who, server=server)
        if effect is Act.LOSE_REPLY:
            raise ConnectionError("the connection was lost")
        return answer

    def start(self, simulation: Simulation, name: str, run: Callable[[], Any], at: float) -> None:
        """Add a client whose return value is its answer to the buyer."""

        def tell() -> None:
            self.answers[name] = run()
            simulation.note(name, f"has finished: {self.answers[name]!r}")

        simulation.start(name, tell, after=at).begin("run")

    def expect(self, holds: bool, wrong: Wrong, why: str) -> None:
        """Report a failure unless it holds."""
        if not holds:
            self.monitor.report(wrong, why)


class Connection:
    """A connection to the shop's database, of one process; dead after a `ConnectionError`."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._dead = False
        self._order: str | None = None
        self._taken: list[tuple[str, int]] = []

    def _call(self, words: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        if self._dead:
            raise ConnectionError("the connection was lost before")
        try:
            return self._shop.call("postgres", words, run)
        except ConnectionError:
            self._dead = True
            raise

    def insert_order(self, key: str) -> None:
        """Insert an order, which nobody sees before the commit."""
        self._call(("INSERT", "order", key), lambda: setattr(self, "_order", key))

    def find_order(self, key: str) -> bool:
        """Return whether an order with this key is committed."""
        return bool(self._call(("SELECT", "order", key), lambda: key in self._shop.orders))

    def available(self, item: str) -> int:
        """Return how many units there are, without locking the row."""
        return int(self._call(("SELECT", item), lambda: self._shop.available[item]))

    def take(self, item: str, quantity: int) -> None:
        """Decrease the units; like every UPDATE, it waits for the row and locks it."""
        words = ("UPDATE", item, f"SET available = available - {quantity}")
        self._update(item, quantity, words, least=-(10**6))

    def take_if(self, item: str, quantity: int) -> int:
        """Decrease the units if there are enough; return how many rows that was."""
        words = (
            "UPDATE", item, f"SET available = available - {quantity}",
            f"WHERE available >= {quantity}",
        )  # fmt: skip
        return self._update(item, quantity, words, least=quantity)

    def _update(self, item: str, quantity: int, words: tuple[Any, ...], *, least: int) -> int:
        shop, world = self._shop, self._shop.world

        def run() -> int:
            while shop.row_locks.get(item, world.me()) is not world.me():
                assert world.running is not None
                shop.waiting.append(world.running)
                world.record(Kind.NOTE, (*words, "…"), who=world.me().name, server="postgres")
                world.wait(None)
            shop.row_locks[item] = world.me()
            if shop.available[item] < least:
                return 0
            shop.available[item] -= quantity
            self._taken.append((item, quantity))
            return 1

        return int(self._call(words, run))

    def commit(self) -> None:
        """End the transaction; its changes stay."""

        def run() -> None:
            if self._order is not None:
                self._shop.orders.append(self._order)
            self._end()

        self._call(("COMMIT",), run)

    def rollback(self) -> None:
        """End the transaction without its changes."""

        def run() -> None:
            for item, quantity in self._taken:
                self._shop.available[item] += quantity
            self._end()

        self._call(("ROLLBACK",), run)

    def _end(self) -> None:
        shop = self._shop
        self._order, self._taken = None, []
        me = shop.world.me()
        shop.row_locks = {item: one for item, one in shop.row_locks.items() if one is not me}
        waiting, shop.waiting = shop.waiting, []
        for thread in waiting:
            shop.world.wake(thread)


class Api:
    """The shop's API, as a client sees it."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    def buy(self, key: str | None) -> None:
        """Place an order; the same key places it once."""
        orders = self._shop.orders

        def run() -> str:
            if key is not None and key in orders:
                return "200 the same order"
            orders.append(key or "without a key")
            return "201 an order"

        self._shop.call("shop", ("POST", "/orders", f"Idempotency-Key: {key}"), run)


class Outbox:
    """The table of messages to send."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    def pending(self) -> list[int]:
        """Return the ids of the messages that are not done."""
        return list(self._shop.call("postgres", ("SELECT", "pending"), self._shop.pending.copy))

    def mark_done(self, message: int) -> None:
        """Mark a message as done."""
        self._shop.call(
            "postgres", ("UPDATE", message, "done"), lambda: self._shop.pending.remove(message)
        )


class Mailer:
    """The mail server, which knows a message that it has sent already."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    def send(self, message: int) -> None:
        """Send the mail of a message."""
        self._shop.call("mail", ("SEND", message), lambda: self._shop.sent.append(message))


# -- the set-ups; each compares the books at the end of a run


def lost_commit(simulation: Simulation, *, kind: Callable[..., Any]) -> None:
    """Let a buyer buy once; a connection may be lost."""
    shop = Shop(simulation)
    sale = kind(lambda: Connection(shop))
    shop.start(simulation, "A", lambda: sale.buy("order-7"), 0.0)

    def compare() -> None:
        told = shop.answers.get("A")
        ordered = "order-7" in shop.orders
        why = f"the buyer was told {told!r}; orders in the database: {len(shop.orders)}"
        shop.expect(told == ("sold" if ordered else "refused"), Wrong.FALSE_ANSWER, why)
        disturbed = simulation.world.processes["A"].faults
        shop.expect(ordered or bool(disturbed), Wrong.FALSE_ANSWER, "nobody could buy")

    simulation.world.on_end.append(compare)


def retry(simulation: Simulation, *, kind: Callable[..., Any]) -> None:
    """Let a client place one order; a request or an answer may be lost."""
    shop = Shop(simulation)
    shop.start(simulation, "A", kind(Api(shop)).place, 0.0)

    def compare() -> None:
        why = f"the buyer wanted one order and has {len(shop.orders)}"
        shop.expect(len(shop.orders) == 1, Wrong.DOUBLED, why)

    simulation.world.on_end.append(compare)


def outbox(simulation: Simulation, *, kind: Callable[..., Any]) -> None:
    """Let two notifiers run, one after the other; the first may die."""
    shop = Shop(simulation)
    for name, at in (("A", 0.0), ("B", 10.0)):
        shop.start(simulation, name, kind(Outbox(shop), Mailer(shop)).run_once, at)

    def compare() -> None:
        told = "the outbox says that the mail is done" if not shop.pending else "nobody will"
        shop.expect(7 in shop.sent, Wrong.FORGOTTEN, f"the mail was never sent, and {told}")
        shop.expect(not shop.pending, Wrong.FORGOTTEN, "the message is never done")

    simulation.world.on_end.append(compare)


def cart(simulation: Simulation, *, kind: Callable[..., Any]) -> None:
    """Let two buyers buy a lamp and the last mug each, in different orders."""
    shop = Shop(simulation)
    wanted = {"A": {"lamp": 1, "mug": 1}, "B": {"mug": 1, "lamp": 1}}
    for name, items in wanted.items():
        shop.start(simulation, name, partial(kind(Connection(shop)).buy, items), 0.0)

    def compare() -> None:
        if len(shop.answers) < len(wanted):
            why = "A and B wait for each other's rows" if len(shop.waiting) > 1 else "a buyer waits"
            shop.expect(False, Wrong.NOBODY_ENTERS, f"{why} forever")
            return
        sold = sum(bool(answer) for answer in shop.answers.values())
        most = min(STOCK.values())
        shop.expect(sold <= most, Wrong.OVERSOLD, f"{sold} carts were sold, there was {most}")
        shop.expect(sold > 0, Wrong.UNDERSOLD, "both were refused, though one could have had both")
        left = {item: count - sold for item, count in STOCK.items()}
        why = f"{sold} sold of {STOCK}, and the stock is {shop.available}"
        shop.expect(shop.available == left, Wrong.BOOKS, why)

    simulation.world.on_end.append(compare)
