"""What a buyer's calls have in common: the history is told before and after, Locust afterwards."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count

from loadtest.client import Connection
from loadtest.crowd import Crowd
from loadtest.finished import Finished, UnexpectedAnswer
from loadtest.history import INFO, OK, Operation
from loadtest.purchases import Cart, Line, Sale
from loadtest.shop import Request
from loadtest.shops.flash_sale import requests
from loadtest.shops.flash_sale.answers import (
    EXPECTED_REFUSALS,
    EXPECTED_STATE_REFUSALS,
    Answer,
    classify,
)

# Calls whose answers show an order.
SHOW_ORDER = frozenset({"order", "read", "payment", "cancel", "refund"})


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, and what the history says of it.

    Attributes:
        op: see `loadtest.history`.
        request: without the buyer's token and the key.
        key: under which it asks; empty for none.
        sale, quantity: that it is about.
        cart: that it asks for; each of its lines is a call of the history.
        order: that it is about.
        must: the HTTP status with which the shop must refuse it; 0 if it may be granted.
        token: in place of the buyer's own.
    """

    op: str
    request: Request
    key: str = ""
    sale: Sale | None = None
    quantity: int = 0
    cart: Cart | None = None
    order: str | None = None
    must: int = 0
    token: str | None = None


class Caller:
    """One buyer's calls.

    Attributes:
        name: of the buyer.
        token: of the buyer.
        due: when this buyer meant to come, in an open loop (ns of the monotonic clock).
        walk: the name of the walk that the calls belong to, in the history; empty for none.
    """

    due: int | None = None
    walk = ""

    def __init__(self, crowd: Crowd, name: str, connection: Connection, client: str = "") -> None:
        """`client` is who asks in the buyer's name, in the history; the buyer, if empty."""
        self.crowd, self.name, self.token = crowd, name, crowd.take_token(name)
        self._client = client or name
        self._connection = connection
        self._calls = count(1)
        self._attempts: dict[str, int] = {}
        self._cookie = ""

    def asked(self, key: str, attempts: int) -> None:
        """Take note that a key was used so often before."""
        self._attempts[key] = attempts

    def _call(
        self,
        ask: Ask,
        *,
        connection: Connection | None = None,
        expects: Collection[str] = (),
    ) -> Answer:
        """Ask once; a cart is one request, and a call of the history for each of its lines.

        `connection` is another one than the buyer's own, and `expects` are further refusals that a
        healthy shop may give.
        """
        call = f"{self._client}#{next(self._calls)}"
        lines: dict[str, Line | Ask] = {call: ask}
        if ask.cart is not None:
            lines = {f"{call}.{place}": line for place, line in enumerate(ask.cart.lines)}
        # Only the first call has a time of its own; the others follow from its answer.
        due, self.due = self.due, None
        started = self._begin(ask, lines, due)
        token = self.token if ask.token is None else ask.token
        headers = requests.headers(
            token, key=ask.key, cookie=self._cookie, body=bool(ask.request.body)
        )
        answer = (connection or self._connection).request(ask.request, headers)
        milliseconds = (time.monotonic_ns() - started) / 1e6
        outcome = self._end(ask, lines, answer)
        self._tell(ask, answer, outcome, milliseconds, expects)
        return answer

    def _begin(self, ask: Ask, lines: Mapping[str, Line | Ask], due: int | None) -> int:
        """Write down what is asked for; return when, or when it was due."""
        attempt = 1
        if ask.key and not ask.must:
            attempt = self._attempts[ask.key] = self._attempts.get(ask.key, 0) + 1
        for name, line in lines.items():
            if self.crowd.recorder is not None:
                self.crowd.recorder.invoke(
                    Operation(
                        *(0, name, ask.op, self._client, self.name, line.key),
                        attempt=attempt,
                        sale=line.sale.id if line.sale else None,
                        item=line.sale.item if line.sale else None,
                        quantity=line.quantity,
                        order=ask.order,
                        due=due,
                        cart=ask.key if ask.cart else "",
                        must=ask.must,
                        walk=self.walk,
                    )
                )
        return due or time.monotonic_ns()

    def _end(self, ask: Ask, lines: Mapping[str, Line | Ask], answer: Answer) -> str:
        """Write down how the calls of a request ended: their outcome."""
        # An answer that shows another order than was asked for must be seen as that.
        shows_order = ask.op in SHOW_ORDER
        named = (answer.order if shows_order else None) or ask.order
        outcome = classify(answer.status, answer.code, named, op=ask.op)
        for name, line in lines.items():
            code = answer.code
            if isinstance(line, Line):
                code = Cart.code_of(line, code, answer.about)
            if self.crowd.recorder is not None:
                self.crowd.recorder.complete(
                    name,
                    outcome,
                    status=answer.status,
                    code=code,
                    order=named,
                    shown=answer.shown if shows_order or ask.op == "look" else None,
                    orders=answer.orders,
                    told=answer.told if self.walk else None,
                )
        return outcome

    def _tell(
        self,
        ask: Ask,
        answer: Answer,
        outcome: str,
        milliseconds: float,
        expects: Collection[str],
    ) -> None:
        said = str(answer.status) if outcome == OK else answer.code or str(answer.status)
        expected = (
            outcome == OK
            or (outcome != INFO and (answer.code in EXPECTED_REFUSALS or said in expects))
            or (ask.op != "order" and answer.status == EXPECTED_STATE_REFUSALS)
        )
        problem = None if expected else UnexpectedAnswer(f"{answer.status} {answer.code}".strip())
        told = f"{'cart' if ask.cart else ask.op}: {said}"
        self.crowd.report(Finished(ask.op, outcome, told, milliseconds, answer.length, problem))
