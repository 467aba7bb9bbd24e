"""A payment provider that says yes to everything and moves no money."""

from __future__ import annotations

from shop.payments.models import Payment
from shop.payments.provider import Intent, IntentStatus, Provider, ProviderRefund


class SaysYes(Provider):
    """Keeps nothing: the id of a payment says all about it, in every process."""

    def create_intent(self, *, order: int, amount: int, currency: str, key: str) -> Intent:
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

    def find(self, order: int) -> list[Intent]:
        """Return the payments that the shop has captured."""
        captured = Payment.objects.filter(order=order, state=Payment.State.CAPTURED)
        return [_intent(payment.intent, "captured") for payment in captured.order_by("pk")]


def _intent(known: str, status: IntentStatus) -> Intent:
    _, order, amount, currency, key = known.split(":", 4)
    return Intent(known, int(order), int(amount), currency, status, reference=key)
