"""What buyers do who have two sales to themselves: one call after the other, whoever makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from loadtest.purchases import Cart, Part, Purchase, Sale, new_key
from loadtest.scenarios.asking import pay_until_paid
from loadtest.shopper import Shopper
from loadtest.shops.flash_sale.answers import Answer
from loadtest.shops.flash_sale.invalid import (
    anothers_key,
    invalid_requests,
    larger_cart,
    other_quantity,
    smaller_cart,
    unnamed_part,
)

# How often a call without an answer is made again, and the pause before that in seconds.
ATTEMPTS, PAUSE = 8, 0.5
# A process may remember for a second what is left of a sale and whether units may come back.
REMEMBERED = 1.3


@dataclass(slots=True)
class Bought:
    """An order, whose it is, and what was asked for; `over` when it was given back."""

    buyer: Shopper
    order: str
    wanted: Purchase | Cart
    over: bool = False

    @property
    def lines(self) -> dict[Sale, int]:
        """Units by sale."""
        if isinstance(self.wanted, Purchase):
            return {self.wanted.sale: self.wanted.quantity}
        return {line.sale: line.quantity for line in self.wanted.lines}


@dataclass(slots=True)
class Walk:
    """Three buyers and their sales; each method is a step.

    Attributes:
        bought: all their orders.
        parts: that were given back or were to be: of which order, by which step.
    """

    buyers: Sequence[Shopper]
    sales: tuple[Sale, Sale]
    random: Random
    bought: list[Bought] = field(default_factory=list)
    parts: list[tuple[Bought, str, Part]] = field(default_factory=list)
    asked: list[tuple[Shopper, Purchase]] = field(default_factory=list)

    def buy(self, buyer: Shopper, sale: Sale, quantity: int) -> Bought | None:
        """Buy under a new key."""
        return self.ask(buyer, Purchase(new_key(), quantity, sale))

    def ask(self, buyer: Shopper, wanted: Purchase | Cart) -> Bought | None:
        """Ask for a purchase or a cart, new or not."""
        if isinstance(wanted, Cart):
            answer = self.sure(partial(buyer.check_out, wanted))
        else:
            self.asked.append((buyer, wanted))
            answer = self.sure(partial(buyer.order, wanted))
        if answer.order is None:
            return None
        known = [each for each in self.bought if each.order == answer.order]
        if not known:
            known = [Bought(buyer, answer.order, wanted)]
            self.bought += known
        return known[0]

    def again(self, bought: Bought) -> None:
        """Repeat a purchase, a cart also with its lines in another order."""
        wanted = bought.wanted
        if isinstance(wanted, Cart) and self.random.random() < 0.5:
            wanted = wanted.reordered()
        self.ask(bought.buyer, wanted)

    def differently(self, bought: Bought) -> None:
        """Use the key of a purchase for another one: of another quantity, sale or cart."""
        wanted, send = bought.wanted, bought.buyer.ask
        (other,) = set(self.sales) - {next(iter(bought.lines))}
        if isinstance(wanted, Cart):
            several = len(wanted.lines) > 1
            send(smaller_cart(wanted) if several else larger_cart(wanted, other))
            return
        for sale, units in ((wanted.sale, wanted.quantity % 3 + 1), (other, wanted.quantity)):
            send(other_quantity(wanted, units, sale))

    def use_anothers(self, bought: Bought) -> None:
        """Let another buyer use the key of a purchase, for more than anyone may have, and look at
        the order, pay and cancel it."""
        other = self.random.choice([each for each in self.buyers if each is not bought.buyer])
        if isinstance(bought.wanted, Purchase):
            other.ask(anothers_key(bought.wanted))
        for step in (other.read, other.pay, other.cancel, other.refund):
            self.sure(partial(step, bought.order))

    def send_invalid(self, bought: Bought) -> None:
        """Send an invalid request of each kind about a purchase: wrong values, forged tokens."""
        if isinstance(bought.wanted, Purchase):
            buyer = bought.buyer
            for request in invalid_requests(bought.wanted, bought.order, buyer.token):
                buyer.ask(request)

    def look(self, sale: Sale) -> int:
        """Look at a sale: the units that are available."""
        answer = self.sure(partial(self.random.choice(self.buyers).look, sale))
        return answer.shown.available or 0 if answer.shown is not None else 0

    def read(self, bought: Bought) -> None:
        """Look at an order."""
        self.sure(partial(bought.buyer.read, bought.order))

    def pay(self, bought: Bought) -> None:
        """Pay an order once."""
        self.sure(partial(bought.buyer.pay, bought.order))

    def pay_for_sure(self, bought: Bought) -> None:
        """Pay an order until the provider has decided."""
        pay_until_paid(bought.buyer, bought.order, self.random)

    def cancel(self, bought: Bought) -> None:
        """Cancel an order."""
        answer = self.sure(partial(bought.buyer.cancel, bought.order))
        bought.over |= answer.status == 200

    def refund(self, bought: Bought) -> None:
        """Return an order."""
        answer = self.sure(partial(bought.buyer.refund, bought.order))
        bought.over |= answer.status == 200

    def give_part(self, bought: Bought, step: str, part: Part) -> None:
        """Cancel or return a part of an order."""
        self.parts.append((bought, step, part))
        way = bought.buyer.cancel if step == "cancel" else bought.buyer.refund
        self.sure(partial(way, bought.order, part))

    def give_unnamed_part(self, bought: Bought, step: str) -> None:
        """Give a part of an order back without saying of which line: refused if it has several."""
        if len(bought.lines) > 1:
            bought.buyer.ask(unnamed_part(bought.order, step))
        else:
            self.give_part(bought, step, Part(1, next(iter(bought.lines)), named=False))

    def give_all_back(self) -> None:
        """Cancel or return every order, so that all units are for sale again."""
        for bought in self.bought:
            if not bought.over:
                self.cancel(bought)
            if not bought.over:
                self.refund(bought)

    def pause(self, seconds: float = REMEMBERED) -> None:
        """Wait; by default until no process remembers what was before."""
        self.buyers[0].sleep(seconds)

    def change_process(self) -> None:
        """Close a connection; the next one may lead to another process of the shop."""
        self.random.choice(self.buyers).leave()

    def sure(self, ask: Callable[[], Answer]) -> Answer:
        """Ask until there is an answer, as far as one may."""
        answer = ask()
        for _ in range(ATTEMPTS):
            if not answer.wants_repeat:
                break
            self.pause(PAUSE * (0.5 + self.random.random()))
            answer = ask()
        return answer
