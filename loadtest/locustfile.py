"""Synthetic buyers of a flash sale: `locust -f loadtest/locustfile.py --host http://127.0.0.1:8000`.

Each class is a mix of buyers, which `--mix` chooses. Each task is the behaviour of one buyer and
its weight in the mix (`--weights` changes weights); the behaviours are in `loadtest/scenarios`.
`attach` adds the choice of the sale, the history, the Correctness tab and the verdict.
"""

import sys
from pathlib import Path

from locust import events, task

# Locust imports this file by its path, from any folder.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loadtest import scenarios
from loadtest.buyer import Buyer
from loadtest.session import attach

attach(events)


class Rush(Buyer):
    """Buyers at an opening: some retry, click twice, or want more than the limit."""

    @task(60)
    def buy_once(self) -> None:
        scenarios.buy_once(self.shopper, self.random)

    @task(15)
    def insist(self) -> None:
        scenarios.insist(self.shopper, self.random)

    @task(10)
    def send_twice(self) -> None:
        scenarios.send_twice(self.shopper, self.random)

    @task(10)
    def want_more(self) -> None:
        scenarios.want_more(self.shopper, self.random)

    @task(5)
    def look_around(self) -> None:
        scenarios.look_around(self.shopper, self.random)


class Payers(Buyer):
    """Buyers who pay, abandon or cancel."""

    @task(45)
    def buy_and_pay(self) -> None:
        scenarios.buy_and_pay(self.shopper, self.random)

    @task(20)
    def abandon(self) -> None:
        scenarios.abandon(self.shopper, self.random)

    @task(20)
    def cancel(self) -> None:
        scenarios.cancel(self.shopper, self.random)

    @task(15)
    def send_twice(self) -> None:
        scenarios.send_twice(self.shopper, self.random)


class Refunders(Buyer):
    """Buyers who pay and want their money back."""

    @task(70)
    def pay_and_refund(self) -> None:
        scenarios.pay_and_refund(self.shopper, self.random)

    @task(15)
    def buy_once(self) -> None:
        scenarios.buy_once(self.shopper, self.random)

    @task(15)
    def send_twice(self) -> None:
        scenarios.send_twice(self.shopper, self.random)


class Doubles(Buyer):
    """Buyers who send the same purchase again."""

    @task(70)
    def send_twice(self) -> None:
        scenarios.send_twice(self.shopper, self.random)

    @task(30)
    def insist(self) -> None:
        scenarios.insist(self.shopper, self.random)


class Bots(Buyer):
    """Scripts among buyers."""

    @task(45)
    def hammer(self) -> None:
        scenarios.hammer(self.shopper, self.random)

    @task(40)
    def buy_once(self) -> None:
        scenarios.buy_once(self.shopper, self.random)

    @task(15)
    def send_twice(self) -> None:
        scenarios.send_twice(self.shopper, self.random)


class Carts(Buyer):
    """Buyers who fill a cart from several sales."""

    @task(60)
    def fill_cart(self) -> None:
        scenarios.fill_cart(self.shopper, self.random)

    @task(30)
    def buy_once(self) -> None:
        scenarios.buy_once(self.shopper, self.random)

    @task(10)
    def send_twice(self) -> None:
        scenarios.send_twice(self.shopper, self.random)


class Limits(Buyer):
    """Buyers who want more than the limit, several times at once."""

    @task(70)
    def race_limit(self) -> None:
        scenarios.race_limit(self.shopper, self.random)

    @task(15)
    def buy_once(self) -> None:
        scenarios.buy_once(self.shopper, self.random)

    @task(15)
    def send_twice(self) -> None:
        scenarios.send_twice(self.shopper, self.random)


class Windows(Buyer):
    """Buyers who go on while a sale is paused, closed and opened again."""

    @task(80)
    def outlast(self) -> None:
        scenarios.outlast(self.shopper, self.random)

    @task(10)
    def buy_once(self) -> None:
        scenarios.buy_once(self.shopper, self.random)

    @task(10)
    def send_twice(self) -> None:
        scenarios.send_twice(self.shopper, self.random)


class Holds(Buyer):
    """Buyers who do not pay in time, and those who wait for what comes back."""

    @task(24)
    def let_expire(self) -> None:
        scenarios.let_expire(self.shopper, self.random)

    @task(24)
    def pay_at_deadline(self) -> None:
        scenarios.pay_at_deadline(self.shopper, self.random)

    @task(24)
    def cancel_late(self) -> None:
        scenarios.cancel_late(self.shopper, self.random)

    @task(28)
    def come_again(self) -> None:
        scenarios.come_again(self.shopper, self.random)


class Parts(Buyer):
    """Buyers who give parts of their orders back."""

    @task(40)
    def cancel_parts(self) -> None:
        scenarios.cancel_parts(self.shopper, self.random)

    @task(40)
    def refund_parts(self) -> None:
        scenarios.refund_parts(self.shopper, self.random)

    @task(20)
    def send_twice(self) -> None:
        scenarios.send_twice(self.shopper, self.random)


class Peepers(Buyer):
    """Buyers who try other buyers' orders, and programs that send what must be refused."""

    @task(40)
    def peep(self) -> None:
        scenarios.peep(self.shopper, self.random)

    @task(20)
    def send_invalid(self) -> None:
        scenarios.send_invalid(self.shopper, self.random)

    @task(25)
    def buy_and_pay(self) -> None:
        scenarios.buy_and_pay(self.shopper, self.random)

    @task(20)
    def pay_and_refund(self) -> None:
        scenarios.pay_and_refund(self.shopper, self.random)

    @task(15)
    def send_twice(self) -> None:
        scenarios.send_twice(self.shopper, self.random)


class All(Payers, Refunders, Bots, Carts, Rush, Doubles, Limits, Windows, Holds, Parts, Peepers):
    """The buyers of every mix in equal parts."""


class Visitor(Buyer):
    """Visitors who load pages, beside every mix in a sale that goes on until it is stopped."""

    scheduled = False

    @task
    def browse(self) -> None:
        scenarios.browse(self.shopper, self.random)
