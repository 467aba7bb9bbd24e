"""Buyers who do not come through the web: a process that buys with the guard as its only defence.

What stands before the guard in the shop's own processes (the sold-out hint, the item's lock, the
combined batches) would cover a guard or a limit that lacks its condition. Here nothing does.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection

from lab import environment
from lab.demo.data import create_synthetic_buyers
from lab.stack.stack import Stack
from loadtest.cart import WITH_ANOTHER, Cart, Line
from loadtest.history import Recorder, Shown
from loadtest.purchases import new_key
from loadtest.roles import LIMITED, MAIN, TIMED
from loadtest.sale import Sale as LoadSale
from loadtest.shops.flash_sale.answers import classify
from loadtest.steps.files import leave_tokens
from shop.accounts import tokens
from shop.catalogue.models import Sale
from shop.checkout.purchase import Bought, Wanted, buy, check_out
from shop.refusals import PROBLEMS, Refusal

MIXES = frozenset({"limits", "all"})
"""Mixes in which they come."""

START = "import django; django.setup(); from lab.proof.direct import main; main()"

LEAVING = 30.0
"""Seconds to finish what they are at."""


class Direct:
    """The process, from its start to its end.

    Args:
        sales: ids by role.
        opening: of the main sale, in seconds of the monotonic clock.
        seed: repeats what they want.
        folder: for their history, and for what goes wrong.
        stack: the shop's processes, whose servers and secrets these buyers use; None: those of this
            command.
    """

    def __init__(
        self,
        sales: Mapping[str, int],
        opening: float,
        seed: int,
        folder: Path,
        stack: Stack | None,
    ) -> None:
        wanted = {"sales": sales, "opening": opening, "seed": seed, "folder": str(folder)}
        with (folder / "direct.log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, json.dumps(wanted)],
                cwd=environment.PROJECT,
                env=_environment(stack),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def stop(self) -> None:
        """Let them finish the purchases that they are at."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(LEAVING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _environment(stack: Stack | None) -> dict[str, str]:
    own = {**stack.urls.as_environment(), **stack.extra} if stack else {}
    everything = {**os.environ, **own, "SHOP_DEMO": "1", "DJANGO_SETTINGS_MODULE": "lab.settings"}
    # A negative control may have the guard off: then it is off here too.
    lines = everything.get("INVENTORY_FEATURE_FLAGS", "guard").split(",")
    everything["INVENTORY_FEATURE_FLAGS"] = "guard" if "guard" in lines else "connections"
    return everything


log = logging.getLogger(__name__)

BUYERS, ROUNDS = 20, 40
"""Each buyer comes in several rounds, so that what they have already counts."""

ROUND = (MAIN, LIMITED, TIMED)
"""What the rounds are about in turn; their number is no divisor of the buyers', or each buyer would
always come to the same sale.
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
        lines: what they want; several are a cart.
        cart: its key; empty for a single purchase.
        attempt: with this key.
    """

    name: str
    lines: tuple[Line, ...]
    cart: str = ""
    attempt: int = 1


class DirectBuyers:
    """Buyers who race for the same units and the same limits, each with several requests at once.

    Args:
        sales: by role.
        recorder: of their history.
        random: source of what they want.
    """

    def __init__(self, sales: dict[str, Sale], recorder: Recorder, random: Random) -> None:
        self._sales = {
            role: LoadSale(str(sale.pk), str(sale.item_id), sale.limit, 0.0)
            for role, sale in sales.items()
        }
        self._recorder, self._random = recorder, random
        self._pool = ThreadPoolExecutor(KEYS + 1, "direct")
        found = create_synthetic_buyers(BUYERS)
        self.tokens = {f"direct.{place}": token for place, token in enumerate(found)}
        self._ids = {name: tokens.verify(token) for name, token in self.tokens.items()}
        self._calls = 0

    def race(self, number: int) -> None:
        """Let one buyer make several requests at once, and wait for the answers."""
        name = f"direct.{number % BUYERS}"
        role = ROUND[number % len(ROUND)]
        sale = self._sales.get(role, self._sales[MAIN])
        most = max(1, sale.limit // 2)
        clicks = [
            Click(name, (Line(sale, self._random.randint(1, most), new_key()),))
            for _ in range(KEYS)
        ]
        if role == TIMED and sale != self._sales[MAIN]:
            # The rules of the sale that is about to close count for a cart as well.
            cart = Cart.of({sale: 1, self._sales[MAIN]: 1})
            clicks[0] = Click(name, cart.lines, cart.key)
        clicks.append(replace(self._random.choice(clicks), attempt=2))
        names = [self._next_call() for _ in clicks]
        list(self._pool.map(self._click, names, clicks))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _next_call(self) -> str:
        self._calls += 1
        return f"direct#{self._calls}"

    def _click(self, call: str, click: Click) -> None:
        for place, line in enumerate(click.lines):
            self._recorder.invoke(
                f"{call}.{place}",
                "order",
                client=click.name,
                buyer=click.name,
                sale=line.sale.id,
                item=line.sale.item,
                key=line.key,
                attempt=click.attempt,
                quantity=line.quantity,
                cart=click.cart,
            )
        status, code, bought = 503, "outcome_unknown", None
        about = ""
        try:
            bought = self._buy(click)
            status, code = 200 if bought.replayed else 201, ""
        except Refusal as refusal:
            status, code = PROBLEMS[refusal.code].status, refusal.code
            about = str(refusal.more.get("sale", ""))
        except (OperationalError, InterfaceError):
            pass
        except Exception:
            log.exception("a direct purchase failed")
            status, code = 500, "internal_error"
        finally:
            connection.close()
        order = str(bought.order.pk) if bought else None
        for place, line in enumerate(click.lines):
            another = click.cart and about not in ("", line.sale.id)
            self._recorder.complete(
                f"{call}.{place}",
                classify(status, code, order),
                status=status,
                code=WITH_ANOTHER if another else code,
                order=order,
                shown=_shown(bought) if bought else None,
            )

    def _buy(self, click: Click) -> Bought:
        buyer, first = self._ids[click.name], click.lines[0]
        if not click.cart:
            return buy(int(first.sale.id), buyer, UUID(first.key), first.quantity)
        wanted = [Wanted(int(line.sale.id), line.quantity) for line in click.lines]
        return check_out(buyer, UUID(click.cart), wanted)


def _shown(bought: Bought) -> Shown:
    order = bought.order
    return Shown(order.amount, order.currency, order.status, order.refunded)


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
