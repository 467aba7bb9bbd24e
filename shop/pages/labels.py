"""Labels of states and events, for pages."""

from __future__ import annotations

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from shop.refusals import MAY_COME_BACK

LABELS: dict[str, dict[str, Promise]] = {
    "shelf": {
        "on_now": _("Current sales"),
        "coming_up": _("Upcoming sales"),
        "over": _("Past sales"),
    },
    "sale_status": {
        "open": _("On sale now"),
        "not_started": _("Coming soon"),
        "paused": _("Paused"),
        "sold_out": _("Sold out"),
        "may_come_back": _("All reserved, may come back"),
        "ended": _("Ended"),
    },
    "order_status": {
        "awaiting_payment": _("Awaiting payment"),
        "paid": _("Paid"),
        "expired": _("Expired"),
        "cancelled": _("Cancelled"),
        "fulfilled": _("Handed over"),
        "refund_pending": _("Refund in progress"),
        "refunded": _("Refunded"),
    },
    "order_about": {
        "awaiting_payment": _("Your order is reserved. Please pay before the deadline."),
        "paid": _("Payment received. Thank you for your purchase!"),
        "expired": _("This order was not paid in time and has expired."),
        "cancelled": _("This order has been cancelled."),
        "fulfilled": _("Your order has been handed over. Enjoy!"),
        "refund_pending": _("Your refund for this order is in progress."),
        "refunded": _("Your payment for this order has been refunded."),
    },
    "order_event": {
        "paid": _("Paid"),
        "paid_late": _("Paid after the deadline; the items were still available"),
        "fulfilled": _("Handed over"),
        "expired": _("Not paid in time"),
        "cancelled": _("Cancelled"),
        "returned": _("Returned"),
        "taken_back": _("Returned"),
        "renewed": _("Reserved again"),
        "extended": _("More time to pay"),
        "refunded": _("Refund complete"),
        "payment_failed": _("Payment failed; you were not charged"),
        "part_cancelled": _("Partly cancelled"),
        "part_returned": _("Partly returned"),
        "money_owed": _("Paid too late or too much; the excess will be refunded"),
        "money_back": _("Money refunded"),
        "goodwill": _("You get some money back"),
        "refund_by_hand": _("Money refunded"),
        "refund_failed": _("The refund failed; we are looking into it"),
        "refund_reopened": _("The refund came back to us; we are looking into it"),
        "payment_reversed": _("Your bank reports that the payment failed; we are looking into it"),
        "disputed": _("Your bank has disputed the payment"),
        "dispute_won": _("The dispute about the payment is settled"),
        "dispute_lost": _("Your bank has taken the payment back"),
        "mail_resent": _("Mail sent again"),
    },
}
"""By subject, then by value: `LABELS["order_status"]["paid"]`."""

WITHOUT_PAYMENTS: dict[str, dict[str, Promise]] = {
    "order_status": {
        "awaiting_payment": _("Being confirmed"),
        "paid": _("Confirmed"),
        "refund_pending": _("Returned"),
        "refunded": _("Returned"),
    },
    "order_about": {
        "awaiting_payment": _("We are confirming your order."),
        "paid": _("Your order is confirmed. Thank you!"),
        "expired": _("This order was not confirmed in time and has expired."),
        "refund_pending": _("This order has been returned."),
        "refunded": _("This order has been returned."),
    },
    "order_event": {
        "paid": _("Confirmed"),
        "expired": _("Not confirmed in time"),
        "refunded": _("Return complete"),
    },
}
"""The labels that differ in a shop that takes no payments."""


def label(subject: str, value: str) -> Promise:
    """Return the label of a value."""
    others = {} if settings.PAYMENT_PROVIDER else WITHOUT_PAYMENTS.get(subject, {})
    return others.get(value, LABELS[subject][value])


SCRIPT: dict[str, Promise] = {
    **{f"status_{status}": label for status, label in LABELS["sale_status"].items()},
    "starts_in": _("Starts in"),
    "ends_in": _("Ends in"),
    "days": pgettext_lazy("abbreviation of days", "d"),
    "left": _("%(available)s of %(total)s left"),
    "buy": _("Buy now"),
    "buying": _("Placing your order…"),
    "safe_to_click_twice": _("Clicking twice places only one order."),
    "may_come_back": MAY_COME_BACK,
    "now_open": _("The sale is open."),
    "seconds_to_go": _("The sale opens in %(seconds)s seconds."),
    "copied": _("Copied"),
}
"""Messages that `shop.js` shows, by name."""
