"""The API's calls. Each calls one service and returns what the service has done as a document.

The decorators say what a call takes, how it may answer and which refusals it has; the docstrings
are its texts in the OpenAPI document.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.auth import authenticate
from django.db import DataError
from django.http import HttpRequest
from msgspec import UNSET, UnsetType, convert

from inventory.hooks import BEFORE_ANSWER, hooks
from inventory.outcomes import Busy, OutcomeUnknown
from shop import orders, payments
from shop.accounts import throttle, tokens
from shop.api import schemas
from shop.api.operations import Answer, Operation, Result
from shop.catalogue.sale_cache import NoSuchSale, stock_cache
from shop.checkout import Bought, Wanted, buy, check_out
from shop.money import Money, included_tax
from shop.orders import Opened, OpenedLine, Part
from shop.orders.models import Order, OrderLine
from shop.payments import webhooks
from shop.payments.http_provider import Envelope
from shop.payments.provider import NotFromProvider
from shop.payments.settlement import NotYet
from shop.refusals import Refusal
from shop.shares import ORDERS, PURCHASES

log = logging.getLogger(__name__)

AFTER_ORDER = dict.fromkeys(
    ("show_order", "pay_order", "cancel_order", "refund_order"), ("order", "id")
)
"""Operations that may follow any answer that contains an order."""

BOUGHT = {
    201: Answer(schemas.Order, "The order.", AFTER_ORDER),
    200: Answer(schemas.Order, "The same order again, for the same key.", AFTER_ORDER),
}

CHANGED = {200: Answer(schemas.Order, "The order after it.", AFTER_ORDER)}

buys = partial(
    Operation,
    method="POST",
    tag="Orders",
    share=PURCHASES,
    buyer=True,
    key="required",
    answers=BOUGHT,
    problems=(
        "not_found",
        "not_started",
        "paused",
        "ended",
        "draw_only",
        "sold_out",
        "limit_reached",
        "price_changed",
        "amount_too_large",
        "invalid_quantity",
        "idempotency_key_reused",
        "rate_limited",
        "busy",
    ),
)
changes = partial(Operation, method="POST", tag="Orders", share=ORDERS, buyer=True, answers=CHANGED)


@buys(body=schemas.Purchase)
def place_order(
    request: HttpRequest, sale: int, *, buyer: int, key: UUID, body: schemas.Purchase
) -> Result:
    """Buy in a sale.

    Reserves the units and opens an order, or neither. What is answered has been committed. An order
    of 0.00 is paid at once.
    """
    return _bought(buy(sale, buyer, key, body.quantity, **_terms(body)))


@buys(body=schemas.Cart)
def place_cart(request: HttpRequest, *, buyer: int, key: UUID, body: schemas.Cart) -> Result:
    """Buy a cart.

    Buys in several sales, all or nothing: one order with a line for each sale. A refusal names the
    sale of the line that it is about. The time to pay is the shortest of the sales'. Inside, the
    first line (by the sale's id) has the cart's key, line *n* the UUIDv5 of `n` in the cart's key
    as namespace.
    """
    wanted = [Wanted(line.sale, line.quantity) for line in body.lines]
    return _bought(check_out(buyer, key, wanted, **_terms(body)))


@Operation(
    method="GET",
    tag="Sales",
    answers={200: Answer(schemas.Sale, "The sale.", {"place_order": ("sale", "id")})},
    max_age=1,
)
def show_sale(request: HttpRequest, sale: int) -> Result:
    """Show a sale.

    Its window, price and limit, what is available, and the server's time, by which alone the window
    is judged. What is shown may be a second old, and another one behind a cache.
    """
    try:
        stock = stock_cache().get(sale)
    except NoSuchSale:
        raise Refusal("not_found") from None
    except (Busy, OutcomeUnknown) as error:
        raise Refusal("busy") from error
    cached, status = stock.sale, stock.status
    return 200, schemas.Sale(
        id=sale,
        item=cached.item,
        kind=cached.kind,
        price=Money(cached.price, cached.currency),
        limit=cached.limit,
        starts_at=cached.starts_at,
        early_starts_at=cached.early_starts_at,
        ends_at=cached.ends_at,
        status=status,
        available=stock.available,
        may_come_back=stock.held and status == "sold_out",
        server_time=cached.now(),
    )


@Operation(
    method="GET",
    tag="Orders",
    buyer=True,
    answers={200: Answer(schemas.Order, "The order.", AFTER_ORDER)},
)
def show_order(request: HttpRequest, order: int, *, buyer: int) -> Result:
    """Show an order.

    To its buyer only; for other buyers it does not exist.
    """
    return 200, order_document(_own_order(order, buyer))


@changes(
    problems=(
        "order_expired",
        "order_cancelled",
        "order_refund_pending",
        "order_refunded",
        "payment_declined",
        "busy",
    ),
)
def pay_order(request: HttpRequest, order: int, *, buyer: int) -> Result:
    """Pay an order.

    Paying twice is paying once. Where the payment provider needs the buyer, the answer has an
    `action`: send the buyer there, then look at the order again. While the provider works on it,
    the order still awaits its payment. After a 503, the same call finds out what became of it.
    """
    return 200, order_document(payments.pay(_own_order(order, buyer)))


@changes(
    key="optional",
    body=schemas.Part,
    problems=(
        "order_paid",
        "order_expired",
        "order_fulfilled",
        "order_refund_pending",
        "order_refunded",
        "order_cancelled",
        "idempotency_key_reused",
        "busy",
    ),
)
def cancel_order(
    request: HttpRequest, order: int, *, buyer: int, key: UUID | None, body: schemas.Part
) -> Result:
    """Cancel an order that is not paid, or a part of it.

    `{"all": true}` cancels all of it, and so does a call without a body. The units are for sale
    again, if the sale wants that. Cancelling all of it twice is cancelling once; a part needs an
    `Idempotency-Key`. What a payment under way takes goes back by itself.
    """
    found, part = _own_part(order, buyer, key, body)
    return 200, order_document(orders.cancel(found, part))


@changes(
    key="optional",
    body=schemas.Part,
    problems=(
        "order_awaiting_payment",
        "order_expired",
        "order_cancelled",
        "order_fulfilled",
        "order_refund_pending",
        "order_refunded",
        "idempotency_key_reused",
        "busy",
    ),
)
def refund_order(
    request: HttpRequest, order: int, *, buyer: int, key: UUID | None, body: schemas.Part
) -> Result:
    """Return a paid order for a refund, or a part of it.

    `{"all": true}` returns all of it, and so does a call without a body. The units are for sale
    again, if the sale wants that. Returning all of it twice is returning once; a part needs an
    `Idempotency-Key`. After a 503, the same call finds out what became of it.
    """
    found, part = _own_part(order, buyer, key, body)
    return 200, order_document(payments.refund(found, part))


@Operation(
    method="POST",
    tag="Buyers",
    body=schemas.Credentials,
    answers={201: Answer(schemas.Token, "The token.")},
    problems=("wrong_credentials", throttle.CODE),
)
def make_token(request: HttpRequest, *, body: schemas.Credentials) -> Result:
    """Exchange a user name and a password for a buyer token.

    For the `Authorization` header of the other calls. It ends by itself, or within a minute after
    the account is deactivated or deleted or gets a new password.
    """
    user = authenticate(request, username=body.username, password=body.password)
    if user is None:
        throttled = throttle.is_throttled(body.username)
        raise Refusal(throttle.CODE if throttled else "wrong_credentials")
    try:
        token = tokens.issue_to(user)
    except tokens.BadToken:
        raise Refusal("wrong_credentials") from None
    return 201, schemas.Token(token=token, expires_in=tokens.LIFETIME)


@Operation(
    method="POST",
    tag="Payments",
    share=ORDERS,
    signed_body=Envelope,
    max_body=webhooks.MAX_EVENT,
    headers={
        "PSP-Signature": "`t=`, the seconds since 1970, then `,v1=` and the HMAC-SHA256, in "
        "hexadecimal, of those seconds, a point and the raw body under the webhook secret."
    },
    answers={200: Answer(schemas.Received, "Its effect, if any, is committed, now or earlier.")},
    problems=("bad_signature", "not_yet", "invalid_request"),
)
def receive_webhook(request: HttpRequest, *, body: bytes) -> Result:
    """Receive a webhook event.

    Called by the payment provider, at least once for each event and in any order. It repeats the
    event after any answer but 200. An event about a payment that is not of this shop is answered
    with 200 as well, and logged. A body may have a mebibyte.
    """
    try:
        webhooks.receive(body, request.headers)
    except NotFromProvider:
        raise Refusal("bad_signature") from None
    except NotYet:
        raise Refusal("not_yet") from None
    except DataError as error:
        # A text contains NUL or is longer than its column.
        log.warning("the payment provider's event cannot be stored: %s", error)
        raise Refusal("malformed", detail="A text contains NUL or is too long.") from None
    except ValueError:
        log.exception("the payment provider's event cannot be understood: %r", body[:2000])
        raise Refusal("invalid_request") from None
    return 200, schemas.Received()


def order_document(order: Order | Opened) -> schemas.Order:
    """Return an order as the API shows it."""
    currency = order.currency
    lines: Iterable[OpenedLine | OrderLine] = (
        order.lines if isinstance(order, Opened) else order.lines.all()
    )
    progress = payments.NONE
    if isinstance(order, Order) and order.status == Order.Status.AWAITING_PAYMENT:
        progress = payments.progress(order)
    action: schemas.Action | UnsetType = UNSET
    if progress.action is not None:
        action = convert(progress.action, schemas.Action)
    return schemas.Order(
        id=order.pk,
        sale=order.sale_id,
        quantity=order.quantity,
        amount=Money(order.amount, currency),
        status=order.status,
        pay_before=order.pay_before,
        created=order.created,
        refunded=Money(order.refunded, currency),
        payment=progress.state,
        action=action,
        lines=[
            schemas.OrderLine(
                sale=line.sale_id,
                quantity=line.quantity,
                returned=line.returned,
                amount=Money(line.amount, currency),
                tax_rate=float(line.tax_rate),
                tax=Money(included_tax(line.amount, line.tax_rate), currency),
            )
            for line in lines
        ],
        fees=[
            schemas.Fee(
                name=fee.name,
                amount=Money(fee.amount, currency),
                tax_rate=float(fee.tax_rate),
                tax=Money(included_tax(fee.amount, fee.tax_rate), currency),
            )
            for fee in order.fee_lines
        ],
        **order.details,
    )


def _terms(body: schemas.Purchase | schemas.Cart) -> dict[str, Any]:
    """Return what the buyer states with an order, as `buy` and `check_out` take it."""
    return {
        "details": {name: getattr(body, name) for name in Order.DETAILS},
        "expected_amount": None if body.expected_amount is UNSET else body.expected_amount,
        "early_code": "" if body.early_code is UNSET else body.early_code,
    }


def _bought(bought: Bought) -> Result:
    hooks.failpoint(BEFORE_ANSWER)
    return 200 if bought.replayed else 201, order_document(bought.order)


def _own_order(order: int, buyer: int) -> Order:
    # Another buyer's order is "not found" and not "forbidden", so that nobody can count orders.
    own = Order.objects.filter(pk=order, buyer=buyer).for_change()
    found = own.first()
    if found is None:
        raise Refusal("not_found")
    return found


def _own_part(
    order: int, buyer: int, key: UUID | None, body: schemas.Part
) -> tuple[Order, Part | None]:
    """Return the buyer's order, and the part of it that the body names; None for all of it.

    A part needs a key: without one, a repeated request would give another unit back. A line alone
    is refused, since it would return the whole order.
    """
    whole = body.quantity is UNSET
    if whole and body.sale is not UNSET:
        raise Refusal("invalid_quantity", detail="`sale` needs `quantity`")
    if body.all is False or (body.all is True and not whole):
        raise Refusal("invalid_request", detail="`all` must be true, and without `quantity`")
    found = _own_order(order, buyer)
    if body.quantity is UNSET:
        return found, None
    if key is None:
        raise Refusal("idempotency_key_missing")
    return found, Part(body.quantity, key, None if body.sale is UNSET else body.sale)
