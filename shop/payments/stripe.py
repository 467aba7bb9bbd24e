"""Stripe: payments by cards and whatever else the account accepts (docs/stripe.md).

A payment is a PaymentIntent with manual capture: Stripe's own script shows the form on the payment
page, the buyer's bank may ask the buyer there, and the shop captures what was authorised while the
order can still be paid. An attempt that failed may be repeated with the same PaymentIntent.

The package `stripe` sends the requests and checks the signatures. It repeats nothing by itself: the
shop does, under the same key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

import stripe
from django.conf import settings

from shop.payments.provider import (
    Action,
    Dispute,
    Event,
    Intent,
    IntentStatus,
    NotFromProvider,
    PaymentDeclined,
    PaymentUnknown,
    Provider,
    ProviderRefund,
    RefundStatus,
    measured,
    order_named,
)

T = TypeVar("T")

TIMEOUT = (1.0, 5.0)
"""Seconds to connect, and to wait for each part of an answer."""

WITHOUT_DECIMALS = frozenset(
    {
        "BIF",
        "CLP",
        "DJF",
        "GNF",
        "JPY",
        "KMF",
        "KRW",
        "MGA",
        "PYG",
        "RWF",
        "VND",
        "VUV",
        "XAF",
        "XOF",
        "XPF",
    }
)
"""Currencies that Stripe counts in whole units; all others but the next in hundredths, also ISK and
UGX. From https://docs.stripe.com/currencies."""

THREE_DECIMALS = frozenset({"BHD", "JOD", "KWD", "OMR", "TND"})
"""Currencies that Stripe counts in thousandths, in amounts that are a multiple of ten."""

STATUSES: Mapping[str, IntentStatus] = {
    "requires_payment_method": "requires_action",
    "requires_confirmation": "requires_action",
    "requires_action": "requires_action",
    "requires_capture": "requires_capture",
    "processing": "processing",
    "succeeded": "captured",
    "canceled": "cancelled",
}

REFUND_STATUSES: Mapping[str, RefundStatus] = {
    "pending": "pending",
    "requires_action": "pending",
    "succeeded": "succeeded",
    "failed": "failed",
    "canceled": "failed",
}

REFUSALS = frozenset(
    {
        "amount_too_large",
        "amount_too_small",
        "charge_already_captured",
        "charge_already_refunded",
        "charge_disputed",
        "charge_expired_for_capture",
        "payment_intent_unexpected_state",
        "payment_intent_authentication_failure",
    }
)
"""Codes of invalid requests after which no money was moved. The others may be a mistake of ours,
which says nothing about the buyer's money."""


class Stripe(Provider):
    """A client of Stripe's API."""

    script = "https://js.stripe.com/v3/"
    form_script = "shop/stripe.js"
    sources: Mapping[str, str] = {
        "script-src": "https://js.stripe.com https://*.js.stripe.com",
        "frame-src": "https://js.stripe.com https://*.js.stripe.com https://hooks.stripe.com",
        "connect-src": "https://api.stripe.com",
    }

    @property
    def public_key(self) -> str:
        """Return the publishable key."""
        key: str = settings.PSP_PUBLIC_KEY
        return key

    def decimals(self, currency: str) -> int:
        """Return how many decimal places Stripe counts a currency's amounts in."""
        if currency in WITHOUT_DECIMALS:
            return 0
        return 3 if currency in THREE_DECIMALS else 2

    def step(self, currency: str) -> int:
        """Return of how many of Stripe's units an amount must be a multiple."""
        return 10 if currency in THREE_DECIMALS else 1

    def create_intent(
        self,
        *,
        order: int,
        amount: int,
        currency: str,
        key: str,
        return_url: str = "",
        expires: datetime | None = None,
    ) -> Intent:
        """Create a PaymentIntent. It has no end of its own: the shop cancels it."""
        params: Any = {
            "amount": amount,
            "currency": currency.lower(),
            "capture_method": "manual",
            "metadata": {"order": str(order), "reference": key},
        }
        intents = self._client.v1.payment_intents
        return _intent(_ask(lambda: intents.create(params, {"idempotency_key": key})))

    def capture(self, intent: str, *, key: str) -> Intent:
        """Capture what the buyer has authorised."""
        intents = self._client.v1.payment_intents
        return _intent(_ask(lambda: intents.capture(intent, {}, {"idempotency_key": key})))

    def cancel(self, intent: str, *, key: str) -> Intent:
        """Cancel a PaymentIntent, and release what was authorised."""
        intents = self._client.v1.payment_intents
        return _intent(_ask(lambda: intents.cancel(intent, {}, {"idempotency_key": key})))

    def refund(self, intent: str, *, amount: int, key: str) -> ProviderRefund:
        """Refund money. The key is in its metadata, by which `find_refund` knows it."""
        params: Any = {
            "payment_intent": intent,
            "amount": amount,
            "metadata": {"reference": key},
        }
        refunds = self._client.v1.refunds
        return _refund(_ask(lambda: refunds.create(params, {"idempotency_key": key})))

    def get(self, intent: str) -> Intent:
        """Return the present state of a PaymentIntent."""
        return _intent(_ask(lambda: self._client.v1.payment_intents.retrieve(intent)))

    def find_refund(self, intent: str, *, key: str) -> ProviderRefund | None:
        """Return the refund whose metadata has the key. Stripe's lists do not lag; searches do."""

        def find() -> stripe.Refund | None:
            params: Any = {"payment_intent": intent, "limit": 100}
            for refund in self._client.v1.refunds.list(params).auto_paging_iter():
                if _metadata(refund).get("reference") == key:
                    return refund
            return None

        found = _ask(find)
        return _refund(found) if found is not None else None

    def verify(self, body: bytes, headers: Mapping[str, str]) -> list[Event]:
        """Check a webhook's `Stripe-Signature`, and return its event."""
        signature, secret = headers.get("Stripe-Signature", ""), settings.PSP_WEBHOOK_SECRET
        try:
            event = stripe.Webhook.construct_event(body, signature, secret)
        except stripe.SignatureVerificationError as error:
            raise NotFromProvider from error
        return [Event(event.id, event.type[:60], _subject(event.data.object), event.created)]

    @cached_property
    def _client(self) -> stripe.StripeClient:
        return stripe.StripeClient(
            settings.PSP_KEY,
            base_addresses={"api": settings.PSP_URL or "https://api.stripe.com"},
            http_client=stripe.RequestsClient(timeout=TIMEOUT),
            max_network_retries=0,
        )


def _ask(call: Callable[[], T]) -> T:
    """Make a call.

    Raises:
        PaymentDeclined: no money was or will be moved by it.
        PaymentUnknown: all other errors.
    """
    with measured():
        try:
            return call()
        except stripe.CardError as error:
            raise PaymentDeclined(error.code or "card_error") from error
        except stripe.InvalidRequestError as error:
            if error.code in REFUSALS:
                raise PaymentDeclined(str(error.code)) from error
            raise PaymentUnknown(f"Stripe: {error!r}") from error
        except stripe.StripeError as error:
            raise PaymentUnknown(f"Stripe: {error!r}") from error


def _subject(about: Any) -> Intent | ProviderRefund | Dispute | None:
    """Return what an event is about, if the shop has a use for it."""
    if isinstance(about, stripe.PaymentIntent):
        return _intent(about)
    if isinstance(about, stripe.Refund) and about.payment_intent:
        return _refund(about)
    if isinstance(about, stripe.Dispute) and about.payment_intent:
        # An inquiry (`warning_…`) that is closed has taken no money.
        status = "won" if about.status == "warning_closed" else about.status
        return Dispute(about.id, _id(about.payment_intent), about.amount, status)
    return None


def _intent(found: stripe.PaymentIntent) -> Intent:
    metadata = _metadata(found)
    status = STATUSES.get(found.status, "processing")
    action = None
    if status == "requires_action" and found.client_secret:
        action = Action("script", client_secret=found.client_secret)
    return Intent(
        id=found.id,
        order=order_named(metadata.get("order", "")),
        amount=found.amount,
        currency=found.currency.upper(),
        status=status,
        reference=metadata.get("reference", ""),
        action=action,
    )


def _refund(found: stripe.Refund) -> ProviderRefund:
    return ProviderRefund(
        id=found.id,
        intent=_id(found.payment_intent),
        amount=found.amount,
        status=REFUND_STATUSES.get(found.status or "", "pending"),
        currency=found.currency.upper(),
    )


def _metadata(found: Any) -> dict[str, str]:
    return dict(found.metadata.to_dict()) if found.metadata else {}


def _id(found: Any) -> str:
    """Return the id of an object that may be given as a whole."""
    return found if isinstance(found, str) else str(found.id)
