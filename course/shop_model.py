"""A shop in a few dozen lines, for the lessons that are not about locks.

Every call is a step of the simulated world: another client may act before it, its request or its
answer may be lost (`ConnectionError`), and the process may die.  At the end the books are compared.
"""

from collections.abc import Callable
from typing import Any

from course.simulator.history import Kind, Wrong
from course.simulator.process import Process, Thread
from course.simulator.schedule import Act
from course.simulator.simulation import Simulation

STOCK = {"lamp": 2, "mug": 1}


class Shop:
    """The database with orders and stock of one run, and what the clients were told."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.world, self.monitor = simulation.world, simulation.monitor
        self.orders: list[str] = []
        self.available = dict(STOCK)
        self.row_locks: dict[str, Process] = {}
        self.waiting: list[Thread] = []
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

    def start(self, name: str, run: Callable[[], Any], at: float = 0.0) -> None:
        """Add a client whose return value is its answer to the buyer."""

        def tell() -> None:
            self.answers[name] = run()
            self.simulation.note(name, f"has finished: {self.answers[name]!r}")

        self.simulation.start(name, tell, after=at).begin("run")

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
