"""The interface of a payment provider: every call that the shop makes.

To use a real provider, implement `Provider` and name it in `PAYMENT_PROVIDER`. The shop
relies on this:

- Every call that moves money carries an idempotency key. Repeats of a request with its key get the
  first answer, however many and however late. A key has letters, digits and hyphens, at most 120.
- What is answered is compared with what was asked (`shop.payments.verification`), so an adapter
  returns what its provider says, not what the shop has sent.
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

from shop import money
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
        amount: to be captured, or captured; in the provider's minor units.
        currency: ISO 4217 code.
        status: `requires_capture` (nothing moved yet), `processing` (a webhook will follow),
            `captured`, `failed` or `cancelled`.
        refunded: amount refunded so far, likewise.
        reference: the key under which it was created, if the provider can keep it (Stripe:
            `metadata`); by that, two shops on one account are told apart. Empty if not.
    """

    id: str
    order: int
    amount: int
    currency: str
    status: IntentStatus
    refunded: int = 0
    reference: str = ""


@dataclass(frozen=True, slots=True)
class ProviderRefund:
    """A refund in the provider's view.

    Attributes:
        id: the provider's id.
        intent: the refunded payment.
        amount: in the provider's minor units of the payment's currency.
        status: `pending` (a webhook will follow), `succeeded` or `failed`. One that succeeded may
            fail later.
        currency: ISO 4217 code; empty if the provider does not say.
    """

    id: str
    intent: str
    amount: int
    status: RefundStatus
    currency: str = ""


@dataclass(frozen=True, slots=True)
class Dispute:
    """A buyer's bank demands the money of a payment back (a chargeback).

    Attributes:
        id: the provider's id.
        intent: the disputed payment.
        amount: in the provider's minor units of the payment's currency.
        status: `won` if the money stays or is back with the shop; `lost`, `open` or anything else
            while it is not.
    """

    id: str
    intent: str
    amount: int
    status: str


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """Money that the provider moved: a capture or a refund, in its minor units."""

    id: int
    order: int
    intent: str
    operation: Literal["capture", "refund"]
    amount: int
    currency: str
    reference: str = ""


class Provider(ABC):
    """What a payment provider does for the shop.

    All its amounts, in calls and in answers, are in the provider's own minor units: see `decimals`.

    Every method may raise `PaymentUnknown`, and those that move money
    `PaymentDeclined`. They are never called inside a database transaction, which would make
    others wait for the provider.
    """

    def decimals(self, currency: str) -> int:
        """Return how many decimal places the provider counts a currency's amounts in.

        ISO 4217's, unless an adapter says otherwise. Stripe, for example, counts MGA without
        decimal places, where ISO 4217 has two, and ISK and UGX with two, where it has none.
        """
        return money.decimals(currency)

    @abstractmethod
    def create_intent(self, *, order: int, amount: int, currency: str, key: str) -> Intent:
        """Create a payment; no money is moved yet.

        Args:
            order: id of the order, which the provider repeats in every message on this payment.
            amount: in the provider's minor units.
            currency: ISO 4217 code.
            key: idempotency key, and the reference to keep with the payment: it names this
                database, the order and the attempt.
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
            amount: in the provider's minor units of the payment's currency.
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


def to_provider(amount: int, currency: str) -> int:
    """Convert an amount of the books to the provider's minor units.

    Raises:
        PaymentDeclined: the provider cannot express it.
    """
    finer, coarser = _factors(currency)
    units, rest = divmod(amount * finer, coarser)
    if rest:
        raise PaymentDeclined("amount_not_expressible")
    return units


def from_provider(amount: int, currency: str) -> int:
    """Convert an amount of the provider to the books' minor units; a fraction is rounded up, so
    that it differs from whatever the books say.
    """
    finer, coarser = _factors(currency)
    return -(-amount * coarser // finer)


def _factors(currency: str) -> tuple[int, int]:
    """Return by what to multiply, and by what to divide, an amount of the books."""
    places: int = provider().decimals(currency) - money.decimals(currency)
    return int(10 ** max(places, 0)), int(10 ** max(-places, 0))


@cache
def provider() -> Provider:
    """Return the provider that the settings name; one object per process."""
    kind: type[Provider] = import_string(settings.PAYMENT_PROVIDER)
    return kind()
