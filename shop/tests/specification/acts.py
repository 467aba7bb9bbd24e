"""What an act of a story is, and what acts pick from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import count
from typing import Any, TypeVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from shop.payments.models import Payment as PaymentRow
from shop.specification.order import AWAITING, Money, Order, Sale
from shop.tests.specification import rest
from shop.tests.specification.doors import Doors
from shop.tests.specification.operator import Operator
from shop.tests.specification.people import Person
from shop.tests.specification.world import World

PEOPLE = st.sampled_from(["Ann", "Bob"])
NUMBER = st.integers(0, 11)
SOME = st.sampled_from([1, 1, 1, 2, 2, 3])


Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass
class Act:
    """An act: its arguments, how often it is chosen, what it needs, whether it only looks."""

    arguments: st.SearchStrategy[dict[str, Any]]
    weight: int
    needs: str
    looks: bool


ACTS: dict[str, Act] = {}
"""All acts by their name."""


@dataclass
class News:
    """What the provider reports: the event, what it is about, and what the model calls it."""

    pk: str
    kind: str
    data: dict[str, Any]
    order: Order
    about: Money
    news: str


def act(
    weight: int, *, needs: str = "", looks: bool = False, **chosen: Any
) -> Callable[[Method], Method]:
    """Make a method an act of a story: it is recorded, and judged when it is done."""

    def decorate(method: Method) -> Method:
        name = method.__name__
        ACTS[name] = Act(st.fixed_dictionaries(chosen), weight, needs, looks)

        @wraps(method)
        def told(self: Acts, **arguments: Any) -> None:
            if needs and not self.there_is(needs):
                return
            self.steps.append((name, arguments))
            with self.telling():
                self.happen(method, arguments)

        return cast(Method, told)

    return decorate


class Acts(RuleBasedStateMachine):
    """A story as it is told, with what acts pick from."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[str, dict[str, Any]]] = []
        self.sentences: list[str] = []
        self.over = True  # until it begins
        self.sent: list[str] = []  # mails that went out before a crash

    def begin(self, world: World, sales: list[Sale]) -> None:
        """Begin a story."""
        self.world, self.model, self.sales = world, world.model, sales
        self.doors, self.operator = Doors(world), Operator(world)
        self.keys: dict[str, list[tuple[int, dict[Sale, int], bool]]] = {"Ann": [], "Bob": []}
        self.numbers = count(1)
        self.news: list[News] = []
        self.taken: set[str] = set()  # the numbers of the news that the shop has taken
        self.over = False

    def say(self, sentence: str) -> None:
        """Tell what happened."""
        if sentence:
            self.sentences.append(sentence)

    def told(self) -> str:
        """Return the story in sentences, and as the steps that a test can replay."""
        last = self.steps[-1][0].replace("_", " ") if self.steps else ""
        steps = "\n".join(f"    {step!r}," for step in self.steps)
        return f"{'; '.join([*self.sentences, last])}.\nTo replay it:\n[\n{steps}\n]"

    def happen(self, method: Any, arguments: dict[str, Any]) -> None:
        """Let an act happen, and compare what is written then."""
        self.world.forget()
        self.say(method(self, **arguments) or "")
        self.world.end(together=method.__name__ == "the_clock_ends_orders")
        if not ACTS[method.__name__].looks:
            rest.check_rows(self.world)

    def quietly(self, name: str, **arguments: Any) -> None:
        """Let an act happen as a part of another one."""
        getattr(type(self), name).__wrapped__(self, **arguments)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Tell the story with the error that ends it."""
        try:
            yield
        except Exception as error:
            if not self.over:
                self.over = True
                error.add_note(self.told())
            raise

    def there_is(self, what: str) -> bool:
        """Tell whether there is what an act needs."""
        found: dict[str, Callable[[], object]] = {
            "an order": lambda: self.model.orders,
            "a provider": lambda: self.model.payments,
            "an unpaid order": lambda: (
                self.model.payments and any(o.status == AWAITING for o in self.model.orders)
            ),
            "a purchase": lambda: any(self.keys.values()),
            "a tab": lambda: any(person.tabs for person in self.world.people.values()),
            "work": self.working,
            "a decision": self.decided,
            "a due mail": lambda: self.world.mails,
            "news": lambda: self.news,
            "a failed refund": lambda: self.refunds("failed"),
        }
        return bool(found[what]())

    def order(self, number: int) -> Order:
        """Return an order; the latest are chosen most often."""
        orders = self.model.orders
        return orders[-1 - number % len(orders)]

    def place(self, order: Order) -> int:
        """Return the number of an order in the story."""
        return self.model.orders.index(order) + 1

    def person(self, order: Order, *, stranger: bool = False) -> Person:
        """Return the buyer of an order, or somebody else."""
        found = [p for name, p in self.world.people.items() if (name != order.buyer) == stranger]
        return found[0]

    def working(self) -> list[tuple[Order, Money]]:
        """Return what the provider works on."""
        found: list[tuple[Order, Money]] = []
        for order in self.model.orders:
            found += [(order, each) for each in order.payments if each.there == "working"]
            found += [(order, each) for each in order.refunds if each.there == "working"]
        return found

    def decided(self) -> list[tuple[Order, Money]]:
        """Return the payments that the provider has taken or refused after it worked on them, and
        the refunds whose end the shop knows."""
        found = [(order, each) for order in self.model.orders for each in order.payments]
        found = [(o, p) for o, p in found if p.there in ("done", "failed", "cancelled")]
        return found + self.refunds("done") + self.refunds("failed")

    def refunds(self, state: str) -> list[tuple[Order, Money]]:
        """Return the refunds in a state."""
        return [(o, each) for o in self.model.orders for each in o.refunds if each.state == state]

    def payment_row(self, order: Order, payment: Money) -> PaymentRow:
        """Return the row of a payment."""
        rows = PaymentRow.objects.filter(order=self.world.orders[order]).order_by("pk")
        return rows[order.payments.index(payment)]
