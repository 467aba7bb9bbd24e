"""Synthetic buyers of a flash sale: `locust -f loadtest/locustfile.py --host http://127.0.0.1:8000`.

Each class is a mix of buyers, which `--mix` chooses. Its `tasks` are what one buyer may do, each
with its weight in the mix (`--weights` changes weights); `loadtest/scenarios` has the behaviours.
`attach` adds the choice of the sale, the history, the Correctness tab and the verdict. Another shop
is rushed and judged through its adapter: `--shop path.to:Adapter` (`loadtest/shop.py`).
"""

import sys
from pathlib import Path

from locust import events

# Locust imports this file by its path, from any folder.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loadtest import scenarios
from loadtest.buyer import Buyer, Rusher
from loadtest.session import attach

attach(events)


class Rush(Buyer):
    """Buyers at an opening: some retry, click twice, or want more than the limit."""

    tasks = {
        scenarios.buy_once: 60,
        scenarios.insist: 15,
        scenarios.send_twice: 10,
        scenarios.want_more: 10,
        scenarios.look_around: 5,
    }


class Payers(Buyer):
    """Buyers who pay, abandon or cancel."""

    tasks = {
        scenarios.buy_and_pay: 45,
        scenarios.abandon: 20,
        scenarios.cancel: 20,
        scenarios.send_twice: 15,
    }


class Refunders(Buyer):
    """Buyers who pay and want their money back."""

    tasks = {scenarios.pay_and_refund: 70, scenarios.buy_once: 15, scenarios.send_twice: 15}


class Doubles(Buyer):
    """Buyers who send the same purchase again."""

    tasks = {scenarios.send_twice: 70, scenarios.insist: 30}


class Bots(Buyer):
    """Scripts among buyers."""

    tasks = {
        scenarios.hammer: 45,
        scenarios.buy_once: 40,
        scenarios.send_twice: 15,
    }


class Carts(Buyer):
    """Buyers who fill a cart from several sales."""

    tasks = {scenarios.fill_cart: 60, scenarios.buy_once: 30, scenarios.send_twice: 10}


class Limits(Buyer):
    """Buyers who want more than the limit, several times at once."""

    tasks = {scenarios.race_limit: 70, scenarios.buy_once: 15, scenarios.send_twice: 15}


class Windows(Buyer):
    """Buyers who go on while a sale is paused, closed and opened again."""

    tasks = {
        scenarios.outlast: 80,
        scenarios.buy_once: 10,
        scenarios.send_twice: 10,
    }


class Holds(Buyer):
    """Buyers who do not pay in time, and those who wait for what comes back."""

    tasks = {
        scenarios.let_expire: 24,
        scenarios.pay_at_deadline: 24,
        scenarios.cancel_late: 24,
        scenarios.come_again: 28,
    }


class Parts(Buyer):
    """Buyers who give parts of their orders back."""

    tasks = {scenarios.cancel_parts: 40, scenarios.refund_parts: 40, scenarios.send_twice: 20}


class Peepers(Buyer):
    """Buyers who try other buyers' orders, and programs that send what must be refused."""

    tasks = {
        scenarios.peep: 40,
        scenarios.send_invalid: 20,
        scenarios.buy_and_pay: 25,
        scenarios.pay_and_refund: 20,
        scenarios.send_twice: 15,
    }


class Walkers(Buyer):
    """Buyers who try everything in sales that they have to themselves."""

    tasks = {scenarios.walk: 60, scenarios.insist: 20, scenarios.send_twice: 20}


class All(
    Payers, Refunders, Bots, Carts, Rush, Doubles, Limits, Windows, Holds, Parts, Peepers, Walkers
):
    """The buyers of every mix in equal parts."""


class Visitor(Buyer):
    """Visitors who load pages, beside every mix in a sale that goes on until it is stopped."""

    scheduled = False

    tasks = {scenarios.browse: 1}


class Adapted(Rusher):
    """Buyers of a shop that has an adapter (`--shop path.to:Adapter`); what they do, it says."""
