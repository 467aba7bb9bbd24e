"""The interface of a payment provider: every call that the shop makes.

To use a real provider, write a :class:`Provider` for it and name it in ``PAYMENT_PROVIDER``. What
the shop relies on:

- Every call that moves money carries an idempotency key. The same key and the same request get
  the first answer again, however often and however much later they come.
- Only a definite answer is definite. A time-out, a cut connection or a server error is
  :class:`PaymentUnknown`: it may have happened, and the same call again finds out.
- What changes on its own (a capture that took a while) is told by a signed webhook, at least once
  and in any order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Literal

from django.conf import settings
from django.utils.module_loading import import_string

IntentStatus = Literal["requires_capture", "processing", "captured", "failed", "cancelled"]
RefundStatus = Literal["pending", "succeeded", "failed"]


class PaymentDeclined(Exception):
    """The provider definitely refused: no money was moved.

    Attributes:
        code: the provider's own word for why.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class PaymentUnknown(Exception):
    """No definite answer came. It may have happened; the same call with the same key finds out."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A payment as the provider knows it.

    Attributes:
        id: the provider's own.
        order: what the shop called it.
        amount: to be captured, or captured; in minor units.
        currency: ISO 4217 code.
        status: ``requires_capture`` (nothing moved yet), ``processing`` (a webhook will tell),
            ``captured``, ``failed`` or ``cancelled``.
        refunded: how much of it went back so far.
    """

    id: str
    order: int
    amount: int
    currency: str
    status: IntentStatus
    refunded: int = 0


@dataclass(frozen=True, slots=True)
class ProviderRefund:
    """A refund as the provider knows it.

    Attributes:
        id: the provider's own.
        intent: whose money.
        amount: how much, in minor units of the payment's currency.
        status: ``pending`` (a webhook will tell), ``succeeded`` or ``failed``.
    """

    id: str
    intent: str
    amount: int
    status: RefundStatus


class Provider(ABC):
    """What a payment provider does for the shop.

    Every method may raise :class:`PaymentUnknown`, and those that move something
    :class:`PaymentDeclined`. Never called inside a database transaction: others would wait for
    the provider.
    """

    @abstractmethod
    def create_intent(self, *, order: int, amount: int, currency: str, key: str) -> Intent:
        """Announce a payment; nothing is moved yet.

        Args:
            order: id of the order, given back with everything about this payment.
            amount: in minor units.
            currency: ISO 4217 code.
            key: idempotency key.
        """

    @abstractmethod
    def capture(self, intent: str, *, key: str) -> Intent:
        """Take the money; ``captured``, or ``processing`` if that takes a while."""

    @abstractmethod
    def cancel(self, intent: str, *, key: str) -> Intent:
        """Give up a payment that was not captured; afterwards it never will be."""

    @abstractmethod
    def refund(self, intent: str, *, amount: int, key: str) -> ProviderRefund:
        """Give money back, never more in all than was captured.

        Args:
            intent: whose money.
            amount: in minor units of the payment's currency.
            key: idempotency key.
        """

    @abstractmethod
    def find(self, order: int) -> list[Intent]:
        """Every payment of an order that the provider knows, oldest first."""


@cache
def provider() -> Provider:
    """Return the provider that the settings name; one object per process."""
    kind: type[Provider] = import_string(settings.PAYMENT_PROVIDER)
    return kind()
