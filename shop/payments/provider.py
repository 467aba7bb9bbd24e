"""The interface of a payment provider: every call that the shop makes.

To use a real provider, implement `Provider` and name it in `PAYMENT_PROVIDER`. The shop
relies on this:

- Every call that moves money carries an idempotency key. Repeats of a request with its key get the
  first answer, however many and however late.
- Only a definite answer is definite. A timeout, a cut connection or a server error is
  `PaymentUnknown`: the request may have succeeded, and repeating it gets the result.
- Later changes (such as a capture that takes a while) arrive as signed webhooks, at least once
  and in any order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from django.conf import settings
from django.utils.module_loading import import_string

from shop.refusals import Refusal

IntentStatus = Literal["requires_capture", "processing", "captured", "failed", "cancelled"]
RefundStatus = Literal["pending", "succeeded", "failed"]


class PaymentDeclined(Exception):
    """The provider refused: no money was moved.

    Attributes:
        code: the provider's code for the reason.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class PaymentUnknown(Refusal):
    """No definite answer came. Repeating the call with the same key gets the result.

    Args:
        reason: for the log; a buyer is not told.
    """

    def __init__(self, reason: str) -> None:
        super().__init__("outcome_unknown")
        self._reason = reason

    def __str__(self) -> str:
        return self._reason


@dataclass(frozen=True, slots=True)
class Intent:
    """A payment in the provider's view.

    Attributes:
        id: the provider's id.
        order: the shop's order id.
        amount: to be captured, or captured; in minor units.
        currency: ISO 4217 code.
        status: `requires_capture` (nothing moved yet), `processing` (a webhook will follow),
            `captured`, `failed` or `cancelled`.
        refunded: amount refunded so far.
    """

    id: str
    order: int
    amount: int
    currency: str
    status: IntentStatus
    refunded: int = 0


@dataclass(frozen=True, slots=True)
class ProviderRefund:
    """A refund in the provider's view.

    Attributes:
        id: the provider's id.
        intent: the refunded payment.
        amount: in minor units of the payment's currency.
        status: `pending` (a webhook will follow), `succeeded` or `failed`.
    """

    id: str
    intent: str
    amount: int
    status: RefundStatus


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """Money that the provider moved: a capture or a refund, in minor units of the currency."""

    id: int
    order: int
    intent: str
    operation: Literal["capture", "refund"]
    amount: int
    currency: str


class Provider(ABC):
    """What a payment provider does for the shop.

    Every method may raise `PaymentUnknown`, and those that move money
    `PaymentDeclined`. They are never called inside a database transaction, which would make
    others wait for the provider.
    """

    @abstractmethod
    def create_intent(self, *, order: int, amount: int, currency: str, key: str) -> Intent:
        """Create a payment; no money is moved yet.

        Args:
            order: id of the order, which the provider repeats in every message on this payment.
            amount: in minor units.
            currency: ISO 4217 code.
            key: idempotency key.
        """

    @abstractmethod
    def capture(self, intent: str, *, key: str) -> Intent:
        """Capture the money; `captured`, or `processing` if that takes a while."""

    @abstractmethod
    def cancel(self, intent: str, *, key: str) -> Intent:
        """Cancel a payment that was not captured; afterwards it never will be."""

    @abstractmethod
    def refund(self, intent: str, *, amount: int, key: str) -> ProviderRefund:
        """Refund money, in total never more than was captured.

        Args:
            intent: the payment.
            amount: in minor units of the payment's currency.
            key: idempotency key.
        """

    @abstractmethod
    def find(self, order: int) -> list[Intent]:
        """Return every payment of an order that the provider knows, oldest first."""

    def ledger(self) -> Iterable[LedgerLine] | None:
        """Return every movement of money, oldest first, for the audit to compare with.

        None if the provider lists none; then the audit compares nothing with it.
        """
        return None


@cache
def provider() -> Provider:
    """Return the provider that the settings name; one object per process."""
    kind: type[Provider] = import_string(settings.PAYMENT_PROVIDER)
    return kind()
