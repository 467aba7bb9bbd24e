"""Refusals: every code with its HTTP status and message, for the API and the pages.

The messages are English here and Chinese in `locale/`.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True, slots=True)
class Problem:
    """What a code tells the client.

    Attributes:
        status: HTTP status.
        title: message to API clients, translated on output.
        retry_after: seconds after which a client may retry; None if that does not help.
    """

    status: int
    title: Promise
    retry_after: int | None = None


PROBLEMS: dict[str, Problem] = {
    # the request
    "malformed": Problem(400, _("The request body is not valid JSON.")),
    "unknown_host": Problem(400, _("This host name is not served here.")),
    "idempotency_key_missing": Problem(
        400,
        _("Send an Idempotency-Key header containing a UUID, and reuse it when you retry."),
    ),
    "unauthorized": Problem(401, _("A valid buyer token is required.")),
    "bad_signature": Problem(401, _("The signature is invalid or has expired.")),
    "wrong_credentials": Problem(401, _("The username or password is incorrect.")),
    "not_found": Problem(404, _("Not found.")),
    "method_not_allowed": Problem(405, _("This method is not allowed here.")),
    "too_large": Problem(413, _("The request body is too large.")),
    "invalid_quantity": Problem(422, _("The quantity must be a whole number from 1 to 1000.")),
    "amount_too_large": Problem(
        422, _("The order's total is too large. Choose a smaller quantity.")
    ),
    "invalid_request": Problem(422, _("A field of the request is missing or invalid.")),
    "invalid_cart": Problem(
        422,
        _(
            "A cart must contain 1 to 20 lines, each for a different sale "
            "and all in the same currency."
        ),
    ),
    "idempotency_key_reused": Problem(
        422, _("This Idempotency-Key was already used for a different purchase.")
    ),
    # the sale
    "not_started": Problem(403, _("This sale has not started yet.")),
    "paused": Problem(403, _("This sale is paused.")),
    "sold_out": Problem(409, _("Sold out.")),
    "limit_reached": Problem(409, _("You have reached the purchase limit for this sale.")),
    "price_changed": Problem(
        409,
        _("The price is higher now than when you looked. Send the new amount to accept it."),
    ),
    "draw_only": Problem(
        409, _("This sale is a draw. Enter it instead; the winners may buy when it is over.")
    ),
    "ended": Problem(410, _("This sale has ended.")),
    # the load
    "rate_limited": Problem(
        429, _("Too many requests. Please wait a moment and try again."), retry_after=1
    ),
    "login_throttled": Problem(
        429, _("Too many failed attempts. Please try again in a few minutes."), retry_after=60
    ),
    "busy": Problem(
        503,
        _("The shop is overloaded, and nothing was done. Please try again in a few seconds."),
        retry_after=1,
    ),
    "outcome_unknown": Problem(
        503,
        _(
            "The outcome is not known yet. Send the same request again to find out, "
            "with the same Idempotency-Key if you sent one."
        ),
        retry_after=2,
    ),
    "not_yet": Problem(
        503,
        _(
            "The record that this event refers to does not exist yet. "
            "Please send the event again later."
        ),
        retry_after=1,
    ),
    "internal_error": Problem(500, _("Something went wrong on our side.")),
    # the order
    "order_awaiting_payment": Problem(409, _("This order has not been paid yet.")),
    "order_paid": Problem(409, _("This order has already been paid.")),
    "order_expired": Problem(409, _("The payment deadline for this order has passed.")),
    "order_cancelled": Problem(409, _("This order has been cancelled.")),
    "order_fulfilled": Problem(409, _("This order has already been handed over.")),
    "order_refund_pending": Problem(
        409, _("This order was returned, and its refund is in progress.")
    ),
    "order_refunded": Problem(409, _("This order has been refunded.")),
    "payment_declined": Problem(409, _("The payment was declined. You were not charged.")),
}
"""Problems of the API by code. Codes are stable: clients branch on them."""

OF_STAFF: dict[str, Problem] = {
    "too_much_back": Problem(409, _("That is more than what was paid and has not gone back yet.")),
    "number_reused": Problem(409, _("This number of the provider is recorded already.")),
    "not_renewable": Problem(
        409,
        _(
            "The order cannot be held again: its units are sold, its buyer has reached the limit, "
            "or it was paid too late. Let the buyer order again."
        ),
    ),
    "no_address": Problem(409, _("The buyer has no confirmed email address.")),
}
"""Problems that only staff meet, in the admin."""

MAY_COME_BACK = _("Some orders are not final yet. Their items may go back on sale.")
"""The detail of `sold_out` while reservations are unpaid."""


class Refusal(Exception):
    """A request was refused.

    Attributes:
        code: one of `PROBLEMS` or, in the admin, of `OF_STAFF`.
        detail: the exact error, for the client's programmer.
        more: figures, such as the units still available; none that are None.
    """

    def __init__(self, code: str, *, detail: str = "", **more: int | None) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail
        self.more = {name: figure for name, figure in more.items() if figure is not None}
