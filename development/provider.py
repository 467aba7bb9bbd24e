"""A payment provider that says yes to everything and moves no money."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from shop.payments.models import Payment
from shop.payments.provider import (
    Event,
    Intent,
    IntentStatus,
    NotFromProvider,
    Provider,
    ProviderRefund,
)


class SaysYes(Provider):
    """Keeps nothing: the id of a payment says all about it, in every process."""

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
        """Agree to a payment."""
        return _intent(f"yes:{order}:{amount}:{currency}:{key}", "requires_capture")

    def capture(self, intent: str, *, key: str) -> Intent:
        """Say that the money has arrived."""
        return _intent(intent, "captured")

    def cancel(self, intent: str, *, key: str) -> Intent:
        """Say that the payment is cancelled."""
        return _intent(intent, "cancelled")

    def refund(self, intent: str, *, amount: int, key: str) -> ProviderRefund:
        """Say that the money has gone back."""
        return ProviderRefund(id=key, intent=intent, amount=amount, status="succeeded")

    def get(self, intent: str) -> Intent:
        """Say that the money has arrived, if the shop has captured it."""
        captured = Payment.objects.filter(intent=intent, state=Payment.State.CAPTURED).exists()
        return _intent(intent, "captured" if captured else "requires_capture")

    def find_refund(self, intent: str, *, key: str) -> ProviderRefund | None:
        """Remember no refund: asking for it again moves no money either."""
        return None

    def verify(self, body: bytes, headers: Mapping[str, str]) -> list[Event]:
        """Refuse every webhook, since this provider sends none."""
        raise NotFromProvider


def _intent(known: str, status: IntentStatus) -> Intent:
    _, order, amount, currency, key = known.split(":", 4)
    return Intent(known, int(order), int(amount), currency, status, reference=key)
