"""What the direct buyers do; see ``direct.py``, which starts their process."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection

from lab.demo.buyers import create_synthetic_buyers
from loadtest.history import Recorder, Shown
from loadtest.purchases import new_key
from loadtest.roles import LIMITED, MAIN
from loadtest.tokens import leave_tokens
from shop.accounts import tokens
from shop.catalogue.models import Sale
from shop.checkout.purchase import Bought, buy
from shop.refusals import PROBLEMS, Refusal

log = logging.getLogger(__name__)

BUYERS, ROUNDS = 20, 40
"""Each buyer comes in several rounds, so that what they have already counts."""

MAIN_EVERY = 3
"""One round in so many is about the main sale; no divisor of the buyers, or few would come to it.
"""

PAUSE = 0.3
"""Seconds between two rounds."""

FIRST = 2.0
"""Seconds after the opening: what the buyers of the web want is not to be gone by then."""

KEYS = 3
"""Different keys in a round; one of them is sent twice."""


@dataclass(frozen=True, slots=True)
class Click:
    """One request.

    Attributes:
        name: of the buyer.
        buyer: id of the user.
        attempt: with this key.
    """

    name: str
    buyer: int
    sale: Sale
    key: str
    quantity: int
    attempt: int = 1


class DirectBuyers:
    """Buyers who race for the same units and the same limits, each with several requests at once.

    Args:
        sales: by role.
        recorder: of their history.
        random: source of what they want.
    """

    def __init__(self, sales: dict[str, Sale], recorder: Recorder, random: Random) -> None:
        self._sales, self._recorder, self._random = sales, recorder, random
        self._pool = ThreadPoolExecutor(KEYS + 1, "direct")
        found = create_synthetic_buyers(BUYERS)
        self.tokens = {f"direct.{place}": token for place, token in enumerate(found)}
        self._ids = {name: tokens.verify(token) for name, token in self.tokens.items()}
        self._calls = 0

    def race(self, number: int) -> None:
        """Let one buyer make several requests at once, and wait for the answers."""
        name = f"direct.{number % BUYERS}"
        sale = self._sales[
            MAIN if number % MAIN_EVERY == 0 or LIMITED not in self._sales else LIMITED
        ]
        most = max(1, sale.limit // 2)
        clicks = [
            Click(name, self._ids[name], sale, new_key(), self._random.randint(1, most))
            for _ in range(KEYS)
        ]
        same = self._random.choice(clicks)
        clicks.append(Click(name, same.buyer, sale, same.key, same.quantity, attempt=2))
        names = [self._next_call() for _ in clicks]
        list(self._pool.map(self._click, names, clicks))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _next_call(self) -> str:
        self._calls += 1
        return f"direct#{self._calls}"

    def _click(self, call: str, click: Click) -> None:
        self._recorder.invoke(
            call,
            "order",
            client=click.name,
            buyer=click.name,
            sale=str(click.sale.pk),
            item=str(click.sale.item_id),
            key=click.key,
            attempt=click.attempt,
            quantity=click.quantity,
        )
        try:
            bought = buy(click.sale.pk, click.buyer, UUID(click.key), click.quantity)
        except Refusal as refusal:
            status, code = PROBLEMS[refusal.code].status, refusal.code
            self._recorder.complete(call, "order", status=status, code=code)
        except (OperationalError, InterfaceError):
            self._recorder.complete(call, "order", status=503, code="outcome_unknown")
        except Exception:
            log.exception("a direct purchase failed")
            self._recorder.complete(call, "order", status=500, code="internal_error")
        else:
            self._accepted(call, bought)
        finally:
            connection.close()

    def _accepted(self, call: str, bought: Bought) -> None:
        order = bought.order
        self._recorder.complete(
            call,
            "order",
            status=200 if bought.replayed else 201,
            order=str(order.pk),
            shown=Shown(order.amount, order.currency, order.status, order.refunded),
        )


def main() -> None:
    """Buy in the sales that the argument names, until all rounds are over or the input ends."""
    wanted = json.loads(sys.argv[1])
    ended = threading.Event()
    threading.Thread(target=_wait_for_end, args=[ended], daemon=True).start()
    sales = {role: Sale.objects.get(pk=pk) for role, pk in wanted["sales"].items()}
    recorder = Recorder(Path(wanted["folder"]) / "direct.jsonl")
    buyers = DirectBuyers(sales, recorder, Random(f"{wanted['seed']}/direct"))
    connection.close()
    try:
        ended.wait(max(0.0, wanted["opening"] + FIRST - time.monotonic()))
        for number in range(ROUNDS):
            if ended.wait(PAUSE):
                break
            buyers.race(number)
    finally:
        buyers.close()
        recorder.close()
        leave_tokens(recorder.path, buyers.tokens)


def _wait_for_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()
