"""A synthetic buyer: makes calls, writes them into the history, and tells Locust how they went."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from loadtest.cart import Cart
from loadtest.client import Answer, Connection
from loadtest.history import INFO, OK, Recorder, classify
from loadtest.sale import Sale

# Refusals that a healthy shop gives in a rush. Any other answer that is not ok is a failure.
EXPECTED_REFUSALS = frozenset(
    {"sold_out", "limit_reached", "not_started", "ended", "rate_limited", "busy"}
)
# Refusals of an order's next step that depend on who was first.
EXPECTED_STATE_REFUSALS = 409

# Buyers do not all press in the same microsecond: most seconds from the opening to the first press.
REACTION_TIME = 0.05

# `report(op, outcome, name, milliseconds, bytes, problem)`: one finished call, with what is wrong
# with it.
Report = Callable[[str, str, str, float, int, Exception | None], None]


class UnexpectedAnswer(Exception):
    """An answer that a healthy shop does not give."""


class Purchase(NamedTuple):
    """One idempotency key: what a buyer wants, however often they have to ask."""

    key: str
    quantity: int


class Shopper:
    """One buyer with a token and a connection."""

    def __init__(
        self,
        *,
        name: str,
        token: str,
        sale: Sale,
        others: Sequence[Sale] = (),
        connection: Connection,
        recorder: Recorder | None,
        report: Report,
        due: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`others` are sales that go into a cart beside it.

        `due` is when this buyer meant to come, in an open loop (ns of the monotonic clock).
        """
        self.name = name
        self.sale = sale
        self.others = others
        self.sleep = sleep
        self._token = token
        self._connection = connection
        self._recorder = recorder
        self._report = report
        self._due = due
        self._calls = 0
        self._cookie = ""
        self._attempts: dict[str, int] = {}

    def wait_for_opening(self, random: Random) -> None:
        """Wait until the sale is open, unless this buyer arrives at a time of their own."""
        if self._due is None:
            self.sale.wait_for_opening()
            self.sleep(random.random() * REACTION_TIME)

    def wants(self, quantity: int = 1) -> Purchase:
        """A new purchase. Keys are random even in a seeded run: they must never be used twice."""
        return Purchase(str(uuid.uuid4()), quantity)

    def order(self, purchase: Purchase, *, connection: Connection | None = None) -> Answer:
        """Ask for a purchase once; asking again with the same one is a retry."""
        attempt = self._attempts.get(purchase.key, 0) + 1
        self._attempts[purchase.key] = attempt
        return self._call(
            "order",
            "POST",
            f"/api/v1/sales/{self.sale.id}/orders",
            body=b'{"quantity": %d}' % purchase.quantity,
            key=purchase.key,
            attempt=attempt,
            quantity=purchase.quantity,
            connection=connection,
        )

    def check_out(self, cart: Cart) -> Answer:
        """Ask for a cart once; asking again with the same one is a retry."""
        attempt = self._attempts.get(cart.key, 0) + 1
        self._attempts[cart.key] = attempt
        self._calls += 1
        calls = [f"{self.name}#{self._calls}.{place}" for place in range(len(cart.lines))]
        due, self._due = self._due, None
        if self._recorder is not None:
            for call, line in zip(calls, cart.lines, strict=True):
                self._recorder.invoke(
                    call,
                    "order",
                    client=self.name,
                    buyer=self.name,
                    sale=line.sale.id,
                    item=line.sale.item,
                    key=line.key,
                    attempt=attempt,
                    quantity=line.quantity,
                    due=due,
                )
        headers = self._headers(cart.key, body=True)
        started = due or time.monotonic_ns()
        answer = self._connection.request("POST", "/api/v1/orders", headers, cart.body())
        milliseconds = (time.monotonic_ns() - started) / 1e6
        if self._recorder is not None:
            for call, line in zip(calls, cart.lines, strict=True):
                code = cart.code_of(line, answer)
                self._recorder.complete(
                    call, "order", status=answer.status, code=code, order=answer.order
                )
        outcome = classify(answer.status, answer.code, answer.order)
        self._tell("order", answer, outcome, milliseconds, name="cart")
        return answer

    def look(self) -> Answer:
        """Look at the sale."""
        return self._call("look", "GET", f"/api/v1/sales/{self.sale.id}")

    def read(self, order: str) -> Answer:
        """Look at an order of one's own."""
        return self._call("read", "GET", f"/api/v1/orders/{order}", order=order)

    def see_home(self) -> Answer:
        """Load the home page."""
        return self._see("/")

    def see_sale(self) -> Answer:
        """Load the sale's page."""
        return self._see(f"/sales/{self.sale.id}/")

    def see_order(self, order: str) -> Answer | None:
        """Load the page of an order of one's own; None if the shop did not sign the buyer in."""
        if not self._cookie:
            signed_in = self._call("sign_in", "POST", "/api/v1/demo/sessions")
            self._cookie = str(signed_in.body.get("cookie", ""))
        return self._see(f"/orders/{order}/", order=order) if self._cookie else None

    def pay(self, order: str, *, connection: Connection | None = None) -> Answer:
        """Pay an order."""
        return self._step("payment", order, connection)

    def cancel(self, order: str) -> Answer:
        """Cancel an order."""
        return self._step("cancel", order)

    def refund(self, order: str, *, connection: Connection | None = None) -> Answer:
        """Ask for the money of an order back."""
        return self._step("refund", order, connection)

    def beside(self) -> Connection:
        """A second connection, for what a buyer does in two windows at once; close it after use."""
        return self._connection.like()

    def leave(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _see(self, path: str, order: str | None = None) -> Answer:
        return self._call("page", "GET", path, order=order)

    def _step(self, op: str, order: str, connection: Connection | None = None) -> Answer:
        return self._call(
            op, "POST", f"/api/v1/orders/{order}/{op}", order=order, connection=connection
        )

    def _call(
        self,
        op: str,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        key: str = "",
        attempt: int = 1,
        quantity: int = 0,
        order: str | None = None,
        connection: Connection | None = None,
    ) -> Answer:
        self._calls += 1
        call = f"{self.name}#{self._calls}"
        # Only the first call has a time of its own; the others follow from its answer.
        due, self._due = self._due, None
        headers = self._headers(key, body=bool(body))
        if self._recorder is not None:
            self._recorder.invoke(
                call,
                op,
                client=self.name,
                buyer=self.name,
                sale=self.sale.id,
                item=self.sale.item,
                key=key,
                attempt=attempt,
                quantity=quantity,
                order=order,
                due=due,
            )
        started = due or time.monotonic_ns()
        answer = (connection or self._connection).request(method, path, headers, body)
        milliseconds = (time.monotonic_ns() - started) / 1e6
        # Only the answer to a purchase names an order that the caller did not know.
        named = answer.order if op == "order" else order
        if self._recorder is not None:
            outcome = self._recorder.complete(
                call, op, status=answer.status, code=answer.code, order=named
            )
        else:
            outcome = classify(answer.status, answer.code, named, op=op)
        self._tell(op, answer, outcome, milliseconds)
        return answer

    def _headers(self, key: str, *, body: bool) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self._token}"}
        if self._cookie:
            headers["Cookie"] = self._cookie
        if body:
            headers["Content-Type"] = "application/json"
        if key:
            headers["Idempotency-Key"] = key
        return headers

    def _tell(
        self, op: str, answer: Answer, outcome: str, milliseconds: float, name: str = ""
    ) -> None:
        said = str(answer.status) if outcome == OK else answer.code or str(answer.status)
        expected = (
            outcome == OK
            or (outcome != INFO and answer.code in EXPECTED_REFUSALS)
            or (op != "order" and answer.status == EXPECTED_STATE_REFUSALS)
        )
        problem = None if expected else UnexpectedAnswer(f"{answer.status} {answer.code}".strip())
        self._report(op, outcome, f"{name or op}: {said}", milliseconds, answer.length, problem)
