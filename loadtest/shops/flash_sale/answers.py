"""What the shop's answers say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from loadtest.framing import Response
from loadtest.full_shop import SaleUnusable
from loadtest.history import CONNECTION_REFUSED, FAIL, INFO, OK, Receipt, Shown
from loadtest.purchases import Sale

_ORDER_LINK = re.compile(rb"/orders/(\d{1,19})/")


# Refusals that a healthy shop gives, but for conflicts and what is not there, which are known by
# their status. Whether one was right, the checker says.
_EXPECTED_REFUSALS = frozenset(
    {
        "not_started",
        "paused",
        "ended",
        "rate_limited",
        "busy",
        "idempotency_key_reused",
        "invalid_quantity",
    }
)

# Answers after which the shop has certainly done nothing.
_REFUSALS = frozenset({400, 401, 403, 404, 409, 410, 422, 429})


def classify(status: int, code: str, order: str | None, *, op: str = "order") -> str:
    """What a client may conclude from an answer: `ok`, `fail` or `info`.

    `status` is the HTTP status, 0 if no answer came; `code` the problem's code or the client's own
    word for what went wrong; `order` the id of the order in the answer. A purchase is only ok if
    the answer names the order. Whatever is neither a promise nor a definite refusal is unknown.
    """
    if status in (200, 201, 204) and (order is not None or op != "order"):
        return OK
    if status in _REFUSALS or (status == 503 and code == "busy"):
        return FAIL
    if status == 0 and code == CONNECTION_REFUSED:
        return FAIL
    return INFO


class Answer(NamedTuple):
    """What came back: `status` 0 and the reason as `code` if nothing did."""

    status: int
    code: str
    body: dict[str, Any]
    retry_after: float
    length: int
    orders: Sequence[str] = ()
    """The orders to which a page links."""

    @property
    def order(self) -> str | None:
        """The id of the order in the answer, if it names one."""
        identity = self.body.get("id")
        return None if identity is None else str(identity)

    @property
    def unknown(self) -> bool:
        """Whether the buyer cannot tell if they got it."""
        return classify(self.status, self.code, self.order) == INFO

    def expected(self, must: int) -> bool:
        """Whether a healthy shop may say this to a request that it must refuse so, or may grant."""
        return self.status in (404, 409, must) or self.code in _EXPECTED_REFUSALS

    @property
    def busy(self) -> bool:
        """Whether the shop asks to come again a little later."""
        return self.code == "busy"

    @property
    def sold_out(self) -> bool:
        """Whether it says that too few units are left."""
        return self.code == "sold_out"

    @property
    def limit_reached(self) -> bool:
        """Whether it says that the buyer has as many as they may."""
        return self.code == "limit_reached"

    @property
    def ended(self) -> bool:
        """Whether it says that the sale is over."""
        return self.code == "ended"

    @property
    def declined(self) -> bool:
        """Whether the payment provider has declined."""
        return self.code == "payment_declined"

    @property
    def paid(self) -> bool | None:
        """Whether the order is paid; None if it can still be, or if the answer shows none."""
        if self.shown is None or self.shown.status == "awaiting_payment":
            return None
        return self.shown.status in ("paid", "fulfilled")

    @property
    def shown(self) -> Shown | None:
        """What the answer shows of an order or a sale; None if it shows none."""
        body = self.body
        try:
            money, status = body["price" if "price" in body else "amount"], str(body["status"])
            amount, currency = int(money["amount"]), str(money["currency"])
            if "price" in body:
                return Shown(amount, currency, status, available=int(body["available"]))
            refunded = int(body["refunded"]["amount"])
            returned = sum(int(line["returned"]) for line in body["lines"])
            return Shown(amount, currency, status, refunded, returned)
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def receipt(self) -> Receipt | None:
        """The receipt of an entry in a draw; None if it shows none."""
        try:
            body = self.body
            return Receipt(int(body["number"]), str(body["hash"]), str(body["entry"]))
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def won(self) -> str | None:
        """The order of an entry that has won."""
        won = self.body.get("order")
        return None if won is None else str(won)

    @property
    def seconds_to_end(self) -> float:
        """Seconds to the end of the draw that it shows, by the server's clock; 0 if unknown."""
        try:
            end = datetime.fromisoformat(self.body["ends_at"])
            return (end - datetime.fromisoformat(self.body["server_time"])).total_seconds()
        except (KeyError, TypeError, ValueError):
            return 0.0

    @property
    def pay_before(self) -> float:
        """Until when an order is to be paid, in seconds since 1970. Raises `ValueError`."""
        try:
            return datetime.fromisoformat(self.body["pay_before"]).timestamp()
        except (KeyError, TypeError) as error:
            raise ValueError("the answer names no deadline") from error

    @property
    def action_url(self) -> str:
        """The page on which the buyer has to pay; empty if there is none."""
        action = self.body.get("action")
        return str(action.get("url", "")) if isinstance(action, dict) else ""

    @property
    def about(self) -> str | None:
        """The sale that a refusal of a cart is about; None if it names none."""
        about = self.body.get("sale")
        return None if about is None or self.status < 400 else str(about)

    @property
    def cookie(self) -> str:
        """The cookie of a session that was begun; empty if there is none."""
        return str(self.body.get("cookie", ""))

    @property
    def tokens(self) -> list[str]:
        """The tokens of buyers that were made; none if there are none."""
        made = self.status in (200, 201)
        return [str(token) for token in self.body.get("tokens") or []] if made else []


def nothing(code: str) -> Answer:
    """Return that no answer came, and why."""
    return Answer(0, code, {}, 0.0, 0)


def understand(response: Response) -> Answer:
    """Read an answer of the shop."""
    retry_after = response.headers().get("retry-after", "") if response.status >= 400 else ""
    return read(response.status, response.body, retry_after)


def read(status: int, content: bytes, retry_after: str = "") -> Answer:
    """Read an answer of this status and body."""
    orders: list[str] = []
    try:
        body = msgspec.json.decode(content) if content else {}
    except (ValueError, RecursionError):
        body = {}
        orders = sorted({found.decode() for found in _ORDER_LINK.findall(content)})
    if not isinstance(body, dict):
        body = {}
    code = str(body.get("code", "")) if status >= 400 else ""
    wait = float(retry_after) if retry_after.isdigit() else 0.0
    return Answer(status, code, body, wait, len(content), orders)


def sale_of(sale: str, body: Mapping[str, Any], *, answered: float) -> Sale:
    """Read what the shop says of a sale, answered at this monotonic time in seconds.

    Clocks of buyers differ; only the difference between the server's own two times counts. The
    server read its clock between the two, so counted from the later one no buyer is too early.

    Raises:
        SaleUnusable: something is missing.
    """
    try:
        opens = datetime.fromisoformat(body["starts_at"])
        now = datetime.fromisoformat(body["server_time"])
        limit = int(body["limit"])
    except (KeyError, TypeError, ValueError) as error:
        raise SaleUnusable(f"the answer about sale {sale} lacks a field: {error!r}") from error
    item = body.get("item")
    return Sale(
        id=sale,
        item=None if item is None else str(item),
        limit=limit,
        opens_at=answered + (opens - now).total_seconds(),
        clock=answered - now.timestamp(),
    )
