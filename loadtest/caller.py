"""What a buyer's calls have in common: the history is told before and after, Locust afterwards."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from itertools import count

from loadtest.client import Connection
from loadtest.finished import Finished, Report, UnexpectedAnswer
from loadtest.history import INFO, OK, Recorder
from loadtest.purchases import Cart, Sale
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


class Caller:
    """One buyer's calls.

    Attributes:
        name: of the buyer.
        token: of the buyer.
        walk: the name of the walk that the calls belong to, in the history; empty for none.
    """

    walk = ""

    def __init__(
        self,
        *,
        name: str,
        token: str,
        connection: Connection,
        recorder: Recorder | None,
        report: Report,
        client: str = "",
        due: int | None = None,
    ) -> None:
        """`client` is who asks in the buyer's name, in the history; the buyer, if empty.

        `due` is when this buyer meant to come, in an open loop (ns of the monotonic clock).
        """
        self.name = name
        self._client = client or name
        self.token = token
        self._connection = connection
        self._recorder = recorder
        self._report = report
        self._due = due
        self._calls = count(1)
        self._cookie = ""

    def _call(
        self,
        op: str,
        request: Request,
        *,
        key: str = "",
        attempt: int = 1,
        sale: Sale | None = None,
        quantity: int = 0,
        order: str | None = None,
        connection: Connection | None = None,
        expects: Collection[str] = (),
        token: str | None = None,
        must: int = 0,
        cart: Cart | None = None,
    ) -> Answer:
        """Ask once; a cart is one request, and a call of the history for each of its lines."""
        call = f"{self._client}#{next(self._calls)}"
        lines: dict[str, tuple[Sale | None, int, str]] = {call: (sale, quantity, key)}
        if cart is not None:
            lines = {f"{call}.{place}": line for place, line in enumerate(cart.lines)}
        # Only the first call has a time of its own; the others follow from its answer.
        due, self._due = self._due, None
        headers = self._headers(key, request, token=token)
        for name, (wanted, units, its_key) in lines.items():
            if self._recorder is not None:
                self._recorder.invoke(
                    name,
                    op,
                    client=self._client,
                    buyer=self.name,
                    sale=wanted.id if wanted else None,
                    item=wanted.item if wanted else None,
                    key=its_key,
                    attempt=attempt,
                    quantity=units,
                    order=order,
                    due=due,
                    cart=cart.key if cart else "",
                    must=must,
                    walk=self.walk,
                )
        started = due or time.monotonic_ns()
        answer = (connection or self._connection).request(request, headers)
        milliseconds = (time.monotonic_ns() - started) / 1e6
        codes = dict.fromkeys(lines, answer.code)
        if cart is not None:
            about = zip(lines, cart.lines, strict=True)
            codes = {name: cart.code_of(line, answer.code, answer.about) for name, line in about}
        outcome = self._record(codes, op, answer, order)
        self._tell("cart" if cart else op, op, answer, outcome, milliseconds, expects)
        return answer

    def _record(self, codes: Mapping[str, str], op: str, answer: Answer, order: str | None) -> str:
        """Write down how the calls of a request ended, each with its code: their outcome."""
        # An answer that shows another order than was asked for must be seen as that.
        named = (answer.order if op in SHOW_ORDER else None) or order
        outcome = classify(answer.status, answer.code, named, op=op)
        if self._recorder is None:
            return outcome
        for name, code in codes.items():
            self._recorder.complete(
                name,
                outcome,
                status=answer.status,
                code=code,
                order=named,
                shown=answer.shown if op in SHOW_ORDER or op == "look" else None,
                orders=answer.orders,
                told=answer.told if self.walk else None,
            )
        return outcome

    def _headers(self, key: str, request: Request, token: str | None = None) -> dict[str, str]:
        token = self.token if token is None else token
        return requests.headers(token, key=key, cookie=self._cookie, body=bool(request.body))

    def _tell(
        self,
        name: str,
        op: str,
        answer: Answer,
        outcome: str,
        milliseconds: float,
        expects: Collection[str],
    ) -> None:
        said = str(answer.status) if outcome == OK else answer.code or str(answer.status)
        expected = (
            outcome == OK
            or (outcome != INFO and (answer.code in EXPECTED_REFUSALS or said in expects))
            or (op != "order" and answer.status == EXPECTED_STATE_REFUSALS)
        )
        problem = None if expected else UnexpectedAnswer(f"{answer.status} {answer.code}".strip())
        told = f"{name}: {said}"
        self._report(Finished(op, outcome, told, milliseconds, answer.length, problem))
